"""An event clock of pipeline schedules: when each rank works on which micro-batch, from the times of its stages.

It only waits and adds: sends take no time, as in the closed forms.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from costmodel.estimate.training.parallelism.pipeline.schedule_rules import BOTH_WAYS, FOLDED
from costmodel.explore.explain.schedule_order import Kind, order, stage_of
from costmodel.ground.record import record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.ground.choices import Schedule


@record
class ForwardBackwardTime:
    """Seconds of a micro-batch's forward and backward, and of the backward that a schedule may defer."""

    forward: float
    backward: float
    weight: float = 0.0

    def of(self, kind: Kind) -> float:
        """The time of an operation: forward, backward without its deferred part, or the deferred part."""
        return {"F": self.forward, "B": self.backward - self.weight, "W": self.weight}[kind]


@record
class Pipeline:
    """Ranks, micro-batches and chunks under a schedule, and what a rank's first, inner and last chunks take."""

    ranks: int
    micro_batches: int
    chunks: int
    schedule: Schedule
    first: ForwardBackwardTime
    middle: ForwardBackwardTime
    last: ForwardBackwardTime

    def duration(self, rank: int, chunk: int, kind: Kind) -> float:
        """The time of one chunk; extra work of the first or last rank lies in its first or last chunk."""
        inner = self.middle.of(kind) / self.chunks
        if self.schedule in BOTH_WAYS:
            return self.first.of(kind) if rank in (0, self.ranks - 1) else inner
        if self.schedule in FOLDED:
            return self.first.of(kind) / self.chunks if rank == 0 else inner
        more = 0.0
        if rank == 0 and chunk == 0:
            more += self.first.of(kind) - self.middle.of(kind)
        if rank == self.ranks - 1 and rank > 0 and chunk == self.chunks - 1:
            more += self.last.of(kind) - self.middle.of(kind)
        return inner + more


@record
class Event:
    """One forward or backward of one micro-batch on one rank."""

    rank: int
    kind: Kind
    chunk: int
    micro_batch: int
    start: float
    end: float


def events(pipeline: Pipeline, until: float = math.inf) -> list[list[Event]]:
    """The operations of every rank, in order, up to the first that would start after `until`."""
    schedule, ranks, chunks = pipeline.schedule, pipeline.ranks, pipeline.chunks
    queues = [order(schedule, ranks, pipeline.micro_batches, chunks, rank) for rank in range(ranks)]
    waiting = [next(queue, None) for queue in queues]
    stages = ranks * (1 if schedule in BOTH_WAYS else chunks)
    done: dict[tuple[Kind, int, int], float] = {}
    shown: list[list[Event]] = [[] for _ in queues]
    moved = True
    while moved:
        moved = False
        for rank, queue in enumerate(queues):
            while (group := waiting[rank]) is not None:
                keys = [(kind, stage_of(schedule, ranks, rank, chunk), batch) for kind, chunk, batch in group]
                start = _start(keys, stages, done, shown[rank])
                if start is None or start >= until:
                    break
                for kind, chunk, batch in group:
                    end = start + pipeline.duration(rank, chunk, kind)
                    shown[rank].append(Event(rank, kind, chunk, batch, start, end))
                    start = end
                done.update(dict.fromkeys(keys, start))
                waiting[rank] = next(queue, None)
                moved = True
    return shown


def _start(
    keys: Sequence[tuple[Kind, int, int]],
    stages: int,
    done: dict[tuple[Kind, int, int], float],
    before: Sequence[Event],
) -> float | None:
    """The start time of work that runs as one; None until everything it waits for has ended."""
    needed = {need for key in keys if (need := _needed(*key, stages)) is not None} - set(keys)
    if not needed <= done.keys():
        return None
    return max([before[-1].end if before else 0.0, *(done[need] for need in needed)])


def _needed(kind: Kind, stage: int, batch: int, stages: int) -> tuple[Kind, int, int] | None:
    if kind == "W":
        return "B", stage, batch
    if kind == "F":
        return ("F", stage - 1, batch) if stage else None
    return ("B", stage + 1, batch) if stage < stages - 1 else ("F", stage, batch)
