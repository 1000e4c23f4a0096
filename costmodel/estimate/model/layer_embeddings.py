"""Tables of tokens for every layer, in addition to the embedding, and what a layer computes from its entry."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.model import Model
from costmodel.equations.layers.parameters import norm_parameters, table_parameters
from costmodel.equations.layers.residual_streams import layer_embedding_activations, layer_embedding_traffic
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.ground.equation import Number, term


def entry_matmuls(model: Model, tp: Number) -> Iterator[Matmul]:
    """The matrices of a per-layer embedding, which each rank stores whole: projection, gate and output.

    The projection of all layers is one product behind the embedding; each layer is given its own share.
    """
    own = model.layer_embedding
    if own is not None:
        yield Matmul("entry projection", own.width / tp, model.hidden, tp)
        yield Matmul("entry gate", own.width / tp, model.hidden, tp)
        yield Matmul("entry out", model.hidden / tp, own.width, tp)


def entry_parameters(model: Model) -> Number:
    """Parameters of a layer's own embedding path: its matrices, and the norm of the result."""
    found: Number = 0.0
    if model.layer_embedding is None:
        return found
    with term("entry of the layer"):
        for matrix in entry_matmuls(model, 1.0):
            found = found + table_parameters(matrix.n, matrix.k)
        return found + norm_parameters(model.hidden, norm=model.norm)


def entry_tables(model: Model, layers: Number, tp: Number) -> Number:
    """Parameters of the per-layer embedding tables, sharded like the embedding, and of their common norm."""
    own = model.layer_embedding
    if own is None:
        return 0.0
    with term("tables of the layers"):
        return table_parameters(own.rows / tp, layers * own.width) + norm_parameters(own.width, norm=model.norm)


def entry_traffic(model: Model, tokens: Number, element: Number, *, backward: bool) -> Number:
    """Memory traffic of a per-layer embedding, without its matrix products."""
    own = model.layer_embedding
    if own is None:
        return 0.0
    return layer_embedding_traffic(tokens, model.hidden, own.width, element, backward=backward)


def entry_activations(model: Model, tokens: Number, element: Number) -> Number:
    """Saved activations of a per-layer embedding."""
    own = model.layer_embedding
    if own is None:
        return 0.0
    return layer_embedding_activations(tokens, model.hidden, own.width, element)
