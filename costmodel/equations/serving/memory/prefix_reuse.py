"""Prompts that are in the cache already: whole blocks, conversations, how long a prefix stays."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def hit_tokens(shared_tokens: Number, prompt: Number, block: Number) -> Number:
    """Tokens of a prompt that an engine finds in its cache.

    q min(⌊h / q⌋, ⌊(s − 1) / q⌋): whole blocks, and the last token is computed in any case

    shared_tokens h: tokens the prompt begins with that were seen before · prompt s: tokens of the prompt
    block q: tokens of a block
    → tokens
    Source: vllm-engine v1/core/kv_cache_manager.py
    Pitfall: a benchmark of random prompts shares nothing: a prediction with a prefix is then off by a multiple
    Monotone: increasing in shared_tokens, prompt
    >>> [float(hit_tokens(shared, 4000.0, 16.0)) for shared in (1000.0, 4000.0)]
    [992.0, 3984.0]
    """
    return block * np.minimum(np.floor(shared_tokens / block), np.floor((prompt - 1) / block))


@equation
def residency_time(pool_held: Number, request_rate: Number, tokens: Number) -> Number:
    """Time that an unused prefix stays in the cache before newer tokens push it out.

    N / (λ n)

    pool_held N: tokens that the pool holds · request_rate λ [1/s]: requests a second of one replica
    tokens n: tokens that a request adds, what it finds in the cache not counted
    → time [s]
    Source: little-1961; composition
    Holds: the least recently used goes first
    Pitfall: a hit rate that is given hides that the pool may be too small for it: a later turn finds nothing
    Monotone: increasing in pool_held; decreasing in request_rate, tokens
    >>> round(residency_time(476016.0, 4.0, 1280.0))
    93
    """
    return pool_held / (request_rate * tokens)


@equation
def scattered_hit(hit_share: Number, replicas: Number) -> Number:
    """Share of prompts found in the cache where a router sends requests to any of several replicas.

    h / r

    hit_share h: share that is found where a conversation stays on its replica · replicas r: replicas → share
    Source: composition
    Holds: the last turn alone is looked for; what all requests share is found on every replica
    Monotone: increasing in hit_share; decreasing in replicas
    >>> scattered_hit(0.5, 4.0)
    0.125
    """
    return hit_share / replicas
