"""Bytes that single kernels move, as tables of timed kernels need them."""

from __future__ import annotations

from costmodel.equation import Number, equation


@equation
def mixed_matmul_bytes(m: Number, n: Number, k: Number, element: Number, result: Number) -> Number:
    """Bytes of a matrix product whose result is of a wider type than its operands.

    e (m k + k n) + r m n

    Args:
        m: rows of the result [1]
        n: columns of the result [1]
        k: inner dimension [1]
        element: bytes of an element of the operands, e [B]
        result: bytes of an element of the result, r [B]

    Returns:
        bytes through memory [B]

    Example:
        >>> mixed_matmul_bytes(2.0, 3.0, 5.0, 1.0, 2.0)
        37.0

    Source:
        williams-2009

    Monotone: increasing in m, n, k, element, result
    """
    return element * (m * k + k * n) + result * m * n


@equation
def attention_traffic(
    micro_batch: Number, sequence: Number, heads: Number, kv_heads: Number, head_dim: Number, element: Number
) -> Number:
    """Bytes of fused attention, forward: queries, keys and values read once, the result written.

    2 e b s d (a + k)

    Args:
        micro_batch: sequences, b [1]
        sequence: tokens of each, s [1]
        heads: query heads, a [1]
        kv_heads: key and value heads, k [1]
        head_dim: width of a head, d [1]
        element: bytes of an element, e [B]

    Returns:
        bytes through memory [B]

    Example:
        >>> attention_traffic(1.0, 4096.0, 32.0, 8.0, 128.0, 2.0) / 1e6
        83.88608

    Source:
        dao-2022

    Monotone: increasing in micro_batch, sequence, heads, kv_heads, head_dim, element
    """
    return 2 * element * micro_batch * sequence * head_dim * (heads + kv_heads)
