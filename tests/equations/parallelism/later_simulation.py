"""An event simulation of the later schedules: each rank keeps its order and waits for what it needs."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from costmodel.explore.explain.pipeline_schedules import BOTH_WAYS, FOLDED, Kind, operations_of_rank, stage_of

Duration = Callable[[Kind, int, int], float]  # kind, rank, stage


@dataclass(frozen=True)
class Ran:
    """When the last rank ends, the longest that a rank is at it, and the most forwards a rank holds until their W."""

    makespan: float
    span: float
    held: int


Places = tuple[tuple[Kind, int, int], ...]  # of one group: kind, stage, micro-batch


def run(schedule: str, p: int, m: int, v: int, duration: Duration) -> Ran:
    """All ranks from first forward to last operation."""
    clocks, starts = [0.0] * p, [math.inf] * p
    done: dict[tuple[Kind, int, int], float] = {}
    sequence, held = _sequence(schedule, p, m, v)
    for rank, group, needed in sequence:
        start = max([clocks[rank], *(done[need] for need in needed)])
        starts[rank] = min(starts[rank], start)
        clocks[rank] = start + sum(duration(kind, rank, stage) for kind, stage, _ in group)
        done.update(dict.fromkeys(group, clocks[rank]))
    spans = (end - start for end, start in zip(clocks, starts, strict=True))
    return Ran(max(clocks), max(spans), held)


@functools.cache
def _sequence(schedule: str, p: int, m: int, v: int) -> tuple[list[tuple[int, Places, Places]], int]:
    """Rank, operations and what they need, each behind what it needs, however long they take; and the most held."""
    queues = [list(operations_of_rank(schedule, p, m, v, rank)) for rank in range(p)]
    stages = 2 * p if schedule in FOLDED else p if schedule in BOTH_WAYS or v == 1 else v * p
    found: list[tuple[int, Places, Places]] = []
    done: set[tuple[Kind, int, int]] = set()
    places = [0] * p
    moved = True
    while moved:
        moved = False
        for rank in range(p):
            while places[rank] < len(queues[rank]):
                group = tuple(
                    (kind, stage_of(schedule, p, rank, chunk), batch)
                    for kind, chunk, batch in queues[rank][places[rank]]
                )
                needed = {need for one in group if (need := _needs(*one, stages))} - set(group)
                if not needed <= done:
                    break
                found.append((rank, group, tuple(needed)))
                done.update(group)
                places[rank] += 1
                moved = True
    assert all(place == len(queue) for place, queue in zip(places, queues, strict=True)), "the schedule is stuck"
    return found, max(map(_held, queues))


def complete(schedule: str, p: int, m: int, v: int) -> bool:
    """Whether every stage does F, B and W of every micro-batch once."""
    counts = Counter(
        (kind, stage_of(schedule, p, rank, chunk), batch)
        for rank in range(p)
        for group in operations_of_rank(schedule, p, m, v, rank)
        for kind, chunk, batch in group
    )
    stages = 2 * p if schedule in FOLDED else p if schedule in BOTH_WAYS else v * p
    return len(counts) == 3 * stages * m and set(counts.values()) == {1}


def _needs(kind: Kind, stage: int, batch: int, stages: int) -> tuple[Kind, int, int] | None:
    if kind == "W":
        return "B", stage, batch
    if kind == "F":
        return ("F", stage - 1, batch) if stage else None
    return ("B", stage + 1, batch) if stage < stages - 1 else ("F", stage, batch)


def _held(queue: list[tuple[tuple[Kind, int, int], ...]]) -> int:
    live = most = 0
    for group in queue:
        for kind, _, _ in group:
            live += {"F": 1, "B": 0, "W": -1}[kind]
            most = max(most, live)
    return most
