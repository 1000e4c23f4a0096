"""The fault for a word that nothing explains, with words that look like it and pages about it."""

from __future__ import annotations

from dataclasses import replace

from costmodel.documents.keys.suggestions import alike
from costmodel.explore.explain.phrases import Found
from costmodel.ground.errors import CostModelError, fail

_ALIKE, _ALIKE_OF_QUESTION = 0.65, 0.85


def unknown(word: str, known: list[str]) -> Exception:
    """A fault for a word that cannot be explained, with the nearest that can; of a question more letters must agree."""
    close = alike(word, known, 3, _ALIKE_OF_QUESTION if " " in word else _ALIKE)
    hint = f"did you mean {' or '.join(close)}?" if close else "costmodel explain alone lists what can be explained"
    return fail("C003", f"'{word}' is not known", None, hint)


def with_pages(error: CostModelError, found: list[Found]) -> CostModelError:
    """The same fault; its hint names the pages that have words of the question too."""
    if not found:
        return error
    (fault,) = error.faults
    named = " or ".join(page.word for page in found)
    spelt = fault.hint if fault.hint.startswith("did you mean") else ""
    return CostModelError(replace(fault, hint=f"{spelt} pages about it: {named}".strip()))
