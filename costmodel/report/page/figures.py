"""Bar figures of pages: rows with a label, bars to scale and a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from costmodel.ground.record import record
from costmodel.ground.units import time_unit
from costmodel.report.page.plots import (
    LINE,
    TICK,
    TITLE,
    Bar,
    Mark,
    Rule,
    Scale,
    SvgFigure,
    Words,
    shortened_to,
    text_width,
    trimmed,
)

NARROW = 480.0  # below it labels stand above their bars
_BAR, _GAP, _AXIS = 16.0, 9.0, 40.0
_MOST_LABEL = 0.36  # of the width
_STRONG = 1.12


@record
class Piece:
    """A part of a bar from one value to another."""

    start: float
    end: float
    role: str
    tip: str = ""
    name: str = ""
    value: float | None = None


@record
class BarRow:
    """A bar with its label, its pieces, and the text after it."""

    label: str
    pieces: Sequence[Piece]
    text: str
    strong: bool = False


@record
class Bars:
    """Rows of bars over one axis; `limit` is a line with its words."""

    key: str
    title: str
    description: str
    rows: Sequence[BarRow]
    axis: str
    tick: Callable[[float], str]
    limit: tuple[float, str] | None = None
    legend: Sequence[tuple[str, str]] = ()  # role, words
    unit: float = 1.0  # in which ticks are round

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value of the bars."""
        every = [value for row in self.rows for piece in row.pieces for value in (piece.start, piece.end)]
        every += [self.limit[0]] if self.limit else []
        return min([0.0, *every]), max([*every, 0.0]) or 1.0

    def __call__(self, width: float) -> SvgFigure:
        """Draw the figure at a width."""
        above = width < NARROW
        margin = 0.0 if above else min(max(_text_width(row.label, row) for row in self.rows) + 20, width * _MOST_LABEL)
        behind = max(_text_width(row.text, row) for row in self.rows) + 10
        scale = Scale(*self.ends, margin, max(margin + 60, width - behind))
        legend, top = self._legend(width)
        marks: list[Mark] = list(legend)
        each = _BAR + _GAP + (LINE if above else 0.0)
        bottom = top + each * len(self.rows)
        marks += self._axis(scale, top, bottom)
        for place, row in enumerate(self.rows):
            line = None if self.limit is None else scale(self.limit[0])
            marks += _bar_marks(row, scale, top + place * each, margin, above=above, width=width, line=line)
        marks += self._limit(scale, top, bottom)
        return SvgFigure(
            self.key, self.title, self.description, width, bottom + _AXIS + (14 if self.limit else 0), marks
        )

    def _axis(self, scale: Scale, top: float, bottom: float) -> list[Mark]:
        """The axis with its ticks and title, as marks."""
        marks: list[Mark] = []
        round_ones = Scale(scale.low / self.unit, scale.high / self.unit, scale.start, scale.end)
        for tick in round_ones.ticks(max(2, int((scale.end - scale.start) / 90))):
            value = tick * self.unit
            place = scale(value)
            marks.append(Rule(place, top, place, bottom, "axis" if value == 0 else "grid"))
            words = trimmed(self.tick(value))
            anchor = "start" if place < text_width(words) / 2 else "middle"
            marks.append(Words(place, bottom + 14, words, anchor, TICK))
        return [*marks, Words(scale.start, bottom + 30, self.axis, "start", TITLE)]

    def _limit(self, scale: Scale, top: float, bottom: float) -> list[Mark]:
        """The line of a limit with its words, as marks."""
        if self.limit is None:
            return []
        value, words = self.limit
        place = scale(value)
        right = place > (scale.start + scale.end) / 2
        line = Rule(place, top - 2, place, bottom + 2, "limit")
        return [line, Words(place, bottom + 44, words, "end" if right else "start", "strong")]

    def _legend(self, width: float) -> tuple[list[Mark], float]:
        """The legend as marks, and its height."""
        marks: list[Mark] = []
        x, y = 0.0, 4.0
        for role, words in self.legend:
            wide = 18 + text_width(words) + 12
            if x and x + wide > width:
                x, y = 0.0, y + LINE + 3
            marks += [Bar(x, y, 11, 11, role), Words(x + 16, y + 10, words, role="label")]
            x += wide
        return marks, y + LINE + 8 if self.legend else 6.0


def _text_width(text: str, row: BarRow) -> float:
    """The width of a row's text; bold letters are wider."""
    return text_width(text) * (_STRONG if row.strong else 1.0)


def _bar_marks(
    row: BarRow, scale: Scale, top: float, margin: float, *, above: bool, width: float, line: float | None
) -> list[Mark]:
    """The label, the bar and the value of one row, as marks."""
    role = "strong" if row.strong else "label"
    marks: list[Mark] = []
    if above:
        marks.append(Words(0, top + 11, shortened_to(row.label, width), role=role))
        top += LINE
    else:
        marks.append(Words(margin - 8, top + 12, shortened_to(row.label, margin - 8), "end", role))
    for piece in row.pieces:
        ends = sorted((scale(piece.start), scale(piece.end)))
        broad = max(ends[1] - ends[0], 1.0 if piece.start != piece.end else 0.0)
        marks.append(Bar(ends[0], top, broad, _BAR, piece.role, piece.tip, piece.name, piece.value))
    right = max([scale.start, *(scale(end) for piece in row.pieces for end in (piece.start, piece.end))])
    crossed = line is not None and right - 1 <= line <= right + 8 + _text_width(row.text, row)
    marks.append(Words((line if crossed and line is not None else right) + 6, top + 12, row.text, role=role))
    return marks


@record
class FigureEntry:
    """A named amount, drawn as one bar."""

    label: str
    value: float
    role: str
    name: str = ""


def amount_bars(
    key: str,
    title: str,
    description: str,
    entries: Sequence[FigureEntry],
    axis: str,
    text_of: Callable[[float], str],
    unit: float = 1.0,
) -> Bars:
    """A bar for each amount, all starting at zero."""
    rows = [
        BarRow(
            entry.label,
            [Piece(0.0, entry.value, entry.role, f"{entry.label}: {text_of(entry.value)}", entry.name, entry.value)],
            text_of(entry.value),
        )
        for entry in entries
    ]
    return Bars(key, title, description, rows, axis, text_of, unit=unit)


def waterfall_bars(
    key: str,
    title: str,
    description: str,
    entries: Sequence[FigureEntry],
    total: FigureEntry,
    text_of: Callable[[float], str],
) -> Bars:
    """Bars that each start at the end of the one before, and a bar for the total."""
    rows, at = [], 0.0
    for entry in entries:
        tip = f"{entry.label}: {text_of(entry.value)}"
        piece = Piece(at, at + entry.value, entry.role, tip, entry.name, entry.value)
        rows.append(BarRow(entry.label, [piece], text_of(entry.value), strong=not at))
        at += entry.value
    whole = Piece(0.0, total.value, total.role, f"{total.label}: {text_of(total.value)}", total.name, total.value)
    rows.append(BarRow(total.label, [whole], text_of(total.value), strong=True))
    return Bars(key, title, description, rows, "time", text_of, unit=time_unit(total.value))
