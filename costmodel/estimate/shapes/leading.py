"""Layers that come before all others: how many of them the ranks of a pipeline hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from costmodel.equation import Number
from costmodel.equations.counting import divided
from costmodel.equations.splits import leading_layers
from costmodel.estimate.block import Block
from costmodel.estimate.passes import summed
from costmodel.estimate.shapes.schedules import BOTH_WAYS, FOLDED

Before = Callable[[Number, Number], Number]  # layers before the chunk of a round and a rank


def leading_of_ranks(count: Number, block: Block, before: Before) -> tuple[Number, Number, Number]:
    """Of the first rank, of the one between the ends that holds fewest, and of the last.

    Fewest are on the last but one; folded also on the second, where they reach beyond the fold; both ways amid all.
    """
    schedule, last = block.structure.schedule, block.pp - 1
    second, late = np.minimum(last, 1.0), np.maximum(last - 1, 0.0)
    between = [late, second] if schedule in FOLDED else [divided(block.pp, 2.0) if schedule in BOTH_WAYS else late]
    first, end, *middle = (summed(*_of_rank(count, block, before, rank)) for rank in (last - last, last, *between))
    fewest = np.minimum(middle[0], middle[-1])
    if schedule in BOTH_WAYS:
        return divided(first, 2.0), divided(fewest, 2.0), divided(end, 2.0)
    return first, fewest, end


def _of_rank(count: Number, block: Block, before: Before, rank: Number) -> Iterator[Number]:
    """In each chunk of a rank; both ways in its stage of either direction."""
    schedule, back = block.structure.schedule, block.pp - 1 - rank
    if schedule in (*FOLDED, *BOTH_WAYS):
        yield _of_chunk(count, before, 0.0, rank)
        yield _of_chunk(count, before, 1.0 if schedule in FOLDED else 0.0, back)
        return
    yield _of_chunk(count, before, 0.0, rank)
    for turn in range(1, int(count)):  # a layer or more in every chunk before
        if np.any(block.vpp > turn):
            yield np.where(block.vpp > turn, _of_chunk(count, before, float(turn), rank), 0.0)


def _of_chunk(count: Number, before: Before, turn: Number, rank: Number) -> Number:
    start = before(turn, rank)
    return leading_layers(count, start, before(turn, rank + 1) - start)
