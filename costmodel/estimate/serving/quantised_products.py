"""Matrix products of an engine: weights are read in their stored type and multiplied in another."""

from __future__ import annotations

from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.roofline import matmul_time
from costmodel.equations.serving.step.decode_step import weight_product_bytes
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number


def product(inputs: ServingInputs, rows: Number, matrix: Matmul, *, narrow: bool) -> Number:
    """Time of so many rows times one weight matrix."""
    types = inputs.types
    fit, peak = (types.fit, types.peak) if narrow else (types.fit_wide, types.peak_wide)
    weight = types.weight if narrow else types.wide
    operand = types.operand if narrow else types.wide
    columns = matrix.split * matrix.n
    return matmul_time(
        matmul_flop(rows, columns, matrix.k),
        weight_product_bytes(rows, columns, matrix.k, weight, operand, types.wide),
        peak,
        inputs.memory_bandwidth,
        fit.compute_share,
        fit.memory_share,
        fit.start,
        fit.exponent,
        1.0,  # kernels alone: what steps take beyond them is the engine's host time
    )
