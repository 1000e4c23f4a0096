"""What several structures have in common, worked out once."""

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
    """Work on a block that is done once for all structures of the same plans that agree in these choices.

    It sees every other choice reset to its default, so that its result can depend on these alone. What else it is given
    is compared by identity, a number by value.
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
    """What tells an input from others: of a number its value."""
    return (item,) if type(item) is float else id(item)
