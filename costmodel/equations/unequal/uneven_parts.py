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

    Args:
        speed: of the part, s: what it gets done in a second, samples or layers [1/s]
        fixed: time that it takes whatever its share, c [s]

    Returns:
        samples [1]

    Example:
        >>> fixed_work(2.5, 0.5)
        1.25

    Source:
        composition

    Monotone: increasing in speed, fixed
    """
    return speed * fixed


@equation
def balanced_time(global_batch: Number, speed: Number, fixed_work: Number) -> Number:
    """Time of a step when unequal parts get shares with which all end together.

    t = (B + Σ s c) / Σ s

    Args:
        global_batch: samples of the step, B [1]
        speed: of all parts together, Σ s [1/s]
        fixed_work: work they would do in their fixed times, Σ s c [1]

    Returns:
        time, t [s]

    Example:
        >>> round(balanced_time(1.0, 2.5, 0.125), 6)
        0.45

    Holds: shares that can be any number, none of them under 0 and all within memory; whole_shares and balanced_shares
        hold to both

    Source:
        composition

    Pitfall:
        with uneven shares gradients are weighted by samples, not by ranks

    Monotone: increasing in global_batch, fixed_work; decreasing in speed
    """
    return (global_batch + fixed_work) / speed


@equation
def balanced_share(speed: Number, time: Number, fixed: Number) -> Number:
    """Samples that a part gets done until all end together.

    b = s (t − c), at least 0

    Args:
        speed: of the part, s [1/s]
        time: of the step, t [s]
        fixed: time that it takes whatever its share, c [s]

    Returns:
        samples, b [1]

    Example:
        >>> float(balanced_share(2.0, 0.75, 0.25))
        1.0

    Source:
        composition

    Monotone: increasing in speed, time; decreasing in fixed
    """
    return speed * np.maximum(time - fixed, 0.0)


@equation
def equal_share_time(global_batch: Number, parts: Number, speed: Number, fixed: Number) -> Number:
    """Time of one of the parts when all get the same share; the step takes as long as the slowest.

    B / (n s) + c

    Args:
        global_batch: samples of the step, B [1]
        parts: parts, n [1]
        speed: of this one, s [1/s]
        fixed: time that it takes whatever its share, c [s]

    Returns:
        time [s]

    Example:
        >>> round(equal_share_time(1.0, 3.0, 0.5, 0.0), 4)
        0.6667

    Holds: no estimate calls it

    Source:
        composition

    Monotone: increasing in global_batch, fixed; decreasing in parts, speed
    """
    return global_batch / (parts * speed) + fixed
