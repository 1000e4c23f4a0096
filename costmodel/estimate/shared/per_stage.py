"""A figure along a pipeline: on its first rank, on a middle rank, and on its last rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from costmodel.ground.equation import Number

T = TypeVar("T")
U = TypeVar("U")


class PerStage(NamedTuple, Generic[T]):
    """A value for the first, a middle and the last rank of a pipeline.

    Example: a pipeline of 8 stages has the embedding on the first rank and the head on the last. So its parameters are
    `PerStage(first=layers + embedding, middle=layers, last=layers + head)`, and six ranks share `middle`. If all ranks
    are alike, the three fields are the same object, and `each` evaluates it once.
    """

    first: T
    middle: T
    last: T

    def each(self, change: Callable[[T], U]) -> PerStage[U]:
        """Apply a function to each of the three; once if all are the same object."""
        middle = change(self.middle)
        if self.first is self.middle is self.last:
            return PerStage(middle, middle, middle)
        return PerStage(change(self.first), middle, change(self.last))


STAGES = PerStage._fields


def stages_of(pp: float) -> tuple[int, ...]:
    """Indices into STAGES that exist in a pipeline with so many ranks."""
    return {1: (0,), 2: (0, 2)}.get(int(pp), (0, 1, 2))


def same_on_all_stages(value: T) -> PerStage[T]:
    """One value for all stages."""
    return PerStage(value, value, value)


def value_of_largest(most: PerStage[Number], of: PerStage[Number]) -> Number:
    """The value of `of` on the rank with the largest `most`; the middle rank if equal."""
    if of.first is of.middle is of.last:
        return of.middle
    last = np.where(most.last >= most.first, of.last, of.first)
    return np.where(most.middle >= np.maximum(most.first, most.last), of.middle, last)
