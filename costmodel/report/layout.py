"""Lines and tables of an answer, laid out for the terminal at hand; what is piped is never cut or wrapped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from costmodel.report.theme import columns, styled

NARROWEST = 24
_LEAST_ROOM = 20
_GUIDES = re.compile(r"[ │├└─]*")
_RAILS = str.maketrans("├└─", "│  ")


@dataclass(frozen=True)
class Grid:
    """A table: cells under named columns. Where the terminal is narrow, `drop` says which columns go, first to last."""

    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str
    headed: bool = True
    drop: Sequence[str] = ()
    gap: str = "  "
    indent: str = "  "
    style: str = ""

    def lines(self, width: int | None = None) -> list[Text]:
        """As aligned lines; too wide still, the last column wraps."""
        kept = list(range(len(self.names)))
        for name in self.drop:
            if width is None or self._width(kept) <= width:
                break
            kept.remove(list(self.names).index(name))
        rows = [[row[index] for index in kept] for row in self._all()]
        if width is not None and self._width(kept) > width and self.align[kept[-1]] == "l":
            room = width - self._width(kept[:-1]) - len(self.gap)
            rows = [part for row in rows for part in _wrapped_row(row, room)] if room >= _LEAST_ROOM else rows
        right = [self.align[index] == "r" for index in kept]
        return [styled(line, self.style) for line in columns(rows, right=right, gap=self.gap, indent=self.indent)]

    def _all(self) -> list[Sequence[str]]:
        return [self.names, *self.rows] if self.headed else list(self.rows)

    def _width(self, kept: Sequence[int]) -> int:
        widest = [max((cell_len(row[index]) for row in self._all()), default=0) for index in kept]
        return len(self.indent) + sum(widest) + len(self.gap) * max(0, len(kept) - 1)


Line = Text | Grid


def drawn(line: str, style: str = "") -> Text:
    """A line that must stay as it is: a command to paste, a row of a figure."""
    return Text(line, style=style, no_wrap=True)


def laid(items: Iterable[Line], width: int | None) -> Iterator[Text]:
    """Everything as lines of text no wider than the terminal; without one, as it is."""
    width = None if width is None else max(width, NARROWEST)
    for item in items:
        for line in item.lines(width) if isinstance(item, Grid) else [item]:
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


def _wrapped_row(row: Sequence[str], room: int) -> Iterator[list[str]]:
    """A row whose last cell is broken at words: what follows stands under it."""
    *cells, last = row
    for position, (start, end) in enumerate(_breaks(last, room, 0)):
        yield [*(cells if position == 0 else [""] * len(cells)), last[start:end].rstrip()]
