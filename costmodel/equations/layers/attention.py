"""Attention that compresses keys and values (MLA), and a gate on the result of attention."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation

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
