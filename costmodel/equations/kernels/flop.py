"""FLOP: of a matmul, of attention, of a training step under each named convention."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation

FLOP_PER_MAC = 2.0  # a multiply-add is two operations


@equation
def matmul_flop(m: Number, n: Number, k: Number) -> Number:
    """Work of an m × k by k × n matrix product.

    2 m n k

    m: rows of the result, tokens · n: columns of the result · k: inner dimension → work [FLOP]
    Source: narayanan-2021 appendix
    Monotone: increasing in m, n, k
    >>> matmul_flop(4096.0, 4096.0, 4096.0)
    137438953472.0
    """
    return FLOP_PER_MAC * m * n * k


@equation
def attention_flop(micro_batch: Number, sequence: Number, heads: Number, head_dim: Number, *, causal: bool) -> Number:
    """Work of scores and weighted values, forward.

    causal 2 b s (s + 1) a d, otherwise 4 b s² a d

    micro_batch b: sequences · sequence s · heads a · head_dim d · causal: count only the keys a query may see
    → work [FLOP]
    Source: dao-2023; exact count
    Monotone: increasing in micro_batch, sequence, heads, head_dim
    >>> attention_flop(1.0, 8192.0, 32.0, 128.0, causal=True)
    549822922752.0
    """
    keys = sequence + 1 if causal else 2 * sequence
    return FLOP_PER_MAC * micro_batch * sequence * keys * heads * head_dim


@equation
def windowed_attention_flop(
    micro_batch: Number, sequence: Number, heads: Number, head_dim: Number, window: Number, *, causal: bool
) -> Number:
    """Work of scores and weighted values where a query sees only the last keys, forward.

    causal 4 b a d (w (w + 1) / 2 + (s - w) w), otherwise 4 b s w a d; w never more than s

    micro_batch b: sequences · sequence s · heads a · head_dim d · window w
    causal: count the fewer keys of the first queries
    → work [FLOP]
    Source: exact count
    Monotone: increasing in micro_batch, sequence, heads, head_dim, window
    >>> float(windowed_attention_flop(1.0, 8192.0, 32.0, 128.0, 4096.0, causal=True))
    412350414848.0
    """
    seen = np.minimum(window, sequence)
    keys = seen * (seen + 1) / 2 + (sequence - seen) * seen if causal else sequence * seen
    return 2 * FLOP_PER_MAC * micro_batch * keys * heads * head_dim


@equation
def training_flop(forward: Number) -> Number:
    """Forward and backward: the gradients of input and weight each cost another forward.

    3 F

    forward F [FLOP]: forward work → work of forward and backward [FLOP]
    Source: narayanan-2021 appendix; chowdhery-2022 appendix B
    Monotone: increasing in forward
    >>> training_flop(2.0)
    6.0
    """
    return 3 * forward


@equation
def projection_flop(rank: Number, n: Number, k: Number) -> Number:
    """Work that brings a gradient into a subspace of low rank, and the update back.

    4 r n k

    rank r: rank of the subspace · n: outputs of the matrix · k: inputs of it → work [FLOP]
    Source: zhao-2024 algorithm 2
    Pitfall: the singular value decomposition that finds a new subspace every 200 steps or so is not in it
    Monotone: increasing in rank, n, k
    >>> projection_flop(128.0, 4096.0, 4096.0)
    8589934592.0
    """
    return 2 * FLOP_PER_MAC * rank * n * k


@equation
def orthogonalisation_flop(steps: Number, n: Number, k: Number) -> Number:
    """Work of Newton-Schulz steps that make the singular values of a gradient equal.

    T (4 m² M + 2 m³), m the shorter side and M the longer: X Xᵀ, its square, and their sum times X

    steps T · n: outputs of the matrix · k: inputs of it → work [FLOP]
    Source: jordan-2024
    Holds: plain products; kernels that use the symmetry of the first two do fewer
    Monotone: increasing in steps, n, k
    >>> f"{26 * 256 * (orthogonalisation_flop(3.0, 2560, 2560) + orthogonalisation_flop(3.0, 1280, 2560)):.3g}"
    '2.43e+15'
    """
    short, long = np.minimum(n, k), np.maximum(n, k)
    work: Number = steps * FLOP_PER_MAC * (2 * short**2 * long + short**3)
    return work


@equation
def six_n_flop(parameters: Number, tokens: Number) -> Number:
    """The rule of six FLOP per parameter and token; attention is not counted.

    6 N T

    parameters N · tokens T: tokens trained on → work [FLOP]
    Source: kaplan-2020 §2.1; hoffmann-2022
    Monotone: increasing in parameters, tokens
    >>> f"{six_n_flop(405.85e9, 15.6e12):.3g}"
    '3.8e+25'
    """
    return 3 * FLOP_PER_MAC * parameters * tokens


@equation
def optimal_parameters(flop: Number, tokens_per_parameter: Number) -> Number:
    """Parameters of the dense model with the least loss that so much work trains.

    √(C / (6 r)), on r tokens for each parameter

    flop C [FLOP]: work of the whole training · tokens_per_parameter r: at the optimum, 20 → parameters
    Source: hoffmann-2022
    Holds: dense models on fresh text; another corpus moves r, and a model that is served much is best smaller, on more
        tokens
    Monotone: increasing in flop; decreasing in tokens_per_parameter
    >>> f"{optimal_parameters(5.76e23, 20.0):.3g}"
    '6.93e+10'
    """
    return (flop / (3 * FLOP_PER_MAC * tokens_per_parameter)) ** 0.5


@equation
def optimal_tokens(parameters: Number, tokens_per_parameter: Number) -> Number:
    """Tokens on which a dense model of this size has the least loss for the work.

    r N

    parameters N · tokens_per_parameter r: at the optimum, 20 → tokens
    Source: hoffmann-2022
    Holds: dense models on fresh text, as optimal_parameters does
    Monotone: increasing in parameters, tokens_per_parameter
    >>> optimal_tokens(70e9, 20.0)
    1400000000000.0
    """
    return parameters * tokens_per_parameter


@equation
def palm_flop(
    parameters: Number, tokens: Number, layers: Number, heads: Number, head_dim: Number, sequence: Number
) -> Number:
    """PaLM's convention: six N and full, not causal, attention.

    T (6 N + 12 L a d s)

    parameters N · tokens T: tokens trained on · layers L: layers · heads a · head_dim d · sequence s → work [FLOP]
    Source: chowdhery-2022 appendix B
    Monotone: increasing in parameters, tokens, layers, heads, head_dim, sequence
    >>> f"{palm_flop(8030261248.0, 1.0, 32.0, 32.0, 128.0, 8192.0):.5g}"
    '6.1066e+10'
    """
    return FLOP_PER_MAC * tokens * (3 * parameters + 6 * layers * heads * head_dim * sequence)


@equation
def megatron_flop(
    global_batch: Number, sequence: Number, layers: Number, hidden: Number, vocab: Number, *, recomputed: bool
) -> Number:
    """Megatron's closed form for GPT blocks with an inner width of four times hidden.

    72 B s L h² (1 + s / 6h + V / 12Lh), with full recompute 96 B s L h² (1 + s / 6h + V / 16Lh)

    global_batch B · sequence s · layers L: layers · hidden h · vocab V: vocabulary
    recomputed: count the second forward of the layers, as the 2021 paper does
    → work of a step [FLOP]
    Source: narayanan-2021 eq. 3; korthikanti-2022 appendix A
    Holds: multi-head attention and f = 4 h; attention counted in full
    Monotone: increasing in global_batch, sequence, layers, hidden, vocab
    >>> f"{megatron_flop(1536.0, 2048.0, 96.0, 12288.0, 51200.0, recomputed=True):.5e}"
    '4.51097e+18'
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

    global_batch B · sequence s · layers L: layers · hidden h → work of a step [FLOP]
    Source: korthikanti-2022 appendix A
    Holds: only to reproduce the published HFU; one forward of the core is a third of it
    Monotone: increasing in global_batch, sequence, layers, hidden
    >>> korthikanti_recompute_flop(1.0, 2.0, 1.0, 1.0)
    48.0
    """
    return 6 * FLOP_PER_MAC * global_batch * sequence * sequence * layers * hidden
