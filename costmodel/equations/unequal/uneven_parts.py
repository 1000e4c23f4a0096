"""Parts of unequal speed that share a batch: when all end together, and what equal shares cost.

Speeds of alike parts, or of the slowest times how many there are, are `repeated`.
"""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


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
