"""How many accelerators a job has: as its files state them, and as they are given beside the files."""

from __future__ import annotations

from collections.abc import Mapping

from costmodel.exchange.imported import Origin, OriginValue
from costmodel.ground.errors import Fault, Place
from costmodel.ground.record import record

COUNTS = ("accelerators", "nodes", "per_node")  # facts of a file about the size of its job
_HINT = "keep one of the two"


def counted_by_node(each: OriginValue, nodes: OriginValue | None, source: str) -> dict[str, OriginValue]:
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
            return _differs(fixed, f"--nodes {self.nodes}", "nodes")
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
        return count if count.value == whole else _differs(count, f"--nodes {self.nodes} of {self.each} are {whole}")

    def _as_given(
        self, count: OriginValue | None, nodes: OriginValue | None, of_node: OriginValue | None
    ) -> OriginValue | Fault:
        """The number that `--gpus` gives, or a fault if the files contradict it."""
        assert self.gpus is not None
        more = nodes is None and of_node is not None and self.gpus % of_node.value == 0
        if count is not None and count.value != self.gpus and not more:
            return _differs(count, f"--gpus {self.gpus}")
        if nodes is not None and self.gpus % nodes.value:
            return _differs(nodes, f"--gpus {self.gpus}", "nodes")
        return OriginValue(self.gpus, Origin("assumed", "--gpus, given beside the file"))

    def _whole_nodes(self, nodes: OriginValue | None) -> OriginValue | None:
        """The number of accelerators in the given number of whole nodes, or in the number that a file states."""
        if self.nodes is not None:
            return OriginValue(self.nodes * self.each, Origin("assumed", "--nodes, given beside the file"))
        if nodes is None or not self.each:
            return None
        return nodes.derived(nodes.value * self.each, f"{nodes.origin.text}: all {self.each} of each")


def _differs(count: OriginValue, given: str, what: str = "accelerators") -> Fault:
    sentence = f"{count.value:,} {what} by {count.origin.text}, and {given}"
    return Fault("X004", sentence, count.place or Place(""), _HINT)
