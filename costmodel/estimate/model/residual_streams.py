"""Several residual streams, which hyper-connections mix around every half of a layer."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.model import Model
from costmodel.equations.layers.hyper_connections import (
    hyper_connection_activations,
    hyper_connection_parameters,
    hyper_connection_traffic,
    mixing_weights,
    stream_head_parameters,
)
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.ground.equation import Number, term

MIXING = "stream mixing"


def stream_width(model: Model) -> Number:
    """Width of what layers hand on: of all streams."""
    if model.residual_streams is None:
        return model.hidden
    with term("streams"):
        return model.residual_streams * model.hidden


def stream_matmuls(model: Model, halves: Number, tp: Number) -> Iterator[Matmul]:
    """The matrices that make the weights of a token, of all halves of a layer together; a rank holds them whole."""
    if model.residual_streams is not None:
        columns = halves * mixing_weights(model.residual_streams)
        yield Matmul(MIXING, columns / tp, stream_width(model), tp)


def stream_parameters(model: Model, halves: Number) -> Number:
    """Parameters of a layer around its halves."""
    if model.residual_streams is None:
        return 0.0
    return halves * hyper_connection_parameters(model.hidden, model.residual_streams)


def stream_head(model: Model, tp: Number) -> Iterator[Matmul]:
    """The matrix that weighs the streams ahead of the last norm."""
    if model.residual_streams is not None:
        yield Matmul("stream head", model.residual_streams / tp, stream_width(model), tp)


def stream_head_held(model: Model) -> Number:
    """Parameters that turn the streams into one ahead of the last norm."""
    return 0.0 if model.residual_streams is None else stream_head_parameters(model.hidden, model.residual_streams)


def stream_traffic(model: Model, halves: Number, tokens: Number, element: Number, *, backward: bool) -> Number:
    """Bytes through memory of mixing the streams of a layer, which stands in place of its additions."""
    if model.residual_streams is None:
        return 0.0
    sizes = (model.hidden, model.residual_streams, element)
    return halves * hyper_connection_traffic(tokens, *sizes, backward=backward)


def stream_mixing_activations(model: Model, halves: Number, tokens: Number, element: Number) -> Number:
    """Bytes that a layer keeps around its halves."""
    if model.residual_streams is None:
        return 0.0
    return halves * hyper_connection_activations(tokens, model.hidden, model.residual_streams, element)
