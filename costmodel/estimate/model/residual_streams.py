"""Several residual streams: hyper-connections mix them around every half, or layers alternate between them (AltUp)."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.model import Model
from costmodel.equations.layers.parameters import table_parameters
from costmodel.equations.layers.residual_streams import (
    alternating_activations,
    alternating_coefficients,
    alternating_parameters,
    alternating_traffic,
    hyper_connection_activations,
    hyper_connection_parameters,
    hyper_connection_traffic,
    mixing_weights,
    stream_ends_activations,
    stream_ends_columns,
    stream_head_parameters,
)
from costmodel.equations.network.collectives import activation_message
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.ground.equation import Number, term

MIXING = "stream mixing"


def stream_width(model: Model) -> Number:
    """Width of a layer's output: all residual streams together."""
    if model.residual_streams is None:
        return model.hidden
    with term("streams"):
        return model.residual_streams * model.hidden


def _alternate(model: Model) -> bool:
    return model.stream_rule == "alternating"


def stream_additions(model: Model, halves: float) -> float:
    """Residual additions of a layer; 0 with hyper-connections, whose stream mixing replaces them."""
    return 0.0 if model.residual_streams is not None and not _alternate(model) else halves


def stream_matmuls(model: Model, halves: Number, tp: Number) -> Iterator[Matmul]:
    """The matrices that compute a token's mixing weights, for all halves of a layer; each rank stores them whole."""
    if model.residual_streams is None:
        return
    if _alternate(model):  # one router for the prediction and for the correction, and their coefficients
        yield Matmul(MIXING, 2.0 * model.residual_streams / tp, model.hidden, tp)
        yield Matmul(MIXING, alternating_coefficients(model.residual_streams) / tp, model.residual_streams, tp)
    else:
        columns = halves * mixing_weights(model.residual_streams)
        yield Matmul(MIXING, columns / tp, stream_width(model), tp)


def stream_parameters(model: Model, halves: Number) -> Number:
    """Parameters of a layer for mixing the residual streams."""
    if model.residual_streams is None:
        return 0.0
    if _alternate(model):
        return alternating_parameters(model.hidden, model.residual_streams)
    return halves * hyper_connection_parameters(model.hidden, model.residual_streams)


def stream_head(model: Model, tp: Number) -> Iterator[Matmul]:
    """The matrix that merges streams before the last norm; with alternating updates also the one that splits them."""
    if model.residual_streams is None:
        return
    if _alternate(model):
        yield Matmul("stream ends", stream_ends_columns(model.hidden, model.residual_streams) / tp, model.hidden, tp)
    else:
        yield Matmul("stream head", model.residual_streams / tp, stream_width(model), tp)


def stream_head_held(model: Model) -> Number:
    """Parameters that split the embedding into streams, and merge the streams before the last norm."""
    if model.residual_streams is None:
        return 0.0
    if _alternate(model):
        return table_parameters(stream_ends_columns(model.hidden, model.residual_streams), model.hidden)
    return stream_head_parameters(model.hidden, model.residual_streams)


def stream_head_activations(model: Model, tokens: Number, element: Number) -> Number:
    """Saved activations where streams are merged; with alternating updates also where they are split."""
    if model.residual_streams is None:
        return 0.0
    if _alternate(model):
        return stream_ends_activations(tokens, model.hidden, model.residual_streams, element)
    return activation_message(tokens, stream_width(model), element)


def stream_traffic(model: Model, halves: Number, tokens: Number, element: Number, *, backward: bool) -> Number:
    """Memory traffic of mixing a layer's residual streams; hyper-connections have it instead of additions."""
    if model.residual_streams is None:
        return 0.0
    sizes = (model.hidden, model.residual_streams, element)
    if _alternate(model):
        return alternating_traffic(tokens, *sizes, backward=backward)
    return halves * hyper_connection_traffic(tokens, *sizes, backward=backward)


def stream_mixing_activations(model: Model, halves: Number, tokens: Number, element: Number) -> Number:
    """Saved activations of a layer for mixing the residual streams."""
    if model.residual_streams is None:
        return 0.0
    if _alternate(model):
        return alternating_activations(tokens, model.hidden, model.residual_streams, element)
    return halves * hyper_connection_activations(tokens, model.hidden, model.residual_streams, element)
