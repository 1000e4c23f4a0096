"""Samples between those of a range: against every value, tried one by one."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from costmodel.explore.search.value_ranges import Span, end_to_pass, samples, samples_between, samples_beyond


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


START = [1.0, 2.0, 4.0, 8.0]


def beyond(excess: Callable[[float], float], *, whole: bool = True) -> list[float]:
    return samples_beyond(START, excess, whole=whole)


def test_samples_go_on_until_the_target_is_reached() -> None:
    found = beyond(lambda number: 1000 / number - 10)  # reached from 100 on
    assert found[-1] == 128.0
    assert 64.0 in found


def test_samples_go_on_below_a_range_down_to_one_of_what_is_counted() -> None:
    numbers = samples_beyond([8.0, 16.0, 32.0, 64.0], lambda number: number + 1 - 1.5, whole=True)
    assert numbers[0] == 1.0
    assert samples_beyond([8.0, 16.0, 32.0], lambda number: number - 0.3, whole=False)[0] == 0.25


@pytest.mark.parametrize(
    "excess",
    [
        lambda number: number,  # nearest at the lower end, which is one
        lambda number: abs(number - 3) + 1,  # nearest in between
        lambda number: 5 + 2.0**-number,  # levels off far from the target
        lambda number: 5.0,
    ],
)
def test_samples_end_where_no_trend_leads_to_the_target(excess: Callable[[float], float]) -> None:
    assert beyond(excess) == []
    assert end_to_pass({number: excess(number) for number in START}, whole=True) is None


def test_samples_end_after_two_octaves_without_a_value_that_works() -> None:
    assert max(beyond(lambda number: 1000 / number if number <= 8 else math.nan)) == 32.0


def test_a_range_without_a_value_that_works_is_searched_further() -> None:
    assert max(beyond(lambda number: math.nan if number < 500 else -1.0)) == 512.0


def test_the_end_that_leads_to_the_target_is_named() -> None:
    assert end_to_pass({number: 100 / number for number in START}, whole=True) == 8.0
    assert end_to_pass({number: number for number in START}, whole=False) == 1.0
    assert end_to_pass({number: number - 3 for number in START}, whole=False) is None  # it is reached
