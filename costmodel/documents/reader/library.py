"""Names to files, and files to documents, each of which a cached reader reads once.

A name is looked for as a path, then in the working folder, then in the folders of COSTMODEL_PATH, then among the
shipped documents.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from costmodel.documents.keys.field_aliases import STACK_ALIASES
from costmodel.documents.keys.paths import at, place_at
from costmodel.documents.reader.dense_models import dense_of_shape
from costmodel.documents.reader.find_documents import (
    accelerator_meant,
    by_spelling,
    find,
    folder_of,
    of_path,
    stack_meant,
)
from costmodel.documents.reader.folders import as_named, has, instead_of_shipped
from costmodel.documents.reader.folders import names as names
from costmodel.documents.reader.foreign_readers import Foreign, file_beside, read_foreign, reader_of
from costmodel.documents.reader.hub_names import is_hub_name, types_by_name
from costmodel.documents.reader.sources import Provenance as Provenance
from costmodel.documents.reader.sources import bibliography as bibliography
from costmodel.documents.reader.sources import glossary as glossary
from costmodel.documents.reader.sources import phrases as phrases
from costmodel.documents.reader.sources import provenance as provenance
from costmodel.documents.reader.sources import rl_words as rl_words
from costmodel.documents.reader.sources import serving_words as serving_words
from costmodel.documents.reader.sources import strategies as strategies
from costmodel.documents.reader.sources import uncited
from costmodel.documents.text.files import LARGEST_TABLE, digest, file_text, is_text, may_look
from costmodel.documents.text.yaml_tree import WORTH_KEEPING, Mapping, copied, read_tree
from costmodel.ground.errors import CostModelError, Fault, Place, fail

if TYPE_CHECKING:
    from costmodel.documents.schemas.hardware import Accelerator, Fabric, HeldAgainst


# --- names to files, and files to documents


TextOf = Callable[[str, Place | None], tuple[str, str]]
_DEEPEST = 4
_PARTS = ("trainer", "rollout")  # stacks within one for reinforcement learning


def with_parent(tree: Any, text_of: TextOf, depth: int = 0) -> Any:
    """The tree of a stack, completed section by section by the stack that `like` names."""
    if not isinstance(tree, Mapping):
        return tree
    merged, parent = tree, tree.get("like")
    if isinstance(parent, str):
        place = getattr(parent, "place", None)
        if depth == _DEEPEST:
            raise fail("D013", f"stacks that are like one another end at {parent}", place, "write one of them out")
        text, shown = text_of(parent, place)
        whole, _ = read_tree(text, shown)
        merged = _merged(with_parent(whole, text_of, depth + 1), tree)
    for part in _PARTS:
        if (inner := with_parent(merged.get(part), text_of, depth)) is not merged.get(part):
            merged = merged if merged is not tree else copied(tree)
            merged[part] = inner
    return merged


def written_out(tree: Any, text_of: TextOf) -> Any:
    """A stack written out in a scenario, completed by its parent; a fault if it has another stack's name.

    A stack that states all keys, as in the scenario of a result, takes nothing from its parent.
    """
    whole = with_parent(tree, text_of)
    if isinstance(tree, Mapping):
        for filled, stated in ((whole, tree), *((whole.get(part), tree.get(part)) for part in _PARTS)):
            if isinstance(stated, Mapping) and "like" in stated and _count_of_values(filled) > _count_of_values(stated):
                _check_name(stated)
    return whole


def _count_of_values(tree: Any) -> int:
    """The number of values in a tree."""
    return sum(map(_count_of_values, tree.values())) if isinstance(tree, Mapping) else 1


def _check_name(tree: Mapping) -> None:
    """A fault if a stack has the name of another stack than the one that `like` names."""
    name, parent = tree.get("name"), tree["like"]
    try:
        other = isinstance(name, str) and find("stack", name) != find("stack", parent)
    except CostModelError:
        return  # a label of the user
    if other:
        sentence = f"this stack has the name of {name} and takes nothing from it; its keys are those of {parent}"
        raise fail("C033", sentence, place_at(tree, "name"), f"like: {name}, or a name of your own")


def _is_taken_for(name: str, place: Place | None) -> bool:
    """Whether a model's name differs from its document's name but leads to it."""
    return is_hub_name(name) or bool(of_path(name, folder_of(place) / name) or by_spelling(name))


_traces: OrderedDict[str, tuple[Foreign, str]] = OrderedDict()  # read before, by what they hold
_FEW_TRACES = 8


def _trace_statistics(path: str, shown: str, place: Place | None) -> tuple[Foreign, str]:
    """Mean and variance of lengths and arrivals in a request trace, with a digest of its text; cached by file."""
    stamp = ""
    if path != "-" and not is_text(path) and may_look(path):
        with contextlib.suppress(OSError):
            state = os.stat(path)
            stamp = f"{os.path.abspath(path)} {state.st_mtime_ns} {state.st_size}"
    if stamp not in _traces:
        text = file_text(path, place, largest=LARGEST_TABLE)
        stamp = stamp or f"text {digest(text)}"
        if stamp not in _traces:
            _traces[stamp] = read_foreign("trace", text, shown), digest(text)
        while len(_traces) > _FEW_TRACES:
            _traces.popitem(last=False)
    return _traces[stamp]


def _merged(parent: Any, child: Any) -> Any:
    """The child's mapping merged over the parent's; lists of the child replace those of the parent."""
    if not (isinstance(parent, Mapping) and isinstance(child, Mapping)):
        return child
    merged = copied(child)
    for key, value in parent.items():
        if key not in child:
            merged[key] = value
        else:
            merged[key] = _merged(value, child[key])
    return merged


UNMEASURED = "unmeasured"  # the efficiency of everything that has none

_CLASSES = {
    "accelerator": "hardware.Accelerator",
    "fabric": "hardware.Fabric",
    "node": "hardware.Node",
    "efficiency": "efficiency.Efficiency",
    "prior": "prior.Priors",
    "reliability": "run.Reliability",
    "practice": "practice.Practice",
    "grid": "practice.PowerGrid",
    "model": "model.Model",
    "stack": "stack.Stack",
    "optimizer": "scenario.Optimizer",
    "release": "base.Releases",
    "scenario": "scenario.Scenario",
    "measured": "measurement.MeasuredTable",
}


def document_class(kind: str) -> type[BaseModel]:
    """The schema class for a kind of document; its module is imported on first use.

    >>> document_class("grid").__name__
    'PowerGrid'
    """
    module, _, name = _CLASSES[kind].partition(".")
    schema: type[BaseModel] = getattr(import_module(f"costmodel.documents.schemas.{module}"), name)
    return schema


class FoundDocument(NamedTuple):
    """A document that was read by name, with its tree and the file name for messages.

    digests: of all files that it was read from; own: your files among them that replace shipped ones
    """

    document: Any
    tree: Any
    shown: str
    digests: dict[str, str]
    own: tuple[str, ...]


@dataclass
class DocumentReader:
    """Reads named documents once, records their digests, and replaces references by documents."""

    digests: dict[str, str] = field(default_factory=dict)
    trees: dict[str, Any] = field(default_factory=dict)

    origin: dict[tuple[str, str], Any] = field(default_factory=dict)
    found: list[Fault] = field(default_factory=list)
    own: list[str] = field(default_factory=list)  # your own files that replace shipped ones
    foreign: dict[str, Foreign] = field(default_factory=dict)  # files in other people's formats
    hub: dict[str, str] = field(default_factory=dict)  # models by the names on the hub that were taken for them
    stacks: dict[str, str] = field(default_factory=dict)  # stacks by other names of theirs
    read: dict[tuple[str, str, str], FoundDocument] = field(default_factory=dict)  # by kind, name and who names it
    another: Fault | None = None  # of a result that an older or newer version wrote, stated beside its other faults

    def text(self, kind: str, name: str, place: Place | None = None, *, piped: bool = False) -> tuple[str, str]:
        """The text of a named document, and its file name for messages."""
        piped = piped and name == "-"
        if kind == "model" and not piped and (shape := dense_of_shape(name)):
            self.digests[name] = hashlib.sha256(shape.encode()).hexdigest()[:12]
            return shape, name
        path = Path(name) if piped else find(kind, name, place)
        text = file_text("-") if piped else file_text(str(path), place)
        shown = "<stdin>" if piped else as_named(path)
        if kind == "model" and not piped and _is_taken_for(name, place):
            self.hub[name] = path.stem
        if kind == "stack" and (name.lower() in STACK_ALIASES or path.stem == stack_meant(name) != name):
            self.stacks[name] = path.stem
        if not piped and shown not in self.own and instead_of_shipped(kind, path, text):
            self.own.append(shown)
        beside = file_beside(path) if kind == "model" and not piped else None
        read = text if beside is None else text + file_text(str(beside))
        self.digests[shown] = hashlib.sha256(read.encode()).hexdigest()[:12]
        return text, shown

    def tree(self, kind: str, name: str, place: Place | None = None, *, piped: bool = False) -> tuple[Any, str]:
        """The tree of a named document, which callers may change; faults in its text are added to the list `found`."""
        text, shown = self.text(kind, name, place, piped=piped)
        if reader_of(kind, Path(shown), text):
            self.document(kind, name, place)
            tree = copied(self.foreign[shown].tree)
        else:
            tree, faults = read_tree(text, shown)
            self.found += faults
            if name in self.hub:
                tree |= types_by_name(name, self.hub[name])
            if kind == "stack":
                tree = with_parent(tree, lambda parent, at_place: self.text(kind, parent, at_place))
        self.trees[shown] = self.origin[kind, name] = tree
        return tree, shown

    def trace(self, name: str, place: Place | None) -> dict[str, Any]:
        """The statistics of a request trace as keys of a workload."""
        path = name if name == "-" or is_text(name) else str(folder_of(place) / name)
        shown = "<stdin>" if path == "-" else as_named(Path(path))
        moments = _trace_statistics(path, shown, place)
        self.foreign[shown], self.digests[shown] = moments
        tree: dict[str, Any] = copied(moments[0].tree)
        return tree

    def checked(self, kind: str, tree: Any, shown: str) -> Any:
        """The validated document of a tree; raises all faults at once. An inline stack may omit its parent's keys."""
        if kind == "scenario" and isinstance(tree, dict) and isinstance(tree.get("stack"), dict):
            tree["stack"] = written_out(tree["stack"], lambda parent, place: self.text("stack", parent, place))
        found, self.found = self.found, []
        return _checked(kind, tree, shown, found)

    def document(self, kind: str, reference: Any, place: Place | None = None) -> Any:
        """A document by name, or the given document if it is written out in place."""
        if not isinstance(reference, str):
            return reference
        key = kind, reference, place.file if place is not None and place.line else ""
        stored = self.read.get(key) or self._read_alone(kind, reference, place)
        if stored.shown not in self.foreign and reference not in self.hub and reference not in self.stacks:
            self.read[key] = stored
        self.digests |= stored.digests
        self.own += [shown for shown in stored.own if shown not in self.own]
        self.trees[stored.shown] = self.origin[kind, reference] = stored.tree
        return stored.document

    def _read_alone(self, kind: str, name: str, place: Place | None) -> FoundDocument:
        """The document of this name, with what other readers need to know that take it from this one."""
        digests, own = self.digests, self.own
        self.digests, self.own = {}, []
        try:
            return FoundDocument(*self._document(kind, name, place), self.digests, tuple(self.own))
        finally:
            digests.update(self.digests)
            own += [shown for shown in self.own if shown not in own]
            self.digests, self.own = digests, own

    def _document(self, kind: str, name: str, place: Place | None) -> tuple[Any, Any, str]:
        """The document of this name, its tree and its file: costmodel's own, one in another format, or a hub model."""
        text, shown = self.text(kind, name, place)
        if reader_of(kind, Path(shown), text):
            document, self.foreign[shown] = _read_foreign(kind, text, shown)
            return document, self.foreign[shown].tree, shown
        if name in self.hub:
            document, tree = _read(kind, text, shown)
            return document.model_copy(update=types_by_name(name, self.hub[name])), tree, shown
        document, tree = (_read if len(text) < WORTH_KEEPING else _read.__wrapped__)(kind, text, shown)
        if kind == "stack" and getattr(document, "like", None):
            self.text(kind, document.like)  # whose digest counts too
        return document, tree, shown

    def documents(self, *wanted: tuple[str, Any, Place | None]) -> list[Any]:
        """The documents of several references; the faults of all of them are raised at once."""
        loaded: list[Any] = []
        faults: list[Fault] = []
        for kind, reference, place in wanted:
            try:
                loaded.append(self.document(kind, reference, place))
            except CostModelError as error:
                faults += error.faults
        if faults:
            raise CostModelError(*dict.fromkeys(faults))
        return loaded


