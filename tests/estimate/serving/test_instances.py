"""Prefill and decode on instances of their own: against a simulated engine, by Little's law, and when it pays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from equations.serving.engine_simulation import Column, Engine, serve_prompts

from costmodel.estimate.serving.prefill_decode_instances import CacheTransfer, PromptTime, first_token
from costmodel.estimate.serving.serving_inputs import Load
from costmodel.explore.serving.search_layouts import search
from costmodel.ground.errors import CostModelError
from estimate.serving.cases import costs, inputs, predicted

NONE = "limits={}"


def apart(prefill: int, decode: int, tp: int = 8) -> str:
    """So many instances of each kind."""
    return f"plan={{prefill: {{tp: {tp}, replicas: {prefill}}}, decode: {{tp: {tp}, replicas: {decode}}}}}"


@pytest.mark.parametrize(("prompt", "budget"), [(2048, 8192), (8192, 8192), (300, 8192), (6000, 2048)])
@pytest.mark.parametrize("busy", [0.2, 0.5, 0.75])
def test_first_tokens_of_a_simulated_engine_without_decode(prompt: int, budget: int, busy: float) -> None:
    """Mean to 9 %, p99 to 29 %."""
    alpha, gamma, spread = 8e-3, 44e-6, 0.6
    full = prompt * (gamma + alpha / budget)
    seen = serve_prompts(Engine(alpha, 0.0, gamma, prompt, 1.0, budget, busy / full, spread), 8000)
    own = math.ceil(prompt / budget) * alpha + gamma * prompt
    load = Load(prompt, 1.0, spread, 0.0, 0.0, prompt + 1.0)
    nothing = CacheTransfer(0.0, 0.0, 0.0, *(math.inf,) * 3)
    found = first_token(load, float(budget), PromptTime(alpha, gamma, full, own, gamma), busy / full, nothing, 0.0)
    assert float(found.mean) == pytest.approx(seen.mean(), rel=0.09)
    assert float(found.p99) == pytest.approx(float(np.quantile(seen, 0.99)), rel=0.29)


@pytest.mark.parametrize(("prompt", "budget", "busy"), [(2048, 8192, 0.9), (300, 8192, 0.5), (300, 2048, 0.9)])
def test_first_tokens_of_batches_of_prompts_at_random(prompt: int, budget: int, busy: float) -> None:
    """A server of batches, busy for up to nine tenths of the time, independent draws: mean to 11 %, p99 to 21 %."""
    alpha, gamma, spread = 8e-3, 44e-6, 0.6
    full = prompt * (gamma + alpha / budget)
    seen = batches(prompt, budget, busy / full, alpha, gamma, spread)
    own = math.ceil(prompt / budget) * alpha + gamma * prompt
    load, nothing = Load(prompt, 1.0, spread, 0.0, 0.0, prompt + 1.0), CacheTransfer(0.0, 0.0, 0.0, *(math.inf,) * 3)
    found = first_token(load, float(budget), PromptTime(alpha, gamma, full, own, gamma), busy / full, nothing, 0.0)
    assert float(found.mean) == pytest.approx(seen.mean(), rel=0.11)
    assert float(found.p99) == pytest.approx(float(np.quantile(seen, 0.99)), rel=0.21)


def batches(prompt: int, budget: int, rate: float, alpha: float, gamma: float, spread: float) -> Column:
    """First tokens of a server that takes all prompts that wait, up to its budget, and the last one in part."""
    random, count = np.random.default_rng(1), 100_000
    arrivals = np.cumsum(random.exponential(1 / rate, count))
    sigma = math.sqrt(math.log1p(spread**2))
    ends = np.cumsum(np.maximum(np.rint(random.lognormal(math.log(prompt) - sigma**2 / 2, sigma, count)), 1))
    clock, done, served, first = 0.0, 0, 0.0, np.zeros(count)
    while done < count:
        clock = max(clock, float(arrivals[done]))
        came = int(np.searchsorted(arrivals, clock, side="right"))
        tokens = min(float(ends[came - 1]) - served, float(budget))
        served, clock = served + tokens, clock + alpha + gamma * tokens
        last = int(np.searchsorted(ends, served, side="right"))
        first[done:last], done = clock, last
    return (first - arrivals)[count // 20 :]


@pytest.mark.parametrize("busy", [0.3, 0.8])
def test_prompts_one_by_one_are_the_line_of_one_server(busy: float) -> None:
    """Steps without a fixed part, which hold one token: Pollaczek and Khinchine, from the moments of the service."""
    prompt, gamma, spread = 1000.0, 50e-6, 0.6
    service = gamma * prompt
    rate, square = busy / service, service**2 * (1 + spread**2)
    load, nothing = Load(prompt, 1.0, spread, 0.0, 0.0, prompt + 1.0), CacheTransfer(0.0, 0.0, 0.0, *(math.inf,) * 3)
    found = first_token(load, 1.0, PromptTime(0.0, gamma, service, service, gamma), rate, nothing, 0.0)
    assert float(found.mean) == pytest.approx(rate * square / (2 * (1 - busy)) + service, rel=1e-3)


def test_decode_follows_littles_law_and_no_prompt_is_between() -> None:
    found = costs(apart(1, 1))
    assert found["concurrency"] == pytest.approx(8 * 512 * found["tpot"], rel=1e-6)
    assert found["worst_gap"] == found["tpot_p99"] > found["tpot"]
    assert found["interference_share"] == 0
    assert found["tpot"] < costs()["tpot"]
    assert found["gpus"] == 16


def test_a_closed_loop_keeps_its_users() -> None:
    load = "workload={kind: serving, prompt: 2048, output: 512, concurrency: 64}"
    found = costs(apart(1, 1), load)
    assert found["requests_per_s"] * found["latency"] == pytest.approx(64, rel=1e-3)


@pytest.mark.parametrize(("prefill", "decode"), [(1, 1), (2, 1), (4, 2), (6, 2)])
def test_without_limits_it_never_pays(prefill: int, decode: int) -> None:
    """Whole instances leave the smaller side idle; nothing is gained where no gap and no time per token binds."""
    assert costs("cluster.nodes=8", apart(prefill, decode), NONE)["disaggregation_gain"] <= 1


def test_it_pays_where_a_gap_or_a_time_per_token_binds() -> None:
    for limit in ("worst_gap: {at_most: 60 ms}", "tpot: {at_most: 13 ms}"):
        found = costs("cluster.nodes=8", apart(2, 1), f"limits={{{limit}, ttft_p99: {{at_most: 2 s}}}}")
        assert 1.2 < found["disaggregation_gain"] < 5
        lopsided = costs("cluster.nodes=8", apart(6, 1), f"limits={{{limit}, ttft_p99: {{at_most: 2 s}}}}")
        assert lopsided["disaggregation_gain"] < found["disaggregation_gain"]


def test_instances_that_generate_do_well_on_half_the_compute() -> None:
    """Splitwise (Patel 2024): decode takes older or capped parts; as fast there, and cheaper by what they cost less."""
    slow = ("cluster.node.accelerator.peak.bf16=494.7 TFLOP/s", "cluster.node.accelerator.best_matmul.bf16=397 TFLOP/s")
    usual = costs(apart(1, 1), "workload.rate=4 /s")
    capped = costs(apart(1, 1), "workload.rate=4 /s", *slow, "assume.price=2.00 USD/GPU/h")
    assert capped["tpot"] == pytest.approx(usual["tpot"], rel=0.03)
    assert capped["prefill_utilisation"] > 1.4 * usual["prefill_utilisation"]
    assert capped["cost_per_moutput"] == pytest.approx(0.8 * usual["cost_per_moutput"], rel=0.03)


def test_balanced_instances_are_both_full() -> None:
    found = costs("cluster.nodes=8", apart(2, 1), NONE)
    ratio = found["prefill_per_decode"]
    assert 1 < ratio < 2
    assert predicted("cluster.nodes=8", apart(1, 1), NONE).binding == "prefill"
    assert predicted("cluster.nodes=8", apart(3, 1), NONE).binding in ("cache", "sequences")


def test_the_cache_of_a_prompt_moves_over_the_interfaces_of_the_smaller_side() -> None:
    """8,192 tokens of a 70B are 2.68 GB: 6.7 ms on eight interfaces of 50 GB/s at their full rate."""
    eight = costs("workload.prompt=8192", apart(1, 1), NONE)
    full = 2.684e9 / (8 * 50e9)
    assert full < eight["transfer_time"] < 1.5 * full
    of_a_node = costs("workload.prompt=8192", apart(1, 1, 4), NONE)["transfer_time"]  # over NVLink, 450 GB/s each
    assert 2.684e9 / (4 * 450e9) < of_a_node < 2.684e9 / (4 * 200e9)
    assert eight["transfer_exposed"] == pytest.approx(eight["transfer_time"])
    slow = ("workload.prompt=8192", "workload.rate=2 /s", apart(1, 1), NONE)
    layers = costs(*slow, "assume.cache_transfer=layer")
    assert layers["transfer_exposed"] == pytest.approx(eight["transfer_time"] / 80, rel=1e-6)
    assert layers["ttft"] < costs(*slow)["ttft"]


def test_caches_wait_in_line_for_links_that_are_nearly_full() -> None:
    slow = ("cluster.nodes=3", "cluster.fabric.bandwidth=1 Gbit/s", apart(2, 1), NONE)
    half, full = (costs(*slow, f"workload.rate={rate} /s") for rate in (0.7, 1.42))
    most, sent = full["saturation_per_s"], full["transfer_time"]
    for found, rate in ((half, 0.7), (full, 1.42)):
        line = rate / most * sent * (1 + 0.6**2) / (2 * (1 - rate / most))  # Pollaczek and Khinchine
        assert found["ttft"] == pytest.approx(line + sent, rel=0.2 if found is half else 0.02)
    over = costs(*slow, "workload.rate=1.44 /s")
    assert math.isinf(over["ttft"])
    assert over["requests_per_s"] == pytest.approx(most)


def test_users_for_whom_instances_have_no_room_wait_by_littles_law() -> None:
    load = "workload={kind: serving, prompt: 2048, output: 512, concurrency: 3000}"
    found = costs(apart(1, 1), load, NONE)
    assert found["saturation_share"] == pytest.approx(1, rel=1e-3)
    assert found["requests_per_s"] * found["latency"] == pytest.approx(3000, rel=1e-3)


def test_what_does_not_stand_together_is_a_fault() -> None:
    for plan, words in (
        ("plan={prefill: {tp: 8}}", "state prefill and decode together"),
        ("plan={tp: 8, prefill: {tp: 8}, decode: {tp: 8}}", "is for engines that do both"),
        ("plan={pp: 2, prefill: {tp: 8}, decode: {tp: 8}}", "have no pp: how a cache passes between pipeline stages"),
        ("plan={prefill: {tp: 8, pp: 2}, decode: {tp: 8}}", "have no pp: how a cache passes between pipeline stages"),
        ("plan={prefill: {tp: 8}, decode: {tp: 8, pp: 2}}", "have no pp: how a cache passes between pipeline stages"),
    ):
        with pytest.raises(CostModelError, match=words):
            costs(plan)
    with pytest.raises(CostModelError, match="start of a benchmark"):
        costs(apart(1, 1), "workload={kind: serving, prompt: 2048, output: 512, concurrency: 64, traffic: burst}")
    assert predicted(apart(2, 1)).refused == ("L050",)
    assert predicted(apart(1, 1, 6), "cluster.nodes=2").refused[0] == "L051"


def test_search_ranks_both_kinds_of_plans_and_estimate_agrees() -> None:
    """Where 13 ms a token bind, instances apart come first."""
    limits = "limits={tpot: {at_most: 13 ms}, ttft_p99: {at_most: 1 s}}"
    tight = ("cluster.nodes=4", "search.disaggregated=true", limits)
    found = search(inputs(*tight), 3)
    best = found.best[0]
    assert best.prefill is not None
    alone = costs(*tight, apart(int(best.prefill["replicas"]), int(best.sizes["replicas"]), int(best.sizes["tp"])))
    assert best.prefill["tp"] == best.sizes["tp"]
    for name in ("rate_within_slo_per_s", "tpot", "ttft_p99", "disaggregation_gain"):
        assert best.costs[name] == pytest.approx(alone[name], rel=1e-6)
    assert found.tally.candidates == sum(found.tally.refused.values()) + found.tally.safe


def test_a_cache_waits_for_each_link_by_its_own_time() -> None:
    """Pollaczek and Khinchine of equal caches; the busier link took the time of the slower one, four times too long."""
    transfer = CacheTransfer(1.0, 0.1, 0.1, math.inf, 10.0, 40.0)  # a cache takes 100 ms to send, 25 ms to receive
    wait, _ = transfer.line((0.05, 0.8), 0.0)
    assert float(wait) == pytest.approx(0.025 * 0.8 / (2 * 0.2))
    assert float(transfer.line((0.05, 1.0), 0.0)[0]) == math.inf
