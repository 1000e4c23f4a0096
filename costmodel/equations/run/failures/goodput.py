"""Where the wall time of a run goes, and what a goodput makes of the time of its steps."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def restart_share(restart: Number, mtbf: Number) -> Number:
    """Share of the wall time that restarts take, those that fail themselves among them.

    1 − e^(−R/M)

    Args:
        restart: from an interruption until training continues, R [s]
        mtbf: mean time between interruptions, M [s]

    Returns:
        share [1]

    Example:
        >>> round(float(restart_share(600.0, 11134.8)), 4)
        0.0525

    Holds: exact for exponential interruptions that strike restarts too: each of them starts one, which lasts R or until
        the next, M (1 − e^(−R/M)) in the mean

    Source:
        composition

    Monotone: increasing in restart; decreasing in mtbf
    """
    return -np.expm1(-restart / mtbf)


@equation
def checkpoint_share(
    goodput: Number, interval: Number, blocking: Number, background: Number, interference: Number
) -> Number:
    """Share of the wall time that checkpoints which were kept take from training.

    E (δ + σ w) / τ; what is left of the whole beside goodput, restarts and this is work done again

    Args:
        goodput: share of the wall time that is useful, E [1]
        interval: useful work between two checkpoints, τ [s]
        blocking: time for which a checkpoint stops training, δ [s]
        background: from the end of that stop until the checkpoint can be used, w [s]
        interference: share of training speed that writing takes meanwhile, σ [1]

    Returns:
        share [1]

    Example:
        >>> round(checkpoint_share(0.8525, 1116.0, 60.0, 0.0, 0.0), 4)
        0.0458

    Source:
        composition

    Monotone: increasing in goodput, blocking, background, interference; decreasing in interval
    """
    return goodput * (blocking + interference * background) / interval


@equation
def planned_share(stops: Number, stop: Number, time: Number) -> Number:
    """Share of the wall time that planned stops take.

    n s / t

    Args:
        stops: planned stops, n [1]
        stop: time that each takes, s [s]
        time: wall time in which they come, t [s]

    Returns:
        share [1]

    Example:
        >>> round(planned_share(47.0, 1200.0, 54 * 86400.0), 4)
        0.0121

    Source:
        llama-3-2024 §3.3.4; composition

    Monotone: increasing in stops, stop; decreasing in time
    """
    return stops * stop / time


@equation
def run_goodput(goodput: Number, evaluation_share: Number, planned_share: Number) -> Number:
    """Useful share of the whole run, evaluation and planned stops left out of it.

    E (1 − e) (1 − m)

    Args:
        goodput: with interruptions alone, E [1]
        evaluation_share: share of the time that goes to evaluation, e [1]
        planned_share: share that goes to planned stops, m [1]

    Returns:
        goodput, which some call effective training time ratio [1]

    Example:
        >>> round(run_goodput(0.95, 0.01, 0.02), 4)
        0.9217

    Holds: neither the wait for a place in the cluster nor the use of the peak is in it

    Source:
        kokolis-2025; composition

    Monotone: increasing in goodput; decreasing in evaluation_share, planned_share
    """
    return goodput * (1 - evaluation_share) * (1 - planned_share)


@equation
def steps_time(steps: Number, time: Number, slowdown: Number) -> Number:
    """Time of all steps of a run, nothing lost.

    S T f

    Args:
        steps: optimizer steps, S [1]
        time: of a step, T [s]
        slowdown: time over that of the step model, by stragglers for example, f [1]

    Returns:
        time [s]

    Example:
        >>> steps_time(1000.0, 16.0, 1.25)
        20000.0

    Source:
        composition

    Monotone: increasing in steps, time, slowdown
    """
    return steps * time * slowdown


@equation
def wall_time(time: Number, goodput: Number) -> Number:
    """Wall time of a run of which a share is useful.

    t / E

    Args:
        time: of all steps, t [s]
        goodput: useful share of the wall time, E [1]

    Returns:
        time [s]

    Example:
        >>> wall_time(9e6, 0.9)
        10000000.0

    Source:
        kokolis-2025; composition

    Monotone: increasing in time; decreasing in goodput
    """
    return time / goodput


@equation
def noticed_goodput(save: Number, restart: Number, mtbf: Number) -> Number:
    """Useful share of a run whose interruptions are announced early enough to save, as preemptions of spot nodes are.

    E = 1 / (e^(R/M) + s/M)

    Args:
        save: time to save after the notice, s [s]
        restart: from an interruption until training continues, R [s]
        mtbf: mean time between preemptions of the job, M [s]

    Returns:
        goodput, E [1]

    Example:
        >>> round(float(noticed_goodput(20.0, 420.0, 7200.0)), 4)
        0.9409

    Holds: exact for exponential preemptions that strike restarts too, with a notice as long as the save; the wait for
        capacity is not in it

    Source:
        composition

    Monotone: increasing in mtbf; decreasing in save, restart
    """
    kept = np.exp(-restart / mtbf)
    return kept / (1 + kept * save / mtbf)
