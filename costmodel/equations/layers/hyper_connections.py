"""Hyper-connections: a half of a layer reads a mean of several residual streams, and writes to all of them."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def mixing_weights(streams: Number) -> Number:
    """Weights of a token around one half: to read each stream, to write to each, and from each stream to each.

    n² + 2 n

    Args:
        streams: residual streams, n [1]

    Returns:
        weights, and columns of the matrix that makes them of all streams [1]

    Example:
        >>> mixing_weights(4.0)
        24.0

    Source:
        xie-2025 §4.2

    Monotone: increasing in streams
    """
    return streams * streams + 2 * streams


@equation
def hyper_connection_parameters(hidden: Number, streams: Number) -> Number:
    """Parameters around one half: a matrix from all streams to the weights, a bias for each, a factor for each kind.

    (n² + 2 n) (n h + 1) + 3

    Args:
        hidden: width of a stream, h [1]
        streams: residual streams, n [1]

    Returns:
        parameters [1]

    Example:
        >>> hyper_connection_parameters(7168.0, 4.0)
        688155.0

    Source:
        xie-2025 §4.2

    Monotone: increasing in hidden, streams
    """
    return (streams * streams + 2 * streams) * (streams * hidden + 1) + 3


@equation
def stream_head_parameters(hidden: Number, streams: Number) -> Number:
    """Parameters that turn all streams into one ahead of the last norm.

    n (n h + 1) + 1

    Args:
        hidden: width of a stream, h [1]
        streams: residual streams, n [1]

    Returns:
        parameters [1]

    Example:
        >>> stream_head_parameters(7168.0, 4.0)
        114693.0

    Source:
        deepseek-v4 §2.2

    Monotone: increasing in hidden, streams
    """
    return streams * (streams * hidden + 1) + 1


@equation
def hyper_connection_traffic(
    tokens: Number, hidden: Number, streams: Number, element: Number, *, backward: bool
) -> Number:
    """Bytes around one half beside the matrix: all streams are read to one, then read again, mixed and written.

    forward e h (3 n + 1) per token, backward e h (6 n + 2)

    Args:
        tokens: tokens [1]
        hidden: width of a stream, h [1]
        streams: residual streams, n [1]
        element: bytes of an element, e [B]
        backward: the backward pass

    Returns:
        bytes through memory [B]

    Example:
        >>> hyper_connection_traffic(1.0, 7168.0, 4.0, 2.0, backward=False)
        186368.0

    Holds:
        fused kernels; n² ≪ n h, so that the weights and their rounds to a doubly stochastic matrix are negligible; the
        result of the half is counted with the norms

    Source:
        xie-2025 §4.3; count of reads and writes

    Monotone: increasing in tokens, hidden, streams, element
    """
    return element * tokens * hidden * ((6 * streams + 2) if backward else (3 * streams + 1))


@equation
def hyper_connection_activations(tokens: Number, hidden: Number, streams: Number, element: Number) -> Number:
    """What one half keeps beside its norm: all streams as it found them, and its result.

    e h (n + 1) per token

    Args:
        tokens: tokens of a micro-batch [1]
        hidden: width of a stream, h [1]
        streams: residual streams, n [1]
        element: bytes of an element, e [B]

    Returns:
        bytes a half keeps [B]

    Example:
        >>> hyper_connection_activations(1.0, 7168.0, 4.0, 2.0)
        71680.0

    Holds:
        the weights of a token are made again in backward

    Source:
        xie-2025 §4.3; count of tensors

    Monotone: increasing in tokens, hidden, streams, element
    """
    return element * tokens * hidden * (streams + 1)
