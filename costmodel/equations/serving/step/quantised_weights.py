"""Bytes of weights in narrow types, as they lie in memory and are read: the element and its share of the scales."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def scaled_element_bytes(packed: Number, scale: Number, group: Number) -> Number:
    """Bytes of one element of a type that shares scales, as a weight, a cached value or one on the network.

    q + s / g

    packed q [B]: bytes of the element alone · scale s [B]: bytes of a group's scale, its zero point counted
    group g: elements that share a scale
    → bytes of an element [B]
    Source: frantar-2022; nvidia-nvfp4; rouhani-2023
    Holds: int4 with a 16-bit scale and a 4-bit zero point of 128; nvfp4, an fp8 scale of 16; mxfp4, 8 bits of 32; fp8
        by blocks of 128 × 128 shares 4 bytes among 16,384. A tensor's own scale is nothing beside them
    Monotone: increasing in packed, scale; decreasing in group
    >>> [scaled_element_bytes(0.5, *shared) for shared in ((2.5, 128.0), (1.0, 16.0), (1.0, 32.0))]
    [0.51953125, 0.5625, 0.53125]
    """
    return packed + scale / group


@equation
def mixed_weight_bytes(parameters: Number, narrow_parameters: Number, operand: Number, element: Number) -> Number:
    """Weights of a model of which only the linear maps are in a narrow type.

    o Ψ_n + e (Ψ − Ψ_n)

    parameters Ψ: all parameters · narrow_parameters Ψ_n: of them in the narrow type
    operand o [B]: bytes of a narrow element with its share of the scales
    element e [B]: bytes of the others: embedding, head, norms, router, biases
    → bytes [B]
    Source: frantar-2022; composition
    Pitfall: a checkpoint in 4 bits is more than a quarter of one in 16; weights that are read narrow and multiplied in
        16 bits speed decode up only under compute_bound_batch
    Monotone: increasing in parameters, operand, element
    >>> round(float(mixed_weight_bytes(8.03e9, 6.98e9, 1.0, 2.0)) / 1e9, 2)
    9.08
    """
    return operand * narrow_parameters + element * np.maximum(parameters - narrow_parameters, 0.0)
