"""Prefill and decode on different instances: how many of each, and the cache that moves between them."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def prefill_decode_ratio(prompt: Number, prefill_rate: Number, output: Number, decode_rate: Number) -> Number:
    """Prefill instances for each decode instance, so that neither waits for the other.

    (s / μ_P) / (o / μ_D)

    prompt s: tokens of a prompt that are computed, on average · prefill_rate μ_P [1/s]
    output o: tokens that are generated, on average · decode_rate μ_D [1/s]
    → ratio
    Source: zhong-2024; patel-2024
    Monotone: increasing in prompt, decode_rate; decreasing in prefill_rate, output
    >>> round(prefill_decode_ratio(2048.0, 30e3, 512.0, 6e3), 3)
    0.8
    """
    return (prompt / prefill_rate) / (output / decode_rate)


@equation
def cache_transfer_time(nbytes: Number, sending: Number, receiving: Number) -> Number:
    """Time to move the cache of one prompt to the instance that decodes it.

    S / min(B_P, B_D)

    nbytes S [B]: cache of the prompt over all ranks
    sending B_P [B/s]: rate of all interfaces of the prefill instance together
    receiving B_D [B/s]: rate of all interfaces of the decode instance together
    → time [s]
    Source: zhong-2024 §3; patel-2024
    Monotone: increasing in nbytes; decreasing in sending, receiving
    >>> [round(float(cache_transfer_time(2.684e9, rate, rate)) * 1e3, 1) for rate in (50e9, 400e9)]
    [53.7, 6.7]
    """
    return nbytes / np.minimum(sending, receiving)


@equation
def exposed_transfer_time(transfer: Number, prefill: Number, layers: Number) -> Number:
    """Time from the end of a prefill to the arrival of its cache, when each layer is sent as soon as it is computed.

    max(T, P) + min(T, P) / L − P: the last layer, or all but what the first layer's prefill delays

    transfer T [s]: time to move the whole cache · prefill P [s]: time of the prefill
    layers: layers that are sent one by one, L; 1 where the cache is sent whole
    → exposed time [s]
    Source: patel-2024 §4; exact
    Holds: layers alike; no other prompt on the links
    Monotone: increasing in transfer; decreasing in layers
    >>> round(float(exposed_transfer_time(53.7e-3, 222e-3, 80.0)) * 1e3, 2)
    0.67
    """
    return np.maximum(transfer, prefill) + np.minimum(transfer, prefill) / layers - prefill
