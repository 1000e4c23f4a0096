"""Inputs inferred from measured times: the value that would explain one, and how well two runs distinguish causes."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def fixed_part(time: Number, doubled_time: Number) -> Number:
    """Part of a step that does not grow with the micro-batch, from two steps.

    2 T(b) − T(2 b)

    Args:
        time: of a step, T(b) [s]
        doubled_time: of a step with twice the micro-batch and all else equal, T(2 b) [s]

    Returns:
        time; negative where a larger micro-batch costs more than in proportion [s]

    Example:
        >>> fixed_part(2.0, 3.5)
        0.5

    Holds: the rest grows in proportion: no gain of efficiency from larger products; no estimate calls it

    Source:
        composition

    Monotone: increasing in time; decreasing in doubled_time
    """
    return 2 * time - doubled_time


@equation
def implied_bandwidth(nbytes: Number, time: Number, gap: Number) -> Number:
    """Bandwidth that would explain a gap.

    S / (t + g)

    Args:
        nbytes: bytes sent, S [B]
        time: predicted for them, t [s]
        gap: measured over predicted time of the step, g, as a difference [s]

    Returns:
        bandwidth [B/s]

    Example:
        >>> round(implied_bandwidth(12.8e9, 0.38, 0.3) / 1e9, 1)
        18.8

    Holds: none of the communication is hidden, and nothing else is wrong; no estimate calls it

    Source:
        composition

    Monotone: increasing in nbytes; decreasing in time, gap
    """
    return nbytes / (time + gap)


@equation
def implied_overlap(exposed: Number, communication: Number) -> Number:
    """Share of a communication that compute hides.

    1 − X/N

    Args:
        exposed: time of it that is not hidden, X; with a gap added, for the share that would explain the gap [s]
        communication: time of the communication alone, N [s]

    Returns:
        share; negative where no overlap explains it [1]

    Example:
        >>> round(implied_overlap(0.211, 0.38), 3)
        0.445

    Holds: no estimate calls it

    Source:
        composition

    Monotone: increasing in communication; decreasing in exposed
    """
    return 1 - exposed / communication


@equation
def implied_slowdown(time: Number, gap: Number) -> Number:
    """Slowdown of one part of a step that would explain a gap.

    (t + g) / t

    Args:
        time: predicted for the part, t: products, a stage, the host [s]
        gap: measured over predicted time of the step, g, as a difference [s]

    Returns:
        slowdown of that part [1]

    Example:
        >>> implied_slowdown(12.0, 3.0)
        1.25

    Holds: the part stands on the critical path for all of its time, and nothing else is wrong

    Source:
        composition

    Monotone: increasing in gap; decreasing in time
    """
    return (time + gap) / time


@equation
def cause_distance(amount: Number, expected: Number, spread: Number) -> Number:
    """How far a value that would explain a gap is from what is expected, in standard deviations.

    |ln(x/x₀)| / σ

    Args:
        amount: value that would explain the gap, x [u]
        expected: value in the documents, x₀ [u]
        spread: uncertainty of the latter, standard deviation of the logarithm, σ [1]

    Returns:
        distance; the least is the likeliest single cause [1]

    Example:
        >>> round(float(cause_distance(25e9, 50e9, 0.1)), 2)
        6.93

    Holds: values above 0

    Source:
        limpert-2001; composition

    Monotone: decreasing in spread
    """
    return np.abs(np.log(amount / expected)) / spread
