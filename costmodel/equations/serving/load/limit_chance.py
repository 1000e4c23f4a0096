"""The chance that limits are kept, where an error of step times moves waits more than the steps themselves."""

from __future__ import annotations

import numpy as np

from costmodel.equations.serving.load.percentiles import normal_share
from costmodel.ground.equation import Number, equation

SURE = 1e-9  # spread, or logarithm of a factor, from which it is taken as nothing
FARTHEST = 12.0  # standard deviations that are distinguished
HIGHEST = 0.999  # correlation
# Of Gauss's rule with five points on an interval: places from its middle, by half its length, and weights
INNER, OUTER = 0.5384693101056831, 0.9061798459386640
MIDDLE_WEIGHT, INNER_WEIGHT, OUTER_WEIGHT = 0.5688888888888889, 0.4786286704993665, 0.2369268850561891


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
def remaining_error(whole_error: Number, error: Number) -> Number:
    """Standard deviation by all other kinds of error, where one kind is known; 0 where that is the larger.

    √(u² − u₁²)

    Args:
        whole_error: by all kinds together, u [u]
        error: by the known kind, u₁ [u]

    Returns:
        standard deviation by the others [u]

    Example:
        >>> round(float(remaining_error(0.05, 0.03)), 6)
        0.04

    Holds: independent kinds
    Source:
        jcgm-100 §5.1.2
    """
    return np.maximum(whole_error**2 - error**2, 0.0) ** 0.5


@equation
def chance_of_both(deviations: Number, other_deviations: Number, correlation: Number) -> Number:
    """Chance that two normal variables both lie below so many standard deviations over their means.

    Φ(h) Φ(k) + (1/2π) ∫ exp(−(h² + k² − 2 h k s) / (2 (1 − s²))) / √(1 − s²) ds, s from 0 to r, by Gauss's five points

    Args:
        deviations: of the first over its mean, h [1]
        other_deviations: of the second over its mean, k [1]
        correlation: of the two, r [1]

    Returns:
        chance [1]

    Example:
        >>> round(float(chance_of_both(0.0, 0.0, 0.5)), 4), round(float(chance_of_both(1.0, 2.0, 0.0)), 4)
        (0.3333, 0.8222)

    Holds: to 0.002 up to a correlation of 0.98
    Source:
        abramowitz-1964 §26.3.3
    """
    one, other = np.clip(deviations, -FARTHEST, FARTHEST), np.clip(other_deviations, -FARTHEST, FARTHEST)
    half = np.clip(correlation, 0.0, HIGHEST) / 2
    near = _strip(one, other, half * (1 - INNER)) + _strip(one, other, half * (1 + INNER))
    far = _strip(one, other, half * (1 - OUTER)) + _strip(one, other, half * (1 + OUTER))
    gained = half * (MIDDLE_WEIGHT * _strip(one, other, half) + INNER_WEIGHT * near + OUTER_WEIGHT * far)
    return np.clip(normal_share(one) * normal_share(other) + gained, 0.0, 1.0)


def _strip(one: Number, other: Number, shared: Number) -> Number:
    """Density of two normal variables of that correlation: what a little more correlation adds to the chance."""
    free = 1 - shared**2
    density: Number = np.exp(-(one**2 + other**2 - 2 * one * other * shared) / (2 * free)) / (2 * np.pi * free**0.5)
    return density
