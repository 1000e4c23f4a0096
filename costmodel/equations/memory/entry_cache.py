"""Bytes of a sequence in a layer of compressed attention, beside its window."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def entry_cache_bytes(tokens: Number, entry_tokens: Number, head_dim: Number, element: Number) -> Number:
    """What one layer keeps of the entries of a sequence: one vector for a run of tokens.

    e d n / m

    tokens n: tokens of the sequence · entry_tokens m: tokens that an entry stands for
    head_dim: width of an entry, d; with the indexer's key the width of both · element e [B]
    → bytes [B]
    Source: deepseek-v4 §2.3
    Monotone: increasing in tokens, head_dim, element; decreasing in entry_tokens
    >>> entry_cache_bytes(1048576.0, 128.0, 512.0, 1.0)
    4194304.0
    """
    return element * head_dim * tokens / entry_tokens


@equation
def compressor_state_bytes(entry_tokens: Number, head_dim: Number, series: Number, element: Number) -> Number:
    """What an engine keeps of the tokens whose entry is not made yet: their vectors and gates.

    2 e m c² d

    entry_tokens m: tokens that an entry stands for · head_dim d: width of an entry
    series: vectors of a token, c; two where entries overlap, which reach over two runs
    element e [B]: bytes of an element, fp32 in engines
    → bytes of a sequence [B]
    Source: deepseek-v4, released code
    Monotone: increasing in entry_tokens, head_dim, series, element
    >>> compressor_state_bytes(128.0, 512.0, 1.0, 4.0), compressor_state_bytes(4.0, 512.0, 2.0, 4.0)
    (524288.0, 65536.0)
    """
    return 2 * element * entry_tokens * series * series * head_dim
