"""Two narrow matrices beside attention, whose normalised result is added to the stream (LAuReL)."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


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
    """What the branch keeps beside its input, which attention reads too: the narrow vector, and the norm's input.

    e (h + r) per token

    tokens: tokens of a micro-batch · hidden h · rank r: width between the matrices · element e [B]
    → bytes a layer keeps [B]
    Source: count of tensors; gemma-3n
    Monotone: increasing in tokens, hidden, rank, element
    >>> side_branch_activations(1.0, 2048.0, 64.0, 2.0)
    4224.0
    """
    return element * tokens * (hidden + rank)
