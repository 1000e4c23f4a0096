"""Bytes that matrix products in a narrow type read, keep, and pay for their conversion."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def quantise_traffic(elements: Number, quantised: Number) -> Number:
    """Bytes of converting a tensor to a narrow type, in both directions it is read in.

    q × elements

    Args:
        elements: elements converted [1]
        quantised: bytes read and written for each, q [B]

    Returns:
        bytes through memory [B]

    Example:
        >>> quantise_traffic(4096.0 * 8192.0, 4.0)
        134217728.0

    Holds:
        no fusion of the conversion with the operation before it

    Source:
        transformer-engine; count of reads and writes

    Pitfall:
        the product shrinks with the width of the type and this does not: a matrix of n columns gains from fp8 only
        where n is well over the ridge of the accelerator

    Monotone: increasing in elements, quantised
    """
    return quantised * elements


@equation
def linear_inputs(
    tokens: Number, hidden: Number, additions: Number, inner: Number, operand: Number, split: Number
) -> Number:
    """Inputs of a layer's matrix products, as they are kept for the weight gradient.

    o (r h / t + w) per token

    Args:
        tokens: tokens of a micro-batch [1]
        hidden: width of the residual stream, h [1]
        additions: halves of a layer with an input of their own, r; one where they are parallel [1]
        inner: widths of the inner inputs of a rank, w: of the MLP's second product, of the attention output [1]
        operand: bytes of an element kept, o [B]
        split: ranks the sequence is split over, t with sequence parallelism, else 1 [1]

    Returns:
        bytes a layer keeps [B]

    Example:
        >>> linear_inputs(1.0, 4096.0, 2.0, 14336.0, 1.0, 1.0)
        22528.0

    Source:
        transformer-engine; korthikanti-2022 §4.1

    Monotone: increasing in tokens, hidden, additions, inner, operand; decreasing in split
    """
    return operand * tokens * (additions * hidden / split + inner)


@equation
def narrow_copy_bytes(parameters: Number, copies: Number, dp: Number, *, sharded: bool) -> Number:
    """Converted weights kept beside, or in place of, the 16-bit ones: one copy for each direction they are read in.

    κ Ψ, or κ Ψ / N under zero 3

    Args:
        parameters: parameters of a rank's matrices before sharding over dp, Ψ [1]
        copies: bytes of the copies of one, κ [B]
        dp: data-parallel degree, N [1]
        sharded: whether the copies are sharded over dp

    Returns:
        bytes [B]

    Example:
        >>> narrow_copy_bytes(1e9, 2.0, 8.0, sharded=False) / 1e9
        2.0

    Source:
        transformer-engine

    Pitfall:
        fp8 training takes more memory for weights than bf16, 2 + 1 + 1 bytes a parameter instead of 2, unless the
        16-bit weights are given up; what shrinks is activations

    Monotone: increasing in parameters, copies
    """
    return copies * parameters / (dp if sharded else 1.0)
