"""Context parallelism: of training and prompts by tokens of a sequence, of decoding by tokens of the cache."""

from __future__ import annotations

import numpy as np

from costmodel.ground.counts import ContextParallel
from costmodel.ground.equation import Number, equation

# --- Context parallelism: what the ranks that share a sequence exchange, and what of it attention does not hide.


@equation
def heads_message(tokens: Number, heads: Number, head_dim: Number, element: Number) -> Number:
    """Bytes of the queries, keys, values or outputs of a number of tokens.

    e a d t

    tokens t: tokens · heads: heads of a rank, a, or k for keys or values · head_dim d · element e [B] → buffer [B]
    Source: count
    Pitfall: a ring and a gather send keys and values alone, so grouped-query attention divides their traffic;
        all-to-all sends queries and outputs too
    Monotone: increasing in tokens, heads, head_dim, element
    >>> heads_message(16384.0, 1.0, 128.0, 2.0) / 1e6
    4.194304
    """
    return element * heads * head_dim * tokens


@equation
def ring_exposed_time(send: Number, compute: Number, cp: Number, hideable: Number) -> Number:
    """Ring exchange of keys and values that attention does not hide.

    (c − 1) (τ − η min(τ, A / c))

    send τ [s]: time of one step's send · compute A [s]: attention of the rank, all c steps · cp c
    hideable η: share of the shorter of both that really overlaps
    → exposed time of a layer in one direction [s]
    Source: liu-2023 §3; megatron-lm --cp-comm-type; composition
    Holds: causal chunks dealt in pairs, early with late, so that all c steps take alike; the last step sends nothing on
    Pitfall: chunks dealt in order leave the last rank 2 − 1/c times the even share of a causal mask, and the ring waits
    Monotone: increasing in send; decreasing in compute, hideable
    >>> round(float(ring_exposed_time(1.5e-3, 8e-3, 8.0, 1.0)), 6)
    0.0035
    """
    return (cp - 1) * (send - hideable * np.minimum(send, compute / cp))


@equation
def merge_traffic(tokens: Number, heads: Number, head_dim: Number, element: Number, cp: Number) -> Number:
    """Bytes to merge the partial results of a ring: each further step reads its own and rewrites the sum.

    3 e a d t (c − 1)

    tokens t: tokens of a rank · heads a: heads of a rank · head_dim d · element e [B] · cp c
    → read and written in one direction [B]
    Source: count; liu-2023 §3
    Monotone: increasing in tokens, heads, head_dim, element, cp
    >>> merge_traffic(4096.0, 16.0, 128.0, 2.0, 2.0) / 1e6
    50.331648
    """
    return 3 * element * heads * head_dim * tokens * (cp - 1)


@equation
def exchange_buffer(
    tokens: Number, heads: Number, kv_heads: Number, head_dim: Number, element: Number, *, cp_type: ContextParallel
) -> Number:
    """Bytes of other ranks' tokens that a rank holds while one layer's attention runs backward.

    p2p 8 e k d t: keys, values and their gradients, twice; all-gather 4 e k d t, of all tokens; a2a e (2 a + 2 k) d t

    tokens t: tokens of a rank, gathered of the whole micro-batch · heads a: query heads of a rank
    kv_heads k: key and value heads of a rank · head_dim d · element e [B] · cp_type: "p2p", "all-gather" or "a2a"
    → buffers [B]
    Source: count; megatron-lm --cp-comm-type
    Monotone: increasing in tokens, heads, kv_heads, head_dim, element
    >>> exchange_buffer(131072.0, 16.0, 1.0, 128.0, 2.0, cp_type="all-gather") / 1e6
    134.217728
    """
    if cp_type == "a2a":
        return 2 * element * (heads + kv_heads) * head_dim * tokens
    return (8.0 if cp_type == "p2p" else 4.0) * element * kv_heads * head_dim * tokens


@equation
def gathered_buffer(tokens: Number, kv_rank: Number, rope_dim: Number, head_dim: Number, element: Number) -> Number:
    """Bytes of a sequence that a rank holds while sparse attention over gathered latents runs backward.

    2 e (r + p + i) t: a latent, a rotary key and an index key a token, and their gradients

    tokens t: tokens of the micro-batch · kv_rank r: width of the latent · rope_dim p: width of the rotary key
    head_dim i: width of the index key · element e [B]
    → buffers [B]
    Source: count
    Monotone: increasing in tokens, kv_rank, rope_dim, head_dim, element
    >>> gathered_buffer(131072.0, 512.0, 64.0, 128.0, 2.0) / 1e6
    369.098752
    """
    return 2 * element * (kv_rank + rope_dim + head_dim) * tokens


# --- Decode context parallelism: ranks of tensor parallelism that divide the cache of a sequence by tokens.


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
