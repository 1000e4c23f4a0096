"""Names to files, and a scenario with everything it names.

A name is looked for as a path, then in the working folder, then in the folders of COSTMODEL_PATH, then
among the shipped documents. Every reference may also be written out in place; `--set` uses that to reach
any leaf: a path that goes through a name writes the named document out first.
"""

from __future__ import annotations

import copy
import difflib
import functools
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from costmodel.documents.hardware import Accelerator, Efficiency, Fabric, Node
from costmodel.documents.measurement import Measured, Run
from costmodel.documents.model import Model
from costmodel.documents.reading import MAXIMUM_BYTES, Text, parse, scalar, validate
from costmodel.documents.scenario import Scenario
from costmodel.documents.stack import Stack
from costmodel.errors import CostModelError, Place, fail

_PACKAGE = Path(__file__).resolve().parents[1]
_SHIPPED = _PACKAGE / "_shipped" if (_PACKAGE / "_shipped").is_dir() else _PACKAGE.parent

FOLDERS: dict[str, tuple[str, type[BaseModel]]] = {
    "accelerator": ("hardware/accelerators", Accelerator),
    "fabric": ("hardware/fabrics", Fabric),
    "node": ("hardware/nodes", Node),
    "efficiency": ("hardware/efficiencies", Efficiency),
    "model": ("scenarios/models", Model),
    "stack": ("scenarios/stacks", Stack),
    "scenario": ("scenarios", Scenario),
    "measured": ("scenarios/measured", Measured),
}

# Which keys of a document name another document, and of what kind.
_REFERENCES = {
    "model": "model",
    "stack": "stack",
    "cluster.node": "node",
    "cluster.node.accelerator": "accelerator",
    "cluster.node.scale_up.fabric": "fabric",
    "cluster.node.scale_out.fabric": "fabric",
    "cluster.node.host": "fabric",
}


@dataclass(frozen=True)
class Case:
    """A scenario with every document it names, ready to be estimated."""

    scenario: Scenario
    model: Model
    stack: Stack
    node: Node
    accelerator: Accelerator
    scale_up: Fabric
    scale_out: Fabric
    efficiency: Efficiency
    network: Efficiency
    digests: dict[str, str] = field(default_factory=dict)
    trees: dict[str, Any] = field(default_factory=dict)
    tree: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance:
    """Where a figure was written, and the source its group names."""

    place: Place
    source: str = ""
    title: str = ""
    check: str = ""
    note: str = ""


def roots() -> Iterator[Path]:
    """Where documents are looked for, in order."""
    yield Path.cwd()
    yield from (Path(part) for part in os.environ.get("COSTMODEL_PATH", "").split(os.pathsep) if part)
    yield _SHIPPED


def names(kind: str) -> list[str]:
    """The names of all documents of a kind that can be found."""
    folder = FOLDERS[kind][0]
    return sorted({path.stem for root in roots() for path in (root / folder).glob("*.yaml") if path.is_file()})


def find(kind: str, name: str, place: Place | None = None) -> Path:
    """The file a name means."""
    folder = FOLDERS[kind][0]
    if name.endswith((".yaml", ".yml", ".json")) or os.sep in name:
        return Path(name)
    for root in roots():
        path = root / folder / f"{name}.yaml"
        if path.is_file():
            return path
    close = difflib.get_close_matches(name, names(kind), n=1, cutoff=0.4)
    hint = f"did you mean '{close[0]}'?" if close else f"costmodel list {kind}s shows them all"
    raise fail("D009", f"there is no {kind} named '{name}'", place, hint)


