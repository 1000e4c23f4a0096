"""The order of a search's plans, and how instances without a number fill the accelerators."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from estimate.serving.cases import inputs, predicted

from costmodel.estimate.serving import load, replica_capacity, service_limits
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.explore.search.required_chance import preferring
from costmodel.explore.serving import search_layouts
from costmodel.explore.serving.search_layouts import UNSTABLE, search
from costmodel.explore.serving.serving_search_result import RankedPlan
from costmodel.ground.units import show_time, significant
from costmodel.report.answers.search_service import ServiceWords

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


@pytest.mark.parametrize("safe", [None, 0.9])
@pytest.mark.parametrize(("limits", "binds"), [
    ({"ttft_p99": 0.7, "tpot": 0.1}, "ttft_p99"),
    ({"ttft_p99": 10.0, "tpot": 0.02}, "tpot"),
    ({"ttft_p99": 100.0, "tpot": 1.0}, ""),
])  # fmt: skip
def test_what_binds_is_the_limit_without_which_a_plan_serves_more(
    limits: dict[str, float], binds: str, safe: float | None
) -> None:
    """The limit that, ten times as wide, raises the rate by a tenth; where none does, a part of the engine."""

    def asked(given: dict[str, float]) -> RankedPlan:
        stated = "limits={" + ", ".join(f"{name}: {{at_most: {value:g} s}}" for name, value in given.items()) + "}"
        job = inputs(stated, RATE, "workload.rate=4/s", "workload.prompt=2048", "search.tp=[4]")
        return search(replace(job, case=preferring(job.case, safe)), 1).best[0]

    plan, rates = asked(limits), dict[str, float]()
    for name, value in limits.items():
        rates[name] = asked({**limits, name: 10 * value}).costs["rate_within_slo_per_s"]
    more = [name for name, rate in rates.items() if rate > 1.1 * plan.costs["rate_within_slo_per_s"]]
    assert more == ([binds] if binds else [])
    assert plan.binding == binds if binds else plan.binding in load.BINDING or plan.binding == "compute"


def missed_tenths(chances: Sequence[float], wanted: float) -> list[int]:
    """By how many tenths of the wanted chance each plan misses it, rounded up."""
    return [-int(-10 * (wanted - chance) // wanted) for chance in chances]


@pytest.mark.parametrize("objective", ["rate_within_slo_per_s", "tpot"])
def test_the_nearest_plan_is_the_one_that_misses_its_limits_by_least(objective: str) -> None:
    """With --safe 99% none keeps the chance: those nearest to it come first, tp 4 among them.

    Those that miss the chance by less than a tenth of it are about equally near: the objective orders them.
    Of plans that miss a limit as expected, the nearest is the one that carries most of the load within the limits;
    those that do not answer the load, whose times have no end, come after those that do.
    """
    load = ("workload.prompt=2000", "workload.output=500", "workload.rate=50 /s", "cluster.nodes=8")
    safe = ("limits={ttft_p99: {at_most: 1 s}, limits_chance: {at_least: 99 %}}", f"objective={objective}")
    found = search(inputs(*load, *safe), 100)
    chances = [plan.costs["limits_chance"] for plan in found.best if set(plan.broken) == {"S006"}]
    tenths = missed_tenths(chances, 0.99)
    nearest = [plan.costs for plan in found.best[: tenths.count(tenths[0])]]
    assert found.tally.safe == 0
    assert len(chances) > 3
    assert tenths == sorted(tenths)
    surest = max(found.best, key=lambda plan: plan.costs["limits_chance"])
    assert surest.costs in nearest
    assert surest.sizes["tp"] == 4
    assert nearest[0][objective] == (min if objective == "tpot" else max)(costs[objective] for costs in nearest)
    others = [plan for plan in found.best if set(plan.broken) != {"S006"}]
    assert [*found.best[: len(chances)], *others] == found.best
    over = [not UNSTABLE.isdisjoint(plan.broken) for plan in others]
    assert over == sorted(over)
    for endless in (False, True):
        of_kind = [plan for plan, each in zip(others, over, strict=True) if each == endless]
        carried = [plan.costs["rate_within_slo_per_s"] for plan in of_kind]
        assert len(carried) > 3
        assert carried == pytest.approx(sorted(carried, reverse=True), rel=0.01)


def counts(found: Any) -> list[Any]:
    """The numbers of instances that were assumed."""
    return [item for item in found.assumed if item.path.endswith(".replicas")]


def test_instances_fill_the_accelerators_as_replicas_do() -> None:
    """16 GPUs hold two groups of four and four; with one count given, the other takes what is left."""
    opened = predicted("plan={prefill: {tp: 4}, decode: {tp: 4}}")
    written = predicted("plan={prefill: {tp: 4, replicas: 2}, decode: {tp: 4, replicas: 2}}")
    np.testing.assert_equal(opened.costs, written.costs)
    assert [item.path for item in counts(opened)] == ["plan.prefill.replicas", "plan.decode.replicas"]
    half = predicted("plan={prefill: {tp: 4}, decode: {tp: 4, replicas: 1}}")
    assert (half.costs["gpus"], counts(half)[0].value) == (16.0, "3")
    uneven = predicted("plan={prefill: {tp: 2}, decode: {tp: 8}}")
    assert counts(uneven)[0].origin == "16 GPUs over 10, 6 idle"


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

    By the rounding of the processor, a search may take a look or two more or less. A few plans whose load lies where
    the time of a step jumps take two dozen more, alone.
    """
    looks: list[list[int]] = []
    look = load.operating_point

    def counted(found: Any, layout: PlanColumns, *args: Any, **how: Any) -> Any:
        looks[-1].append(len(layout))
        return look(found, layout, *args, **how)

    monkeypatch.setattr(load, "operating_point", counted)
    monkeypatch.setattr(replica_capacity, "KINDS", 0)  # nothing is known from other searches
    wide = {"tp": [1, 2, 4, 8], "pp": [1, 2, 4, 8], "budget": [512 * each for each in range(1, 65)]}
    valid = []
    for more in ((), (f"search={wide | {'replicas': [*range(1, 65)]}}",)):
        looks.append([])
        valid.append(search(inputs("cluster.nodes=32", "workload.rate=100 /s", *more), 3).tally.evaluated)
    assert valid[1] > 300 * valid[0]
    few, many = map(len, looks)
    most = round(1.05 * few)
    assert sum(sorted(looks[1])[:-most]) < 2e-3 * sum(looks[1])
    assert many <= few + 40 < 300


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


