"""The fault for a word that nothing explains."""

from __future__ import annotations

from costmodel.documents.keys.suggestions import alike
from costmodel.ground.errors import fail


def unknown(word: str, known: list[str]) -> Exception:
    """A fault for a word that cannot be explained, with the nearest that can."""
    close = alike(word, known, 3, 0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "costmodel explain alone lists what can be explained"
    return fail("C003", f"'{word}' is not known", None, hint)
