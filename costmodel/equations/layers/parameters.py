"""Parameters of embedding, attention, MLP and norms, and low-rank adapters on them."""

from __future__ import annotations

from costmodel.ground.counts import Norm
from costmodel.ground.equation import Number, equation

# --- Parameters of embedding, attention, MLP and norms.


@equation
def attention_parameters(
    hidden: Number, heads: Number, kv_heads: Number, head_dim: Number, *, biases: bool, output_bias: bool
) -> Number:
    """Parameters of multi-head or grouped-query attention.

    2 h a d + 2 h k d, and with biases (a + 2 k) d + h

    hidden h · heads a · kv_heads k · head_dim d · biases: whether query, key and value have biases
    output_bias: whether the output projection has one
    → parameters
    Source: vaswani-2017; ainslie-2023
    Monotone: increasing in hidden, heads, kv_heads, head_dim
    >>> attention_parameters(8192.0, 64.0, 8.0, 128.0, biases=False, output_bias=False)
    150994944.0
    """
    matrices = 2 * hidden * heads * head_dim + 2 * hidden * kv_heads * head_dim
    inner = (heads + 2 * kv_heads) * head_dim if biases else 0.0
    outer = hidden if output_bias else 0.0
    return matrices + inner + outer


@equation
def mlp_parameters(hidden: Number, ffn_hidden: Number, *, gated: bool, biases: bool) -> Number:
    """Parameters of the feed-forward half of a layer.

    two matrices 2 h f, three when gated 3 h f, and with biases f + h (2 f + h when gated)

    hidden h · ffn_hidden f: inner width · gated: three matrices (SwiGLU) instead of two · biases → parameters
    Source: shazeer-2020
    Monotone: increasing in hidden, ffn_hidden
    >>> mlp_parameters(8192.0, 28672.0, gated=True, biases=False)
    704643072.0
    """
    matrices = 3.0 if gated else 2.0
    bias = (matrices - 1) * ffn_hidden + hidden if biases else 0.0
    return matrices * hidden * ffn_hidden + bias


@equation
def norm_parameters(hidden: Number, *, norm: Norm) -> Number:
    """Parameters of one normalisation.

    layernorm 2 h, without bias or rmsnorm h

    hidden h · norm: "layernorm", "layernorm-no-bias" or "rmsnorm" → parameters
    Source: zhang-2019
    Monotone: increasing in hidden
    >>> norm_parameters(8192.0, norm="rmsnorm")
    8192.0
    """
    return 2 * hidden if norm == "layernorm" else hidden


@equation
def table_parameters(rows: Number, hidden: Number) -> Number:
    """Parameters of an embedding table, a head or learned positions.

    V h

    rows V: entries of the table · hidden h → parameters
    Source: vaswani-2017
    Monotone: increasing in rows, hidden
    >>> table_parameters(128256.0, 8192.0)
    1050673152.0
    """
    return rows * hidden


# --- Low-rank adapters on frozen weights: their parameters, what frozen weights take and what they spare.


@equation
def adapter_parameters(rank: Number, n: Number, k: Number) -> Number:
    """Parameters of the two thin matrices beside one weight matrix.

    r (n + k)

    rank r: inner width of the adapter · n n: outputs of the matrix it adapts, as the rank holds it · k k: inputs of it
    → parameters
    Source: hu-2021 §4
    Monotone: increasing in rank, n, k
    >>> 2 * 32 * adapter_parameters(8.0, 4096.0, 4096.0)
    4194304.0
    """
    return rank * (n + k)


@equation
def packed_bytes(parameters: Number, packed: Number, scale: Number, group: Number, groups: Number) -> Number:
    """Weights in 4-bit NormalFloat with a scale for each group, and these scales with fp32 scales of their own.

    (q + s / g + 4 s / (g G)) Ψ: 4.127 bits for q = 0.5, s = 1, g = 64, G = 256

    parameters Ψ: weights · packed q [B]: bytes of a packed weight alone
    scale [B]: bytes of a scale, s; its own scale takes four times as much · group g
    groups G: scales that share a scale of their own
    → bytes [B]
    Source: dettmers-2023 §3
    Monotone: increasing in parameters, packed, scale; decreasing in group, groups
    >>> round(packed_bytes(65e9, 0.5, 1.0, 64.0, 256.0) / 1e9, 1)
    33.5
    """
    return (packed + scale / group + 4 * scale / (group * groups)) * parameters


@equation
def dequantise_traffic(parameters: Number, packed: Number, compute: Number) -> Number:
    """Bytes of turning packed weights back into what the matmuls read.

    (q + c) Ψ

    parameters Ψ: weights · packed q [B]: bytes of a packed weight with its share of the scales
    compute c [B]: bytes of a weight as the matmuls read it
    → bytes through memory [B]
    Source: dettmers-2023; count of reads and writes
    Monotone: increasing in parameters, packed, compute
    >>> dequantise_traffic(1e9, 0.5, 2.0) / 1e9
    2.5
    """
    return (packed + compute) * parameters


@equation
def frozen_flop(forward: Number) -> Number:
    """Work of a training step in weights that get no gradient: forward, and the gradient of the input.

    2 F, so 4 N D where training all of it takes 6 N D

    forward F [FLOP]: forward work → work [FLOP]
    Source: hu-2021; composition
    Pitfall: 6 N D counts a weight gradient that is never computed, and makes the MFU of LoRA half as high again
    Monotone: increasing in forward
    >>> frozen_flop(2.0 * 7e9)
    28000000000.0
    """
    return 2 * forward


@equation
def adapter_traffic(tokens: Number, width: Number, element: Number) -> Number:
    """Bytes of adding an adapter's result to that of the matrix beside it.

    3 e w per token: both read, the sum written

    tokens: tokens · width w: outputs of the matrix forward, its inputs backward · element e [B]
    → bytes through memory [B]
    Source: count of reads and writes
    Holds: not fused into the products
    Monotone: increasing in tokens, width, element
    >>> adapter_traffic(1.0, 4096.0, 2.0)
    24576.0
    """
    return 3 * element * width * tokens


@equation
def adapter_activations(tokens: Number, rank: Number, element: Number) -> Number:
    """Results between the two thin matrices of an adapter.

    e r per token

    tokens: tokens of a micro-batch · rank r: inner width of an adapter · element e [B] → bytes [B]
    Source: count of tensors
    Monotone: increasing in tokens, rank, element
    >>> adapter_activations(7.0, 16.0, 2.0)
    224.0
    """
    return element * rank * tokens
