"""Residual streams: several of them, and what is added to one beside attention and MLP."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation

# --- Hyper-connections: a half of a layer reads a mean of several residual streams, and writes to all of them.


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
    """Bytes that one half of a layer saves beside its norm: all streams at its entry, and its result.

    e h (n + 1) per token

    tokens: tokens of a micro-batch · hidden h: width of a stream · streams n · element e [B] → bytes a half keeps [B]
    Source: xie-2025 §4.3; count of tensors
    Holds: the weights of a token are made again in backward
    Monotone: increasing in tokens, hidden, streams, element
    >>> hyper_connection_activations(1.0, 7168.0, 4.0, 2.0)
    71680.0
    """
    return element * tokens * hidden * (streams + 1)


# --- Several residual streams: a layer works on one, predicts the others and corrects them by its result (AltUp).


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
    """Bytes saved to predict and correct the streams of a layer: all streams three times, and three times one.

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
    """Bytes saved where one stream becomes several, and several become one, beside the last norm.

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


# --- Two narrow matrices beside attention, whose normalised result is added to the stream (LAuReL).


@equation
def side_branch_traffic(tokens: Number, hidden: Number, element: Number, *, backward: bool) -> Number:
    """Bytes of normalising the result of the narrow matrices and adding it twice: to its input, and to the half.

    forward 6 e h per token: a norm and two additions, each reads and writes; backward 7 e h

    tokens: tokens · hidden h · element e [B] · backward: the backward pass → bytes through memory [B]
    Source: count of reads and writes
    Monotone: increasing in tokens, hidden, element
    >>> side_branch_traffic(1.0, 2048.0, 2.0, backward=False)
    24576.0
    """
    return (7.0 if backward else 6.0) * element * tokens * hidden


@equation
def side_branch_activations(tokens: Number, hidden: Number, rank: Number, element: Number) -> Number:
    """Bytes that the side branch saves beside its input, which attention reads too: narrow vector, norm's input.

    e (h + r) per token

    tokens: tokens of a micro-batch · hidden h · rank r: width between the matrices · element e [B]
    → bytes a layer keeps [B]
    Source: count of tensors; gemma-3n
    Monotone: increasing in tokens, hidden, rank, element
    >>> side_branch_activations(1.0, 2048.0, 64.0, 2.0)
    4224.0
    """
    return element * tokens * (hidden + rank)


# --- A table of tokens for every layer: parameters, bytes through memory, and saved.


@equation
def layer_embedding_traffic(
    tokens: Number, hidden: Number, width: Number, element: Number, *, backward: bool
) -> Number:
    """Bytes of gating, normalising and adding what a layer makes of its entry.

    forward e (4 h + 6 w) per token, backward twice that: the activation function, the product with the entry, the norm
    of the entry, the norm of the result and its addition

    tokens: tokens · hidden h · width w: width of an entry · element e [B] · backward: the backward pass
    → bytes through memory [B]
    Source: count of reads and writes
    Holds: fused kernels
    Monotone: increasing in tokens, hidden, width, element
    >>> layer_embedding_traffic(1.0, 1536.0, 256.0, 2.0, backward=False)
    15360.0
    """
    return (2.0 if backward else 1.0) * element * tokens * (4 * hidden + 6 * width)


@equation
def layer_embedding_activations(tokens: Number, hidden: Number, width: Number, element: Number) -> Number:
    """Bytes that a layer saves for its embedding: the stream, the input of the last norm, four narrow vectors.

    e (2 h + 4 w) per token: the entry, its norm's input, the gate before its function, the product of both

    tokens: tokens of a micro-batch · hidden h · width w: width of an entry · element e [B] → bytes a layer keeps [B]
    Source: count of tensors; gemma-4
    Monotone: increasing in tokens, hidden, width, element
    >>> layer_embedding_activations(1.0, 1536.0, 256.0, 2.0)
    8192.0
    """
    return element * tokens * (2 * hidden + 4 * width)
