"""Dense layers at the start of a model with experts: how many each pipeline rank holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from costmodel.equations.parallelism.layer_split import leading_layers
from costmodel.estimate.shared.per_stage import PerStage
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.time_breakdown import summed
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import BOTH_WAYS, FOLDED
from costmodel.ground.equation import Number

Before = Callable[[Number], Number]  # layers of the model before a chunk, by its position


def leading_of_ranks(count: Number, block: Block, before: Before, *, most: bool) -> PerStage[Number]:
    """Such layers on the first rank, on the middle rank with most or fewest, and on the last rank.

    Fewer of them are held further from the input: the second rank holds most, the last but one fewest. A bidirectional
    pipeline has the fewest in the middle.
    """
    last, both_ways = block.pp - 1, block.structure.schedule in BOTH_WAYS
    far = block.pp / 2.0 if both_ways else np.maximum(last - 1, 0.0)
    ranks = (0.0, last, np.minimum(last, 1.0), far)
    first, end, second, late = (summed(*_of_rank(count, block, before, rank)) for rank in ranks)
    middle = np.maximum(second, late) if most else np.minimum(second, late)
    held = PerStage(first, middle, end)
    return held.each(lambda layers: layers / 2.0) if both_ways else held


def leading_of_stages(count: Number, block: Block, before: Before) -> tuple[Number, Number]:
    """Such layers in the first and the last stage; a bidirectional pipeline runs both on one rank."""
    last = block.pp - 1
    return _of_chunk(count, before, 0.0), _of_chunk(count, before, last)


def _of_rank(count: Number, block: Block, before: Before, rank: Number) -> Iterator[Number]:
    """Such layers in each chunk of a rank; in a bidirectional pipeline in its stage of either direction."""
    schedule, back = block.structure.schedule, block.pp - 1 - rank
    yield _of_chunk(count, before, rank)
    if schedule in FOLDED:
        yield _of_chunk(count, before, block.pp + back)
    elif schedule in BOTH_WAYS:
        yield _of_chunk(count, before, back)
    else:
        for turn in range(1, int(count)):  # a layer or more in every chunk before
            if np.any(block.vpp > turn):
                stage = float(turn) * block.pp + rank
                yield np.where(block.vpp > turn, _of_chunk(count, before, stage), 0.0)


def _of_chunk(count: Number, before: Before, stage: Number) -> Number:
    start = before(stage)
    return leading_layers(count, start, before(stage + 1) - start)
