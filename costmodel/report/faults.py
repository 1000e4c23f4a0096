"""Faults on the terminal: a code, a sentence, the place with a caret, the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from costmodel.errors import Fault, Place
from costmodel.report.theme import BAD, DIM, visible

MOST_FAULTS = 20
_WINDOW = 100


def faults(found: Sequence[Fault]) -> Iterator[Text]:
    """Every fault with its place, the line with a caret, and the remedy."""
    for fault in found[:MOST_FAULTS]:
        yield from fault_lines(fault)
    count = len(found)
    if count > MOST_FAULTS:
        yield Text(f"and {count - MOST_FAULTS:,} more", style=DIM)
    known = found[0].code if found else "D002"
    yield Text(f"{count:,} fault{'s' if count > 1 else ''}. costmodel explain {known} says more.", style=DIM)


def fault_lines(fault: Fault) -> list[Text]:
    """One fault as cargo would print it."""
    lines = [Text.assemble((f"error[{fault.code}]", BAD), f": {visible(fault.sentence)}")]
    place = fault.place
    if place is not None:
        lines.append(Text(f"  --> {visible(str(place))}", style=DIM))
        if place.text:
            number = str(place.line or "")
            margin = " " * len(number)
            before, marked, after = _window(place)
            lines.append(Text(f" {margin} |"))
            lines.append(Text(f" {number} | {before}{marked}{after}"))
            lines.append(Text.assemble(f" {margin} | {' ' * cell_len(before)}", ("^" * (cell_len(marked) or 1), BAD)))
    if fault.hint:
        lines.append(Text(f"help: {visible(fault.hint)}"))
    return lines


def _window(place: Place) -> tuple[str, str, str]:
    """The line before, under and after the caret, cut where it is long."""
    start, end = place.column - 1, place.column - 1 + place.width
    before, marked, after = (
        visible(part.replace("\t", "    ")) for part in (place.text[:start], place.text[start:end], place.text[end:])
    )
    if len(before) > _WINDOW:
        before = "…" + before[-_WINDOW // 2 :]
    if len(marked) > _WINDOW:
        marked, after = marked[:_WINDOW] + "…", ""
    if len(after) > _WINDOW:
        after = after[:_WINDOW] + "…"
    return before, marked, after