@pytest.mark.parametrize(("gap", "rate", "most"), [("100 ms", 8, 1024), ("70 ms", 6, 1024)])
def test_a_limit_on_gaps_is_searched_with_small_steps_too(gap: str, rate: int, most: float) -> None:
    """No plan of 2,048 tokens or more keeps either: the search named half as many GPUs again, or that none does."""
    asked = f"limits.worst_gap.at_most={gap}", f"workload.rate={rate} /s"
    found = search(inputs(*asked), 1)
    assert found.tally.safe
    assert found.best[0].sizes["budget"] <= most
    assert not search(inputs(*asked, "search.budget=[2048, 8192, 16384]"), 1).tally.safe


def test_users_who_think_get_the_plan_that_answers_them_soonest(run: Any) -> None:
    """Rows were ordered by the most that plans answer, whatever these users ask for."""
    load = ("--prompt", "1000", "--answer", "200", "--users", "100", "--set", "workload.think_time=30 s")
    found = json.loads(run("search", "--model", "llama-3.1-8b", "--gpu", "a100", "--gpus", "8", *load, "--json").out)
    latencies = [plan["latency_s"] for plan in found["plans"]]
    assert latencies == sorted(latencies)
    assert len({*latencies}) > 3


LIMITS = "limits={ttft_p99: {at_most: 1 s}, tpot: {at_most: 25 ms}}"


def _preferring(*settings: str, safe: float | None = 0.9) -> Any:
    asked = inputs(*settings)
    return replace(asked, case=preferring(asked.case, safe))


