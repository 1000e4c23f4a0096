"""Decode context parallelism: ranks of tensor parallelism that divide the cache of a sequence by tokens."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def shared_cache_tokens(tokens: Number, ranks: Number) -> Number:
    """Tokens of a sequence that each rank keeps and reads where ranks take them in turn.

    n / c

    tokens n: tokens of the sequence · ranks c: ranks that divide them → tokens of a rank
    Source: vllm-engine docs/serving/context_parallel_deployment.md; helix-2025
    Holds: token i lies on rank i mod c, so ranks differ by one token at most
    Pitfall: these are ranks of tensor parallelism, so dcp adds no accelerator: it replaces copies of the same heads
    Monotone: increasing in tokens; decreasing in ranks
    >>> shared_cache_tokens(8192.0, 8.0)
    1024.0
    """
    return tokens / ranks


@equation
def gathered_heads(heads: Number, ranks: Number) -> Number:
    """Query heads with which a rank reads its tokens: its own, and those of the ranks that keep the others.

    a c

    heads a: query heads of one rank of tensor parallelism · ranks c: ranks that divide the tokens → heads
    Source: vllm-engine v1/attention/backends/flash_attn.py _forward_with_dcp
    Pitfall: attention reads 1/c of the tokens for c times the heads: bytes of the cache fall, products do not
    Monotone: increasing in heads, ranks
    >>> gathered_heads(8.0, 2.0)
    16.0
    """
    return heads * ranks


@equation
def softmax_statistics_bytes(rows: Number, heads: Number, ranks: Number, element: Number) -> Number:
    """Logarithms of the sums of softmax that every rank gathers of all ranks to weight their results.

    e c b a

    rows b: queries · heads a: query heads that each rank reads its tokens with · ranks c: ranks that divide the tokens
    element e [B]: bytes of an element, 4 in fp32
    → the gathered buffer [B]
    Source: vllm-engine v1/attention/ops/common.py cp_lse_ag_out_rs
    Monotone: increasing in rows, heads, ranks, element
    >>> softmax_statistics_bytes(64.0, 16.0, 2.0, 4.0)
    8192.0
    """
    return element * ranks * rows * heads


@equation
def partial_result_traffic(
    rows: Number, heads: Number, query_width: Number, result_width: Number, ranks: Number, element: Number
) -> Number:
    """Bytes through memory of putting partial results together: copies of queries and results, and their correction.

    2 e b a (d_q + 2 d_r + d_r / c): gathered queries in order of heads, results weighted and laid out for the sum, and
    what a rank gets of the sum

    rows b: queries · heads a: query heads that each rank reads its tokens with · query_width d_q: width of a query
    result_width d_r: width of a result · ranks c: ranks that divide the tokens · element e [B]
    → bytes [B]
    Source: vllm-engine distributed/device_communicators, v1/attention/ops/common.py
    Holds: each pass reads and writes what it works on once
    Monotone: increasing in rows, heads, query_width, result_width, element; decreasing in ranks
    >>> partial_result_traffic(64.0, 16.0, 128.0, 128.0, 2.0, 2.0) / 1e6
    1.835008
    """
    return 2 * element * rows * heads * (query_width + 2 * result_width + result_width / ranks)
