"""Pipeline schedules: the closed forms against an event simulation."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.parallelism.pipeline import bubble_of_ideal, bubble_of_total, in_flight, pipeline_time

from .simulation import durations, operations, peak_in_flight, step_time

SCHEDULES = ("gpipe", "1f1b", "interleaved")
SAMPLES = 300
EXACT = 1e-9

Six = tuple[Any, Any, Any, Any, Any, Any]


def closed(p: int, m: int, v: int, schedule: str, times: Six) -> Any:
    return pipeline_time(float(p), float(m), float(v), *times, schedule=schedule)  # type: ignore[arg-type]


def simulated(p: int, m: int, v: int, schedule: str, times: Six) -> Any:
    forward = durations(p, v, *(np.atleast_1d(times[i]) for i in (0, 2, 4)))
    backward = durations(p, v, *(np.atleast_1d(times[i]) for i in (1, 3, 5)))
    return step_time(p, m, v, schedule, forward, backward)


def error(p: int, m: int, v: int, schedule: str, times: Six) -> Any:
    return closed(p, m, v, schedule, times) / simulated(p, m, v, schedule, times) - 1


def ends(seed: int, v: int, first: tuple[float, float], last: tuple[float, float]) -> Six:
    """Random times; an end is longer by up to that share of a rank, or shorter by up to that share of a chunk."""
    generator = np.random.default_rng(seed)
    middle = np.ones(SAMPLES), generator.uniform(0.5, 3.0, SAMPLES)

    def end(low: float, high: float) -> list[Any]:
        more = generator.uniform(low, high, (2, SAMPLES))
        return [time * (1 + np.where(x < 0, x / v, x)) for time, x in zip(middle, more, strict=True)]

    return (*end(*first), *middle, *end(*last))  # type: ignore[return-value]


def test_the_simulation_keeps_megatrons_order() -> None:
    assert operations(2, 4, 4, 1, "1f1b") == [
        ("F", 0, 0), ("F", 0, 1), ("B", 0, 0), ("F", 0, 2), ("B", 0, 1), ("F", 0, 3), ("B", 0, 2), ("B", 0, 3),
    ]  # fmt: skip
    assert operations(1, 2, 2, 2, "interleaved") == [
        ("F", 0, 0), ("F", 0, 1), ("F", 1, 0), ("B", 1, 0), ("F", 1, 1), ("B", 1, 1), ("B", 0, 0), ("B", 0, 1),
    ]  # fmt: skip


EVEN: Six = (1.0, 2.0) * 3
UNEVEN: Six = (1.0, 1.0, 2.0, 4.0, 1.0, 1.0)


# Small enough to be drawn by hand: the ranks of tests/explore/explain/test_timeline.py, second by second.
@pytest.mark.parametrize(
    ("p", "v", "schedule", "times", "seconds"),
    [
        (2, 1, "gpipe", EVEN, 9),
        (2, 1, "1f1b", EVEN, 9),
        (3, 1, "1f1b", UNEVEN, 14),
        (2, 2, "interleaved", (2.0, 4.0) * 3, 15),
        (2, 1, "1f1b", (2.0, 3.0, 1.0, 1.0, 1.0, 1.0), 10),
        (1, 1, "1f1b", UNEVEN, 4),
    ],
)
def test_the_simulation_takes_as_long_as_it_is_drawn(p: int, v: int, schedule: str, times: Six, seconds: int) -> None:
    assert simulated(p, 2, v, schedule, times) == seconds


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("p", [1, 2, 3, 4, 8])
def test_equal_stages_are_exact(p: int, schedule: str) -> None:
    for m in (p, 2 * p, 4 * p) if schedule == "interleaved" else (1, 2, p, p + 1, 3 * p):
        for v in (1, 2, 3, 4) if schedule == "interleaved" and p > 1 else (1,):
            for forward, backward in ((1.0, 2.0), (2.0, 1.0), (1.0, 1.0)):
                times: Six = (forward, backward) * 3  # type: ignore[assignment]
                found, busy = float(closed(p, m, v, schedule, times)), m * (forward + backward)
                assert found == pytest.approx(float(simulated(p, m, v, schedule, times)[0]), rel=EXACT)
                assert found == pytest.approx(busy + (p - 1) * (forward + backward) / v, rel=EXACT)
                assert (found - busy) / busy == pytest.approx(bubble_of_ideal(p, m, v), rel=EXACT)
                assert (found - busy) / found == pytest.approx(bubble_of_total(p, m, v), rel=EXACT)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_in_flight_is_the_peak_of_every_stage(schedule: str) -> None:
    for p in (1, 2, 3, 4, 8):
        for m in (p, 2 * p, 3 * p) if schedule == "interleaved" else (1, 2, p, p + 1, 3 * p):
            for v in (1, 2, 3, 4) if schedule == "interleaved" else (1,):
                for stage in range(p):
                    found = in_flight(float(p), float(m), float(v), float(stage), schedule=schedule)  # type: ignore[arg-type]
                    assert found == pytest.approx(peak_in_flight(stage, p, m, v, schedule) / v, rel=EXACT)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("p", [1, 2, 3, 4, 7, 8])
def test_any_first_middle_and_last_are_exact(p: int, schedule: str) -> None:
    times: Six = tuple(np.random.default_rng(p).uniform(0.02, 1.0, (6, SAMPLES)) ** 2)  # type: ignore[assignment]
    for m in (1, 2, 3, p - 1, p, p + 1, 2 * p, 3 * p + 1):
        if m > 0:
            assert np.max(np.abs(error(p, m, 1, schedule, times))) < EXACT


# ends: (lowest, highest) of what the first and the last rank have more; then lowest and highest error
INTERLEAVED = {
    "a slow head": ((0, 0), (0, 2), -EXACT, EXACT),
    "a slow embedding": ((0, 2), (0, 0), -EXACT, EXACT),
    "a shorter first and a slow head": ((-1, 0), (0, 2), -EXACT, EXACT),
    "a shorter last": ((0, 0), (-1, 0), -EXACT, EXACT),
    "both ends shorter": ((-1, 0), (-1, 0), -EXACT, EXACT),
    "a slow embedding and a shorter last": ((0, 2), (-1, 0), -0.01, 0.02),
    "a small embedding and a slow head": ((0, 0.1), (0, 1), -0.01, EXACT),
    "both ends longer": ((0, 2), (0, 2), -0.03, EXACT),
    "anything": ((-1, 2), (-1, 2), -0.15, 0.02),
}


def test_unequal_chunks_take_up_to_a_third_longer() -> None:
    """Chunks of one to four layers, the longer ones first, and a head of up to two and a half layers (N010)."""
    heads, found = np.linspace(0, 2.5, 6), []
    for p, v, least, groups in itertools.product((2, 4, 8), (2, 3, 4), (1, 2, 3), (1, 2, 4, 8)):
        for longer in {1, p // 2, p - 1, p, p + 1, p * v - 1}:
            layers = np.array([[least + (chunk * p + rank < longer) for chunk in range(v)] for rank in range(p)])
            forward = np.repeat(layers[:, :, None].astype(float), len(heads), axis=2)
            forward[-1, -1] += heads
            first, middle, last = (forward[rank].sum(axis=0) for rank in (0, 1, p - 1))
            said = closed(p, groups * p, v, "interleaved", (first, 2 * first, middle, 2 * middle, last, 2 * last))
            found.append(said / step_time(p, groups * p, v, "interleaved", forward, 2 * forward) - 1)
    assert -1 / 4 <= np.min(found) < -1 / 5
    assert 1 / 9 < np.max(found) < 1 / 5


@pytest.mark.parametrize("case", INTERLEAVED)
def test_interleaved_keeps_its_bound(case: str) -> None:
    first, last, low, high = INTERLEAVED[case]
    for p in (2, 3, 4, 8) if min(*first, *last) >= 0 else (3, 4, 8):
        for v in (2, 4):
            for group in (1, 2, 3, 5):
                found = error(p, group * p, v, "interleaved", ends(p + 10 * v + 100 * group, v, first, last))
                assert low <= found.min(), f"p={p} v={v} m={group * p}: {found.min()}"
                assert found.max() <= high, f"p={p} v={v} m={group * p}: {found.max()}"


@pytest.mark.parametrize("case", ["both ends longer", "anything"])
def test_interleaved_is_exact_with_one_group(case: str) -> None:
    first, last, _, _ = INTERLEAVED[case]
    for p in (3, 4, 8):
        assert np.max(np.abs(error(p, p, 2, "interleaved", ends(p, 2, first, last)))) < EXACT


positive = st.floats(1e-3, 10.0)
six = st.tuples(*[positive] * 6)
stages = st.integers(1, 16)
quick = settings(max_examples=150, derandomize=True, database=None)


def slowest(p: int, times: Six) -> float:
    ranks = [times[0] + times[1], *([times[2] + times[3]] if p > 2 else []), *([times[4] + times[5]] if p > 1 else [])]
    return float(max(ranks))


@pytest.mark.parametrize("schedule", SCHEDULES)
@quick
@given(p=stages, groups=st.integers(1, 6), chunks=st.integers(2, 8), times=six)
def test_no_faster_than_the_slowest_rank(schedule: str, p: int, groups: int, chunks: int, times: Six) -> None:
    v = chunks if schedule == "interleaved" and p > 1 else 1
    assert closed(p, groups * p, v, schedule, times) >= groups * p * slowest(p, times) * (1 - EXACT)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@quick
@given(p=stages, m=st.integers(1, 40), times=six, which=st.integers(0, 5), more=positive)
def test_monotone_in_every_time(schedule: str, p: int, m: int, times: Six, which: int, more: float) -> None:
    slower: Six = (*times[:which], times[which] + more, *times[which + 1 :])  # type: ignore[assignment]
    assert closed(p, m, 1, schedule, slower) >= closed(p, m, 1, schedule, times) * (1 - EXACT)
    assert closed(p, m + 1, 1, schedule, times) > closed(p, m, 1, schedule, times)


@quick
@given(
    p=stages,
    groups=st.integers(1, 6),
    v=st.integers(2, 8),
    times=six,
    which=st.sampled_from([0, 1, 4, 5]),
    more=positive,
)
def test_interleaved_is_monotone_in_the_ends_and_in_the_layers(
    p: int, groups: int, v: int, times: Six, which: int, more: float
) -> None:
    m, before = groups * p, closed(p, groups * p, v, "interleaved", times) * (1 - EXACT)
    slower: Six = (*times[:which], times[which] + more, *times[which + 1 :])  # type: ignore[assignment]
    every: Six = tuple(time + more for time in times)  # type: ignore[assignment]
    assert closed(p, m, v, "interleaved", slower) >= before
    assert closed(p, m, v, "interleaved", every) >= before
    assert closed(p, m + p, v, "interleaved", times) > before


@pytest.mark.parametrize("schedule", SCHEDULES)
@quick
@given(p=stages, v=st.integers(2, 8), times=six)
def test_the_bubble_vanishes_as_micro_batches_grow(schedule: str, p: int, v: int, times: Six) -> None:
    m = p * 10.0**7
    busy = m * slowest(p, times)
    if schedule == "gpipe":  # its forwards and its backwards wait for different ranks
        kept = (times[0:2], times[2:4] if p > 2 else times[0:2], times[4:6] if p > 1 else times[0:2])
        busy = m * sum(max(column) for column in zip(*kept, strict=True))
    assert closed(p, int(m), v if schedule == "interleaved" else 1, schedule, times) == pytest.approx(busy, rel=1e-2)


def test_a_table_of_plans_is_its_rows() -> None:
    p, m, v = np.array([1.0, 2.0, 4.0, 8.0]), np.array([8.0, 8.0, 16.0, 16.0]), np.array([1.0, 2.0, 2.0, 4.0])
    times = (1.2, 2.1, 1.0, 2.0, 1.7, 2.9)
    for schedule in SCHEDULES:
        table: Any = pipeline_time(p, m, v, *times, schedule=schedule)  # type: ignore[arg-type]
        rows = [pipeline_time(*row, *times, schedule=schedule) for row in zip(p, m, v, strict=True)]  # type: ignore[arg-type]
        np.testing.assert_allclose(table, rows, rtol=1e-12)
