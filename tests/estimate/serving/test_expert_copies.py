"""Copies of routed experts: what they weigh, what a step reads, and which ep they take."""

from __future__ import annotations

import pytest

from costmodel.explore.serving.best_layout import plan_settings
from costmodel.explore.serving.search_layouts import search
from costmodel.report.terminal.serving_formatting import plan_words
from estimate.serving.cases import inputs, one, predicted

H800 = ("model=deepseek-v3", "cluster={node: hgx-h800, nodes: 36}", "stack=sglang", "limits={}")
LOAD = "workload={kind: serving, prompt: 4383, output: 1211, concurrency: 8640, precision: fp8-block}"
EXPERT = 3 * 7168 * 2048 * (1 + 4 / 128**2)  # bytes of one: fp8, with a scale for each block of 128 by 128
LAYERS = 58


def test_vllm_places_experts_on_all_ranks_or_none() -> None:
    model = ("model=mixtral-8x7b", "limits={}", "workload.rate=1 /s")
    for ep, refused in ((1, ()), (2, ("L067",)), (4, ())):
        layout = f"plan={{tp: 4, ep: {ep}, replicas: 1}}"
        assert predicted(*model, layout).refused == refused
        assert predicted(*model, layout, "stack=sglang").refused == ()


def plan(ep: int, copies: int) -> str:
    more = f", redundant_experts: {copies}" if copies else ""
    return f"plan={{dp_attention: {ep}, ep: {ep}, replicas: 1{more}}}"


@pytest.mark.parametrize("ep", [32, 144])
def test_ranks_hold_copies_in_every_layer_and_the_cache_less(ep: int) -> None:
    """288 experts on 32 ranks are nine each instead of eight; on 144 ranks two each, which 256 do not divide."""
    copied = predicted(*H800, LOAD, plan(ep, 32))
    assert copied.refused == ()
    assert "32 copies of experts" in plan_words(copied)
    if ep == 144:
        assert predicted(*H800, LOAD, plan(ep, 0)).refused == ("L056",)
        return
    plain = predicted(*H800, LOAD, plan(ep, 0))
    more = one(copied.evaluation.memory.weights) - one(plain.evaluation.memory.weights)
    assert more == pytest.approx(LAYERS * EXPERT * 32 / ep, rel=1e-6)
    assert copied.costs["cache_pool_tokens"] < plain.costs["cache_pool_tokens"]
    few = "workload.concurrency=1024"  # which both caches hold
    times = [predicted(*H800, LOAD, plan(ep, copies), few).costs["tpot"] for copies in (0, 32)]
    assert times[1] > times[0]  # at one imbalance: more experts are read


def test_copies_pay_by_the_imbalance_that_they_take_away() -> None:
    """The busiest rank of experts that nobody copied does 1.5 times the mean; with copies 1.1 times."""
    uneven = predicted(*H800, LOAD, plan(32, 0), "assume.experts.imbalance=1.5")
    evened = predicted(*H800, LOAD, plan(32, 32), "assume.experts.imbalance=1.1")
    assert evened.costs["tpot"] < uneven.costs["tpot"]
    origins = {item.path: item.origin for item in predicted(*H800, LOAD, plan(32, 32)).assumed}
    assert origins["assume.experts.imbalance"] == "as if copies evened all"


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ((*H800, LOAD, plan(32, 64)), ()),
        ((*H800, LOAD, plan(32, 20)), ("L056",)),
        ((*H800, LOAD, "plan={tp: 32, redundant_experts: 32, replicas: 1}"), ("L060",)),
        (("plan={tp: 8, redundant_experts: 8}",), ("L057",)),
        ((*H800, LOAD, "plan={prefill: {tp: 32}, decode: {tp: 32}, redundant_experts: 32}"), ("L060",)),
        ((*H800, LOAD, "plan={prefill: {tp: 32}, decode: {tp: 32, ep: 32}, redundant_experts: 32}"), ()),
    ],
)
def test_which_plans_take_copies(settings: tuple[str, ...], code: tuple[str, ...]) -> None:
    assert predicted(*settings).refused == code


def test_search_tries_copies_as_it_tries_degrees() -> None:
    """Every plan has the figures that it has alone, and 144 ranks take 32 copies; what the plan states stays."""
    space = "search={tp: [1], pp: [1], ep: [32, 144], dp_attention: [32, 144], redundant_experts: [0, 32]}"
    found = search(inputs(*H800, LOAD, "plan={tp: 1}", space), 50)
    shown = {(each.sizes["ep"], each.sizes.get("redundant_experts", 0)) for each in found.best}
    assert shown == {(32, 0), (32, 32), (144, 32)}
    assert found.tally.refused["L056"] == 3  # 144 ranks without copies, at three budgets
    for ranked in found.best:
        own = plan(int(ranked.sizes["ep"]), int(ranked.sizes.get("redundant_experts", 0)))
        alone = predicted(*H800, LOAD, own, f"plan.replicas={ranked.sizes['replicas']:.0f}",
                          f"stack.budget={ranked.sizes['budget']:.0f}")  # fmt: skip
        assert ranked.costs["tpot"] == pytest.approx(alone.costs["tpot"], rel=1e-9)
        assert ranked.costs["cache_pool_tokens"] == pytest.approx(alone.costs["cache_pool_tokens"])
        settings = [f"{key}={value}" for key, value in plan_settings(found, ranked).items()]
        again = predicted(*H800, LOAD, "plan={tp: 1}", *settings)
        assert float(again.plan.redundant_experts or 0) == ranked.sizes.get("redundant_experts", 0)
    kept = search(inputs(*H800, LOAD, plan(32, 32), space), 9)
    assert {each.sizes.get("redundant_experts", 0) for each in kept.best} == {32}


def test_instances_apart_have_as_many_copies_on_both_sides() -> None:
    space = "search={tp: [1], pp: [1], ep: [32], dp_attention: [32], redundant_experts: [0, 32], disaggregated: true}"
    found = search(inputs(*H800, LOAD, "plan={tp: 1}", space), 50)
    apart = [(each.prefill, each.sizes) for each in found.best if each.prefill is not None]
    assert {decode.get("redundant_experts", 0) for _, decode in apart} == {0, 32}
    assert all(first.get("redundant_experts") == other.get("redundant_experts") for first, other in apart)
