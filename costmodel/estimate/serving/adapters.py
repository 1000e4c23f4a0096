"""LoRA adapters in an engine: memory of their slots, and two thin products per linear map."""

from __future__ import annotations

from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.roofline import matmul_time
from costmodel.equations.layers.parameters import adapter_parameters
from costmodel.equations.serving.engine_step import experts_read
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.estimate.model.shards import MIXING
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term

_ALONE = frozenset({"router", MIXING})  # matrices that no adapter stands beside
FUSED = {"qkv": 3.0, "mlp up": 2.0}  # maps in one matrix, each with an adapter of its own


def adapter_memory(inputs: ServingInputs, matrix: Matmul) -> Number:
    """Bytes of all adapter slots for one matrix; engines reserve every slot at the largest rank."""
    adapters = inputs.case.scenario.workload.adapters
    if adapters is None or matrix.name in _ALONE:
        return 0.0
    with term("adapters"):
        each = _parameters(inputs, adapters.rank, matrix)
        return adapters.count * (inputs.types.wide * each)


def adapter_time(inputs: ServingInputs, rows: Number, matrix: Matmul) -> Number:
    """Time of an adapter's two products for one matrix, if requests name adapters at random."""
    adapters, types = inputs.case.scenario.workload.adapters, inputs.types
    if adapters is None or matrix.name in _ALONE:
        return 0.0
    columns, fit = matrix.split * matrix.n, types.fit_wide
    with term("adapters"):
        read = experts_read(rows, 1.0, adapters.count) * _parameters(inputs, adapters.rank, matrix)
        passed = rows * (columns + matrix.k)
        flop = matmul_flop(rows, adapters.rank, matrix.k) + matmul_flop(rows, columns, adapters.rank)
        launches = 2.0 * fit.start
        return matmul_time(
            flop,
            types.wide * (read + passed),
            types.peak_wide,
            inputs.memory_bandwidth,
            fit.compute_share,
            fit.memory_share,
            launches,
            fit.exponent,
            1.0,
        )


def _parameters(inputs: ServingInputs, rank: float, matrix: Matmul) -> Number:
    """Parameters of one adapter for a matrix; each of several fused maps has an inner matrix."""
    dense = [kind.dense for kind in inputs.model.layers if kind.dense is not None]
    maps = FUSED.get(matrix.name, 1.0)
    if matrix.name == "mlp up":
        maps = float(max((len(feed.projected) for feed in dense), default=1))
    return adapter_parameters(rank, matrix.split * matrix.n, maps * matrix.k)