def _figures(found: Any) -> list[tuple[Any, ...]]:
    return [(plan.sizes, plan.costs["rate_within_slo_per_s"], plan.costs["gpus_needed"]) for plan in found.best]


@pytest.mark.share(3)
@pytest.mark.parametrize("nodes", [2, 4])
@pytest.mark.parametrize("top", [1, 5, 1000])
def test_best_first_finds_what_every_plan_evaluated_gives(
    monkeypatch: pytest.MonkeyPatch, nodes: int, top: int
) -> None:
    """As few plans as settle the best, against all: of few at a time, and of all at once with the limit stated.

    A share of numbers of nodes and of plans, unless --whole asks for all.
    """
    settings = (LIMITS, "plan=null", f"cluster.nodes={nodes}", "workload.rate=8 /s")
    demanded = search(inputs(*settings, "limits.limits_chance.at_least=90%"), top, bands=False)
    monkeypatch.setattr(search_layouts, "FIRST_ROWS", 1)
    preferred = search(_preferring(*settings), top, bands=False)
    assert _figures(preferred) == _figures(demanded)
    counts, sure = preferred.tally, demanded.tally
    assert (counts.safe, counts.kept) == (sure.kept, sure.kept + sure.refused[search_layouts.AT_RISK])
    assert counts.candidates == sure.candidates


def test_best_first_looks_at_few_of_many_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    demanded = search_layouts.under_limits

    def counting(asked: Any, known: Any, **options: Any) -> Any:
        seen.append(len(known.layout))
        return demanded(asked, known, **options)

    monkeypatch.setattr(search_layouts, "under_limits", counting)
    monkeypatch.setattr(search_layouts, "FIRST_ROWS", 2)
    found = search(_preferring(LIMITS, "plan=null", "cluster.nodes=4"), 2, bands=False)
    assert 0 < sum(seen) < found.tally.evaluated / 3


def test_plans_under_other_limits_are_evaluated_as_anew() -> None:
    """Also where a limit is on a result of the rate within limits, and with a cap of requests in flight."""
    for more in ((), ("limits.gpus_needed={at_most: 64}",), ("workload.concurrency=40",)):
        plain = inputs(LIMITS, "plan=null", "cluster.nodes=4", *more)
        layout, strict = search_layouts.valid_layouts(plain)[1], service_limits.demanding_chance(plain, 0.9)
        with np.errstate(all="ignore"):
            known = search_layouts.evaluate(service_limits.asking_chance(plain), layout)
            found, anew = search_layouts.under_limits(strict, known), search_layouts.evaluate(strict, layout)
        assert list(found.results.columns) == list(anew.results.columns)
        for name in anew.results.columns.keys() - set(service_limits.IN_TIME):  # which the first evaluation asks for
            np.testing.assert_array_equal(found.results.column(name), anew.results.column(name), err_msg=name)


@pytest.mark.parametrize("objective", ["gpus_needed", "tokens_per_gpu_within_limits"])
def test_a_preferred_chance_sizes_a_fleet_that_has_it(objective: str) -> None:
    """The optimistic fleet is smaller, and its chance is lower."""
    found = search(_preferring(LIMITS, "plan=null", "cluster.nodes=8", "workload.rate=16 /s", f"objective={objective}"))
    fleet, other = found.fleet or found.best[0], found.other
    assert found.is_safe
    assert fleet.costs["limits_chance"] >= 0.9 > other.costs["limits_chance"]
    assert fleet.costs["gpus"] == found.best[0].costs["gpus_needed"] > other.costs["gpus"]
    off = search(_preferring(LIMITS, "plan=null", "cluster.nodes=8", "workload.rate=16 /s", f"objective={objective}",
                             safe=None))  # fmt: skip
    assert off.best[0].costs["gpus_needed"] == other.costs["gpus"]
    assert off.safe is None is off.other


