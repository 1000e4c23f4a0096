"""Loads of engines whose steps are linear, as estimates have them: saturation, what is near it, limits on paper."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from equations.serving.engine_simulation import Engine, serve
from equations.serving.test_steady_state import CASES, ENGINE

from costmodel.equations.memory.kv_cache import mean_context
from costmodel.equations.serving.closed_loop import full_step_concurrency
from costmodel.estimate.serving.load import Bounds, Engines
from costmodel.estimate.serving.operating_point import OperatingPoint
from costmodel.estimate.serving.replica_capacity import expected_load, rate_within_limits
from costmodel.estimate.serving.steady_state import replica_rate
from costmodel.ground.errors import CostModelError

from .cases import costs, inputs, one
from .linear_engine import LinearSteps, inputs_of, plan, state_of, token_p99_of

# Llama 3.1 70B in bf16 on tp 8 of H100, prompts of 2,048 and answers of 512: α, β and γ of its worked example
ALPHA, BETA, GAMMA, PROMPT, OUTPUT = 9.98103e-3, 60.7273e-6, 47.8171e-6, 2048.0, 512.0
LINEAR = Engine(ALPHA, BETA, GAMMA, PROMPT, OUTPUT, 2048.0, 0.0)
WORK = BETA * OUTPUT + GAMMA * PROMPT


def most_of(budget: float) -> float:
    """The rate at which all steps are full, as an estimate finds it."""
    many = full_step_concurrency(budget, PROMPT, OUTPUT)
    room = budget - many
    mixed = ALPHA + BETA * many + GAMMA * min(PROMPT, room)
    point = OperatingPoint(many, ALPHA + BETA * many, mixed, 1.0, room, ALPHA, BETA, GAMMA, GAMMA, WORK)
    return float(replica_rate(inputs_of(LINEAR), point))


@pytest.mark.parametrize(("rate", "budget", "variation"), CASES)
def test_22_loads_of_a_simulated_engine(rate: float, budget: float, variation: float) -> None:
    """Time per token to 2 %, in flight to 13 %, the mean first token to 18 %, its p99 to 26 %."""
    engine = replace(ENGINE, request_rate=rate, token_budget=budget, variation=variation)
    seen, found = serve(engine, 36_000 if rate > 5 else max(6_000, int(3_000 * rate))), state_of(engine)
    assert float(found.tpot) == pytest.approx(seen.tpot, rel=0.02)
    assert float(found.in_flight) == pytest.approx(seen.in_flight, rel=0.13)
    assert float(found.ttft) == pytest.approx(seen.ttft, rel=0.18)
    assert float(found.ttft_p99) == pytest.approx(seen.ttft_p99, rel=0.26)


@pytest.mark.parametrize("variation", [0.0, 1.0])
@pytest.mark.parametrize("gaps", [0.0, 0.5, 2.0, 3.0])
@pytest.mark.parametrize(("budget", "prompt", "rate"), [(2048.0, 2048.0, 3.5), (8192.0, 300.0, 12.0)])
def test_bursts_of_arrivals(budget: float, prompt: float, rate: float, gaps: float, variation: float) -> None:
    """Time per token to 6 %, its p99 to 25 %; the mean first token to 11 %, its p99 to 30 %. Without variation the gaps
    are all alike.
    """
    shape = {"request_rate": rate, "token_budget": budget, "prompt": prompt, "gaps": gaps, "variation": variation}
    engine = replace(ENGINE, **shape)
    seen, found = [serve(engine, 8_000, seed) for seed in range(2)], state_of(engine)
    times = {name: np.mean([getattr(each, name) for each in seen]) for name in ("tpot", "ttft", "ttft_p99")}
    assert float(found.tpot) == pytest.approx(times["tpot"], rel=0.06)
    assert float(found.ttft) == pytest.approx(times["ttft"], rel=0.11)
    assert float(found.ttft_p99) == pytest.approx(times["ttft_p99"], rel=0.3)
    far, most = token_p99_of(engine), np.mean([np.quantile(each.tokens, 0.99) for each in seen])
    assert far == pytest.approx(most, rel=0.25)


@pytest.mark.parametrize("share", [0.05, 0.4, 0.8])
def test_regular_arrivals_wait_for_half_a_step(share: float) -> None:
    """A prompt is done before the next one comes: half of a step without prompts, and the one that has it."""
    rate = share / WORK
    engine = replace(LINEAR, token_budget=1e7, gaps=0.0, request_rate=rate)
    step = ALPHA / (1 - rate * WORK) - rate * GAMMA * PROMPT * ALPHA / (1 - rate * WORK)
    assert 1 / rate > GAMMA * PROMPT + 1.5 * step
    assert float(state_of(engine).ttft) == pytest.approx(GAMMA * PROMPT + 1.5 * step, rel=0.05)


@pytest.mark.parametrize(("samples", "rate", "answers"), [(4, 3.0, 0.0), (4, 3.0, 0.6), (8, 1.5, 1.0)])
def test_several_answers_to_a_prompt(samples: int, rate: float, answers: float) -> None:
    """Each ends for itself: time per token to 4 %, the first token to 20 %, the longest answer to 6 %."""
    engine = replace(ENGINE, request_rate=rate, token_budget=8192.0, samples=samples, answers=answers)
    seen, found = serve(engine, 6_000), state_of(engine)
    assert float(found.tpot) == pytest.approx(seen.tpot, rel=0.04)
    assert float(found.ttft) == pytest.approx(seen.ttft, rel=0.2)
    assert samples * float(found.in_flight) == pytest.approx(seen.in_flight, rel=0.05)
    longest = float(inputs_of(engine).load.longest_answer) - 1.0
    assert longest * float(found.tpot) == pytest.approx(seen.answer, rel=0.06)


def test_answers_share_the_cache_of_their_prompt() -> None:
    """Of 2,048 prompt tokens and answers of 512, half of which are held on the mean, four answers need 1.17 × as much
    as one, not four times; what is computed of the prompt is a block more for each.
    """
    one, four = (
        costs("limits={}", "workload.rate=2 /s", many) for many in ("workload.samples=1", "workload.samples=4")
    )
    held = mean_context(2048.0, 512.0, inputs().load.output_spread) + 7.5
    more = mean_context(2048.0, 4 * 512.0, inputs().load.output_spread) + 4 * 7.5
    assert one["concurrency_steady"] / four["concurrency_steady"] == pytest.approx(more / held, rel=1e-3)
    assert float(inputs("workload.samples=4").load.computed) == 2048 + 3 * 16
    assert four["output_tokens_per_s"] == pytest.approx(4 * one["output_tokens_per_s"], rel=1e-6)
    apart = costs("limits={}", "workload.rate=8 /s")
    assert four["tpot"] < apart["tpot"]  # whose prompts are four times as many
    with pytest.raises(CostModelError, match="as a request of its own"):
        inputs("workload.samples=4", "stack.prefix_cache=false")


def test_a_burst_before_many_replicas_is_none_before_each() -> None:
    """Requests go to one of n at random: c² = 1 + (4 − 1) / n; before a common line all of the burst arrives."""
    load = "workload.rate=%g /s", "plan.replicas=%g", "cluster.nodes=8", "limits={}"
    for replicas, spread in ((1, 2.0), (8, math.sqrt(1 + 3 / 8))):
        stated = [each % (4 * replicas if "rate" in each else replicas) if "%" in each else each for each in load]
        several = costs(*stated, "workload.arrival_spread=2")
        alone = costs("workload.rate=4 /s", "plan.replicas=1", "limits={}", f"workload.arrival_spread={spread}")
        assert several["ttft_p99"] == pytest.approx(alone["ttft_p99"], rel=1e-6)
    shaped = costs(*stated, "workload.burstiness=0.25")
    assert shaped["ttft_p99"] == pytest.approx(several["ttft_p99"], rel=1e-9)


@pytest.mark.parametrize(("budget", "rate"), [(512.0, 5.59), (2048.0, 7.07), (8192.0, 7.57)])
def test_saturation_by_the_token_budget(budget: float, rate: float) -> None:
    """Just above it there is no first token on the mean; simulated, its median is 10 times that below."""
    most = most_of(budget)
    assert round(most, 2) == rate
    below, above = (state_of(replace(LINEAR, token_budget=budget, request_rate=f * most)) for f in (0.999, 1.001))
    assert float(below.ttft) < np.inf == float(above.ttft)
    seen = [serve(replace(LINEAR, token_budget=budget, request_rate=f * most), 3000) for f in (0.9, 1.1)]
    assert np.median(seen[1].first_tokens) > 10 * np.median(seen[0].first_tokens)


def test_the_search_for_the_highest_rate_ends_where_steps_are_full_or_a_limit_is_met() -> None:
    """7.57 without limits; with 25 ms a token (1 − α / τ) / w, less the few percent of clustering."""
    found, endless = [], np.array([1e9])
    for limits in ("limits={}", "limits={tpot: {at_most: 25 ms}}"):
        stated, layout = replace(inputs(limits), load=inputs_of(LINEAR).load), plan(8192.0)
        bounds = Bounds(np.array([full_step_concurrency(8192.0, PROMPT, OUTPUT)]), endless, endless, endless)
        engines = Engines(stated, layout, LinearSteps(LINEAR), bounds)
        found.append(one(rate_within_limits(engines, engines, expected_load(engines))))
    assert round(found[0], 2) == 7.57
    assert 0.96 * 4.66 < found[1] < 4.66


def test_an_idle_engine_and_a_saturated_one() -> None:
    """At no load a token takes a step of one, and the first a prompt and half a step; towards ρ = 1 both diverge."""
    wide = replace(LINEAR, token_budget=1e7)
    idle = state_of(replace(wide, request_rate=1e-7))
    assert float(idle.tpot) == pytest.approx(ALPHA + BETA, rel=1e-5)
    assert float(idle.ttft) == pytest.approx(ALPHA + GAMMA * PROMPT + ALPHA / 2, rel=1e-3)
    near = [state_of(replace(wide, request_rate=share / WORK)) for share in (0.9, 0.99, 0.999)]
    for name, times in (("tpot", 9), ("ttft", 4)):
        values = [float(getattr(each, name)) for each in near]
        assert values[1] > times * values[0]
        assert values[2] > times * values[1]
    assert float(state_of(replace(wide, request_rate=1.0001 / WORK)).tpot) == np.inf
