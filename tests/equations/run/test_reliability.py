"""Interruptions: published rates and lives, and spares against the Poisson distribution summed term by term."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.run.failures import (
    expected_interruptions,
    mean_time_between_interruptions,
    observed_failure_rate,
    spare_nodes,
)

HOUR, DAY = 3600.0, 86400.0
LLAMA = 419 / 54 / DAY / 2048  # Llama 3 §3.3.4: 419 unexpected interruptions of 2,048 nodes in 54 days
RSC_1 = 6.5e-3 / DAY  # Kokolis et al. 2025


def poisson_spares(down: float, probability: float) -> int:
    """Spares by summing the distribution with math.lgamma until it reaches the probability."""
    total, spares = math.exp(-down), 0
    while total < probability:
        spares += 1
        total += math.exp(spares * math.log(down) - down - math.lgamma(spares + 1))
    return spares


def test_rate_of_llama_3() -> None:
    """419 in 54 days on 2,048 nodes: 3.789 per 1,000 node-days, one each 3.093 h; all 466 are one each 2.78 h."""
    rate = observed_failure_rate(419.0, 2048.0, 54 * DAY)
    assert rate * DAY * 1000 == pytest.approx(3.789, rel=1e-3)
    assert mean_time_between_interruptions(2048.0, rate, 0.0) / HOUR == pytest.approx(3.093, rel=1e-3)
    assert pytest.approx(float(mean_time_between_interruptions(2048.0, rate, 0.0))) == 54 * DAY / 419
    every = observed_failure_rate(466.0, 2048.0, 54 * DAY)
    assert mean_time_between_interruptions(2048.0, every, 0.0) / HOUR == pytest.approx(2.78, abs=0.005)


@pytest.mark.parametrize(("nodes", "hours", "printed"), [(2048.0, 1.80, "1.8"), (16384.0, 0.225, "0.23")])
def test_lives_that_kokolis_projects(nodes: float, hours: float, printed: str) -> None:
    """Kokolis et al. (2025) project 1.8 h for 16,384 and 0.23 h for 131,072 GPUs from 6.5 per 1,000 node-days."""
    found = float(mean_time_between_interruptions(nodes, RSC_1, 0.0)) / HOUR
    assert found == pytest.approx(hours, rel=0.002)
    assert f"{found:.2g}" == printed


def test_hardware_alone_does_not_explain_how_long_jobs_live() -> None:
    """Kokolis et al. (2025): jobs on 1,024 GPUs lived 7.9 h, on 8 GPUs 47.7 days; the rate gives 28.8 h and 154 days.

    One rate of software for a job cannot explain both: 1 in 11 h for the larger, 1 in 69 days for the smaller.
    """
    large, small = (float(mean_time_between_interruptions(n, RSC_1, 0.0)) for n in (128.0, 1.0))
    assert large / HOUR == pytest.approx(28.85, rel=1e-3)
    assert small / DAY == pytest.approx(153.8, rel=1e-3)
    by_software = 1 / (7.9 * HOUR) - 1 / large
    assert 1 / by_software / HOUR == pytest.approx(10.9, abs=0.05)
    assert mean_time_between_interruptions(128.0, RSC_1, by_software) / HOUR == pytest.approx(7.9)
    assert 1 / (1 / (47.7 * DAY) - 1 / small) / DAY == pytest.approx(69, abs=0.5)


def test_rate_of_opt_175b() -> None:
    """Zhang et al. (2022): 35 manual and 70 automatic restarts in two months on 124 nodes, 14.1 per 1,000 node-days."""
    assert observed_failure_rate(105.0, 124.0, 60 * DAY) * DAY * 1000 == pytest.approx(14.11, rel=1e-3)


def test_interruptions_of_a_poisson_process() -> None:
    """Counts of drawn processes have the mean, and the share without any has the probability."""
    counts = np.random.default_rng(1).poisson(1.7, 400_000)
    assert expected_interruptions(1.7 * HOUR, HOUR) == pytest.approx(counts.mean(), rel=5e-3)


def test_spares_of_llama_3() -> None:
    """2,048 nodes, repairs of two days, 99 %: 15.5 nodes in repair in the mean, 25 spares."""
    down = expected_interruptions(2 * DAY, mean_time_between_interruptions(2048.0, LLAMA, 0.0))
    assert down == pytest.approx(2048 * LLAMA * 2 * DAY)
    assert spare_nodes(down, 0.99) == 25 == poisson_spares(float(down), 0.99)


@settings(max_examples=200)
@given(st.floats(1e-3, 350.0), st.floats(0.01, 0.9999))
def test_spares_are_exact_up_to_350_nodes_in_repair(down: float, probability: float) -> None:
    assert spare_nodes(down, probability) == poisson_spares(down, probability)


@settings(max_examples=60)
@given(st.floats(351.0, 600.0), st.floats(0.01, 0.9999))
def test_spares_are_one_off_at_most_beyond(down: float, probability: float) -> None:
    assert abs(spare_nodes(down, probability) - poisson_spares(down, probability)) <= 1


def test_no_spares_without_failures() -> None:
    np.testing.assert_array_equal(spare_nodes(np.array([0.0, 1e-9, 0.005]), 0.99), 0.0)
    assert spare_nodes(0.02, 0.99) == 1
