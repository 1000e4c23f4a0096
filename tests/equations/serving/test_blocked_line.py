"""The line behind prompts that wait until answers end: drawn answers, and requests served one by one."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.serving.queues import (
    blocked_wait,
    drain_square,
    drain_time,
    grown_line_variance,
    line_growth,
    queue_wait,
)

from .engine_simulation import lognormal


@pytest.mark.parametrize("variation", [0.0, 0.5, 1.0])
def test_what_is_left_of_an_answer(variation: float) -> None:
    """A running answer is met in proportion to its length, and anywhere in it."""
    random = np.random.default_rng(0)
    answers = lognormal(random, 500.0, variation, 400_000)
    met = random.choice(answers, 400_000, p=answers / answers.sum())
    left = 0.01 * met * random.random(400_000)
    assert drain_time(500.0, variation, 0.01) == pytest.approx(left.mean(), rel=0.02)
    assert drain_square(500.0, variation, 0.01) == pytest.approx((left**2).mean(), rel=0.08)


@pytest.mark.parametrize("busy", [0.3, 0.6])
def test_both_waits_are_those_of_one_line(busy: float) -> None:
    """First come, first served, request by request: each takes its steps, and few of them also a long wait."""
    random, count, variation, drain = np.random.default_rng(2), 1_000_000, 0.6, 20.0
    chance = 0.25 / drain
    services, waits = lognormal(random, 1.0, variation, count), random.exponential(drain, count)
    times, gaps = services + waits * (random.random(count) < chance), random.exponential(1 / busy, count)
    ahead = np.concatenate([[0.0], np.cumsum(times[:-1] - gaps[1:])])
    seen = float((ahead - np.minimum.accumulate(ahead)).mean())
    rate, share = busy, busy + 0.25 * busy
    line = float(queue_wait(1.0, busy, variation) * line_growth(busy, share))
    blocked = float(blocked_wait(rate * chance, 2 * drain**2, share))
    together = rate * chance * drain / (1 - share)  # of steps and waits of one request, which is left out as small
    assert line + blocked + together == pytest.approx(seen, rel=0.05)
    assert line + blocked == pytest.approx(rate * (1 + variation**2 + chance * 2 * drain**2) / (2 * (1 - share)))
    assert np.isinf(float(line_growth(busy, 1.0)))
    assert float(grown_line_variance(1.0, busy, share)) == pytest.approx(float(line_growth(busy, share)) ** 2)