def _checked(kind: str, tree: Any, shown: str, faults: Sequence[Fault]) -> Any:
    """The validated document of a tree; raises its faults, and those of figures without a source."""
    document = _validated(_class_for_workload(kind, _workload_of_tree(kind, tree)), tree, shown, faults)
    if unknown := list(uncited(tree)):
        raise CostModelError(*unknown)
    return document


def _validated(kind: type[BaseModel], tree: Any, shown: str, faults: Sequence[Fault] = ()) -> Any:
    """The document of a tree, or all its faults at once; what describes these is imported where there may be any."""
    from costmodel.documents.reader.quick_validation import validated  # it imports the base of all schemas

    if not faults and (document := validated(kind, tree)) is not None:
        return document
    from costmodel.documents.reader.validation_errors import validate

    return validate(kind, tree, shown, faults)


@functools.lru_cache(maxsize=64)
def _read_foreign(kind: str, text: str, shown: str) -> tuple[Any, Foreign]:
    """The document made from a text in another format, and the record of its import."""
    reader = reader_of(kind, Path(shown), text)
    assert reader is not None, f"nothing reads {shown}"
    foreign = reader(text, shown)
    return _validated(document_class(kind), foreign.tree, shown), foreign


def _workload_of_tree(kind: str, tree: Any) -> str:
    """The workload of a scenario or stack: serving, rl or, by default, training."""
    key = {"scenario": "workload.kind", "stack": "kind"}.get(kind)
    wing = None if key is None else at(tree, key)
    return wing if wing in ("serving", "rl") else "training"


