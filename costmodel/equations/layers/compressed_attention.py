"""Attention over a window of tokens and over entries, each of which stands for a run of earlier tokens."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.equation import Number, equation


@equation
def compressed_attention_parameters(
    hidden: Number, heads: Number, head_dim: Number, query_rank: Number, output_groups: Number, output_rank: Number
) -> Number:
    """Parameters of attention with one vector as key and value, and a result that is narrow in between.

    h r + r + r a d + h d + d + a d r_o + g r_o h

    Args:
        hidden: width of the residual stream, h [1]
        heads: query heads of a rank, a [1]
        head_dim: width of a head, d [1]
        query_rank: width that queries are compressed to, r [1]
        output_groups: groups of these heads, g [1]
        output_rank: width of the narrow result of a group, r_o [1]

    Returns:
        parameters [1]

    Example:
        >>> compressed_attention_parameters(4096.0, 64.0, 512.0, 1024.0, 8.0, 1024.0)
        106956288.0

    Source:
        deepseek-v4 §2.3

    Monotone: increasing in hidden, heads, head_dim, query_rank, output_groups, output_rank
    """
    queries = hidden * query_rank + query_rank + query_rank * heads * head_dim
    results = heads * head_dim * output_rank + output_groups * output_rank * hidden
    return queries + hidden * head_dim + head_dim + results


@equation
def compressor_parameters(hidden: Number, head_dim: Number, entry_tokens: Number, series: Number) -> Number:
    """Parameters of what makes entries: vectors and gates of a token, a bias for each place in a run, a norm.

    2 h c d + m c d + d

    Args:
        hidden: width of the residual stream, h [1]
        head_dim: width of an entry, d [1]
        entry_tokens: tokens that an entry stands for, m [1]
        series: vectors of a token, c; two where entries overlap [1]

    Returns:
        parameters [1]

    Example:
        >>> compressor_parameters(7168.0, 512.0, 128.0, 1.0)
        7406080.0

    Source:
        deepseek-v4 §2.3

    Monotone: increasing in hidden, head_dim, entry_tokens, series
    """
    return (2 * hidden + entry_tokens) * series * head_dim + head_dim


@equation
def entry_pairs(sequence: Number, entry_tokens: Number, top_k: Number, *, causal: bool) -> Number:
    """Entries that the queries of a sequence read together: each sees those of whole runs up to its own token.

    causal m q (q − 1) / 2 + q (s − m q + 1), otherwise s q; q = min(w, ⌊s / m⌋)

    Args:
        sequence: tokens in a sequence, s [1]
        entry_tokens: tokens that an entry stands for, m [1]
        top_k: most entries that a query reads, w [1]
        causal: count a query's own and earlier runs alone

    Returns:
        entries, summed over the queries [1]

    Example:
        >>> float(entry_pairs(4096.0, 4.0, 512.0, causal=True))
        1572352.0

    Source:
        exact count

    Monotone: increasing in sequence, top_k
    """
    seen: Number = np.minimum(top_k, np.floor(sequence / entry_tokens))
    if not causal:
        return sequence * seen
    return entry_tokens * seen * (seen - 1) / 2 + seen * (sequence - entry_tokens * seen + 1)


@equation
def entry_attention_flop(micro_batch: Number, pairs: Number, heads: Number, head_dim: Number) -> Number:
    """Work of scores and weighted values over entries, forward.

    4 b a d p

    Args:
        micro_batch: sequences, b [1]
        pairs: entries that the queries of a sequence read together, p [1]
        heads: query heads, a [1]
        head_dim: width of a head, d [1]

    Returns:
        work [FLOP]

    Example:
        >>> entry_attention_flop(1.0, 1572352.0, 64.0, 512.0)
        206091321344.0

    Source:
        deepseek-v4 §2.3; exact count

    Monotone: increasing in micro_batch, pairs, heads, head_dim
    """
    return 2 * FLOP_PER_MAC * micro_batch * pairs * heads * head_dim


@equation
def entry_scores_flop(micro_batch: Number, pairs: Number, heads: Number, head_dim: Number) -> Number:
    """Work of an indexer over entries, forward: products of all its heads, and their weighted sum.

    2 b a (d + 1) p

    Args:
        micro_batch: sequences, b [1]
        pairs: entries that the queries of a sequence are scored against, p [1]
        heads: heads of the indexer, a [1]
        head_dim: width of its heads, d [1]

    Returns:
        work [FLOP]

    Example:
        >>> entry_scores_flop(1.0, 2096128.0, 64.0, 128.0)
        34611265536.0

    Source:
        deepseek-v4 §2.3; exact count

    Monotone: increasing in micro_batch, pairs, heads, head_dim
    """
    return FLOP_PER_MAC * micro_batch * pairs * heads * (head_dim + 1)


@equation
def compressor_traffic(
    tokens: Number, head_dim: Number, entry_tokens: Number, series: Number, element: Number, *, backward: bool
) -> Number:
    """Bytes of making entries beside the products: vectors and gates are read, one entry is written for a run.

    forward e d (2 c + 1 / m) per token, backward e d (4 c + 1 / m)

    Args:
        tokens: tokens [1]
        head_dim: width of an entry, d [1]
        entry_tokens: tokens that an entry stands for, m [1]
        series: vectors of a token, c; two where entries overlap [1]
        element: bytes of an element, e [B]
        backward: the backward pass

    Returns:
        bytes through memory [B]

    Example:
        >>> compressor_traffic(4.0, 512.0, 4.0, 2.0, 2.0, backward=False)
        17408.0

    Holds:
        fused kernels

    Source:
        count of reads and writes

    Monotone: increasing in tokens, head_dim, series, element
    """
    return element * tokens * head_dim * ((4.0 if backward else 2.0) * series + 1 / entry_tokens)


@equation
def compressed_attention_activations(
    tokens: Number, heads: Number, head_dim: Number, output_groups: Number, output_rank: Number, element: Number
) -> Number:
    """What attention with one key and value keeps: queries and results before and behind a rotation, narrow results.

    e (4 a d + g r_o) per token

    Args:
        tokens: tokens of a micro-batch [1]
        heads: heads of a rank, a [1]
        head_dim: width of a head, d [1]
        output_groups: groups of these heads, g [1]
        output_rank: width of the narrow result of a group, r_o [1]
        element: bytes of an element, e [B]

    Returns:
        bytes a layer keeps [B]

    Example:
        >>> compressed_attention_activations(1.0, 64.0, 512.0, 8.0, 1024.0, 2.0)
        278528.0

    Source:
        count of tensors

    Monotone: increasing in tokens, heads, head_dim, output_groups, output_rank, element
    """
    return element * tokens * (4 * heads * head_dim + output_groups * output_rank)


@equation
def narrow_activations(tokens: Number, query_rank: Number, head_dim: Number, element: Number) -> Number:
    """What the narrow query and the key of a token keep: both before and behind their norm.

    2 e (r + d) per token

    Args:
        tokens: tokens of a micro-batch [1]
        query_rank: width that queries are compressed to, r [1]
        head_dim: width of the key, d [1]
        element: bytes of an element, e [B]

    Returns:
        bytes a layer keeps [B]

    Example:
        >>> narrow_activations(1.0, 1024.0, 512.0, 2.0)
        6144.0

    Source:
        count of tensors

    Monotone: increasing in tokens, query_rank, head_dim, element
    """
    return 2 * element * tokens * (query_rank + head_dim)


@equation
def compressor_activations(
    tokens: Number, head_dim: Number, entry_tokens: Number, series: Number, element: Number
) -> Number:
    """What making entries keeps: vectors and gates of tokens, entries before and behind their norm.

    2 e d (c + 1 / m) per token

    Args:
        tokens: tokens of a micro-batch [1]
        head_dim: width of an entry, d [1]
        entry_tokens: tokens that an entry stands for, m [1]
        series: vectors of a token, c; two where entries overlap [1]
        element: bytes of an element, e [B]

    Returns:
        bytes a layer keeps [B]

    Example:
        >>> compressor_activations(4.0, 512.0, 4.0, 2.0, 2.0)
        18432.0

    Source:
        count of tensors

    Monotone: increasing in tokens, head_dim, series, element
    """
    return 2 * element * tokens * head_dim * (series + 1 / entry_tokens)


@equation
def entry_choice_activations(
    tokens: Number, heads: Number, head_dim: Number, top_k: Number, element: Number, index: Number
) -> Number:
    """What an indexer over entries keeps beside them: its queries and weights, and an index for every entry it picks.

    e a (d + 1) + i w per token

    Args:
        tokens: tokens of a micro-batch [1]
        heads: heads of the indexer, a [1]
        head_dim: width of its heads, d [1]
        top_k: entries that a query reads, w [1]
        element: bytes of an element, e [B]
        index: bytes of an index, i [B]

    Returns:
        bytes a layer keeps [B]

    Example:
        >>> entry_choice_activations(1.0, 64.0, 128.0, 512.0, 2.0, 4.0)
        18560.0

    Source:
        count of tensors

    Monotone: increasing in tokens, heads, head_dim, top_k, element, index
    """
    return tokens * (element * heads * (head_dim + 1) + index * top_k)
