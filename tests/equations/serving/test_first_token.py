"""Time to the first token: limits, a gate served by hand, and the parts it is made of."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.serving.first_token import (
    burst_followers,
    gap_share,
    gate_wait,
    later_prompt_tokens,
    own_prompt_time,
    prompt_room,
    prompt_service_time,
    prompt_steps,
)
from costmodel.equations.serving.queues import queue_wait

from .engine_simulation import Engine, lognormal
from .steady import steady

# Llama 3.1 70B in bf16 on tp 8 of H100, prompts of 2,048 and answers of 512.
ENGINE = Engine(9.98103e-3, 60.7273e-6, 47.8171e-6, 2048.0, 512.0, 2048.0, 4.0)


@pytest.mark.parametrize(("budget", "milliseconds"), [(512, 152.6), (2048, 110.7), (8192, 101.1)])
def test_a_prompt_alone_in_full_steps(budget: int, milliseconds: float) -> None:
    room = prompt_room(float(budget), 42.2414)
    step = ENGINE.base_time + ENGINE.sequence_time * 42.2414
    service = float(prompt_service_time(2048.0, ENGINE.prompt_token_time, step, room))
    assert service * 1e3 == pytest.approx(milliseconds, abs=0.05)
    full = step + ENGINE.prompt_token_time * room
    assert service == pytest.approx(2048 / room * full)


@settings(max_examples=50)
@given(st.floats(1e-3, 0.05), st.floats(1e-6, 1e-4), st.integers(16, 20_000), st.integers(64, 16_384))
def test_without_load_it_is_the_prefill_and_half_a_step(alpha: float, gamma: float, prompt: int, budget: int) -> None:
    predicted = steady(Engine(alpha, 1e-5, gamma, float(prompt), 128.0, float(budget), 0.0), 1e-9)
    prefill = np.ceil(prompt / budget) * alpha + gamma * prompt
    assert float(predicted.ttft) == pytest.approx(prefill + alpha / 2, rel=1e-3)


@pytest.mark.parametrize("variation", [0.0, 1.0])
@pytest.mark.parametrize("budget", [512.0, 8192.0])
def test_it_grows_with_load_without_end(budget: float, variation: float) -> None:
    engine = replace(ENGINE, token_budget=budget, variation=variation)
    rates = np.linspace(0.01, 0.9999, 200) * float(steady(engine).saturation)
    predicted = steady(engine, rates)
    for figure in (predicted.ttft, predicted.ttft_p99, predicted.ttft_variance, predicted.worst_gap):
        assert np.all(np.isfinite(figure))
    assert np.all(np.diff(predicted.ttft) > 0)
    assert np.all(np.diff(predicted.ttft_p99) > -1e-9)
    assert np.all(np.asarray(predicted.ttft_p99) > predicted.ttft)
    last = np.asarray(predicted.ttft)
    assert last[-1] > 50 * last[0] or budget > 512  # the line diverges; under a large budget close to the end alone


def test_unlike_prompts_wait_longer() -> None:
    spread = [float(steady(replace(ENGINE, variation=variation)).ttft_p99) for variation in (0.0, 0.6, 1.0, 1.5)]
    assert np.all(np.diff(spread) > 0)


def gated(step: float, service: float, utilisation: float, variation: float, count: int = 12_000) -> float:
    """Mean wait for the start of service where a server, after each rest, serves all who came before the rest ended."""
    random = np.random.default_rng(3)
    arrivals = np.cumsum(random.exponential(service / utilisation, count))
    services = lognormal(random, service, variation, count)
    starts, clock, first = np.empty(count), 0.0, 0
    while first < count:
        clock += step * max(1, int(np.ceil((arrivals[first] - clock) / step)))
        last = int(np.searchsorted(arrivals, clock, side="right"))
        ends = clock + np.cumsum(services[first:last])
        starts[first:last] = np.concatenate([[clock], ends[:-1]])[: last - first]
        clock, first = (float(ends[-1]) if last > first else clock), last
    return float(np.mean(starts - arrivals))


@pytest.mark.parametrize("utilisation", [0.3, 0.8])
@pytest.mark.parametrize("variation", [0.0, 1.0])
def test_line_and_gate_are_the_wait_of_a_gated_server(utilisation: float, variation: float) -> None:
    """Steps without a budget: the fixed part is a rest, prompts are served behind it, those that come must wait."""
    step, service = 0.4, 1.0
    predicted = float(queue_wait(service, utilisation, variation)) + float(gate_wait(step, 0.0, 0.0, utilisation, 1.0))
    assert predicted == pytest.approx(gated(step, service, utilisation, variation), rel=0.05)


def test_gaps_shorter_than_a_time_are_those_of_a_gamma_law() -> None:
    """Of whole shapes the law is Erlang's, 1 − e^(−k x) Σ (k x)ⁱ / i!; none is shorter where all are alike."""
    for shape in (1, 4, 16):
        for share in (0.2, 0.5, 1.0, 1.5):
            events = shape * share
            erlang = 1 - math.exp(-events) * sum(events**many / math.factorial(many) for many in range(shape))
            assert float(gap_share(share / 3.0, 3.0, shape**-0.5)) == pytest.approx(erlang, abs=0.01)
    assert [round(float(gap_share(share, 1.0, 0.0)), 6) for share in (0.9, 1.1)] == [0, 1]


def test_as_many_of_a_burst_come_behind_as_before() -> None:
    """Requests in batches of fixed size, at random places in them."""
    places = np.random.default_rng(0).integers(0, 8, 100_000)
    before, behind = places.mean(), (7 - places).mean()
    assert float(burst_followers(0.1 * before, 0.0, 0.1)) == pytest.approx(behind, rel=0.01)
    assert float(burst_followers(np.inf, np.inf, np.inf)) == 0


def test_steps_of_a_prompt() -> None:
    """Alone ⌈k⌉ steps; from any place of a step on average k + ½, and one at least."""
    places = np.linspace(0, 1, 2001)[:-1]
    for prompt, room in ((2048.0, 470.0), (2048.0, 2034.0), (1000.0, 8000.0)):
        fills = prompt / room
        anywhere = np.mean(np.ceil(places + fills)) if fills > 1 else 1.0
        assert float(prompt_steps(prompt, room, 0.0)) == np.ceil(fills)
        assert float(prompt_steps(prompt, room, 1.0)) == pytest.approx(max(anywhere, fills + 0.5), abs=0.51)
    assert float(prompt_steps(2048.0, 470.0, 1.0)) == pytest.approx(2048 / 470 + 0.5)
    assert float(prompt_steps(100.0, 0.0, 5.0)) == 100.5  # no room counts as a token's


def test_later_prompts_fill_what_a_step_leaves() -> None:
    few, many = (float(later_prompt_tokens(rate, 2048.0, 0.05, 0.2, 8000.0, 0.0)) for rate in (1e-6, 1e9))
    assert few == pytest.approx(1e-6 * 2048 * 0.05 / 1.2, rel=1e-6)
    assert many == pytest.approx(8000 - 2048, rel=1e-3)
    assert float(later_prompt_tokens(1.0, 2048.0, np.inf, 0.2, 0.0, 0.0)) == 0
    assert own_prompt_time(2.0, 0.01, 1e-5, 1000.0, 500.0) == pytest.approx(0.035)
