"""Keys that vary over the scenarios of a search: their values in a line, and headings of their columns."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.documents.schemas.limits import Bound
from costmodel.explore.answer_text.plan_choice_text import CHOICES
from costmodel.ground.counts import HEADS, SIZES
from costmodel.report.terminal.style.formatting import spaced

_OTHERS = ("#", "zero", "sp", "recompute", "cost", "step", "P90", "tok/s/GPU", "MFU", "GiB", "fits")
_TAKEN = frozenset((*SIZES, *CHOICES, *HEADS.values(), *_OTHERS, *Bound.model_fields))


def few(values: Sequence[str]) -> str:
    """The values in words; of many only the first and the last."""
    stated = [spaced(value) for value in values]
    if len(stated) <= 6:
        return ", ".join(stated)
    return f"{', '.join(stated[:3])}, … {stated[-1]} ({len(stated):,})"


def headings(paths: Sequence[str]) -> list[str]:
    """A short heading for each varied key: its shortest unique ending that is no column of plans."""
    return [_column_heading(path, [other for other in paths if other != path]) for path in paths]


def _column_heading(path: str, others: Sequence[str]) -> str:
    parts = path.split(".")
    ends = [".".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]
    free = (end for end in ends if end not in _TAKEN and not any(f".{other}".endswith(f".{end}") for other in others))
    return next(free, path)
