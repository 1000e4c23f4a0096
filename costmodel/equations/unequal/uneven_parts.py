"""Parts and stages of unequal speed: shares with which all end together, under limits or not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from costmodel.ground.equation import Number, equation

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
