"""Changes of a scenario that add accelerators."""

from __future__ import annotations

from costmodel.documents.reader.resolved_scenario import load
from costmodel.explore.search.changes import nodes_of, of_money


def test_a_node_that_is_used_in_part_is_filled_before_others_are_added() -> None:
    """Of a job on four GPUs of nodes with eight, 32 GPUs are four whole nodes, not eight half empty ones."""
    part = load("quickstart", ("cluster.nodes=1", "cluster.node.accelerators=4"))
    assert nodes_of(part, 8.0) == ("cluster.node.accelerators=8",)
    assert nodes_of(part, 40.0) == ("cluster.node.accelerators=8", "cluster.nodes=5")
    assert nodes_of(load("quickstart"), 40.0) == ("cluster.nodes=5",)
    more = [change.settings for change in of_money(part, larger=True) if "cluster.nodes" in "".join(change.settings)]
    assert more[0] == ("cluster.node.accelerators=8", "cluster.nodes=2")
