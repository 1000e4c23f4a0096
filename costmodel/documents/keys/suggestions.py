"""Known names that look most like a given one, found soon however long or many they are."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable

_LONGEST = 60  # letters that are compared
_MOST = 2_000  # names that are compared


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """The known name that looks most like this one, or nothing; of very many only the first are compared."""
    return next(iter(alike(name, known, 1, cutoff)), "")


def alike(name: str, known: Iterable[str], count: int, cutoff: float) -> list[str]:
    """The known names that look most like this one, the most alike first."""
    compared = [other for other in itertools.islice(dict.fromkeys(known), _MOST) if len(other) <= 2 * _LONGEST]
    return difflib.get_close_matches(name[:_LONGEST], compared, n=count, cutoff=cutoff)
