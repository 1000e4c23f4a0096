"""Time of what an engine does for one new token of each sequence."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation

WIDEST_GROUP = 32  # query heads that one pass over keys and values serves at most


@equation
def reading_heads(heads: Number, kv_heads: Number) -> Number:
    """Heads that pass over keys and values of a sequence, where a kernel packs the queries of a group into a tile.

    k; a if a / k > 32, for then every query head reads on its own

    heads a · kv_heads k → heads that read
    Source: kernel-fit
    Holds: TensorRT-LLM 1.3, whose times grow by the number of query heads from 48 to a group; vLLM's kernels pack any
    >>> float(reading_heads(32.0, 8.0)), float(reading_heads(64.0, 1.0))
    (8.0, 64.0)
    """
    return np.where(heads / kv_heads > WIDEST_GROUP, heads, kv_heads)


@equation
def cached_reading_time(
    cached: Number, bandwidth: Number, memory_share: Number, l2: Number, hot_share: Number
) -> Number:
    """Time to read keys and values, faster where they still lie in the cache from the last call.

    C / (b W), where C ≤ L times h

    cached C [B]: keys and values of all passes · bandwidth W [B/s]: datasheet memory bandwidth
    memory_share b: share of the bandwidth reached · l2 [B]: last-level cache, L; 0 where it is not known
    hot_share h: time out of the cache over that out of memory
    → time [s]
    Source: williams-2009; kernel-fit
    Holds: a call repeated on the same keys, as benchmarks do; in a step other layers pass between two calls
    Monotone: decreasing in bandwidth, memory_share
    >>> [round(float(cached_reading_time(size, 2e12, 0.8, 50e6, 0.4)) * 1e6) for size in (1.6e9, 16e6)]
    [1000, 4]
    """
    return cached / (memory_share * bandwidth) * np.where(cached <= l2, hot_share, 1.0)


@equation
def decode_attention_time(
    micro_batch: Number,
    sequence: Number,
    readers: Number,
    units: Number,
    reading: Number,
    row: Number,
    joining: Number,
    start: Number,
) -> Number:
    """Time of one call of decode attention, one new token to a sequence.

    t₀ + (M^(3/2) + R^(3/2))^(2/3), R = r b k / U: every head of a sequence is a row of work for one unit. Where there
    are fewer rows than units and more than 128 tokens, the tokens are split among units, and u adds the parts up

    micro_batch b: sequences · sequence s: tokens of each · readers k: heads that read keys and values
    units: multiprocessors of the chip, U; where they are not known, r is that of the chip · reading M [s]
    row r [s]: time of a unit for one head of one sequence · joining u [s]: time to add up the parts of a row
    start t₀ [s]
    → time [s]
    Source: dao-2023 §3.2; kernel-fit
    Holds: corner between a sum (1) and the longer of both (∞) set once for all kernels
    Monotone: increasing in reading, row, joining, start
    >>> round(float(decode_attention_time(64.0, 8192.0, 8.0, 132.0, 550e-6, 3e-6, 4e-6, 9e-6)) * 1e6)
    560
    >>> round(float(decode_attention_time(1.0, 8192.0, 8.0, 132.0, 9e-6, 3e-6, 4e-6, 9e-6)) * 1e6)
    22
    """
    rows = row * micro_batch * readers / np.maximum(units, 1)
    longer, shorter = np.maximum(reading, rows), np.minimum(reading, rows)
    parts = np.where((micro_batch * readers < units) & (sequence > 128), joining, 0.0)
    return start + parts + longer * (1 + (shorter / longer) ** 1.5) ** (2 / 3)
