"""Timelines as cells: never wider than their room, and as long as the times say."""

from __future__ import annotations

import re
from typing import Any

import pytest

from costmodel.explore.explain.pipeline_schedules import ForwardBackwardTime, Pipeline, events
from costmodel.report.answers.pipeline import MOST_CELLS, MOST_RANKS, cell_seconds, rank_characters, timeline

DOUBLE = ForwardBackwardTime(1.0, 2.0)


def clock(
    ranks: int, micro_batches: int, schedule: Any = "1f1b", chunks: int = 1, last: ForwardBackwardTime = DOUBLE
) -> Pipeline:
    return Pipeline(ranks, micro_batches, chunks, schedule, DOUBLE, DOUBLE, last)


def rows(pipeline: Pipeline, width: int | None = None) -> list[str]:
    lines: list[str] = [line.plain for line in timeline(pipeline).lines(width)]
    assert all(len(line) <= 80 for line in lines)
    assert all(len(line) <= 72 for line in lines[1:-1])
    return [re.sub(r"^  rank +\d+  ", "", line) for line in lines[1:-1]]


def test_four_stages() -> None:
    drawn = rows(clock(4, 64))
    assert [row[:30] for row in drawn] == [
        "F0F1F2F3············B0──F4B1──",
        "··F0F1F2········B0──F3B1──F4B2",
        "····F0F1····B0──F2B1──F3B2──F4",
        "······F0B0──F1B1──F2B2──F3B3──",
    ]


def test_real_times_are_rounded_to_cells() -> None:
    drawn = rows(clock(2, 2, last=ForwardBackwardTime(1.5, 3.0)))
    assert drawn[1].startswith("··F0─B0────F1─B1────····")


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved"])
@pytest.mark.parametrize(("ranks", "batches"), [(2, 2), (3, 12), (8, 8), (16, 64), (64, 128)])
def test_every_timeline_keeps_its_room(schedule: str, ranks: int, batches: int) -> None:
    drawn = rows(clock(ranks, batches, schedule, 3 if schedule == "interleaved" else 1))
    assert len(drawn) == min(ranks, MOST_RANKS)
    for row in drawn:
        assert len(row) == MOST_CELLS
        assert set(row) <= set("FB0123456789·─")


def test_deep_pipelines_use_narrower_cells() -> None:
    assert cell_seconds(clock(4, 64)) == 0.5
    assert cell_seconds(clock(16, 64)) == 1.0


def test_as_many_cells_as_time() -> None:
    pipeline = clock(4, 4)
    cell = cell_seconds(pipeline)
    for shown in events(pipeline):
        row = rank_characters(shown, cell)
        busy = sum(event.end - event.start for event in shown)
        assert MOST_CELLS - row.count("·") == pytest.approx(min(MOST_CELLS, busy / cell))
