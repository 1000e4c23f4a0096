"""Sparse attention: an indexer scores all tokens with narrow heads, and attention reads the best of them."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.equation import Number, equation


@equation
def indexer_parameters(hidden: Number, query_rank: Number, heads: Number, head_dim: Number) -> Number:
    """Parameters of an indexer: queries from the narrow query, one key with its layer norm, a weight for each head.

    r a d + h d + 2 d + h a

    Args:
        hidden: width of the residual stream, h [1]
        query_rank: width that attention compresses queries to, r [1]
        heads: heads of the indexer, a [1]
        head_dim: width of its heads, d [1]

    Returns:
        parameters [1]

    Example:
        >>> indexer_parameters(7168.0, 1536.0, 64.0, 128.0)
        13959424.0

    Source:
        deepseek-v3.2 §2

    Monotone: increasing in hidden, query_rank, heads, head_dim
    """
    return query_rank * heads * head_dim + hidden * head_dim + 2 * head_dim + hidden * heads


@equation
def indexer_flop(micro_batch: Number, sequence: Number, heads: Number, head_dim: Number, *, causal: bool) -> Number:
    """Work of an indexer's scores, forward: products of all its heads, and their weighted sum.

    causal b s (s + 1) a (d + 1), otherwise twice b s² a (d + 1)

    Args:
        micro_batch: sequences, b [1]
        sequence: tokens in a sequence, s [1]
        heads: heads of the indexer, a [1]
        head_dim: width of its heads, d [1]
        causal: count a query's own and earlier keys alone

    Returns:
        work [FLOP]

    Example:
        >>> indexer_flop(1.0, 4096.0, 64.0, 128.0, causal=True)
        138546511872.0

    Source:
        deepseek-v3.2 §2; exact count

    Monotone: increasing in micro_batch, sequence, heads, head_dim
    """
    pairs = sequence * (sequence + 1) / 2 if causal else sequence * sequence
    return FLOP_PER_MAC * micro_batch * pairs * heads * (head_dim + 1)


@equation
def selected_attention_flop(
    micro_batch: Number,
    sequence: Number,
    heads: Number,
    kv_rank: Number,
    rope_dim: Number,
    top_k: Number,
    *,
    causal: bool,
) -> Number:
    """Work of latent attention over the tokens that an indexer picks, forward: every query reads latents of its own.

    causal 2 b a (2 r + d_r) (w (w + 1) / 2 + (s - w) w), otherwise 2 b a (2 r + d_r) s w; w = min(top_k, s)

    Args:
        micro_batch: sequences, b [1]
        sequence: tokens in a sequence, s [1]
        heads: query heads, a [1]
        kv_rank: width that keys and values are compressed to, r [1]
        rope_dim: width of the key with positions, d_r [1]
        top_k: tokens that a query reads [1]
        causal: count the fewer keys of the first queries

    Returns:
        work [FLOP]

    Example:
        >>> float(selected_attention_flop(1.0, 4096.0, 128.0, 512.0, 64.0, 2048.0, causal=True))
        1752631869440.0

    Holds:
        up-projections absorbed into queries and results, since no two queries read the same keys

    Source:
        deepseek-v3.2 §2.1

    Monotone: increasing in micro_batch, sequence, heads, kv_rank, rope_dim, top_k
    """
    seen = np.minimum(top_k, sequence)
    keys = seen * (seen + 1) / 2 + (sequence - seen) * seen if causal else sequence * seen
    return FLOP_PER_MAC * micro_batch * keys * heads * (2 * kv_rank + rope_dim)


@equation
def selected_activations(
    tokens: Number,
    heads: Number,
    nope_dim: Number,
    value_dim: Number,
    kv_rank: Number,
    rope_dim: Number,
    element: Number,
) -> Number:
    """What latent attention over selected tokens keeps: queries before and behind absorption, results in both widths.

    e a (d_n + 2 r + d_r + d_v) per token

    Args:
        tokens: tokens of a micro-batch [1]
        heads: heads of a rank, a [1]
        nope_dim: width of a head's query without positions, d_n [1]
        value_dim: width of a head's value, d_v [1]
        kv_rank: width that keys and values are compressed to, r [1]
        rope_dim: width of the key with positions, d_r [1]
        element: bytes of an element, e [B]

    Returns:
        bytes a layer keeps [B]

    Example:
        >>> selected_activations(1.0, 128.0, 128.0, 128.0, 512.0, 64.0, 2.0)
        344064.0

    Source:
        count of tensors

    Monotone: increasing in tokens, heads, nope_dim, value_dim, kv_rank, rope_dim, element
    """
    return element * tokens * heads * (nope_dim + 2 * kv_rank + rope_dim + value_dim)


@equation
def indexer_activations(
    tokens: Number, heads: Number, head_dim: Number, top_k: Number, element: Number, index: Number
) -> Number:
    """What an indexer keeps: its queries, key and weights, and an index for every token that it picks.

    e (a d + d + a) + i w per token

    Args:
        tokens: tokens of a micro-batch [1]
        heads: heads of the indexer, a [1]
        head_dim: width of its heads, d [1]
        top_k: tokens that a query reads, w [1]
        element: bytes of an element, e [B]
        index: bytes of an index, i [B]

    Returns:
        bytes a layer keeps [B]

    Example:
        >>> indexer_activations(1.0, 64.0, 128.0, 2048.0, 2.0, 4.0)
        24960.0

    Source:
        count of tensors

    Monotone: increasing in tokens, heads, head_dim, top_k, element, index
    """
    return tokens * (element * (heads * head_dim + head_dim + heads) + index * top_k)
