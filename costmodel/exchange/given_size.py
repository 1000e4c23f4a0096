"""How many accelerators a job has: as its files state them, and as they are given beside the files."""

from __future__ import annotations

from collections.abc import Mapping

from costmodel.exchange.imported import Origin, OriginValue
from costmodel.ground.errors import Fault, Place
from costmodel.ground.record import record

BY_NODE = "nodes × accelerators of each"  # the origin of a count that a launcher states for each node
_HINT = "keep one of the two"


@record
class GivenSize:
    """The size of a cluster as it is given beside files.

    gpus: accelerators. nodes: nodes of so many each. A count in a file stands for itself: fewer than a node holds are a
    part of it, and another number than is given is a contradiction.
    """

    gpus: int | None = None
    nodes: int | None = None
    each: int = 0

    def accelerators(self, stated: Mapping[str, OriginValue]) -> OriginValue | Fault | None:
        """The accelerators of a job whose files state these; a fault where both are stated and differ."""
        count, of_nodes = stated.get("accelerators"), stated.get("nodes")
        if self.gpus is not None:
            given = OriginValue(self.gpus, Origin("assumed", "--gpus, given beside the file"))
            own = (
                0
                if of_nodes is None or count is None or count.origin.text != BY_NODE
                else count.value // of_nodes.value
            )
            stands = count is None or count.value == self.gpus or (own and self.gpus % own == 0)
            return given if count is None or stands else _differs(count, f"--gpus {self.gpus}")
        if self.nodes is None:
            return count
        whole = self.nodes * self.each
        if count is None:
            return OriginValue(whole, Origin("assumed", "--nodes, given beside the file"))
        if of_nodes is not None and count.origin.text == BY_NODE and count.value <= self.each * of_nodes.value:
            each = count.value // of_nodes.value
            text = f"{each} of each node, by the launcher, × --nodes"
            return OriginValue(each * self.nodes, Origin("derived", text, count.place))
        if of_nodes is not None and of_nodes.place is not None and of_nodes.value != self.nodes:
            return _differs(of_nodes, f"--nodes {self.nodes}", "nodes")
        if -(-int(count.value) // self.each) == self.nodes or count.value % self.nodes == 0 < whole - count.value:
            return count
        return count if count.value == whole else _differs(count, f"--nodes {self.nodes} of {self.each} are {whole}")


def _differs(count: OriginValue, given: str, what: str = "accelerators") -> Fault:
    sentence = f"{count.value:,} {what} by {count.origin.text}, and {given}"
    return Fault("X004", sentence, count.place or Place(""), _HINT)
