"""The chance that limits are kept, where an error of step times moves waits more than the steps themselves."""

from __future__ import annotations

import numpy as np

from costmodel.equations.serving.load.percentiles import normal_share
from costmodel.ground.equation import Number, equation

SURE = 1e-9  # spread, or logarithm of a factor, from which it is taken as nothing
FARTHEST = 12.0  # standard deviations that are told apart
LEGENDRE = tuple(zip(*(each.tolist() for each in np.polynomial.legendre.leggauss(10)), strict=True))


@equation
def spreads_away(amount: Number, allowance: Number, spread: Number) -> Number:
    """Spreads by which a figure lies within a limit; negative beyond it.

    ln(l / x) / σ

    Args:
        amount: the prediction, taken as the median, x [u]
        allowance: what it may be at most, l [u]
        spread: uncertainty, standard deviation of the logarithm, σ [1]

    Returns:
        standard deviations [1]

    Example:
        >>> round(float(spreads_away(70.0, 80.0, 0.104194)), 3)
        1.282

    Holds: log-normal errors
    Source:
        limpert-2001

    Monotone: increasing in allowance; decreasing in amount
    """
    return np.log(allowance / amount) / np.maximum(spread, SURE)


@equation
def log_slope(amount: Number, other_amount: Number, factor: Number) -> Number:
    """Power of a factor by which a result grows, on average up to that factor; 1 for a factor of 1.

    ln(x₁/x) / ln f, not under 1

    Args:
        amount: the result without the factor, x [u]
        other_amount: the result with it, x₁ [u]
        factor: on all step times, f [1]

    Returns:
        power [1]

    Example:
        >>> round(float(log_slope(10.0, 14.4, 1.2)), 6), float(log_slope(10.0, 10.0, 1.0))
        (2.0, 1.0)

    Holds: waits grow faster than the steps that requests wait for
    Source:
        exact
    """
    apart = np.log(factor)
    known = np.abs(apart) > SURE
    return np.where(known, np.maximum(np.log(other_amount / amount) / np.where(known, apart, 1.0), 1.0), 1.0)


@equation
def chance_of_both(deviations: Number, other_deviations: Number, correlation: Number) -> Number:
    """Chance that two normal variables both lie below so many standard deviations over their means.

    Φ(h) Φ(k) + (1/2π) ∫ exp(−(h² + k² − 2 h k sin θ) / (2 cos² θ)) dθ, θ from 0 to arcsin r, by Gauss's ten points

    Args:
        deviations: of the first over its mean, h [1]
        other_deviations: of the second over its mean, k [1]
        correlation: of the two, r [1]

    Returns:
        chance [1]

    Example:
        >>> round(float(chance_of_both(0.0, 0.0, 0.5)), 6), round(float(chance_of_both(1.0, 2.0, 0.0)), 4)
        (0.333333, 0.8222)

    Holds: to 0.001 up to a correlation of 0.98
    Source:
        abramowitz-1964 §26.3.3

    Monotone: increasing in deviations, other_deviations, correlation
    """
    one, other = (np.clip(each, -FARTHEST, FARTHEST) for each in (deviations, other_deviations))
    end, joined = np.arcsin(np.clip(correlation, -1.0, 1.0)) / 2, normal_share(one) * normal_share(other)
    for place, weight in LEGENDRE:
        angle = end * (1 + place)
        away = (one**2 + other**2 - 2 * one * other * np.sin(angle)) / (2 * np.cos(angle) ** 2)
        joined = joined + weight * end * np.exp(-away) / (2 * np.pi)
    return np.clip(joined, 0.0, 1.0)
