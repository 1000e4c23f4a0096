"""Where the wall time of a run goes, and what a goodput makes of the time of its steps."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def restart_share(restart: Number, mtbf: Number) -> Number:
    """Share of the wall time that restarts take, those that fail themselves among them.

    1 − e^(−R/M)

    restart R [s]: from an interruption until training continues · mtbf M [s]: mean time between interruptions → share
    Source: composition
    Holds: exact for exponential interruptions that strike restarts too: each of them starts one, which lasts R or until
        the next, M (1 − e^(−R/M)) in the mean
    Monotone: increasing in restart; decreasing in mtbf
    >>> round(float(restart_share(600.0, 11134.8)), 4)
    0.0525
    """
    return -np.expm1(-restart / mtbf)


@equation
def checkpoint_share(
    goodput: Number, interval: Number, blocking: Number, background: Number, interference: Number
) -> Number:
    """Share of the wall time that checkpoints which were kept take from training.

    E (δ + σ w) / τ; what is left of the whole beside goodput, restarts and this is work done again

    goodput E: share of the wall time that is useful · interval τ [s] · blocking δ [s]
    background w [s]: from the end of that stop until the checkpoint can be used
    interference σ: share of training speed that writing takes meanwhile
    → share
    Source: composition
    Monotone: increasing in goodput, blocking, background, interference; decreasing in interval
    >>> round(checkpoint_share(0.8525, 1116.0, 60.0, 0.0, 0.0), 4)
    0.0458
    """
    return goodput * (blocking + interference * background) / interval


@equation
def planned_share(stops: Number, stop: Number, time: Number) -> Number:
    """Share of the wall time that planned stops take.

    n s / t

    stops n: planned stops · stop s [s]: time that each takes · time t [s]: wall time in which they come → share
    Source: llama-3-2024 §3.3.4; composition
    Monotone: increasing in stops, stop; decreasing in time
    >>> round(planned_share(47.0, 1200.0, 54 * 86400.0), 4)
    0.0121
    """
    return stops * stop / time


@equation
def run_goodput(goodput: Number, evaluation_share: Number, planned_share: Number) -> Number:
    """Useful share of the whole run, evaluation and planned stops left out of it.

    E (1 − e) (1 − m)

    goodput E: with interruptions alone · evaluation_share e: share of the time that goes to evaluation
    planned_share m: share that goes to planned stops
    → goodput, which some call effective training time ratio
    Source: kokolis-2025; composition
    Holds: neither the wait for a place in the cluster nor the use of the peak is in it
    Monotone: increasing in goodput; decreasing in evaluation_share, planned_share
    >>> round(run_goodput(0.95, 0.01, 0.02), 4)
    0.9217
    """
    return goodput * (1 - evaluation_share) * (1 - planned_share)


@equation
def steps_time(steps: Number, time: Number, slowdown: Number) -> Number:
    """Time of all steps of a run, nothing lost.

    S T f

    steps S: optimizer steps · time T [s]: of a step
    slowdown f: time over that of the step model, by stragglers for example
    → time [s]
    Source: composition
    Monotone: increasing in steps, time, slowdown
    >>> steps_time(1000.0, 16.0, 1.25)
    20000.0
    """
    return steps * time * slowdown


@equation
def wall_time(time: Number, goodput: Number) -> Number:
    """Wall time of a run of which a share is useful.

    t / E

    time t [s]: of all steps · goodput E: useful share of the wall time → time [s]
    Source: kokolis-2025; composition
    Monotone: increasing in time; decreasing in goodput
    >>> wall_time(9e6, 0.9)
    10000000.0
    """
    return time / goodput


@equation
def noticed_goodput(save: Number, restart: Number, mtbf: Number) -> Number:
    """Useful share of a run whose interruptions are announced early enough to save, as preemptions of spot nodes are.

    E = 1 / (e^(R/M) + s/M)

    save s [s]: time to save after the notice · restart R [s]: from an interruption until training continues
    mtbf M [s]: mean time between preemptions of the job
    → goodput, E
    Source: composition
    Holds: exact for exponential preemptions that strike restarts too, with a notice as long as the save; the wait for
        capacity is not in it
    Monotone: increasing in mtbf; decreasing in save, restart
    >>> round(float(noticed_goodput(20.0, 420.0, 7200.0)), 4)
    0.9409
    """
    kept = np.exp(-restart / mtbf)
    return kept / (1 + kept * save / mtbf)
