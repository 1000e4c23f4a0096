"""Stragglers: worked examples, and steps of many ranks drawn."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations import unequal
from costmodel.equations.kernels.roofline import slowest_part
from costmodel.equations.unequal import expected_maximum, jitter_slowdown, partial_wait_gain, partial_wait_slowdown


def test_jitter_averages_out_and_a_spread_stays() -> None:
    """3 % a micro-batch, 64 micro-batches, 512 ranks: 1.1 %; the same 3 % for a whole job: 9.1 %."""
    assert jitter_slowdown(512.0, 0.03, 64.0) == pytest.approx(1.01143, rel=1e-4)
    assert jitter_slowdown(512.0, 0.03, 1.0) == pytest.approx(1.0914, rel=1e-4)


@pytest.mark.parametrize(("ranks", "micro_batches"), [(8, 1), (64, 4), (64, 16)])
def test_steps_of_ranks_drawn(ranks: int, micro_batches: int) -> None:
    """A rank's step is the sum of its micro-batches; the step ends with the last rank."""
    times = np.random.default_rng(1).normal(1.0, 0.05, (6_000, ranks, micro_batches)).mean(axis=2)
    found = float(jitter_slowdown(float(ranks), 0.05, float(micro_batches)))
    assert found - 1 == pytest.approx(times.max(axis=1).mean() - 1, rel=2e-2)


def test_the_spread_of_parts_has_the_bound_in_place_of_the_maximum() -> None:
    """slowest_part takes √(2 ln n): by 0.43 to 0.62 of a standard deviation above the expected maximum."""
    ranks = 2.0 ** np.arange(3, 15)
    over = (np.asarray(slowest_part(ranks, 0.02)) - np.asarray(jitter_slowdown(ranks, 0.02, 1.0))) / 0.02
    assert np.all(over > 0.43)
    assert np.all(over < 0.62)


def test_alone_or_without_jitter_nobody_waits() -> None:
    assert jitter_slowdown(1.0, 0.1, 1.0) == 1
    assert jitter_slowdown(512.0, 0.0, 1.0) == 1
    assert partial_wait_slowdown(60.0, 64.0, 0.0) == 1


def test_waiting_for_60_of_64() -> None:
    """10 % jitter: 1.146 of the mean instead of 1.234, and only 1 % more samples a second."""
    assert partial_wait_slowdown(60.0, 64.0, 0.1) == pytest.approx(1.1442, rel=5e-3)
    assert partial_wait_gain(60.0, 64.0, 0.1) == pytest.approx(1.0114, rel=5e-3)
    assert partial_wait_gain(60.0, 64.0, 0.0) == 60 / 64


def test_partial_waits_drawn() -> None:
    times = np.sort(np.random.default_rng(2).normal(1.0, 0.1, (40_000, 64)), axis=1)
    first, last = times[:, 59].mean(), times[:, 63].mean()
    assert partial_wait_slowdown(60.0, 64.0, 0.1) == pytest.approx(first, rel=2e-3)
    assert partial_wait_gain(60.0, 64.0, 0.1) == pytest.approx(60 / 64 * last / first, rel=2e-3)


def test_waiting_for_all_gains_nothing() -> None:
    assert partial_wait_gain(64.0, 64.0, 0.1) == pytest.approx(1, rel=2e-3)
    assert partial_wait_slowdown(64.0, 64.0, 0.1) == pytest.approx(1 + 0.1 * float(expected_maximum(64.0)), rel=2e-3)


def test_places_and_weights_are_those_of_gauss() -> None:
    places, weights = np.polynomial.legendre.leggauss(8)
    assert pytest.approx(places, rel=1e-15) == unequal.POINTS
    assert pytest.approx(weights, rel=1e-14) == unequal.WEIGHTS
