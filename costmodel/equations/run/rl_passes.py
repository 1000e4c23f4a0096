"""What surrounds generation: tools that answers wait for, passes of the trainer over answers, bytes of experience."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def rate_with_waits(request_rate: Number, concurrency: Number, wait: Number) -> Number:
    """Answers a second of an engine whose sequences also wait for tools.

    c / (c / r + w)

    request_rate r [1/s]: without waits · concurrency c: sequences that are held at a time, waiting ones too
    wait w [s]: that each answer has in all
    → answers a second [1/s]
    Source: little-1961
    Holds: a sequence keeps its place while it waits
    Monotone: increasing in request_rate, concurrency; decreasing in wait
    >>> rate_with_waits(2.0, 64.0, 32.0)
    1.0
    """
    return concurrency / (concurrency / request_rate + wait)


@equation
def environments_time(requests: Number, turns: Number, time: Number, environments: Number) -> Number:
    """Least time of an iteration whose calls share a number of environments.

    n k t / e

    requests n: of an iteration · turns k: calls of an answer · time t [s]: of a call
    environments e: that run at a time
    → time [s]
    Source: composition
    Monotone: increasing in requests, turns, time; decreasing in environments
    >>> environments_time(8192.0, 4.0, 2.0, 256.0)
    256.0
    """
    return requests * turns * time / environments


@equation
def uneven_share(variation: Number, requests: Number, deviations: Number) -> Number:
    """Tokens of the most loaded rank over the mean, where answers are dealt at random.

    1 + v z / √k

    variation v: standard deviation of the tokens of an answer over their mean · requests k: of each rank
    deviations z: of the largest of as many normal variables as there are ranks
    → factor
    Source: david-2003 §3.1; composition
    Holds: sums of answers are taken as normal, which a few long ones are not
    Monotone: increasing in variation, deviations; decreasing in requests
    >>> float(uneven_share(0.8, 16.0, 2.0))
    1.4
    """
    return 1 + variation * deviations / np.sqrt(requests)


@equation
def forward_passes_time(pass_time: Number, micro_batches: Number, pp: Number) -> Number:
    """Time of forward passes alone through a pipeline.

    (m + p − 1) t

    pass_time t [s]: forward time of the slowest stage · micro_batches: m · pp p → time [s]
    Source: narayanan-2021
    Monotone: increasing in pass_time, micro_batches, pp
    >>> forward_passes_time(0.5, 8.0, 1.0), forward_passes_time(0.5, 8.0, 4.0)
    (4.0, 5.5)
    """
    return (micro_batches + pp - 1) * pass_time


@equation
def experience_bytes(requests: Number, tokens: Number, element: Number) -> Number:
    """Bytes of answers with their probabilities, as engines hand them to the trainer.

    n l b

    requests: n · tokens l: of each with its prompt · element b [B]: of a token, its number and its log-probability
    → bytes [B]
    Source: composition
    Monotone: increasing in requests, tokens, element
    >>> experience_bytes(8192.0, 5000.0, 8.0) / 1e6
    327.68
    """
    return requests * tokens * element
