"""The facts of an answer: model, machine, batch, precision, optimizer, software and price, as computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from costmodel.documents.keys.paths import REFERENCES, at
from costmodel.documents.reader.folders import has
from costmodel.documents.reader.hub_names import is_other_name
from costmodel.documents.reader.library import read
from costmodel.documents.reader.resolved_scenario import counted_by_gpus, gpus_of_flags
from costmodel.equations.parallelism.counts import world_size
from costmodel.estimate.machine.price import AcceleratorPrice, price_of
from costmodel.ground.record import record

if TYPE_CHECKING:
    from collections.abc import Collection

    from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario
    from costmodel.documents.schemas.base import Document


_TALK = frozenset({"title", "sources"})
_SHOWN_APART = frozenset({"accelerator", "accelerators", "built_with", "price"})  # facts of their own, of a node


@record
class NamedDocument:
    """Name and title of a document in an answer; `changed` if its figures differ from the document with that name."""

    name: str
    title: str
    changed: bool = False


@record
class Subject:
    """The model, machine, software and price that an answer of any workload shows."""

    model: NamedDocument
    accelerator: NamedDocument
    ranks: float
    node: NamedDocument
    nodes: float
    accelerators: float
    built: float
    stack: NamedDocument
    price: AcceleratorPrice
    groups: tuple[tuple[float, str], ...]
    asked: float  # accelerators that --gpus asks for, whatever the node; 0 where nodes are stated

    @property
    def sizes(self) -> dict[str, tuple[Any, tuple[str, ...]]]:
        """Sizes that identify a row of a table beside model and machine, each with the keys it is read from."""
        return {}

    @property
    def choices(self) -> dict[str, tuple[str, NamedDocument | str]]:
        """Other choices that an answer shows, such as precision, each with its key."""
        return {}


@record
class Facts(Subject):
    """The model, machine, software, batch, precision, optimizer and price that a training answer shows."""

    sequence: float
    global_batch: float
    precision: str
    optimizer: NamedDocument
    tuning: str

    @property
    def sizes(self) -> dict[str, tuple[Any, tuple[str, ...]]]:
        """Sequence length and global batch."""
        held = {"sequence": self.sequence, "global_batch": self.global_batch}
        return {name: (without_point(value), (f"workload.{name}",)) for name, value in held.items()}

    @property
    def choices(self) -> dict[str, tuple[str, NamedDocument | str]]:
        """Precision, optimizer and tuning of the answer, each with its key."""
        held: dict[str, NamedDocument | str] = {
            "precision": self.precision,
            "optimizer": self.optimizer,
            "tuning": self.tuning,
        }
        return {name: (f"workload.{name}", value) for name, value in held.items()}


def subject_of(case: LoadedScenario) -> Subject:
    """The model, machine, software and price that an answer of any workload shows."""
    return Subject(**_subject_fields(case))


def _subject_fields(case: LoadedScenario) -> dict[str, Any]:
    """The model, machine, software and price that every answer shows, by field name."""
    node, nodes = case.node, case.cluster.nodes
    return {
        "model": _named_document(case, "model"),
        "accelerator": _named_document(case, "cluster.node.accelerator"),
        "ranks": sum((float(world_size(count, kind.node.accelerators)) for count, kind in case.kinds), start=0.0)
        or float(world_size(nodes, node.accelerators)),
        "node": _named_document(case, "cluster.node"),
        "nodes": float(nodes),
        "accelerators": float(node.accelerators),
        "built": float(node.built),
        "stack": _named_document(case, "stack"),
        "price": price_of(case),
        "groups": tuple((float(count), kind.node.name) for count, kind in case.kinds),
        "asked": float(gpus_of_flags(case)[0]) if counted_by_gpus(case) else 0.0,
    }


def row_facts(facts: Subject, varied: Collection[str] = ()) -> dict[str, Any]:
    """The facts that identify the rows of a table, so that tables of several answers can be stacked.

    varied: paths that change from row to row, where a fact that is read from them is null
    """
    per_node = "cluster.node.accelerators"
    facts_by_key: dict[str, tuple[Any, tuple[str, ...]]] = {
        "model": (facts.model.name, ("model",)),
        "cluster": (facts.node.name, ("cluster.node",)),
        "nodes": (without_point(facts.nodes), ("cluster.nodes", *(("cluster.node",) if facts.asked else ()))),
        "gpus": (without_point(facts.ranks), ("cluster.nodes", per_node)),
        **facts.sizes,
    }
    return {
        name: None if any(varies(path, varied) for path in paths) else value
        for name, (value, paths) in facts_by_key.items()
    }


def varies(path: str, varied: Collection[str]) -> bool:
    """Whether a key, or the mapping that contains it, changes from row to row."""
    return any(f"{path}.".startswith(f"{one}.") for one in varied)


def without_point(value: float) -> int | float:
    """The number as an integer if it is whole."""
    return int(value) if float(value).is_integer() else float(value)


def facts_of(case: ResolvedScenario) -> Facts:
    """The model, machine, software, batch, precision, optimizer and price that a training answer shows."""
    workload = case.scenario.workload
    tuning = workload.tuning
    return Facts(
        **_subject_fields(case),
        sequence=float(workload.sequence),
        global_batch=float(workload.global_batch),
        precision=workload.precision,
        optimizer=_named_document(case, "workload.optimizer"),
        tuning="" if isinstance(tuning, str) else f"{tuning.method} of rank {tuning.rank:.0f}",
    )


def _named_document(case: LoadedScenario, path: str) -> NamedDocument:
    """Name and title of the document at a path of the scenario, and whether an inline document changes its figures."""
    reference = REFERENCES[path]
    document: Any = getattr(case, reference.held)
    changed = isinstance(at(case.tree, path), dict) and _has_changed_figures(reference.kind, document)
    asked = [name for name, shape in case.hub.items() if shape == document.name and is_other_name(name, shape)]
    title = f"{asked[0]} (same shape as {document.title})" if asked else document.title
    return NamedDocument(document.name, title, changed)


def _has_changed_figures(kind: str, document: Any) -> bool:
    """Whether an inline document has other figures than the document found under its name."""
    if not has(kind, document.name):
        return False
    return _stated_figures(document) != _stated_figures(read(kind, document.name))


def _stated_figures(document: Document) -> dict[str, Any]:
    return {key: value for key, value in document if key not in _TALK | _SHOWN_APART}
