"""Tests of a shell script, [ … ] and [[ … ]], as far as its text decides them."""

from __future__ import annotations

import fnmatch
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from costmodel.exchange.shell.script import Word

_NUMBERS = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}


def holds(words: Sequence[Word]) -> bool | None:
    """Whether a test holds; None where the text does not decide it."""
    inner = [word for word in words if word.text not in ("]", "]]")]
    texts = [word.text for word in inner]
    for sign, wins in (("||", True), ("-o", True), ("&&", False), ("-a", False)):
        if sign in texts:
            at = texts.index(sign)
            sides = (holds(inner[:at]), holds(inner[at + 1 :]))
            return wins if wins in sides else None if None in sides else not wins
    if texts[:1] == ["!"]:
        found = holds(inner[1:])
        return None if found is None else not found
    if any(word.doubt for word in inner):
        return None
    return _plain(texts)


def _plain(texts: Sequence[str]) -> bool | None:
    if len(texts) == 1:
        return bool(texts[0])
    if len(texts) == 2 and texts[0] in ("-n", "-z"):
        return bool(texts[1]) == (texts[0] == "-n")
    if len(texts) != 3:
        return None
    left, sign, right = texts
    if sign in ("=", "==", "!="):
        return fnmatch.fnmatchcase(left, right) == (sign != "!=")
    if sign in _NUMBERS and left.lstrip("-").isdigit() and right.lstrip("-").isdigit() and len(left + right) < 40:
        return bool(_NUMBERS[sign](int(left), int(right)))
    return None
