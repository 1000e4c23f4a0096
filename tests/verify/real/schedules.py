"""Pipeline schedules as torch.distributed.pipelining lays them out, run against a clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch.distributed.pipelining.schedules as real

from ..clock import Action, makespan, most_in_flight

SIZES = ((2, 4), (4, 8), (4, 12), (8, 16))
TIMES = {
    "equal": {"F": 1.0, "I": 1.0, "W": 1.0, "B": 2.0},
    "slow input gradient": {"F": 1.0, "I": 1.3, "W": 0.7, "B": 2.0},
    "slow weight gradient": {"F": 1.0, "I": 1.0, "W": 1.3, "B": 2.3},
}
SCHEDULES = {
    "gpipe": ("ScheduleGPipe", 1),
    "1f1b": ("Schedule1F1B", 1),
    "interleaved": ("ScheduleInterleaved1F1B", 2),
    "looped-bfs": ("ScheduleLoopedBFS", 2),
    "zb-h1": ("ScheduleInterleavedZeroBubble", 1),
    "interleaved zero-bubble": ("ScheduleInterleavedZeroBubble", 2),
    "zb-v": ("ScheduleZBVZeroBubble", 2),
    "dualpipe-v": ("ScheduleDualPipeV", 2),
}
PASSES = {"FORWARD": "F", "BACKWARD_INPUT": "I", "BACKWARD_WEIGHT": "W", "FULL_BACKWARD": "B"}


class Stage:
    """As much of a stage as a schedule asks for; it notes the passes it is told to run."""

    def __init__(self, rank: int, ranks: int, index: int, count: int) -> None:
        self.stage_index, self.num_stages, self.group_rank, self.group_size = index, count, rank, ranks
        self.is_first, self.is_last, self.has_backward = index == 0, index == count - 1, True
        self.device, self.group, self.submod = "cpu", None, None
        self.p2p_per_edge, self.stage_index_to_group_rank = False, {}
        self.ran: list[Action] = []

    def forward_one_chunk(self, micro_batch: int, *_: Any, **__: Any) -> None:
        self.ran.append(("F", self.stage_index, micro_batch))

    def backward_one_chunk(self, micro_batch: int, *_: Any, **__: Any) -> None:
        self.ran.append(("B", self.stage_index, micro_batch))

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: []


def counted() -> dict[str, Any]:
    """Time of a step and most live chunks of each rank; a chunk's passes take the times given."""
    found: dict[str, Any] = {"times": TIMES, "schedules": {}}
    for name, (real_name, chunks) in SCHEDULES.items():
        found["schedules"][name] = [
            {
                "pp": pp,
                "micro_batches": micro_batches,
                "chunks": chunks,
                "step": {label: makespan(tables, times) for label, times in TIMES.items()},
                "in_flight": [most_in_flight(tables[rank]) for rank in range(pp)],
            }
            for pp, micro_batches in SIZES
            for tables in [_tables(getattr(real, real_name), pp, micro_batches, chunks)]
        ]
    return found


def _tables(schedule: Any, pp: int, micro_batches: int, chunks: int) -> dict[int, list[Action]]:
    if issubclass(schedule, real.PipelineScheduleSingle):
        return {rank: _run(schedule, rank, pp, micro_batches) for rank in range(pp)}
    stages = [Stage(0, pp, index, pp * chunks) for index in range(0, pp * chunks, pp)]
    orders = schedule(stages, micro_batches).pipeline_order
    return {rank: [part for action in orders[rank] for part in _parts(action)] for rank in range(pp)}


def _run(schedule: Any, rank: int, pp: int, micro_batches: int) -> list[Action]:
    """What a rank with one stage does when its step runs."""
    stage = Stage(rank, pp, rank, pp)
    inputs: list[Any] = [()] * micro_batches
    schedule(stage, micro_batches)._step_microbatches(inputs, [{}] * micro_batches, None, None)
    return stage.ran


def _parts(action: Any) -> Iterator[Action]:
    """An entry of a table: nothing, one pass, or several that a rank runs side by side, here one after another."""
    if action is None:
        return
    for part in action.sub_actions or (action,):
        kind = PASSES.get(part.computation_type.name)
        if kind is not None:
            yield kind, part.stage_index, part.microbatch_index
