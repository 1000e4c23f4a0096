"""Names to files, and a scenario with everything it names.

A name is looked for as a path, then in the working folder, then in the folders of COSTMODEL_PATH, then
among the shipped documents. Every reference may also be written out in place; `--set` uses that to reach
any leaf: a path that goes through a name writes the named document out first.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from costmodel.documents.efficiency import Efficiency
from costmodel.documents.faults import nearest, validate
from costmodel.documents.files import file_text
from costmodel.documents.folders import FOLDER_OF, has, places
from costmodel.documents.folders import names as names
from costmodel.documents.folders import roots as roots
from costmodel.documents.hardware import Accelerator, Fabric, Node
from costmodel.documents.measurement import Measured, Run
from costmodel.documents.model import Model
from costmodel.documents.optimizer import Optimizer
from costmodel.documents.overrides import assign
from costmodel.documents.reading import COMMAND_LINE, WORTH_KEEPING, Mapping, copied, read_tree
from costmodel.documents.scenario import Scenario
from costmodel.documents.sources import Provenance as Provenance
from costmodel.documents.sources import bibliography as bibliography
from costmodel.documents.sources import glossary as glossary
from costmodel.documents.sources import provenance as provenance
from costmodel.documents.sources import strategies as strategies
from costmodel.documents.sources import uncited
from costmodel.documents.stack import Stack
from costmodel.errors import CostModelError, Fault, Place, fail

UNMEASURED = "unmeasured"  # the efficiency of everything that has none

_MODELS: dict[str, type[BaseModel]] = {
    "accelerator": Accelerator,
    "fabric": Fabric,
    "node": Node,
    "efficiency": Efficiency,
    "model": Model,
    "stack": Stack,
    "optimizer": Optimizer,
    "scenario": Scenario,
    "measured": Measured,
}
FOLDERS = {kind: (folder, _MODELS[kind]) for kind, folder in FOLDER_OF.items()}


@dataclass(frozen=True)
class Case:
    """A scenario with every document it names, ready to be estimated."""

    scenario: Scenario
    model: Model
    stack: Stack
    optimizer: Optimizer
    node: Node
    accelerator: Accelerator
    scale_up: Fabric
    scale_out: Fabric
    host: Fabric | None
    efficiency: Efficiency
    network: Efficiency
    common: Efficiency  # its residuals stand in where a fit has none
    digests: dict[str, str] = field(default_factory=dict)
    trees: dict[str, Any] = field(default_factory=dict)
    tree: dict[str, Any] = field(default_factory=dict)
    name: str = ""  # as it was asked for, with what was changed on the way in
    assignments: tuple[str, ...] = ()

    def place(self, path: str) -> Place | None:
        """Where the scenario says a leaf, if it does."""
        return _place_of(self.tree, path)


def find(kind: str, name: str, place: Place | None = None) -> Path:
    """The file a name means."""
    if name.endswith((".yaml", ".yml", ".json")) or os.sep in name:
        return Path(name)
    for path in places(kind, name):
        if os.path.isfile(path):
            return path
    known = names(kind)
    close = nearest(name, known, 0.6) or next((other for other in known if name and other.startswith(name)), "")
    hint = f"did you mean '{close}'?" if close else f"costmodel list {plural(kind)} shows them all"
    other = next((other for other in FOLDERS if other != kind and name in names(other)), None)
    sentence = f"there is no {kind} named '{name}'" + (
        f"; '{name}' is the name of a{'n' if other[0] in 'ae' else ''} {other}" if other else ""
    )
    if name and os.path.isfile(name):
        hint = f"for the file write .{os.sep}{name}"
    raise fail("D009", sentence, place or Place(COMMAND_LINE), hint)


def plural(kind: str) -> str:
    """A kind as `costmodel list` calls its shelf."""
    return f"{kind[:-1]}ies" if kind.endswith("y") else kind if kind == "measured" else f"{kind}s"


def _shown(path: Path) -> str:
    for root in roots():
        if path.is_absolute() and path.is_relative_to(root):
            return str(path.relative_to(root))
    return str(path)


@dataclass
class Reader:
    """Reads named documents once, keeping digests and writing references out in place."""

    digests: dict[str, str] = field(default_factory=dict)
    trees: dict[str, Any] = field(default_factory=dict)

    origin: dict[tuple[str, str], Any] = field(default_factory=dict)
    found: list[Fault] = field(default_factory=list)

    def text(self, kind: str, name: str, place: Place | None = None, *, piped: bool = False) -> tuple[str, str]:
        """The text of a named document, and how its file is shown."""
        piped = piped and name == "-"
        path = Path(name) if piped else find(kind, name, place)
        text = file_text("-") if piped else file_text(str(path), place)
        shown = "<stdin>" if piped else _shown(path)
        self.digests[shown] = hashlib.sha256(text.encode()).hexdigest()[:12]
        return text, shown

    def tree(self, kind: str, name: str, place: Place | None = None, *, piped: bool = False) -> tuple[Any, str]:
        """The tree of a named document, to be changed; what was wrong with its text waits in `found`."""
        text, shown = self.text(kind, name, place, piped=piped)
        tree, faults = read_tree(text, shown)
        self.trees[shown] = self.origin[kind, name] = tree
        self.found += faults
        return tree, shown

    def checked(self, kind: str, tree: Any, shown: str) -> Any:
        """The tree as a document, with every fault of its text and of its keys at once."""
        found, self.found = self.found, []
        return _checked(kind, tree, shown, found)

    def document(self, kind: str, reference: Any, place: Place | None = None) -> Any:
        """A document by name, or the one written out in place."""
        if not isinstance(reference, str):
            return reference
        text, shown = self.text(kind, reference, place)
        document, tree = (_read if len(text) < WORTH_KEEPING else _read.__wrapped__)(kind, text, shown)
        self.trees[shown] = self.origin[kind, reference] = tree
        return document

    def documents(self, *wanted: tuple[str, Any, Place | None]) -> list[Any]:
        """Documents of these kinds, or the faults of all of them at once."""
        found: list[Any] = []
        faults: list[Fault] = []
        for kind, reference, place in wanted:
            try:
                found.append(self.document(kind, reference, place))
            except CostModelError as error:
                faults += error.faults
        if faults:
            raise CostModelError(*dict.fromkeys(faults))
        return found


def _checked(kind: str, tree: Any, shown: str, found: Sequence[Fault]) -> Any:
    document = validate(FOLDERS[kind][1], tree, shown, found)
    if unknown := list(uncited(tree)):
        raise CostModelError(*unknown)
    return document


@functools.lru_cache(maxsize=256)
def _read(kind: str, text: str, shown: str) -> tuple[Any, Any]:
    """A named document and its tree, which many cases share and nobody changes."""
    tree, faults = read_tree(text, shown)
    document = _checked(kind, tree, shown, faults)
    named = getattr(document, "name", None) or getattr(document, "of", None)
    if named and named != Path(shown).stem:
        written = _place_of(tree, "name", "of") or Place(shown)
        sentence = f"the file is named '{Path(shown).stem}' and the document '{named}'"
        raise fail("D013", sentence, written, "rename one of the two")
    return document, tree


def read(kind: str, name: str) -> Any:
    """One document by name or path, checked."""
    return Reader().document(kind, name)


def title_of(kind: str, name: str) -> str:
    """The title a document gives itself, found without checking the rest of it."""
    try:
        lines = file_text(str(find(kind, name))).splitlines()
    except CostModelError as error:
        return error.faults[0].sentence
    written = (line.removeprefix("title:").strip() for line in lines if line.startswith("title:"))
    return next((title.strip(title[:1]) if title[:1] in ("'", '"') else title for title in written), "")


def text_of(name: str, *, fitted: bool = False) -> list[tuple[str, str, str]]:
    """Kind, file and text of every document of that name; its fit when asked for, or when there is nothing else."""
    kinds = [kind for kind in FOLDERS if name in names(kind) and (kind == "efficiency") == fitted]
    kinds = kinds or [kind for kind in FOLDERS if name in names(kind)]
    if not kinds:
        known = sorted({known for kind in FOLDERS for known in names(kind)})
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(close)}?" if close else "costmodel list shows them all"
        raise fail("D009", f"there is no document named '{name}'", Place(COMMAND_LINE), hint)
    paths = [(kind, find(kind, name)) for kind in kinds]
    return [(kind, _shown(path), file_text(str(path))) for kind, path in paths]


def _scenario_tree(reader: Reader, name: str) -> tuple[Any, str]:
    tree, shown = reader.tree("scenario", name, piped=True)
    if isinstance(tree, dict) and tree.get("schema") == "costmodel/result/v1":
        inner = tree.get("scenario")
        document = inner.get("document") if isinstance(inner, dict) else None
        if not isinstance(document, dict):
            place = tree.place if isinstance(tree, Mapping) else Place(shown)
            raise fail("D004", "this result holds no scenario", place, "write it again with --json")
        return document, shown
    return tree, shown


def load(name: str, assignments: Iterable[str] = ()) -> Case:
    """A scenario by name, path or '-', with overrides, and every document it names."""
    reader, assignments = Reader(), tuple(assignments)
    tree, shown = _scenario_tree(reader, name)
    return replace(case_from(reader, tree, shown, assignments), name=name, assignments=assignments)


def case_from(reader: Reader, tree: dict[Any, Any], shown: str, assignments: Iterable[str]) -> Case:
    """The case of a scenario's tree, with assignments put into it."""
    if isinstance(tree, dict):
        assign(tree, assignments, lambda kind, name, place: reader.tree(kind, name, place)[0])
    return case_of(reader.checked("scenario", tree, shown), reader, tree)


