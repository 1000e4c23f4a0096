"""Spreads against draws: what the closed forms say of a sum, many drawn sums show."""

import numpy as np
import pytest

from costmodel.equations.run.uncertainty import (
    TENTH,
    combined_error,
    earlier_spread,
    missed_chance,
    ninetieth_percentile,
    residual_spread,
    tenth_percentile,
    term_error,
)

DRAWS = 200_000


@pytest.mark.parametrize("spread", [0.02, 0.1, 0.25])
def test_a_drawn_residual_gives_its_spread_back(spread: float) -> None:
    errors = np.abs(np.exp(np.random.default_rng(1).normal(0, spread, DRAWS)) - 1)
    found = residual_spread(float(np.percentile(errors, 50)), float(np.percentile(errors, 90)))
    assert found == pytest.approx(spread, rel=0.08)


@pytest.mark.parametrize("spread", [0.16, 0.28, 0.5])
@pytest.mark.parametrize("slower", [0.3, 0.57])
def test_one_of_ten_draws_that_can_only_take_longer_lies_below(spread: float, slower: float) -> None:
    normal, other = np.random.default_rng(3).normal(size=(2, DRAWS))
    lowest = float(np.quantile(spread * normal + slower * np.abs(other), 0.1))
    assert TENTH * float(earlier_spread(spread, slower)) == pytest.approx(max(-lowest, 0.0), abs=0.02)


@pytest.mark.parametrize("spread", [0.05, 0.2, 0.5])
def test_eight_of_ten_draws_lie_between(spread: float) -> None:
    drawn = 16.0 * np.exp(np.random.default_rng(2).normal(0, spread, DRAWS))
    low, high = tenth_percentile(16.0, spread), ninetieth_percentile(16.0, spread)
    assert np.mean(drawn < low) == pytest.approx(0.1, abs=0.005)
    assert np.mean(drawn > high) == pytest.approx(0.1, abs=0.005)


@pytest.mark.parametrize(
    ("terms", "spreads", "kinds", "common"),
    [
        ((12.5, 1.75, 0.55, 0.37, 0.16), (0.065, 0.15, 0.2, 0.13, 0.25), (0, 1, 2, 3, 3), 0.09),
        ((5.0, 5.0, 5.0), (0.2, 0.2, 0.2), (0, 0, 0), 0.0),
        ((5.0, 5.0, 5.0), (0.2, 0.2, 0.2), (0, 1, 2), 0.0),
        ((1.0, 9.0), (0.5, 0.02), (0, 1), 0.05),
    ],
)
def test_percentiles_of_a_drawn_sum(
    terms: tuple[float, ...], spreads: tuple[float, ...], kinds: tuple[int, ...], common: float
) -> None:
    """Terms of one kind share their draw, kinds have their own, and the whole is off by one more."""
    draws = np.random.default_rng(3)
    kind_draws = draws.normal(size=(max(kinds) + 1, DRAWS))
    parts = [x * np.exp(s * kind_draws[kind]) for x, s, kind in zip(terms, spreads, kinds, strict=True)]
    drawn = np.sum(parts, axis=0) * np.exp(common * draws.normal(size=DRAWS))

    total, spread = sum(terms), common
    for kind in sorted(set(kinds)):
        members = [place for place, of in enumerate(kinds) if of == kind]
        spread = combined_error(sum(term_error(spreads[place], terms[place]) for place in members) / total, spread)
    assert tenth_percentile(total, spread) == pytest.approx(np.percentile(drawn, 10), rel=0.02)
    assert ninetieth_percentile(total, spread) == pytest.approx(np.percentile(drawn, 90), rel=0.02)


def test_errors_of_one_kind_do_not_average_out() -> None:
    together = term_error(0.2, 5.0) + term_error(0.2, 5.0)
    apart = combined_error(term_error(0.2, 5.0), term_error(0.2, 5.0))
    assert together == pytest.approx(2.0)
    assert apart == pytest.approx(2.0 / np.sqrt(2))


def test_of_draws_all_that_are_not_below_a_bound_are_above_it() -> None:
    drawn = np.random.default_rng(4).normal(size=DRAWS)
    assert missed_chance(np.mean(drawn < 0.8)) == pytest.approx(np.mean(drawn >= 0.8))
