"""The order of a search's plans, and how instances without a number fill the accelerators."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from estimate.serving.cases import inputs, predicted

from costmodel.estimate.serving import load
from costmodel.explore.serving.search_layouts import UNSTABLE, search
from costmodel.ground.units import show_time, significant

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

    Of plans that miss a limit as expected, the nearest is the one that carries most of the load within the limits;
    those that do not answer the load, whose times have no end, come after those that do.
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
    over = [not UNSTABLE.isdisjoint(plan.broken) for plan in others]
    assert over == sorted(over)
    for endless in (False, True):
        of_kind = [plan for plan, each in zip(others, over, strict=True) if each == endless]
        carried = [plan.costs["rate_within_slo_per_s"] for plan in of_kind]
        assert len(carried) > 3
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


def test_plans_over_saturation_wait_without_end_and_rank_last() -> None:
    """Of 12 requests a second tp 8 answers 14.6 and tp 16 less: the times of the latter have no end in any order."""
    for objective in ("ttft", "tpot", "rate_within_slo_per_s"):
        plans = search(inputs("workload.rate=12 /s", f"objective={objective}"), 100).best
        over = [not UNSTABLE.isdisjoint(plan.broken) for plan in plans]
        assert len(set(over)) == 2
        assert over == sorted(over)
        for plan, endless in zip(plans, over, strict=True):
            times = [plan.costs[name] for name in ("ttft", "ttft_p99", "latency")]
            assert all(np.isinf(time) == endless for time in times)
            assert show_time(times[0]) == "without end" or times[0] < 1e4


def test_a_search_looks_at_all_plans_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates are looked for on columns: 37,000 plans take no more looks than a hundred. tests/speed prints plans/s.

    By the rounding of the processor, a search may take a look or two more or less.
    """
    looks: list[int] = []
    look = load.operating_point

    def counted(*args: Any, **how: Any) -> Any:
        looks[-1] += 1
        return look(*args, **how)

    monkeypatch.setattr(load, "operating_point", counted)
    wide = {"tp": [1, 2, 4, 8], "pp": [1, 2, 4, 8], "budget": [512 * each for each in range(1, 65)]}
    valid = []
    for more in ((), (f"search={wide | {'replicas': [*range(1, 65)]}}",)):
        looks.append(0)
        valid.append(search(inputs("cluster.nodes=32", "workload.rate=100 /s", *more), 3).valid)
    assert valid[1] > 300 * valid[0]
    assert looks[1] <= 1.05 * looks[0] < 300


@pytest.mark.parametrize(
    "asked",
    [
        (),
        ("workload.rate=null", "workload.concurrency=64"),
        ("workload.turns=4", "workload.think_time=20 s", "workload.rate=2 /s"),
        ("assume.routing=least-loaded",),
        ("stack.chunked=false", "workload.rate=4 /s"),
    ],
)
def test_a_plan_of_a_search_has_the_figures_that_it_has_alone(asked: tuple[str, ...]) -> None:
    """To the last bit, with both ends of every band; a search may leave out what it does not rank by."""
    for plan in search(inputs(*asked), 3).best:
        sizes = ", ".join(f"{name}: {size:g}" for name, size in plan.sizes.items() if name != "budget")
        alone = predicted(*asked, f"plan={{{sizes}}}", f"stack.budget={plan.sizes['budget']:.0f}").costs
        known = {name: value for name, value in plan.costs.items() if not np.isnan(value)}
        assert {"tpot_low", "ttft_p99_high", "saturation_per_s"} <= known.keys()
        assert {name: alone[name] for name in known} == known


@pytest.mark.parametrize(("gap", "rate", "most"), [("100 ms", 8, 1024), ("50 ms", 6, 512)])
def test_a_limit_on_gaps_is_searched_with_small_steps_too(gap: str, rate: int, most: float) -> None:
    """No plan of 2,048 tokens or more keeps either: the search named half as many GPUs again, or that none does."""
    asked = f"limits.worst_gap.at_most={gap}", f"workload.rate={rate} /s"
    found = search(inputs(*asked), 1)
    assert found.kept
    assert found.best[0].sizes["budget"] <= most
    assert not search(inputs(*asked, "search.budget=[2048, 8192, 16384]"), 1).kept


def test_users_who_think_get_the_plan_that_answers_them_soonest(run: Any) -> None:
    """Rows were ordered by the most that plans answer, whatever these users ask for."""
    load = ("--prompt", "1000", "--answer", "200", "--users", "100", "--set", "workload.think_time=30 s")
    found = json.loads(run("search", "--model", "llama-3.1-8b", "--gpu", "a100", "--gpus", "8", *load, "--json").out)
    latencies = [plan["latency_s"] for plan in found["plans"]]
    assert latencies == sorted(latencies)
    assert len({*latencies}) > 3
