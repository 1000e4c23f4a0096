"""Costs: the results of a block of plans as columns, and the limits of a scenario on them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.base import Document
from costmodel.ground.equation import Number
from costmodel.ground.record import record
from costmodel.ground.shared_columns import Factored

# --- costs: the results of a block of plans as columns


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


# --- limits of a scenario on columns of results


Kind = Literal["at_most", "at_least", "target"]


KINDS: tuple[Kind, ...] = ("at_most", "at_least", "target")


@record
class Limit:
    """One limit on one column of results, with the key it was written under."""

    key: str
    column: str
    kind: Kind
    value: float
    within: float = 0.0

    @property
    def of_memory(self) -> bool:
        """Whether the limit is on memory or on the chance to fit."""
        return self.column.startswith("memory") or self.column == "fit_chance"

    def kept(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Mask of the values that meet the limit; an unknown value does not meet it."""
        if self.kind == "at_most":
            return values <= self.value
        if self.kind == "at_least":
            return values >= self.value
        return np.asarray(np.abs(values - self.value) <= self.within * self.value)

    def holds(self, value: float) -> bool:
        """Whether one value meets the limit."""
        return bool(self.kept(np.array([value]))[0])


def stated_limits(limits: Document) -> Iterator[Limit]:
    """Every limit of a scenario."""
    stated = limits.model_fields_set
    for key in (name for name in type(limits).model_fields if name in stated):
        bound, column = getattr(limits, key), "memory_share" if key == "memory" else key
        for kind in KINDS:
            value = getattr(bound, kind)
            if value is not None:
                yield Limit(key, column, kind, value, bound.within or 0.0)