def cases(measured: Measured) -> Iterator[tuple[Run, Case]]:
    """Every run of a measured table with the case it was measured in."""
    for run in measured.runs:
        assignments = [f"{path}={value}" for path, value in run.set.items()]
        yield run, case_from(Reader(), copied(measured.scenario), measured.name, assignments)


def case_of(scenario: Scenario, reader: Reader | None = None, tree: dict[str, Any] | None = None) -> Case:
    """A checked scenario with every document it names."""
    reader = reader or Reader()
    written = tree or {}
    model, stack, optimizer, node = reader.documents(
        ("model", scenario.model, _place_of(written, "model")),
        ("stack", scenario.stack, _place_of(written, "stack")),
        ("optimizer", scenario.workload.optimizer, _place_of(written, "workload.optimizer")),
        ("node", scenario.cluster.node, _place_of(written, "cluster.node")),
    )
    inner = reader.origin.get(("node", str(scenario.cluster.node))) or (written.get("cluster") or {}).get("node")
    accelerator, scale_up, scale_out, host = reader.documents(
        ("accelerator", node.accelerator, _place_of(inner, "accelerator")),
        ("fabric", node.scale_up.fabric, _place_of(inner, "scale_up.fabric")),
        ("fabric", node.scale_out.fabric, _place_of(inner, "scale_out.fabric")),
        ("fabric", node.host, _place_of(inner, "host")),
    )
    _in_place({"scale_up.fabric": scale_up, "scale_out.fabric": scale_out, "host": host}, inner)
    efficiency, network, common = _fits(reader, accelerator, scale_out, inner)
    return Case(
        scenario,
        model,
        stack,
        optimizer,
        node,
        accelerator,
        scale_up,
        scale_out,
        host,
        efficiency,
        network,
        common,
        reader.digests,
        reader.trees,
        tree or {},
    )


