"""Lines and tables of an answer, laid out for the terminal at hand; what is piped is never cut or wrapped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from costmodel.report.theme import columns, styled, visible

NARROWEST = 24
_LEAST_ROOM, _NO_ROOM = 16, 8
_GUIDES = re.compile(r"[ │├└─]*")
_RAILS = str.maketrans("├└─", "│  ")


@dataclass(frozen=True)
class Grid:
    """A table: cells under named columns.

    Where the terminal is narrow the widest column of words wraps; where that would leave it too little room, columns
    go in the order of `drop`. Of `align`, r stands right, l and k left; l are words, k names that never wrap.
    """

    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str
    headed: bool = True
    drop: Sequence[str] = ()
    gap: str = "  "
    indent: str = "  "
    style: str = ""

    def lines(self, width: int | None = None) -> list[Text]:
        """As aligned lines."""
        kept = list(range(len(self.names)))
        for name in self.drop:
            if width is None or self._width(kept) <= width or self._room(kept, width)[1] >= _LEAST_ROOM:
                break
            kept.remove(list(self.names).index(name))
        rows = [[row[index] for index in kept] for row in self._all()]
        if width is not None and self._width(kept) > width:
            column, room = self._room(kept, width)
            rows = [part for row in rows for part in _wrapped_row(row, column, room)] if room >= _NO_ROOM else rows
        right = [self.align[index] == "r" for index in kept]
        return [styled(line, self.style) for line in columns(rows, right=right, gap=self.gap, indent=self.indent)]

    def _all(self) -> list[Sequence[str]]:
        return [self.names, *self.rows] if self.headed else list(self.rows)

    def _room(self, kept: Sequence[int], width: int) -> tuple[int, int]:
        """The widest column of words among those kept, and the cells that the others leave it."""
        words = [
            place for place, index in enumerate(kept) if self.align[index] == "l" and self.names[index] not in self.drop
        ]
        if not words:
            return 0, 0
        widest = max(words, key=lambda place: self._widest(kept[place]))
        return widest, width - self._width(kept) + self._widest(kept[widest])

    def _widest(self, index: int) -> int:
        return max((cell_len(row[index]) for row in self._all()), default=0)

    def _width(self, kept: Sequence[int]) -> int:
        return len(self.indent) + sum(map(self._widest, kept)) + len(self.gap) * max(0, len(kept) - 1)


Line = Text | Grid


def drawn(line: str, style: str = "") -> Text:
    """A line that must stay as it is: a command to paste, a row of a figure."""
    return Text(line, style=style, no_wrap=True)


def laid(items: Iterable[Line], width: int | None) -> Iterator[Text]:
    """Everything as lines of text that are harmless, and no wider than the terminal if there is one."""
    width = None if width is None else max(width, NARROWEST)
    for item in items:
        for line in item.lines(width) if isinstance(item, Grid) else [item]:
            if not line.plain.isprintable():
                line.plain = visible(line.plain)
            if width is None or line.no_wrap or cell_len(line.plain) <= width:
                yield line
            else:
                yield from _wrapped(line, width)


def _wrapped(line: Text, width: int) -> Iterator[Text]:
    """A line broken at words, its rest set in under it, between the rails of a tree if it is one of its branches."""
    found = _GUIDES.match(line.plain)
    guides = found.group() if found else ""
    inset = guides.translate(_RAILS) + ("" if guides.strip() else "  ")
    if len(inset) > width - _LEAST_ROOM:
        inset = "  "
    for position, (start, end) in enumerate(_breaks(line.plain, width, len(inset))):
        part = line[start:end]
        part.rstrip()
        yield part if position == 0 else Text.assemble(inset, part)


def _breaks(text: str, width: int, inset: int) -> Iterator[tuple[int, int]]:
    """Where the parts of a text begin and end; a word longer than a line keeps it for itself."""
    start, room = 0, width
    for word in re.finditer(r"\S+\s*", text):
        if cell_len(text[start : word.end()].rstrip()) > room and text[start : word.start()].strip():
            yield start, word.start()
            start, room = word.start(), width - inset
    yield start, len(text)


def _wrapped_row(row: Sequence[str], column: int, room: int) -> Iterator[list[str]]:
    """A row with one cell broken at words: what follows stands under it."""
    words = row[column]
    for position, (start, end) in enumerate(_breaks(words, room, 0)):
        cells = list(row) if position == 0 else [""] * len(row)
        cells[column] = words[start:end].rstrip()
        yield cells
