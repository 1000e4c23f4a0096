"""Many steps between exchanges, as local SGD and DiLoCo train over slow links between sites."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def local_utilisation(inner_steps: Number, time: Number, exchange: Number, hidden_time: Number) -> Number:
    """Share of the time in which sites compute that exchange once in H steps.

    U = H t / (H t + max(0, X − h))

    inner_steps H: steps between two exchanges · time t [s]: of one step · exchange X [s]: time of an exchange
    hidden_time h [s]: of it, what overlaps with steps
    → utilisation, U
    Source: jaghouar-2024; douillard-2023
    Pitfall: sites multiply the batch: at equal tokens the loss rises with their number
    Monotone: increasing in inner_steps, time, hidden_time; decreasing in exchange
    >>> round(float(local_utilisation(100.0, 22.8, 382.0, 0.0)), 3)
    0.856
    """
    computing = inner_steps * time
    return computing / (computing + np.maximum(exchange - hidden_time, 0.0))


@equation
def local_bandwidth(
    wire: Number, inner_steps: Number, time: Number, utilisation: Number, hidden_time: Number
) -> Number:
    """Bandwidth between sites that a utilisation needs.

    B = w / (H t (1/U − 1) + h)

    wire w [B]: bytes that a site sends in an exchange · inner_steps H: steps between two exchanges
    time t [s]: of one step · utilisation: share of the time in which sites compute, U, under 1 or with hidden time
    hidden_time h [s]: time of an exchange that overlaps with steps
    → bandwidth of a site, one way, B [B/s]
    Source: douillard-2025 §2; composition
    Holds: no latency
    Monotone: increasing in wire, utilisation; decreasing in inner_steps, time, hidden_time
    >>> round(8 * local_bandwidth(17.5e9, 100.0, 22.8, 0.95, 0.0) / 1e9, 3)
    1.167
    """
    return wire / (inner_steps * time * (1 / utilisation - 1) + hidden_time)


@equation
def inner_steps_needed(time: Number, exchange: Number, utilisation: Number, hidden_time: Number) -> Number:
    """Steps between exchanges that a utilisation needs.

    H = max(0, X − h) / (t (1/U − 1))

    time t [s]: of one step · exchange X [s]: time of an exchange
    utilisation: share of the time in which sites compute, U, under 1
    hidden_time h [s]: of the exchange, what overlaps with steps
    → steps, H
    Source: composition
    Monotone: increasing in exchange, utilisation; decreasing in time, hidden_time
    >>> round(float(inner_steps_needed(22.8, 120.0, 0.95, 0.0)), 1)
    100.0
    """
    return np.maximum(exchange - hidden_time, 0.0) / (time * (1 / utilisation - 1))


@equation
def local_traffic_share(compressed_share: Number, inner_steps: Number) -> Number:
    """Bytes between sites over those of an all-reduce of raw gradients in each step.

    c / H

    compressed_share c: compressed over raw bytes of an exchange · inner_steps H: steps between two exchanges
    → bytes over bytes
    Source: jaghouar-2024; composition
    Monotone: increasing in compressed_share; decreasing in inner_steps
    >>> local_traffic_share(0.25, 100.0)
    0.0025
    """
    return compressed_share / inner_steps
