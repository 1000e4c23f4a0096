"""The event clock against the closed forms, and against the simulation they were proven by."""

from __future__ import annotations

import itertools
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from costmodel.equations.pipeline import in_flight, pipeline_time
from costmodel.explore.explain.timeline import Event, Pass, Pipeline, events

SIMULATION = runpy.run_path(str(Path(__file__).resolve().parents[1] / "equations" / "simulation.py"))
times = some.floats(0.1, 10.0)
passes = some.builds(Pass, times, times)


@some.composite
def pipelines(draw: Any) -> Pipeline:
    """Any schedule; ends are no shorter than a chunk allows."""
    schedule = draw(some.sampled_from(["gpipe", "1f1b", "interleaved"]))
    ranks = draw(some.integers(2, 6))
    if schedule == "interleaved":
        batches, chunks = ranks * draw(some.integers(1, 4)), draw(some.integers(2, 4))
    else:
        batches, chunks = draw(some.integers(1, 12)), 1
    middle = draw(passes)
    first, last = draw(passes), draw(passes)
    first, last = (Pass(middle.forward + end.forward, middle.backward + end.backward) for end in (first, last))
    return Pipeline(ranks, batches, chunks, schedule, first, middle, last)


def whole(told: list[list[Event]]) -> float:
    return max(rank[-1].end for rank in told)


@settings(max_examples=150, deadline=None)
@given(pipelines())
def test_the_clock_is_that_of_the_simulation(pipeline: Pipeline) -> None:
    ends = (pipeline.first, pipeline.middle, pipeline.last)
    chunks = [
        SIMULATION["durations"](pipeline.ranks, pipeline.chunks, *(np.array([end.of(kind)]) for end in ends))
        for kind in ("F", "B")
    ]
    shape = (pipeline.ranks, pipeline.micro_batches, pipeline.chunks, pipeline.schedule)
    expected = SIMULATION["step_time"](*shape, *chunks)
    assert whole(events(pipeline)) == pytest.approx(float(expected[0]), rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(pipelines().filter(lambda pipeline: pipeline.schedule != "interleaved"))
def test_the_clock_is_the_closed_form(pipeline: Pipeline) -> None:
    ends = [end.of(kind) for end in (pipeline.first, pipeline.middle, pipeline.last) for kind in ("F", "B")]
    closed = pipeline_time(float(pipeline.ranks), float(pipeline.micro_batches), 1.0, *ends, schedule=pipeline.schedule)
    assert whole(events(pipeline)) == pytest.approx(float(closed), rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(pipelines(), some.floats(0, 60))
def test_a_window_is_the_beginning_of_the_whole(pipeline: Pipeline, until: float) -> None:
    for early, rank in zip(events(pipeline, until), events(pipeline), strict=True):
        assert early == rank[: len(early)]
        assert all(event.start < until for event in early)
        assert len(early) == len(rank) or rank[len(early)].start >= until


@settings(max_examples=100, deadline=None)
@given(pipelines())
def test_every_micro_batch_passes_every_chunk_once(pipeline: Pipeline) -> None:
    for number, rank in enumerate(events(pipeline)):
        seen = [(event.kind, event.chunk, event.micro_batch) for event in rank]
        assert len(set(seen)) == len(seen) == 2 * pipeline.micro_batches * pipeline.chunks
        assert all(before.end <= after.start for before, after in itertools.pairwise(rank))
        assert all(event.rank == number for event in rank)


@settings(max_examples=100, deadline=None)
@given(pipelines())
def test_as_many_are_in_flight_as_the_closed_form_says(pipeline: Pipeline) -> None:
    live = np.cumsum([1 if event.kind == "F" else -1 for event in events(pipeline)[0]])
    shape = (float(pipeline.ranks), float(pipeline.micro_batches), float(pipeline.chunks))
    assert max(live) / pipeline.chunks == pytest.approx(float(in_flight(*shape, 0.0, schedule=pipeline.schedule)))
