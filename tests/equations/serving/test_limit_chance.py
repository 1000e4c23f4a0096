"""The chance of two normal variables against the integral over one of them, up to equal ones."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.run.uncertainty import normal_share
from costmodel.equations.serving.service_level import chance_of_both


@pytest.mark.parametrize("correlation", [0.3, 0.89, 0.91, 0.95, 0.99])
def test_both_lie_below_as_the_integral_over_one_says(correlation: float) -> None:
    for one in (-2.0, 0.0, 0.5, 2.0):
        first = np.linspace(-9.0, one, 4001)
        for other in (one, one + 0.05, one - 0.3, 1.0):
            below = normal_share((other - correlation * first) / (1 - correlation**2) ** 0.5)
            heights = np.exp(-(first**2) / 2) / (2 * np.pi) ** 0.5 * below
            exact = (heights.sum() - (heights[0] + heights[-1]) / 2) * (first[1] - first[0])
            assert chance_of_both(one, other, correlation) == pytest.approx(exact, abs=2e-4)
            assert chance_of_both(one, other, 1.0) == pytest.approx(normal_share(min(one, other)), abs=1e-9)
