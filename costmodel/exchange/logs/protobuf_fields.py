"""The wire format of protocol buffers: fields of a message as numbers and bytes, without a schema."""

from __future__ import annotations

from collections.abc import Iterator

_LONGEST_VARINT = 10  # bytes of 64 bits in groups of seven
_FIXED = {1: 8, 5: 4}  # bytes by wire type


class WireError(ValueError):
    """Bytes that are no message."""


def fields(data: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field: an integer, or the bytes of a text, of a message or of a list.

    >>> [(number, value if isinstance(value, int) else bytes(value)) for number, value in fields(b"\\x08\\x96\\x01")]
    [(1, 150)]
    """
    view, at = memoryview(data), 0
    while at < len(view):
        key, at = varint(view, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise WireError("a field has the number 0")
        if kind == 0:
            value, at = varint(view, at)
            yield number, value
            continue
        if kind == 2:
            length, at = varint(view, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise WireError(f"a field has the unknown wire type {kind}")
        if length > len(view) - at:
            raise WireError("a field is longer than its message")
        piece = view[at : at + length]
        at += length
        yield number, int.from_bytes(piece, "little") if kind in _FIXED else piece


def messages(data: bytes | memoryview) -> Iterator[memoryview]:
    """Messages in a row, each after its length.

    >>> [bytes(message) for message in messages(b"\\x01a\\x02bc")]
    [b'a', b'bc']
    """
    view, at = memoryview(data), 0
    while at < len(view):
        length, at = varint(view, at)
        if length > len(view) - at:
            raise WireError("the last message is cut off")
        yield view[at : at + length]
        at += length


def varint(view: memoryview, at: int) -> tuple[int, int]:
    """An integer of variable length, and where the next field begins.

    >>> varint(memoryview(b"\\xac\\x02"), 0)
    (300, 2)
    """
    value = 0
    for place in range(_LONGEST_VARINT):
        if at + place >= len(view):
            raise WireError("a number is cut off")
        byte = view[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & (2**64 - 1), at + place + 1
    raise WireError("a number is longer than 64 bits")
