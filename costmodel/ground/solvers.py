"""Solvers for whole columns: a fixed number of rounds, so that rows do not affect each other.

Equations are closed forms. If an unknown stands on both sides, the composition calls one of these solvers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.ground.record import record

Column = NDArray[np.float64]
Values = float | Column
Places = NDArray[np.intp]
Kind = TypeVar("Kind", bound=np.generic)

POINTS = 12  # of a curve, between a number and twice as many
_POINTS = 2.0 ** (np.arange(64 * POINTS) / POINTS)
_WIDTH = 1 / (2.0 ** (1 / POINTS) - 1)


def distinct_values(values: NDArray[Kind], axis: int | None = None) -> NDArray[Kind]:
    """The distinct values in increasing order, or the parts along an axis; without `numpy.ma`, which is slow to import.

    >>> distinct_values(np.array([2.0, 1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    found: NDArray[Kind] = np.unique(values, axis=axis, return_index=True)[0]
    return found


@record
class Jumps:
    """The jump of each function at one point: its position and its height."""

    beyond: Column
    rise: Column


@record
class Curves:
    """Functions of a positive number, tabulated at points of equal ratio; `which` selects the function of each row.

    Between two points a function is linear: with 12 points per factor of two, the error is under 4e-4 for any power up
    to the second, and for sums of such powers. Values of a function with a jump exclude the jump.

    >>> squares = Curves(Curves.points(64.0)[None, :] ** 2, np.array([0]))
    >>> float(squares.at(np.array([10.0]))[0] / 100) - 1 < 4e-4
    True
    """

    values: Column
    which: NDArray[np.intp]
    jumps: Jumps | None = None

    def __add__(self, other: Curves) -> Curves:
        """The sum of two sets of functions for the same rows; the second must not jump."""
        assert other.jumps is None
        return Curves(self.values + other.values, self.which, self.jumps)

    def with_jumps(self, jumps: Jumps) -> Curves:
        """Curves whose functions jump; the values at the points are given without the jumps."""
        points = _POINTS[: self.values.shape[1]]
        smooth = self.values - np.where(points > jumps.beyond[:, None], jumps.rise[:, None], 0.0)
        return Curves(smooth, self.which, jumps)

    @staticmethod
    def points(largest: float) -> Column:
        """The points at which values are needed, from 1 to the largest argument."""
        return _POINTS[: int(np.ceil(np.log2(largest) * POINTS)) + 1]

    def rows(self, places: NDArray[np.intp]) -> Curves:
        """The functions of selected rows."""
        return Curves(self.values, self.which[places], self.jumps)

    @functools.cached_property
    def _looked_up(self) -> tuple[NDArray[np.intp], Column, Column]:
        """Where the points of each row's function begin, and the values and their steps as one list each."""
        steps = np.zeros_like(self.values)
        steps[:, :-1] = self.values[:, 1:] - self.values[:, :-1]
        return self.which * self.values.shape[1], self.values.reshape(-1), steps.reshape(-1)

    @functools.cached_property
    def _jump(self) -> tuple[Column, Column] | None:
        """The jump of each row's function."""
        return None if self.jumps is None else (self.jumps.beyond[self.which], self.jumps.rise[self.which])

    def at(self, number: Values) -> Column:
        """The value of each row's function."""
        begin, values, steps = self._looked_up
        clipped = np.maximum(np.asarray(number), 1.0)
        place = (np.log2(clipped) * POINTS).astype(np.intp)
        place = np.minimum(place, self.values.shape[1] - 2)
        part = clipped / _POINTS.take(place)
        part -= 1
        part *= _WIDTH
        place = place + begin
        part = part * steps.take(place)
        found = np.asarray(part + values.take(place))
        if self._jump is None:
            return found
        beyond, rise = self._jump
        return found + np.where(clipped > beyond, rise, 0.0)


@record
class Line:
    """Straight lines through two values each; `which` selects the line of each row.

    >>> Line.through(np.array([3.0]), np.array([5.0]), 1.0, np.array([0, 0])).at(np.array([1.0, 10.0])).tolist()
    [3.0, 21.0]
    """

    start: Column
    each: Column

    @staticmethod
    def through(one: Column, two: Column, step: float, which: NDArray[np.intp]) -> Line:
        """Lines through the values at a number and at twice that number."""
        each = (two - one) / step
        return Line((one - each * step)[which], each[which])

    def rows(self, places: NDArray[np.intp]) -> Line:
        """The lines of selected rows."""
        return Line(self.start[places], self.each[places])

    def at(self, number: Values) -> Column:
        """The value of each row's line."""
        return np.asarray(self.start + self.each * number)


STEEPEST, STEPS = 4.0, 48  # an excess beyond counts as that; looks at each row
NEAR = 1e-12  # excess, and width of a bracket, from which on a row is done


def last_within(
    excess: Callable[[Column], Values],
    low: Values,
    high: Values,
    *,
    some: Callable[[Places], Callable[[Column], Values]] | None = None,
    steps: int = STEPS,
    near: float = NEAR,
    points: int = 2,
    looked: tuple[Column, Values] | None = None,
) -> Column:
    """The largest value from `low` to `high` at which an increasing excess is still at most 0.

    Chandrupatla's method: inverse quadratic interpolation where the curve is straight enough, else bisection. Each row
    stops when its bracket is narrow enough; with `some`, which gives the excess for selected rows, only unfinished rows
    are evaluated further. The result has no positive excess, except `low` if `low` itself has some.

    near: excess, and width of a bracket, at which a row stops
    points: values whose excess is evaluated first and together, from three on along one more axis ahead of the others
    looked: such values from low to high, and their excess, where they are known

    >>> round(float(last_within(lambda x: x * x - 2, 0.0, 10.0)), 6)
    1.414214
    """
    tops, bottoms = (np.array(end, dtype=np.float64) for end in np.broadcast_arrays(high, low))
    shape = tops.shape
    if looked is not None:
        looks = _looked_at(looked[0], lambda _: looked[1], looked[0].shape).reshape(2, len(looked[0]), -1)
    elif points > 2:
        values = closer_to_end(bottoms, tops, points)
        looks = _looked_at(values, excess, values.shape).reshape(2, points, -1)
    else:
        looks = np.stack([_looked_at(end, excess, shape) for end in (bottoms, tops)], axis=1)
    here, there, last = _bracket(looks)
    part = _part(here, there, last)
    answer: Column = np.where(here[1] <= 0, here[0], there[0])
    sought, places = (here[1] > 0) & ~(there[1] > 0), np.arange(len(answer))
    for _ in range(steps):
        if not np.count_nonzero(sought):
            break
        if some is not None and 2 * np.count_nonzero(sought) < len(places):
            places, here, there, part = places[sought], here[:, sought], there[:, sought], part[sought]
            excess, shape, sought = some(places), places.shape, np.ones(len(places), dtype=bool)
        solution = _looked_at(here[0] + part * (there[0] - here[0]), excess, shape)
        same = (solution[1] > 0) == (here[1] > 0)
        last, there, here = np.where(same, here, there), np.where(same, there, here), solution
        part = _part(here, there, last)
        inside, of_inside = np.where(here[1] <= 0, here, there)
        new = sought & (of_inside <= 0)
        answer[places[new]] = inside[new]
        sought &= ~((new & (of_inside > -near)) | (np.abs(here[0] - there[0]) < near))
    return answer.reshape(tops.shape)


def closer_to_end(low: Column, high: Column, points: int) -> Column:
    """Values from low to high, closer to each other towards high, on one more axis ahead of the others.

    >>> closer_to_end(np.array([0.0]), np.array([16.0]), 5)[:, 0].tolist()
    [0.0, 7.0, 12.0, 15.0, 16.0]
    """
    parts = np.linspace(1.0, 0.0, points).reshape(-1, *(1 for _ in np.shape(high)))
    return high - (high - low) * parts**2


def _bracket(looks: Column) -> tuple[Column, Column, Column]:
    """Of values in increasing order, with their excess: the one after the last without any, that one, and a third."""
    within = looks[1] <= 0
    within[0] = True
    lower = np.minimum(len(within) - 1 - np.argmax(within[::-1], axis=0), len(within) - 2)
    third = np.where(lower > 0, lower - 1, np.minimum(lower + 2, len(within) - 1))
    rows = np.arange(within.shape[1])
    return looks[:, lower + 1, rows], looks[:, lower, rows], looks[:, third, rows]


def _looked_at(value: Column, excess: Callable[[Column], Values], shape: tuple[int, ...]) -> Column:
    """Two columns: tried values, and their excess."""
    pair = np.empty((2, *shape))
    pair[0] = value.reshape(shape)
    pair[1] = np.minimum(np.maximum(excess(pair[0]), -STEEPEST), STEEPEST)
    return pair.reshape(2, -1)


def _part(here: Column, there: Column, last: Column) -> Column:
    """The fraction of the interval to try next: on the curve through the last three tries, else the middle."""
    (x, of_x), (y, of_y), (z, of_z) = here, there, last
    with np.errstate(all="ignore"):
        way, height, beyond = y - x, of_x - of_y, of_z - of_y
        place, level = way / (y - z), height / beyond
        straight = (level * level < place) & ((1 - level) ** 2 < 1 - place)
        part = of_x / height * of_z / beyond + (z - x) / way * of_x / (of_z - of_x) * of_y / beyond
        part = np.where(straight & np.isfinite(part), part, 0.5)
    return np.asarray(np.minimum(np.maximum(part, 1e-6), 1 - 1e-6))
