"""An event clock of pipeline schedules: when each rank works on which micro-batch, from the times of its stages.

It only waits and adds: sends take no time, as in the closed forms. The order of operations is Megatron-LM's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from costmodel.choices import Schedule
from costmodel.estimate.shapes.schedules import BOTH_WAYS, FOLDED, PLAIN
from costmodel.explore.explain.orders import Kind, order, stage_of


@dataclass(frozen=True)
class Pass:
    """Seconds of one forward and one backward of a micro-batch, and of backward what a schedule may defer."""

    forward: float
    backward: float
    weight: float = 0.0

    def of(self, kind: Kind) -> float:
        """Forward, backward without what is deferred, or that."""
        return {"F": self.forward, "B": self.backward - self.weight, "W": self.weight}[kind]


@dataclass(frozen=True)
class Pipeline:
    """Ranks, micro-batches and chunks under a schedule, and what a rank's first, inner and last chunks take."""

    ranks: int
    micro_batches: int
    chunks: int
    schedule: Schedule
    first: Pass
    middle: Pass
    last: Pass

    def duration(self, rank: int, chunk: int, kind: Kind) -> float:
        """Of one chunk: what an end has more than a middle rank lies in its first, or in its last chunk."""
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


@dataclass(frozen=True)
class Event:
    """One forward or backward of one micro-batch on one rank."""

    rank: int
    kind: Kind
    chunk: int
    micro_batch: int
    start: float
    end: float


def events(pipeline: Pipeline, until: float = math.inf) -> list[list[Event]]:
    """What every rank does, in its order, up to the first operation that would begin after a time."""
    if pipeline.schedule not in PLAIN:
        return _grouped(pipeline, until)
    queues = [_order(pipeline, rank) for rank in range(pipeline.ranks)]
    waiting = [next(queue, None) for queue in queues]
    done: dict[tuple[Kind, int, int], float] = {}
    told: list[list[Event]] = [[] for _ in queues]
    moved = True
    while moved:
        moved = False
        for rank, queue in enumerate(queues):
            while (operation := waiting[rank]) is not None:
                event = _event(pipeline, rank, operation, told[rank], done)
                if event is None or event.start >= until:
                    break
                told[rank].append(event)
                done[event.kind, _stage(pipeline, event), event.micro_batch] = event.end
                waiting[rank] = next(queue, None)
                moved = True
    return told


def _grouped(pipeline: Pipeline, until: float) -> list[list[Event]]:
    """The same for schedules whose operations may run as one."""
    schedule, ranks = pipeline.schedule, pipeline.ranks
    queues = [order(schedule, ranks, pipeline.micro_batches, pipeline.chunks, rank) for rank in range(ranks)]
    stages = ranks * (1 if schedule in BOTH_WAYS else pipeline.chunks)
    done: dict[tuple[Kind, int, int], float] = {}
    told: list[list[Event]] = [[] for _ in queues]
    places = [0] * ranks
    moved = True
    while moved:
        moved = False
        for rank, queue in enumerate(queues):
            while places[rank] < len(queue):
                group = queue[places[rank]]
                keys = [(kind, stage_of(schedule, ranks, rank, chunk), batch) for kind, chunk, batch in group]
                start = _start(keys, stages, done, told[rank])
                if start is None or start >= until:
                    break
                for kind, chunk, batch in group:
                    end = start + pipeline.duration(rank, chunk, kind)
                    told[rank].append(Event(rank, kind, chunk, batch, start, end))
                    start = end
                done.update(dict.fromkeys(keys, start))
                places[rank] += 1
                moved = True
    return told


def _start(
    keys: Sequence[tuple[Kind, int, int]],
    stages: int,
    done: dict[tuple[Kind, int, int], float],
    before: Sequence[Event],
) -> float | None:
    """When what runs as one can begin; nothing while what it waits for has not happened."""
    needed = {need for key in keys if (need := _needed(*key, stages)) is not None} - set(keys)
    if not needed <= done.keys():
        return None
    return max([before[-1].end if before else 0.0, *(done[need] for need in needed)])


def _stage(pipeline: Pipeline, event: Event) -> int:
    return event.chunk * pipeline.ranks + event.rank


def _event(
    pipeline: Pipeline,
    rank: int,
    operation: tuple[Kind, int, int],
    before: Sequence[Event],
    done: dict[tuple[Kind, int, int], float],
) -> Event | None:
    """The operation on the clock; nothing while what it waits for has not happened."""
    kind, chunk, batch = operation
    needed = _needed(kind, chunk * pipeline.ranks + rank, batch, pipeline.ranks * pipeline.chunks)
    if needed is not None and needed not in done:
        return None
    free = before[-1].end if before else 0.0
    start = max(free, done[needed]) if needed else free
    return Event(rank, kind, chunk, batch, start, start + pipeline.duration(rank, chunk, kind))


def _needed(kind: Kind, stage: int, batch: int, stages: int) -> tuple[Kind, int, int] | None:
    if kind == "W":
        return "B", stage, batch
    if kind == "F":
        return ("F", stage - 1, batch) if stage else None
    return ("B", stage + 1, batch) if stage < stages - 1 else ("F", stage, batch)


def _order(pipeline: Pipeline, rank: int) -> Iterator[tuple[Kind, int, int]]:
    """Warm-up forwards, then one forward and one backward in turn, then the backwards that are left."""
    total, warm = pipeline.micro_batches * pipeline.chunks, _warm_up(pipeline, rank)
    for position in range(warm):
        yield "F", *_turn(pipeline, position)
    for position in range(total):
        if warm + position < total:
            yield "F", *_turn(pipeline, warm + position)
        chunk, batch = _turn(pipeline, position)
        yield "B", pipeline.chunks - 1 - chunk, batch


def _turn(pipeline: Pipeline, position: int) -> tuple[int, int]:
    """Chunk and micro-batch of a rank's forward: groups of as many micro-batches as ranks pass through each chunk."""
    if pipeline.chunks == 1:
        return 0, position
    group, rest = divmod(position, pipeline.ranks * pipeline.chunks)
    return rest // pipeline.ranks, group * pipeline.ranks + rest % pipeline.ranks


def _warm_up(pipeline: Pipeline, rank: int) -> int:
    ranks, batches, chunks = pipeline.ranks, pipeline.micro_batches, pipeline.chunks
    if pipeline.schedule == "gpipe":
        return batches
    if pipeline.schedule == "1f1b":
        return min(batches, ranks - 1 - rank)
    return min(batches * chunks, 2 * (ranks - 1 - rank) + (chunks - 1) * ranks)