def _class_for_workload(kind: str, wing: str) -> type[BaseModel]:
    """The schema class for a kind of document in a workload; serving and rl classes are imported only when needed."""
    if wing == "serving":
        from costmodel.documents.schemas.serving import SERVING

        return SERVING.get(kind) or document_class(kind)
    if wing == "rl":
        from costmodel.documents.schemas.rl import RL

        return RL.get(kind) or document_class(kind)
    return document_class(kind)


@functools.lru_cache(maxsize=512)
def _read(kind: str, text: str, shown: str) -> tuple[Any, Any]:
    """A named document and its tree, both shared between scenarios; callers must not change them."""
    tree, faults = read_tree(text, shown)
    if kind == "stack":
        tree = with_parent(tree, _text_of_stack)
    document = _checked(kind, tree, shown, faults)
    named = getattr(document, "name", None) or getattr(document, "of", None)
    if named and named != Path(shown).stem:
        written = place_at(tree, "name", "of") or Place(shown)
        sentence = f"the file is named '{Path(shown).stem}' and the document '{named}'"
        raise fail("D013", sentence, written, "rename one of the two")
    return document, tree


def _text_of_stack(name: str, place: Place | None) -> tuple[str, str]:
    path = find("stack", name, place)
    return file_text(str(path), place), as_named(path)


