"""Checkpoint and restart: goodput, and the interval between checkpoints that makes it best, in closed form."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation

LEAST_DEPTH = 1e-18  # where half of the digits are left; a checkpoint that takes nothing counts as much


def _closer(y: Number, depth: Number) -> Number:
    """One step of Halley's method for y + e^(−y) − 1 = x, of third order."""
    slope: Number = -np.expm1(-y)
    value = y - slope - depth
    return y - value / (slope - value * (1 - slope) / (2 * slope))


def _log_distance(depth: Number) -> Number:
    """The y ≥ 0 of W₀(−e^(−1−x)) = −e^(−y): three steps from a start within 5 % leave the last digits of a double."""
    known = np.maximum(depth, LEAST_DEPTH)
    root = np.sqrt(2 * known)
    near = root + known / 3 + root**3 / 36
    start = np.where(known < 1, near, known + 1 - np.exp(-known - 1))
    return _closer(_closer(_closer(start, known), known), known)


@equation
def lambert_w0(depth: Number) -> Number:
    """Principal branch of Lambert's function, at the arguments that checkpoint intervals need.

    W e^W = z for z = −e^(−1−x), between −1 and 0

    depth: x, from 0 on; a checkpoint's blocking time over the mean time between interruptions → W₀(−e^(−1−x))
    Source: corless-1996
    Holds: x at least 1e-18; Halley's method on y + e^(−y) − 1 = x with W = −e^(−y), which does not lose digits near −1
    Monotone: increasing in depth
    >>> w = float(lambert_w0(0.5))
    >>> round(w, 6), round(w * float(np.exp(w)), 9) == round(-float(np.exp(-1.5)), 9)
    (-0.30171, True)
    """
    return -np.exp(-_log_distance(depth))


@equation
def checkpoint_goodput(
    interval: Number, blocking: Number, restart: Number, mtbf: Number, background: Number, interference: Number
) -> Number:
    """Useful share of a run that saves at an interval and goes back to the last checkpoint whenever it is interrupted.

    E = τ / (M e^((R + (1 − σ) w)/M) (e^(p/M) − 1)), p = τ + δ + σ w

    interval τ [s] · blocking δ [s] · restart R [s]: from an interruption until training continues
    mtbf M [s]: mean time between interruptions
    background [s]: from the end of that stop until the checkpoint can be used, w; 0 where training waits for it
    interference σ: share of training speed that writing takes meanwhile
    → goodput, E
    Source: daly-2006; composition
    Holds: exact for exponential interruptions that strike work, checkpoints, writes and restarts alike, when a write
        ends before the next begins: p ≥ w. Between two of them, M apart in the mean, the first checkpoint can be used
        after R + τ + δ + w and each further one p later
    Pitfall: the first order, 1 − δ/τ − τ/(2 M) − R/M, is 3 points low where M is under two hours, and goes negative;
        and the time of an asynchronous write is not free: it costs what a restart of that length costs
    Monotone: increasing in mtbf; decreasing in blocking, restart, background, interference
    >>> round(float(checkpoint_goodput(1116.0, 60.0, 600.0, 11134.8, 0.0, 0.0)), 4)
    0.8525
    >>> round(float(checkpoint_goodput(330.0, 5.0, 600.0, 11134.8, 120.0, 0.0)), 4)
    0.9096
    """
    period = (interval + blocking + interference * background) / mtbf
    first = (interval + blocking + restart + background) / mtbf
    return interval / mtbf * np.exp(-first) / -np.expm1(-period)


@equation
def best_interval(blocking: Number, mtbf: Number, background: Number, interference: Number) -> Number:
    """Useful work between checkpoints at which goodput is best.

    τ* = M (1 + W₀(−e^(−1 − (δ + σ w)/M))), at least w (1 − σ) − δ

    blocking δ [s] · mtbf M [s]: mean time between interruptions
    background w [s]: from the end of that stop until the checkpoint can be used
    interference σ: share of training speed that writing takes meanwhile
    → interval, τ* [s]
    Source: daly-2006; corless-1996; composition
    Holds: as checkpoint_goodput; the restart time does not matter, and an interval 30 % shorter or longer adds less
        than 7 % to what checkpoints and repeated work cost together
    Monotone: increasing in mtbf
    >>> round(float(best_interval(60.0, 11134.8, 0.0, 0.0)))
    1116
    """
    depth = (blocking + interference * background) / mtbf
    return np.maximum(-mtbf * np.expm1(-_log_distance(depth)), background * (1 - interference) - blocking)


@equation
def best_goodput(blocking: Number, restart: Number, mtbf: Number, background: Number, interference: Number) -> Number:
    """Goodput at the best interval.

    E* = −W₀(−e^(−1 − (δ + σ w)/M)) e^(−(R + (1 − σ) w)/M)

    blocking δ [s] · restart R [s]: from an interruption until training continues
    mtbf M [s]: mean time between interruptions
    background w [s]: from the end of that stop until the checkpoint can be used
    interference σ: share of training speed that writing takes meanwhile
    → goodput, E*
    Source: composition
    Holds: as checkpoint_goodput, where a write ends within the best interval; else that equation at best_interval; no
        estimate calls it
    Monotone: increasing in mtbf; decreasing in blocking, restart, background, interference
    >>> round(float(best_goodput(60.0, 600.0, 11134.8, 0.0, 0.0)), 4)
    0.8525
    """
    depth = (blocking + interference * background) / mtbf
    return -lambert_w0(depth) * np.exp(-(restart + (1 - interference) * background) / mtbf)


@equation
def longest_restart(
    goodput: Number, blocking: Number, mtbf: Number, background: Number, interference: Number
) -> Number:
    """Restart time that still allows a goodput, at the best interval; negative where none does.

    R = M ln(−W₀(−e^(−1 − (δ + σ w)/M)) / E) − (1 − σ) w

    goodput E: wanted · blocking δ [s] · mtbf M [s]: mean time between interruptions
    background w [s]: from the end of that stop until the checkpoint can be used
    interference σ: share of training speed that writing takes meanwhile
    → time, R [s]
    Source: composition
    Holds: as best_goodput; no estimate calls it
    Monotone: decreasing in goodput, blocking, background, interference
    >>> round(float(longest_restart(0.9, 5.0, 11134.8, 0.0, 0.0)))
    838
    """
    depth = (blocking + interference * background) / mtbf
    return -mtbf * (_log_distance(depth) + np.log(goodput)) - (1 - interference) * background


@equation
def steps_between_checkpoints(interval: Number, time: Number) -> Number:
    """Whole steps between two checkpoints that come nearest to an interval.

    max(1, τ / T rounded)

    interval τ [s] · time T [s]: of a step → steps
    Source: composition
    Monotone: increasing in interval; decreasing in time
    >>> float(steps_between_checkpoints(1116.0, 16.2)), float(steps_between_checkpoints(3.0, 16.2))
    (69.0, 1.0)
    """
    return np.maximum(np.rint(interval / time), 1.0)
