"""Checkpoints: the interval that makes goodput best, copies in memory and storage, and how long they take."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation

LEAST_DEPTH = 1e-18  # where half of the digits are left; a checkpoint that takes nothing counts as much


# --- Checkpoint and restart: goodput, and the interval between checkpoints that makes it best, in closed form.


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


# --- Checkpoints in the memory of other hosts, which some failures spare, and rarer ones in storage.


@equation
def two_level_goodput(
    interval: Number,
    blocking: Number,
    restart: Number,
    saves: Number,
    storage_blocking: Number,
    storage_restart: Number,
    background: Number,
    mtbf: Number,
    soft_share: Number,
) -> Number:
    """Useful share of a run that saves to memory often and to storage each k-th time.

    E = k τ (1 − q) (q a + (1 − q) b) / (M D (1/Π − 1)) · e^(−(1 − q) w/M), a = e^(−R₁/M), b = e^(−R₂/M),
    D = 1 − q + q a, Π = ρ(τ + δ₁)^(k − 1) ρ(τ + δ₁ + δ₂), ρ(s) = D e^(−s/M) / (1 − q + q a e^(−s/M))

    interval τ [s]: useful work between two saves to memory · blocking δ₁ [s]: time for which one stops training
    restart R₁ [s]: from an interruption until training continues from memory
    saves k: saves to memory for each one to storage
    storage_blocking δ₂ [s]: time for which one to storage stops training besides
    storage_restart R₂ [s]: from an interruption until training continues from storage
    background [s]: until a checkpoint in storage can be used, w; 0 where training waits for it
    mtbf M [s]: mean time between interruptions of all kinds
    soft_share q: share of them that leaves the copies in memory usable
    → goodput, E
    Source: composition; wang-2023-gemini
    Holds: exponential interruptions that strike work, saves and restarts alike, each of them soft with the same
        probability q < 1; exact for w = 0, and within 0.2 % of runs played out for w > 0
    Pitfall: a copy in one peer's memory survives the loss of one node; a rack or a switch that takes both makes q
        smaller
    Monotone: increasing in mtbf; decreasing in blocking, restart, storage_blocking, storage_restart, background
    >>> round(float(two_level_goodput(120.0, 1.0, 120.0, 30.0, 60.0, 600.0, 0.0, 11134.8, 0.75)), 3)
    0.912
    """
    hard_share = 1 - soft_share
    near, far = np.exp(-restart / mtbf), np.exp(-storage_restart / mtbf)
    back = hard_share + soft_share * near
    segment, last = (interval + blocking) / mtbf, (interval + blocking + storage_blocking) / mtbf
    lost = soft_share * near / back
    log_kept = -segment - np.log1p(lost * np.expm1(-segment))
    log_last = -last - np.log1p(lost * np.expm1(-last))
    log_all = (saves - 1) * log_kept + log_last
    useful = saves * interval / mtbf * hard_share * (soft_share * near + hard_share * far) / back
    return useful * np.exp(log_all - hard_share * background / mtbf) / -np.expm1(log_all)


# --- Checkpoints on the way to storage and back: bytes, times of writing and loading, and what resharding moves.


@equation
def checkpoint_bytes(parameters: Number, weight: Number, state: Number) -> Number:
    """Bytes of a checkpoint that training can continue from.

    (w + s) P: 14 P with 16-bit weights, an fp32 copy and two fp32 moments; 12 P without the 16-bit weights

    parameters P: parameters of the model · weight w [B]: bytes of a weight that is saved beside the optimizer's copy
    state s [B]: bytes of that copy and the moments
    → bytes [B]
    Source: wan-2025b; ml-engineering training/fault-tolerance
    Holds: each parameter is saved once, however it is split or replicated; buffers of the data loader are left out
    Monotone: increasing in parameters, weight, state
    >>> checkpoint_bytes(405e9, 2.0, 12.0) / 1e12
    5.67
    """
    return (weight + state) * parameters


@equation
def checkpoint_writers(ranks: Number, dp: Number, *, sharded: bool) -> Number:
    """Ranks that write a part of a checkpoint of their own.

    n, or n / d where replicas hold the same states and one of them writes

    ranks n: accelerators of the job · dp d
    sharded: the states are split over the data-parallel ranks (zero 1 and above)
    → writers
    Source: wan-2025b; composition
    Monotone: increasing in ranks
    >>> checkpoint_writers(512.0, 16.0, sharded=True), checkpoint_writers(512.0, 16.0, sharded=False)
    (512.0, 32.0)
    """
    return ranks if sharded else ranks / dp


@equation
def checkpoint_write_time(nbytes: Number, writers: Number, writer: Number, storage: Number) -> Number:
    """Time to write a checkpoint to storage.

    S / min(B, n b)

    nbytes S [B]: bytes of the checkpoint · writers n: ranks that write a part of their own
    writer b [B/s]: rate of one of them · storage B [B/s]: rate of the store
    → time [s]
    Source: wang-2023-gemini; dlrover
    Holds: even shards; no time to plan or to agree that all have written
    Pitfall: a save through one rank is bound by that writer, however fast the store is
    Monotone: increasing in nbytes; decreasing in writers, writer, storage
    >>> round(float(checkpoint_write_time(530e9 * 12, 1e3, 1e9, 2.5e9)) / 60, 1)
    42.4
    """
    return nbytes / np.minimum(storage, writers * writer)


@equation
def checkpoint_load_time(nbytes: Number, reads: Number, storage: Number) -> Number:
    """Time to read a checkpoint from storage.

    k S / B

    nbytes S [B]: bytes of the checkpoint
    reads: times each byte is read, k: 1, or as many as replicas where each reads for itself
    storage B [B/s]: rate of the store
    → time [s]
    Source: dlrover; wan-2025b
    Monotone: increasing in nbytes, reads; decreasing in storage
    >>> checkpoint_load_time(24e9, 1.0, 100e6)
    240.0
    """
    return reads * nbytes / storage


@equation
def moved_share(dp: Number, dp_after: Number) -> Number:
    """Share of evenly cut states that changes rank when they are cut over another number of ranks.

    1 − m (m + 1) / (2 a) + m (m − 1) / (2 b), m = min(b, ⌈b / (a − b)⌉), a the larger and b the smaller number

    dp: ranks that share the states before · dp_after: ranks that share them afterwards → share
    Source: composition
    Holds: contiguous shards in the order of the ranks, which keep their numbers; no estimate calls it
    >>> round(float(moved_share(70.0, 64.0)), 4), round(float(moved_share(16.0, 15.0)), 4)
    (0.9165, 0.5)
    """
    more, fewer = np.maximum(dp, dp_after), np.minimum(dp, dp_after)
    overlapping = np.minimum(fewer, np.ceil(fewer / np.maximum(more - fewer, 1.0)))
    kept: Number = overlapping * ((overlapping + 1) / more - (overlapping - 1) / fewer) / 2
    return 1 - kept


@equation
def reshard_time(nbytes: Number, dp: Number, dp_after: Number, bandwidth: Number) -> Number:
    """Time to move states that are cut over another number of ranks, set by the rank that sends or receives most.

    S min(1/b, 1 − b/a) / B, a the larger and b the smaller number

    nbytes S [B]: bytes that the ranks share · dp: ranks that share them before
    dp_after: ranks that share them afterwards · bandwidth B [B/s]: of one rank, one way
    → time [s]
    Source: composition
    Holds: contiguous shards in the order of the ranks, which keep their numbers; full duplex, no other traffic
    Pitfall: the bytes of all ranks over all ranks are too few: from 16 to 15 ranks half of the states move, but almost
        the whole shard of the last rank does, 1.9 times as much
    Monotone: increasing in nbytes; decreasing in bandwidth
    >>> float(reshard_time(160e9, 16.0, 15.0, 10e9))
    1.0
    """
    more, fewer = np.maximum(dp, dp_after), np.minimum(dp, dp_after)
    return nbytes * np.minimum(1 / fewer, 1 - fewer / more) / bandwidth
