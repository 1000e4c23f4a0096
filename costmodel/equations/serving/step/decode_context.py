"""Decode context parallelism: ranks of tensor parallelism that divide the cache of a sequence by tokens."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def shared_cache_tokens(tokens: Number, ranks: Number) -> Number:
    """Tokens of a sequence that each rank keeps and reads where ranks take them in turn.

    n / c

    Args:
        tokens: tokens of the sequence, n [1]
        ranks: ranks that divide them, c [1]

    Returns:
        tokens of a rank [1]

    Example:
        >>> shared_cache_tokens(8192.0, 8.0)
        1024.0

    Holds:
        token i lies on rank i mod c, so ranks differ by one token at most

    Source:
        vllm-engine docs/serving/context_parallel_deployment.md; helix-2025

    Pitfall:
        these are ranks of tensor parallelism, so dcp adds no accelerator: it replaces copies of the same heads

    Monotone: increasing in tokens; decreasing in ranks
    """
    return tokens / ranks


@equation
def gathered_heads(heads: Number, ranks: Number) -> Number:
    """Query heads with which a rank reads its tokens: its own, and those of the ranks that keep the others.

    a c

    Args:
        heads: query heads of one rank of tensor parallelism, a [1]
        ranks: ranks that divide the tokens, c [1]

    Returns:
        heads [1]

    Example:
        >>> gathered_heads(8.0, 2.0)
        16.0

    Source:
        vllm-engine v1/attention/backends/flash_attn.py _forward_with_dcp

    Pitfall:
        attention reads 1/c of the tokens for c times the heads: bytes of the cache fall, products do not

    Monotone: increasing in heads, ranks
    """
    return heads * ranks


@equation
def softmax_statistics_bytes(rows: Number, heads: Number, ranks: Number, element: Number) -> Number:
    """Logarithms of the sums of softmax that every rank gathers of all ranks to weight their results.

    e c b a

    Args:
        rows: queries, b [1]
        heads: query heads that each rank reads its tokens with, a [1]
        ranks: ranks that divide the tokens, c [1]
        element: bytes of an element, 4 in fp32, e [B]

    Returns:
        the gathered buffer [B]

    Example:
        >>> softmax_statistics_bytes(64.0, 16.0, 2.0, 4.0)
        8192.0

    Source:
        vllm-engine v1/attention/ops/common.py cp_lse_ag_out_rs

    Monotone: increasing in rows, heads, ranks, element
    """
    return element * ranks * rows * heads


@equation
def partial_result_traffic(
    rows: Number, heads: Number, query_width: Number, result_width: Number, ranks: Number, element: Number
) -> Number:
    """Bytes through memory of putting partial results together: copies of queries and results, and their correction.

    2 e b a (d_q + 2 d_r + d_r / c): gathered queries in order of heads, results weighted and laid out for the sum, and
    what a rank gets of the sum

    Args:
        rows: queries, b [1]
        heads: query heads that each rank reads its tokens with, a [1]
        query_width: width of a query, d_q [1]
        result_width: width of a result, d_r [1]
        ranks: ranks that divide the tokens, c [1]
        element: bytes of an element, e [B]

    Returns:
        bytes [B]

    Example:
        >>> partial_result_traffic(64.0, 16.0, 128.0, 128.0, 2.0, 2.0) / 1e6
        1.835008

    Holds:
        each pass reads and writes what it works on once

    Source:
        vllm-engine distributed/device_communicators, v1/attention/ops/common.py

    Monotone: increasing in rows, heads, query_width, result_width, element; decreasing in ranks
    """
    return 2 * element * rows * heads * (query_width + 2 * result_width + result_width / ranks)
