"""Many steps between exchanges, as local SGD and DiLoCo train over slow links between sites."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def local_utilisation(inner_steps: Number, time: Number, exchange: Number, hidden_time: Number) -> Number:
    """Share of the time in which sites compute that exchange once in H steps.

    U = H t / (H t + max(0, X − h))

    Args:
        inner_steps: steps between two exchanges, H [1]
        time: of one step, t [s]
        exchange: time of an exchange, X [s]
        hidden_time: of it, what overlaps with steps, h [s]

    Returns:
        utilisation, U [1]

    Example:
        >>> round(float(local_utilisation(100.0, 22.8, 382.0, 0.0)), 3)
        0.856

    Source:
        jaghouar-2024; douillard-2023

    Pitfall:
        sites multiply the batch: at equal tokens the loss rises with their number

    Monotone: increasing in inner_steps, time, hidden_time; decreasing in exchange
    """
    computing = inner_steps * time
    return computing / (computing + np.maximum(exchange - hidden_time, 0.0))


@equation
def local_bandwidth(
    wire: Number, inner_steps: Number, time: Number, utilisation: Number, hidden_time: Number
) -> Number:
    """Bandwidth between sites that a utilisation needs.

    B = w / (H t (1/U − 1) + h)

    Args:
        wire: bytes that a site sends in an exchange, w [B]
        inner_steps: steps between two exchanges, H [1]
        time: of one step, t [s]
        utilisation: share of the time in which sites compute, U, under 1 or with hidden time [1]
        hidden_time: time of an exchange that overlaps with steps, h [s]

    Returns:
        bandwidth of a site, one way, B [B/s]

    Example:
        >>> round(8 * local_bandwidth(17.5e9, 100.0, 22.8, 0.95, 0.0) / 1e9, 3)
        1.167

    Holds: no latency

    Source:
        douillard-2025 §2; composition

    Monotone: increasing in wire, utilisation; decreasing in inner_steps, time, hidden_time
    """
    return wire / (inner_steps * time * (1 / utilisation - 1) + hidden_time)


@equation
def inner_steps_needed(time: Number, exchange: Number, utilisation: Number, hidden_time: Number) -> Number:
    """Steps between exchanges that a utilisation needs.

    H = max(0, X − h) / (t (1/U − 1))

    Args:
        time: of one step, t [s]
        exchange: time of an exchange, X [s]
        utilisation: share of the time in which sites compute, U, under 1 [1]
        hidden_time: of the exchange, what overlaps with steps, h [s]

    Returns:
        steps, H [1]

    Example:
        >>> round(float(inner_steps_needed(22.8, 120.0, 0.95, 0.0)), 1)
        100.0

    Source:
        composition

    Monotone: increasing in exchange, utilisation; decreasing in time, hidden_time
    """
    return np.maximum(exchange - hidden_time, 0.0) / (time * (1 / utilisation - 1))


@equation
def local_traffic_share(compressed_share: Number, inner_steps: Number) -> Number:
    """Bytes between sites over those of an all-reduce of raw gradients in each step.

    c / H

    Args:
        compressed_share: compressed over raw bytes of an exchange, c [1]
        inner_steps: steps between two exchanges, H [1]

    Returns:
        bytes over bytes [1]

    Example:
        >>> local_traffic_share(0.25, 100.0)
        0.0025

    Source:
        jaghouar-2024; composition

    Monotone: increasing in compressed_share; decreasing in inner_steps
    """
    return compressed_share / inner_steps
