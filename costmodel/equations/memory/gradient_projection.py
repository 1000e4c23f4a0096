"""States of an optimizer that keeps those of matrices in a subspace of low rank."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def projected_state_bytes(rank: Number, n: Number, k: Number, moments: Number, element: Number) -> Number:
    """States of a weight matrix whose gradient is projected on a subspace of its short side, with the basis of it.

    r (s max(n, k) + e min(n, k)), where a rank over the short side counts as that

    rank r: rank of the subspace · n: outputs of the matrix · k: inputs of it
    moments s [B]: bytes of the optimizer's states for an element of the projected gradient
    element e [B]: bytes of an element of the basis
    → bytes [B]
    Source: zhao-2024 table 1
    Pitfall: embedding, head and norms are not projected; where they are large, little is spared
    Monotone: increasing in rank, n, k, moments, element
    >>> round(float(projected_state_bytes(512.0, 2048.0, 5461.0, 4.0, 2.0)) / (4.0 * 2048 * 5461), 3)
    0.297
    """
    short = np.minimum(n, k)
    return np.minimum(rank, short) * (moments * np.maximum(n, k) + element * short)


@equation
def mean_state_bytes(projected: Number, unprojected: Number, kept: Number, moments: Number) -> Number:
    """States for a parameter, in the mean over a model of whose matrices some are projected.

    (K + s Ψ_r) / (Ψ_p + Ψ_r)

    projected Ψ_p: parameters of projected matrices · unprojected Ψ_r: all other parameters
    kept K [B]: states of these with their bases
    moments s [B]: bytes of the states of a parameter that is not projected
    → bytes [B]
    Source: exact
    Monotone: increasing in kept, moments
    >>> mean_state_bytes(7e9, 1e9, 4e9, 4.0)
    1.0
    """
    return (kept + moments * unprojected) / (projected + unprojected)
