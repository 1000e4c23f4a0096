"""Inputs inferred from measured times: the value that would explain one, and how well two runs distinguish causes."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def fixed_part(time: Number, doubled_time: Number) -> Number:
    """Part of a step that does not grow with the micro-batch, from two steps.

    2 T(b) − T(2 b)

    time T(b) [s]: of a step · doubled_time [s]: of a step with twice the micro-batch and all else equal, T(2 b)
    → time; negative where a larger micro-batch costs more than in proportion [s]
    Source: composition
    Holds: the rest grows in proportion: no gain of efficiency from larger products; no estimate calls it
    Monotone: increasing in time; decreasing in doubled_time
    >>> fixed_part(2.0, 3.5)
    0.5
    """
    return 2 * time - doubled_time


@equation
def implied_bandwidth(nbytes: Number, time: Number, gap: Number) -> Number:
    """Bandwidth that would explain a gap.

    S / (t + g)

    nbytes S [B]: bytes sent · time t [s]: predicted for them
    gap [s]: measured over predicted time of the step, g, as a difference
    → bandwidth [B/s]
    Source: composition
    Holds: none of the communication is hidden, and nothing else is wrong; no estimate calls it
    Monotone: increasing in nbytes; decreasing in time, gap
    >>> round(implied_bandwidth(12.8e9, 0.38, 0.3) / 1e9, 1)
    18.8
    """
    return nbytes / (time + gap)


@equation
def implied_overlap(exposed: Number, communication: Number) -> Number:
    """Share of a communication that compute hides.

    1 − X/N

    exposed [s]: time of it that is not hidden, X; with a gap added, for the share that would explain the gap
    communication N [s]: time of the communication alone
    → share; negative where no overlap explains it
    Source: composition
    Holds: no estimate calls it
    Monotone: increasing in communication; decreasing in exposed
    >>> round(implied_overlap(0.211, 0.38), 3)
    0.445
    """
    return 1 - exposed / communication


@equation
def implied_slowdown(time: Number, gap: Number) -> Number:
    """Slowdown of one part of a step that would explain a gap.

    (t + g) / t

    time [s]: predicted for the part, t: products, a stage, the host
    gap [s]: measured over predicted time of the step, g, as a difference
    → slowdown of that part
    Source: composition
    Holds: the part stands on the critical path for all of its time, and nothing else is wrong
    Monotone: increasing in gap; decreasing in time
    >>> implied_slowdown(12.0, 3.0)
    1.25
    """
    return (time + gap) / time


@equation
def cause_distance(amount: Number, expected: Number, spread: Number) -> Number:
    """How far a value that would explain a gap is from what is expected, in standard deviations.

    |ln(x/x₀)| / σ

    amount x [u]: value that would explain the gap · expected x₀ [u]: value in the documents
    spread σ: uncertainty of the latter, standard deviation of the logarithm
    → distance; the least is the likeliest single cause
    Source: limpert-2001; composition
    Holds: values above 0
    Monotone: decreasing in spread
    >>> round(float(cause_distance(25e9, 50e9, 0.1)), 2)
    6.93
    """
    return np.abs(np.log(amount / expected)) / spread
