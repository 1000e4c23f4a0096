"""Schedules that split backward, fold the pipeline or run it both ways: closed forms against an event simulation."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from costmodel.equations.parallelism.pipeline import later_schedule_time, live_micro_batches
from costmodel.explore.explain.pipeline_schedules import BOTH_WAYS, FOLDED
from costmodel.ground.counts import LaterSchedule

from .later_simulation import Ran, complete, run

SCHEDULES: tuple[LaterSchedule, ...] = get_args(LaterSchedule)
EXACT = 1e-9

# Lowest and highest error of the step with equal ranks, p from 4 to 8, B from 0.7 to 1.5 and W from 0.4 to 1 of F;
# then the same with embedding, head or both adding up to 0.5 of a middle rank to the ends.
BOUNDS: dict[str, tuple[float, float, float, float]] = {
    "zb-h1": (-EXACT, EXACT, -0.04, 0.05),
    "zb-h2": (-EXACT, EXACT, -0.04, 0.07),
    "zb-v": (-EXACT, EXACT, -0.01, 0.10),
    "v-half": (-0.08, 0.02, -0.05, 0.10),
    "v-min": (-0.04, 0.05, -0.04, 0.26),
    "dualpipe": (-0.015, EXACT, -0.015, 0.13),
    "dualpipev": (-0.015, EXACT, -0.015, 0.16),
    "chimera": (-EXACT, 0.04, -EXACT, 0.17),
    "looped-bfs": (-EXACT, EXACT, -EXACT, EXACT),
}


def chunks(schedule: str) -> int:
    return 2 if schedule in FOLDED or schedule == "looped-bfs" else 1


def simulated(schedule: str, p: int, m: int, times: dict[str, float], embedding: float = 0, head: float = 0) -> Ran:
    v = chunks(schedule)
    stages = p if schedule in BOTH_WAYS else v * p
    more = {0: embedding * v, stages - 1: head * v}
    return run(schedule, p, m, v, lambda kind, rank, stage: times[kind] / v * (1 + more.get(stage, 0.0)))


def closed(
    schedule: LaterSchedule,
    p: int,
    m: int,
    times: dict[str, float],
    embedding: float = 0,
    head: float = 0,
    *,
    synchronous: bool = True,
) -> float:
    shares = {True: embedding + head, False: max(embedding, head)}
    more = (embedding + head) / 2 if schedule in BOTH_WAYS else shares[schedule in (*FOLDED, "looped-bfs")]
    f, b, w = (times[kind] for kind in "FBW")
    busiest = (f + b + w) * (1 + more)
    sizes = (float(p), float(m), float(chunks(schedule)))
    return float(later_schedule_time(*sizes, busiest, f, b, w, schedule=schedule, synchronous=synchronous))


def drawn(seed: int, count: int) -> list[dict[str, float]]:
    generator = np.random.default_rng(seed)
    return [{"F": 1.0, "B": generator.uniform(0.7, 1.5), "W": generator.uniform(0.4, 1.0)} for _ in range(count)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_order_does_everything_once(schedule: str) -> None:
    for p in (2, 4, 6, 8):
        for m in (2 * p, 4 * p):
            assert complete(schedule, p, m, chunks(schedule))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_equal_ranks_keep_the_bound(schedule: LaterSchedule) -> None:
    low, high, _, _ = BOUNDS[schedule]
    for p in (4, 6, 8):
        for m in (2 * p, 4 * p):
            for times in drawn(p + m, 12):
                ran = simulated(schedule, p, m, times)
                for synchronous, found in ((True, ran.makespan), (False, ran.span)):
                    error = closed(schedule, p, m, times, synchronous=synchronous) / found - 1
                    assert low <= error <= high, f"p={p} m={m} {times} {error}"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_unequal_ends_keep_the_bound(schedule: LaterSchedule) -> None:
    _, _, low, high = BOUNDS[schedule]
    for p in (4, 6, 8):
        for m in (2 * p, 4 * p):
            for times in drawn(p * m, 4):
                for ends in ((0.0, 0.1), (0.0, 0.5), (0.3, 0.3)):
                    error = closed(schedule, p, m, times, *ends) / simulated(schedule, p, m, times, *ends).makespan - 1
                    assert low <= error <= high, f"p={p} m={m} {times} {ends} {error}"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_live_micro_batches_are_the_peak_of_the_fullest_rank(schedule: LaterSchedule) -> None:
    for p in (4, 6, 8):
        for m in (2 * p, 4 * p):
            held = simulated(schedule, p, m, {"F": 1.0, "B": 1.0, "W": 1.0}).held / chunks(schedule)
            assert float(live_micro_batches(float(p), float(m), schedule=schedule)) == held


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_one_stage_never_waits(schedule: LaterSchedule) -> None:
    times = {"F": 1.0, "B": 1.3, "W": 0.7}
    for m in (1, 8):
        assert closed(schedule, 1, m, times, synchronous=False) == pytest.approx(3.0 * m)


def test_without_a_weight_gradient_h1_is_1f1b() -> None:
    assert closed("zb-h1", 8, 32, {"F": 1.0, "B": 2.0, "W": 0.0}) == pytest.approx((32 + 7) * 3.0)


PUBLISHED: list[tuple[LaterSchedule, dict[str, float], float]] = [
    ("zb-h1", {"F": 1, "B": 1, "W": 1}, 7),  # (p − 1) (F + B − W)
    ("zb-h2", {"F": 1, "B": 1.2, "W": 0.8}, 4.2),  # (p − 1) (F + B − 2 W)
    ("zb-v", {"F": 1, "B": 1, "W": 1}, 0),
    ("dualpipe", {"F": 1, "B": 1, "W": 1}, 6),  # (p/2 − 1) (F&B + B − 3 W), B the whole backward
    ("dualpipev", {"F": 1, "B": 1, "W": 1}, 7),
    ("chimera", {"F": 1, "B": 0.5, "W": 0.5}, 6),  # (p − 2) F where backward is as long as forward
    ("looped-bfs", {"F": 1, "B": 1, "W": 1}, 10.5),
]


@pytest.mark.parametrize(("schedule", "times", "idle"), PUBLISHED)
def test_published_bubbles(schedule: LaterSchedule, times: Any, idle: float) -> None:
    busy = 32 * sum(times.values())
    assert closed(schedule, 8, 32, times, synchronous=False) - busy == pytest.approx(idle)
