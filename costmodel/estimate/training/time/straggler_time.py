"""Ranks that others wait for: how much longer compute takes on the rank that a step waits for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.sync import Sync, sync_of
from costmodel.equations.unequal.stragglers import (
    averaged_jitter,
    jitter_slowdown,
    maximum_spread,
    partial_wait_slowdown,
    slow_part_slowdown,
)
from costmodel.estimate.shared.per_stage import PerStage, memoized
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.pipeline import Rank
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

WAITING = ("zero", "schedule", "sync")  # the choices that decide who waits for whom


@record
class Slowed:
    """Slowdown of compute on all ranks, and a further one on the rank with the slow GPU."""

    ranks: Number
    slow: Number


def slowed(inputs: TrainingInputs, block: Block, micro_batches: Number) -> Slowed | None:
    """Slowdown of compute by the stragglers that the scenario assumes; None if it assumes none."""
    stated = inputs.case.scenario.assume.stragglers
    if stated.jitter is None and stated.spread is None and stated.slow_part is None:
        return None
    return _slowed(inputs, block, micro_batches)


@memoized(*WAITING)
def _slowed(inputs: TrainingInputs, block: Block, micro_batches: Number) -> Slowed:
    stated, sync = inputs.case.scenario.assume.stragglers, sync_of(block.structure.sync)
    with term("stragglers"):
        ranks: Number = np.ones(len(block))
        if stated.jitter:
            ranks = ranks + _jitter(inputs, block, micro_batches, sync)
        if stated.spread:
            with term("spread"):
                ranks = ranks + (jitter_slowdown(inputs.ranks, stated.spread, 1.0) - 1.0)
        slow: Number = 1.0
        if stated.slow_part is not None:
            slow = _slow_part(block, stated.slow_part, sync)
    return Slowed(ranks, slow)


def _jitter(inputs: TrainingInputs, block: Block, micro_batches: Number, sync: Sync) -> Number:
    """Extra compute time by jitter, relative.

    Ranks of a replica wait for each other in each micro-batch, replicas at the end of a step, or in each micro-batch as
    well where they share weights or gradients layer by layer.
    """
    stated = inputs.case.scenario.assume.stragglers
    assert stated.jitter is not None
    with term("ranks of a replica"):
        inner = block.tp * block.cp * block.pp
        inner = inner * block.dp if _meet_each_time(inputs, block) else inner
    with term("in a replica"):
        within = jitter_slowdown(inner, stated.jitter, 1.0) - 1.0
        left = stated.jitter * maximum_spread(inner)
    if sync.way in ("async", "stale") or _meet_each_time(inputs, block):
        return within
    with term("between replicas"):
        left = left if stated.each == "step" else averaged_jitter(left, micro_batches)
        if sync.way == "first":
            return within + (partial_wait_slowdown(sync.number, block.dp, left) - 1.0)
        return within + (jitter_slowdown(block.dp, left, 1.0) - 1.0)


def _meet_each_time(inputs: TrainingInputs, block: Block) -> bool:
    """Whether replicas wait for each other in each micro-batch."""
    zero = block.structure.zero
    return zero >= 2 or (zero >= 1 and inputs.stack.states.sharded_master)


def _slow_part(block: Block, share: float, sync: Sync) -> Number:
    """Slowdown of the stage with the slow GPU; asynchronous or partial updates do not wait for it."""
    with term("slow part"):
        if sync.way == "async":
            return slow_part_slowdown(share, block.dp, waits=False)
        alone = slow_part_slowdown(share, 1.0, waits=True)
        return np.where(sync.number < block.dp, 1.0, alone) if sync.way == "first" else alone


def with_stragglers(ranks: PerStage[Rank], slow: Slowed) -> PerStage[Rank]:
    """The ranks of a pipeline with slower compute; the slow GPU is in the last rank."""
    with term("stragglers"):
        every = PerStage(*(_longer(rank, slow.ranks) for rank in ranks))
        return PerStage(every.first, every.middle, _longer(every.last, slow.slow))


def _longer(rank: Rank, slowdown: Number) -> Rank:
    """A rank with compute multiplied by a slowdown."""
    return replace(
        rank,
        layer=rank.layer.computing(slowdown),
        ends=rank.ends.computing(slowdown),
        all_ends=rank.all_ends.computing(slowdown),
    )


def used_share(block: Block) -> Number | None:
    """Share of the samples used by a step that only waits for the first replicas; None if it waits for all."""
    sync = sync_of(block.structure.sync)
    if sync.way != "first":
        return None
    with term("replicas in time"):
        return sync.number / block.dp
