"""What a search of a serving scenario offers where no plan of it keeps every limit."""

from __future__ import annotations

import pytest
from estimate.serving.cases import inputs, predicted

from costmodel.explore.search.ranges import axes
from costmodel.explore.serving.search_layouts import search
from costmodel.explore.serving.serving_remedies import with_remedies, with_search_remedies


@pytest.mark.parametrize(
    ("settings", "over", "first"),
    [
        (("workload.rate=50 /s",), (), "cluster.nodes=11"),  # replicas of tp 8, one a node, at 4.68 requests/s each
        (("model=deepseek-v3", "cluster.nodes=1"), (), "cluster.nodes=4"),  # none fits on one node
        (("workload.rate=16 /s",), ("cluster.node=dgx-h100,dgx-h200",), "cluster.node=dgx-h200"),
        (
            ("workload.rate=null", "workload.requests=20k", "limits={makespan: {at_most: 10 min}}"),
            (),
            "cluster.nodes=8",
        ),
    ],
)
def test_a_search_under_each_remedy_finds_a_plan_that_keeps_the_limits(
    settings: tuple[str, ...], over: tuple[str, ...], first: str
) -> None:
    found = with_search_remedies(search(inputs(*settings), 3, axes(over)))
    assert found.kept == 0
    assert found.remedies[0].settings[0] == first
    for remedy in found.remedies:
        again = search(inputs(*settings, *remedy.settings), 1)
        assert again.kept > 0
        assert again.best[0].sizes == remedy.best.sizes


@pytest.mark.parametrize(
    ("fleet", "rate", "settings"),
    [
        ((1, 1), 8, ("plan.prefill.replicas=2",)),  # prompts alone are short
        ((4, 1), 24, ("plan.decode.replicas=2",)),
        ((1, 1), 20, ("plan.prefill.replicas=3", "plan.decode.replicas=2")),
        ((7, 1), 50, ("plan.prefill.replicas=8", "plan.decode.replicas=3", "cluster.nodes=11")),
    ],
)
def test_a_remedy_adds_instances_of_the_kind_that_is_short(
    fleet: tuple[int, int], rate: int, settings: tuple[str, ...]
) -> None:
    plan = f"plan={{prefill: {{tp: 8, replicas: {fleet[0]}}}, decode: {{tp: 8, replicas: {fleet[1]}}}}}"
    scenario = ("cluster.nodes=8", f"workload.rate={rate} /s", plan)
    assert (settings,) in with_remedies(predicted(*scenario)).remedies
    assert not predicted(*scenario, *settings).broken


def test_nothing_is_offered_where_a_plan_keeps_the_limits_or_nothing_would() -> None:
    assert with_search_remedies(search(inputs())).remedies == ()
    assert with_search_remedies(search(inputs("limits={tpot: {at_most: 1 ms}}"))).remedies == ()
