"""A figure along a pipeline: on its first rank, on a middle rank, and on its last rank."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.parallelism.counts import remainder
from costmodel.estimate.shared.plan_batch import Block
from costmodel.ground.equation import Number, tracing

# Boolean masks of refused rows, and helpers to build them.

Mask = NDArray[np.bool_]


def none(block: Block) -> Mask:
    """A mask that is false in every row."""
    return np.zeros(len(block), dtype=bool)


def all_if(block: Block, wrong: bool) -> Mask:
    """A mask with one value for every row, for a rule that depends only on the structure."""
    return np.full(len(block), wrong)


def any_of(masks: Iterable[Mask]) -> Mask:
    """A mask that is true where any of several masks is."""
    found: Mask = np.asarray(False)
    for mask in masks:
        found = found | mask
    return found


def leaves_rest(amount: Number, parts: Number) -> Mask:
    """Rows where an amount is not divisible by a number of parts."""
    return np.asarray(remainder(amount, parts) != 0)


# Memoises work shared by structures that differ only in irrelevant choices.

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")
Work = Callable[Concatenate[S, Block, P], R]

RECOMPUTE = ("recompute", "recompute_modules", "recompute_layers", "recompute_method")
OFFLOAD = ("offload", "offload_to", "offload_layers")
SPLIT = ("split", "first_stage_layers", "last_stage_layers", "schedule")


def memoized(*choices: str) -> Callable[[Work[S, P, R]], Work[S, P, R]]:
    """Decorator: evaluate work on a block once for all structures with the same plans and the same values of `choices`.

    Example: `@memoized("recompute", "recompute_modules")` on `layer_time(inputs, block)` evaluates it once for each
    recompute mode. A block with another `schedule` but the same recompute mode gets the stored result. All other
    choices are reset to their defaults before the call, so that the result cannot depend on them. Further arguments are
    compared by identity, numbers by value.
    """

    def decorate(work: Work[S, P, R]) -> Work[S, P, R]:
        @functools.wraps(work)
        def call(inputs: S, block: Block, /, *others: P.args, **named: P.kwargs) -> R:
            chosen = block.chosen(choices)
            if tracing():
                return work(inputs, block.under(chosen), *others, **named)
            key = (work, chosen, id(inputs), *named, *map(_identity, (*others, *named.values())))
            if key not in block.known:
                held = (inputs, others, named)  # so that no other objects come to have their identities
                block.known[key] = work(inputs, block.under(chosen), *others, **named), held
            result: R = block.known[key][0]
            return result

        return call

    return decorate


def _identity(item: object) -> object:
    """The identity of an input: a number by its value, any other object by its id."""
    return (item,) if type(item) is float else id(item)


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
