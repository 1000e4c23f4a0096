"""A ring all-reduce step by step: which chunk a rank sends when."""

from __future__ import annotations

from typing import Literal

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def ring_chunk(member: Number, ring_step: Number, ranks: Number, *, half: Literal["scatter", "gather"]) -> Number:
    """Chunk that a rank of a ring sends to the next one in a step of an all-reduce.

    scatter, which adds on the way: (r − s) mod n; gather, which passes sums on: (r + 1 − s) mod n; s from 0 to n − 2

    member: position in the ring, r, from 0 · ring_step: of the half, s, from 0
    ranks n: ranks in the ring and chunks of the buffer · half: the scattering first half, or the gathering second half
    → chunk, from 0
    Source: thakur-2005; count
    >>> [float(ring_chunk(0.0, s, 4.0, half="scatter")) for s in (0.0, 1.0, 2.0)]
    [0.0, 3.0, 2.0]
    """
    return np.mod(member - ring_step + (0.0 if half == "scatter" else 1.0), ranks)
