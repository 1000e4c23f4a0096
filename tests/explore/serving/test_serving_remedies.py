"""What is offered for a serving plan that is invalid or breaks a limit."""

from __future__ import annotations

import pytest
from estimate.serving.cases import predicted

from costmodel.explore.serving.serving_remedies import with_remedies
from costmodel.report.terminal.serving_formatting import reason


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("fleet", "rate", "settings"),
    [
        ((1, 1), 12, ("plan.prefill.replicas=2",)),  # prompts alone are short
        ((4, 1), 24, ("plan.decode.replicas=2",)),
        ((1, 1), 20, ("plan.prefill.replicas=3", "plan.decode.replicas=2")),
        ((5, 1), 50, ("plan.prefill.replicas=6", "plan.decode.replicas=3", "cluster.nodes=9")),
    ],
)
def test_a_remedy_adds_instances_of_the_kind_that_is_short(
    fleet: tuple[int, int], rate: int, settings: tuple[str, ...]
) -> None:
    """Of a share of the fleets, unless --whole asks for all."""
    plan = f"plan={{prefill: {{tp: 8, replicas: {fleet[0]}}}, decode: {{tp: 8, replicas: {fleet[1]}}}}}"
    scenario = ("cluster.nodes=8", f"workload.rate={rate} /s", plan)
    assert (settings,) in with_remedies(predicted(*scenario)).remedies
    assert not predicted(*scenario, *settings).broken


def test_instances_apart_that_are_too_many_have_remedies() -> None:
    """Prefill of 4 GPUs and decode of 8 take 12 of 8: smaller ones, or two nodes."""
    answer = with_remedies(predicted("plan={prefill: {tp: 4}, decode: {tp: 8}}", "cluster.nodes=1"))
    assert answer.refused == ("L050",)
    assert reason(answer, "L050") == "prefill 1 × tp 4 and decode 1 × tp 8 need 12 accelerators, and the cluster has 8"
    offered = [setting for kind in answer.remedies for setting in kind]
    assert ("cluster.nodes=2",) in offered
    assert ("plan.decode.tp=4",) in offered
    for settings in offered:
        base = (*(() if "cluster" in settings[0] else ("cluster.nodes=1",)), *settings)
        assert not predicted("plan={prefill: {tp: 4}, decode: {tp: 8}}", *base).refused
    halves = "plan={prefill: {tp: 4, replicas: 2}, decode: {tp: 8, replicas: 2}}"
    assert [kind[0] for kind in with_remedies(predicted(halves)).remedies][:2] == [
        ("plan.decode.replicas=1",),
        ("cluster.nodes=3",),
    ]


@pytest.mark.parametrize(("replicas", "nodes"), [(5, 2), (9, 3)])
def test_too_many_replicas_are_reduced_to_those_that_fit(replicas: int, nodes: int) -> None:
    """Replicas of tp 8 take one node of 8 each; with them the plan meets all limits, as far as any number does."""
    scenario = (f"plan.replicas={replicas}", f"cluster.nodes={nodes}")
    answer = with_remedies(predicted(*scenario))
    assert answer.refused == ("L050",)
    assert answer.remedies[0] == ((f"plan.replicas={nodes}",),)
    assert predicted(*scenario, f"plan.replicas={nodes}").broken == ()


@pytest.mark.parametrize("load", ["workload.rate=8 /s", "workload.rate=1 /s"])
def test_full_links_between_instances_are_named_with_remedies(load: str) -> None:
    plan = "plan={prefill: {tp: 8, replicas: 2}, decode: {tp: 8}}"
    scenario = ("cluster.nodes=3", "cluster.fabric.bandwidth=1 Gbit/s", plan, load)
    answer = with_remedies(predicted(*scenario))
    if "S005" in answer.broken:
        assert "the links between them (ib-ndr) are full" in reason(answer, "S005")
        assert "at most 1.43 requests/s" in reason(answer, "S005")
    kinds = {settings[0].partition("=")[0]: settings for kind in answer.remedies for settings in kind}
    assert {"cluster.fabric.bandwidth", "plan"} <= {*kinds}
    others = scenario[:2] + scenario[3:]  # a whole plan takes the place of the one before
    assert not predicted(*scenario, *kinds["cluster.fabric.bandwidth"]).broken
    assert not predicted(*others, *kinds["plan"]).broken


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("load", "fewer", "more"),
    [
        ("users: 500, think_time: 30 s", "workload.users=390", "plan.replicas=3"),
        ("users: 5000, think_time: 30 s", "workload.users=400", "plan.replicas=25"),
        ("concurrency: 1000", "workload.concurrency=120", "plan.replicas=17"),
    ],
)
def test_a_load_that_waits_for_answers_has_remedies(load: str, fewer: str, more: str) -> None:
    """A share of the loads, unless --whole asks for all."""
    scenario = f"workload={{kind: serving, prompt: 2048, output: 512, {load}}}"
    answer = with_remedies(predicted(scenario))
    assert {"S001", "S002"} & {*answer.broken}
    assert [kind[0][0] for kind in answer.remedies[:2]] == [fewer, more]
    for kind in answer.remedies:
        assert not predicted(scenario, *kind[0]).broken
