"""FLOP: of a matmul, of attention, of a training step under each named convention."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation

FLOP_PER_MAC = 2.0  # a multiply-add is two operations


@equation
def matmul_flop(m: Number, n: Number, k: Number) -> Number:
    """Work of an m × k by k × n matrix product.

    2 m n k

    Args:
        m: rows of the result, tokens [1]
        n: columns of the result [1]
        k: inner dimension [1]

    Returns:
        work [FLOP]

    Example:
        >>> matmul_flop(4096.0, 4096.0, 4096.0)
        137438953472.0

    Source:
        narayanan-2021 appendix

    Monotone: increasing in m, n, k
    """
    return FLOP_PER_MAC * m * n * k


@equation
def attention_flop(micro_batch: Number, sequence: Number, heads: Number, head_dim: Number, *, causal: bool) -> Number:
    """Work of scores and weighted values, forward.

    causal 2 b s (s + 1) a d, otherwise 4 b s² a d

    Args:
        micro_batch: sequences, b [1]
        sequence: tokens in a sequence, s [1]
        heads: query heads, a [1]
        head_dim: width of a head, d [1]
        causal: count only the keys a query may see

    Returns:
        work [FLOP]

    Example:
        >>> attention_flop(1.0, 8192.0, 32.0, 128.0, causal=True)
        549822922752.0

    Source:
        dao-2023; exact count

    Monotone: increasing in micro_batch, sequence, heads, head_dim
    """
    keys = sequence + 1 if causal else 2 * sequence
    return FLOP_PER_MAC * micro_batch * sequence * keys * heads * head_dim


@equation
def windowed_attention_flop(
    micro_batch: Number, sequence: Number, heads: Number, head_dim: Number, window: Number, *, causal: bool
) -> Number:
    """Work of scores and weighted values where a query sees only the last keys, forward.

    causal 4 b a d (w (w + 1) / 2 + (s - w) w), otherwise 4 b s w a d; w never more than s

    Args:
        micro_batch: sequences, b [1]
        sequence: tokens in a sequence, s [1]
        heads: query heads, a [1]
        head_dim: width of a head, d [1]
        window: keys a query sees, its own the last, w [1]
        causal: count the fewer keys of the first queries

    Returns:
        work [FLOP]

    Example:
        >>> float(windowed_attention_flop(1.0, 8192.0, 32.0, 128.0, 4096.0, causal=True))
        412350414848.0

    Source:
        exact count

    Monotone: increasing in micro_batch, sequence, heads, head_dim, window
    """
    seen = np.minimum(window, sequence)
    keys = seen * (seen + 1) / 2 + (sequence - seen) * seen if causal else sequence * seen
    return 2 * FLOP_PER_MAC * micro_batch * keys * heads * head_dim


@equation
def training_flop(forward: Number) -> Number:
    """Forward and backward: the gradients of input and weight each cost another forward.

    3 F

    Args:
        forward: forward work, F [FLOP]

    Returns:
        work of forward and backward [FLOP]

    Example:
        >>> training_flop(2.0)
        6.0

    Source:
        narayanan-2021 appendix; chowdhery-2022 appendix B

    Monotone: increasing in forward
    """
    return 3 * forward


@equation
def projection_flop(rank: Number, n: Number, k: Number) -> Number:
    """Work that brings a gradient into a subspace of low rank, and the update back.

    4 r n k

    Args:
        rank: rank of the subspace, r [1]
        n: outputs of the matrix [1]
        k: inputs of it [1]

    Returns:
        work [FLOP]

    Example:
        >>> projection_flop(128.0, 4096.0, 4096.0)
        8589934592.0

    Source:
        zhao-2024 algorithm 2

    Pitfall:
        the singular value decomposition that finds a new subspace every 200 steps or so is not in it

    Monotone: increasing in rank, n, k
    """
    return 2 * FLOP_PER_MAC * rank * n * k


@equation
def six_n_flop(parameters: Number, tokens: Number) -> Number:
    """The rule of six FLOP per parameter and token; attention is not counted.

    6 N T

    Args:
        parameters: parameters, N [1]
        tokens: tokens trained on, T [1]

    Returns:
        work [FLOP]

    Example:
        >>> f"{six_n_flop(405.85e9, 15.6e12):.3g}"
        '3.8e+25'

    Source:
        kaplan-2020 §2.1; hoffmann-2022

    Monotone: increasing in parameters, tokens
    """
    return 3 * FLOP_PER_MAC * parameters * tokens


@equation
def palm_flop(
    parameters: Number, tokens: Number, layers: Number, heads: Number, head_dim: Number, sequence: Number
) -> Number:
    """PaLM's convention: six N and full, not causal, attention.

    T (6 N + 12 L a d s)

    Args:
        parameters: parameters, N [1]
        tokens: tokens trained on, T [1]
        layers: layers, L [1]
        heads: query heads, a [1]
        head_dim: width of a head, d [1]
        sequence: tokens in a sequence, s [1]

    Returns:
        work [FLOP]

    Example:
        >>> f"{palm_flop(8030261248.0, 1.0, 32.0, 32.0, 128.0, 8192.0):.5g}"
        '6.1066e+10'

    Source:
        chowdhery-2022 appendix B

    Monotone: increasing in parameters, tokens, layers, heads, head_dim, sequence
    """
    return FLOP_PER_MAC * tokens * (3 * parameters + 6 * layers * heads * head_dim * sequence)


@equation
def megatron_flop(
    global_batch: Number, sequence: Number, layers: Number, hidden: Number, vocab: Number, *, recomputed: bool
) -> Number:
    """Megatron's closed form for GPT blocks with an inner width of four times hidden.

    72 B s L h² (1 + s / 6h + V / 12Lh), with full recompute 96 B s L h² (1 + s / 6h + V / 16Lh)

    Args:
        global_batch: sequences in a step, B [1]
        sequence: tokens in a sequence, s [1]
        layers: layers, L [1]
        hidden: width of the residual stream, h [1]
        vocab: vocabulary, V [1]
        recomputed: count the second forward of the layers, as the 2021 paper does

    Returns:
        work of a step [FLOP]

    Example:
        >>> f"{megatron_flop(1536.0, 2048.0, 96.0, 12288.0, 51200.0, recomputed=True):.5e}"
        '4.51097e+18'

    Holds:
        multi-head attention and f = 4 h; attention counted in full

    Source:
        narayanan-2021 eq. 3; korthikanti-2022 appendix A

    Monotone: increasing in global_batch, sequence, layers, hidden, vocab
    """
    passes = 48.0 if recomputed else 36.0
    head = passes / 6 * 2
    tokens = global_batch * sequence
    ends = 1 + sequence / (6 * hidden) + vocab / (head * layers * hidden)
    return FLOP_PER_MAC * passes * tokens * layers * hidden * hidden * ends


@equation
def korthikanti_recompute_flop(global_batch: Number, sequence: Number, layers: Number, hidden: Number) -> Number:
    """Recomputed work of selective recompute as the 2022 paper counts it.

    12 B s² L h, three times one forward of the attention core

    Args:
        global_batch: sequences in a step, B [1]
        sequence: tokens in a sequence, s [1]
        layers: layers, L [1]
        hidden: width of the residual stream, h [1]

    Returns:
        work of a step [FLOP]

    Example:
        >>> korthikanti_recompute_flop(1.0, 2.0, 1.0, 1.0)
        48.0

    Holds:
        only to reproduce the published HFU; one forward of the core is a third of it

    Source:
        korthikanti-2022 appendix A

    Monotone: increasing in global_batch, sequence, layers, hidden
    """
    return 6 * FLOP_PER_MAC * global_batch * sequence * sequence * layers * hidden
