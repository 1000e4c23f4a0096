"""Rates within limits: closed where they can be, by halving where they cannot, and simulated at what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from costmodel.equations.memory.kv_cache import mean_context
from costmodel.equations.serving import service_level
from costmodel.equations.serving.first_token import first_token_tail
from costmodel.equations.serving.queues import queue_wait, wait_percentile
from costmodel.equations.serving.service_level import crowd_deviation, goodput_rate, met_prompts_variance, share_within
from costmodel.equations.serving.steady_state import engine_utilisation, mean_step_time, request_work

from .engine_simulation import Engine, serve
from .steady import saturation, steady

# Llama 3.1 70B in bf16 on tp 8 of H100, prompts of 2,048 and answers of 512.
ALPHA, BETA, GAMMA, PROMPT, OUTPUT = 9.98103e-3, 60.7273e-6, 47.8171e-6, 2048.0, 512.0
ENGINE = Engine(ALPHA - BETA, BETA, GAMMA, PROMPT, OUTPUT, 8192.0, 1.0, 0.6)
WORK = request_work(BETA, OUTPUT, GAMMA, PROMPT)
POOL = 1_372_810.0


def greatest_within(holds: Callable[[float], bool], low: float, high: float) -> float:
    """By halving."""
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def test_rate_within_25_ms_a_token() -> None:
    """(1 − α / τ) / w."""
    rate = greatest_within(lambda rate: mean_step_time(ALPHA, engine_utilisation(rate, WORK)) <= 0.025, 0.0, 1 / WORK)
    assert float(rate) == pytest.approx(4.656, abs=5e-4)
    assert float(rate) == pytest.approx((1 - ALPHA / 0.025) / WORK)


def test_clustering_takes_a_few_percent_of_that_rate() -> None:
    found = greatest_within(lambda rate: np.asarray(steady(ENGINE, rate).tpot) <= 0.025, 0.0, 1 / WORK)
    assert float(found) == pytest.approx(4.656, rel=0.04)
    assert float(found) < 4.656
    seen = serve(replace(ENGINE, request_rate=float(found)), 20_000)
    assert seen.tpot == pytest.approx(0.025, rel=0.02)


def test_the_cache_is_full_on_the_mean_at_7_27() -> None:
    """λ (s + o/2) o t̄ = pool, of 1,373 k tokens."""
    held = mean_context(PROMPT, OUTPUT, 0.0)
    rate = saturation(POOL, held * OUTPUT, ALPHA, WORK)
    assert rate == pytest.approx(7.267, abs=1e-3)
    assert rate * WORK == pytest.approx(0.9377, abs=1e-4)
    rates = np.linspace(0.01, 7.74, 20_001)
    need = rates * held * OUTPUT * np.asarray(mean_step_time(ALPHA, engine_utilisation(rates, WORK)))
    assert rate == pytest.approx(rates[need <= POOL].max(), abs=1e-3)


@pytest.mark.parametrize("limit", [64.0, 256.0, 1024.0])
def test_sequences_bind_like_any_resource(limit: float) -> None:
    rate = saturation(limit, OUTPUT, ALPHA, WORK)
    mean = float(mean_step_time(ALPHA, engine_utilisation(rate, WORK)))
    assert rate * OUTPUT * mean == pytest.approx(limit)


def test_without_end_only_work_bounds() -> None:
    assert saturation(1e30, PROMPT + OUTPUT, ALPHA, WORK) == pytest.approx(1 / WORK)


@pytest.mark.parametrize(("limit", "budget"), [(0.5, 8192.0), (1.0, 8192.0), (1.0, 2048.0)])
def test_rate_within_a_p99_of_the_first_token(limit: float, budget: float) -> None:
    """By halving, all of them at once or one by one; simulated at the rate found, p99 is at the limit to a sixth."""
    engine = replace(ENGINE, token_budget=budget)

    def holds(rate: np.ndarray) -> np.ndarray:
        return np.asarray(steady(engine, rate).ttft_p99) <= limit

    found = float(greatest_within(holds, 0.0, 1 / WORK))
    assert holds(np.array(found))
    assert not holds(np.array(found * 1.0001))
    assert 0 < found < float(steady(engine).saturation)
    seen = serve(replace(engine, request_rate=found), 15_000)
    assert seen.ttft_p99 == pytest.approx(limit, rel=0.17)


def test_a_prefill_server_keeps_half_a_second_to_a_sixth_of_its_time() -> None:
    """150 ms a prompt, variation 0.6: W ln(ρ / 0.01) / ρ + S ≤ 500 ms up to 1.14 requests a second."""

    def holds(rate: np.ndarray) -> np.ndarray:
        busy = engine_utilisation(rate, 0.15)
        return 0.15 + np.asarray(wait_percentile(queue_wait(0.15, busy, 0.6), busy, 0.01)) <= 0.5

    found = float(greatest_within(holds, 0.0, 1 / 0.15))
    assert found == pytest.approx(1.144, abs=5e-4)
    assert found * 0.15 == pytest.approx(0.17, abs=0.005)


def test_tail_is_of_the_line_or_of_the_step() -> None:
    line = float(wait_percentile(0.05, 0.4, 0.01))
    assert float(first_token_tail(0.1, 0.05, 0.4, 0.03, 0.4, 0.01)) == pytest.approx(0.1 + line)
    assert float(first_token_tail(0.1, 0.05, 0.4, 3.0, 1.0, 0.01)) == pytest.approx(3.1, rel=0.01)


@pytest.mark.parametrize("met", [0.005, 0.02, 0.1, 0.5])
def test_few_meet_a_step_of_another_prompt(met: float) -> None:
    """Drawn: a share comes somewhere in a step of another prompt, and waits for its end; the others find none."""
    random = np.random.default_rng(7)
    waits = np.where(random.random(400_000) < met, 3.0 * random.random(400_000), 0.0)
    found = float(first_token_tail(0.1, 0.0, 0.0, 3.0, met, 0.01))
    assert found == pytest.approx(0.1 + np.quantile(waits, 0.99), abs=0.05)


def test_spread_of_a_requests_time_per_token() -> None:
    """Prompts drawn at random beside answers, of equal and of log-normal lengths."""
    random = np.random.default_rng(5)
    for variation in (0.0, 0.8):
        spread = np.sqrt(np.log1p(variation**2))
        outputs = 400.0 * random.lognormal(-(spread**2) / 2, spread, 20_000)
        met = random.poisson(4.0 * 0.02 * outputs)
        drawn = np.array([0.1 * random.lognormal(-(spread**2) / 2, spread, count).sum() for count in met]) / outputs
        found = float(met_prompts_variance(4.0, 0.02, 0.1, 400.0, variation, variation, 0.0))
        assert found == pytest.approx(drawn.var(), rel=0.15)


def test_few_in_flight_vary_less_than_many() -> None:
    """⅔ of the variance at one moment: a mean over a life of T of what forgets a request after a life of T."""
    found = float(crowd_deviation(30.0, 0.0, 0.0))
    random = np.random.default_rng(2)
    arrivals = np.sort(random.uniform(0, 4000.0, 30 * 4000))
    moments = np.arange(0, 4000.0, 0.05)
    there = np.searchsorted(arrivals, moments) - np.searchsorted(arrivals + 1.0, moments)
    means = np.convolve(there, np.ones(20) / 20, mode="valid")[200:-200]
    assert found**2 == pytest.approx(means.var(), rel=0.1)


def test_goodput_is_the_rate_that_keeps_both() -> None:
    predicted = steady(ENGINE, 4.0)
    first = share_within(1.0, predicted.step, predicted.ttft, predicted.ttft_p99)
    seen = serve(replace(ENGINE, request_rate=4.0), 15_000)
    assert float(first) == pytest.approx(np.mean(seen.first_tokens <= 1.0), abs=0.01)
    assert float(share_within(0.25, predicted.step, predicted.ttft, predicted.ttft_p99)) == pytest.approx(
        np.mean(seen.first_tokens <= 0.25), abs=0.06
    )
    assert goodput_rate(4.0, first, 1.0) == pytest.approx(4 * float(first))


def test_places_and_weights_are_those_of_gauss() -> None:
    places, weights = np.polynomial.legendre.leggauss(10)
    assert pytest.approx(places[5:], rel=1e-15) == service_level.PLACES
    assert pytest.approx(weights[5:], rel=1e-14) == service_level.WEIGHTS
