"""A figure along a pipeline: on its first rank, on one between the ends, and on its last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from costmodel.ground.equation import Number

T = TypeVar("T")
U = TypeVar("U")


class PerStage(NamedTuple, Generic[T]):
    """Something of the first, a middle and the last rank; the same object thrice where all are alike."""

    first: T
    middle: T
    last: T

    def each(self, change: Callable[[T], U]) -> PerStage[U]:
        """Changed on each of them; once where all are the same object."""
        middle = change(self.middle)
        if self.first is self.middle is self.last:
            return PerStage(middle, middle, middle)
        return PerStage(change(self.first), middle, change(self.last))


STAGES = PerStage._fields


def stages_of(pp: float) -> tuple[int, ...]:
    """Places in STAGES of those that a pipeline of so many ranks has."""
    return {1: (0,), 2: (0, 2)}.get(int(pp), (0, 1, 2))


def same_on_all_stages(value: T) -> PerStage[T]:
    """The same on all of them."""
    return PerStage(value, value, value)


def value_of_largest(most: PerStage[Number], of: PerStage[Number]) -> Number:
    """What the rank has on which something is most; the middle one of equals."""
    if of.first is of.middle is of.last:
        return of.middle
    last = np.where(most.last >= most.first, of.last, of.first)
    return np.where(most.middle >= np.maximum(most.first, most.last), of.middle, last)
