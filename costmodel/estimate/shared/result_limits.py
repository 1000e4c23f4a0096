"""Limits of a scenario on columns of results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.base import Document
from costmodel.ground.record import record

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
