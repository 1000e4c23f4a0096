"""Asynchronous updates: workers played out one after another."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from costmodel.equations.data_parallel import gradient_rate, mean_staleness, staleness_break_even
from costmodel.equations.unequal import expected_maximum, jitter_slowdown


def played(
    workers: int, jitter: float, updates: int, bound: int | None = None, slow: float = 1.0
) -> tuple[float, float]:
    """Updates a second and mean staleness of workers that never wait, or wait when `bound` steps ahead of the last.

    Worker 0 runs at a share of the speed of the others.
    """
    draws = np.random.default_rng(1)
    steps, made_with, version, stale = [0] * workers, [0] * workers, 0, 0
    pace = [1 / slow] + [1.0] * (workers - 1)
    queue = [(pace[w] * max(draws.normal(1, jitter), 0.01), w) for w in range(workers)]
    heapq.heapify(queue)
    waiting: list[int] = []
    now = 0.0
    while version < updates:
        now, worker = heapq.heappop(queue)
        stale += version - made_with[worker]
        version, steps[worker] = version + 1, steps[worker] + 1
        waiting.append(worker)
        ready = [w for w in waiting if bound is None or steps[w] - min(steps) <= bound]
        for w in ready:
            waiting.remove(w)
            made_with[w] = version
            heapq.heappush(queue, (now + pace[w] * max(draws.normal(1, jitter), 0.01), w))
    return version / now, stale / version


def test_alike_workers_that_never_wait() -> None:
    rate, staleness = played(16, 0.2, 16_000)
    assert rate == pytest.approx(float(gradient_rate(16.0, 1.0, 1.0)), rel=5e-3)
    assert staleness == pytest.approx(float(mean_staleness(16.0)), rel=5e-3)


def test_workers_that_all_wait() -> None:
    """A bound of 0 is a synchronous step: every worker waits for the slowest."""
    rate, staleness = played(16, 0.1, 16_000, bound=0)
    assert rate == pytest.approx(float(gradient_rate(16.0, 1.0, jitter_slowdown(16.0, 0.1, 1.0))), rel=5e-3)
    assert staleness == pytest.approx((16 - 1) / 2, rel=1e-3)


def test_a_bound_hides_jitter() -> None:
    rate, _ = played(16, 0.1, 16_000, bound=4)
    assert rate == pytest.approx(16, rel=2e-2)


def test_a_slow_worker_sets_the_pace_under_a_bound_only() -> None:
    """One of 64 at half speed: synchronous and bounded 0.50 of the rate, without a bound 0.99."""
    bounded, _ = played(64, 0.01, 6_400, bound=4, slow=0.5)
    assert bounded / 64 == pytest.approx(float(gradient_rate(64.0, 1.0, 2.0)) / 64, rel=5e-2)
    free, _ = played(64, 0.01, 6_400, slow=0.5)
    assert free / 64 == pytest.approx((63 + 0.5) / 64, rel=5e-3)


def test_worked_example() -> None:
    """Jitter 20 %, 64 workers: 1.47 times the updates; pays while a unit of staleness costs under 0.74 % of steps."""
    gain = float(jitter_slowdown(64.0, 0.2, 1.0))
    assert gain == pytest.approx(1 + 0.2 * float(expected_maximum(64.0))) == pytest.approx(1.469, abs=5e-4)
    assert gradient_rate(64.0, 1.0, 1.0) / gradient_rate(64.0, 1.0, gain) == pytest.approx(gain)
    assert staleness_break_even(gain, mean_staleness(64.0)) == pytest.approx(0.00744, abs=5e-6)
