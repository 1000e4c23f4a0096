"""Samples between those of a range: against every value, tried one by one."""

from __future__ import annotations

import math

import pytest

from costmodel.explore.search.range_samples import samples, samples_between
from costmodel.explore.search.ranges import Span


def reached(excess: dict[str, float], low: float, high: float) -> list[float]:
    """Numbers that are added to the samples of a range and reach the target."""
    numbers = samples(Span(low, high, ""), whole=False)

    def over(number: float) -> float:
        if number > excess["works up to"]:
            return math.nan
        return excess["least"] + abs(math.log(number / excess["at"]))

    return [number for number in samples_between(numbers, over, whole=False) if over(number) <= 0]


@pytest.mark.parametrize("at", [3.21, 77.7, 912.3])
def test_an_optimum_between_two_samples_is_found(at: float) -> None:
    """Samples are 24 % apart; 2 % around the optimum reach the target."""
    assert len(reached({"at": at, "least": -0.02, "works up to": 1e9}, 1.0, 1000.0)) == 1
    assert reached({"at": at, "least": 0.02, "works up to": 1e9}, 1.0, 1000.0) == []


@pytest.mark.parametrize("edge", [3.4, 80.9])
def test_the_last_value_that_works_is_tried(edge: float) -> None:
    """The target is reached in the last thousandth before a limit breaks."""
    assert reached({"at": 1e4, "least": -math.log(1e4 / edge) - 1e-3, "works up to": edge}, 1.0, 1000.0)


def test_nothing_is_added_where_nothing_could_be_between() -> None:
    assert samples_between([1.0, 2.0, 4.0], lambda number: 5 - number, whole=False) == []
    assert samples_between([1.0, 2.0, 4.0], lambda _: 1.0, whole=False) == []
    assert samples_between([1.0, 2.0, 4.0], lambda _: math.nan, whole=False) == []
