"""Foreign values as a sentence can name them, and foreign titles as names of documents."""

from __future__ import annotations

import re
from typing import Any

from costmodel.ground.quoting import quoted_value

LONGEST_NAME = 64  # letters
_BETWEEN = re.compile(r"[^a-z0-9.+-]+")


def shown(value: Any) -> str:
    """A value in words, on one line: what cannot be printed stands as a question mark."""
    return printable(quoted_value(value))


def printable(text: str) -> str:
    """A text on one line: what cannot be printed stands as a question mark.

    >>> printable("bf\\x1b[31m16")
    'bf?[31m16'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def document_name(text: str) -> str:
    """A text as the name of a document: small letters, digits and . + -.

    >>> document_name("Train 8B (final)"), document_name("§")
    ('train-8b-final', 'model')
    """
    return _BETWEEN.sub("-", text.lower())[:LONGEST_NAME].strip("-.+") or "model"
