"""Known names that look most like a given one, found soon however long or many they are."""

from __future__ import annotations

import difflib
import itertools
import re
from collections import Counter
from collections.abc import Iterable

_LONGEST = 60  # letters that are compared
_MOST = 2_000  # names that are compared
_CLOSE = 8  # names of similar letters, of which those with the same numbers count first
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_PART = re.compile(rf"{_NUMBER.pattern}|[a-z]+")


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """The known name that is most similar to a name; empty if none is similar."""
    return next(iter(alike(name, known, 1, cutoff)), "")


def alike(name: str, known: Iterable[str], count: int, cutoff: float) -> list[str]:
    """The known names most similar to a name; those that contain all its words and numbers come first.

    >>> alike("llama-70b", ["llama-7b", "llama-2-70b", "llama-3-70b"], 1, 0.5)
    ['llama-3-70b']
    """
    compared = [other for other in itertools.islice(dict.fromkeys(known), _MOST) if len(other) <= 2 * _LONGEST]
    short = name[:_LONGEST]
    parts = Counter(short.lower().split("-"))
    longer = [
        other
        for other in compared
        if other.startswith(f"{name}-")
        or holds(other, short)
        or (len(parts) > 1 and parts < Counter(other.lower().split("-")))
    ]
    longer.sort(reverse=True)
    longer.sort(key=lambda other: other.count("-"))
    close = difflib.get_close_matches(short, compared, n=max(count, _CLOSE), cutoff=cutoff)
    numbers = Counter(_NUMBER.findall(short))
    close.sort(key=lambda other: -(numbers & Counter(_NUMBER.findall(other))).total())
    return list(dict.fromkeys([*longer, *close]))[:count]


def holds(longer: str, name: str) -> bool:
    """Whether a longer name has every word and number of a name, and starts with the same word.

    >>> holds("qwen-3-235b-a22b", "qwen3-235b"), holds("qwen-3-32b", "qwen3-235b"), holds("qwen-3-32b", "32b")
    (True, False, False)
    """
    parts, others = (_PART.findall(text.lower()) for text in (name, longer))
    begins_alike = len(parts) > 1 and len(parts[0]) > 1 and parts[0].isalpha() and parts[:1] == others[:1]
    return begins_alike and Counter(parts) <= Counter(others)
