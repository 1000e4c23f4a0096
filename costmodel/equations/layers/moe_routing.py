"""How tokens fall on experts when they are not spread evenly."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def load_variation(tokens: Number, top_k: Number, experts: Number, skew: Number) -> Number:
    """Variation of the rows of an expert over their mean, where they are drawn by a power law between two ends.

    √(E[x²] / E[x]² − 1), p(x) ∝ x^−α from 1 to 0.8 T, from 0.01 to 2 if T k ≤ E

    tokens T: tokens routed · top_k k · experts E: routed experts · skew: exponent of the power law, α, between 1 and 2
    → standard deviation over mean
    Source: aiconfigurator collector/helper.py; exact
    >>> round(float(load_variation(16384.0, 8.0, 160.0, 1.2)), 2)
    3.01
    """
    least, most = _ends(tokens, top_k, experts)
    mean = _moment(1.0, least, most, skew)
    spread = _moment(2.0, least, most, skew) * _moment(0.0, least, most, skew) / mean**2
    return np.maximum(spread - 1, 0) ** 0.5


@equation
def rank_variation(variation: Number, experts: Number, ep: Number) -> Number:
    """Variation of the rows of a rank that holds several experts of a layer, the rows of all ranks being given.

    v √((n − 1) / E)

    variation v: variation of one expert · experts E: routed experts · ep n → standard deviation over mean
    Source: exact
    Monotone: increasing in variation, ep; decreasing in experts
    >>> float(rank_variation(2.0, 64.0, 17.0))
    1.0
    """
    return variation * ((ep - 1) / experts) ** 0.5


@equation
def drawing_share(tokens: Number, top_k: Number, experts: Number, skew: Number) -> Number:
    """Share of experts that draw a row at all, where rows are drawn by the power law of load_variation.

    P(x > E E[x] / (2 T k)): fewer than half a row is none

    tokens T: tokens routed · top_k k · experts E: routed experts · skew: exponent of the power law, between 1 and 2
    → share
    Source: aiconfigurator collector/helper.py; exact
    >>> [round(float(drawing_share(tokens, 8.0, 160.0, 1.2)), 2) for tokens in (8.0, 64.0, 16384.0)]
    [0.23, 0.84, 1.0]
    """
    least, most = _ends(tokens, top_k, experts)
    total = _moment(0.0, least, most, skew)
    half = experts * _moment(1.0, least, most, skew) / total / (2 * tokens * top_k)
    return _moment(0.0, np.minimum(np.maximum(half, least), most), most, skew) / total


def _ends(tokens: Number, top_k: Number, experts: Number) -> tuple[Number, Number]:
    many = tokens * top_k > experts
    return np.where(many, 1.0, 0.01), np.where(many, np.maximum(0.8 * tokens, 1.01), 2.0)


def _moment(power: float, least: Number, most: Number, skew: Number) -> Number:
    """Integral of x to this power over the law; an exponent of 0 would make it a logarithm, which a near one meets."""
    near = power + 1 - skew
    grown = np.where(np.abs(near) < 1e-6, 1e-6, near)
    return (most**grown - least**grown) / grown
