"""Optimizers that work on whole matrices: states in a subspace of low rank, updates that are orthogonalised."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.scenario import Optimizer
from costmodel.equations.kernels.flop import orthogonalisation_flop, projection_flop
from costmodel.equations.memory.states import mean_state_bytes, projected_state_bytes
from costmodel.estimate.model.shards import counted_kinds, layer_matmuls, model_parameters, shard
from costmodel.ground.equation import Number, term


def state_bytes(model: Model, optimizer: Optimizer, element: Number) -> Number:
    """Mean bytes of optimizer states per parameter; a projection basis has the width of weights."""
    projection, moments = optimizer.projection, optimizer.moments
    if projection is None:
        return moments
    parameters = model_parameters(model)
    kept: Number = 0.0
    projected: Number = 0.0
    with term("projected states"):
        for count, n, k in _layer_matrices(model):
            kept = kept + count * projected_state_bytes(projection.rank, n, k, moments, element)
            projected = projected + count * (n * k)
        return mean_state_bytes(projected, parameters - projected, kept, moments)


def step_flop(model: Model, optimizer: Optimizer) -> Number:
    """FLOP of an optimizer step on the layers' matrices, such as Newton-Schulz or projections; 0 for AdamW."""
    total: Number = 0.0
    projection, orthogonal = optimizer.projection, optimizer.orthogonal
    for count, n, k in _layer_matrices(model) if projection or orthogonal else ():
        if projection is not None:
            total = total + count * projection_flop(projection.rank, n, k)
        if orthogonal is not None:
            total = total + count * orthogonalisation_flop(orthogonal.steps, n, k)
    return total


def _layer_matrices(model: Model) -> Iterator[tuple[Number, Number, Number]]:
    """Each weight matrix of the layers: its count, outputs and inputs."""
    for kind, count in counted_kinds(model):
        part = shard(model, kind, 1.0)
        for matrix in layer_matmuls(model, part):
            yield count, matrix.n, matrix.k
        if part.routed is not None:
            for matrix in part.routed.matrices():
                yield count * part.routed.of.count, matrix.n, matrix.k
