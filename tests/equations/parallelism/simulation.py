"""An event simulation of pipeline schedules in Megatron's order of operations, with no communication time.

Durations are arrays [rank, chunk, sample]: many samples are simulated at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]
Operation = tuple[str, int, int]  # "F" or "B", chunk, micro-batch


def warm_up(rank: int, p: int, m: int, v: int, schedule: str) -> int:
    """Forwards of a rank before its first backward is paired with one."""
    if schedule == "gpipe":
        return m
    if schedule == "1f1b":
        return min(m, p - 1 - rank)
    return min(m * v, 2 * (p - 1 - rank) + (v - 1) * p)


def operations(rank: int, p: int, m: int, v: int, schedule: str) -> list[Operation]:
    """What a rank does, in order: warm-up forwards, then one forward, one backward, then backwards."""

    def turn(position: int) -> tuple[int, int]:
        group, rest = divmod(position, p * v)
        return rest // p, group * p + rest % p

    v = v if schedule == "interleaved" else 1
    forwards = [("F", *(turn(k) if v > 1 else (0, k))) for k in range(m * v)]
    backwards = [("B", v - 1 - chunk, batch) for _, chunk, batch in forwards]
    warm = warm_up(rank, p, m, v, schedule)
    order = forwards[:warm]
    for position, backward in enumerate(backwards):
        order += [*forwards[warm + position : warm + position + 1], backward]
    return order


def peak_in_flight(rank: int, p: int, m: int, v: int, schedule: str) -> int:
    """Most chunk forwards that wait for their backward on a rank."""
    steps = [1 if kind == "F" else -1 for kind, _, _ in operations(rank, p, m, v, schedule)]
    return int(np.max(np.cumsum(steps)))


def step_time(p: int, m: int, v: int, schedule: str, forward: Times, backward: Times) -> Times:
    """From first forward to last backward, per sample."""
    queues = [operations(rank, p, m, v, schedule) for rank in range(p)]
    stages = p * (v if schedule == "interleaved" else 1)
    done: dict[tuple[str, int, int], Times] = {}
    clocks: list[Times] = [np.zeros(forward.shape[2:])] * p
    position = [0] * p
    while any(position[rank] < len(queues[rank]) for rank in range(p)):
        before = len(done)
        for rank in range(p):
            while position[rank] < len(queues[rank]):
                kind, chunk, batch = queues[rank][position[rank]]
                stage = chunk * p + rank
                needed = _needs(kind, stage, batch, stages)
                if needed is not None and needed not in done:
                    break
                start = clocks[rank] if needed is None else np.maximum(clocks[rank], done[needed])
                clocks[rank] = start + (forward if kind == "F" else backward)[rank, chunk]
                done[kind, stage, batch] = clocks[rank]
                position[rank] += 1
        assert len(done) > before, "the schedule is stuck"
    return np.max(np.array(clocks), axis=0)


def _needs(kind: str, stage: int, batch: int, stages: int) -> tuple[str, int, int] | None:
    if kind == "F":
        return ("F", stage - 1, batch) if stage else None
    return ("B", stage + 1, batch) if stage < stages - 1 else ("F", stage, batch)


def durations(p: int, v: int, first: Times, middle: Times, last: Times) -> Times:
    """Chunks of three kinds of rank: what an end has more or less lies in the first or the last chunk of all."""
    chunks = np.broadcast_to(middle / v, (p, v, *middle.shape)).copy()
    chunks[0, 0] += first - middle
    if p > 1:
        chunks[-1, -1] += last - middle
    assert chunks.min() > -1e-12, "an end is shorter by more than a chunk"
    return chunks
