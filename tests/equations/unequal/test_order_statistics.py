"""Extremes of random times against finer quadrature, known integrals, the standard library and draws."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from costmodel.equations.unequal import expected_maximum, expected_order_statistic, normal_percentile

NORMAL = NormalDist()


def finer_maximum(ranks: float) -> float:
    """E[max] by Simpson's rule with the normal distribution of the standard library, on both sides of 0."""
    x = np.linspace(0.0, 12.0, 2401)
    below = np.array([NORMAL.cdf(value) for value in x])
    inside = (1 - below**ranks) - (1 - below) ** ranks
    weights = np.where(np.arange(x.size) % 2, 4.0, 2.0)
    weights[0] = weights[-1] = 1.0
    return float(np.sum(weights * inside) * (x[1] - x[0]) / 3)


@pytest.mark.parametrize(("ranks", "known"), [(8, 1.424), (64, 2.344), (1024, 3.248), (16384, 3.971)])
def test_expected_maximum(ranks: int, known: float) -> None:
    """Of 8, 64, 1,024 and 16,384: 1.424, 2.344, 3.248, 3.971; the quantile form is within 0.8 %, √(2 ln n) above."""
    exact = float(expected_maximum(float(ranks)))
    assert exact == pytest.approx(known, rel=3e-4)
    assert exact == pytest.approx(finer_maximum(ranks), rel=1e-9)
    assert exact < math.sqrt(2 * math.log(ranks))


def test_expected_maximum_in_closed_form() -> None:
    """Of two 1/√π, of three 3/(2 √π), of four 3/√π (1/2 + asin(1/3)/π), by known integrals."""
    assert expected_maximum(1.0) == 0
    assert expected_maximum(2.0) == pytest.approx(1 / math.sqrt(math.pi), rel=1e-11)
    assert expected_maximum(3.0) == pytest.approx(1.5 / math.sqrt(math.pi), rel=1e-11)
    four = 3 / math.sqrt(math.pi) * (0.5 + math.asin(1 / 3) / math.pi)
    assert expected_maximum(4.0) == pytest.approx(four, rel=1e-11)


@pytest.mark.parametrize("ranks", [1e5, 1e6, 1e7])
def test_expected_maximum_of_very_many(ranks: float) -> None:
    assert expected_maximum(ranks) == pytest.approx(finer_maximum(ranks), rel=1e-9)


def test_the_bound_is_43_percent_high_for_eight() -> None:
    over = [math.sqrt(2 * math.log(n)) / float(expected_maximum(float(n))) - 1 for n in (8, 16384)]
    assert over == pytest.approx([0.43, 0.11], abs=0.006)


def test_normal_percentile() -> None:
    """Off by less than 4.5e-4, as Abramowitz and Stegun promise, and odd about one half."""
    probability = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 4001), 10.0 ** -np.arange(7, 15)])
    known = np.array([NORMAL.inv_cdf(p) for p in probability])
    found = np.asarray(normal_percentile(probability))
    assert np.max(np.abs(found - known)) < 4.5e-4
    np.testing.assert_allclose(found, -np.asarray(normal_percentile(1 - probability)), atol=1e-2)
    assert normal_percentile(0.5) == 0


@pytest.mark.parametrize("ranks", [4, 16, 64])
def test_order_statistics_of_draws(ranks: int) -> None:
    drawn = np.sort(np.random.default_rng(1).standard_normal((60_000, ranks)), axis=1).mean(axis=0)
    found = np.asarray(expected_order_statistic(np.arange(1.0, ranks + 1), float(ranks)))
    np.testing.assert_allclose(found, drawn, atol=0.025)
    np.testing.assert_allclose(found, -found[::-1], atol=1e-12)


def test_waiting_for_all_is_the_maximum() -> None:
    assert expected_order_statistic(64.0, 64.0) == pytest.approx(float(expected_maximum(64.0)), rel=5e-3)
    assert expected_order_statistic(70.0, 64.0) == expected_order_statistic(64.0, 64.0)