def document_of(kind: str, text: str, shown: str) -> Any:
    """The document in a text; `shown` is the file name for messages."""
    return _read(kind, text, shown)[0]


def read(kind: str, name: str) -> Any:
    """A document by name or path, validated."""
    return DocumentReader().document(kind, name)


def efficiency_of(of: Accelerator | Fabric) -> str:
    """The efficiency fit that a document names, else the fit of the same name, else the fit for unmeasured parts."""
    named = of.efficiency if of.efficiency != UNMEASURED else None
    return named or (of.name if has("efficiency", of.name) else UNMEASURED)


def accelerator_of(node: str, reader: DocumentReader | None = None) -> str:
    """The name of a node's accelerator; empty if the node does not exist."""
    try:
        held = (reader or DocumentReader()).document("node", node).accelerator
    except CostModelError:
        return ""
    return held if isinstance(held, str) else held.name


def held_against(accelerators: Iterable[str]) -> dict[str, HeldAgainst]:
    """The published runs that predictions for accelerators were compared with; faulty documents are skipped."""
    limits: dict[str, HeldAgainst] = {}
    for name in accelerators:
        with contextlib.suppress(CostModelError):
            chip: Accelerator = read("accelerator", name)
            if chip.held_against is not None:
                limits[name] = chip.held_against
    return limits


# --- A reader for many scenarios: every named document is read and checked once


@dataclass
class CachedReader(DocumentReader):
    """A document reader that caches named documents for its lifetime."""

    kept: dict[tuple[str, str], Any] = field(default_factory=dict)
    known: dict[str, frozenset[str]] = field(default_factory=dict)
    spelled: dict[tuple[str, float | None], str] = field(default_factory=dict)  # accelerators by spelling and GB
    launched: dict[tuple[str, ...], str] = field(default_factory=dict)  # cells of launch scripts by what matches them

    def document(self, kind: str, reference: Any, place: Place | None = None) -> Any:
        """A document by name (cached), or the given document if it is written out in place."""
        if not isinstance(reference, str):
            return reference
        if (kind, reference) not in self.kept:
            self.kept[kind, reference] = super().document(kind, reference, place)
        return self.kept[kind, reference]

    def has(self, kind: str, name: str) -> bool:
        """Whether a document of that kind and name can be found."""
        return name in self.names(kind)

    def names(self, kind: str) -> frozenset[str]:
        """The names of all documents of a kind that can be found."""
        if kind not in self.known:
            self.known[kind] = frozenset(names(kind))
        return self.known[kind]


def accelerator_named(spelling: str, memory: float | None = None, shelf: CachedReader | None = None) -> str:
    """The accelerator that a spelling stands for; its memory in GB decides between variants. Empty if none fits."""
    shelf = shelf or CachedReader()

    def capacity(name: str) -> float:
        return float(shelf.document("accelerator", name).memory.capacity)

    if (spelling, memory) not in shelf.spelled:
        shelf.spelled[spelling, memory] = accelerator_meant(spelling, memory, shelf.names("accelerator"), capacity)
    return shelf.spelled[spelling, memory]
