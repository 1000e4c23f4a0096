"""Prefill and decode on different instances: how many of each, and the cache that moves between them."""

from __future__ import annotations

import numpy as np

from costmodel.equations.serving.load.queues import SATURATED, queue_wait
from costmodel.ground.equation import Number, equation

FULL = 1 - 2 * SATURATED  # share of time of a line that is about to grow without end


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


@equation
def sent_cache_wait(
    transfer: Number, link_utilisation: Number, service: Number, utilisation: Number, variation: Number, ahead: Number
) -> Number:
    """Mean wait of a cache in line before the link of its prefill instance, which does not send caches at random.

    T m + max(w(T, ρ_l) − w(S, ρ), 0) + (1 + 3.5 (1 − ρ)) v² w(T, ρ_l), w(T, ρ) = ρ T / (2 (1 − ρ)); ∞ from ρ_l = 1 on

    Prompts of one step end together, so that m caches are ahead. Prompts of one length leave prefill no closer than it
    computes them: a link that takes less time has no line. A short prompt behind a long one waits for its cache.

    Args:
        transfer: time to send a mean cache, T [s]
        link_utilisation: share of time in which the link sends, ρ_l [1]
        service: time of a mean prompt in full steps of prefill, S [s]
        utilisation: share of time in which prefill is busy, ρ [1]
        variation: of the prompts, standard deviation over mean, v [1]
        ahead: caches of the same step that are sent before, on average, m [1]

    Returns:
        wait [s]

    Example:
        >>> [round(float(sent_cache_wait(t, t / 0.6, 0.36, 0.6, 0.0, 0.0)), 3) for t in (0.3, 0.396)]
        [0.0, 0.114]

    Holds:
        caches in proportion to their prompts, log-normal up to a variation of 1. The factor 3.5 is fitted: of 210
        simulated lines the wait is 12 % off in the median and 71 % at P90, by 10 ms on average; as of arrivals at
        random 40 % in the median, by 49 ms

    Source:
        harchol-balter-2013 §23; composition

    Monotone: increasing in variation, ahead
    """
    link = queue_wait(transfer, np.minimum(link_utilisation, FULL), 0.0)
    prefill = queue_wait(service, np.minimum(utilisation, FULL), 0.0)
    behind = (1 + 3.5 * np.maximum(1 - utilisation, 0.0)) * variation**2 * link
    wait = transfer * ahead + (np.maximum(link, prefill) - prefill) + behind
    return wait + transfer * np.where(link_utilisation < FULL, 0.0, np.inf)


@equation
def sent_cache_wait_variance(wait: Number, transfer: Number, variation: Number) -> Number:
    """Variance of the wait of a cache in line before the link of its prefill instance.

    W (W + 0.7 T (1 + v²)²)

    Args:
        wait: mean wait, W [s]
        transfer: time to send a mean cache, T [s]
        variation: of the prompts, standard deviation over mean, v [1]

    Returns:
        variance [s·s]

    Example:
        >>> round(sent_cache_wait_variance(0.043, 0.255, 0.6), 4)
        0.016

    Holds:
        a fit to the simulated lines of sent_cache_wait

    Source:
        composition

    Monotone: increasing in wait, transfer, variation
    """
    return wait * (wait + 0.7 * transfer * (1 + variation**2) ** 2)
