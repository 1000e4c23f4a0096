"""What a step waits for when ranks take random times: all of them, or the first few."""

from __future__ import annotations

import numpy as np

from costmodel.equations.unequal.order_statistics import expected_maximum, expected_order_statistic
from costmodel.ground.equation import Number, equation


@equation
def jitter_slowdown(ranks: Number, jitter: Number, micro_batches: Number) -> Number:
    """Step time over its mean when it waits for the slowest of many ranks whose times vary from step to step.

    1 + v/√m E[max of n]

    ranks n: ranks that wait for each other
    jitter v: standard deviation of a rank's time over its mean, for one micro-batch
    micro_batches: micro-batches over which it averages out before ranks wait, m; 1 for a spread that stays
    → slowdown
    Source: lin-2025; david-2003 §3.1
    Holds: independent normal times; slowest_part has the bound √(2 ln n) in place of the expected maximum
    Pitfall: in 3,079 jobs the 90th percentile of a step is 1.06 of its median: slowdown mostly stays the same for a
        whole job, from uneven stages and sequences, so jitter is no default
    Monotone: increasing in ranks, jitter; decreasing in micro_batches
    >>> round(float(jitter_slowdown(512.0, 0.03, 64.0)), 4), round(float(jitter_slowdown(512.0, 0.03, 1.0)), 4)
    (1.0114, 1.0913)
    """
    return 1 + jitter / np.sqrt(micro_batches) * expected_maximum(ranks)


@equation
def partial_wait_slowdown(awaited: Number, ranks: Number, jitter: Number) -> Number:
    """Step time over the mean of a rank when it waits for the first k of n ranks.

    1 + v Φ⁻¹((k − 3/8) / (n + 1/4))

    awaited: ranks that the step waits for, k; at most all · ranks n: ranks
    jitter v: standard deviation of a rank's time over its mean
    → time over the mean
    Source: hyndman-1996; chen-2016-backup
    Holds: independent normal times
    Monotone: increasing in awaited
    >>> round(float(partial_wait_slowdown(60.0, 64.0, 0.1)), 3)
    1.146
    """
    return 1 + jitter * expected_order_statistic(awaited, ranks)


@equation
def partial_wait_gain(awaited: Number, ranks: Number, jitter: Number) -> Number:
    """Samples a second when steps wait for the first k of n ranks, over those when they wait for all.

    k/n · (1 + v E[max of n]) / (1 + v Φ⁻¹((k − 3/8) / (n + 1/4)))

    awaited: ranks that a step waits for, k; at most all · ranks n: ranks
    jitter: standard deviation of a rank's time over its mean, v; a share of it
    → rate over rate; under 1 where leaving ranks out costs more samples than it saves time
    Source: hyndman-1996; chen-2016-backup; composition
    Holds: independent normal times, v Φ⁻¹ above −1; the samples of ranks that are not waited for are lost; no estimate
        calls it
    >>> round(float(partial_wait_gain(60.0, 64.0, 0.1)), 3)
    1.01
    """
    used = np.minimum(awaited, ranks) / ranks
    return used * jitter_slowdown(ranks, jitter, 1.0) / partial_wait_slowdown(awaited, ranks, jitter)


@equation
def averaged_jitter(jitter: Number, micro_batches: Number) -> Number:
    """Jitter of the mean of several micro-batches.

    v / √m

    jitter v: standard deviation of a rank's time over its mean, for one micro-batch
    micro_batches m: micro-batches over which it averages out
    → standard deviation over the mean
    Source: composition
    Holds: independent micro-batches
    Monotone: increasing in jitter; decreasing in micro_batches
    >>> float(averaged_jitter(0.08, 64.0))
    0.01
    """
    return jitter / np.sqrt(micro_batches)


@equation
def slow_part_slowdown(slow_share: Number, ranks: Number, *, waits: bool) -> Number:
    """Time of a step over that without one slow part.

    1/s where all wait for it; n/(n − 1 + s) where the others continue without it

    slow_share s: speed of the slow part over that of the others · ranks n: parts that take steps · waits → slowdown
    Source: lin-2025; composition
    Holds: a time that is all compute
    Monotone: decreasing in slow_share
    >>> slow_part_slowdown(0.5, 64.0, waits=True), round(slow_part_slowdown(0.5, 64.0, waits=False), 4)
    (2.0, 1.0079)
    """
    return 1 / slow_share if waits else ranks / (ranks - 1 + slow_share)
