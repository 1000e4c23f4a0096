"""Latent attention and state-space layers: parameters, work, bytes."""

from __future__ import annotations

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.equation import Number, equation


@equation
def compressed_query_parameters(hidden: Number, heads: Number, qk_dim: Number, query_rank: Number) -> Number:
    """Parameters of a latent attention's queries that pass a narrow vector, its norm counted.

    h r + r + r a d

    Args:
        hidden: width of the residual stream, h [1]
        heads: heads of a rank, a [1]
        qk_dim: width of a head's query, d [1]
        query_rank: width queries are compressed to, r [1]

    Returns:
        parameters [1]

    Example:
        >>> compressed_query_parameters(7168.0, 128.0, 192.0, 1536.0)
        48760320.0

    Source:
        deepseek-v2 §2.1

    Monotone: increasing in hidden, heads, qk_dim, query_rank
    """
    return hidden * query_rank + query_rank + query_rank * heads * qk_dim


@equation
def latent_attention_parameters(
    hidden: Number, heads: Number, kv_rank: Number, nope_dim: Number, rope_dim: Number, value_dim: Number
) -> Number:
    """Parameters of latent attention without its queries: down to the latent vector, its norm, up again, output.

    h (r + d_r) + r + r a (d_n + d_v) + a d_v h

    Args:
        hidden: width of the residual stream, h [1]
        heads: heads of a rank, a [1]
        kv_rank: width keys and values are compressed to, r [1]
        nope_dim: width of a head's key without positions, d_n [1]
        rope_dim: width of the key with positions, d_r [1]
        value_dim: width of a head's value, d_v [1]

    Returns:
        parameters [1]

    Example:
        >>> latent_attention_parameters(7168.0, 128.0, 512.0, 128.0, 64.0, 128.0)
        138347008.0

    Source:
        deepseek-v2 §2.1

    Monotone: increasing in hidden, heads, kv_rank, nope_dim, rope_dim, value_dim
    """
    down = hidden * (kv_rank + rope_dim) + kv_rank
    return down + kv_rank * heads * (nope_dim + value_dim) + heads * value_dim * hidden


@equation
def mean_head_dim(qk_dim: Number, value_dim: Number) -> Number:
    """Width of an ordinary head whose core does the work of one with unlike keys and values.

    (d_qk + d_v) / 2

    Args:
        qk_dim: width of a query or key, d_qk [1]
        value_dim: width of a value, d_v [1]

    Returns:
        width [1]

    Example:
        >>> mean_head_dim(192.0, 128.0)
        160.0

    Source:
        count of multiply-adds: 2 d_qk + 2 d_v a pair and head

    Monotone: increasing in qk_dim, value_dim
    """
    return (qk_dim + value_dim) / 2


@equation
def latent_activations(
    tokens: Number, query_rank: Number, kv_rank: Number, rope_dim: Number, element: Number
) -> Number:
    """The narrow vectors of latent attention, before and after their norms.

    2 e (r_q + r_kv) + e d_r per token

    Args:
        tokens: tokens of a micro-batch [1]
        query_rank: width queries are compressed to, r_q; 0 if they are not [1]
        kv_rank: width keys and values are compressed to, r_kv [1]
        rope_dim: width of the key with positions, d_r [1]
        element: bytes of an element, e [B]

    Returns:
        bytes a layer keeps [B]

    Example:
        >>> latent_activations(1.0, 1536.0, 512.0, 64.0, 2.0)
        8320.0

    Source:
        count of tensors

    Monotone: increasing in tokens, query_rank, kv_rank, rope_dim, element
    """
    return (2 * (query_rank + kv_rank) + rope_dim) * element * tokens


