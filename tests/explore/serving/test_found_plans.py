"""One ranking of the plans of several serving scenarios, and what becomes of the plans of each."""

from __future__ import annotations

import math

import numpy as np
import pytest
from estimate.serving.cases import costs, inputs

from costmodel.explore.search.value_ranges import Axis, axes
from costmodel.explore.serving.best_layout import plan_settings
from costmodel.explore.serving.pareto import front
from costmodel.explore.serving.search_layouts import search
from costmodel.explore.serving.serving_search_result import RankedPlan, ServiceSearch
from costmodel.ground.errors import CostModelError

NODES = ("dgx-h100", "dgx-h200", "dgx-b200")
OBJECTIVES = ("rate_within_slo_per_s", "gpus_needed")


def over(*texts: str) -> list[Axis]:
    """Keys that vary."""
    return axes(texts)


def found(*assignments: str, keys: list[Axis], top: int = 10, bands: bool = False) -> ServiceSearch:
    """A search over some keys."""
    return search(inputs(*assignments), top, keys, bands=bands)


def rows_of(searched: ServiceSearch) -> list[RankedPlan]:
    """The plans of a front, each at its load."""
    assert searched.front is not None
    return searched.front.rows


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_one_ranking_is_that_of_the_searches_at_each_value(objective: str) -> None:
    """Those that keep the limits first, each part by the objective; counts are those of the searches alone."""
    stated = (f"objective={objective}", "assume.price=null")
    together = found(*stated, keys=over(f"cluster.node={','.join(NODES)}"), top=1000, bands=True)
    alone = [search(inputs(*stated, f"cluster.node={node}"), 1000) for node in NODES]
    assert len(together.best) == sum(len(each.best) for each in alone)
    sign = -1 if objective == OBJECTIVES[0] else 1
    assert [bool(plan.broken) for plan in together.best] == sorted(bool(plan.broken) for plan in together.best)
    figures = [sign * float(f"{plan.costs[objective]:.3g}") for plan in together.best if not plan.broken]
    assert figures == sorted(figures)
    for number, each in enumerate(alone):
        mine = [plan for plan in together.best if plan.variant == number]
        np.testing.assert_equal([plan.costs for plan in mine], [plan.costs for plan in each.best])
        assert [plan.sizes for plan in mine] == [plan.sizes for plan in each.best]
        part, own = together.parts[number], each.tally
        assert (part.candidates, part.evaluated, part.fit) == (own.candidates, own.evaluated, own.fit)
        assert (part.kept, part.safe) == (own.kept, own.safe)
        assert part.refused == own.refused
        assert part.best is mine[0]


def test_the_own_plan_ranks_behind_all_that_are_better() -> None:
    together = found(keys=over(f"cluster.node={','.join(NODES)}"), top=1000, bands=True)
    own = together.yours
    assert own is not None
    better = [
        plan for plan in together.best if not plan.broken and plan.costs[OBJECTIVES[0]] > own.costs[OBJECTIVES[0]]
    ]
    same = [plan for plan in together.best if plan.variant == 0 and plan.costs["ttft_p99"] == own.costs["ttft_p99"]]
    assert together.best.index(same[0]) + 1 == together.your_rank >= len(better)


def test_the_settings_of_every_row_give_its_figures_again() -> None:
    """Also where a value changes how many replicas fill the accelerators, and where instances are apart."""
    stated = ("search.disaggregated=true", "workload.rate=20 /s")
    together = found(*stated, keys=over("cluster.nodes=1,3", "stack=vllm,sglang", "workload.weights=bf16,fp8"), top=400)
    rows = [*together.best[:6], *together.best[100::60]]
    assert {plan.variant for plan in rows} != {0}
    assert any(plan.prefill for plan in rows)
    for plan in rows:
        settings = [f"{path}={value}" for path, value in plan_settings(together, plan).items()]
        again = costs(*stated, *settings)
        for name in ("gpus", "tpot", "rate_within_slo_per_s"):
            assert plan.costs[name] == pytest.approx(again[name], rel=1e-9, nan_ok=True), settings
        money = math.nan if plan.broken else again["cost_within_limits"]
        assert plan.costs["cost_within_limits"] == pytest.approx(money, rel=1e-9, nan_ok=True), settings


def test_a_plan_with_prefill_and_decode_apart_is_replaced_whole() -> None:
    apart = ("cluster.nodes=3", "plan={prefill: {tp: 8, replicas: 2}, decode: {tp: 8}}")
    best = search(inputs(*apart), 1)
    assert plan_settings(best, best.best[0])["plan"] == "{tp: 8, replicas: 3}"


