"""Interruptions of a job: how often they come, how likely none comes, and how many spare nodes cover repairs."""

from __future__ import annotations

import numpy as np

from costmodel.equations.unequal.order_statistics import normal_percentile
from costmodel.ground.equation import Number, equation

COUNTS = np.arange(512.0)
LOG_FACTORIALS = np.cumsum(np.log(np.maximum(COUNTS, 1.0)))
EXACT_UP_TO, NONE = 350.0, 1e-300


@equation
def observed_failure_rate(interruptions: Number, nodes: Number, time: Number) -> Number:
    """Rate of interruptions of one node, from those that a run counted.

    r = k / (n t)

    Args:
        interruptions: interruptions counted, k [1]
        nodes: nodes of the job, n [1]
        time: of the run, t [s]

    Returns:
        rate [1/s]

    Example:
        >>> round(observed_failure_rate(419.0, 2048.0, 54 * 86400.0) * 86400 * 1000, 3)
        3.789

    Holds: interruptions that come from nodes, so that their number grows with the nodes

    Source:
        llama-3-2024 §3.3.4; kokolis-2025

    Pitfall:
        published rates are of different things: 6.5 per 1,000 node-days are failures of hardware, with which a job on
        128 nodes would live 28.8 h; such jobs were seen to live 7.9 h, for software kills them too

    Monotone: increasing in interruptions; decreasing in nodes, time
    """
    return interruptions / (nodes * time)


@equation
def mean_time_between_interruptions(nodes: Number, failure_rate: Number, job_failure_rate: Number) -> Number:
    """Mean time between interruptions of a job that stops when any node fails.

    M = 1 / (n r + λ)

    Args:
        nodes: nodes of the job, n [1]
        failure_rate: interruptions by one node, r [1/s]
        job_failure_rate: interruptions that do not grow with the nodes, those by software for example, λ [1/s]

    Returns:
        mean time between interruptions, M [s]

    Example:
        >>> round(mean_time_between_interruptions(2048.0, 3.789e-3 / 86400, 0.0) / 3600, 2)
        3.09

    Holds: independent failures at constant rates; early failures and a few bad nodes make the rate fall during a run

    Source:
        kokolis-2025; composition

    Monotone: decreasing in nodes, failure_rate, job_failure_rate
    """
    return 1 / (nodes * failure_rate + job_failure_rate)


@equation
def expected_interruptions(time: Number, mtbf: Number) -> Number:
    """Interruptions expected in a time, or repairs under way when each takes that time.

    t / M

    Args:
        time: t; of one repair, for the mean number of nodes in repair [s]
        mtbf: mean time between interruptions, M [s]

    Returns:
        interruptions [1]

    Example:
        >>> expected_interruptions(86400.0, 7200.0)
        12.0

    Source:
        composition

    Monotone: increasing in time; decreasing in mtbf
    """
    return time / mtbf


@equation
def uninterrupted_probability(time: Number, mtbf: Number) -> Number:
    """Probability that nothing interrupts a job for a time.

    e^(−t/M)

    Args:
        time: t [s]
        mtbf: mean time between interruptions, M [s]

    Returns:
        probability [1]

    Example:
        >>> round(float(uninterrupted_probability(3600.0, 3600.0)), 3)
        0.368

    Holds: exponential times between interruptions; no estimate calls it

    Source:
        kokolis-2025

    Monotone: increasing in mtbf; decreasing in time
    """
    return np.exp(-time / mtbf)


@equation
def spare_nodes(down: Number, probability: Number) -> Number:
    """Fewest spare nodes that replace all nodes in repair with a probability.

    smallest s with Σ e^(−d) dᵏ / k! over k ≤ s at least p

    Args:
        down: mean number of nodes in repair, d: failures in the time of a repair [1]
        probability: p that the spares suffice [1]

    Returns:
        spare nodes [1]

    Example:
        >>> float(spare_nodes(15.52, 0.99))
        25.0

    Holds: exact up to 350 nodes in repair; beyond, by the normal distribution with its skewness, at most one node off

    Source:
        abramowitz-1964 §26.2; composition

    Monotone: increasing in down, probability
    """
    known = np.maximum(down, NONE)
    logarithms = COUNTS * np.expand_dims(np.log(known), -1) - np.expand_dims(known, -1) - LOG_FACTORIALS
    too_few = np.cumsum(np.exp(logarithms), axis=-1) < np.expand_dims(probability, -1)
    z = normal_percentile(probability)
    many = np.ceil(down + z * np.sqrt(known) + (z**2 - 1) / 6 - 0.5)
    return np.where(down <= EXACT_UP_TO, np.sum(np.where(too_few, 1.0, 0.0), axis=-1), many)
