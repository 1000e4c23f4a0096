"""Work and cache reads of prompts, whole, in chunks, or behind a prefix that is already in the cache."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.equation import Number, equation


@equation
def chunk_count(prompt: Number, chunk: Number) -> Number:
    """Chunks that a prompt is cut into.

    ⌈s / c⌉

    prompt s: tokens of the prompt · chunk c → chunks
    Source: agrawal-2024
    Monotone: increasing in prompt; decreasing in chunk
    >>> float(chunk_count(32768.0, 2048.0))
    16.0
    """
    return np.ceil(prompt / chunk)


@equation
def reread_tokens(prompt: Number, chunk: Number) -> Number:
    """Tokens whose keys and values are read once more because a prompt comes in chunks.

    c n (n − 1) / 2, n = ⌈s / c⌉: each chunk reads all before it

    prompt s: tokens of the prompt · chunk c → tokens
    Source: agrawal-2024 §4.3; exact
    Pitfall: this is not what small chunks cost: chunks of 512 add 4 % to a prompt of 32,768; the fixed time of steps is
    Monotone: increasing in prompt
    >>> [float(reread_tokens(32768.0, chunk)) for chunk in (8192.0, 2048.0, 512.0)]
    [49152.0, 245760.0, 1032192.0]
    """
    chunks = np.ceil(prompt / chunk)
    tokens: Number = chunk * chunks * (chunks - 1) / 2
    return tokens


@equation
def appended_attention_flop(tokens: Number, cached_tokens: Number, heads: Number, head_dim: Number) -> Number:
    """Work of attention of new tokens that see all before them: of a chunk, or of what follows a cached prefix.

    4 a d n (c + (n + 1) / 2)

    tokens n: new tokens of one sequence · cached_tokens c: tokens before them that are already in the cache
    heads a: query heads of a rank · head_dim d
    → work of a layer [FLOP]
    Source: dao-2023; exact count
    Pitfall: a prefix of the share h spares h of the matrix products, but only h² of attention
    Monotone: increasing in tokens, cached_tokens, heads, head_dim
    >>> appended_attention_flop(8192.0, 0.0, 32.0, 128.0)
    549822922752.0
    """
    return 2 * FLOP_PER_MAC * heads * head_dim * tokens * (cached_tokens + (tokens + 1) / 2)
