"""Foreign values as a sentence can name them."""

from __future__ import annotations

from typing import Any

from costmodel.documents.base import said


def shown(value: Any) -> str:
    """A value in words, on one line: what cannot be printed stands as a question mark."""
    return "".join(letter if letter.isprintable() else "?" for letter in said(value))
