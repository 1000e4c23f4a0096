"""Checkpoints on the way to storage and back: bytes, times of writing and loading, and what resharding moves."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


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