ROLES = {"scale_up.fabric": ("scale-up", "host"), "scale_out.fabric": ("scale-out",), "host": ("host",)}


def _in_place(fabrics: dict[str, Fabric | None], node: Any) -> None:
    """A fault for every link that is no such link; accelerators may also talk over their links to the host."""
    faults = [
        Fault(
            "D010",
            f"{fabric.name} is a {fabric.kind} fabric",
            _place_of(node, path),
            f"{path} takes one of kind {' or '.join(ROLES[path])}; costmodel list fabrics",
        )
        for path, fabric in fabrics.items()
        if fabric is not None and fabric.kind not in ROLES[path]
    ]
    if faults:
        raise CostModelError(*faults)


def _fits(reader: Reader, accelerator: Accelerator, scale_out: Fabric, inner: Any) -> list[Any]:
    """The efficiency documents of an accelerator and of the network, and the one common to all."""
    chip, port = (
        reader.origin.get(("accelerator", accelerator.name)) or _under(inner, "accelerator"),
        reader.origin.get(("fabric", scale_out.name)) or _under(inner, "scale_out.fabric"),
    )
    return reader.documents(
        ("efficiency", efficiency_of(accelerator), _place_of(chip, "efficiency", "name")),
        ("efficiency", efficiency_of(scale_out), _place_of(port, "efficiency", "name")),
        ("efficiency", UNMEASURED, None),
    )


def efficiency_of(of: Accelerator | Fabric) -> str:
    """The fit a document names, or the one of its own name, or what is stated for all that were never measured."""
    return of.efficiency or (of.name if has("efficiency", of.name) else UNMEASURED)


def _under(tree: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(tree, list):
            tree = {str(index): item for index, item in enumerate(tree)}
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def _place_of(tree: Any, *paths: str) -> Place | None:
    """Where the first of these paths that is there was written."""
    places = (getattr(_under(tree, path), "place", None) for path in paths)
    return next((place for place in places if place is not None), None)