def test_where_no_plan_is_safe_the_surest_comes_first(run: Any) -> None:
    ran = run("search", "serve-llama-3.1-70b", "-v")
    assert ran.code == 0
    assert "No plan meets all limits with a chance of 90 %. Plan 1 is the surest: 81 %" in ran.out
    assert "16 GPUs: 81 % chance; 24 GPUs: 99.5 % chance (--safe off shows 16)" in ran.out
    assert "Next, the surest plan: costmodel estimate" in ran.out
    assert run("search", "serve-llama-3.1-70b", "--safe", "90%").code == 1
    off = run("search", "serve-llama-3.1-70b", "--safe", "off")
    assert off.code == 0
    assert "Sized for the average prediction. Add --safe 90% to allow for its error" in off.out
    safe = json.loads(run("search", "serve-llama-3.1-70b", "--json").out)["safe"]
    assert (safe["chance"], safe["rules"], safe["met"], safe["plans"]) == (0.9, True, False, 0)


def test_a_chance_of_an_unmeasured_gpu_only_shows() -> None:
    """Its band is that of other parts: expected figures rank and size, and the other size stands beside."""
    settings = ("cluster.node=hgx-mi300x", LIMITS, "plan=null", "workload.rate=8 /s")
    shown, off = search(_preferring(*settings)), search(_preferring(*settings, safe=None))
    assert (shown.safe, shown.unruled) == (None, 0.9)
    assert _figures(shown) == _figures(off)
    assert shown.other.costs["gpus"] >= shown.best[0].costs["gpus_needed"]
    assert "No kernels measured on this GPU, so the average prediction rules" in ServiceWords(shown).other_rule()


def test_a_preferred_chance_leaves_the_headroom_of_a_load_without_limits(run: Any) -> None:
    """A limit on the chance alone is no limit on times: it took the headroom away, and sized for less than without."""
    load = ("serve-llama-3.1-70b", "--set", "limits={}", "--set", "plan=null", "--json")
    safe, off = (json.loads(run("search", *load, "--safe", how).out)["plans"][0] for how in ("90%", "off"))
    assert safe["gpus_needed"] >= off["gpus_needed"]
    assert safe["rate_within_slo_per_s"] < off["rate_within_slo_per_s"]


def test_plans_of_about_equal_chance_are_ordered_by_the_objective() -> None:
    """None has 90 %; of those that differ by less than a tenth of it, the first ones answer the highest rate."""
    found = search(_preferring("model=deepseek-v3", "cluster.nodes=8"), 20)
    risky = [plan.costs for plan in found.best if not plan.broken]
    assert found.tally.safe == 0
    assert found.is_safe is False
    tenths = missed_tenths([costs["limits_chance"] for costs in risky], 0.9)
    assert tenths == sorted(tenths)
    assert len({*tenths}) > 1
    for tenth in {*tenths}:
        rates = [costs["rate_within_slo_per_s"] for costs, each in zip(risky, tenths, strict=True) if each == tenth]
        assert rates == pytest.approx(sorted(rates, reverse=True), rel=0.01)
    assert [costs["limits_chance"] for costs in risky] != sorted(
        (each["limits_chance"] for each in risky), reverse=True
    )


def test_equally_many_gpus_are_in_the_order_of_their_rent(run: Any) -> None:
    """Three nodes of the same GPU: the cheapest first, each price with its nodes; a DGX, sold only, has another's."""
    nodes = ("--over", "cluster.node=p5,neocloud-h100,dgx-h100", "--set", "assume.price=null")
    ran = run("search", "serve-llama-3.1-70b", *nodes, "--set", "objective=gpus_needed", "-v")
    assert re.search(r"(?m)^ +1  neocloud-h100 ", ran.out)
    rents = [float(rent) for rent in re.findall(r"(?m)^ +\d+  .* 24 +\$([\d.]+) k ", ran.out)]
    assert len({*rents}) == 2
    assert rents == sorted(rents)
    assert re.search(r"(?m)^  neocloud-h100: at 3\.20 USD/GPU/h \(neocloud-h100", ran.out)
    assert re.search(r"(?m)^  p5: at 6\.88 USD/GPU/h \(p5, ", ran.out)
    assert re.search(r"(?m)^  dgx-h100: at 3\.20 USD/GPU/h \(assumed: neocloud-h100, ", ran.out)
