"""Halvings and substitutions on columns: right, each row for itself, and honest about what has not settled."""

from __future__ import annotations

import doctest
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from costmodel.ground import solvers
from costmodel.ground.solvers import Curves, Jumps, Line, last_within


def test_examples_run() -> None:
    assert doctest.testmod(solvers).failed == 0


@pytest.mark.parametrize("root", [1e-3, 0.3, 1.0, 7.0, 9.999])
def test_last_within_finds_where_an_excess_begins(root: float) -> None:
    for excess in (
        lambda x: np.log(x / root),
        lambda x: (x / root) ** 5 - 1,
        lambda x: np.where(x <= root, -1.0, np.inf),
    ):
        found = float(last_within(excess, 1e-4, 10.0))
        assert found <= root * (1 + 1e-12)
        assert found == pytest.approx(root, rel=2e-2, abs=2e-4)


def test_last_within_gives_each_row_its_own_answer_whatever_stands_beside_it() -> None:
    roots = np.geomspace(1e-3, 9.9, 37) * np.where(np.arange(37) % 3, 1.0, 1e3)  # a third have nothing over

    def of(rows: NDArray[np.intp]) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
        return lambda x: np.log(x / roots[rows]) + (x - roots[rows]) ** 3

    every = np.arange(37)
    together = last_within(of(every), np.full(37, 1e-4), np.full(37, 10.0), some=of)
    alone = [float(last_within(of(every[[row]]), np.array([1e-4]), np.array([10.0]))[0]) for row in every]
    assert together.tolist() == alone


def test_last_within_looks_at_both_ends_alone_where_even_the_least_is_over() -> None:
    """What no load keeps costs two looks, not as many as a search."""
    looks: list[NDArray[np.float64]] = []

    def excess(x: NDArray[np.float64]) -> NDArray[np.float64]:
        looks.append(x)
        return x + 1.0

    assert float(last_within(excess, 1e-4, 10.0)) == 1e-4
    assert len(looks) == 2


def test_last_within_takes_an_end_where_nothing_changes() -> None:
    ends = [float(last_within(lambda x, sign=sign: sign + 0 * x, 1.0, 10.0)) for sign in (-1.0, 1.0)]
    assert ends == [10.0, 1.0]


def test_curves_are_exact_at_their_points_and_near_between() -> None:
    grid = Curves.points(1024.0)
    curves = Curves(np.stack([3 + grid, np.sqrt(grid) + grid**1.5]), np.array([0, 1, 1]))
    numbers = np.array([100.3, 517.7, float(grid[40])])
    exact = np.array([3 + numbers[0], *(np.sqrt(numbers[1:]) + numbers[1:] ** 1.5)])
    assert curves.at(numbers) == pytest.approx(exact, rel=5e-4)
    assert float(curves.at(numbers)[2]) == pytest.approx(float(exact[2]), rel=1e-9)


def test_lines_pass_through_both_values() -> None:
    line = Line.through(np.array([3.0, 10.0]), np.array([5.0, 10.0]), 2.0, np.array([0, 1]))
    assert line.at(np.array([2.0, 2.0])).tolist() == [3.0, 10.0]
    assert line.at(np.array([4.0, 4.0])).tolist() == [5.0, 10.0]


def test_a_curve_jumps_where_its_function_does() -> None:
    """Not between the two points beside it; each row at its own number."""

    def times(number: NDArray[np.float64], beyond: NDArray[np.float64]) -> NDArray[np.float64]:
        return 3.0 + 0.5 * number + np.where(number > beyond, 40.0, 0.0)

    beyond, grid = np.array([100.3, 517.0]), Curves.points(2048.0)
    smeared = Curves(np.stack([times(grid, each) for each in beyond]), np.array([0, 1, 1]))
    curves = smeared.with_jumps(Jumps(beyond, np.array([40.0, 40.0])))
    for numbers in ([100.2, 516.9, 517.1], [100.4, 3.0, 2000.0]):
        number = np.array(numbers)
        np.testing.assert_allclose(curves.at(number), times(number, beyond[[0, 1, 1]]), rtol=1e-12)
    assert smeared.at(np.array([100.2, 516.9, 517.1]))[0] > times(np.array([100.2]), beyond[:1])[0] + 1.0
    flat = Curves(np.ones((2, len(grid))), curves.which)
    np.testing.assert_allclose((curves + flat).at(number), curves.at(number) + 1.0, rtol=1e-12)
    np.testing.assert_allclose(curves.rows(np.array([2])).at(np.array([600.0])), 3.0 + 300.0 + 40.0, rtol=1e-12)