@equation
def state_space_width(heads: Number, head_dim: Number, groups: Number, state_size: Number) -> Number:
    """Columns of a Mamba-2 input projection: gate, input, both state matrices and a step for every head.

    2 a p + 2 g n + a

    Args:
        heads: heads, a [1]
        head_dim: width of a head, p [1]
        groups: groups that share the state's matrices, g [1]
        state_size: size of a state for each channel, n [1]

    Returns:
        columns [1]

    Example:
        >>> state_space_width(128.0, 64.0, 8.0, 128.0)
        18560.0

    Source:
        dao-2024 §7

    Monotone: increasing in heads, head_dim, groups, state_size
    """
    return 2 * heads * head_dim + 2 * groups * state_size + heads


@equation
def state_space_parameters(
    hidden: Number, heads: Number, head_dim: Number, groups: Number, state_size: Number, conv: Number
) -> Number:
    """Parameters of a Mamba-2 mixer: both projections, the convolution with its bias, A, D, the step's bias, the norm.

    h (2 a p + 2 g n + a) + (a p + 2 g n) (c + 1) + 3 a + a p + a p h

    Args:
        hidden: width of the residual stream, h [1]
        heads: heads of a rank, a [1]
        head_dim: width of a head, p [1]
        groups: groups that share the state's matrices, g [1]
        state_size: size of a state for each channel, n [1]
        conv: taps of the convolution, c [1]

    Returns:
        parameters [1]

    Example:
        >>> state_space_parameters(4096.0, 128.0, 64.0, 8.0, 128.0, 4.0)
        109635968.0

    Source:
        dao-2024 §7

    Monotone: increasing in hidden, heads, head_dim, groups, state_size, conv
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

    Args:
        tokens: tokens [1]
        heads: heads of a rank, a [1]
        head_dim: width of a head, p [1]
        groups: groups that share the state's matrices, g [1]
        state_size: size of a state for each channel, n [1]
        chunk: tokens of a chunk, q [1]
        conv: taps of the convolution, c [1]

    Returns:
        work [FLOP]

    Example:
        >>> state_space_flop(1.0, 128.0, 64.0, 8.0, 128.0, 128.0, 4.0)
        5455872.0

    Holds:
        sequences of whole chunks; half of each chunk's square is masked

    Source:
        dao-2024 §6

    Monotone: increasing in tokens, heads, head_dim, groups, state_size, chunk, conv
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

    Args:
        tokens: tokens [1]
        heads: heads of a rank, a [1]
        head_dim: width of a head, p [1]
        groups: groups that share the state's matrices, g [1]
        state_size: size of a state for each channel, n [1]
        element: bytes of an element, e [B]
        backward: the backward pass

    Returns:
        bytes through memory [B]

    Example:
        >>> state_space_traffic(1.0, 128.0, 64.0, 8.0, 128.0, 2.0, backward=False)
        143360.0

    Source:
        count of reads and writes

    Monotone: increasing in tokens, heads, head_dim, groups, state_size, element
    """
    return (2.0 if backward else 1.0) * element * tokens * (8 * heads * head_dim + 6 * groups * state_size)


@equation
def state_space_activations(
    tokens: Number, heads: Number, head_dim: Number, groups: Number, state_size: Number, element: Number
) -> Number:
    """What a Mamba-2 mixer keeps: the projected input, and the outputs of scan, gate and norm.

    e (5 a p + 2 g n + a) per token; the convolution runs again in backward

    Args:
        tokens: tokens of a micro-batch [1]
        heads: heads of a rank, a [1]
        head_dim: width of a head, p [1]
        groups: groups that share the state's matrices, g [1]
        state_size: size of a state for each channel, n [1]
        element: bytes of an element, e [B]

    Returns:
        bytes a layer keeps [B]

    Example:
        >>> state_space_activations(1.0, 128.0, 64.0, 8.0, 128.0, 2.0)
        86272.0

    Holds:
        convolution, scan and gate are one function, mamba_split_conv1d_scan_combined, and the norm comes behind it

    Source:
        count of tensors; megatron-lm mamba_mixer.py; dao-2024

    Monotone: increasing in tokens, heads, head_dim, groups, state_size, element
    """
    return element * tokens * (5 * heads * head_dim + 2 * groups * state_size + heads)
