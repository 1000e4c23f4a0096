"""A gate on the result of attention, as wide as the queries: bytes through memory, and saved."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def output_gate_traffic(tokens: Number, heads: Number, head_dim: Number, element: Number, *, backward: bool) -> Number:
    """Bytes of multiplying the result of attention by the sigmoid of its gate.

    forward 3 e a d per token, backward 5 e a d

    Args:
        tokens: tokens [1]
        heads: query heads, a [1]
        head_dim: width of a head, d [1]
        element: bytes of an element, e [B]
        backward: the backward pass

    Returns:
        bytes through memory [B]

    Example:
        >>> output_gate_traffic(1.0, 16.0, 256.0, 2.0, backward=False)
        24576.0

    Holds:
        fused kernels

    Source:
        count of reads and writes

    Monotone: increasing in tokens, heads, head_dim, element
    """
    return (5.0 if backward else 3.0) * element * tokens * heads * head_dim


@equation
def output_gate_activations(tokens: Number, heads: Number, head_dim: Number, element: Number) -> Number:
    """The gate, and the gated result, which the output projection reads.

    2 e a d per token

    Args:
        tokens: tokens of a micro-batch [1]
        heads: query heads of a rank, a [1]
        head_dim: width of a head, d [1]
        element: bytes of an element, e [B]

    Returns:
        bytes a layer keeps [B]

    Example:
        >>> output_gate_activations(1.0, 16.0, 256.0, 2.0)
        16384.0

    Source:
        count of tensors

    Monotone: increasing in tokens, heads, head_dim, element
    """
    return 2 * element * tokens * heads * head_dim
