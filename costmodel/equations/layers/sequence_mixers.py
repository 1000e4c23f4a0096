"""Latent attention and state-space layers: parameters, work, bytes."""

from __future__ import annotations

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.equation import Number, equation


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


@equation
def state_space_width(heads: Number, head_dim: Number, groups: Number, state_size: Number) -> Number:
    """Columns of a Mamba-2 input projection: gate, input, both state matrices and a step for every head.

    2 a p + 2 g n + a

    heads a: heads · head_dim p · groups g: groups that share the state's matrices · state_size n → columns
    Source: dao-2024 §7
    Monotone: increasing in heads, head_dim, groups, state_size
    >>> state_space_width(128.0, 64.0, 8.0, 128.0)
    18560.0
    """
    return 2 * heads * head_dim + 2 * groups * state_size + heads


@equation
def state_space_parameters(
    hidden: Number, heads: Number, head_dim: Number, groups: Number, state_size: Number, conv: Number
) -> Number:
    """Parameters of a Mamba-2 mixer: both projections, the convolution with its bias, A, D, the step's bias, the norm.

    h (2 a p + 2 g n + a) + (a p + 2 g n) (c + 1) + 3 a + a p + a p h

    hidden h · heads a: heads of a rank · head_dim p · groups g: groups that share the state's matrices · state_size n
    conv c
    → parameters
    Source: dao-2024 §7
    Monotone: increasing in hidden, heads, head_dim, groups, state_size, conv
    >>> state_space_parameters(4096.0, 128.0, 64.0, 8.0, 128.0, 4.0)
    109635968.0
    """
    inner = heads * head_dim
    mixed = inner + 2 * groups * state_size
    return hidden * (inner + mixed + heads) + mixed * (conv + 1) + 3 * heads + inner + inner * hidden


@equation
def state_space_flop(
    tokens: Number, heads: Number, head_dim: Number, groups: Number, state_size: Number, chunk: Number, conv: Number
) -> Number:
    """Work of a Mamba-2 core, forward: within chunks as masked attention, between them through the state.

    per token q (g n + a p) + 4 a p n + 2 c (a p + 2 g n)

    tokens: tokens · heads a: heads of a rank · head_dim p · groups g: groups that share the state's matrices
    state_size n · chunk q · conv c
    → work [FLOP]
    Source: dao-2024 §6
    Holds: sequences of whole chunks; half of each chunk's square is masked
    Monotone: increasing in tokens, heads, head_dim, groups, state_size, chunk, conv
    >>> state_space_flop(1.0, 128.0, 64.0, 8.0, 128.0, 128.0, 4.0)
    5455872.0
    """
    inner, shared = heads * head_dim, groups * state_size
    macs = chunk * (shared + inner) / 2 + 2 * inner * state_size + conv * (inner + 2 * shared)
    return FLOP_PER_MAC * tokens * macs


@equation
def state_space_traffic(
    tokens: Number,
    heads: Number,
    head_dim: Number,
    groups: Number,
    state_size: Number,
    element: Number,
    *,
    backward: bool,
) -> Number:
    """Bytes of a Mamba-2 core through memory: convolution, scan, gate and norm each read and write their streams.

    forward e (8 a p + 6 g n) per token, backward twice that

    tokens: tokens · heads a: heads of a rank · head_dim p · groups g: groups that share the state's matrices
    state_size n · element e [B] · backward: the backward pass
    → bytes through memory [B]
    Source: count of reads and writes
    Monotone: increasing in tokens, heads, head_dim, groups, state_size, element
    >>> state_space_traffic(1.0, 128.0, 64.0, 8.0, 128.0, 2.0, backward=False)
    143360.0
    """
    return (2.0 if backward else 1.0) * element * tokens * (8 * heads * head_dim + 6 * groups * state_size)


@equation
def state_space_activations(
    tokens: Number, heads: Number, head_dim: Number, groups: Number, state_size: Number, element: Number
) -> Number:
    """What a Mamba-2 mixer keeps: the projected input, and the outputs of scan, gate and norm.

    e (5 a p + 2 g n + a) per token; the convolution runs again in backward

    tokens: tokens of a micro-batch · heads a: heads of a rank · head_dim p
    groups g: groups that share the state's matrices · state_size n · element e [B]
    → bytes a layer keeps [B]
    Source: count of tensors; megatron-lm mamba_mixer.py; dao-2024
    Holds: convolution, scan and gate are one function, mamba_split_conv1d_scan_combined, and the norm comes behind it
    Monotone: increasing in tokens, heads, head_dim, groups, state_size, element
    >>> state_space_activations(1.0, 128.0, 64.0, 8.0, 128.0, 2.0)
    86272.0
    """
    return element * tokens * (5 * heads * head_dim + 2 * groups * state_size + heads)
