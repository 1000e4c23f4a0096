"""Updates without waiting for all workers: how many more there are, and how stale their gradients are."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def gradient_rate(workers: Number, time: Number, slowdown: Number) -> Number:
    """Gradients a second that alike workers bring in.

    n / (μ f): f = 1 if no worker waits, else the time of the one that is waited for over the mean

    workers n: workers · time μ [s]: mean time of a gradient on one worker
    slowdown: what a worker waits for, f; the expected slowest where each waits for all
    → gradients a second [1/s]
    Source: ho-2013; composition
    Holds: bounded staleness (stale synchronous) hides jitter, but a worker that stays slow sets the pace of all; no
        estimate calls it
    Monotone: increasing in workers; decreasing in time, slowdown
    >>> gradient_rate(64.0, 2.0, 1.0)
    32.0
    """
    return workers / (time * slowdown)


@equation
def mean_staleness(workers: Number) -> Number:
    """Updates by others between the weights that a gradient was made with and those it is applied to.

    n − 1

    workers n: alike workers that update without waiting → updates
    Source: ho-2013; composition
    Holds: exact in the mean: between two updates of a worker each other worker makes one on average
    Monotone: increasing in workers
    >>> mean_staleness(64.0)
    63.0
    """
    return workers - 1


@equation
def staleness_break_even(slowdown: Number, staleness: Number) -> Number:
    """Growth of the number of steps with each unit of staleness up to which asynchronous updates save time.

    (f − 1) / η

    slowdown f: time of a synchronous step over the mean of a worker · staleness η: mean staleness of the gradients
    → share of the steps
    Source: composition
    Holds: steps that grow in proportion to the staleness; no law states this for language models, nor gives the factor
    Monotone: increasing in slowdown; decreasing in staleness
    >>> round(staleness_break_even(1.469, 63.0), 5)
    0.00744
    """
    return (slowdown - 1) / staleness