def _text(path: str) -> str:
    if path == "-":
        data = sys.stdin.buffer.read(MAXIMUM_BYTES + 1)
    else:
        try:
            with open(path, "rb") as file:
                data = file.read(MAXIMUM_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise fail("D001", f"the file cannot be read: {reason}", Place(path)) from None
    if len(data) > MAXIMUM_BYTES:
        raise fail("D001", f"the file is over {MAXIMUM_BYTES / 1e6:.0f} MB", Place(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fail("D001", f"the file is not UTF-8 text (byte {error.start})", Place(path)) from None


def _shown(path: Path) -> str:
    for root in (Path.cwd(), _SHIPPED):
        if path.is_absolute() and path.is_relative_to(root):
            return str(path.relative_to(root))
    return str(path)


@dataclass
class _Reader:
    """Reads named documents once, keeping digests and writing references out in place."""

    digests: dict[str, str] = field(default_factory=dict)
    trees: dict[str, Any] = field(default_factory=dict)

    def tree(self, kind: str, name: str, place: Place | None = None) -> tuple[Any, str]:
        path = Path(name) if name == "-" else find(kind, name, place)
        text = _text(str(path))
        shown = "<stdin>" if name == "-" else _shown(path)
        self.digests[shown] = hashlib.sha256(text.encode()).hexdigest()[:12]
        tree = self.trees[shown] = parse(text, shown)
        return tree, shown

    def document(self, kind: str, reference: Any, place: Place | None = None) -> Any:
        if not isinstance(reference, str):
            return reference
        tree, shown = self.tree(kind, reference, place)
        document = validate(FOLDERS[kind][1], tree, shown)
        named = getattr(document, "name", None) or getattr(document, "of", None)
        if named and named != Path(shown).stem:
            raise fail("D013", f"the file is named {Path(shown).stem} but its name is '{named}'", Place(shown))
        return document


def read(kind: str, name: str) -> Any:
    """One document by name or path, checked."""
    return _Reader().document(kind, name)


def title_of(kind: str, name: str) -> str:
    """The title a document gives itself, found without checking the rest of it."""
    for line in _text(str(find(kind, name))).splitlines():
        if line.startswith("title:"):
            return line.removeprefix("title:").strip().strip('"')
    return ""


def text_of(name: str) -> list[tuple[str, str, str]]:
    """Kind, file and text of every document of that name."""
    kinds = [kind for kind in FOLDERS if name in names(kind)]
    if not kinds:
        known = sorted({known for kind in FOLDERS for known in names(kind)})
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(close)}?" if close else "costmodel list shows them all"
        raise fail("D009", f"there is no document named '{name}'", None, hint)
    paths = [(kind, find(kind, name)) for kind in kinds]
    return [(kind, _shown(path), _text(str(path))) for kind, path in paths]


def _assign(reader: _Reader, tree: dict[Any, Any], assignment: str) -> None:
    path, separator, text = assignment.partition("=")
    parts = path.strip().split(".")
    if not separator or not all(parts):
        raise fail("C001", f"'{assignment}' is not path=value", Place("command line"), "for example --set plan.tp=4")
    here: Any = tree
    for depth, part in enumerate(parts[:-1]):
        so_far = ".".join(parts[: depth + 1])
        inner = here.get(part)
        if isinstance(inner, str) and so_far in _REFERENCES:
            inner = reader.tree(_REFERENCES[so_far], inner, getattr(inner, "place", None))[0]
        if isinstance(inner, list) and depth + 2 < len(parts):
            inner = dict(enumerate(inner))
        if inner is None:
            inner = {}
        if not isinstance(inner, dict):
            raise fail(
                "C001", f"'{so_far}' is a value and has no '{parts[depth + 1]}'", Place("command line", path=path)
            )
        here[_key(here, part, path)] = inner
        here = inner
    here[_key(here, parts[-1], path)] = scalar(text, path)


def _key(mapping: dict[Any, Any], part: str, path: str) -> Any:
    if part in mapping:
        return next(key for key in mapping if key == part)
    key = Text(part)
    key.place = Place("command line", path=path)
    return key


def _scenario_tree(reader: _Reader, name: str) -> tuple[Any, str]:
    tree, shown = reader.tree("scenario", name)
    if isinstance(tree, dict) and tree.get("schema") in ("costmodel/result/v1", "costmodel/search/v1"):
        inner = tree.get("scenario")
        document = inner.get("document") if isinstance(inner, dict) else None
        if not isinstance(document, dict):
            raise fail("D004", "this result holds no scenario", Place(shown, 1, 1), "write it again with --json")
        return document, shown
    return tree, shown


def load(name: str, assignments: Iterable[str] = ()) -> Case:
    """A scenario by name, path or '-', with overrides, and every document it names."""
    reader = _Reader()
    tree, shown = _scenario_tree(reader, name)
    if not isinstance(tree, dict):
        raise fail("D006", "a scenario is a mapping of keys to values", Place(shown, 1, 1))
    return _case(reader, tree, shown, assignments)


def _case(reader: _Reader, tree: dict[Any, Any], shown: str, assignments: Iterable[str]) -> Case:
    for assignment in assignments:
        _assign(reader, tree, assignment)
    return case_of(validate(Scenario, tree, shown), reader, tree)


def cases(measured: Measured) -> Iterator[tuple[Run, Case]]:
    """Every run of a measured table with the case it was measured in."""
    for run in measured.runs:
        assignments = [f"{path}={value}" for path, value in run.set.items()]
        yield run, _case(_Reader(), copy.deepcopy(measured.scenario), measured.name, assignments)


def case_of(scenario: Scenario, reader: _Reader | None = None, tree: dict[str, Any] | None = None) -> Case:
    """A checked scenario with every document it names."""
    reader = reader or _Reader()
    faults: list[CostModelError] = []

    def get(kind: str, reference: Any, key: str) -> Any:
        try:
            return reader.document(kind, reference, _place_of(tree, key) if tree else None)
        except CostModelError as error:
            faults.append(error)
            return None

    model = get("model", scenario.model, "model")
    stack = get("stack", scenario.stack, "stack")
    node = get("node", scenario.cluster.node, "cluster.node")
    if faults:
        raise CostModelError(*(fault for error in faults for fault in error.faults))
    accelerator = reader.document("accelerator", node.accelerator)
    scale_up = reader.document("fabric", node.scale_up.fabric)
    scale_out = reader.document("fabric", node.scale_out.fabric)
    efficiency = reader.document("efficiency", accelerator.efficiency or accelerator.name)
    network = reader.document("efficiency", scale_out.efficiency or scale_out.name)
    return Case(
        scenario,
        model,
        stack,
        node,
        accelerator,
        scale_up,
        scale_out,
        efficiency,
        network,
        reader.digests,
        reader.trees,
        tree or {},
    )


@functools.cache
def bibliography() -> dict[str, Any]:
    """The sources that equations and documents name, by key."""
    file = _PACKAGE / "equations" / "sources.yaml"
    tree: dict[str, Any] = parse(file.read_text(encoding="utf-8"), "costmodel/equations/sources.yaml")
    return tree


@functools.cache
def glossary() -> dict[str, Any]:
    """The words arguments and plans use, with meaning and unit."""
    file = _PACKAGE / "equations" / "vocabulary.yaml"
    tree: dict[str, Any] = parse(file.read_text(encoding="utf-8"), "costmodel/equations/vocabulary.yaml")
    return tree


def provenance(case: Case, place: Place) -> Provenance:
    """The source of the group a figure stands in: the nearest one upward that names a source."""
    document = case.trees.get(place.file)
    here, group = document, {}
    for part in place.path.split("."):
        if isinstance(here, dict) and "source" in here:
            group = here
        here = here.get(part) if isinstance(here, dict) else None
    if isinstance(here, dict) and "source" in here:
        group = here
    key = str(group.get("source", ""))
    listed = {**bibliography(), **(document.get("sources") or {} if isinstance(document, dict) else {})}
    entry = listed.get(key) or {}
    check = str(group.get("check", "seen")) if key else ""
    return Provenance(place, key, str(entry.get("title", "")), check, str(group.get("note", "")))


def _place_of(tree: Any, path: str) -> Place | None:
    here = tree
    for part in path.split("."):
        here = here.get(part) if isinstance(here, dict) else None
    return getattr(here, "place", None)
