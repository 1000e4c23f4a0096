"""Prefill and decode on different instances: how many of each, and the cache that moves between them."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def prefill_decode_ratio(prompt: Number, prefill_rate: Number, output: Number, decode_rate: Number) -> Number:
    """Prefill instances for each decode instance, so that neither waits for the other.

    (s / μ_P) / (o / μ_D)

    Args:
        prompt: tokens of a prompt that are computed, on average, s [1]
        prefill_rate: prompt tokens a second of one prefill instance, μ_P [1/s]
        output: tokens that are generated, on average, o [1]
        decode_rate: tokens a second of one decode instance, μ_D [1/s]

    Returns:
        ratio [1]

    Example:
        >>> round(prefill_decode_ratio(2048.0, 30e3, 512.0, 6e3), 3)
        0.8

    Source:
        zhong-2024; patel-2024

    Monotone: increasing in prompt, decode_rate; decreasing in prefill_rate, output
    """
    return (prompt / prefill_rate) / (output / decode_rate)


@equation
def cache_transfer_time(nbytes: Number, sending: Number, receiving: Number) -> Number:
    """Time to move the cache of one prompt to the instance that decodes it.

    S / min(B_P, B_D)

    Args:
        nbytes: cache of the prompt over all ranks, S [B]
        sending: rate of all interfaces of the prefill instance together, B_P [B/s]
        receiving: rate of all interfaces of the decode instance together, B_D [B/s]

    Returns:
        time [s]

    Example:
        >>> [round(float(cache_transfer_time(2.684e9, rate, rate)) * 1e3, 1) for rate in (50e9, 400e9)]
        [53.7, 6.7]

    Source:
        zhong-2024 §3; patel-2024

    Monotone: increasing in nbytes; decreasing in sending, receiving
    """
    return nbytes / np.minimum(sending, receiving)


@equation
def exposed_transfer_time(transfer: Number, prefill: Number, layers: Number) -> Number:
    """Time from the end of a prefill to the arrival of its cache, when each layer is sent as soon as it is computed.

    max(T, P) + min(T, P) / L − P: the last layer, or all but what the first layer's prefill delays

    Args:
        transfer: time to move the whole cache, T [s]
        prefill: time of the prefill, P [s]
        layers: layers that are sent one by one, L; 1 where the cache is sent whole [1]

    Returns:
        exposed time [s]

    Example:
        >>> round(float(exposed_transfer_time(53.7e-3, 222e-3, 80.0)) * 1e3, 2)
        0.67

    Holds:
        layers alike; no other prompt on the links

    Source:
        patel-2024 §4; exact

    Monotone: increasing in transfer; decreasing in layers
    """
    return np.maximum(transfer, prefill) + np.minimum(transfer, prefill) / layers - prefill
