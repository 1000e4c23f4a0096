"""What stays exposed when communication hides behind compute."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def lost_time(hidden_time: Number, occupied: Number) -> Number:
    """Time that compute loses to communication hidden behind it, which occupies a part of the device.

    q T

    hidden_time T [s]: time of the communication that compute hides
    occupied q: share of the device's compute that it takes meanwhile
    → added to the compute [s]
    Source: deepseek-2024 §3.5.1: 20 of 132 multiprocessors; composition
    Monotone: increasing in hidden_time, occupied
    >>> lost_time(6.0, 0.25)
    1.5
    """
    return occupied * hidden_time


@equation
def exposed_time(communication: Number, compute: Number, hideable: Number, tail: Number) -> Number:
    """Communication that compute does not hide.

    min(N, max(N − η min(N, C), tail))

    communication N [s]: time of the communication alone · compute C [s]: time of the compute it may run beside
    hideable η: share of the shorter of both that really overlaps
    tail [s]: last piece, which has nothing left to hide behind
    → exposed time [s]
    Source: li-2020; zhao-2023; training-runs-fit
    Monotone: increasing in communication, tail; decreasing in compute, hideable
    >>> round(float(exposed_time(0.31, 1.0, 0.8, 0.01)), 3)
    0.062
    """
    return np.minimum(communication, np.maximum(communication - hideable * np.minimum(communication, compute), tail))


@equation
def bucket_count(nbytes: Number, bucket: Number) -> Number:
    """Pieces a message is cut into so that sending can start early.

    max(1, ⌈S / bucket⌉)

    nbytes S [B]: message · bucket [B]: largest piece → pieces
    Source: li-2020 §3.2
    Monotone: increasing in nbytes; decreasing in bucket
    >>> float(bucket_count(16e9, 26214400.0))
    611.0
    """
    return np.maximum(np.ceil(nbytes / bucket), 1.0)


@equation
def bucket_bytes(size: Number, per_rank: Number, ranks: Number) -> Number:
    """Bytes of a bucket, which some stacks let grow with the group so that latency does not.

    max(size, q n)

    size [B] · per_rank q [B]: bytes for each rank of the group · ranks n → bucket [B]
    Source: megatron-lm distributed_data_parallel.py
    Monotone: increasing in size, per_rank, ranks
    >>> float(bucket_bytes(160e6, 4e6, 64.0))
    256000000.0
    """
    return np.maximum(size, per_rank * ranks)


@equation
def passes_beside(pp: Number, micro_batches: Number, vpp: Number) -> Number:
    """Passes of a stage that still run when its first gradients are whole, and before its last weights are needed.

    1/v + min(p, m) (v − 1)/v: interleaved, the last group of p micro-batches goes through chunk after chunk, and the
    first chunk to end can be reduced while the others run; with one chunk all gradients wait for the last micro-batch

    pp p · micro_batches m: micro-batches of a step · vpp v → passes of one micro-batch over all chunks of the stage
    Source: narayanan-2021 §2.2; megatron-lm overlap-grad-reduce; composition
    Monotone: increasing in pp, micro_batches, vpp
    >>> float(passes_beside(8.0, 64.0, 4.0)), float(passes_beside(8.0, 64.0, 1.0))
    (6.25, 1.0)
    """
    return (1 + np.minimum(pp, micro_batches) * (vpp - 1)) / vpp


@equation
def sends_of_rank(pp: Number, micro_batches: Number, vpp: Number, ends: Number) -> Number:
    """Sends of the rank that sends most in a step: activations over each boundary forward, gradients backward.

    2 v m between the ends, (2 v − e) m where there are two ranks, nothing for one

    pp p · micro_batches m: micro-batches of a step · vpp v
    ends e: sends per micro-batch that the first or last rank lacks: 1, or 2 where the pipeline folds back
    → sends
    Source: narayanan-2021 §2.2; composition
    Monotone: increasing in pp, micro_batches, vpp; decreasing in ends
    >>> [float(sends_of_rank(p, 32.0, 1.0, 1.0)) for p in (1.0, 2.0, 4.0)]
    [0.0, 32.0, 64.0]
    """
    return np.where(pp > 2, 2 * vpp * micro_batches, np.where(pp > 1, (2 * vpp - ends) * micro_batches, 0.0))


@equation
def exposed_sends(pp: Number, sends: Number, vpp: Number, send: Number, hideable: Number) -> Number:
    """Sends between stages that compute does not hide: during fill and drain, and some in the steady state.

    2 v (p − 1) τ + n (1 − η) τ, nothing for one stage

    pp p · sends n: sends of a rank in a step · vpp v · send τ [s]: time of one send
    hideable η: share of steady-state sends that overlaps
    → exposed time of a step [s]
    Source: narayanan-2021 §4.1; composition
    Monotone: increasing in sends, vpp, send; decreasing in hideable
    >>> float(exposed_sends(4.0, 128.0, 1.0, 1e-3, 1.0))
    0.006
    """
    return np.where(pp > 1, send * (2 * vpp * (pp - 1) + sends * (1 - hideable)), 0.0)
