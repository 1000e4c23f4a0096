"""Context parallelism: what the ranks that share a sequence exchange, and what of it attention does not hide."""

from __future__ import annotations

import numpy as np

from costmodel.ground.choices import ContextParallel
from costmodel.ground.equation import Number, equation


@equation
def heads_message(tokens: Number, heads: Number, head_dim: Number, element: Number) -> Number:
    """Queries, keys, values or outputs of so many tokens.

    e a d t

    Args:
        tokens: tokens, t [1]
        heads: heads of a rank, a, or k for keys or values [1]
        head_dim: width of a head, d [1]
        element: bytes of an element, e [B]

    Returns:
        buffer [B]

    Example:
        >>> heads_message(16384.0, 1.0, 128.0, 2.0) / 1e6
        4.194304

    Source:
        count

    Pitfall:
        a ring and a gather send keys and values alone, so grouped-query attention divides their traffic; all-to-all
        sends queries and outputs too

    Monotone: increasing in tokens, heads, head_dim, element
    """
    return element * heads * head_dim * tokens


@equation
def ring_exposed_time(send: Number, compute: Number, cp: Number, hideable: Number) -> Number:
    """Ring exchange of keys and values that attention does not hide.

    (c − 1) (τ − η min(τ, A / c))

    Args:
        send: time of one step's send, τ [s]
        compute: attention of the rank, all c steps, A [s]
        cp: context-parallel degree, c [1]
        hideable: share of the shorter of both that really overlaps, η [1]

    Returns:
        exposed time of a layer in one direction [s]

    Example:
        >>> round(float(ring_exposed_time(1.5e-3, 8e-3, 8.0, 1.0)), 6)
        0.0035

    Holds:
        causal chunks dealt in pairs, early with late, so that all c steps take alike; the last step sends nothing on

    Source:
        liu-2023 §3; megatron-lm --cp-comm-type; composition

    Pitfall:
        chunks dealt in order leave the last rank 2 − 1/c times the even share of a causal mask, and the ring waits

    Monotone: increasing in send; decreasing in compute, hideable
    """
    return (cp - 1) * (send - hideable * np.minimum(send, compute / cp))


@equation
def merge_traffic(tokens: Number, heads: Number, head_dim: Number, element: Number, cp: Number) -> Number:
    """Bytes to merge the partial results of a ring: each further step reads its own and rewrites the sum.

    3 e a d t (c − 1)

    Args:
        tokens: tokens of a rank, t [1]
        heads: heads of a rank, a [1]
        head_dim: width of a head, d [1]
        element: bytes of an element, e [B]
        cp: context-parallel degree, c [1]

    Returns:
        read and written in one direction [B]

    Example:
        >>> merge_traffic(4096.0, 16.0, 128.0, 2.0, 2.0) / 1e6
        50.331648

    Source:
        count; liu-2023 §3

    Monotone: increasing in tokens, heads, head_dim, element, cp
    """
    return 3 * element * heads * head_dim * tokens * (cp - 1)


@equation
def exchange_buffer(
    tokens: Number, heads: Number, kv_heads: Number, head_dim: Number, element: Number, *, cp_type: ContextParallel
) -> Number:
    """What a rank holds of other ranks' tokens while one layer's attention runs backward.

    p2p 8 e k d t: keys, values and their gradients, twice; all-gather 4 e k d t, of all tokens; a2a e (2 a + 2 k) d t

    Args:
        tokens: tokens of a rank, gathered of the whole micro-batch, t [1]
        heads: query heads of a rank, a [1]
        kv_heads: key and value heads of a rank, k [1]
        head_dim: width of a head, d [1]
        element: bytes of an element, e [B]
        cp_type: "p2p", "all-gather" or "a2a"

    Returns:
        buffers [B]

    Example:
        >>> exchange_buffer(131072.0, 16.0, 1.0, 128.0, 2.0, cp_type="all-gather") / 1e6
        134.217728

    Source:
        count; megatron-lm --cp-comm-type

    Monotone: increasing in tokens, heads, kv_heads, head_dim, element
    """
    if cp_type == "a2a":
        return 2 * element * (heads + kv_heads) * head_dim * tokens
    return (8.0 if cp_type == "p2p" else 4.0) * element * kv_heads * head_dim * tokens


@equation
def gathered_buffer(tokens: Number, kv_rank: Number, rope_dim: Number, head_dim: Number, element: Number) -> Number:
    """What a rank holds of a sequence while sparse attention over gathered latents runs backward.

    2 e (r + p + i) t: a latent, a rotary key and an index key a token, and their gradients

    Args:
        tokens: tokens of the micro-batch, t [1]
        kv_rank: width of the latent, r [1]
        rope_dim: width of the rotary key, p [1]
        head_dim: width of the index key, i [1]
        element: bytes of an element, e [B]

    Returns:
        buffers [B]

    Example:
        >>> gathered_buffer(131072.0, 512.0, 64.0, 128.0, 2.0) / 1e6
        369.098752

    Source:
        count

    Monotone: increasing in tokens, kv_rank, rope_dim, head_dim, element
    """
    return 2 * element * (kv_rank + rope_dim + head_dim) * tokens
