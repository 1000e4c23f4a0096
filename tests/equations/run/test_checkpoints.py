"""Checkpoint and restart: identities of the closed forms, runs played out, published intervals and goodputs."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.run.checkpoints import (
    best_goodput,
    best_interval,
    checkpoint_goodput,
    lambert_w0,
    steps_between_checkpoints,
)
from costmodel.equations.run.failures import (
    checkpoint_share,
    mean_time_between_interruptions,
    noticed_goodput,
    observed_failure_rate,
    restart_share,
)

from .run_simulation import play_checkpoints

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
M = 3.093 * HOUR  # 16,384 H100 of Llama 3: 419 interruptions in 54 days
RSC_16K = 86400 / (2048 * 6.5e-3)  # 16k A100 at the rate of RSC-1
seconds = st.floats(0.01, 1e5)


def saved(interval: float, blocking: float, restart: float, mtbf: float) -> float:
    """Goodput where training waits for the whole write."""
    return float(checkpoint_goodput(interval, blocking, restart, mtbf, 0.0, 0.0))


# ── Lambert's function ───────────────────────────────────────────────────────────────────────────────────────────────


def decimal_w0(depth: float) -> Decimal:
    """W₀(−e^(−1−x)) to 40 digits by bisection of y − 1 + e^(−y) = x."""
    with localcontext() as context:
        context.prec = 50
        low, high, x = Decimal(0), Decimal(depth) + 2, Decimal(depth)
        for _ in range(170):
            middle = (low + high) / 2
            low, high = (middle, high) if middle - 1 + (-middle).exp() < x else (low, middle)
        return -(-low).exp()


@pytest.mark.parametrize("depth", [1e-9, 1e-6, 1e-3, 0.1, 0.5, 1.0, 5.0, 40.0, 600.0])
def test_lambert_w0_to_its_last_digits(depth: float) -> None:
    known = decimal_w0(depth)
    assert float(lambert_w0(depth)) == pytest.approx(float(known), rel=1e-15)
    assert float(best_interval(depth, 1.0, 0.0, 0.0)) == pytest.approx(float(1 + known), rel=3e-13)


@given(st.floats(1e-8, 600.0))
def test_lambert_w0_solves_its_equation(depth: float) -> None:
    w = float(lambert_w0(depth))
    assert w * math.exp(w + 1) == pytest.approx(-math.exp(-depth), rel=1e-12)
    assert -1 < w < 0


def test_checkpoints_that_take_nothing_are_taken_always() -> None:
    """At the branch point, W₀(−1/e) = −1, the best interval is none, and only restarts cost."""
    assert lambert_w0(0.0) == pytest.approx(-1, abs=2e-9)
    assert 0 < best_interval(0.0, M, 0.0, 0.0) < 1e-4
    assert best_goodput(0.0, 600.0, M, 0.0, 0.0) == pytest.approx(math.exp(-600 / M), rel=1e-8)
    assert steps_between_checkpoints(best_interval(0.0, M, 0.0, 0.0), 16.2) == 1


# ── The best interval ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("mtbf", "minutes"), [(24 * HOUR, 117), (6 * HOUR, 57), (15 * MINUTE, 9.1)])
def test_intervals_of_daly(mtbf: float, minutes: float) -> None:
    """Daly (2006), captions of figures 3 to 5: R 10 min, δ 5 min, M 24 h, 6 h and 15 min, by his series."""
    assert best_interval(5 * MINUTE, mtbf, 0.0, 0.0) / MINUTE == pytest.approx(minutes, rel=0.01)


def test_interval_of_llama_3() -> None:
    """δ 60 s: 1,116 s, where Young has 1,156; goodput 0.8525 with R 600 s, where the first order has 0.842."""
    best = float(best_interval(60.0, M, 0.0, 0.0))
    assert best == pytest.approx(1116, rel=5e-4)
    assert math.sqrt(2 * 60 * M) == pytest.approx(1156, abs=0.6)
    assert saved(1116.0, 60.0, 600.0, M) == pytest.approx(0.8525, rel=5e-4)
    assert pytest.approx(0.842, abs=5e-4) == 1 - 60 / 1116 - 1116 / 2 / M - 600 / M


@settings(max_examples=200)
@given(seconds, seconds, st.floats(100.0, 1e7))
def test_goodput_at_the_best_interval(blocking: float, restart: float, mtbf: float) -> None:
    """The closed form is the goodput at the best interval, and intervals beside it do worse."""
    best = float(best_interval(blocking, mtbf, 0.0, 0.0))
    closed = float(best_goodput(blocking, restart, mtbf, 0.0, 0.0))
    assert saved(best, blocking, restart, mtbf) == pytest.approx(closed, rel=1e-9, abs=1e-300)
    for other in (0.5, 0.9, 1.1, 2.0):
        assert saved(best * other, blocking, restart, mtbf) <= closed * (1 + 1e-12) + 1e-300


@given(st.floats(1.0, 600.0), st.floats(0.5, 48.0).map(lambda hours: hours * HOUR))
def test_goodput_is_flat_about_the_best_interval(blocking: float, mtbf: float) -> None:
    """30 % less or more add under 7 % to what checkpoints and repeated work cost."""
    best = float(best_interval(blocking, mtbf, 0.0, 0.0))
    least = 1 - saved(best, blocking, 0.0, mtbf)
    assert max(1 - saved(best * factor, blocking, 0.0, mtbf) for factor in (0.7, 1.3)) < 1.07 * least


def test_best_interval_in_its_limits() -> None:
    """Young's square root for short checkpoints, Daly's series within 1.2 % up to δ = M/2, M for long ones."""
    assert best_interval(1e-6, 1.0, 0.0, 0.0) == pytest.approx(math.sqrt(2e-6), rel=1e-3)
    root = math.sqrt(0.5 / 2)
    daly = math.sqrt(2 * 0.5) * (1 + root / 3 + root**2 / 9) - 0.5
    assert best_interval(0.5, 1.0, 0.0, 0.0) == pytest.approx(daly, rel=0.012)
    assert best_interval(50.0, 1.0, 0.0, 0.0) == pytest.approx(1.0)


def test_best_interval_does_not_end_before_a_write() -> None:
    """No checkpoint before a write of 600 s is over, in which 600 s of work are done, or 300 s at half speed."""
    assert best_interval(5.0, 3600.0, 600.0, 0.0) == 595
    assert best_interval(5.0, 3600.0, 600.0, 0.5) > 300 - 5
    assert best_interval(5.0, M, 120.0, 0.0) == best_interval(5.0, M, 0.0, 0.0)


def test_whole_steps() -> None:
    steps = float(steps_between_checkpoints(best_interval(60.0, M, 0.0, 0.0), 16.2))
    assert steps == 69
    assert saved(steps * 16.2, 60.0, 600.0, M) == pytest.approx(float(best_goodput(60.0, 600.0, M, 0.0, 0.0)), rel=1e-5)


# ── Against runs played out ──────────────────────────────────────────────────────────────────────────────────────────

SYNCHRONOUS = [
    (tau, delta, restart, mtbf)
    for tau, delta in ((300.0, 10.0), (1116.0, 60.0), (3600.0, 300.0))
    for restart in (0.0, 600.0, 1800.0)
    for mtbf in (1800.0, M, 10 * M)
]


@pytest.mark.parametrize(("interval", "blocking", "restart", "mtbf"), SYNCHRONOUS)
def test_synchronous_checkpoints_played_out(interval: float, blocking: float, restart: float, mtbf: float) -> None:
    shares = play_checkpoints(interval, blocking, restart, mtbf)
    assert saved(interval, blocking, restart, mtbf) == pytest.approx(shares.useful, rel=3e-3)


@pytest.mark.parametrize("slow", [0.0, 0.03, 0.3])
@pytest.mark.parametrize("mtbf", [HOUR, M])
@pytest.mark.parametrize(("interval", "blocking", "write"), [(330.0, 5.0, 120.0), (700.0, 30.0, 600.0)])
def test_asynchronous_checkpoints_played_out(
    interval: float, blocking: float, write: float, mtbf: float, slow: float
) -> None:
    shares = play_checkpoints(interval, blocking, 600.0, mtbf, write, slow)
    found = checkpoint_goodput(interval, blocking, 600.0, mtbf, write, slow)
    assert found == pytest.approx(shares.useful, rel=1e-3)
    assert restart_share(600.0, mtbf) == pytest.approx(shares.restarts, rel=1e-3)
    assert checkpoint_share(found, interval, blocking, write, slow) == pytest.approx(shares.checkpoints, rel=2e-3)


def test_where_the_time_goes() -> None:
    """Useful time, checkpoints, restarts and lost work are the whole."""
    shares = play_checkpoints(1116.0, 60.0, 600.0, M)
    parts = [
        saved(1116.0, 60.0, 600.0, M),
        float(restart_share(600.0, M)),
        float(checkpoint_share(0.8525, 1116.0, 60.0, 0.0, 0.0)),
    ]
    assert parts == pytest.approx([shares.useful, shares.restarts, shares.checkpoints], rel=1e-3)
    assert 1 - sum(parts) == pytest.approx(1 - shares.useful - shares.restarts - shares.checkpoints, abs=2e-4)


# ── Asynchronous checkpoints ─────────────────────────────────────────────────────────────────────────────────────────


def test_asynchronous_goodput_of_llama_3() -> None:
    """δ 5, w 120, R 600, τ 330 s: 0.9096; 3 % slower while writing: 0.9000. And M 1 h, δ 30, w 600, τ 700 s: 0.6198."""
    assert checkpoint_goodput(330.0, 5.0, 600.0, M, 120.0, 0.0) == pytest.approx(0.9096, abs=5e-5)
    assert checkpoint_goodput(330.0, 5.0, 600.0, M, 120.0, 0.03) == pytest.approx(0.9000, abs=6e-5)
    assert checkpoint_goodput(700.0, 30.0, 600.0, HOUR, 600.0, 0.0) == pytest.approx(0.6198, abs=5e-5)


@given(seconds, seconds, seconds, st.floats(100.0, 1e7), st.floats(0.0, 0.99))
def test_write_time_costs_like_restart_time(
    interval: float, blocking: float, restart: float, mtbf: float, slow: float
) -> None:
    sync = checkpoint_goodput(interval, blocking, restart, mtbf, 0.0, slow)
    assert sync == saved(interval, blocking, restart, mtbf)
    written = checkpoint_goodput(interval, blocking, restart, mtbf, 50.0, 0.0)
    assert written == pytest.approx(saved(interval, blocking, restart + 50.0, mtbf), rel=1e-12)


def test_two_minutes_of_writing_cost_a_point() -> None:
    assert math.exp(-120 / M) == pytest.approx(0.98928, abs=5e-6)
    free, paid = (float(checkpoint_goodput(330.0, 5.0, 600.0, M, w, 0.0)) for w in (0.0, 120.0))
    assert paid / free == pytest.approx(0.98928, abs=5e-6)


@given(seconds, seconds, seconds, st.floats(100.0, 1e8), st.floats(0.0, 1e4), st.floats(0.0, 0.9))
def test_goodput_is_a_share(
    interval: float, blocking: float, restart: float, mtbf: float, write: float, slow: float
) -> None:
    assert 0 <= checkpoint_goodput(interval, blocking, restart, mtbf, write, slow) <= 1
    assert 0 <= best_goodput(blocking, restart, mtbf, write, slow) <= 1


@given(seconds, seconds, st.floats(1.0, 600.0), st.floats(1.0, 3600.0), st.floats(1e4, 1e8), st.floats(1.01, 5.0))
def test_goodput_falls_in_all_that_takes_time(
    interval: float, write: float, blocking: float, restart: float, mtbf: float, more: float
) -> None:
    """In the blocking part, the write, the restart and the rate; at the best interval too."""
    at = (interval, blocking, restart, mtbf, write, 0.0)
    for place, factor in ((1, more), (2, more), (3, 1 / more), (4, more)):
        worse = tuple(value * factor if place == index else value for index, value in enumerate(at))
        assert checkpoint_goodput(*worse) <= checkpoint_goodput(*at) * (1 + 1e-12)
        assert best_goodput(*worse[1:]) <= best_goodput(*at[1:]) * (1 + 1e-9)


def test_goodput_without_failures_is_what_blocking_leaves() -> None:
    assert saved(3600.0, 300.0, 600.0, 1e12) == pytest.approx(3600 / 3900, rel=1e-6)


# ── Published runs ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_hourly_checkpoints_on_16k_a100() -> None:
    """RSC-1's rate, hourly, δ 5 min, R 10 min: 0.614, by Kokolis's first order 0.582; best each 1,779 s, 0.662."""
    assert saved(3600.0, 300.0, 600.0, RSC_16K) == pytest.approx(0.6139, abs=1e-4)
    assert play_checkpoints(3600.0, 300.0, 600.0, RSC_16K).useful == pytest.approx(0.6139, rel=6e-3)
    first_order = (1 - (600 + 1800) / RSC_16K) / (1 + 300 / 3600)
    assert first_order == pytest.approx(0.5818, abs=1e-4)
    assert best_interval(300.0, RSC_16K, 0.0, 0.0) == pytest.approx(1779, rel=2e-3)
    assert best_goodput(300.0, 600.0, RSC_16K, 0.0, 0.0) == pytest.approx(0.662, abs=5e-4)


def test_llama_3_reached_90_percent() -> None:
    """Llama 3 §3.3.4: over 90 % effective training time.

    With δ 5 s a restart may take 838 s; with a write of 51 s beside and R 10 min, goodput is 0.915.
    """
    mtbf = mean_time_between_interruptions(2048.0, observed_failure_rate(419.0, 2048.0, 54 * DAY), 0.0)
    assert best_goodput(5.0, 600.0, mtbf, 51.0, 0.0) == pytest.approx(0.915, abs=5e-4)
    assert best_interval(5.0, mtbf, 51.0, 0.0) > 51


def test_blocking_share_of_glm_65b() -> None:
    """DLRover: 120 s each 250 steps or 1.5 h block 2.17 %, 0.2 s each 10 steps 0.093 %; goodput rose by 5 points."""
    before, after = 5400.0, 5400.0 / 25
    assert checkpoint_share(saved(before, 120.0, 0.0, 1e15), before, 120.0, 0.0, 0.0) == pytest.approx(0.0217, rel=5e-3)
    assert checkpoint_share(saved(after, 0.2, 0.0, 1e15), after, 0.2, 0.0, 0.0) == pytest.approx(9.25e-4, rel=5e-3)
    for mtbf in (8 * HOUR, DAY):
        assert saved(after, 0.2, 600.0, mtbf) > saved(before, 120.0, 600.0, mtbf)


def test_saving_share_of_bloom() -> None:
    """ml-engineering: 40 s each 3 h are 0.37 % of the time."""
    assert checkpoint_share(1.0, 3 * HOUR, 40.0, 0.0, 0.0) == pytest.approx(0.0037, rel=5e-3)


# ── Spot instances ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_spot_without_and_with_notice() -> None:
    """M 2 h, 20 s to save, R 7 min: 0.875 without, 0.941 with a notice; at 45 min 0.756."""
    assert best_goodput(20.0, 420.0, 2 * HOUR, 0.0, 0.0) == pytest.approx(0.8748, abs=1e-4)
    assert noticed_goodput(20.0, 420.0, 2 * HOUR) == pytest.approx(0.9409, abs=1e-4)
    gang = mean_time_between_interruptions(64.0, 1 / (48 * HOUR), 0.0)
    assert gang == pytest.approx(45 * MINUTE)
    assert best_goodput(20.0, 420.0, gang, 0.0, 0.0) == pytest.approx(0.7559, abs=2e-4)
    assert best_goodput(20.0, 420.0, 2 * HOUR, 0.0, 0.0) / 0.98 == pytest.approx(0.893, abs=5e-4)


@pytest.mark.parametrize(("save", "restart", "mtbf"), [(20.0, 420.0, 7200.0), (100.0, 900.0, 2700.0), (1.0, 60.0, 1e5)])
def test_notices_played_out(save: float, restart: float, mtbf: float) -> None:
    """Run until the notice, save, restart until a restart is not struck."""
    draws, cycles = np.random.default_rng(4), 200_000
    run = draws.exponential(mtbf, cycles)
    struck = draws.exponential(mtbf, cycles)
    wall = run + save
    waiting = np.arange(cycles)
    while waiting.size:
        wall[waiting] += np.minimum(struck[waiting], restart)
        waiting = waiting[struck[waiting] < restart]
        struck[waiting] = draws.exponential(mtbf, waiting.size)
    assert noticed_goodput(save, restart, mtbf) == pytest.approx(run.sum() / wall.sum(), rel=4e-3)
