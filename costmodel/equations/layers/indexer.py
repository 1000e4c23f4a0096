"""Sparse attention: an indexer scores all tokens with narrow heads, and attention reads the best of them."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.equation import Number, equation


@equation
def indexer_parameters(hidden: Number, query_rank: Number, heads: Number, head_dim: Number) -> Number:
    """Parameters of an indexer: queries from the narrow query, one key with its layer norm, a weight for each head.

    r a d + h d + 2 d + h a

    hidden h · query_rank r: width that attention compresses queries to · heads a: heads of the indexer
    head_dim d: width of its heads
    → parameters
    Source: deepseek-v3.2 §2
    Monotone: increasing in hidden, query_rank, heads, head_dim
    >>> indexer_parameters(7168.0, 1536.0, 64.0, 128.0)
    13959424.0
    """
    return query_rank * heads * head_dim + hidden * head_dim + 2 * head_dim + hidden * heads


@equation
def indexer_flop(micro_batch: Number, sequence: Number, heads: Number, head_dim: Number, *, causal: bool) -> Number:
    """Work of an indexer's scores, forward: products of all its heads, and their weighted sum.

    causal b s (s + 1) a (d + 1), otherwise twice b s² a (d + 1)

    micro_batch b: sequences · sequence s · heads a: heads of the indexer · head_dim d: width of its heads
    causal: count a query's own and earlier keys alone
    → work [FLOP]
    Source: deepseek-v3.2 §2; exact count
    Monotone: increasing in micro_batch, sequence, heads, head_dim
    >>> indexer_flop(1.0, 4096.0, 64.0, 128.0, causal=True)
    138546511872.0
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

    micro_batch b: sequences · sequence s · heads a · kv_rank r · rope_dim d_r: width of the key with positions
    top_k: tokens that a query reads · causal: count the fewer keys of the first queries
    → work [FLOP]
    Source: deepseek-v3.2 §2.1
    Holds: up-projections absorbed into queries and results, since no two queries read the same keys
    Monotone: increasing in micro_batch, sequence, heads, kv_rank, rope_dim, top_k
    >>> float(selected_attention_flop(1.0, 4096.0, 128.0, 512.0, 64.0, 2048.0, causal=True))
    1752631869440.0
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

    tokens: tokens of a micro-batch · heads a: heads of a rank · nope_dim d_n: width of a head's query without positions
    value_dim d_v · kv_rank r · rope_dim d_r: width of the key with positions · element e [B]
    → bytes a layer keeps [B]
    Source: count of tensors
    Monotone: increasing in tokens, heads, nope_dim, value_dim, kv_rank, rope_dim, element
    >>> selected_activations(1.0, 128.0, 128.0, 128.0, 512.0, 64.0, 2.0)
    344064.0
    """
    return element * tokens * heads * (nope_dim + 2 * kv_rank + rope_dim + value_dim)


@equation
def indexer_activations(
    tokens: Number, heads: Number, head_dim: Number, top_k: Number, element: Number, index: Number
) -> Number:
    """What an indexer keeps: its queries, key and weights, and an index for every token that it picks.

    e (a d + d + a) + i w per token

    tokens: tokens of a micro-batch · heads a: heads of the indexer · head_dim d: width of its heads
    top_k w: tokens that a query reads · element e [B] · index i [B]: bytes of an index
    → bytes a layer keeps [B]
    Source: count of tensors
    Monotone: increasing in tokens, heads, head_dim, top_k, element, index
    >>> indexer_activations(1.0, 64.0, 128.0, 2048.0, 2.0, 4.0)
    24960.0
    """
    return tokens * (element * (heads * head_dim + head_dim + heads) + index * top_k)
