"""The line behind prompts that wait until enough answers end for them to fit into a step."""

from __future__ import annotations

import numpy as np

from costmodel.equations.serving.load.queues import SATURATED
from costmodel.ground.equation import Number, equation


@equation
def drain_time(output: Number, variation: Number, step: Number) -> Number:
    """Mean time for which a prompt waits until enough answers have ended for it to fit.

    D o (1 + v²) / 2: what is left of a running answer, for the sequences that must end are any share of all

    output o: tokens that are generated, on average · variation v: of the answers, standard deviation over mean
    step D [s]: a step without prompts with half of the sequences
    → time [s]
    Source: cox-1962
    Monotone: increasing in output, variation, step
    >>> round(drain_time(512.0, 0.6, 0.014), 2)
    4.87
    """
    return step * output * (1 + variation**2) / 2


@equation
def drain_square(output: Number, variation: Number, step: Number) -> Number:
    """Mean square of the time for which a prompt waits until enough answers have ended.

    (D o)² (1 + v²)³ / 3

    output o: tokens that are generated, on average
    variation v: of the answers, log-normal, standard deviation over mean
    step D [s]: a step without prompts with half of the sequences
    → mean square [s·s]
    Source: cox-1962; limpert-2001
    Monotone: increasing in output, variation, step
    >>> round(drain_square(512.0, 0.6, 0.014), 1)
    43.1
    """
    return (step * output) ** 2 * (1 + variation**2) ** 3 / 3


@equation
def line_growth(utilisation: Number, busy_share: Number) -> Number:
    """How many times as long the line before full steps is where prompts that wait until answers end take time too.

    (1 − ρ) / (1 − ρ − ρ_q), ∞ where both take all the time
    One server, first come, first served: a request takes X = S, or S + T with probability q. Its mean wait is
    λ E[X²] / (2 (1 − λ E[X])), with λ E[X] = ρ + ρ_q and E[X²] = S² (1 + v²) + q T₂, as T ≫ S. The first part is
    queue_wait, λ S² (1 + v²) / (2 (1 − ρ)), times this growth; the second is blocked_wait.

    utilisation ρ: share of time that prompts fill whole steps
    busy_share: share of time that they do, or that a prompt waits until answers end, ρ + ρ_q
    → factor on the wait in line
    Source: harchol-balter-2013 §23; composition
    Monotone: increasing in busy_share
    >>> round(float(line_growth(0.6, 0.7)), 4)
    1.3333
    """
    return _growth(utilisation, busy_share)


@equation
def grown_line_variance(variance: Number, utilisation: Number, busy_share: Number) -> Number:
    """Variance of the wait in line before full steps, where prompts that wait until answers end take time too.

    V g², g = (1 − ρ) / (1 − ρ − ρ_q) of line_growth: each wait is so many times as long

    variance V [s·s]: of the wait before full steps alone · utilisation ρ: share of time that prompts fill whole steps
    busy_share: share of time that they do, or that a prompt waits until answers end, ρ + ρ_q
    → variance [s·s]
    Source: composition
    Monotone: increasing in variance, busy_share
    >>> round(float(grown_line_variance(0.01, 0.6, 0.8)), 4)
    0.04
    """
    return variance * _growth(utilisation, busy_share) ** 2


@equation
def blocked_wait(drain_rate: Number, mean_square: Number, busy_share: Number) -> Number:
    """Mean wait of all requests behind prompts that wait until answers end: those that come meanwhile wait in line.

    λ_q T₂ / (2 (1 − ρ)), ∞ from ρ = 1 on; line_growth derives both parts of the wait

    drain_rate λ_q [1/s]: prompts a second that wait until answers end · mean_square T₂ [s·s]: of that time
    busy_share ρ: share of time that prompts fill whole steps, or that one waits
    → wait [s]
    Source: fuhrmann-1985
    Holds: prompts of log-normal lengths whose refused tail is small: of 25 simulated loads to 80 % of saturation the
        mean time to the first token is 8 % off in the median, 36 % at worst; without this wait it is up to 83 % too
        short
    Monotone: increasing in drain_rate, mean_square, busy_share
    >>> round(float(blocked_wait(0.0015, 43.1, 0.62)), 3)
    0.085
    """
    stable = 1 - busy_share > SATURATED
    return drain_rate * mean_square / 2 * np.where(stable, 1 / np.where(stable, 1 - busy_share, 1.0), np.inf)


def _growth(utilisation: Number, busy_share: Number) -> Number:
    stable = 1 - busy_share > SATURATED
    free = np.where(stable, 1 - busy_share, 1.0)
    grown: Number = np.where(stable, np.maximum(1 - utilisation, 0.0) / free, np.inf)
    return grown
