"""A table of tokens for every layer: parameters, bytes through memory, and saved."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


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
    """What a layer keeps of it: the stream, the input of the last norm, and four narrow vectors.

    e (2 h + 4 w) per token: the entry, its norm's input, the gate before its function, the product of both

    tokens: tokens of a micro-batch · hidden h · width w: width of an entry · element e [B] → bytes a layer keeps [B]
    Source: count of tensors; gemma-4
    Monotone: increasing in tokens, hidden, width, element
    >>> layer_embedding_activations(1.0, 1536.0, 256.0, 2.0)
    8192.0
    """
    return element * tokens * (2 * hidden + 4 * width)
