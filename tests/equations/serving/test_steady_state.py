"""Steady states: algebra by Little's law, limits, and an engine simulated step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.serving.steady_state import (
    clustering_delay,
    engine_utilisation,
    interference_share,
    mean_step_time,
    mixed_step_time,
    request_work,
    requests_in_flight,
    step_intercept,
    time_slope,
)

from .engine_simulation import Engine, serve
from .steady import saturation, steady

# Llama 3.1 70B in bf16 on tp 8 of H100, prompts of 2,048 and answers of 512, as dense_decoder has it.
ALPHA, BETA, GAMMA, PROMPT, OUTPUT = 9.98103e-3, 60.7273e-6, 47.8171e-6, 2048.0, 512.0
ENGINE = Engine(ALPHA - BETA, BETA, GAMMA, PROMPT, OUTPUT, 2048.0, 1.0)

loads = st.tuples(
    st.floats(1e-3, 5e-2),  # α
    st.floats(1e-6, 1e-3),  # β
    st.floats(1e-6, 1e-3),  # γ
    st.floats(16, 32_768),  # s
    st.floats(2, 4096),  # o
    st.floats(0.01, 0.99),  # ρ
)


def test_worked_example() -> None:
    """λ = 2, 4, 6: ρ .258, .516, .774; steps 13.5, 20.6, 44.2 ms; 13.8, 42.2, 135.8 in flight; 7.75 at most."""
    work = request_work(BETA, OUTPUT, GAMMA, PROMPT)
    assert work * 1e3 == pytest.approx(129.02, abs=0.005)
    rate = np.array([2.0, 4.0, 6.0])
    mean = mean_step_time(ALPHA, engine_utilisation(rate, work))
    np.testing.assert_allclose(engine_utilisation(rate, work), [0.2580, 0.5161, 0.7741], atol=5e-5)
    np.testing.assert_allclose(np.asarray(mean) * 1e3, [13.4523, 20.6257, 44.1895], atol=1e-4)
    np.testing.assert_allclose(requests_in_flight(rate, OUTPUT, mean), [13.775, 42.241, 135.750], atol=1e-3)
    assert 1 / work == pytest.approx(7.751, abs=5e-4)


@settings(max_examples=100)
@given(loads)
def test_open_and_closed_loop_are_one(load: tuple[float, ...]) -> None:
    """The open loop's step at λ, and the closed loop's with the λ o t users that Little's law finds in it."""
    alpha, beta, gamma, s, o, utilisation = load
    rate = utilisation / request_work(beta, o, gamma, s)
    mean = float(mean_step_time(alpha, engine_utilisation(rate, request_work(beta, o, gamma, s))))
    users = requests_in_flight(rate, o, mean)
    assert mixed_step_time(alpha, beta, users, gamma, users * s / o) == pytest.approx(mean, rel=1e-9)
    assert mixed_step_time(alpha, beta, users, gamma, rate * s * mean) == pytest.approx(mean, rel=1e-9)


@settings(max_examples=50)
@given(loads)
def test_time_per_token_grows_with_load_from_a_step_of_one_sequence(load: tuple[float, ...]) -> None:
    alpha, beta, gamma, s, o, _ = load
    rates = np.linspace(0, 0.999, 50) / request_work(beta, o, gamma, s)
    found = np.asarray(steady(Engine(alpha, beta, gamma, s, o, 1e9, 0.0), rates).tpot)
    assert found[0] == pytest.approx(alpha + beta, rel=1e-12)
    assert np.all(np.diff(found) > 0)


def test_nothing_is_finite_from_saturation_on() -> None:
    mean = np.asarray(mean_step_time(ALPHA, np.array([0.5, 1.0, 1.5])))
    assert np.isfinite(mean).tolist() == [True, False, False]
    late = np.asarray(
        clustering_delay(BETA, GAMMA, PROMPT, OUTPUT, np.array([0.4, 0.8, 1.2]), np.array([0.5, 1.0, 1.5]), 0.0)
    )
    assert np.isinf(late).tolist() == [False, True, True]
    beyond = steady(replace(ENGINE, request_rate=20.0))
    assert np.isinf([float(beyond.tpot), float(beyond.ttft), float(beyond.ttft_p99)]).all()


@pytest.mark.parametrize(("budget", "rate"), [(512, 5.59), (2048, 7.07), (8192, 7.57)])
def test_a_budget_saturates_before_the_engine(budget: int, rate: float) -> None:
    work = request_work(BETA, OUTPUT, GAMMA, PROMPT)
    most = saturation(float(budget), PROMPT + OUTPUT, ALPHA, work)
    assert most == pytest.approx(rate, abs=0.005)
    mean = float(mean_step_time(ALPHA, engine_utilisation(most, work)))
    assert most * mean * (PROMPT + OUTPUT) == pytest.approx(budget)  # every step is full
    assert np.isinf(float(steady(replace(ENGINE, base_time=ALPHA, token_budget=budget), 1.001 * most).ttft))
    assert np.isfinite(float(steady(replace(ENGINE, base_time=ALPHA, token_budget=budget), 0.999 * most).ttft))


@pytest.mark.parametrize("budget", [512.0, 2048.0, 8192.0])
def test_first_tokens_explode_just_above_saturation(budget: int) -> None:
    """A queue that grows: twice the requests wait twice as long. Just below it does not."""
    engine = replace(ENGINE, token_budget=budget)
    most = float(steady(engine).saturation)
    below, above = ([serve(replace(engine, request_rate=f * most), n) for n in (1500, 3000)] for f in (0.9, 1.1))
    assert np.median(above[1].first_tokens) > 1.7 * np.median(above[0].first_tokens)
    assert np.median(below[1].first_tokens) < 1.3 * np.median(below[0].first_tokens)
    assert np.median(above[1].first_tokens) > 10 * np.median(below[1].first_tokens)


