"""The critical path of a pipeline: the time of its step, and the time of its busiest rank by category."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from costmodel.equations.parallelism.pipeline import later_schedule_time, pipeline_time
from costmodel.estimate.shared.per_stage import PerStage
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.time_breakdown import PASS_TERMS, ForwardBackward, largest, nothing, summed
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import is_later, is_plain
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.record import record

Part = Callable[[ForwardBackward], Number]


@record
class Rank:
    """Work of one rank for one micro-batch: its layers, and embedding or head, or both on a single rank."""

    layers: Number
    layer: ForwardBackward
    ends: ForwardBackward
    all_ends: ForwardBackward
    only: Any

    @functools.cached_property
    def forward(self) -> Number:
        """Seconds of forward."""
        with term("forward"):
            return self.of(lambda both: both.forward.total)

    @functools.cached_property
    def backward(self) -> Number:
        """Seconds of backward."""
        with term("backward"):
            return self.of(lambda both: both.backward.total)

    @functools.cached_property
    def total(self) -> Number:
        """Seconds of forward and backward."""
        return self.forward + self.backward

    @functools.cached_property
    def deferred(self) -> Number:
        """The part of backward that a schedule can defer."""
        with term("weight gradient"):
            return self.of(lambda both: both.deferred)

    def of(self, part: Part) -> Number:
        """A part of the time, summed over layers, embedding and head."""
        return summed(self.of_layers(part), known_as("its ends", self.of_ends(part)))

    def of_layers(self, part: Part) -> Number:
        """A part of the time of all layers."""
        each = part(self.layer)
        if nothing(each):
            return each
        with term("its layers"):
            return self.layers * each

    def of_ends(self, part: Part) -> Number:
        """A part of the time of embedding and head."""
        return _where(self.only, part(self.all_ends), part(self.ends))


def whole_time(inputs: TrainingInputs, block: Block, micro_batches: Number, ranks: PerStage[Rank]) -> Number:
    """Seconds from the first forward to the last backward."""
    schedule = block.structure.schedule
    first, middle, last = ranks
    if is_plain(schedule):
        times = [time for rank in ranks for time in (rank.forward, rank.backward)]
        return pipeline_time(block.pp, micro_batches, block.vpp, *times, schedule=schedule)
    assert is_later(schedule)
    busiest = largest(first.total, middle.total, last.total)
    if schedule == "looped-bfs":
        busiest = np.maximum(first.total, middle.total) + np.maximum(last.total - middle.total, 0.0)
    return later_schedule_time(
        block.pp,
        micro_batches,
        block.vpp,
        busiest,
        middle.forward,
        middle.backward - middle.deferred,
        middle.deferred,
        schedule=schedule,
        synchronous=not inputs.stack.post_validation,
    )


def busiest_rank(ranks: Sequence[Rank], micro_batches: Number) -> tuple[dict[str, Number], Number]:
    """Seconds of the busiest rank in a step, by category and in total."""
    slowest, slower = ranks[0].total, []
    for rank in ranks[1:]:
        slower.append(rank.total >= slowest)
        slowest = np.where(slower[-1], rank.total, slowest)
    shares = {name: _of_slowest(ranks, slower, _part(name)) for name in PASS_TERMS}
    with term("busiest stage"):
        terms = {name: each if nothing(each) else micro_batches * each for name, each in shares.items()}
        return terms, micro_batches * slowest


def _of_slowest(ranks: Sequence[Rank], slower: Sequence[Any], part: Part) -> Number:
    """A part of the time on the slowest rank; evaluated once if all ranks have the same layers."""
    first, *others = ranks
    if all(rank.layers is first.layers and rank.layer is first.layer for rank in others):
        ends = _latest(slower, [rank.of_ends(part) for rank in ranks])
        return summed(first.of_layers(part), known_as("its ends", ends))
    return _latest(slower, [rank.of(part) for rank in ranks])


def _latest(slower: Sequence[Any], values: Sequence[Number]) -> Number:
    """The value of the last rank that is slower than all before it."""
    latest = values[0]
    for mask, value in zip(slower, values[1:], strict=True):
        latest = _where(mask, value, latest)
    return latest


def _where(mask: Any, one: Number, other: Number) -> Number:
    """`np.where` that stays an unset zero if both arguments are unset."""
    return other if one is other or (nothing(one) and nothing(other)) else np.where(mask, one, other)


@functools.cache
def _part(name: str) -> Part:
    return lambda both: summed(getattr(both.forward, name), getattr(both.backward, name))
