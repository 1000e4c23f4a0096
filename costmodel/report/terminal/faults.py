"""Input faults in a terminal: code, sentence, the place with a caret, and a hint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from costmodel.ground.counts import number_of
from costmodel.ground.errors import WARNINGS, Fault, Place
from costmodel.report.terminal.layout import BAD, DIM, WARN, laid_out, unwrapped, visible_text

MOST_FAULTS = 20
_MOST_ALIKE = 3  # faults with the same words that are shown one by one; of more, the first stands for all
_WINDOW, _NARROW_WINDOW = 100, 16


def fault_report(found: Sequence[Fault], width: int | None = None) -> Iterator[Text]:
    """Every fault with its place, the line with a caret, and the remedy; no wider than a terminal."""
    yield from laid_out(_fault_lines(found, width), width)


def _fault_lines(found: Sequence[Fault], width: int | None) -> Iterator[Text]:
    """The lines of all faults; equal ones share a line, and a few of many are shown."""
    gathered = grouped_faults(found)
    for alike in gathered[:MOST_FAULTS]:
        yield from fault_lines(alike[0], width)
        if len(alike) > 1:
            yield Text(more_places(alike), style=DIM)
    if left := sum(map(len, gathered[MOST_FAULTS:])):
        yield Text(f"and {left:,} more", style=DIM)
    known = found[0].code if found else "D002"
    yield Text(f"{_count_words(found)}. Details: costmodel explain {known}", style=DIM)


def _count_words(found: Sequence[Fault]) -> str:
    """The numbers of errors and warnings in words, such as "2 errors and 1 warning"."""
    warnings = sum(fault.code in WARNINGS for fault in found)
    counts = (len(found) - warnings, "error"), (warnings, "warning")
    return " and ".join(number_of(count, kind) for count, kind in counts if count)


def grouped_faults(found: Sequence[Fault]) -> list[list[Fault]]:
    """The faults in order; more than a few with equal words form one group."""
    alike: dict[tuple[str, str, str], list[Fault]] = {}
    for fault in found:
        alike.setdefault((fault.code, fault.sentence, fault.hint), []).append(fault)
    gathered = []
    for fault in found:
        same = alike[fault.code, fault.sentence, fault.hint]
        if len(same) <= _MOST_ALIKE:
            gathered.append([fault])
        elif fault is same[0]:
            gathered.append(same)
    return gathered


def more_places(alike: Sequence[Fault]) -> str:
    """The number of further places with the same fault, and a few of them."""
    places = ", ".join(_other_place(fault, alike[0]) for fault in alike[1 : _MOST_ALIKE + 1])
    word = "warning" if alike[0].code in WARNINGS else "error"
    return f"the same {word} is in {len(alike) - 1:,} more places: {places}, …"


def _other_place(fault: Fault, first: Fault) -> str:
    """The place of a fault; only line and column if the first fault is in the same file.

    >>> _other_place(Fault("D006", "", Place("runs.csv", 3, 5)), Fault("D006", "", Place("runs.csv", 2, 5)))
    '3:5'
    """
    place = fault.place
    if place is None or first.place is None or place.file != first.place.file or not place.line:
        return visible_text(str(place or "without a place"))
    return f"{place.line}:{place.column}"


def fault_lines(fault: Fault, width: int | None = None) -> list[Text]:
    """The lines of one fault: code, sentence, place with a caret, and hint."""
    word, color = ("warning", WARN) if fault.code in WARNINGS else ("error", BAD)
    lines = [Text.assemble((f"{word}[{fault.code}]", color), f": {visible_text(fault.sentence)}")]
    place = fault.place
    if place is not None:
        lines.append(Text(f"  --> {visible_text(str(place))}", style=DIM))
        if place.text:
            number = str(place.line or "")
            margin = " " * len(number)
            room = None if width is None else max(_NARROW_WINDOW, width - len(f" {number} | "))
            before, marked, after = _caret_window(place, room)
            caret = Text.assemble(f" {margin} | {' ' * cell_len(before)}", ("^" * (cell_len(marked) or 1), BAD))
            caret.no_wrap = True
            lines += [Text(f" {margin} |"), unwrapped(f" {number} | {before}{marked}{after}"), caret]
    if fault.hint:
        lines.append(Text(f"help: {visible_text(fault.hint)}"))
    return lines


def _caret_window(place: Place, room: int | None) -> tuple[str, str, str]:
    """The text before, under and after the caret, shortened if it is too long."""
    start, end = place.column - 1, place.column - 1 + place.width
    before, marked, after = (
        visible_text(part.replace("\t", "    "))
        for part in (place.text[:start], place.text[start:end], place.text[end:])
    )
    if len(before) > _WINDOW:
        before = "…" + before[-_WINDOW // 2 :]
    if len(marked) > _WINDOW:
        marked, after = marked[:_WINDOW] + "…", ""
    if len(after) > _WINDOW:
        after = after[:_WINDOW] + "…"
    return (before, marked, after) if room is None else _shorten_parts(before, marked, after, room)


def _shorten_parts(before: str, marked: str, after: str, room: int) -> tuple[str, str, str]:
    """The three parts shortened to a width: the marked part has priority, then the part before it."""
    marked, rest = _first_columns(marked, room), ""
    if cell_len(before) + cell_len(marked) > room:
        kept = max(0, room - cell_len(marked) - 1)
        before = "…" + before[len(before) - kept :] if kept else ""
    rest = _first_columns(after, room - cell_len(before) - cell_len(marked))
    return before, marked, rest


def _first_columns(text: str, room: int) -> str:
    """The first columns of a text, with … if it continues."""
    if cell_len(text) <= room:
        return text
    kept = ""
    for letter in text:
        if cell_len(kept + letter) > room - 1:
            break
        kept += letter
    return f"{kept}…" if room > 0 else ""
