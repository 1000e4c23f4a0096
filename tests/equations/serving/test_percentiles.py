"""The normal law by the standard library's, log-normal times by their own definition."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.run.uncertainty import normal_share
from costmodel.equations.serving.service_level import lognormal_percentile, normal_quantile, share_within

NORMAL = NormalDist()


@settings(max_examples=200)
@given(st.floats(1e-9, 1 - 1e-9))
def test_quantiles_of_the_normal_law(tail: float) -> None:
    assert float(normal_quantile(tail)) == pytest.approx(-NORMAL.inv_cdf(tail), abs=4.6e-4)


@settings(max_examples=200)
@given(st.floats(-60, 60))
def test_shares_of_the_normal_law(deviations: float) -> None:
    assert float(normal_share(deviations)) == pytest.approx(NORMAL.cdf(deviations), abs=1e-7)


@settings(max_examples=100)
@given(st.floats(0, 0.5), st.floats(1e-3, 5), st.floats(0.01, 2), st.floats(-3, 3))
def test_percentiles_are_those_of_the_law_with_these_moments(
    fastest: float, above: float, spread: float, deviations: float
) -> None:
    """ln(t − fastest) is normal with mean μ and deviation σ: its moments in, its quantile out, and back."""
    middle = math.log(above) - spread**2 / 2
    variance = above**2 * math.expm1(spread**2)
    wanted = fastest + math.exp(middle + spread * deviations)
    found = float(lognormal_percentile(fastest, fastest + above, variance, deviations))
    assert found == pytest.approx(wanted, rel=1e-6)
    far = fastest + math.exp(middle + spread * NORMAL.inv_cdf(0.99))
    share = float(share_within(found, fastest, fastest + above, far))
    assert share == pytest.approx(NORMAL.cdf(deviations), abs=1e-4)


def test_draws() -> None:
    drawn = 0.02 + np.random.default_rng(1).lognormal(-2, 0.7, 400_000)
    moments = (0.02, float(drawn.mean()), float(drawn.var()))
    for tail in (0.5, 0.1, 0.01):
        wanted = np.quantile(drawn, 1 - tail)
        assert float(lognormal_percentile(*moments, normal_quantile(tail))) == pytest.approx(wanted, rel=0.02)
        far = float(np.quantile(drawn, 0.99))
        assert float(share_within(wanted, *moments[:2], far)) == pytest.approx(1 - tail, abs=3e-3)


def test_limits() -> None:
    assert float(lognormal_percentile(0.01, 0.05, 0.0, 2.326)) == pytest.approx(0.05, rel=1e-5)
    assert [float(share_within(limit, 0.01, 0.05, 0.05)) for limit in (0.005, 0.01, 0.04, 0.06)] == pytest.approx(
        [0, 0, 0, 1]
    )


@pytest.mark.parametrize("mean", [np.inf, 1.0])
def test_what_is_not_finite_keeps_no_limit(mean: float) -> None:
    assert float(lognormal_percentile(np.inf, mean, np.inf, 2.326)) == np.inf
    assert float(share_within(1e9, 0.01, mean, np.inf)) == 0
