"""Unequal ranks: what a step waits for where times are random, and shares with which unequal parts end together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from costmodel.ground.equation import Number, equation

# --- ranks that take random times: the largest or k-th smallest of many, and what a step waits for


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


# --- parts and stages of unequal speed: shares with which all end together, under limits or not


Parts = NDArray[np.float64]


# --- Parts of unequal speed that share a batch: when all end together, and what equal shares cost.
#
# Speeds of alike parts, or of the slowest times how many there are, are `repeated`.


@equation
def fixed_work(speed: Number, fixed: Number) -> Number:
    """Work that a part would do in the time that is fixed for it.

    s c

    speed [1/s]: of the part, s: what it gets done in a second, samples or layers
    fixed c [s]: time that it takes whatever its share
    → samples
    Source: composition
    Monotone: increasing in speed, fixed
    >>> fixed_work(2.5, 0.5)
    1.25
    """
    return speed * fixed


@equation
def balanced_time(global_batch: Number, speed: Number, fixed_work: Number) -> Number:
    """Time of a step when unequal parts get shares with which all end together.

    t = (B + Σ s c) / Σ s

    global_batch B: samples of the step · speed Σ s [1/s]: of all parts together
    fixed_work: work they would do in their fixed times, Σ s c
    → time, t [s]
    Source: composition
    Holds: shares that can be any number, none of them under 0 and all within memory; whole_shares and balanced_shares
        hold to both
    Pitfall: with uneven shares gradients are weighted by samples, not by ranks
    Monotone: increasing in global_batch, fixed_work; decreasing in speed
    >>> round(balanced_time(1.0, 2.5, 0.125), 6)
    0.45
    """
    return (global_batch + fixed_work) / speed


@equation
def balanced_share(speed: Number, time: Number, fixed: Number) -> Number:
    """Samples that a part gets done until all end together.

    b = s (t − c), at least 0

    speed s [1/s]: of the part · time t [s]: of the step · fixed c [s]: time that it takes whatever its share
    → samples, b
    Source: composition
    Monotone: increasing in speed, time; decreasing in fixed
    >>> float(balanced_share(2.0, 0.75, 0.25))
    1.0
    """
    return speed * np.maximum(time - fixed, 0.0)


@equation
def equal_share_time(global_batch: Number, parts: Number, speed: Number, fixed: Number) -> Number:
    """Time of one of the parts when all get the same share; the step takes as long as the slowest.

    B / (n s) + c

    global_batch B: samples of the step · parts n: parts · speed s [1/s]: of this one
    fixed c [s]: time that it takes whatever its share
    → time [s]
    Source: composition
    Holds: no estimate calls it
    Monotone: increasing in global_batch, fixed; decreasing in parts, speed
    >>> round(equal_share_time(1.0, 3.0, 0.5, 0.0), 4)
    0.6667
    """
    return global_batch / (parts * speed) + fixed


# --- Shares of unequal parts under limits: algorithms on whole lists of parts, in place of equations on single numbers.
#
# Both find the shares with which the last part ends first. Neither loops: one inverts a piecewise linear function, the
# other takes the earliest ends of all that could be.


def balanced_shares(total: float, speeds: Parts, fixed: Parts, caps: Parts) -> Parts:
    """Shares of any size that sum to the total and end together, none under 0 or over its cap.

    Part i does min(cap, s (t − c)) by the time t. The sum over the parts grows with t along straight lines that bend
    where a part starts or reaches its cap, so that t is read off between two bends. Without room for the total every
    part is at its cap.

    >>> balanced_shares(1.0, np.array([1.0, 1.0, 0.5]), np.zeros(3), np.array([0.3, 1.0, 1.0])).round(3).tolist()
    [0.3, 0.467, 0.233]
    """
    bends = np.sort(np.concatenate([fixed, fixed + caps / speeds]))
    done = np.clip(speeds * (bends[:, np.newaxis] - fixed), 0.0, caps)
    time = np.interp(total, np.sum(done, axis=1), bends)
    shares: Parts = np.clip(speeds * (time - fixed), 0.0, caps)
    return shares


def whole_shares(total: int, speeds: Parts, fixed: Parts, caps: Parts, least: int) -> NDArray[np.int64]:
    """Whole shares that sum to the total, with the earliest last end: layers of stages, micro-batches of replicas.

    Part i would end its j-th item at c + j/s. Each next item goes to the part that would end it first; that takes the
    earliest of all these ends, so they are sorted and the first are taken; `least` items of each part come before
    all others, and none lies beyond a cap. Without room for the total every part is at its cap.

    >>> whole_shares(80, np.array([312.0, 312.0, 125.0, 125.0]), np.zeros(4), np.full(4, 80.0), 1).tolist()
    [29, 29, 11, 11]
    """
    item = np.arange(1, total + 1)
    ends = fixed[:, np.newaxis] + item / speeds[:, np.newaxis]
    ends = np.where(item <= least, -np.inf, ends)
    ends = np.where(item <= caps[:, np.newaxis], ends, np.inf)
    first = np.argsort(ends, axis=None, kind="stable")[:total]
    taken = first[np.isfinite(ends.ravel()[first]) | (ends.ravel()[first] < 0)]
    return np.bincount(taken // total, minlength=speeds.size)


# --- Stages of one pipeline on nodes of several kinds: what a layer takes each kind, and how many layers are alike.


@equation
def time_of_another(once: Number, twice: Number, count: Number) -> Number:
    """Time of one more micro-batch or layer, from the time of a number of them and of twice that number.

    (T₂ − T₁) / n

    once T₁ [s]: time of so many · twice T₂ [s]: time of twice as many · count n → time [s]
    Source: exact
    Monotone: increasing in twice; decreasing in once
    >>> time_of_another(3.0, 5.0, 8.0)
    0.25
    """
    return (twice - once) / count


@equation
def time_beside_layers(once: Number, layers: Number, layer_time: Number) -> Number:
    """Time of a pipeline stage without its layers.

    max(T − l t, 0)

    once T [s]: time of the stage · layers l: layers in it · layer_time t [s]: time of a layer → time [s]
    Source: exact
    Monotone: increasing in once; decreasing in layers, layer_time
    >>> float(time_beside_layers(3.0, 8.0, 0.25))
    1.0
    """
    return np.maximum(once - layers * layer_time, 0.0)


@equation
def memory_of_another(needed: Number, needed_twice: Number, layers: Number) -> Number:
    """Memory that one more layer needs, from the memory of a number of them and of twice that number.

    (M₂ − M₁) / l

    needed M₁ [B]: memory with so many · needed_twice M₂ [B]: memory with twice as many · layers l: layers → bytes [B]
    Source: exact
    Monotone: increasing in needed_twice; decreasing in needed
    >>> memory_of_another(20e9, 36e9, 8.0) / 1e9
    2.0
    """
    return (needed_twice - needed) / layers


@equation
def layers_in_memory(layers: Number, needed: Number, layer_bytes: Number, usable: Number) -> Number:
    """Whole layers that the memory of a rank holds, from what so many need and each further one; one at least.

    max(⌊l + (U − M) / m⌋, 1)

    layers l: layers · needed M [B]: memory with so many · layer_bytes m [B]: memory of a further layer
    usable U [B]: usable memory of the rank
    → layers
    Source: exact
    Monotone: increasing in layers, usable; decreasing in needed
    >>> float(layers_in_memory(8.0, 20e9, 2e9, 80e9))
    38.0
    """
    return np.maximum(np.floor(layers + (usable - needed) / layer_bytes), 1.0)


@equation
def layers_as_long(layers: Number, layer_time: Number, apart: Number, own_layer_time: Number) -> Number:
    """Layers with which a stage would take one kind of nodes as long as its layers take the kind it lies on.

    max((l t + d) / t₀, 0)

    layers l: layers of the stage · layer_time t [s]: time of a layer on the kind it lies on
    apart d [s]: what the stage takes there beside its layers over what it would here
    own_layer_time t₀ [s]: time of a layer on the one kind
    → layers
    Source: exact
    Monotone: increasing in layers, layer_time, apart; decreasing in own_layer_time
    >>> round(float(layers_as_long(5.0, 0.6, 0.1, 0.25)), 6)
    12.4
    """
    return np.maximum((layers * layer_time + apart) / own_layer_time, 0.0)
