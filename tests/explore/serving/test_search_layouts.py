"""The order of a search's plans, and how instances without a number fill the accelerators."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from estimate.serving.cases import inputs, predicted

from costmodel.explore.serving.search_layouts import search
from costmodel.ground.units import significant

RATE = "objective=rate_within_slo_per_s"
FREE = "limits={}"


def test_of_plans_that_look_alike_the_soonest_comes_first() -> None:
    """Three budgets of tp 4 are shown with one rate: the first of them is the one with the shortest p99."""
    plans = search(inputs(FREE, RATE, "workload.prompt=2048"), 12).best
    pairs = list(itertools.pairwise(plans))
    rates = [tuple(significant(plan.costs["rate_within_slo_per_s"]) for plan in pair) for pair in pairs]
    alike = [pair for pair, (one, other) in zip(pairs, rates, strict=True) if one == other]
    alike = [pair for pair in alike if len({(plan.costs["gpus"], bool(plan.broken)) for plan in pair}) == 1]
    assert alike
    for first, second in alike:
        assert first.costs["ttft_p99"] <= second.costs["ttft_p99"]
    shown = [float(significant(plan.costs["rate_within_slo_per_s"]).replace(",", "")) for plan in plans]
    assert np.all(np.diff(shown) <= 0)


@pytest.mark.parametrize("objective", ["rate_within_slo_per_s", "tpot"])
def test_the_nearest_plan_is_the_one_that_misses_its_limits_by_least(objective: str) -> None:
    """With --safe 99% none keeps the chance: tp 4 comes nearest to it, whatever orders plans that keep their limits.

    Of plans that miss a limit as expected, the nearest is the one that carries most of the load within the limits.
    """
    load = ("workload.prompt=2000", "workload.output=500", "workload.rate=50 /s", "cluster.nodes=8")
    safe = ("limits={ttft_p99: {at_most: 1 s}, limits_chance: {at_least: 99 %}}", f"objective={objective}")
    found = search(inputs(*load, *safe), 100)
    chances = [plan.costs["limits_chance"] for plan in found.best if set(plan.broken) == {"S006"}]
    assert found.kept == 0
    assert len(chances) > 3
    assert chances[0] == max(plan.costs["limits_chance"] for plan in found.best)
    assert found.best[0].sizes["tp"] == 4
    others = [plan for plan in found.best if set(plan.broken) != {"S006"}]
    assert [*found.best[: len(chances)], *others] == found.best
    carried = [plan.costs["rate_within_slo_per_s"] for plan in others]
    assert carried == pytest.approx(sorted(carried, reverse=True), rel=0.01)


def test_instances_fill_the_accelerators_as_replicas_do() -> None:
    """16 GPUs hold two groups of four and four; with one count given, the other takes what is left."""
    opened = predicted("plan={prefill: {tp: 4}, decode: {tp: 4}}")
    written = predicted("plan={prefill: {tp: 4, replicas: 2}, decode: {tp: 4, replicas: 2}}")
    np.testing.assert_equal(opened.costs, written.costs)
    assert [item.path for item in opened.assumed][:2] == ["plan.prefill.replicas", "plan.decode.replicas"]
    half = predicted("plan={prefill: {tp: 4}, decode: {tp: 4, replicas: 1}}")
    assert (half.costs["gpus"], half.assumed[0].value) == (16.0, "3")
    uneven = predicted("plan={prefill: {tp: 2}, decode: {tp: 8}}")
    assert uneven.assumed[0].origin == "16 GPUs over 10, 6 idle"


def test_instances_apart_find_what_their_own_number_of_replicas_keeps() -> None:
    """One instance for prompts has every conversation; of four each has a quarter, whatever else a search looks at."""
    talk = ("workload.turns=4", "workload.prompt=500", "workload.think_time=20 s", "workload.rate=2 /s", "limits={}")
    found = search(inputs(*talk, "cluster.nodes=4", "search.disaggregated=true", "search.tp=[8]"), 400)
    apart = [plan for plan in found.best if plan.prefill is not None]
    hits = {plan.prefill["replicas"]: plan.costs["prefix_hit"] for plan in apart if plan.prefill is not None}
    assert len(hits) > 1
    for replicas, hit in hits.items():
        sizes = f"plan={{prefill: {{tp: 8, replicas: {replicas:g}}}, decode: {{tp: 8}}}}"
        assert predicted(*talk, "cluster.nodes=4", sizes).costs["prefix_hit"] == hit