CASES = [
    (rate, budget, variation)
    for rate in (1.0, 2.0, 4.0, 6.0)
    for budget in (512.0, 2048.0, 8192.0)
    for variation in (0.0, 1.0)
    if (rate, budget) != (6.0, 512.0)  # beyond saturation
]
OTHERS = {  # α, β, γ, s, o of an 8B, of long prompts with short answers, of chat, of long answers
    "8b": (5.5e-3, 40e-6, 20e-6, 1024.0, 256.0),
    "long": (12e-3, 150e-6, 60e-6, 8000.0, 200.0),
    "chat": (10e-3, 50e-6, 40e-6, 300.0, 400.0),
    "out": (10e-3, 50e-6, 40e-6, 200.0, 2000.0),
}


def check(engine: Engine, count: int, ttft: float, p99: float) -> None:
    seen, predicted = serve(engine, count), steady(engine)
    assert float(predicted.tpot) == pytest.approx(seen.tpot, rel=0.02)
    assert float(predicted.in_flight) == pytest.approx(seen.in_flight, rel=0.03)
    assert float(predicted.ttft) == pytest.approx(seen.ttft, rel=ttft)
    assert float(predicted.ttft_p99) == pytest.approx(seen.ttft_p99, rel=p99)


@pytest.mark.parametrize(("rate", "budget", "variation"), CASES)
def test_a_simulated_engine(rate: float, budget: float, variation: float) -> None:
    """22 loads of the 70B: time per token to 2 %, first token to 12 % on the mean and 19 % at p99."""
    check(
        replace(ENGINE, request_rate=rate, token_budget=budget, variation=variation),
        36_000 if rate > 5 else max(6_000, int(3_000 * rate)),
        ttft=0.12,
        p99=0.19,
    )


@pytest.mark.parametrize("budget", [512.0, 8192.0])
@pytest.mark.parametrize("name", OTHERS)
def test_other_simulated_engines_at_half_their_saturation(name: str, budget: float) -> None:
    """Nothing in the forms is of the 70B: other models and lengths, at half of what the budget lets through."""
    engine = Engine(*OTHERS[name], budget, 1.0, 0.6)
    check(replace(engine, request_rate=0.5 * float(steady(engine).saturation)), 12_000, ttft=0.12, p99=0.19)


@pytest.mark.parametrize(("budget", "gap"), [(512, 35.0), (2048, 108.5), (8192, 402.2)])
def test_longest_gap(budget: int, gap: float) -> None:
    """A full step; a run that fills one shows it, and none is longer but by sequences over the mean."""
    engine = replace(ENGINE, base_time=ALPHA, token_budget=float(budget), request_rate=4.0)
    assert float(steady(engine).worst_gap) * 1e3 == pytest.approx(gap, abs=0.05)
    seen = serve(replace(engine, variation=1.0), 3000)
    assert seen.longest_gap == pytest.approx(float(steady(engine).worst_gap), rel=0.03)


def test_larger_budgets_are_sooner_with_the_first_token_and_longer_in_gaps() -> None:
    found = [steady(replace(ENGINE, token_budget=budget), 4.0) for budget in (512.0, 2048.0, 8192.0)]
    assert np.all(np.diff([float(item.ttft) for item in found]) < 0)
    assert np.all(np.diff([float(item.worst_gap) for item in found]) > 0)
    tokens = [float(item.tpot) for item in found]
    assert tokens[-1] == pytest.approx(tokens[0], rel=2e-3)


def test_interference_is_two_fifths_of_a_token_at_4_requests() -> None:
    found = steady(replace(ENGINE, base_time=ALPHA), 4.0)
    assert float(interference_share(found.step, mean_step_time(ALPHA, 0.51609))) == pytest.approx(0.392, abs=5e-4)


def test_constants_that_bend_with_the_load_settle_in_a_few_rounds() -> None:
    """Steps of a soft roofline, D(b) = ((α)³ + (β b)³)^(1/3) + κ b: its tangent at the load, and a root by halving."""

    def decode(b: np.ndarray) -> np.ndarray:
        return (9e-3**3 + (40e-6 * b) ** 3) ** (1 / 3) + 30e-6 * b

    rates, gamma = np.linspace(0.5, 6.0, 12), 40e-6

    def again(b: np.ndarray) -> np.ndarray:
        slope = time_slope(decode(b + 0.5), decode(np.maximum(b - 0.5, 0)), b + 0.5, np.maximum(b - 0.5, 0))
        base = step_intercept(decode(b), slope, b)
        mean = mean_step_time(base, engine_utilisation(rates, request_work(slope, 512.0, gamma, 2048.0)))
        return np.minimum(requests_in_flight(rates, 512.0, mean), 1024.0)

    found = np.zeros_like(rates)
    for _ in range(8):
        before, found = found, again(found)
    assert found == pytest.approx(before, rel=1e-9)
    for rate, b in zip(rates, found, strict=True):
        low, high = 0.0, 1024.0
        for _ in range(60):
            middle = (low + high) / 2
            step = decode(np.array(middle)) / (1 - rate * gamma * 2048)
            low, high = (middle, high) if rate * 512 * step > middle else (low, middle)
        assert b == pytest.approx(low, rel=1e-6)
