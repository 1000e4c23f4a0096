"""Lines before servers: limits, known values, and simulated lines."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.serving.queues import (
    pooled_wait,
    queue_wait,
    queue_wait_variance,
    wait_percentile,
    waiting_probability,
)

from .engine_simulation import shared_line, single_line


@pytest.mark.parametrize(
    ("utilisation", "variation", "wait", "p99"),
    [(0.5, 0.0, 0.5, 3.912), (0.7, 0.0, 1.1667, 7.081), (0.7, 1.0, 2.3333, 14.162), (0.85, 1.0, 5.6667, 29.618)],
)
def test_one_line_against_a_simulated_one(utilisation: float, variation: float, wait: float, p99: float) -> None:
    """The mean is exact; p99 by an exponential tail is 16 % high for equal services, 11 % low for unlike ones."""
    found = float(queue_wait(1.0, utilisation, variation))
    far = float(wait_percentile(found, utilisation, 0.01))
    assert found == pytest.approx(wait, abs=5e-5)
    assert far == pytest.approx(p99, abs=5e-4)
    seen = single_line(utilisation, variation, 400_000)
    assert found == pytest.approx(seen.mean(), rel=0.06)
    assert far == pytest.approx(np.quantile(seen, 0.99), rel=0.17)
    assert float(queue_wait_variance(1.0, utilisation, variation)) == pytest.approx(seen.var(), rel=0.25)


@settings(max_examples=50)
@given(st.floats(1e-6, 0.999), st.floats(1e-3, 10))
def test_exponential_services_leave_an_exponential_wait(utilisation: float, service: float) -> None:
    """M/M/1: the wait is 0, or exponential with mean S / (1 − ρ), whose moments and percentiles are known."""
    mean = service / (1 - utilisation)
    assert float(queue_wait(service, utilisation, 1.0)) == pytest.approx(utilisation * mean)
    median = float(wait_percentile(utilisation * mean, utilisation, utilisation / 2))
    assert median == pytest.approx(mean * np.log(2))


def test_variance_of_constant_services() -> None:
    """M/D/1 at half load: E[W²] = 2 W² + λ/3/(1 − ρ) with W = 1/2."""
    assert float(queue_wait_variance(1.0, 0.5, 0.0)) == pytest.approx(2 * 0.25 + 0.5 / 3 / 0.5 - 0.25)


def test_limits_of_one_line() -> None:
    assert float(queue_wait(1.0, 0.0, 1.0)) == 0
    assert float(wait_percentile(0.0, 0.0, 0.01)) == 0
    assert float(wait_percentile(0.005, 0.005, 0.01)) == 0  # fewer wait at all than the share beyond
    assert np.isinf([float(form(1.0, 1.0, 0.5)) for form in (queue_wait, queue_wait_variance)]).all()


@pytest.mark.parametrize("servers", [1, 2, 4, 17, 60])
@pytest.mark.parametrize("utilisation", [0.05, 0.5, 0.7, 0.97])
def test_erlang_c_as_it_is_defined(servers: int, utilisation: float) -> None:
    load = servers * utilisation
    below = sum(load**busy / factorial(busy) for busy in range(servers))
    full = load**servers / factorial(servers) / (1 - utilisation)
    found = float(waiting_probability(float(servers), utilisation))
    assert found == pytest.approx(full / (below + full), rel=1e-9)


def test_erlang_c_at_known_points() -> None:
    assert float(waiting_probability(4.0, 0.7)) == pytest.approx(0.4287, abs=5e-5)
    assert float(waiting_probability(1.0, 0.3)) == pytest.approx(0.3)
    assert float(waiting_probability(4.0, 1.0)) == 1
    assert float(waiting_probability(4.0, 3.0)) == 1


def test_erlang_c_goes_on_beyond_the_servers_it_counts() -> None:
    """200 servers at 0.9, by the series in logarithms."""
    counts = np.arange(1, 200)
    logs = np.concatenate([[0.0], np.cumsum(np.log(180.0) - np.log(counts))])
    full = np.exp(np.sum(np.log(180.0) - np.log(np.arange(1, 201)))) / 0.1
    exact = full / (np.sum(np.exp(logs)) + full)
    assert float(waiting_probability(200.0, 0.9)) == pytest.approx(exact, rel=0.03)
    many = np.asarray(waiting_probability(np.arange(100.0, 400.0), 0.9))
    assert np.all(np.diff(many) < 0)


@pytest.mark.parametrize(("servers", "utilisation", "variation"), [(4, 0.7, 1.0), (2, 0.8, 0.5), (8, 0.9, 0.0)])
def test_a_shared_line_against_a_simulated_one(servers: int, utilisation: float, variation: float) -> None:
    chance = waiting_probability(float(servers), utilisation)
    found = float(pooled_wait(1.0, float(servers), utilisation, variation, chance))
    seen = shared_line(servers, utilisation, variation, 120_000)
    assert found == pytest.approx(seen.mean(), rel=0.1)
    assert float(wait_percentile(found, chance, 0.01)) == pytest.approx(np.quantile(seen, 0.99), rel=0.12)


def test_four_lines_wait_longer_than_one_of_four() -> None:
    chance = waiting_probability(4.0, 0.7)
    shared = float(pooled_wait(1.0, 4.0, 0.7, 1.0, chance))
    assert shared == pytest.approx(0.357, abs=5e-4)
    assert float(wait_percentile(shared, chance, 0.01)) == pytest.approx(3.13, abs=0.005)
    assert float(queue_wait(1.0, 0.7, 1.0)) / shared == pytest.approx(6.53, abs=0.005)
    assert float(pooled_wait(1.0, 1.0, 0.7, 1.0, 0.7)) == pytest.approx(float(queue_wait(1.0, 0.7, 1.0)))
