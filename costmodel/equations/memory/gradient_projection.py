"""States of an optimizer that keeps those of matrices in a subspace of low rank."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def projected_state_bytes(rank: Number, n: Number, k: Number, moments: Number, element: Number) -> Number:
    """States of a weight matrix whose gradient is projected on a subspace of its short side, with the basis of it.

    r (s max(n, k) + e min(n, k)), where a rank over the short side counts as that

    Args:
        rank: rank of the subspace, r [1]
        n: outputs of the matrix [1]
        k: inputs of it [1]
        moments: bytes of the optimizer's states for an element of the projected gradient, s [B]
        element: bytes of an element of the basis, e [B]

    Returns:
        bytes [B]

    Example:
        >>> round(float(projected_state_bytes(512.0, 2048.0, 5461.0, 4.0, 2.0)) / (4.0 * 2048 * 5461), 3)
        0.297

    Source:
        zhao-2024 table 1

    Pitfall:
        embedding, head and norms are not projected; where they are large, little is spared

    Monotone: increasing in rank, n, k, moments, element
    """
    short = np.minimum(n, k)
    return np.minimum(rank, short) * (moments * np.maximum(n, k) + element * short)


@equation
def mean_state_bytes(projected: Number, unprojected: Number, kept: Number, moments: Number) -> Number:
    """States for a parameter, in the mean over a model of whose matrices some are projected.

    (K + s Ψ_r) / (Ψ_p + Ψ_r)

    Args:
        projected: parameters of projected matrices, Ψ_p [1]
        unprojected: all other parameters, Ψ_r [1]
        kept: states of these with their bases, K [B]
        moments: bytes of the states of a parameter that is not projected, s [B]

    Returns:
        bytes [B]

    Example:
        >>> mean_state_bytes(7e9, 1e9, 4e9, 4.0)
        1.0

    Source:
        exact

    Monotone: increasing in kept, moments
    """
    return (kept + moments * unprojected) / (projected + unprojected)
