"""The least time of a collective: what has to cross the links around a part of the group, at their line rate."""

from __future__ import annotations

import numpy as np

from costmodel.equations.network.collectives import Operation
from costmodel.ground.equation import Number, equation


@equation
def line_rate_time(
    message: Number,
    ranks: Number,
    smallest: Number,
    parts: Number,
    bandwidth: Number,
    *,
    operation: Operation,
    switched: bool,
) -> Number:
    """Least time of a collective by the bytes that must cross the border of each part of its group.

    all-reduce S / (m B), and 2 (p − 1) S / (n B) where no switch adds up; broadcast, reduce, send S / (m B);
    all-gather, reduce-scatter (n − m)/n S / (m B); all-to-all (n − m)/n S / B; nothing for a group of one part

    message [B]: the full buffer, S, as nccl-tests counts it · ranks n · smallest m: ranks of the smallest part
    parts p: nodes or single ranks · bandwidth B [B/s]: line rate of one rank across the border, one way · operation
    switched: whether switches outside the parts add up
    → no algorithm takes less [s]
    Source: patarasuk-2009; count of bytes
    Holds: without compression on the way
    Monotone: increasing in message; decreasing in bandwidth
    >>> float(line_rate_time(1e9, 64.0, 8.0, 8.0, 50e9, operation="all_reduce", switched=False))
    0.004375
    >>> float(line_rate_time(64e6, 16.0, 8.0, 2.0, 50e9, operation="all_to_all", switched=False))
    0.00064
    """
    smallest = np.minimum(smallest, ranks)
    whole = message * np.minimum(parts - 1, 1) / (smallest * bandwidth)
    if operation in ("broadcast", "reduce", "send"):
        return whole
    if operation == "all_reduce":
        both_ways = 2 * (parts - 1) * message / (ranks * bandwidth)
        return whole if switched else np.maximum(whole, both_ways)
    away = (ranks - smallest) / ranks * message
    return away / bandwidth if operation == "all_to_all" else away / (smallest * bandwidth)
