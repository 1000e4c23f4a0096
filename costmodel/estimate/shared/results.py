"""Costs: the results of a block of plans as columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.ground.equation import Number
from costmodel.ground.record import record
from costmodel.ground.shared_columns import Factored


def number(value: Number) -> float:
    """The value of a single-row block as a plain number."""
    return float(np.asarray(value).flat[0])


def at_row(value: Any, index: int) -> float:
    """One plan's value of a column; a shared value is stored once."""
    if isinstance(value, Factored) or (isinstance(value, np.ndarray) and value.ndim):
        return float(value[index if len(value) > 1 else 0])
    return float(value)


def agreed(condition: object) -> bool:
    """A condition that holds for all rows or for none; a ValueError where it holds for some, which are no one block."""
    found = np.asarray(condition)
    if found.all() != found.any():
        raise ValueError("a condition that decides the structure differs between the rows of one batch")
    return bool(found.all())


@record
class Costs:
    """Results of a block of plans, one array per column."""

    columns: dict[str, Number]
    rows: int

    def column(self, name: str) -> NDArray[np.float64]:
        """One column with a value per plan; NaN where the scenario does not ask for it."""
        return np.broadcast_to(np.asarray(self.columns.get(name, math.nan), dtype=np.float64), (self.rows,))

    def row(self, index: int = 0) -> dict[str, float]:
        """One plan's results as plain numbers: seconds, bytes, FLOP/s, shares of one, USD."""
        return {name: at_row(value, index) for name, value in self.columns.items()}
