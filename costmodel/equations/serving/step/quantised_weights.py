"""Bytes of weights in narrow types, as they lie in memory and are read: the element and its share of the scales."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def scaled_element_bytes(packed: Number, scale: Number, group: Number) -> Number:
    """Bytes of one element of a type that shares scales, as a weight, a cached value or one on the network.

    q + s / g

    Args:
        packed: bytes of the element alone, q [B]
        scale: bytes of a group's scale, its zero point counted, s [B]
        group: elements that share a scale, g [1]

    Returns:
        bytes of an element [B]

    Example:
        >>> [scaled_element_bytes(0.5, *shared) for shared in ((2.5, 128.0), (1.0, 16.0), (1.0, 32.0))]
        [0.51953125, 0.5625, 0.53125]

    Holds:
        int4 with a 16-bit scale and a 4-bit zero point of 128; nvfp4, an fp8 scale of 16; mxfp4, 8 bits of 32; fp8 by
        blocks of 128 × 128 shares 4 bytes among 16,384. A tensor's own scale is nothing beside them

    Source:
        frantar-2022; nvidia-nvfp4; rouhani-2023

    Monotone: increasing in packed, scale; decreasing in group
    """
    return packed + scale / group


@equation
def mixed_weight_bytes(parameters: Number, narrow_parameters: Number, operand: Number, element: Number) -> Number:
    """Weights of a model of which only the linear maps are in a narrow type.

    o Ψ_n + e (Ψ − Ψ_n)

    Args:
        parameters: all parameters, Ψ [1]
        narrow_parameters: of them in the narrow type, Ψ_n [1]
        operand: bytes of a narrow element with its share of the scales, o [B]
        element: bytes of the others: embedding, head, norms, router, biases, e [B]

    Returns:
        bytes [B]

    Example:
        >>> round(float(mixed_weight_bytes(8.03e9, 6.98e9, 1.0, 2.0)) / 1e9, 2)
        9.08

    Source:
        frantar-2022; composition

    Pitfall:
        a checkpoint in 4 bits is more than a quarter of one in 16; weights that are read narrow and multiplied in 16
        bits speed decode up only under compute_bound_batch

    Monotone: increasing in parameters, operand, element
    """
    return operand * narrow_parameters + element * np.maximum(parameters - narrow_parameters, 0.0)
