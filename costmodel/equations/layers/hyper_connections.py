"""Hyper-connections: a half of a layer reads a mean of several residual streams, and writes to all of them."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def mixing_weights(streams: Number) -> Number:
    """Weights of a token around one half: to read each stream, to write to each, and from each stream to each.

    n² + 2 n

    streams n → weights, and columns of the matrix that makes them of all streams
    Source: xie-2025 §4.2
    Monotone: increasing in streams
    >>> mixing_weights(4.0)
    24.0
    """
    return streams * streams + 2 * streams


@equation
def hyper_connection_parameters(hidden: Number, streams: Number) -> Number:
    """Parameters around one half: a matrix from all streams to the weights, a bias for each, a factor for each kind.

    (n² + 2 n) (n h + 1) + 3

    hidden h: width of a stream · streams n → parameters
    Source: xie-2025 §4.2
    Monotone: increasing in hidden, streams
    >>> hyper_connection_parameters(7168.0, 4.0)
    688155.0
    """
    return (streams * streams + 2 * streams) * (streams * hidden + 1) + 3


@equation
def stream_head_parameters(hidden: Number, streams: Number) -> Number:
    """Parameters that turn all streams into one ahead of the last norm.

    n (n h + 1) + 1

    hidden h: width of a stream · streams n → parameters
    Source: deepseek-v4 §2.2
    Monotone: increasing in hidden, streams
    >>> stream_head_parameters(7168.0, 4.0)
    114693.0
    """
    return streams * (streams * hidden + 1) + 1


@equation
def hyper_connection_traffic(
    tokens: Number, hidden: Number, streams: Number, element: Number, *, backward: bool
) -> Number:
    """Bytes around one half beside the matrix: all streams are read to one, then read again, mixed and written.

    forward e h (3 n + 1) per token, backward e h (6 n + 2)

    tokens: tokens · hidden h: width of a stream · streams n · element e [B] · backward: the backward pass
    → bytes through memory [B]
    Source: xie-2025 §4.3; count of reads and writes
    Holds: fused kernels; n² ≪ n h, so that the weights and their rounds to a doubly stochastic matrix are negligible;
        the result of the half is counted with the norms
    Monotone: increasing in tokens, hidden, streams, element
    >>> hyper_connection_traffic(1.0, 7168.0, 4.0, 2.0, backward=False)
    186368.0
    """
    return element * tokens * hidden * ((6 * streams + 2) if backward else (3 * streams + 1))


@equation
def hyper_connection_activations(tokens: Number, hidden: Number, streams: Number, element: Number) -> Number:
    """What one half keeps beside its norm: all streams as it found them, and its result.

    e h (n + 1) per token

    tokens: tokens of a micro-batch · hidden h: width of a stream · streams n · element e [B] → bytes a half keeps [B]
    Source: xie-2025 §4.3; count of tensors
    Holds: the weights of a token are made again in backward
    Monotone: increasing in tokens, hidden, streams, element
    >>> hyper_connection_activations(1.0, 7168.0, 4.0, 2.0)
    71680.0
    """
    return element * tokens * hidden * (streams + 1)
