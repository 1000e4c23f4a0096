"""Ranks that take random times: the largest or k-th smallest of many, and what a step waits for."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation

# Distribution of a standard normal variable on a grid that holds all but 1e-19 of it, by quadrature between neighbours.
STEP, HIGH = 1 / 16, 9.0
GRID = np.arange(-HIGH, HIGH + STEP / 2, STEP)
# Gauss's rule with eight points on an interval: places from its middle, by half its length, and weights; of both the
# upper half, which the lower one mirrors. numpy.polynomial would be imported for these alone.
UPPER = np.array([0.18343464249564978, 0.525532409916329, 0.7966664774136267, 0.9602898564975362])
OF_UPPER = np.array([0.36268378337836166, 0.3137066458778869, 0.22238103445337443, 0.10122853629037706])
POINTS, WEIGHTS = np.concatenate([-UPPER[::-1], UPPER]), np.concatenate([OF_UPPER[::-1], OF_UPPER])
DENSITY = np.exp(-((GRID[1:, np.newaxis] + STEP / 2 * (POINTS - 1)) ** 2) / 2) / np.sqrt(2 * np.pi)
BELOW = np.minimum(np.concatenate([[0.0], np.cumsum(DENSITY @ WEIGHTS * STEP / 2)]), 1.0)
# Abramowitz and Stegun, 26.2.23.
ABOVE_LINE, BELOW_LINE = (2.515517, 0.802853, 0.010328), (1.432788, 0.189269, 0.001308)
EULER_GAMMA = 0.5772156649015329
SHIFT = np.arange(1.0, 9.0)


# --- The largest, or the k-th smallest, of many random times: what ranks that wait for each other wait for.


@equation
def normal_percentile(probability: Number) -> Number:
    """Value that a standard normal variable stays below with a probability.

    Φ⁻¹(p) ≈ ± (t − (c₀ + c₁ t + c₂ t²) / (1 + d₁ t + d₂ t² + d₃ t³)), t = √(−2 ln min(p, 1 − p))

    probability: p, between 0 and 1 → quantile, off by less than 4.5e-4
    Source: abramowitz-1964 §26.2.23
    Holds: 0 < p < 1
    Monotone: increasing in probability
    >>> round(float(normal_percentile(0.975)), 2), round(float(normal_percentile(0.1)), 2)
    (1.96, -1.28)
    """
    t: Number = np.sqrt(-2 * np.log(np.minimum(probability, 1 - probability)))
    above = ABOVE_LINE[0] + t * (ABOVE_LINE[1] + t * ABOVE_LINE[2])
    below = 1 + t * (BELOW_LINE[0] + t * (BELOW_LINE[1] + t * BELOW_LINE[2]))
    size: Number = np.maximum(t - above / below, 0.0)
    return np.where(probability < 0.5, -size, size)


@equation
def expected_maximum(ranks: Number) -> Number:
    """Expected largest of n standard normal variables, by a trapezoidal rule with fixed points.

    E[max] = ∫ x d(Φⁿ) = 9 − ∫ Φⁿ dx from −9 to 9

    ranks n: variables → in standard deviations above the mean
    Source: david-2003 §3.1; composition
    Holds: independent normal variables; to 1e-9 up to ten million of them
    Pitfall: √(2 ln n) is an upper bound, 43 % high for 8 ranks and still 11 % high for 16,384
    Monotone: increasing in ranks
    >>> round(float(expected_maximum(8.0)), 4), round(float(expected_maximum(16384.0)), 4)
    (1.4236, 3.9714)
    """
    below = np.sum(BELOW ** np.expand_dims(ranks, -1), axis=-1)
    return np.where(ranks > 1, HIGH - STEP * (below - 0.5), 0.0)


@equation
def maximum_spread(ranks: Number) -> Number:
    """Standard deviation of the largest of n standard normal variables.

    √(E[max²] − E[max]²), E[max²] = 81 − ∫ 2 x Φⁿ dx from −9 to 9

    ranks n: variables → in standard deviations of one of them
    Source: david-2003 §3.1; composition
    Holds: independent normal variables
    Monotone: decreasing in ranks
    >>> round(float(maximum_spread(1.0)), 4), round(float(maximum_spread(64.0)), 4)
    (1.0, 0.4504)
    """
    below = BELOW ** np.expand_dims(ranks, -1)
    largest = HIGH - STEP * (np.sum(below, axis=-1) - 0.5)
    squared = HIGH**2 - 2 * STEP * (np.sum(GRID * below, axis=-1) - HIGH / 2)
    return np.where(ranks > 1, np.sqrt(np.maximum(squared - largest**2, 0.0)), 1.0)


@equation
def expected_order_statistic(awaited: Number, ranks: Number) -> Number:
    """Expected k-th smallest of n standard normal variables.

    Φ⁻¹((k − 3/8) / (n + 1/4))

    awaited: which one, counted from the smallest, k; at most all · ranks n: variables
    → in standard deviations above the mean
    Source: hyndman-1996
    Holds: within 0.02 of a standard deviation of the exact value from 4 to 512 variables
    Monotone: increasing in awaited
    >>> round(float(expected_order_statistic(60.0, 64.0)), 2)
    1.46
    """
    return normal_percentile((np.minimum(awaited, ranks) - 0.375) / (ranks + 0.25))


# --- What a step waits for when ranks take random times: all of them, or the first few.


@equation
def jitter_slowdown(ranks: Number, jitter: Number, micro_batches: Number) -> Number:
    """Step time over its mean when it waits for the slowest of many ranks whose times vary from step to step.

    1 + v/√m E[max of n]

    ranks n: ranks that wait for each other
    jitter v: standard deviation of a rank's time over its mean, for one micro-batch
    micro_batches: micro-batches over which it averages out before ranks wait, m; 1 for a spread that stays
    → slowdown
    Source: lin-2025; david-2003 §3.1
    Holds: independent normal times; slowest_part has the bound √(2 ln n) in place of the expected maximum
    Pitfall: in 3,079 jobs the 90th percentile of a step is 1.06 of its median: slowdown mostly stays the same for a
        whole job, from uneven stages and sequences, so jitter is no default
    Monotone: increasing in ranks, jitter; decreasing in micro_batches
    >>> round(float(jitter_slowdown(512.0, 0.03, 64.0)), 4), round(float(jitter_slowdown(512.0, 0.03, 1.0)), 4)
    (1.0114, 1.0913)
    """
    return 1 + jitter / np.sqrt(micro_batches) * expected_maximum(ranks)


@equation
def partial_wait_slowdown(awaited: Number, ranks: Number, jitter: Number) -> Number:
    """Step time over the mean of a rank when it waits for the first k of n ranks.

    1 + v Φ⁻¹((k − 3/8) / (n + 1/4))

    awaited: ranks that the step waits for, k; at most all · ranks n: ranks
    jitter v: standard deviation of a rank's time over its mean
    → time over the mean
    Source: hyndman-1996; chen-2016-backup
    Holds: independent normal times
    Monotone: increasing in awaited
    >>> round(float(partial_wait_slowdown(60.0, 64.0, 0.1)), 3)
    1.146
    """
    return 1 + jitter * expected_order_statistic(awaited, ranks)


@equation
def partial_wait_gain(awaited: Number, ranks: Number, jitter: Number) -> Number:
    """Samples a second when steps wait for the first k of n ranks, over those when they wait for all.

    k/n · (1 + v E[max of n]) / (1 + v Φ⁻¹((k − 3/8) / (n + 1/4)))

    awaited: ranks that a step waits for, k; at most all · ranks n: ranks
    jitter: standard deviation of a rank's time over its mean, v; a share of it
    → rate over rate; under 1 where leaving ranks out costs more samples than it saves time
    Source: hyndman-1996; chen-2016-backup; composition
    Holds: independent normal times, v Φ⁻¹ above −1; the samples of ranks that are not waited for are lost; no estimate
        calls it
    >>> round(float(partial_wait_gain(60.0, 64.0, 0.1)), 3)
    1.01
    """
    used = np.minimum(awaited, ranks) / ranks
    return used * jitter_slowdown(ranks, jitter, 1.0) / partial_wait_slowdown(awaited, ranks, jitter)


@equation
def averaged_jitter(jitter: Number, micro_batches: Number) -> Number:
    """Jitter of the mean of several micro-batches.

    v / √m

    jitter v: standard deviation of a rank's time over its mean, for one micro-batch
    micro_batches m: micro-batches over which it averages out
    → standard deviation over the mean
    Source: composition
    Holds: independent micro-batches
    Monotone: increasing in jitter; decreasing in micro_batches
    >>> float(averaged_jitter(0.08, 64.0))
    0.01
    """
    return jitter / np.sqrt(micro_batches)


@equation
def slow_part_slowdown(slow_share: Number, ranks: Number, *, waits: bool) -> Number:
    """Time of a step over that without one slow part.

    1/s where all wait for it; n/(n − 1 + s) where the others continue without it

    slow_share s: speed of the slow part over that of the others · ranks n: parts that take steps · waits → slowdown
    Source: lin-2025; composition
    Holds: a time that is all compute
    Monotone: decreasing in slow_share
    >>> slow_part_slowdown(0.5, 64.0, waits=True), round(slow_part_slowdown(0.5, 64.0, waits=False), 4)
    (2.0, 1.0079)
    """
    return 1 / slow_share if waits else ranks / (ranks - 1 + slow_share)
