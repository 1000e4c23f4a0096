"""A figure along a pipeline: on its first rank, on one between the ends, and on its last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Along(NamedTuple, Generic[T]):
    """Something of the first, a middle and the last rank; the same object thrice where all are alike."""

    first: T
    middle: T
    last: T

    def each(self, change: Callable[[T], U]) -> Along[U]:
        """Changed on each of them; once where all are the same object."""
        middle = change(self.middle)
        if self.first is self.middle is self.last:
            return Along(middle, middle, middle)
        return Along(change(self.first), middle, change(self.last))


def alike(value: T) -> Along[T]:
    """The same on all of them."""
    return Along(value, value, value)
