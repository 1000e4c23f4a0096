"""Memoises work shared by structures that differ only in irrelevant choices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from costmodel.estimate.shared.plan_batch import Block
from costmodel.ground.equation import tracing

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
