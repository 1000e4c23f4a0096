"""What one step of decoding reads and computes beside its dense matrix products."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.equation import Number, equation


@equation
def expert_read_probability(tokens: Number, probability: Number) -> Number:
    """Probability that at least one of so many tokens is sent to an expert.

    1 − (1 − p)^m

    Args:
        tokens: tokens of a step, of all ranks that share the experts, m [1]
        probability: that one token is sent there, p [1]

    Returns:
        probability; the sum over experts of unlike p is how many are read [1]

    Example:
        >>> float(expert_read_probability(2.0, 0.25))
        0.4375

    Holds:
        tokens choose independently; those of one sequence are more alike, and read fewer

    Source:
        exact

    Monotone: increasing in tokens, probability
    """
    return 1 - np.maximum(1 - probability, 0.0) ** tokens


@equation
def experts_read(tokens: Number, top_k: Number, experts: Number) -> Number:
    """Experts whose weights a step reads, on average, when each token is sent to any of them as likely.

    E (1 − (1 − k / E)^m)

    Args:
        tokens: tokens of a step, of all ranks that share the experts, m [1]
        top_k: experts a token is sent to, k [1]
        experts: routed experts, E [1]

    Returns:
        experts [1]

    Example:
        >>> [round(float(experts_read(tokens, 8.0, 256.0)), 2) for tokens in (1.0, 2.0, 64.0)]
        [8.0, 15.75, 222.44]

    Source:
        exact

    Pitfall:
        as many as min(E, m k) is wrong by up to a half; uneven routing reads fewer, while its busiest rank has more

    Monotone: increasing in tokens, top_k, experts
    """
    return experts * expert_read_probability(tokens, top_k / experts)


@equation
def expert_layer_bytes(
    read_experts: Number, rows: Number, hidden: Number, ffn_hidden: Number, operand: Number, element: Number
) -> Number:
    """Bytes through memory of a layer's gated experts: weights of those that are read, inputs and results of all rows.

    3 o E_t h f + 2 e r (h + f)

    Args:
        read_experts: experts whose weights are read, E_t [1]
        rows: rows over all experts, tokens times top_k, r [1]
        hidden: width of the residual stream, h [1]
        ffn_hidden: inner width of an expert, f [1]
        operand: bytes of a weight's element with its share of the scales, o [B]
        element: bytes of an element of inputs and results, e [B]

    Returns:
        bytes [B]

    Example:
        >>> round(expert_layer_bytes(163.314, 0.0, 7168.0, 2048.0, 1.0, 2.0) / 1e9, 2)
        7.19

    Holds:
        each token meets few of a layer's experts, so that weights are what counts

    Source:
        count of reads and writes; serving-fit

    Monotone: increasing in read_experts, rows, hidden, ffn_hidden, operand, element
    """
    return 3 * operand * read_experts * hidden * ffn_hidden + 2 * element * rows * (hidden + ffn_hidden)


@equation
def weight_product_bytes(m: Number, n: Number, k: Number, weight: Number, operand: Number, element: Number) -> Number:
    """Bytes through memory of rows times a weight matrix whose elements are kept in a type of their own.

    w n k + o m k + e m n

    Args:
        m: rows of the result [1]
        n: columns of the result [1]
        k: inner dimension [1]
        weight: bytes of a weight as it is kept, with its share of the scales, w [B]
        operand: bytes of an element of the rows that are multiplied, o [B]
        element: bytes of an element of the result, e [B]

    Returns:
        bytes [B]

    Example:
        >>> weight_product_bytes(1.0, 4096.0, 4096.0, 0.5, 2.0, 2.0)
        8404992.0

    Source:
        williams-2009; count of reads and writes

    Monotone: increasing in m, n, k, weight, operand, element
    """
    return weight * n * k + operand * m * k + element * m * n


@equation
def absorbed_attention_flop(
    cached_tokens: Number, queries: Number, heads: Number, kv_rank: Number, rope_dim: Number
) -> Number:
    """Work of latent attention (MLA) in decode, whose up-projections are absorbed into queries and outputs.

    2 a (2 r + d_r) q n

    Args:
        cached_tokens: tokens in the cache, of all sequences of a step, n [1]
        queries: query tokens of each sequence: 1, or the drafted ones and one, q [1]
        heads: query heads of a rank, a [1]
        kv_rank: width that keys and values are compressed to, r [1]
        rope_dim: width of the key with positions, d_r [1]

    Returns:
        work of a layer [FLOP]

    Example:
        >>> absorbed_attention_flop(1.0, 1.0, 128.0, 512.0, 64.0)
        278528.0

    Source:
        deepseek-v2 §2.1; exact count

    Pitfall:
        "decode attention is bound by memory" is wrong here: 242 FLOP for each byte of a 16-bit cache is near the ridge
        of an H100, and two queries are over it; grouped queries of 64 heads over 8 make 8 FLOP a byte

    Monotone: increasing in cached_tokens, queries, heads, kv_rank, rope_dim
    """
    return FLOP_PER_MAC * heads * (2 * kv_rank + rope_dim) * queries * cached_tokens


@equation
def compute_bound_batch(operand: Number, peak: Number, bandwidth: Number) -> Number:
    """Tokens of a step from which dense matrix products take longer to compute than to read their weights.

    o P / (2 W)

    Args:
        operand: bytes of a weight's element with its share of the scales, o [B]
        peak: datasheet rate of the type that is multiplied in, P [FLOP/s]
        bandwidth: datasheet memory bandwidth, W [B/s]

    Returns:
        tokens [1]

    Example:
        >>> [round(compute_bound_batch(operand, 989.4e12, 3.35e12)) for operand in (2.0, 0.5195)]
        [295, 77]

    Holds:
        no estimate calls it

    Source:
        williams-2009; scaling-book chapter 7

    Pitfall:
        weights of 4 bits that are multiplied in 16 gain nothing from 77 tokens on

    Monotone: increasing in operand, peak; decreasing in bandwidth
    """
    return operand * peak / (FLOP_PER_MAC * bandwidth)


@equation
def fastest_user_rate(weight_memory: Number, ranks: Number, bandwidth: Number) -> Number:
    """Tokens a second that one user can get at most, since each token reads all weights once.

    n W / S

    Args:
        weight_memory: bytes of the weights that a token reads, over all ranks, S [B]
        ranks: ranks that hold them between them, n [1]
        bandwidth: datasheet memory bandwidth of one, W [B/s]

    Returns:
        tokens a second [1/s]

    Example:
        >>> round(fastest_user_rate(70.55e9, 1.0, 3.35e12), 1)
        47.5

    Holds:
        one token a step; speculation multiplies it by the tokens that a step accepts

    Source:
        williams-2009; pope-2023

    Monotone: increasing in ranks, bandwidth; decreasing in weight_memory
    """
    return ranks * bandwidth / weight_memory
