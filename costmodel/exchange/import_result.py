"""The result of reading a foreign text: the document, the origin of every value, and the losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, NamedTuple

from costmodel.ground.errors import Fault, Place
from costmodel.ground.record import record

OriginKind = Literal["file", "derived", "default", "class", "assumed"]
LossKind = Literal["ignored", "approximated", "not expressible"]
Verdict = Literal["read", "no effect", "approximated", "not expressible"]
VERDICTS: dict[LossKind, Verdict] = {
    "ignored": "no effect",
    "approximated": "approximated",
    "not expressible": "not expressible",
}


class Origin(NamedTuple):
    """The source of a value in an imported document.

    file: written at `place`. derived: computed from values written there. default: the default of the format. class:
    fixed by the code that the format configures. assumed: an assumption, because nothing states it.
    """

    kind: OriginKind
    text: str
    place: Place | None = None

    def __str__(self) -> str:
        spot = f"{self.place.file}:{self.place.line}" if self.place is not None and self.place.line else ""
        return f"{spot}  {self.text}".strip()


class OriginValue(NamedTuple):
    """A value for a document, with its origin."""

    value: Any
    origin: Origin

    @property
    def place(self) -> Place | None:
        """The place in the file; None where the file does not state it."""
        return self.origin.place

    def derived(self, value: Any, text: str) -> OriginValue:
        """A value computed from this value."""
        return OriginValue(value, Origin("derived", text, self.place))


@record
class Loss:
    """An option of the foreign text that the costmodel document cannot express, or not exactly.

    ignored: no effect on cost. approximated: nearly expressed. not expressible: left out although it has a cost.
    `parameters`: how many more parameters the real model has than the document (negative if fewer).
    """

    kind: LossKind
    sentence: str
    place: Place | None = None
    parameters: float = 0.0


class StatedKey(NamedTuple):
    """A key or option of a foreign text, with its verdict; an unknown key is "not expressible"."""

    name: str
    verdict: Verdict
    place: Place | None = None


@record
class Imported:
    """A document, or a part of one, read from a foreign format.

    Keys and values remember their place in the foreign text, so that faults can show it. facts: values that are no
    document keys, such as accelerators. missing: values that are needed and not stated, each with another way to state
    it; keys that depend on them are left out. keys: every stated key with its verdict.
    """

    format: str
    document: dict[Any, Any]
    origins: dict[str, Origin]
    losses: tuple[Loss, ...] = ()
    warnings: tuple[Fault, ...] = ()
    facts: dict[str, OriginValue] = field(default_factory=dict)
    missing: tuple[Fault, ...] = ()
    keys: tuple[StatedKey, ...] = ()


# How many accelerators a job has: as its files state them, and as they are given beside the files.

COUNTS = ("accelerators", "nodes", "per_node")  # facts of a file about the size of its job
_HINT = "keep one of the two"


def accelerators_of_nodes(each: OriginValue, nodes: OriginValue | None, source: str) -> dict[str, OriginValue]:
    """The facts of a launcher that states the accelerators of each node, and perhaps the number of nodes."""
    if nodes is None or not nodes.value:
        nodes = OriginValue(1, Origin("derived", f"one node, where the {source} states none"))
    origin = Origin("derived", "nodes × accelerators of each", each.place)
    return {"accelerators": OriginValue(each.value * nodes.value, origin), "nodes": nodes, "per_node": each}


@record
class GivenSize:
    """The cluster size that the user gives beside the files.

    gpus: the number of accelerators. nodes: the number of nodes. each: accelerators per node. A count in a file is used
    as it is: a smaller count is a part of a node, and a contradiction is a fault unless the count is a variable's
    default.
    """

    gpus: int | None = None
    nodes: int | None = None
    each: int = 0

    def accelerators(self, stated: Mapping[str, OriginValue]) -> OriginValue | Fault | None:
        """The number of accelerators of a job; a fault if the files and the given size differ."""
        count, nodes, of_node = (stated.get(name) for name in COUNTS)
        fixed = nodes if nodes is not None and nodes.origin.kind == "file" else None
        if fixed is not None and self.nodes not in (None, fixed.value):
            return _count_fault(fixed, f"--nodes {self.nodes}", "nodes")
        if self.gpus is not None:
            return self._as_given(count, fixed, of_node)
        if count is None:
            return self._whole_nodes(fixed)
        if self.nodes is None:
            return count
        if of_node is not None and of_node.value <= self.each:
            return count.derived(of_node.value * self.nodes, f"{of_node.value} of each, by the launcher, × --nodes")
        whole = self.nodes * self.each
        if -(-int(count.value) // self.each) == self.nodes or count.value % self.nodes == 0 < whole - count.value:
            return count
        return (
            count if count.value == whole else _count_fault(count, f"--nodes {self.nodes} of {self.each} are {whole}")
        )

    def _as_given(
        self, count: OriginValue | None, nodes: OriginValue | None, of_node: OriginValue | None
    ) -> OriginValue | Fault:
        """The number that `--gpus` gives, or a fault if the files contradict it."""
        assert self.gpus is not None
        more = nodes is None and of_node is not None and self.gpus % of_node.value == 0
        if count is not None and count.value != self.gpus and not more:
            return _count_fault(count, f"--gpus {self.gpus}")
        if nodes is not None and self.gpus % nodes.value:
            return _count_fault(nodes, f"--gpus {self.gpus}", "nodes")
        return OriginValue(self.gpus, Origin("assumed", "--gpus, given beside the file"))

    def _whole_nodes(self, nodes: OriginValue | None) -> OriginValue | None:
        """The number of accelerators in the given number of whole nodes, or in the number that a file states."""
        if self.nodes is not None:
            return OriginValue(self.nodes * self.each, Origin("assumed", "--nodes, given beside the file"))
        if nodes is None or not self.each:
            return None
        return nodes.derived(nodes.value * self.each, f"{nodes.origin.text}: all {self.each} of each")


def _count_fault(count: OriginValue, given: str, what: str = "accelerators") -> Fault:
    sentence = f"{count.value:,} {what} by {count.origin.text}, and {given}"
    return Fault("X004", sentence, count.place or Place(""), _HINT)
