"""Work cut into tiles, each done by one unit of the chip: what is done for nothing, and what waits for the last."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation

PIECE_BYTES = 16.0  # what tensor cores read at once


@equation
def tiled_rows(rows: Number) -> Number:
    """Rows that tensor cores work on: whole tiles of 64.

    64 ⌈m / 64⌉

    rows m: rows of the result → rows with those that only fill the last tile
    Source: kernel-fit
    Holds: bf16 libraries of NVIDIA, Ampere to Blackwell: held-out errors fall on A100, L40S and GB200 and rise nowhere
        by a point; rounding the columns or the waves of tiles over the chip as well does not lower them further
    >>> float(tiled_rows(257.0))
    320.0
    """
    return 64 * np.ceil(rows / 64)


@equation
def peak_of_heads(peak: Number, vector_peak: Number, head_dim: Number, element: Number) -> Number:
    """Datasheet rate of the unit that multiplies heads side by side, as unfused attention does.

    tensor cores take rows of whole pieces of 16 bytes; others are left to the vector units

    peak [FLOP/s]: of tensor cores · vector_peak [FLOP/s]: of vector units in fp32
    head_dim: width of a head, the elements of a row · element [B]: bytes of one
    → rate [FLOP/s]
    Source: anthony-2024; training-runs-fit
    Holds: cuBLAS 11 on batches; fused attention pads its heads, and other vendors' libraries are taken to do so
    Pitfall: a hidden size of 13,824 has heads of 144 if there are 96, of 108 if 128: BigScience's steps took a third
        longer
    Monotone: increasing in peak, vector_peak
    >>> float(peak_of_heads(312e12, 19.5e12, 108.0, 2.0)) / 1e12
    19.5
    """
    return np.where(np.remainder(head_dim, PIECE_BYTES / element) == 0, peak, vector_peak)


@equation
def tail_slowdown(micro_batch: Number, heads: Number, sequence: Number, tile: Number, units: Number) -> Number:
    """Time of causal attention over that of a chip that is busy to the end.

    (1 + x^(3/2))^(2/3), x = 2 U r / (b a s): the last rows see every key, twice the mean, and one unit works at them
    alone while the others run out of rows

    micro_batch b: sequences · heads a · sequence s: tokens of each · tile r: rows a unit works at together
    units U: multiprocessors of the chip
    → slowdown
    Source: dao-2023 §3.2; kernel-fit
    Holds: kernels that do not split the keys of one row among units; corner between a sum (1) and the longer of both
        (∞) set once for all kernels
    Monotone: increasing in tile, units; decreasing in micro_batch, heads, sequence
    >>> round(float(tail_slowdown(1.0, 1.0, 8192.0, 128.0, 132.0)), 2)
    4.45
    """
    return (1 + (2 * units * tile / (micro_batch * heads * sequence)) ** 1.5) ** (2 / 3)


@equation
def page_writing_time(
    micro_batch: Number, sequence: Number, kv_heads: Number, head_dim: Number, write: Number, units: Number
) -> Number:
    """Time in which a kernel of its own writes the keys and values of new tokens into the pages of a cache.

    w b s min(1, k d / 512) / U: each token is a block of threads, one for each element of its keys and at most 512; the
    fewer there are, the more blocks a unit holds at once

    micro_batch b: sequences · sequence s: tokens of each · kv_heads k · head_dim d
    write w [s]: time of a unit for a token of 512 elements and more
    units: multiprocessors of the chip, U; where they are not known, w is that of the chip
    → time [s]
    Source: vllm; kernel-fit
    Holds: engines that keep pages, and write them ahead of attention; where a kernel does both, w is near nothing
    Monotone: increasing in micro_batch, sequence, kv_heads, head_dim, write; decreasing in units
    >>> round(float(page_writing_time(8.0, 3072.0, 4.0, 128.0, 0.57e-6, 132.0)) * 1e6)
    106
    """
    return write * micro_batch * sequence * np.minimum(kv_heads * head_dim / 512, 1) / np.maximum(units, 1)
