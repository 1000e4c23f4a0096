"""Work cut into tiles, each done by one unit of the chip: what is done for nothing, and what waits for the last."""

from __future__ import annotations

import numpy as np

from costmodel.equation import Number, equation


@equation
def tiled_rows(rows: Number) -> Number:
    """Rows that tensor cores work on: whole tiles of 64.

    64 ⌈m / 64⌉

    Args:
        rows: rows of the result, m [1]

    Returns:
        rows with those that only fill the last tile [1]

    Example:
        >>> float(tiled_rows(257.0))
        320.0

    Holds:
        bf16 libraries of NVIDIA, Ampere to Blackwell: held-out errors fall on A100, L40S and GB200 and rise nowhere by
        a point; rounding the columns or the waves of tiles over the chip as well does not lower them further

    Source:
        kernel-fit
    """
    return 64 * np.ceil(rows / 64)


@equation
def tail_slowdown(micro_batch: Number, heads: Number, sequence: Number, tile: Number, units: Number) -> Number:
    """Time of causal attention over that of a chip that is busy to the end.

    (1 + x^(3/2))^(2/3), x = 2 U r / (b a s): the last rows see every key, twice the mean, and one unit works at them
    alone while the others run out of rows

    Args:
        micro_batch: sequences, b [1]
        heads: query heads, a [1]
        sequence: tokens of each, s [1]
        tile: rows a unit works at together, r [1]
        units: multiprocessors of the chip, U [1]

    Returns:
        slow-down [1]

    Example:
        >>> round(float(tail_slowdown(1.0, 1.0, 8192.0, 128.0, 132.0)), 2)
        4.45

    Holds:
        kernels that do not split the keys of one row among units; corner between a sum (1) and the longer of both (∞)
        set once for all kernels

    Source:
        dao-2023 §3.2; kernel-fit

    Monotone: increasing in tile, units; decreasing in micro_batch, heads, sequence
    """
    return (1 + (2 * units * tile / (micro_batch * heads * sequence)) ** 1.5) ** (2 / 3)
