"""Limits on times of requests: percentiles, the share and rate within limits, and the chance to keep them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.run.uncertainty import SURE, normal_share
from costmodel.ground.equation import Number, equation

P99 = 2.3263478740408408  # standard deviations above the mean that one in a hundred of a normal variable exceeds
SECOND = 1.0  # stands for a time that is not finite, in the rows where it is not used
FARTHEST = 12.0  # standard deviations that are distinguished
HIGH = 0.9  # correlation over which it is integrated down from that of equal variables
# Of Gauss's rule with ten points on an interval: places from its middle, by half its length, and weights
PLACES = [0.14887433898163122, 0.4333953941292472, 0.6794095682990244, 0.8650633666889845, 0.9739065285171717]
WEIGHTS = [0.2955242247147528, 0.2692667193099965, 0.219086362515982, 0.1494513491505804, 0.06667134430868814]


# --- Log-normal times: what only a share exceeds, and the share that keeps a limit.


@equation
def normal_quantile(tail_share: Number) -> Number:
    """Standard deviations above the mean that a share of a normal variable exceeds.

    z = t − (c₀ + c₁ t + c₂ t²) / (1 + d₁ t + d₂ t² + d₃ t³), t = √(−2 ln p); −z(1 − p) for p over one half

    tail_share p: share beyond → standard deviations, z
    Source: abramowitz-1964 26.2.23
    Holds: to 0.00045
    Monotone: decreasing in tail_share
    >>> [round(float(normal_quantile(share)), 3) for share in (0.01, 0.1, 0.9)]
    [2.327, 1.282, -1.282]
    """
    lesser = np.minimum(tail_share, 1 - tail_share)
    root = np.sqrt(-2 * np.log(np.maximum(lesser, 1e-300)))
    upper = 2.515517 + root * (0.802853 + root * 0.010328)
    lower = 1 + root * (1.432788 + root * (0.189269 + root * 0.001308))
    deviations: Number = np.where(tail_share > 0.5, -1.0, 1.0) * (root - upper / lower)
    return deviations


@equation
def lognormal_percentile(fastest: Number, mean: Number, variance: Number, deviations: Number) -> Number:
    """Percentile of a time that is log-normal above its fastest value, by standard deviations.

    l + m e^(z σ − σ²/2), m = mean − l, σ² = ln(1 + variance / m²); ∞ where the mean is

    fastest l [s]: time that no request is under · mean [s]: mean time · variance [s·s]: of the time
    deviations: standard deviations over the mean of a normal variable, z; 2.326 for p99, 0 for the median
    → time [s]
    Source: limpert-2001
    Monotone: increasing in deviations
    >>> round(float(lognormal_percentile(0.01, 0.18, 0.01, 2.326)), 3)
    0.531
    """
    finite, floor, above, spread = _shape(fastest, mean, variance)
    grown = np.exp(np.minimum(deviations * spread - spread**2 / 2, 700.0))
    return np.where(finite, 1.0, np.inf) * (floor + above * grown)


@equation
def percentile_of_sum(mean: Number, excess: Number, other_excess: Number) -> Number:
    """Percentile of a time that varies for two reasons, by how far each of them alone is beyond the mean there.

    m + √(e₁² + e₂²)

    mean m [s]: mean time · excess e₁ [s]: percentile by one reason alone, less the mean
    other_excess e₂ [s]: percentile by the other one alone, less the mean
    → time [s]
    Source: jcgm-100 §5.1.2
    Holds: independent reasons; exact for normal variables
    Monotone: increasing in mean, excess, other_excess
    >>> round(float(percentile_of_sum(0.02, 0.003, 0.004)), 6)
    0.025
    """
    return mean + np.hypot(excess, other_excess)


@equation
def share_within(limit: Number, fastest: Number, mean: Number, percentile: Number) -> Number:
    """Share of requests that keep a limit, of a time that is log-normal above the fastest one.

    Φ((ln((T − l) / m) + σ²/2) / σ), m = mean − l, σ = z − √(z² − 2 ln((q − l) / m)), z = 2.326; 0 where T ≤ l or the
    mean is ∞

    limit T [s] · fastest l [s]: time that no request is under · mean [s]: mean time · percentile q [s] → share
    Source: limpert-2001; zhong-2024
    Holds: the log-normal that has this mean and this p99. Of 150 simulated shares it is 1.2 % off in the median; at
        worst 10 % of times per token, and 31 % of first tokens where all prompts are alike
    Pitfall: a mean within its limit is no promise to a request: about half of them take longer
    Monotone: increasing in limit
    >>> [round(float(share_within(limit, 0.01, 0.18, 0.531)), 3) for limit in (0.18, 0.531)]
    [0.607, 0.99]
    """
    finite: NDArray[np.bool_] = np.isfinite(mean) & np.isfinite(percentile)
    floor = np.where(finite, fastest, SECOND)
    above = np.where(finite, np.maximum(mean - floor, 1e-9 * np.abs(mean)), SECOND)
    far = np.where(finite, np.maximum((percentile - floor) / above, 1.0), 1.0)
    spread = np.maximum(P99 - np.sqrt(np.maximum(P99**2 - 2 * np.log(far), 0.0)), 1e-6)
    room = np.log(np.maximum((limit - floor) / above, 1e-300)) + spread**2 / 2
    return np.where(finite & (limit > floor), normal_share(room / spread), 0.0)


def _shape(fastest: Number, mean: Number, variance: Number) -> tuple[NDArray[np.bool_], Number, Number, Number]:
    """Whether mean and variance are finite; the fastest time, the mean above it, the deviation of its logarithm."""
    finite: NDArray[np.bool_] = np.isfinite(mean) & np.isfinite(variance)
    floor = np.where(finite, fastest, SECOND)
    above = np.where(finite, np.maximum(mean - floor, 1e-9 * np.abs(mean)), SECOND)
    relative = np.where(finite, variance, SECOND * SECOND) / above**2
    spread: Number = np.sqrt(np.log1p(np.maximum(relative, 1e-12)))
    return finite, floor, above, spread


# --- How unlike the times per token of requests are, and the rate of requests that stay within limits.


@equation
def met_prompts_variance(
    request_rate: Number,
    tpot: Number,
    prompt_work: Number,
    output: Number,
    prompt_variation: Number,
    answer_variation: Number,
    prompt_utilisation: Number,
) -> Number:
    """Variance of a request's time per token, by how many prompts of others its tokens meet.

    λ t (γ s)² (1 + v_s²) (1 + v_o²) / (o (1 − ρ_p)²): it meets λ o t of them at random, each in its own length, and
    those that come meanwhile make them longer; short answers are means over fewer steps

    request_rate λ [1/s]: requests a second of one replica · tpot t [s]: mean time per token
    prompt_work [s]: time that a prompt adds to steps, γ s · output o: tokens that are generated, on average
    prompt_variation v_s: of the lengths of prompts · answer_variation v_o: of the lengths of answers
    prompt_utilisation: share of time that goes into prompts, ρ_p = λ γ s
    → variance [s·s]
    Source: hawkes-1971; composition
    Monotone: increasing in prompt_work, prompt_variation, answer_variation, prompt_utilisation
    >>> round(float(met_prompts_variance(4.0, 0.0206, 0.098, 512.0, 0.0, 0.0, 0.39)) ** 0.5 * 1e3, 2)
    2.04
    """
    unlike = (1 + prompt_variation**2) * (1 + answer_variation**2)
    free = np.maximum(1 - prompt_utilisation, 1e-3)
    return request_rate * tpot * prompt_work**2 * unlike / (output * free**2)


@equation
def crowd_deviation(base_load: Number, utilisation: Number, prompt_utilisation: Number) -> Number:
    """Standard deviation of how many others are in flight while a request is.

    √(⅔ (A + ρ)) / ((1 − ρ) (1 − ρ_p)): of a mean over the time for which they are there, whose variance is ⅔ of that at
    one moment

    base_load: requests in flight if none slowed another down, A = λ α o
    utilisation: share of time that goes into requests, ρ = λ w
    prompt_utilisation: share of time that goes into prompts, ρ_p = λ γ s
    → requests
    Source: kelly-1979; composition
    Monotone: increasing in base_load, utilisation, prompt_utilisation
    >>> round(float(crowd_deviation(20.0, 0.5, 0.39)), 1)
    12.1
    """
    free = np.maximum((1 - utilisation) * (1 - prompt_utilisation), 1e-3)
    return ((2 / 3) * (base_load + utilisation)) ** 0.5 / free


@equation
def goodput_rate(request_rate: Number, first_share: Number, token_share: Number) -> Number:
    """Requests a second whose first token and whose time per token are both within their limits.

    λ P₁ P₂

    request_rate λ [1/s] · first_share P₁ · token_share P₂: share of requests whose time per token is
    → requests a second [1/s]
    Source: zhong-2024 §2
    Holds: limits that are kept or broken independently
    Pitfall: it is of this load; the highest rate that meets the limits is another
    Monotone: increasing in request_rate, first_share, token_share
    >>> goodput_rate(4.0, 0.5, 0.5)
    1.0
    """
    return request_rate * first_share * token_share


# --- The chance that limits are kept, where an error of step times moves waits more than the steps themselves.


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
    """Chance that two correlated normal variables both lie below their bounds.

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
    bounded: Number = np.clip(chance, 0.0, 1.0)
    return bounded


def _pair(one: Number, other: Number, middle: Number, off: Number) -> Number:
    """Sum of the integrand at two angles placed symmetrically around the middle."""
    return _strip(one, other, middle - off) + _strip(one, other, middle + off)


def _strip(one: Number, other: Number, angle: Number) -> Number:
    """Integrand of the chance over the angle whose sine is the correlation."""
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
