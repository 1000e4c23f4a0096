"""Money, energy and replicas: published bills, and rents that add up."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.run.economics import run_cost, token_cost
from costmodel.equations.serving.serving_economics import (
    output_cost,
    prompt_cost,
    replicas_needed,
    spare_rate,
    spare_replicas,
    token_energy,
)
from costmodel.equations.serving.steady_state import (
    engine_utilisation,
    mean_step_time,
    request_work,
    requests_in_flight,
)

HOUR, DAY = 3600.0, 86_400.0
ALPHA, BETA, GAMMA = 9.98103e-3, 60.7273e-6, 47.8171e-6  # Llama 3.1 70B on 8 H100
PRICE = 2.5 / HOUR


def test_bill_of_a_plain_rate() -> None:
    assert token_cost(1e6, 8.0, PRICE, 2000.0) == pytest.approx(2.778, abs=5e-4)


def test_price_of_prompts_and_answers_of_70b() -> None:
    assert prompt_cost(1e6, 8.0, PRICE, GAMMA) == pytest.approx(0.2657, abs=5e-5)
    assert output_cost(1e6, 8.0, PRICE, ALPHA, BETA, 64.0) == pytest.approx(1.2038, abs=5e-5)


@settings(max_examples=100)
@given(st.floats(0.01, 0.99), st.floats(16, 10_000), st.floats(2, 4000))
def test_prompts_and_answers_pay_the_whole_rent(utilisation: float, prompt: float, output: float) -> None:
    """At the concurrency of the load, a second's requests are due to what the replica costs in a second."""
    work = request_work(BETA, output, GAMMA, prompt)
    rate = utilisation / work
    many = requests_in_flight(rate, output, float(mean_step_time(ALPHA, engine_utilisation(rate, work))))
    paid = prompt_cost(rate * prompt, 8.0, PRICE, GAMMA) + output_cost(rate * output, 8.0, PRICE, ALPHA, BETA, many)
    assert paid == pytest.approx(run_cost(1.0, 8.0, PRICE), rel=1e-9)


def test_deepseeks_day() -> None:
    """226.75 nodes of eight at 2 USD an hour; its list prices on 608 G tokens in, of which 342 G hit, and 168 G out."""
    cost = run_cost(DAY, 226.75 * 8, 2 / HOUR)
    assert cost == pytest.approx(87_072)
    revenue = sum(tokens * price for tokens, price in ((342e9, 0.14e-6), (266e9, 0.55e-6), (168e9, 2.19e-6)))
    assert revenue == pytest.approx(562_027, rel=2e-4)
    assert revenue / cost - 1 == pytest.approx(5.45, abs=0.01)  # what it publishes as 545 %
    assert token_cost(1e6, 8.0, 2 / HOUR, 73.7e3) == pytest.approx(0.0603, abs=5e-5)
    assert token_cost(1e6, 8.0, 2 / HOUR, 14.8e3) == pytest.approx(0.3003, abs=5e-5)


def test_lmsys_pays_2_usd_an_hour() -> None:
    """lmsys.org, May 2025: 22.3 k tokens a second and node at 0.20 USD a million."""
    assert token_cost(1e6, 8.0, 2.007 / HOUR, 22.3e3) == pytest.approx(0.20, rel=1e-3)


def test_energy_of_a_token() -> None:
    energy = token_energy(10_200.0, 14.8e3)
    assert energy == pytest.approx(0.689, abs=5e-4)
    assert 1000 * energy / HOUR == pytest.approx(0.191, abs=5e-4)  # Wh for a thousand


def test_replicas() -> None:
    assert float(replicas_needed(50.0, 0.2, 7.4)) == 9
    assert 9 + float(spare_replicas(9.0, 0.995, 0.999)) == 11
    assert spare_rate(0.1, 180.0) == pytest.approx(18)


def spares(required: int, availability: float, probability: float) -> int:
    """By the binomial law, one spare after the other."""
    for extra in range(200):
        total = required + extra
        up = (comb(total, i) * availability**i * (1 - availability) ** (total - i) for i in range(required, total + 1))
        if sum(up) >= probability:
            return extra
    raise AssertionError("more than 200")


@pytest.mark.parametrize("required", [1, 3, 9, 40, 200])
@pytest.mark.parametrize("availability", [0.9, 0.99, 0.999])
@pytest.mark.parametrize("probability", [0.5, 0.99, 0.99995])
def test_spares_by_the_binomial_law(required: int, availability: float, probability: float) -> None:
    assert float(spare_replicas(float(required), availability, probability)) == spares(
        required, availability, probability
    )


@pytest.mark.parametrize("availability", [0.2, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("probability", [0.9, 0.999, 0.9999])
def test_very_many_spares_are_at_most_one_too_many_and_never_too_few(availability: float, probability: float) -> None:
    """The number of replicas that are down when the n-th is up is negative binomial; here its sum, term by term."""
    checked = 0
    for required in (8, 40, 150, 400, 1000):
        down = np.arange(1, 16_000)
        steps = np.log((required + down - 1) / down) + np.log1p(-availability)
        reached = np.cumsum(np.exp(required * np.log(availability) + np.concatenate([[0.0], np.cumsum(steps)])))
        exact = int(np.searchsorted(reached, probability))
        found = float(spare_replicas(float(required), availability, probability))
        assert 0 <= found - exact <= (1 if exact > 64 else 0)
        checked += exact > 64
    assert checked
    many = np.asarray(spare_replicas(np.arange(100.0, 400.0), availability, probability))
    assert np.all(np.diff(many) >= 0)
