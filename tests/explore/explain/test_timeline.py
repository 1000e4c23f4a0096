"""The event clock against small pipelines drawn by hand, and against the closed forms."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from costmodel.equations.parallelism.pipeline import in_flight, pipeline_time
from costmodel.estimate.training.parallelism.pipeline import FOLDED, LOOPED
from costmodel.explore.explain.pipeline_schedules import Event, ForwardBackwardTime, Pipeline, events
from costmodel.ground.counts import Schedule

times = some.floats(0.1, 10.0)
passes = some.builds(ForwardBackwardTime, times, times)


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
    first, last = (
        ForwardBackwardTime(middle.forward + end.forward, middle.backward + end.backward) for end in (first, last)
    )
    return Pipeline(ranks, batches, chunks, schedule, first, middle, last)


def whole(answer: list[list[Event]]) -> float:
    return max(rank[-1].end for rank in answer)


EVEN, TWICE = (ForwardBackwardTime(1.0, 2.0),) * 3, (ForwardBackwardTime(2.0, 4.0),) * 3
UNEVEN = (ForwardBackwardTime(1.0, 1.0), ForwardBackwardTime(2.0, 4.0), ForwardBackwardTime(1.0, 1.0))

# A letter a second: of two micro-batches 0 and 1 go forward, a and b back; through the second chunk 2 and 3, c and d.
DRAWN: dict[str, tuple[Pipeline, tuple[str, ...]]] = {
    "gpipe": (
        Pipeline(2, 2, 1, "gpipe", *EVEN),
        (
            "01···aabb",
            "·01aabb··",
        ),
    ),
    "1f1b": (
        Pipeline(2, 2, 1, "1f1b", *EVEN),
        (
            "01··aa·bb",
            "·0aa1bb··",
        ),
    ),
    "1f1b, a middle rank that all wait for": (
        Pipeline(3, 2, 1, "1f1b", *UNEVEN),
        (
            "01·······a···b",
            "·0011aaaabbbb·",
            "···0a1b·······",
        ),
    ),
    "interleaved": (
        Pipeline(2, 2, 2, "interleaved", *TWICE),
        (
            "0123··cc·ddaabb",
            "·012cc3ddaabb··",
        ),
    ),
}


def drawn(answer: list[list[Event]], seconds: int) -> tuple[str, ...]:
    """Every rank as such a line; what cannot be drawn is no whole second."""
    lines = []
    for rank in answer:
        line = ["·"] * seconds
        for event in rank:
            letters = {"F": "0123", "B": "abcd"}[event.kind]
            start, end = int(event.start), int(event.end)
            assert (start, end) == (event.start, event.end)
            assert set(line[start:end]) == {"·"}
            line[start:end] = letters[2 * event.chunk + event.micro_batch] * (end - start)
        lines.append("".join(line))
    return tuple(lines)


@pytest.mark.parametrize("name", DRAWN)
def test_the_clock_is_the_drawing(name: str) -> None:
    pipeline, lines = DRAWN[name]
    assert drawn(events(pipeline), len(lines[0])) == lines


def exact(pipeline: Pipeline) -> Pipeline:
    """The pipeline, with equal ranks where the closed form needs them."""
    if pipeline.schedule != "interleaved":
        return pipeline
    return replace(pipeline, first=pipeline.middle, last=pipeline.middle)


@settings(max_examples=150)
@given(pipelines().map(exact))
def test_the_clock_is_the_closed_form(pipeline: Pipeline) -> None:
    ends = [end.of(kind) for end in (pipeline.first, pipeline.middle, pipeline.last) for kind in ("F", "B")]
    shape = (float(pipeline.ranks), float(pipeline.micro_batches), float(pipeline.chunks))
    closed = pipeline_time(*shape, *ends, schedule=pipeline.schedule)  # type: ignore[arg-type]
    assert whole(events(pipeline)) == pytest.approx(float(closed), rel=1e-9)


@settings(max_examples=100)
@given(pipelines(), some.floats(0, 60))
def test_a_window_is_the_beginning_of_the_whole(pipeline: Pipeline, until: float) -> None:
    for early, rank in zip(events(pipeline, until), events(pipeline), strict=True):
        assert early == rank[: len(early)]
        assert all(event.start < until for event in early)
        assert len(early) == len(rank) or rank[len(early)].start >= until


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h2", "zb-v", "dualpipe"])
def test_a_window_takes_no_longer_than_what_is_in_it(schedule: Schedule) -> None:
    pipeline = Pipeline(4, 1 << 40, 2 if schedule in (*LOOPED, *FOLDED) else 1, schedule, *EVEN)
    assert 0 < sum(map(len, events(pipeline, 30.0))) <= 4 * 60


@settings(max_examples=30)
@given(pipelines(), some.integers(0, 7))
def test_the_first_ranks_are_those_of_the_whole_pipeline(pipeline: Pipeline, most: int) -> None:
    assert events(pipeline, most=most) == events(pipeline)[:most]


@settings(max_examples=100)
@given(pipelines())
def test_every_micro_batch_passes_every_chunk_once(pipeline: Pipeline) -> None:
    for number, rank in enumerate(events(pipeline)):
        seen = [(event.kind, event.chunk, event.micro_batch) for event in rank]
        assert len(set(seen)) == len(seen) == 2 * pipeline.micro_batches * pipeline.chunks
        assert all(before.end <= after.start for before, after in itertools.pairwise(rank))
        assert all(event.rank == number for event in rank)


@settings(max_examples=100)
@given(pipelines())
def test_as_many_are_in_flight_as_the_closed_form_says(pipeline: Pipeline) -> None:
    live = np.cumsum([1 if event.kind == "F" else -1 for event in events(pipeline)[0]])
    shape = (float(pipeline.ranks), float(pipeline.micro_batches), float(pipeline.chunks))
    assert max(live) / pipeline.chunks == pytest.approx(float(in_flight(*shape, 0.0, schedule=pipeline.schedule)))
