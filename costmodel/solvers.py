"""Solvers for whole columns: a fixed number of rounds, so that no row depends on another one.

Equations are closed forms; where an unknown stands on both sides, composition hands the forms to one of these.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]
Values = float | Column
HALVINGS, ROUNDS = 40, 8


def greatest_within(
    holds: Callable[[Column], NDArray[np.bool_]], low: Values, high: Values, *, halvings: int = HALVINGS
) -> Column:
    """Greatest value from `low` to `high` at which a condition holds that fails from some value on.

    What is returned holds itself, to within the last halving; `low` where nothing above it does. Whether `low` holds is
    for the caller to know: a rate of 0 keeps every limit, or none is kept at all.

    >>> round(float(greatest_within(lambda x: x * x <= 2, 0.0, 10.0)), 6)
    1.414214
    """
    lower, upper = (np.array(end, dtype=np.float64) for end in np.broadcast_arrays(low, high))
    lower = np.where(holds(upper), upper, lower)
    for _ in range(halvings):
        middle = lower + (upper - lower) / 2
        fits = holds(middle)
        lower, upper = np.where(fits, middle, lower), np.where(fits, upper, middle)
    return lower


def fixed_point(image: Callable[[Column], Values], start: Values, *, rounds: int = ROUNDS) -> tuple[Column, Column]:
    """Value that its image gives back, by so many rounds, and by what share the last round still moved it.

    A row that has not settled says so in its share; the caller decides what is near enough.

    >>> value, moved = fixed_point(lambda x: (x + 2 / x) / 2, 1.0)
    >>> float(value), float(moved)
    (1.414213562373095, 0.0)
    """
    value = previous = np.asarray(start, dtype=np.float64)
    for _ in range(rounds):
        previous, value = value, np.asarray(image(value), dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        moved = np.abs(value - previous) / np.abs(value)
    return value, np.where(value == previous, 0.0, moved)
