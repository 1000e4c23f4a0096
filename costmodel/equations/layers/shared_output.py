"""Attention and a scan that end in one matrix, which reads the mean of their normalised results."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def shared_output_parameters(hidden: Number, inner: Number) -> Number:
    """Parameters that one output matrix for two mixers adds to those of both: two norms, less a matrix.

    2 d − h d

    hidden h · inner d: width of the results on a rank → parameters, below zero
    Source: dong-2024 §2
    Monotone: decreasing in hidden
    >>> shared_output_parameters(1600.0, 3200.0)
    -5113600.0
    """
    return 2 * inner - hidden * inner


@equation
def shared_output_traffic(tokens: Number, inner: Number, element: Number, *, backward: bool) -> Number:
    """Bytes through memory of two norms and the mean of what they write, in one function.

    forward 3 e d per token: both results are read, the mean is written; backward 5 e d: both results and the gradient
    of the mean are read, two gradients written

    tokens: tokens · inner d: width of the results on a rank · element e [B] · backward: the backward pass
    → bytes through memory [B]
    Source: count of reads and writes
    Monotone: increasing in tokens, inner, element
    >>> shared_output_traffic(1.0, 3200.0, 2.0, backward=False)
    19200.0
    """
    return (5.0 if backward else 3.0) * element * tokens * inner


@equation
def shared_output_activations(tokens: Number, inner: Number, element: Number) -> Number:
    """What the mean keeps beside the two results: itself, the input of the output matrix.

    e d per token

    tokens: tokens of a micro-batch · inner d: width of the results on a rank · element e [B] → bytes a layer keeps [B]
    Source: count of tensors
    Monotone: increasing in tokens, inner, element
    >>> shared_output_activations(1.0, 3200.0, 2.0)
    6400.0
    """
    return element * tokens * inner
