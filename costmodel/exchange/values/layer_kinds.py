"""Layers one by one to the short list of kinds with counts that a model document has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from costmodel.exchange.import_result import Loss, Origin, OriginValue

_MOST_KINDS = 64  # that may be mixed evenly
_UNEVEN = 1.0  # layers by which a kind may run ahead of or behind its share and still count as evenly mixed

Mark = TypeVar("Mark", bound=Hashable)


def gathered(
    marks: Sequence[Mark], build: Callable[[Mark], dict[str, Any]], count: Origin
) -> tuple[list[dict[str, Any]], list[Loss]]:
    """One document entry for each kind of layer, in order of first occurrence; a loss if their order is lost.

    `marks` has one mark for each layer; layers with equal marks are of one kind.
    """
    counts = Counter(marks)
    found = []
    for mark, often in counts.items():
        entry: dict[str, Any] = {"count": OriginValue(often, count)}
        if mark == marks[0] and _leading_count(marks):
            entry["leading"] = OriginValue(True, Origin("derived", "the first layers are of this kind, no others"))
        found.append(entry | build(mark))
    if _is_evenly_mixed(marks[_leading_count(marks) :]):
        return found, []
    sentence = f"the {len(marks)} layers are mixed evenly here; in the file their order is another"
    return found, [Loss("approximated", sentence, count.place)]


def _leading_count(marks: Sequence[Hashable]) -> int:
    """The number of leading layers of a kind that occurs nowhere else; 0 if all layers are of one kind."""
    ahead = next((index for index, mark in enumerate(marks) if mark != marks[0]), len(marks))
    return ahead if ahead < len(marks) and marks[0] not in marks[ahead:] else 0


def _is_evenly_mixed(marks: Sequence[Hashable]) -> bool:
    """Whether the kinds of layers are mixed evenly: every prefix has nearly the overall shares."""
    counts = Counter(marks)
    for kind, often in counts.items() if len(counts) <= _MOST_KINDS else ():
        share, seen = often / len(marks), 0
        for index, mark in enumerate(marks):
            seen += mark == kind
            if abs(seen - share * (index + 1)) > _UNEVEN:
                return False
    return len(counts) <= _MOST_KINDS
