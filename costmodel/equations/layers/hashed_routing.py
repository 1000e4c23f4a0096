"""Routing by a fixed table: the experts of a token stand there by its number."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def expert_table_bytes(vocab: Number, top_k: Number, index: Number) -> Number:
    """Bytes of the table of one layer: the experts of every token of the vocabulary.

    i V k

    vocab V: tokens of the vocabulary · top_k k: experts that a token is sent to
    index i [B]: bytes of the number of an expert
    → bytes that every rank with the layer holds [B]
    Source: deepseek-v4 §2.1, released code
    Monotone: increasing in vocab, top_k, index
    >>> expert_table_bytes(129280.0, 6.0, 4.0)
    3102720.0
    """
    return index * vocab * top_k
