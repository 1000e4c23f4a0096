"""Keys and values in the memory of the host: how long they stay there, and how fast they come back."""

from __future__ import annotations

from typing import Literal

import numpy as np

from costmodel.ground.equation import Number, equation

Keeps = Literal["copies", "evicted"]


@equation
def shared_host_rate(link: Number, share: Number, bandwidth: Number, ranks: Number) -> Number:
    """Rate at which each accelerator of a node reads from its host while all of them read.

    min(η B, M / n)

    link B [B/s]: rate of one accelerator's link to the host, one way · share η: share of it that large copies reach
    bandwidth [B/s]: of all channels of the host's memory, M; infinite where no document states it
    ranks n: accelerators of the node
    → rate of each [B/s]
    Source: ml-engineering; composition
    Holds: every accelerator has a link of its own; where two share a switch, state half the link
    Monotone: increasing in link, share, bandwidth; decreasing in ranks
    >>> [float(shared_host_rate(64e9, 0.86, memory, 8.0)) / 1e9 for memory in (614.4e9, 204.8e9)]
    [55.04, 25.6]
    """
    return np.minimum(share * link, bandwidth / ranks)


@equation
def tokens_in_reach(pool_held: Number, host_held: Number, *, keeps: Keeps) -> Number:
    """Tokens whose keys and values are on the device or on the host.

    copies: max(N, H); evicted: N + H

    pool_held N: tokens that the device's pool holds · host_held H: tokens that the host's memory holds
    keeps: "copies" of all that is computed, the device's among it, or what the device "evicted"
    → tokens
    Source: vllm-engine v1/kv_offload; tensorrt-llm; exact
    Holds: the least recently used goes first, on both
    Pitfall: a host that keeps copies and holds less than the device adds nothing
    Monotone: increasing in pool_held, host_held
    >>> [float(tokens_in_reach(476e3, 952e3, keeps=keeps)) / 1e3 for keeps in ("copies", "evicted")]
    [952.0, 1428.0]
    """
    if keeps == "copies":
        return np.maximum(pool_held, host_held)
    return pool_held + host_held


@equation
def history_variation(turns: Number, hit_share: Number) -> Number:
    """Coefficient of variation of the history that requests of conversations load, equal turns.

    √((4 n − 2) / (3 (n − 1) p) − 1): turn k of n loads k − 1 parts with probability p

    turns n: turns of a conversation, 2 at least · hit_share p: share of later turns that load
    → standard deviation over the mean
    Source: composition; exact
    Monotone: decreasing in turns, hit_share
    >>> round(float(history_variation(4.0, 1.0)), 3)  # 0, 1, 2, 3 parts: mean 1.5, variance 1.25
    0.745
    """
    turns = np.maximum(turns, 2.0)
    return np.sqrt((4.0 * turns - 2.0) / (3.0 * (turns - 1.0) * hit_share) - 1.0)
