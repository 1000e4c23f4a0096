"""What surrounds generation: tools that answers wait for, passes of the trainer over answers, bytes of experience."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def rate_with_waits(request_rate: Number, concurrency: Number, wait: Number) -> Number:
    """Answers a second of an engine whose sequences also wait for tools.

    c / (c / r + w)

    Args:
        request_rate: without waits, r [1/s]
        concurrency: sequences that are held at a time, waiting ones too, c [1]
        wait: that each answer has in all, w [s]

    Returns:
        answers a second [1/s]

    Example:
        >>> rate_with_waits(2.0, 64.0, 32.0)
        1.0

    Holds: a sequence keeps its place while it waits

    Source:
        little-1961

    Monotone: increasing in request_rate, concurrency; decreasing in wait
    """
    return concurrency / (concurrency / request_rate + wait)


@equation
def environments_time(requests: Number, turns: Number, time: Number, environments: Number) -> Number:
    """Least time of an iteration whose calls share a number of environments.

    n k t / e

    Args:
        requests: of an iteration, n [1]
        turns: calls of an answer, k [1]
        time: of a call, t [s]
        environments: that run at a time, e [1]

    Returns:
        time [s]

    Example:
        >>> environments_time(8192.0, 4.0, 2.0, 256.0)
        256.0

    Source:
        composition

    Monotone: increasing in requests, turns, time; decreasing in environments
    """
    return requests * turns * time / environments


@equation
def uneven_share(variation: Number, requests: Number, deviations: Number) -> Number:
    """Tokens of the most loaded rank over the mean, where answers are dealt at random.

    1 + v z / √k

    Args:
        variation: standard deviation of the tokens of an answer over their mean, v [1]
        requests: of each rank, k [1]
        deviations: of the largest of as many normal variables as there are ranks, z [1]

    Returns:
        factor [1]

    Example:
        >>> float(uneven_share(0.8, 16.0, 2.0))
        1.4

    Holds: sums of answers are taken as normal, which a few long ones are not

    Source:
        david-2003 §3.1; composition

    Monotone: increasing in variation, deviations; decreasing in requests
    """
    return 1 + variation * deviations / np.sqrt(requests)


@equation
def forward_passes_time(pass_time: Number, micro_batches: Number, pp: Number) -> Number:
    """Time of forward passes alone through a pipeline.

    (m + p − 1) t

    Args:
        pass_time: forward time of the slowest stage, t [s]
        micro_batches: m [1]
        pp: pipeline stages, p [1]

    Returns:
        time [s]

    Example:
        >>> forward_passes_time(0.5, 8.0, 1.0), forward_passes_time(0.5, 8.0, 4.0)
        (4.0, 5.5)

    Source:
        narayanan-2021

    Monotone: increasing in pass_time, micro_batches, pp
    """
    return (micro_batches + pp - 1) * pass_time


@equation
def experience_bytes(requests: Number, tokens: Number, element: Number) -> Number:
    """Bytes of answers with their probabilities, as engines hand them to the trainer.

    n l b

    Args:
        requests: n [1]
        tokens: of each with its prompt, l [1]
        element: of a token, its number and its log-probability, b [B]

    Returns:
        bytes [B]

    Example:
        >>> experience_bytes(8192.0, 5000.0, 8.0) / 1e6
        327.68

    Source:
        composition

    Monotone: increasing in requests, tokens, element
    """
    return requests * tokens * element
