"""Checkpoints on the way to storage and back: bytes, times of writing and loading, and what resharding moves."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def checkpoint_bytes(parameters: Number, weight: Number, state: Number) -> Number:
    """Bytes of a checkpoint that training can continue from.

    (w + s) P: 14 P with 16-bit weights, an fp32 copy and two fp32 moments; 12 P without the 16-bit weights

    Args:
        parameters: parameters of the model, P [1]
        weight: bytes of a weight that is saved beside the optimizer's copy, w [B]
        state: bytes of that copy and the moments, s [B]

    Returns:
        bytes [B]

    Example:
        >>> checkpoint_bytes(405e9, 2.0, 12.0) / 1e12
        5.67

    Holds: each parameter is saved once, however it is split or replicated; buffers of the data loader are left out

    Source:
        wan-2025b; ml-engineering training/fault-tolerance

    Monotone: increasing in parameters, weight, state
    """
    return (weight + state) * parameters


@equation
def checkpoint_writers(ranks: Number, dp: Number, *, sharded: bool) -> Number:
    """Ranks that write a part of a checkpoint of their own.

    n, or n / d where replicas hold the same states and one of them writes

    Args:
        ranks: accelerators of the job, n [1]
        dp: data-parallel degree, d [1]
        sharded: the states are split over the data-parallel ranks (zero 1 and above)

    Returns:
        writers [1]

    Example:
        >>> checkpoint_writers(512.0, 16.0, sharded=True), checkpoint_writers(512.0, 16.0, sharded=False)
        (512.0, 32.0)

    Source:
        wan-2025b; composition

    Monotone: increasing in ranks
    """
    return ranks if sharded else ranks / dp


@equation
def checkpoint_write_time(nbytes: Number, writers: Number, writer: Number, storage: Number) -> Number:
    """Time to write a checkpoint to storage.

    S / min(B, n b)

    Args:
        nbytes: bytes of the checkpoint, S [B]
        writers: ranks that write a part of their own, n [1]
        writer: rate of one of them, b [B/s]
        storage: rate of the store, B [B/s]

    Returns:
        time [s]

    Example:
        >>> round(float(checkpoint_write_time(530e9 * 12, 1e3, 1e9, 2.5e9)) / 60, 1)
        42.4

    Holds: even shards; no time to plan or to agree that all have written

    Source:
        wang-2023-gemini; dlrover

    Pitfall:
        a save through one rank is bound by that writer, however fast the store is

    Monotone: increasing in nbytes; decreasing in writers, writer, storage
    """
    return nbytes / np.minimum(storage, writers * writer)


@equation
def checkpoint_load_time(nbytes: Number, reads: Number, storage: Number) -> Number:
    """Time to read a checkpoint from storage.

    k S / B

    Args:
        nbytes: bytes of the checkpoint, S [B]
        reads: times each byte is read, k: 1, or as many as replicas where each reads for itself [1]
        storage: rate of the store, B [B/s]

    Returns:
        time [s]

    Example:
        >>> checkpoint_load_time(24e9, 1.0, 100e6)
        240.0

    Source:
        dlrover; wan-2025b

    Monotone: increasing in nbytes, reads; decreasing in storage
    """
    return reads * nbytes / storage


@equation
def moved_share(dp: Number, dp_after: Number) -> Number:
    """Share of evenly cut states that changes rank when they are cut over another number of ranks.

    1 − m (m + 1) / (2 a) + m (m − 1) / (2 b), m = min(b, ⌈b / (a − b)⌉), a the larger and b the smaller number

    Args:
        dp: ranks that share the states before [1]
        dp_after: ranks that share them afterwards [1]

    Returns:
        share [1]

    Example:
        >>> round(float(moved_share(70.0, 64.0)), 4), round(float(moved_share(16.0, 15.0)), 4)
        (0.9165, 0.5)

    Holds: contiguous shards in the order of the ranks, which keep their numbers; no estimate calls it

    Source:
        composition
    """
    more, fewer = np.maximum(dp, dp_after), np.minimum(dp, dp_after)
    overlapping = np.minimum(fewer, np.ceil(fewer / np.maximum(more - fewer, 1.0)))
    kept: Number = overlapping * ((overlapping + 1) / more - (overlapping - 1) / fewer) / 2
    return 1 - kept


@equation
def reshard_time(nbytes: Number, dp: Number, dp_after: Number, bandwidth: Number) -> Number:
    """Time to move states that are cut over another number of ranks, set by the rank that sends or receives most.

    S min(1/b, 1 − b/a) / B, a the larger and b the smaller number

    Args:
        nbytes: bytes that the ranks share, S [B]
        dp: ranks that share them before [1]
        dp_after: ranks that share them afterwards [1]
        bandwidth: of one rank, one way, B [B/s]

    Returns:
        time [s]

    Example:
        >>> float(reshard_time(160e9, 16.0, 15.0, 10e9))
        1.0

    Holds: contiguous shards in the order of the ranks, which keep their numbers; full duplex, no other traffic

    Source:
        composition

    Pitfall:
        the bytes of all ranks over all ranks are too few: from 16 to 15 ranks half of the states move, but almost the
        whole shard of the last rank does, 1.9 times as much

    Monotone: increasing in nbytes; decreasing in bandwidth
    """
    more, fewer = np.maximum(dp, dp_after), np.minimum(dp, dp_after)
    return nbytes * np.minimum(1 / fewer, 1 - fewer / more) / bandwidth
