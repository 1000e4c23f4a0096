"""The ranks of a pipeline together: how long its step is, and what the busiest of them spends it on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from costmodel.equation import Number, term
from costmodel.equations.counting import repeated
from costmodel.equations.pipeline import pipeline_time
from costmodel.equations.schedules import later_schedule_time
from costmodel.estimate.block import Block
from costmodel.estimate.passes import PASS_TERMS, Both, nothing
from costmodel.estimate.setting import Setting
from costmodel.estimate.shapes.schedules import is_later, is_plain


def whole_time(setting: Setting, block: Block, micro_batches: Number, ranks: tuple[Both, Both, Both]) -> Number:
    """Seconds from the first forward to the last backward."""
    schedule = block.structure.schedule
    first, middle, last = ranks
    if is_plain(schedule):
        times = [time for rank in ranks for time in (rank.forward.total, rank.backward.total)]
        return pipeline_time(block.pp, micro_batches, block.vpp, *times, schedule=schedule)
    assert is_later(schedule)
    busiest = np.maximum(np.maximum(first.total, middle.total), last.total)
    if schedule == "looped-bfs":
        busiest = np.maximum(first.total, middle.total) + np.maximum(last.total - middle.total, 0.0)
    return later_schedule_time(
        block.pp,
        micro_batches,
        block.vpp,
        busiest,
        middle.forward.total,
        middle.backward.total - middle.deferred,
        middle.deferred,
        schedule=schedule,
        synchronous=not setting.stack.post_validation,
    )


def busiest_rank(ranks: Sequence[Both], micro_batches: Number) -> dict[str, Number]:
    """A step's seconds of the busiest rank, by what they are spent on; a middle one only where layers are uneven."""
    first, *others = ranks
    busiest = {name: _of_both(first, name) for name in PASS_TERMS}
    slowest = first.total
    for other in others:
        slower = other.total >= slowest
        slowest = np.where(slower, other.total, slowest)
        for name in PASS_TERMS:
            seconds = _of_both(other, name)
            if not (nothing(seconds) and nothing(busiest[name])):
                busiest[name] = np.where(slower, seconds, busiest[name])
    return {name: _labelled(name, micro_batches, seconds) for name, seconds in busiest.items()}


def _labelled(name: str, micro_batches: Number, seconds: Number) -> Number:
    if nothing(seconds):
        return seconds
    with term(f"{name} of the busiest stage"):
        return repeated(micro_batches, seconds)


def _of_both(rank: Both, name: str) -> Number:
    total: Number = getattr(rank.forward, name) + getattr(rank.backward, name)
    return total
