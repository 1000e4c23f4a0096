"""Attention that compresses keys and values (MLA), has a gate, or looks at some of the tokens only."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.equation import Number, equation

# --- attention that compresses keys and values (MLA), and a gate on the result of attention


# --- Latent attention (MLA): parameters, width, bytes saved.


@equation
def compressed_query_parameters(hidden: Number, heads: Number, qk_dim: Number, query_rank: Number) -> Number:
    """Parameters of a latent attention's queries that pass a narrow vector, its norm counted.

    h r + r + r a d

    hidden h · heads a: heads of a rank · qk_dim d: width of a head's query
    query_rank r: width queries are compressed to
    → parameters
    Source: deepseek-v2 §2.1
    Monotone: increasing in hidden, heads, qk_dim, query_rank
    >>> compressed_query_parameters(7168.0, 128.0, 192.0, 1536.0)
    48760320.0
    """
    return hidden * query_rank + query_rank + query_rank * heads * qk_dim


@equation
def latent_attention_parameters(
    hidden: Number, heads: Number, kv_rank: Number, nope_dim: Number, rope_dim: Number, value_dim: Number
) -> Number:
    """Parameters of latent attention without its queries: down to the latent vector, its norm, up again, output.

    h (r + d_r) + r + r a (d_n + d_v) + a d_v h

    hidden h · heads a: heads of a rank · kv_rank r: width keys and values are compressed to
    nope_dim d_n: width of a head's key without positions · rope_dim d_r: width of the key with positions
    value_dim d_v
    → parameters
    Source: deepseek-v2 §2.1
    Monotone: increasing in hidden, heads, kv_rank, nope_dim, rope_dim, value_dim
    >>> latent_attention_parameters(7168.0, 128.0, 512.0, 128.0, 64.0, 128.0)
    138347008.0
    """
    down = hidden * (kv_rank + rope_dim) + kv_rank
    return down + kv_rank * heads * (nope_dim + value_dim) + heads * value_dim * hidden


@equation
def mean_head_dim(qk_dim: Number, value_dim: Number) -> Number:
    """Width of an ordinary head whose core does the work of one with unlike keys and values.

    (d_qk + d_v) / 2

    qk_dim d_qk: width of a query or key · value_dim d_v: width of a value → width
    Source: count of multiply-adds: 2 d_qk + 2 d_v a pair and head
    Monotone: increasing in qk_dim, value_dim
    >>> mean_head_dim(192.0, 128.0)
    160.0
    """
    return (qk_dim + value_dim) / 2


@equation
def latent_activations(
    tokens: Number, query_rank: Number, kv_rank: Number, rope_dim: Number, element: Number
) -> Number:
    """The narrow vectors of latent attention, before and after their norms.

    2 e (r_q + r_kv) + e d_r per token

    tokens: tokens of a micro-batch · query_rank: width queries are compressed to, r_q; 0 if they are not
    kv_rank r_kv: width keys and values are compressed to · rope_dim d_r: width of the key with positions
    element e [B]
    → bytes a layer keeps [B]
    Source: count of tensors
    Monotone: increasing in tokens, query_rank, kv_rank, rope_dim, element
    >>> latent_activations(1.0, 1536.0, 512.0, 64.0, 2.0)
    8320.0
    """
    return (2 * (query_rank + kv_rank) + rope_dim) * element * tokens


# --- A gate on the result of attention, as wide as the queries: bytes through memory, and saved.


@equation
def output_gate_traffic(tokens: Number, heads: Number, head_dim: Number, element: Number, *, backward: bool) -> Number:
    """Bytes of multiplying the result of attention by the sigmoid of its gate.

    forward 3 e a d per token, backward 5 e a d

    tokens: tokens · heads a · head_dim d · element e [B] · backward: the backward pass → bytes through memory [B]
    Source: count of reads and writes
    Holds: fused kernels
    Monotone: increasing in tokens, heads, head_dim, element
    >>> output_gate_traffic(1.0, 16.0, 256.0, 2.0, backward=False)
    24576.0
    """
    return (5.0 if backward else 3.0) * element * tokens * heads * head_dim


@equation
def output_gate_activations(tokens: Number, heads: Number, head_dim: Number, element: Number) -> Number:
    """The gate, and the gated result, which the output projection reads.

    2 e a d per token

    tokens: tokens of a micro-batch · heads a: query heads of a rank · head_dim d · element e [B]
    → bytes a layer keeps [B]
    Source: count of tensors
    Monotone: increasing in tokens, heads, head_dim, element
    >>> output_gate_activations(1.0, 16.0, 256.0, 2.0)
    16384.0
    """
    return 2 * element * tokens * heads * head_dim


# --- attention to some of the tokens: those an indexer picks, or entries that stand for runs of tokens


# --- Sparse attention: an indexer scores all tokens with narrow heads, and attention reads the best of them.


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
    """Bytes that latent attention over selected tokens saves: queries before and after absorption, both results.

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
    """Bytes that an indexer saves: its queries, key and weights, and an index for every token that it picks.

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


# --- Attention over a window of tokens and over entries, each of which stands for a run of earlier tokens.


@equation
def compressed_attention_parameters(
    hidden: Number, heads: Number, head_dim: Number, query_rank: Number, output_groups: Number, output_rank: Number
) -> Number:
    """Parameters of attention with one vector as key and value, and a result that is narrow in between.

    h r + r + r a d + h d + d + a d r_o + g r_o h

    hidden h · heads a: query heads of a rank · head_dim d · query_rank r · output_groups g: groups of these heads
    output_rank r_o: width of the narrow result of a group
    → parameters
    Source: deepseek-v4 §2.3
    Monotone: increasing in hidden, heads, head_dim, query_rank, output_groups, output_rank
    >>> compressed_attention_parameters(4096.0, 64.0, 512.0, 1024.0, 8.0, 1024.0)
    106956288.0
    """
    queries = hidden * query_rank + query_rank + query_rank * heads * head_dim
    results = heads * head_dim * output_rank + output_groups * output_rank * hidden
    return queries + hidden * head_dim + head_dim + results


@equation
def compressor_parameters(hidden: Number, head_dim: Number, entry_tokens: Number, series: Number) -> Number:
    """Parameters of what makes entries: vectors and gates of a token, a bias for each place in a run, a norm.

    2 h c d + m c d + d

    hidden h · head_dim d: width of an entry · entry_tokens m: tokens that an entry stands for
    series: vectors of a token, c; two where entries overlap
    → parameters
    Source: deepseek-v4 §2.3
    Monotone: increasing in hidden, head_dim, entry_tokens, series
    >>> compressor_parameters(7168.0, 512.0, 128.0, 1.0)
    7406080.0
    """
    return (2 * hidden + entry_tokens) * series * head_dim + head_dim


@equation
def entry_pairs(sequence: Number, entry_tokens: Number, top_k: Number, *, causal: bool) -> Number:
    """Entries that the queries of a sequence read together: each sees those of whole runs up to its own token.

    causal m q (q − 1) / 2 + q (s − m q + 1), otherwise s q; q = min(w, ⌊s / m⌋)

    sequence s · entry_tokens m: tokens that an entry stands for · top_k w: most entries that a query reads
    causal: count a query's own and earlier runs alone
    → entries, summed over the queries
    Source: exact count
    Monotone: increasing in sequence, top_k
    >>> float(entry_pairs(4096.0, 4.0, 512.0, causal=True))
    1572352.0
    """
    seen: Number = np.minimum(top_k, np.floor(sequence / entry_tokens))
    if not causal:
        return sequence * seen
    return entry_tokens * seen * (seen - 1) / 2 + seen * (sequence - entry_tokens * seen + 1)


@equation
def entry_attention_flop(micro_batch: Number, pairs: Number, heads: Number, head_dim: Number) -> Number:
    """Work of scores and weighted values over entries, forward.

    4 b a d p

    micro_batch b: sequences · pairs p: entries that the queries of a sequence read together · heads a · head_dim d
    → work [FLOP]
    Source: deepseek-v4 §2.3; exact count
    Monotone: increasing in micro_batch, pairs, heads, head_dim
    >>> entry_attention_flop(1.0, 1572352.0, 64.0, 512.0)
    206091321344.0
    """
    return 2 * FLOP_PER_MAC * micro_batch * pairs * heads * head_dim


@equation
def entry_scores_flop(micro_batch: Number, pairs: Number, heads: Number, head_dim: Number) -> Number:
    """Work of an indexer over entries, forward: products of all its heads, and their weighted sum.

    2 b a (d + 1) p

    micro_batch b: sequences · pairs p: entries that the queries of a sequence are scored against
    heads a: heads of the indexer · head_dim d: width of its heads
    → work [FLOP]
    Source: deepseek-v4 §2.3; exact count
    Monotone: increasing in micro_batch, pairs, heads, head_dim
    >>> entry_scores_flop(1.0, 2096128.0, 64.0, 128.0)
    34611265536.0
    """
    return FLOP_PER_MAC * micro_batch * pairs * heads * (head_dim + 1)


@equation
def compressor_traffic(
    tokens: Number, head_dim: Number, entry_tokens: Number, series: Number, element: Number, *, backward: bool
) -> Number:
    """Bytes of making entries beside the products: vectors and gates are read, one entry is written for a run.

    forward e d (2 c + 1 / m) per token, backward e d (4 c + 1 / m)

    tokens: tokens · head_dim d: width of an entry · entry_tokens m: tokens that an entry stands for
    series: vectors of a token, c; two where entries overlap · element e [B] · backward: the backward pass
    → bytes through memory [B]
    Source: count of reads and writes
    Holds: fused kernels
    Monotone: increasing in tokens, head_dim, series, element
    >>> compressor_traffic(4.0, 512.0, 4.0, 2.0, 2.0, backward=False)
    17408.0
    """
    return element * tokens * head_dim * ((4.0 if backward else 2.0) * series + 1 / entry_tokens)


@equation
def compressed_attention_activations(
    tokens: Number, heads: Number, head_dim: Number, output_groups: Number, output_rank: Number, element: Number
) -> Number:
    """Bytes that attention with one key and value saves: queries, results before and after rotation, narrow results.

    e (4 a d + g r_o) per token

    tokens: tokens of a micro-batch · heads a: heads of a rank · head_dim d · output_groups g: groups of these heads
    output_rank r_o: width of the narrow result of a group · element e [B]
    → bytes a layer keeps [B]
    Source: count of tensors
    Monotone: increasing in tokens, heads, head_dim, output_groups, output_rank, element
    >>> compressed_attention_activations(1.0, 64.0, 512.0, 8.0, 1024.0, 2.0)
    278528.0
    """
    return element * tokens * (4 * heads * head_dim + output_groups * output_rank)


@equation
def narrow_activations(tokens: Number, query_rank: Number, head_dim: Number, element: Number) -> Number:
    """Bytes saved for the narrow query and the key of a token: both before and after their norm.

    2 e (r + d) per token

    tokens: tokens of a micro-batch · query_rank r · head_dim d: width of the key · element e [B]
    → bytes a layer keeps [B]
    Source: count of tensors
    Monotone: increasing in tokens, query_rank, head_dim, element
    >>> narrow_activations(1.0, 1024.0, 512.0, 2.0)
    6144.0
    """
    return 2 * element * tokens * (query_rank + head_dim)


@equation
def compressor_activations(
    tokens: Number, head_dim: Number, entry_tokens: Number, series: Number, element: Number
) -> Number:
    """Bytes saved to make entries: vectors and gates of tokens, entries before and after their norm.

    2 e d (c + 1 / m) per token

    tokens: tokens of a micro-batch · head_dim d: width of an entry · entry_tokens m: tokens that an entry stands for
    series: vectors of a token, c; two where entries overlap · element e [B]
    → bytes a layer keeps [B]
    Source: count of tensors
    Monotone: increasing in tokens, head_dim, series, element
    >>> compressor_activations(4.0, 512.0, 4.0, 2.0, 2.0)
    18432.0
    """
    return 2 * element * tokens * head_dim * (series + 1 / entry_tokens)


@equation
def entry_choice_activations(
    tokens: Number, heads: Number, head_dim: Number, top_k: Number, element: Number, index: Number
) -> Number:
    """Bytes that an indexer over entries saves beside them: its queries, weights, and an index per picked entry.

    e a (d + 1) + i w per token

    tokens: tokens of a micro-batch · heads a: heads of the indexer · head_dim d: width of its heads
    top_k w: entries that a query reads · element e [B] · index i [B]: bytes of an index
    → bytes a layer keeps [B]
    Source: count of tensors
    Monotone: increasing in tokens, heads, head_dim, top_k, element, index
    >>> entry_choice_activations(1.0, 64.0, 128.0, 512.0, 2.0, 4.0)
    18560.0
    """
    return tokens * (element * heads * (head_dim + 1) + index * top_k)
