"""Runs played out: interruptions at random times, checkpoints that are taken, written, used and lost.

Many runs are played side by side, each an element of an array. Nothing here knows a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Lanes = NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """Shares of the wall time of a run."""

    useful: float
    restarts: float
    checkpoints: float


def gaps_between(mtbf: float, count: int, seed: int) -> Lanes:
    """Exponential gaps, one from each of as many equally likely ranges, in random order."""
    draws = np.random.default_rng(seed)
    below = (np.arange(count) + draws.random(count)) / count
    return draws.permutation(-mtbf * np.log1p(-below))


def play_checkpoints(
    interval: float, blocking: float, restart: float, mtbf: float, write: float = 0.0, slow: float = 0.0
) -> Shares:
    """Go on from the last usable checkpoint after each interruption; every lane is one gap between interruptions.

    Training runs at 1 − slow while the last checkpoint is written. A restart that is struck begins anew.
    """
    gap = gaps_between(mtbf, 20_000, seed=1)
    usable = np.zeros_like(gap)
    clock, writing = np.full_like(gap, restart), 0.0
    running = np.flatnonzero(clock < gap)
    while running.size:
        slowed = min(writing, interval / (1 - slow))
        clock = clock + slowed + (interval - slowed * (1 - slow)) + blocking
        usable[running] += clock[running] + write <= gap[running]
        writing = write
        assert writing <= interval + blocking + slow * write + 1e-9, "a write overlaps the next"
        running = running[clock[running] < gap[running]]
    total = gap.sum()
    return Shares(
        float(usable.sum() * interval / total),
        float(np.minimum(gap, restart).sum() / total),
        float(usable.sum() * (blocking + slow * write) / total),
    )


def play_two_levels(
    memory: tuple[float, float, float], saves: int, storage: tuple[float, float, float], mtbf: float, soft: float
) -> float:
    """Useful share with saves to memory (interval, blocking, restart) and to storage (blocking, restart, write).

    Progress is counted in saves to memory. A write to storage continues while a soft interruption is dealt with.
    """
    (interval, blocking, restart), (storage_blocking, storage_restart, write) = memory, storage
    draws, lanes = np.random.default_rng(2), 800
    clock, strike = np.zeros(lanes), draws.exponential(mtbf, lanes)
    done, stored, pending, ready = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
    down, hard = np.zeros(lanes, bool), np.zeros(lanes, bool)
    while np.any(clock < 60 * mtbf):
        to_storage = (done + 1) % saves == 0
        segment = interval + blocking + np.where(to_storage, storage_blocking, 0.0)
        lasts = np.where(down, np.where(hard, storage_restart, restart), segment)
        struck = clock + lasts >= strike
        clock = np.where(struck, strike, clock + lasts)
        stored = np.where(ready <= clock, pending, stored)
        saved = ~struck & ~down
        done = done + saved
        pending, ready = np.where(saved & to_storage, done, pending), np.where(saved & to_storage, clock + write, ready)
        stored = np.where(ready <= clock, pending, stored)
        strike = strike + np.where(struck, draws.exponential(mtbf, lanes), 0.0)
        hard = np.where(struck, draws.random(lanes) >= soft, hard)
        done = np.where(struck & hard, stored, done)
        pending = np.where(struck & hard, stored, pending)
        down = struck
    return float(done.sum() * interval / clock.sum())


def play_elastic(repair: float, replicas: int, regroup: float, mtbf: float) -> float:
    """Useful share when each interruption stops all to regroup and takes one replica away until it is repaired."""
    draws, runs, end, lost = np.random.default_rng(3), 60, 2000 * max(mtbf, repair), 0.0
    for _ in range(runs):
        strikes = np.cumsum(draws.exponential(mtbf, int(end / mtbf * 1.3) + 50))
        strikes = strikes[strikes < end]
        away = np.minimum(strikes + repair, end) - strikes
        stopped = np.minimum(np.append(strikes[1:], end) - strikes, regroup)
        gone = np.arange(1, strikes.size + 1) - np.searchsorted(strikes + repair, strikes, side="right")
        lost += float(away.sum() / replicas + np.sum(stopped * (1 - gone / replicas)))
    return 1 - lost / (end * runs)


def decode_together(fixed: float, per_sequence: float, lengths: NDArray[np.int64]) -> float:
    """Time of a batch decoded step by step until its longest answer ends."""
    alive = lengths.size - np.searchsorted(np.sort(lengths), np.arange(lengths.max()), side="right")
    return float(np.sum(fixed + per_sequence * alive))


def decode_refilled(fixed: float, per_sequence: float, lengths: NDArray[np.int64], concurrency: int) -> float:
    """Time of a stream of answers of which so many run at a time, each that ends being replaced by the next."""
    ends = np.sort(lengths[:concurrency].astype(np.float64))
    time, now = 0.0, 0.0
    for length in lengths[concurrency:]:
        time += (ends[0] - now) * (fixed + per_sequence * concurrency)
        now = float(ends[0])
        ends = np.sort(np.append(ends[1:], now + length))
    for running, end in zip(range(concurrency, 0, -1), ends, strict=True):
        time += (end - now) * (fixed + per_sequence * running)
        now = float(end)
    return time
