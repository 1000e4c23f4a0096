"""Parameters of embedding, attention, MLP and norms."""

from __future__ import annotations

from costmodel.ground.choices import Norm
from costmodel.ground.equation import Number, equation


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
