"""Names to files, and files to documents.

A name is looked for as a path, then in the working folder, then in the folders of COSTMODEL_PATH, then
among the shipped documents.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from costmodel.documents.keys.field_aliases import STACKS
from costmodel.documents.keys.paths import at, place_at
from costmodel.documents.keys.suggestions import alike, nearest
from costmodel.documents.reader.folders import (
    FOLDER_OF,
    SUFFIXES,
    as_named,
    has,
    instead_of_shipped,
    is_file,
    places,
    plural,
    shown_file,
)
from costmodel.documents.reader.folders import names as names
from costmodel.documents.reader.foreign_readers import Foreign, file_in, reader_of
from costmodel.documents.reader.hub_names import is_hub_name, nearest_shape, shape_of
from costmodel.documents.reader.sources import Provenance as Provenance
from costmodel.documents.reader.sources import bibliography as bibliography
from costmodel.documents.reader.sources import glossary as glossary
from costmodel.documents.reader.sources import provenance as provenance
from costmodel.documents.reader.sources import serving_words as serving_words
from costmodel.documents.reader.sources import strategies as strategies
from costmodel.documents.reader.sources import uncited
from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.base import said
from costmodel.documents.schemas.efficiency import Efficiency
from costmodel.documents.schemas.hardware import Accelerator, Fabric, Node
from costmodel.documents.schemas.measurement import MeasuredTable
from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.optimizer import Optimizer
from costmodel.documents.schemas.practice import PowerGrid, Practice
from costmodel.documents.schemas.prior import Priors
from costmodel.documents.schemas.release import Releases
from costmodel.documents.schemas.reliability import Reliability
from costmodel.documents.schemas.scenario import Scenario
from costmodel.documents.schemas.stack import Stack
from costmodel.documents.text.files import file_text
from costmodel.documents.text.yaml_tree import COMMAND_LINE, WORTH_KEEPING, copied, read_tree
from costmodel.ground.errors import CostModelError, Fault, Place, fail

UNMEASURED = "unmeasured"  # the efficiency of everything that has none

_MODELS: dict[str, type[BaseModel]] = {
    "accelerator": Accelerator,
    "fabric": Fabric,
    "node": Node,
    "efficiency": Efficiency,
    "belief": Priors,
    "reliability": Reliability,
    "practice": Practice,
    "grid": PowerGrid,
    "model": Model,
    "stack": Stack,
    "optimizer": Optimizer,
    "release": Releases,
    "scenario": Scenario,
    "measured": MeasuredTable,
}
FOLDERS = {kind: (folder, _MODELS[kind]) for kind, folder in FOLDER_OF.items()}


def is_path(name: str) -> bool:
    """Whether a name says where a file is, wherever documents are looked for."""
    return name.endswith(SUFFIXES) or os.sep in name


def find(kind: str, name: str, place: Place | None = None) -> Path:
    """The file a name means."""
    if is_hub_name(name):
        if kind != "model":
            raise _unknown(kind, name, place)
        return find(kind, _of_hub(name, place))
    if is_path(name) or (kind == "model" and name in (os.curdir, os.pardir)):
        return file_in(kind, folder_of(place) / name)
    for path in places(kind, name):
        if is_file(path):
            return path
    raise _unknown(kind, name, place)


def _of_hub(name: str, place: Place | None) -> str:
    """The shipped model that a name on the hub means, or a fault."""
    known = names("model")
    if shape := shape_of(name, known):
        return shape
    close = nearest_shape(name, known)
    hint = f"did you mean '{close}'? " if close else ""
    hint += "costmodel list models shows them all; costmodel show llama-3.1-8b > mine.yaml is one to change"
    sentence = f"no shipped model goes by {said(name)}, and Hugging Face's hub is not read"
    raise fail("D009", sentence, place or Place(COMMAND_LINE), hint)


def _unknown(kind: str, name: str, place: Place | None) -> CostModelError:
    """A fault for a name that no document has, with the document or the file that may be meant."""
    known = names(kind)
    close = _meant(kind, name, known)
    hint = f"did you mean {close}?" if close else f"costmodel list {plural(kind)} shows them all"
    other = next((other for other in FOLDERS if other != kind and name in names(other)), None)
    model = name if other == "model" else shape_of(name, names("model")) if is_hub_name(name) else ""
    if model and kind == "scenario":
        sentence = f"{said(name)} is a model, and a scenario is wanted here"
        close = f"did you mean {close}? " if close.strip("'").startswith(model) else ""
        hint = f"{close}any scenario takes it: costmodel estimate quickstart --set model={model}"
        return fail("D009", sentence, place or Place(COMMAND_LINE), hint)
    sentence = f"there is no {kind} named {said(name)}" + (
        f"; '{name}' is the name of a{'n' if other[0] in 'ae' else ''} {other}" if other else ""
    )
    file = next((file for file in (name, f"{name}.yaml") if name and os.path.isfile(file)), "")
    if file:
        hint = f"for the file write .{os.sep}{file}"
    elif kind == "model" and name and file_in(kind, Path(name)).is_file():
        hint = f"for the folder write .{os.sep}{name}"
    elif name and os.path.isdir(name):
        hint = f"'{name}' is a folder; name a file in it"
    return fail("D009", sentence, place or Place(COMMAND_LINE), hint)


def folder_of(place: Place | None) -> Path:
    """Where a path that is written at a place begins: in the folder of its file, and on the command line in this one.

    >>> str(folder_of(Place("jobs/mine.yaml", 3))), str(folder_of(Place("command line")))
    ('jobs', '.')
    """
    return shown_file(place.file).parent if place is not None and place.line else Path()


def _meant(kind: str, name: str, known: Sequence[str]) -> str:
    """The document that a name may stand for, in quotes: of that shape, software or part, else the nearest."""
    if kind == "model" and (shape := shape_of(name, known)):
        return f"'{shape}'"
    if kind == "stack" and name.lower() in STACKS:
        return STACKS[name.lower()]
    if kind in ("accelerator", "node") and (part := _part(kind, name)):
        return f"'{part}'"
    low = name.lower()
    close = nearest(low, known, 0.6) or next((it for it in known if low and it.startswith(low)), "")
    return f"'{close}'" if close else ""


def _part(kind: str, name: str) -> str:
    """The accelerator that a spelling of its name means, or the node that stands for its own."""
    from costmodel.documents.reader.accelerator_aliases import accelerator_named  # it reads documents

    with contextlib.suppress(CostModelError):  # of documents that are not asked about
        part = accelerator_named(re.sub(r"^\d+ ?[x×] ?", "", name))
        if kind == "accelerator" or not part:
            return part
        found: Accelerator = read("accelerator", part)
        return found.found_in.node if found.found_in is not None else ""
    return ""


@dataclass
class DocumentReader:
    """Reads named documents once, keeping digests and writing references out in place."""

    digests: dict[str, str] = field(default_factory=dict)
    trees: dict[str, Any] = field(default_factory=dict)

    origin: dict[tuple[str, str], Any] = field(default_factory=dict)
    found: list[Fault] = field(default_factory=list)
    own: list[str] = field(default_factory=list)  # files of one's own that stand before shipped ones
    foreign: dict[str, Foreign] = field(default_factory=dict)  # files in other people's formats
    hub: dict[str, str] = field(default_factory=dict)  # models by the names on the hub that were taken for them

    def text(self, kind: str, name: str, place: Place | None = None, *, piped: bool = False) -> tuple[str, str]:
        """The text of a named document, and how its file is shown."""
        piped = piped and name == "-"
        path = Path(name) if piped else find(kind, name, place)
        text = file_text("-") if piped else file_text(str(path), place)
        shown = "<stdin>" if piped else as_named(path)
        if is_hub_name(name):
            self.hub[name] = path.stem
        if not piped and shown not in self.own and instead_of_shipped(kind, path):
            self.own.append(shown)
        self.digests[shown] = hashlib.sha256(text.encode()).hexdigest()[:12]
        return text, shown

    def tree(self, kind: str, name: str, place: Place | None = None, *, piped: bool = False) -> tuple[Any, str]:
        """The tree of a named document, to be changed; what was wrong with its text waits in `found`."""
        text, shown = self.text(kind, name, place, piped=piped)
        if reader_of(kind, Path(shown), text):
            self.document(kind, name, place)
            tree = copied(self.foreign[shown].tree)
        else:
            tree, faults = read_tree(text, shown)
            self.found += faults
        self.trees[shown] = self.origin[kind, name] = tree
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
        if reader_of(kind, Path(shown), text):
            document, self.foreign[shown] = _read_foreign(kind, text, shown)
            tree = self.foreign[shown].tree
        else:
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
    document = validate(_model(kind, tree), tree, shown, found)
    if unknown := list(uncited(tree)):
        raise CostModelError(*unknown)
    return document


@functools.lru_cache(maxsize=64)
def _read_foreign(kind: str, text: str, shown: str) -> tuple[Any, Foreign]:
    """The document that a text in another format comes to, and what was assumed on the way."""
    reader = reader_of(kind, Path(shown), text)
    assert reader is not None, f"nothing reads {shown}"
    foreign = reader(text, shown)
    return validate(FOLDERS[kind][1], foreign.tree, shown), foreign


def _model(kind: str, tree: Any) -> type[BaseModel]:
    """What a tree is checked against; scenarios and stacks that serve have other keys, imported for them alone."""
    says = {"scenario": "workload.kind", "stack": "kind"}.get(kind)
    if says is None or at(tree, says) != "serving":
        return FOLDERS[kind][1]
    from costmodel.documents.schemas.serving.serving_kinds import SERVING

    return SERVING[kind]


@functools.lru_cache(maxsize=512)
def _read(kind: str, text: str, shown: str) -> tuple[Any, Any]:
    """A named document and its tree, which many cases share and nobody changes."""
    tree, faults = read_tree(text, shown)
    document = _checked(kind, tree, shown, faults)
    named = getattr(document, "name", None) or getattr(document, "of", None)
    if named and named != Path(shown).stem:
        written = place_at(tree, "name", "of") or Place(shown)
        sentence = f"the file is named '{Path(shown).stem}' and the document '{named}'"
        raise fail("D013", sentence, written, "rename one of the two")
    return document, tree


def document_of(kind: str, text: str, shown: str) -> Any:
    """The document that a text is, of a file that is shown so."""
    return _read(kind, text, shown)[0]


def read(kind: str, name: str) -> Any:
    """One document by name or path, checked."""
    return DocumentReader().document(kind, name)


def title_of(kind: str, name: str) -> str:
    """The title a document gives itself, found without checking the rest of it."""
    try:
        return said_first(file_text(str(find(kind, name))), "title")
    except CostModelError as error:
        return error.faults[0].sentence


def by_maker(kind: str) -> list[str]:
    """The names of all documents of a kind: accelerators and nodes by maker and generation, others by name."""
    makers = {"accelerator": "vendor", "node": "provider"}
    if kind not in makers:
        return names(kind)

    def maker_and_year(name: str) -> tuple[str, str, str]:
        text = _text_or_nothing(kind, name)
        chip = said_first(text, "accelerator") if kind == "node" else ""
        year = said_first(_text_or_nothing("accelerator", chip) if chip else text, "year")
        return said_first(text, makers[kind]).casefold(), year, name

    return sorted(names(kind), key=maker_and_year)


def _text_or_nothing(kind: str, name: str) -> str:
    """The text of a named document; nothing where its file cannot be read, which its title says."""
    try:
        return file_text(str(find(kind, name)))
    except CostModelError:
        return ""


def said_first(text: str, key: str) -> str:
    """What a document says on the line of a key, found without checking the rest of it."""
    written = (line.removeprefix(f"{key}:").strip() for line in text.splitlines() if line.startswith(f"{key}:"))
    return next((value.strip(value[:1]) if value[:1] in ("'", '"') else value for value in written), "")


def text_of(name: str, *, fitted: bool = False) -> list[tuple[str, str, str]]:
    """Kind, file and text of every document of that name; its fit when asked for, or when there is nothing else."""
    name = _of_hub(name, None) if is_hub_name(name) else name
    kinds = [kind for kind in FOLDERS if name in names(kind) and (kind == "efficiency") == fitted]
    kinds = kinds or [kind for kind in FOLDERS if name in names(kind)]
    if not kinds:
        known = sorted({known for kind in FOLDERS for known in names(kind)})
        close = alike(name, known, 3, 0.4)
        hint = f"did you mean {' or '.join(close)}?" if close else "costmodel list shows them all"
        raise fail("D009", f"there is no document named '{name}'", Place(COMMAND_LINE), hint)
    paths = [(kind, find(kind, name)) for kind in kinds]
    return [(kind, as_named(path), file_text(str(path))) for kind, path in paths]


def efficiency_of(of: Accelerator | Fabric) -> str:
    """The fit a document names, or the one of its own name, or what is stated for all that were never measured."""
    named = of.efficiency if of.efficiency != UNMEASURED else None
    return named or (of.name if has("efficiency", of.name) else UNMEASURED)
