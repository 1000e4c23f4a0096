"""Two narrow matrices beside the mixer of a layer, which a rank holds whole."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.model import Layers, Model
from costmodel.equations.layers.parameters import norm_parameters, table_parameters
from costmodel.equations.layers.residual_streams import side_branch_activations, side_branch_traffic
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.ground.equation import Number, term


def side_matmuls(model: Model, kind: Layers, tp: Number) -> Iterator[Matmul]:
    """The two matrices of the side branch; tp ranks divide its tokens."""
    if kind.side_rank is not None:
        yield Matmul("side down", kind.side_rank / tp, model.hidden, tp)
        yield Matmul("side up", model.hidden / tp, kind.side_rank, tp)


def side_parameters(model: Model, kind: Layers) -> Number:
    """Parameters of the side branch: both matrices, and the norm after them."""
    found: Number = 0.0
    if kind.side_rank is None:
        return found
    with term("side branch"):
        for matrix in side_matmuls(model, kind, 1.0):
            found = found + table_parameters(matrix.n, matrix.k)
        return found + norm_parameters(model.hidden, norm=model.norm)


def side_traffic(model: Model, kind: Layers, tokens: Number, element: Number, *, backward: bool) -> Number:
    """Memory traffic of the side branch, without its matrix products."""
    if kind.side_rank is None:
        return 0.0
    return side_branch_traffic(tokens, model.hidden, element, backward=backward)


def side_activations(model: Model, kind: Layers, tokens: Number, element: Number) -> Number:
    """Saved activations of the side branch."""
    if kind.side_rank is None:
        return 0.0
    return side_branch_activations(tokens, model.hidden, kind.side_rank, element)
