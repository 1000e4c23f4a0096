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

    interruptions k: interruptions counted · nodes n: nodes of the job · time t [s]: of the run → rate [1/s]
    Source: llama-3-2024 §3.3.4; kokolis-2025
    Holds: interruptions that come from nodes, so that their number grows with the nodes
    Pitfall: published rates are of different things: 6.5 per 1,000 node-days are failures of hardware, with which a job
        on 128 nodes would live 28.8 h; such jobs were seen to live 7.9 h, for software kills them too
    Monotone: increasing in interruptions; decreasing in nodes, time
    >>> round(observed_failure_rate(419.0, 2048.0, 54 * 86400.0) * 86400 * 1000, 3)
    3.789
    """
    return interruptions / (nodes * time)


@equation
def mean_time_between_interruptions(nodes: Number, failure_rate: Number, job_failure_rate: Number) -> Number:
    """Mean time between interruptions of a job that stops when any node fails.

    M = 1 / (n r + λ)

    nodes n: nodes of the job · failure_rate r [1/s]: interruptions by one node
    job_failure_rate λ [1/s]: interruptions that do not grow with the nodes, those by software for example
    → mean time between interruptions, M [s]
    Source: kokolis-2025; composition
    Holds: independent failures at constant rates; early failures and a few bad nodes make the rate fall during a run
    Monotone: decreasing in nodes, failure_rate, job_failure_rate
    >>> round(mean_time_between_interruptions(2048.0, 3.789e-3 / 86400, 0.0) / 3600, 2)
    3.09
    """
    return 1 / (nodes * failure_rate + job_failure_rate)


@equation
def expected_interruptions(time: Number, mtbf: Number) -> Number:
    """Interruptions expected in a time, or repairs under way when each takes that time.

    t / M

    time [s]: t; of one repair, for the mean number of nodes in repair · mtbf M [s]: mean time between interruptions
    → interruptions
    Source: composition
    Monotone: increasing in time; decreasing in mtbf
    >>> expected_interruptions(86400.0, 7200.0)
    12.0
    """
    return time / mtbf


@equation
def uninterrupted_probability(time: Number, mtbf: Number) -> Number:
    """Probability that nothing interrupts a job for a time.

    e^(−t/M)

    time [s]: t · mtbf M [s]: mean time between interruptions → probability
    Source: kokolis-2025
    Holds: exponential times between interruptions; no estimate calls it
    Monotone: increasing in mtbf; decreasing in time
    >>> round(float(uninterrupted_probability(3600.0, 3600.0)), 3)
    0.368
    """
    return np.exp(-time / mtbf)


@equation
def spare_nodes(down: Number, probability: Number) -> Number:
    """Fewest spare nodes that replace all nodes in repair with a probability.

    smallest s with Σ e^(−d) dᵏ / k! over k ≤ s at least p

    down: mean number of nodes in repair, d: failures in the time of a repair · probability: p that the spares suffice
    → spare nodes
    Source: abramowitz-1964 §26.2; composition
    Holds: exact up to 350 nodes in repair; beyond, by the normal distribution with its skewness, at most one node off
    Monotone: increasing in down, probability
    >>> float(spare_nodes(15.52, 0.99))
    25.0
    """
    known = np.maximum(down, NONE)
    logarithms = COUNTS * np.expand_dims(np.log(known), -1) - np.expand_dims(known, -1) - LOG_FACTORIALS
    too_few = np.cumsum(np.exp(logarithms), axis=-1) < np.expand_dims(probability, -1)
    z = normal_percentile(probability)
    many = np.ceil(down + z * np.sqrt(known) + (z**2 - 1) / 6 - 0.5)
    return np.where(down <= EXACT_UP_TO, np.sum(np.where(too_few, 1.0, 0.0), axis=-1), many)
