"""Routing by a fixed table: the experts of a token stand there by its number."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def expert_table_bytes(vocab: Number, top_k: Number, index: Number) -> Number:
    """Bytes of the table of one layer: the experts of every token of the vocabulary.

    i V k

    Args:
        vocab: tokens of the vocabulary, V [1]
        top_k: experts that a token is sent to, k [1]
        index: bytes of the number of an expert, i [B]

    Returns:
        bytes that every rank with the layer holds [B]

    Example:
        >>> expert_table_bytes(129280.0, 6.0, 4.0)
        3102720.0

    Source:
        deepseek-v4 §2.1, released code

    Monotone: increasing in vocab, top_k, index
    """
    return index * vocab * top_k
