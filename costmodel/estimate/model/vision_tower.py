"""The vision tower as a model, and the projector from its patches to the residual stream of the text model."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.model import Model, Projector, VisionTower
from costmodel.equations.layers.parameters import norm_parameters, table_parameters
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.ground.equation import Number, term


def tower_model(model: Model, tower: VisionTower) -> Model:
    """The vision tower's layers as a model, with the tower's hidden width."""
    shape = {"hidden": tower.hidden, "positions": tower.positions, "norm": tower.norm, "layers": tower.layers}
    without = {"vision": None, "prediction": None, "layer_embedding": None}
    return model.model_copy(update={**shape, **without, "name": f"{model.name} (vision)"})


def patch_matmul(tower: VisionTower) -> Matmul:
    """The matrix that embeds patches; every tp rank stores it whole."""
    return Matmul("patches", tower.hidden, tower.patch)


def projector_matmuls(model: Model, own: Projector, tp: Number) -> Iterator[Matmul]:
    """The matrices of a projector, sharded over tp."""
    if own.inner is None:
        yield Matmul("projector", model.hidden / tp, own.inputs)
        return
    yield Matmul("projector up", own.inner / tp, own.inputs)
    yield Matmul("projector down", model.hidden, own.inner / tp)


def projector_parameters(model: Model, tower: VisionTower, tp: Number) -> Number:
    """Parameters of all projectors on a rank."""
    found: Number = 0.0
    with term("projectors"):
        for own in tower.projectors:
            each: Number = 0.0
            for matrix in projector_matmuls(model, own, tp):
                each = each + table_parameters(matrix.n, matrix.k)
            if own.biases:
                each = each + model.hidden + (0.0 if own.inner is None else own.inner / tp)
            if own.norm is not None:
                each = each + norm_parameters(own.norm_width or own.inputs, norm=own.norm)
            found = found + own.count * each
    return found


def patch_parameters(tower: VisionTower) -> Number:
    """Parameters of the vision tower besides its layers: patch embedding, positions, and norms."""
    held = table_parameters(tower.patch, tower.hidden)
    held = held + tower.hidden if tower.patch_bias else held
    if tower.position_rows is not None:
        held = held + table_parameters(tower.position_rows, tower.hidden)
    return held + tower.norms * norm_parameters(tower.hidden, norm=tower.norm)
