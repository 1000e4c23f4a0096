"""Bytes that matrix products in a narrow type read, keep, and pay for their conversion."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def quantise_traffic(elements: Number, quantised: Number) -> Number:
    """Bytes of converting a tensor to a narrow type, in both directions it is read in.

    q × elements

    elements: elements converted · quantised q [B]: bytes read and written for each → bytes through memory [B]
    Source: transformer-engine; count of reads and writes
    Holds: no fusion of the conversion with the operation before it
    Pitfall: the product shrinks with the width of the type and this does not: a matrix of n columns gains from fp8 only
        where n is well over the ridge of the accelerator
    Monotone: increasing in elements, quantised
    >>> quantise_traffic(4096.0 * 8192.0, 4.0)
    134217728.0
    """
    return quantised * elements


@equation
def linear_inputs(
    tokens: Number, hidden: Number, additions: Number, inner: Number, operand: Number, split: Number
) -> Number:
    """Inputs of a layer's matrix products, as they are kept for the weight gradient.

    o (r h / t + w) per token

    tokens: tokens of a micro-batch · hidden h
    additions: halves of a layer with an input of their own, r; one where they are parallel
    inner: widths of the inner inputs of a rank, w: of the MLP's second product, of the attention output
    operand o [B]: bytes of an element kept
    split: ranks the sequence is split over, t with sequence parallelism, else 1
    → bytes a layer keeps [B]
    Source: transformer-engine; korthikanti-2022 §4.1
    Monotone: increasing in tokens, hidden, additions, inner, operand; decreasing in split
    >>> linear_inputs(1.0, 4096.0, 2.0, 14336.0, 1.0, 1.0)
    22528.0
    """
    return operand * tokens * (additions * hidden / split + inner)


@equation
def narrow_copy_bytes(parameters: Number, copies: Number, dp: Number, *, sharded: bool) -> Number:
    """Converted weights kept beside, or in place of, the 16-bit ones: one copy for each direction they are read in.

    κ Ψ, or κ Ψ / N under zero 3

    parameters Ψ: parameters of a rank's matrices before sharding over dp · copies κ [B]: bytes of the copies of one
    dp N · sharded: whether the copies are sharded over dp
    → bytes [B]
    Source: transformer-engine
    Pitfall: fp8 training takes more memory for weights than bf16, 2 + 1 + 1 bytes a parameter instead of 2, unless the
        16-bit weights are given up; what shrinks is activations
    Monotone: increasing in parameters, copies
    >>> narrow_copy_bytes(1e9, 2.0, 8.0, sharded=False) / 1e9
    2.0
    """
    return copies * parameters / (dp if sharded else 1.0)