def test_drafts_stay_where_a_plan_is_written_whole() -> None:
    drafts = "speculation: {tokens: 4, chance: 70 %, draft: eagle}"
    best = search(inputs("search.disaggregated=true", f"plan={{tp: 8, {drafts}}}", "search.tp=[4, 8]"), 100)
    apart = next(plan for plan in best.best if plan.prefill is not None)
    assert drafts in plan_settings(best, apart)["plan"]


def test_a_value_without_room_is_counted_and_the_others_are_ranked() -> None:
    together = found("plan.tp=16", keys=over("cluster.nodes=1,2"))
    assert [part.fault and part.fault.code for part in together.parts] == ["C004", None]
    assert {plan.variant for plan in together.best} == {1}
    with pytest.raises(CostModelError, match="has room for"):
        found("plan.tp=16", keys=over("cluster.nodes=1"))


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        ("objective=tpot,ttft", "plans of several objectives"),
        ("plan={tp: 4},{tp: 8}", "values of one key of the plan"),
        ("plan.tp=4,8", "search.tp lists values of plan.tp"),
        ("stack.budget=2048,8192", "search.budget lists values of stack.budget"),
        ("stack=vllm,megatron-core", "megatron-core is training software"),
        ("cluster.node=dgx-h100,dgx-h1", "no node named 'dgx-h1'"),
        ("workload.rate=1..3000", "combinations are more than"),
    ],
)
def test_values_that_make_no_one_ranking_are_refused(axis: str, words: str) -> None:
    with pytest.raises(CostModelError, match=words):
        found("search={tp: [4, 8], budget: [2048]}", keys=over(axis))


def test_a_node_without_a_price_is_named_not_compared_as_free() -> None:
    """The price of the scenario is that of its own node."""
    keys = over("cluster.node=dgx-h100,hgx-h800,p6-b200,l20-8")
    unknown = "no price is known for hgx-h800, l20-8"
    with pytest.raises(CostModelError, match=unknown):
        found("objective=cost_within_limits", keys=keys)
    with pytest.raises(CostModelError, match=unknown):
        front(inputs(), "tpot,cost_per_mtoken", keys)
    assert found(keys=keys).tally.safe > 0


def test_a_front_over_values_is_what_none_of_their_fronts_beats() -> None:
    pair = ("tpot", "tokens_per_s_per_gpu")
    together = front(inputs(), ",".join(pair), over(f"cluster.node={','.join(NODES)}"))
    alone = [front(inputs(f"cluster.node={node}", "assume.price=null"), ",".join(pair)) for node in NODES]
    points = [(point.costs[pair[0]], -point.costs[pair[1]]) for each in alone for point in rows_of(each)]
    best = sorted(one for one in points if not any(x <= one[0] and y <= one[1] and (x, y) != one for x, y in points))
    assert [(point.costs[pair[0]], -point.costs[pair[1]]) for point in rows_of(together)] == best
    assert together.tally.evaluated == sum(each.tally.evaluated for each in alone)


def test_a_result_that_no_plan_has_gives_no_front() -> None:
    with pytest.raises(CostModelError, match="no plan has both tpot and makespan"):
        front(inputs(), "tpot,makespan")


def test_a_front_has_instances_apart_where_the_search_lists_them() -> None:
    """Each of its points is what the plan gives at that load."""
    space = "tp: [4, 8], budget: [8192]"
    stated = ("cluster.nodes=3", f"search={{{space}, disaggregated: true}}")
    apart = front(inputs(*stated), "tpot,tokens_per_s_per_gpu")
    alone = front(inputs(stated[0], f"search={{{space}}}"), "tpot,tokens_per_s_per_gpu")
    assert apart.tally.evaluated > alone.tally.evaluated
    point = next(point for point in rows_of(apart) if point.prefill is not None)
    assert point.prefill is not None
    halves = {"prefill": point.prefill, "decode": point.sizes}
    plan = (f"{name}: {{tp: {half['tp']:.0f}, replicas: {half['replicas']:.0f}}}" for name, half in halves.items())
    again = costs(*stated, f"plan={{{', '.join(plan)}}}", f"workload.rate={point.load!r} /s")
    assert again["tpot"] == pytest.approx(point.costs["tpot"], rel=1e-9)


@pytest.mark.parametrize("load", ["requests: 1000", "concurrency: 64, traffic: burst"])
def test_instances_apart_are_refused_where_estimate_refuses_them(load: str) -> None:
    stated = inputs(f"workload={{kind: serving, prompt: 500, output: 50, {load}}}", "search.disaggregated=true")
    for asked in (search, lambda given: front(given, "tpot,ttft")):
        with pytest.raises(CostModelError, match="not modelled with separate prefill and decode"):
            asked(stated)
