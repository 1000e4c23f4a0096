"""Changes of a scenario: those that add accelerators, and their order."""

from __future__ import annotations

from typing import Any

from costmodel.documents.reader.load_scenario import load
from costmodel.explore.search.cheapest_changes import nodes_of, of_money, of_the_scenario


def test_a_node_that_is_used_in_part_is_filled_before_others_are_added() -> None:
    """Of a job on four GPUs of nodes with eight, 32 GPUs are four whole nodes, not eight half empty ones."""
    part = load("quickstart", ("cluster.nodes=1", "cluster.node.accelerators=4"))
    assert nodes_of(part, 8.0) == ("cluster.node.accelerators=8",)
    assert nodes_of(part, 40.0) == ("cluster.node.accelerators=8", "cluster.nodes=5")
    assert nodes_of(load("quickstart"), 40.0) == ("cluster.nodes=5",)
    more = [change.settings for change in of_money(part, larger=True) if "cluster.nodes" in "".join(change.settings)]
    assert more[0] == ("cluster.node.accelerators=8", "cluster.nodes=2")


def test_what_is_learnt_changes_last(run: Any) -> None:
    """Of a model that needs many more GPUs the next step is to take them, not to train another way."""
    out = run("search", "quickstart", "--set", "model=deepseek-v3").out
    assert "Next: costmodel search quickstart --set model=deepseek-v3 --set cluster.nodes=" in out
    kinds = [change.kind for change in of_the_scenario(load("quickstart"), smaller=True)]
    last = {"sequence", "lora", "qlora"}
    assert set(kinds[-1:]) <= last
    assert [kind in last for kind in kinds] == sorted(kind in last for kind in kinds)
