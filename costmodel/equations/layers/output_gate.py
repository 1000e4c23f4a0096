"""A gate on the result of attention, as wide as the queries: bytes through memory, and saved."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


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
