"""Several residual streams: a layer works on one, predicts the others and corrects them by its result (AltUp)."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def alternating_coefficients(streams: Number) -> Number:
    """Columns that each token's narrow vector of coefficients is multiplied to, in a layer.

    n² + n: of the prediction every stream for every stream, of the correction one for each

    streams n: streams → columns
    Source: baykal-2023 §3; gemma-3n
    Monotone: increasing in streams
    >>> alternating_coefficients(4.0)
    20.0
    """
    return streams * streams + streams


@equation
def alternating_parameters(hidden: Number, streams: Number) -> Number:
    """Parameters of a layer that predict and correct the streams.

    n h + 2 h + n (n² + n): a router with its norm, a scale of the corrected stream, coefficients

    hidden h: width of a stream · streams n: streams → parameters
    Source: baykal-2023 §3; gemma-3n
    Monotone: increasing in hidden, streams
    >>> alternating_parameters(2048.0, 4.0)
    12368.0
    """
    return streams * hidden + 2 * hidden + streams * alternating_coefficients(streams)


@equation
def alternating_traffic(tokens: Number, hidden: Number, streams: Number, element: Number, *, backward: bool) -> Number:
    """Bytes of predicting and correcting the streams of a layer through memory.

    forward e h (6 n + 6) per token: the prediction reads and writes all, the correction reads them with the result of
    the layer and writes them, the entry's result is added to all but one; two norms ahead of the router and the scale
    read and write one; backward twice that

    tokens: tokens · hidden h: width of a stream · streams n: streams · element e [B] · backward: the backward pass
    → bytes through memory [B]
    Source: count of reads and writes
    Holds: fused kernels
    Monotone: increasing in tokens, hidden, streams, element
    >>> alternating_traffic(1.0, 2048.0, 4.0, 2.0, backward=False)
    122880.0
    """
    return (2.0 if backward else 1.0) * element * tokens * hidden * (6 * streams + 6)


@equation
def alternating_activations(tokens: Number, hidden: Number, streams: Number, element: Number) -> Number:
    """What predicting and correcting the streams of a layer keeps: all streams three times, and three times one.

    e h (3 n + 3) per token: the streams, predicted and corrected; the result of the layer, and two inputs of the router

    tokens: tokens of a micro-batch · hidden h: width of a stream · streams n: streams · element e [B]
    → bytes a layer keeps [B]
    Source: count of tensors; gemma-3n
    Monotone: increasing in tokens, hidden, streams, element
    >>> alternating_activations(1.0, 2048.0, 4.0, 2.0)
    61440.0
    """
    return element * tokens * hidden * (3 * streams + 3)


@equation
def stream_ends_activations(tokens: Number, hidden: Number, streams: Number, element: Number) -> Number:
    """What making all streams of one, and one of all, keeps beside the last norm.

    e h (3 n − 1) per token: the embedding with all that is made of it, the streams behind the last layer, and what all
    but one of them become

    tokens: tokens of a micro-batch · hidden h: width of a stream · streams n: streams · element e [B] → bytes kept [B]
    Source: count of tensors; gemma-3n
    Monotone: increasing in tokens, hidden, streams, element
    >>> stream_ends_activations(1.0, 2048.0, 4.0, 2.0)
    45056.0
    """
    return element * tokens * hidden * (3 * streams - 1)


@equation
def stream_ends_columns(hidden: Number, streams: Number) -> Number:
    """Columns of the matrices that make every stream but one of the embedding, and lead it back ahead of the head.

    2 (n − 1) h

    hidden h: width of a stream · streams n: streams → columns
    Source: gemma-3n
    Monotone: increasing in hidden, streams
    >>> stream_ends_columns(2048.0, 4.0)
    12288.0
    """
    return 2 * (streams - 1) * hidden
