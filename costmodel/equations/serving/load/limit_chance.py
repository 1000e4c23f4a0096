"""The chance that limits are kept, where an error of step times moves waits more than the steps themselves."""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.uncertainty import SURE, normal_share
from costmodel.ground.equation import Number, equation

FARTHEST = 12.0  # standard deviations that are distinguished
HIGH = 0.9  # correlation over which it is integrated down from that of equal variables
# Of Gauss's rule with ten points on an interval: places from its middle, by half its length, and weights
_, _, _, _, _, *PLACES = np.polynomial.legendre.leggauss(10)[0].tolist()
_, _, _, _, _, *WEIGHTS = np.polynomial.legendre.leggauss(10)[1].tolist()


@equation
def log_slope(amount: Number, other_amount: Number, factor: Number) -> Number:
    """Power of a factor by which a result grows, on average up to that factor; 1 for a factor of 1.

    ln(x₁/x) / ln f, not under 1

    amount x [u]: the result without the factor · other_amount x₁ [u]: the result with it · factor f → power
    Source: exact
    Holds: waits grow faster than the steps that requests wait for
    >>> round(float(log_slope(10.0, 14.4, 1.2)), 6), float(log_slope(10.0, 10.0, 1.0))
    (2.0, 1.0)
    """
    apart = np.log(factor)
    known = np.abs(apart) > SURE
    return np.where(known, np.maximum(np.log(other_amount / amount) / np.where(known, apart, 1.0), 1.0), 1.0)


@equation
def remaining_error(whole_error: Number, error: Number) -> Number:
    """Standard deviation by all other kinds of error, where one kind is known; 0 where that is the larger.

    √(u² − u₁²)

    whole_error u [u]: by all kinds together · error u₁ [u]: by the known kind → standard deviation by the others [u]
    Source: jcgm-100 §5.1.2
    Holds: independent kinds
    >>> round(float(remaining_error(0.05, 0.03)), 6)
    0.04
    """
    return np.maximum(whole_error**2 - error**2, 0.0) ** 0.5


@equation
def chance_of_both(deviations: Number, other_deviations: Number, correlation: Number) -> Number:
    """Chance that two normal variables both lie below so many standard deviations over their means.

    Φ(h) Φ(k) + (1/2π) ∫ exp(−(h² + k² − 2 h k sin θ) / (2 cos² θ)) dθ, θ from 0 to arcsin r; over r = 0.9
    min(Φ(h), Φ(k)) less the integral from arcsin r to π/2; by Gauss's ten points

    deviations h: of the first over its mean · other_deviations k: of the second over its mean
    correlation r: of the two
    → chance
    Source: abramowitz-1964 §26.3.3; genz-2004
    Holds: correlations from 0 to 1, to 0.0002
    >>> [round(float(chance_of_both(0.0, 0.0, each)), 4) for each in (0.0, 0.5, 0.99, 1.0)]
    [0.25, 0.3333, 0.4775, 0.5]
    """
    one, other = np.clip(deviations, -FARTHEST, FARTHEST), np.clip(other_deviations, -FARTHEST, FARTHEST)
    shared = np.clip(correlation, 0.0, 1.0)
    angle, high = np.arcsin(shared), np.asarray(shared) > HIGH
    half = np.where(high, np.pi / 2 - angle, angle) / 2
    middle = np.where(high, angle, 0.0) + half
    first, second, third, fourth, fifth = WEIGHTS
    inner = first * _pair(one, other, middle, half * PLACES[0]) + second * _pair(one, other, middle, half * PLACES[1])
    outer = fourth * _pair(one, other, middle, half * PLACES[3]) + fifth * _pair(one, other, middle, half * PLACES[4])
    gained = half * (inner + third * _pair(one, other, middle, half * PLACES[2]) + outer)
    below, other_below = normal_share(one), normal_share(other)
    chance = np.where(high, np.minimum(below, other_below) - gained, below * other_below + gained)
    found: Number = np.clip(chance, 0.0, 1.0)
    return found


def _pair(one: Number, other: Number, middle: Number, off: Number) -> Number:
    """What both angles so far from the middle add."""
    return _strip(one, other, middle - off) + _strip(one, other, middle + off)


def _strip(one: Number, other: Number, angle: Number) -> Number:
    """What a little more of the angle whose sine is the correlation adds to the chance."""
    free = np.cos(angle) ** 2
    density: Number = np.exp(-(one**2 + other**2 - 2 * one * other * np.sin(angle)) / (2 * free)) / (2 * np.pi)
    return density


@equation
def chance_between(upper_chance: Number, lower_chance: Number) -> Number:
    """Chance that a figure lies between two bounds; none where the lower one is over the upper one.

    max(Φᵤ − Φₗ, 0)

    upper_chance Φᵤ: that it lies below the upper bound · lower_chance Φₗ: that it lies below the lower bound → chance
    Source: exact
    Holds: bounds on one figure, or on figures that are off together
    >>> round(float(chance_between(0.75, 0.5)), 6), float(chance_between(0.5, 0.75))
    (0.25, 0.0)
    """
    return np.maximum(upper_chance - lower_chance, 0.0)


@equation
def chance_with(chance: Number, joint_chance: Number, shared_chance: Number) -> Number:
    """Chance that limits of a further kind are kept too, where both kinds depend on one error; 0 without a chance.

    P P₂ / P₁

    chance P: that the limits before are kept
    joint_chance P₂: that those on the shared error and those of the further kind are
    shared_chance P₁: that those on the shared error alone are
    → chance
    Source: exact
    Holds: kinds that are independent once the limits on the shared error are kept
    >>> round(float(chance_with(0.72, 0.4, 0.8)), 6), float(chance_with(0.0, 0.0, 0.0))
    (0.36, 0.0)
    """
    known = np.asarray(shared_chance) > 0
    return np.where(known, chance * joint_chance / np.where(known, shared_chance, 1.0), 0.0)
