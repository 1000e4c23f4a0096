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
    """The known names that look most like this one, those with all of its parts first.

    >>> alike("llama-70b", ["llama-7b", "llama-2-70b", "llama-3-70b"], 1, 0.5)
    ['llama-3-70b']
    """
    compared = [other for other in itertools.islice(dict.fromkeys(known), _MOST) if len(other) <= 2 * _LONGEST]
    parts = name.lower()[:_LONGEST].split("-")
    longer = [
        other
        for other in compared
        if other.startswith(f"{name}-") or (len(parts) > 1 and {*parts} < {*other.lower().split("-")})
    ]
    longer.sort(reverse=True)
    longer.sort(key=lambda other: other.count("-"))
    close = difflib.get_close_matches(name[:_LONGEST], compared, n=count, cutoff=cutoff)
    return list(dict.fromkeys([*longer, *close]))[:count]
