"""What one step of decoding reads and computes beside its dense matrix products."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.equation import Number, equation


@equation
def expert_read_probability(tokens: Number, probability: Number) -> Number:
    """Probability that at least one of so many tokens is sent to an expert.

    1 − (1 − p)^m

    tokens m: tokens of a step, of all ranks that share the experts · probability p: that one token is sent there
    → probability; the sum over experts of unlike p is how many are read
    Source: exact
    Holds: tokens choose independently; those of one sequence are more alike, and read fewer
    Monotone: increasing in tokens, probability
    >>> float(expert_read_probability(2.0, 0.25))
    0.4375
    """
    return 1 - np.maximum(1 - probability, 0.0) ** tokens


@equation
def experts_read(tokens: Number, top_k: Number, experts: Number) -> Number:
    """Experts whose weights a step reads, on average, when each token is sent to any of them as likely.

    E (1 − (1 − k / E)^m)

    tokens m: tokens of a step, of all ranks that share the experts · top_k k · experts E: routed experts → experts
    Source: exact
    Pitfall: as many as min(E, m k) is wrong by up to a half; uneven routing reads fewer, while its busiest rank has
        more
    Monotone: increasing in tokens, top_k, experts
    >>> [round(float(experts_read(tokens, 8.0, 256.0)), 2) for tokens in (1.0, 2.0, 64.0)]
    [8.0, 15.75, 222.44]
    """
    return experts * expert_read_probability(tokens, top_k / experts)


@equation
def expert_layer_bytes(
    read_experts: Number, rows: Number, hidden: Number, ffn_hidden: Number, operand: Number, element: Number
) -> Number:
    """Bytes through memory of a layer's gated experts: weights of those that are read, inputs and results of all rows.

    3 o E_t h f + 2 e r (h + f)

    read_experts E_t: experts whose weights are read · rows r: rows over all experts, tokens times top_k · hidden h
    ffn_hidden f: inner width of an expert · operand o [B]: bytes of a weight's element with its share of the scales
    element e [B]: bytes of an element of inputs and results
    → bytes [B]
    Source: count of reads and writes; serving-fit
    Holds: each token meets few of a layer's experts, so that weights are what counts
    Monotone: increasing in read_experts, rows, hidden, ffn_hidden, operand, element
    >>> round(expert_layer_bytes(163.314, 0.0, 7168.0, 2048.0, 1.0, 2.0) / 1e9, 2)
    7.19
    """
    return 3 * operand * read_experts * hidden * ffn_hidden + 2 * element * rows * (hidden + ffn_hidden)


@equation
def weight_product_bytes(m: Number, n: Number, k: Number, weight: Number, operand: Number, element: Number) -> Number:
    """Bytes through memory of rows times a weight matrix whose elements are kept in a type of their own.

    w n k + o m k + e m n

    m: rows of the result · n: columns of the result · k: inner dimension
    weight w [B]: bytes of a weight as it is kept, with its share of the scales
    operand o [B]: bytes of an element of the rows that are multiplied
    element e [B]: bytes of an element of the result
    → bytes [B]
    Source: williams-2009; count of reads and writes
    Monotone: increasing in m, n, k, weight, operand, element
    >>> weight_product_bytes(1.0, 4096.0, 4096.0, 0.5, 2.0, 2.0)
    8404992.0
    """
    return weight * n * k + operand * m * k + element * m * n


@equation
def absorbed_attention_flop(
    cached_tokens: Number, queries: Number, heads: Number, kv_rank: Number, rope_dim: Number
) -> Number:
    """Work of latent attention (MLA) in decode, whose up-projections are absorbed into queries and outputs.

    2 a (2 r + d_r) q n

    cached_tokens n: tokens in the cache, of all sequences of a step
    queries q: query tokens of each sequence: 1, or the drafted ones and one · heads a: query heads of a rank
    kv_rank r · rope_dim d_r: width of the key with positions
    → work of a layer [FLOP]
    Source: deepseek-v2 §2.1; exact count
    Pitfall: "decode attention is bound by memory" is wrong here: 242 FLOP for each byte of a 16-bit cache is near the
        ridge of an H100, and two queries are over it; grouped queries of 64 heads over 8 make 8 FLOP a byte
    Monotone: increasing in cached_tokens, queries, heads, kv_rank, rope_dim
    >>> absorbed_attention_flop(1.0, 1.0, 128.0, 512.0, 64.0)
    278528.0
    """
    return FLOP_PER_MAC * heads * (2 * kv_rank + rope_dim) * queries * cached_tokens


@equation
def compute_bound_batch(operand: Number, peak: Number, bandwidth: Number) -> Number:
    """Tokens of a step from which dense matrix products take longer to compute than to read their weights.

    o P / (2 W)

    operand o [B]: bytes of a weight's element with its share of the scales
    peak P [FLOP/s]: datasheet rate of the type that is multiplied in · bandwidth W [B/s]: datasheet memory bandwidth
    → tokens
    Source: williams-2009; scaling-book chapter 7
    Holds: no estimate calls it
    Pitfall: weights of 4 bits that are multiplied in 16 gain nothing from 77 tokens on
    Monotone: increasing in operand, peak; decreasing in bandwidth
    >>> [round(compute_bound_batch(operand, 989.4e12, 3.35e12)) for operand in (2.0, 0.5195)]
    [295, 77]
    """
    return operand * peak / (FLOP_PER_MAC * bandwidth)


@equation
def fastest_user_rate(weight_memory: Number, ranks: Number, bandwidth: Number) -> Number:
    """Tokens a second that one user can get at most, since each token reads all weights once.

    n W / S

    weight_memory S [B]: bytes of the weights that a token reads, over all ranks
    ranks n: ranks that hold them between them · bandwidth W [B/s]: datasheet memory bandwidth of one
    → tokens a second [1/s]
    Source: williams-2009; pope-2023
    Holds: one token a step; speculation multiplies it by the tokens that a step accepts
    Monotone: increasing in ranks, bandwidth; decreasing in weight_memory
    >>> round(fastest_user_rate(70.55e9, 1.0, 3.35e12), 1)
    47.5
    """
    return ranks * bandwidth / weight_memory
