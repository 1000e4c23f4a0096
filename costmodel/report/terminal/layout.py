"""The layout of lines in a terminal: tables, wrapping, colours, and short or verbose answers."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import sys
import unicodedata
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from rich.theme import Theme

import costmodel
from costmodel.documents.schemas.default_values import SAFE
from costmodel.ground.counts import number_of
from costmodel.ground.record import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


@record
class FileOutput:
    """A document for a file: its text, and the lines to print for a path, or for None without a file.

    A reply whose answer is no is not written.
    """

    text: Callable[[Path], str]
    summary: Callable[[Path | None], Sequence[Line]]


@record
class Reply:
    """The answer of a command: lines for people, a result for programs, and whether the answer is yes.

    `rows` is the path in the result to the list that CSV prints as a table. `others` are forms that only this answer
    has, or that it makes differently; `stopped`: the user asked to end before the answer was complete.
    `filed` is for answers that are documents. `again` waits for a change and returns the new answer, for a file that
    is kept up to date. `found` is the value that the engine returned.
    """

    lines: Callable[[], Sequence[Line]]
    result: Callable[[], dict[str, Any]]
    rows: str = ""
    yes: bool = True
    others: Mapping[str, Callable[[], str | bytes]] = field(default_factory=dict)
    stopped: bool = False
    filed: FileOutput | None = None
    again: Callable[[], Reply] | None = None
    found: object = None


def schema_head(schema: str) -> dict[str, str]:
    """The first fields of a result for programs: its schema and costmodel's version."""
    return {"schema": schema, "costmodel": costmodel.__version__}


GOOD, WARN, BAD, DIM, HEAD = "good", "warn", "bad", "dim", "bold"
# Colours that are legible on white and on black; where there are sixteen, yellow and green are too light on white.
PALETTE = {GOOD: "color(28)", WARN: "color(130)", BAD: "color(160)"}
FEW_COLOURS = {GOOD: "none", WARN: "magenta", BAD: "red"}
VERDICT_STYLE = {"fits": GOOD, "tight": WARN, "does not fit": BAD}
SCREEN = 23  # lines of a short answer: of 24, the prompt takes one
_USUAL = 80  # columns, where the terminal does not report its width
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, direction and invisible, halves of letters, ends of lines
_NO_LETTERS = "\ufffe\uffff"  # which XML does not have


_switches = {"colour": True}


def set_colour(*, on: bool) -> None:
    """Whether answers may be coloured at all; NO_COLOR, FORCE_COLOR and TERM count besides."""
    _switches["colour"] = on


def is_colourless() -> bool:
    """Whether --no-color, NO_COLOR or the terminal wants text without colours or other attributes."""
    return not _switches["colour"] or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")


def text_console(*, stderr: bool = False) -> Console:
    """A console that neither cuts nor wraps; without colour it writes plain text."""
    return _new_console(stderr=stderr, width=10_000, height=50, soft_wrap=True)


def live_console() -> Console:
    """A console on standard error as wide as its terminal, for a line that is drawn again and again."""
    return _new_console(stderr=True)


def _new_console(*, stderr: bool, **layout: Any) -> Console:
    """A rich console for standard output or error, in few colours if the terminal has few."""
    stream = sys.stderr if stderr else sys.stdout
    system: Literal["auto"] | None = None if is_colourless() else "auto"
    screen = Console(file=stream, color_system=system, highlight=False, markup=False, **layout)
    screen.push_theme(Theme(FEW_COLOURS if screen.color_system in ("standard", "windows") else PALETTE))
    return screen


def terminal_width(*, stderr: bool = False) -> int | None:
    """The width of the terminal; None if the stream is not a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    if not stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns[:6]) > 0:
        return int(columns[:6])
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or _USUAL
    return _USUAL


def bar(share: float, width: int = 36) -> str:
    """A bar of eighths of a cell.

    >>> bar(0.5, 4), bar(0.0, 4), bar(0.3, 4)
    ('██', '', '█▎')
    """
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def aligned_columns(
    rows: Sequence[Sequence[str]], *, right: Sequence[bool], gap: str = "  ", indent: str = "  "
) -> list[str]:
    """Rows of cells as aligned lines, each column as wide as its widest cell."""
    widths = [max((cell_len(row[index]) for row in rows), default=0) for index in range(len(right))]
    lines = []
    for row in rows:
        cells = [
            " " * (width - cell_len(cell)) + cell if flush else cell + " " * (width - cell_len(cell))
            for cell, width, flush in zip(row, widths, right, strict=True)
        ]
        lines.append((indent + gap.join(cells)).rstrip())
    return lines


def chance_style(chance: float) -> str:
    """Green from the chance on that searches prefer, amber below."""
    return GOOD if chance >= SAFE else WARN


def styled(line: str, style: str = "") -> Text:
    """A line of text in a style."""
    return Text(line, style=style)


def visible_text(text: str) -> str:
    """A line of text without characters that move the cursor, hide text or reverse it.

    >>> visible_text("a\\x1b[31m\\tb\\u202e")
    'a�[31m b�'
    """
    return text if text.isprintable() else "".join(map(_visible_letter, text))


def _visible_letter(letter: str) -> str:
    category = unicodedata.category(letter)
    if letter in "\t\n\r" or category == "Zs":
        return " "
    return "�" if category in _HARMFUL or letter in _NO_LETTERS else letter


def safe_text(text: str) -> str:
    """Text of several lines without anything that moves the cursor, hides or reverses it."""
    return "\n".join(map(visible_text, text.split("\n")))


NARROWEST = 24
_LEAST_ROOM, _NO_ROOM = 16, 8
_LINE = 80  # letters of a line that no terminal has to break
_GUIDES = re.compile(r"[ │├└─]*")
_RAILS = str.maketrans("├└─", "│  ")
_GOES_ON, _INSET = " \\", 8
_WORD = r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+"
_WHOLE = re.compile(r"(?:--set (?:'[^']*'|\S+)|\S)\S*\s*")  # of a sentence; a setting stays with its option
_PARTS = re.compile(rf"--[a-z-]+ (?!-){_WORD}|{_WORD}")  # of a command; an option stays with its value


@record
class CellTable:
    """A table: cells under named columns.

    On a narrow terminal the widest column of words wraps. If that would leave it too little room, columns are dropped
    in the order of `drop`; if that is not enough, a row continues on further lines. `align` has a letter for each
    column: r is aligned right, l and k left; l are words that may wrap, k names that never wrap.
    """

    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str
    headed: bool = True
    drop: Sequence[str] = ()
    gap: str = "  "
    indent: str = "  "
    style: str = ""
    marked: Mapping[str, str] = field(default_factory=dict)  # words that have a style of their own
    legend: Mapping[str, str] = field(default_factory=dict)  # of columns: a line beneath those that are shown
    rest: str = ""  # the name of a row, of a table whose last rows a short answer may leave out
    hidden: int = 0  # rows that a short answer left out already
    sums: int = 0  # rows at the end that stay

    def lines(self, width: int | None = None) -> list[Text]:
        """The table as aligned lines, with the legend of the visible columns."""
        kept = self.kept(width)
        words = self.legend_words(kept)
        below = [styled(f"{self.indent}{words}", DIM)] if words and self.rows else []
        return [*self._aligned(kept, width), *(part for line in below for part in _wrapped(line, width))]

    def legend_words(self, kept: Sequence[int]) -> str:
        """The legend of columns; columns with equal legends share an entry."""
        heads: dict[str, list[str]] = {}
        for name in (self.names[index] for index in kept):
            if name in self.legend:
                heads.setdefault(self.legend[name], []).append(name)
        return "; ".join(f"{', '.join(names)}: {words}" for words, names in heads.items())

    def _aligned(self, kept: Sequence[int], width: int | None) -> list[Text]:
        """The table as lines: at full width, with one column wrapped, or stacked if there is no room."""
        if width is None or self._width(kept) <= width:
            return self._drawn([self._cells(row, kept) for row in self.all_rows()], kept)
        column, room = self._room(kept, width)
        if room < max(_NO_ROOM, self._longest_word(kept[column])):
            return self._stacked(kept, width)
        rows = (self._cells(row, kept) for row in self.all_rows())
        return self._drawn([part for row in rows for part in _wrapped_row(row, column, room)], kept)

    def kept(self, width: int | None = None) -> list[int]:
        """The columns left after dropping those without room, in the order of `drop`."""
        kept = list(range(len(self.names)))
        for name in self.drop:
            if width is None or self._width(kept) <= width or self._room(kept, width)[1] >= _LEAST_ROOM:
                break
            kept.remove(list(self.names).index(name))
        return kept

    def left_out(self, width: int | None) -> list[str]:
        """The names of columns without room."""
        kept = self.kept(width)
        return [name for index, name in enumerate(self.names) if index not in kept]

    def only(self, kept: Sequence[int]) -> CellTable:
        """The table without the other columns."""
        names, rows = self._cells(self.names, kept), [self._cells(row, kept) for row in self.rows]
        drop = [name for name in self.drop if name in names]
        return replace(self, names=names, rows=rows, align="".join(self._cells(self.align, kept)), drop=drop)

    def in_single_lines(self, width: int) -> CellTable:
        """The table with a line for each row: without columns in the order of `drop`, then without the ends of words.

        Settings to type stay whole.
        """
        kept = [*range(len(self.names))]
        for name in self.drop:
            if self._width(kept) > width:
                kept.remove([*self.names].index(name))
        table = self if len(kept) == len(self.names) else self.only(kept)
        kept = [*range(len(table.names))]
        column, room = table._room(kept, width)
        if table._width(kept) <= width or room < max(_NO_ROOM, table._longest_word(column)):
            return table
        if room < _LEAST_ROOM and column:
            return table.only([index for index in kept if index != column])
        if any("--" in row[column] for row in table.rows):
            return table
        rows = [
            [cut_words(cell, room) if index == column else cell for index, cell in enumerate(row)] for row in table.rows
        ]
        return replace(table, rows=rows)

    def _cells(self, row: Sequence[str], kept: Sequence[int]) -> list[str]:
        return [row[index] for index in kept]

    def _drawn(self, rows: Sequence[Sequence[str]], kept: Sequence[int]) -> list[Text]:
        right = [self.align[index] == "r" for index in kept]
        return [self._styled(line) for line in aligned_columns(rows, right=right, gap=self.gap, indent=self.indent)]

    def _styled(self, line: str) -> Text:
        text = styled(line, self.style)
        for words, style in self.marked.items():
            text.highlight_words([words], style)
        return text

    def _stacked(self, kept: Sequence[int], width: int) -> list[Text]:
        """Each row over several lines, with as many columns per line as fit."""
        parts: list[list[str]] = [[] for _ in self.all_rows()]
        for place, group in enumerate(self._groups(kept, width)):
            inset = self.indent + ("  " if place else "")
            cells = [self._cells(row, group) for row in self.all_rows()]
            right = [self.align[index] == "r" for index in group]
            for row, line in zip(parts, aligned_columns(cells, right=right, gap=self.gap, indent=inset), strict=True):
                row += [line] if line.strip() else []
        lines = (self._styled(line) for row in parts for line in row)
        return [part for line in lines for part in _fit_line(line, width)]

    def _groups(self, kept: Sequence[int], width: int) -> Iterator[list[int]]:
        """Columns in order, split into groups that each fit the width."""
        group: list[int] = []
        for index in kept:
            if group and self._width([*group, index]) + 2 > width:
                yield group
                group = []
            group.append(index)
        yield group

    def _longest_word(self, index: int) -> int:
        return max((cell_len(word) for row in self.all_rows() for word in row[index].split()), default=0)

    def all_rows(self) -> list[Sequence[str]]:
        """All rows, with the column names first if these are shown."""
        return [self.names, *self.rows] if self.headed else list(self.rows)

    def _room(self, kept: Sequence[int], width: int) -> tuple[int, int]:
        """The place of the widest column that can wrap, and the room that the other columns leave for it."""
        words = [
            place for place, index in enumerate(kept) if self.align[index] == "l" and self.names[index] not in self.drop
        ]
        if not words:
            return 0, 0
        widest = max(words, key=lambda place: self._widest(kept[place]))
        return widest, width - self._width(kept) + self._widest(kept[widest])

    def _widest(self, index: int) -> int:
        return max((cell_len(row[index]) for row in self.all_rows()), default=0)

    def _width(self, kept: Sequence[int]) -> int:
        return len(self.indent) + sum(map(self._widest, kept)) + len(self.gap) * max(0, len(kept) - 1)


@record
class WidthDrawing:
    """A figure or a command, drawn for the available width; without a width, as wide as it needs."""

    draw: Callable[[int | None], Sequence[Text]]

    def lines(self, width: int | None = None) -> list[Text]:
        """The lines for a width; they are not wrapped."""
        return list(self.draw(width))


@record
class Detail:
    """Lines that an answer shows only with -v, or only without it.

    inner: the lines, or what makes them where they are shown
    words: the words for these lines in the list of what -v adds. brief: whether the lines belong to the short answer,
    where they replace others. spare: where positive, a short answer has the lines too while it fits a screen; of
    several such parts, those with the highest number are left out first. instead: lines in the place of a spared part.
    asked: whether the user asked for the lines, which any answer has, even if a screen has no room for all
    """

    inner: Sequence[Line] | Callable[[], Sequence[Line]]
    words: str = ""
    brief: bool = False
    spare: int = 0
    instead: Sequence[Line] = ()
    asked: bool = False

    @property
    def lines(self) -> Sequence[Line]:
        """The lines, made when they are first needed."""
        return self.inner() if callable(self.inner) else self.inner


PlainLine = Text | CellTable | WidthDrawing
Line = PlainLine | Detail
LEFT_OUT = "Columns left out, as the window is narrow:"
MORE = Text()  # where a short answer names what -v adds; at its end, if it has no such place


class Abridged(Text):
    """A line for -v; a short answer has other words instead, or none.

    added: the words for these lines in the last line of a short answer, which lists what -v adds
    """

    def __init__(self, words: str, style: str = "", *, short: str, added: str) -> None:
        super().__init__(words, style)
        self.short, self.added = short, added


def short_or_full(short: Sequence[Line], whole: Sequence[Line], words: str) -> list[Line]:
    """Lines for a short answer and lines for -v; only the latter if both are equal."""
    return [*whole] if [*short] == [*whole] else [Detail(short, brief=True), Detail(whole, words)]


def lines_of_length(items: Iterable[Line], *, verbose: bool = True, spared: float = math.inf) -> list[PlainLine]:
    """The lines of an answer with -v, or those of a short answer and a line on what -v adds.

    spared: the number from which on parts that a short answer can spare are left out

    >>> found = lines_of_length([Text("a"), MORE, Detail([Text("b")], "assumptions"), Text("c")], verbose=False)
    >>> [line.plain for line in found]
    ['a', '  More with -v: assumptions', 'c']
    """
    left = dict[str, None]()
    return _with_more([line for line, _ in _lines_shown(items, spared, left, verbose=verbose)], left)


def _with_more(found: list[PlainLine], left: Mapping[str, None]) -> list[PlainLine]:
    """The lines of an answer with a line on what -v adds, if it adds anything."""
    if not left:
        return [item for item in found if item is not MORE]
    more = styled(cut_list("  More with -v: ", [*filter(None, left)], ", ") if any(left) else "  More with -v", DIM)
    place = next((place for place, item in enumerate(found) if item is MORE), len(found))
    found[place:] = [more, *(item for item in found[place:] if item is not MORE)]
    while place and is_blank(found[place - 1]):
        place -= 1
        del found[place]
    pairs = zip([None, *found], found, strict=False)
    return [item for before, item in pairs if not (is_blank(before) and is_blank(item))]


def _lines_shown(
    items: Iterable[Line], spared: float, left: dict[str, None], *, verbose: bool, asked: bool = False
) -> Iterator[tuple[PlainLine, bool]]:
    """The lines of an answer of a length, each with whether the user asked for it.

    left: filled with the words for what only the other length has
    """
    for item in items:
        if isinstance(item, Abridged) and not verbose:
            yield from [(styled(item.short, str(item.style)), asked)] if item.short else []
            left |= {item.added: None} if item.short != item.plain else {}
        elif not isinstance(item, Detail):
            yield item, asked
        elif item.asked or item.brief != verbose or (not item.brief and item.spare and item.spare < spared):
            yield from _lines_shown(item.lines, spared, left, verbose=verbose, asked=asked or item.asked)
        elif not item.brief:
            left[item.words] = None
            yield from _lines_shown(item.instead, spared, left, verbose=verbose, asked=asked)


def cut_list(before: str, words: Sequence[str], between: str, width: int | None = _LINE) -> str:
    """The words that fit in a line, of a usual terminal unless a width is given, and the number of the others.

    >>> cut_list("more: ", ["a" * 40, "b" * 40, "c"], ", ")[40:]
    'aaaaaa, 2 more'
    """
    line, last, width = before + words[0], len(words) - 1, width or _LINE
    for place, each in enumerate(words[1:], 1):
        longer = f"{line}{between}{each}"
        if len(longer) > width - (0 if place == last else len(f"{between}99 more")):
            return f"{line}{between}{last + 1 - place} more"
        line = longer
    return line


def cut_words(text: str, width: int) -> str:
    """The words of a text that fit a width, with a mark if there are more.

    >>> cut_words("one two three", 10), cut_words("one two", 10)
    ('one two …', 'one two')
    """
    if cell_len(text) <= width:
        return text
    start, end = next(_line_breaks(text, width - len(" …"), 0))
    return f"{text[start:end].rstrip(' ,;')} …"


def is_blank(item: Line | None) -> bool:
    """Whether a line is empty."""
    return isinstance(item, Text) and not item.plain


def unwrapped(line: str, style: str = "") -> Text:
    """A line that must not be wrapped, such as of a document or a figure."""
    return Text(line, style=style, no_wrap=True)


def shell_line(before: str, command: str) -> WidthDrawing:
    """A command to paste, after a word; if it is broken, the shell continues it on the next line."""
    return WidthDrawing(lambda width: [unwrapped(line) for line in _command_lines(before, command, width)])


def _command_lines(before: str, command: str, width: int | None) -> Iterator[str]:
    """The lines of a command, indented as far as its longest part allows."""
    if width is None:
        yield f"{before} {command}"
        return
    room, line = width - len(_GOES_ON), ""
    parts = [
        part for pair in _PARTS.findall(command) for part in ([pair] if cell_len(pair) <= room else pair.split(" ", 1))
    ]
    if parts and cell_len(f"{before} {parts[0]}") > room >= cell_len(before):
        yield before
        line = parts.pop(0)
    for part in parts:
        wider = f"{line or before} {part}"
        if line and cell_len(wider) > room:
            yield f"{line}{_GOES_ON}"
            wider = " " * max(0, min(_INSET, room - cell_len(part))) + part
        line = wider
    yield line


def laid_out(items: Iterable[Line], width: int | None, *, verbose: bool = True) -> Iterator[Text]:
    """All items as printable lines of text, wrapped to the terminal's width if there is one.

    A line beneath a table, and with -v the last line of all, names the columns that have no room. A short answer in a
    terminal leaves out the parts that it can spare until it fits a screen, then what any answer can spare.
    """
    width = None if width is None else max(width, NARROWEST)
    if verbose or width is None:
        yield from _lines_of_width(lines_of_length(items, verbose=verbose), width, verbose=verbose)
        return
    items, lines = [*items], list[Text]()
    for spared in (math.inf, *sorted({*_spare_numbers(items)} - {0}, reverse=True)):
        lines = [*_lines_of_width(lines_of_length(items, verbose=False, spared=spared), width, verbose=False)]
        if _height(lines, width) <= SCREEN:
            break
    else:
        lines = _LongAnswer(items, width).on_a_screen() if any(item is MORE for item in items) else lines
    yield from lines


class _LongAnswer:
    """A short answer that is longer than a screen without the parts that it can spare, and what else it leaves out.

    First go explanations of columns, the ends of rows that wrap, empty lines, and further sentences; then rows, from
    the longest table on, and at last whole lines between the subject and the conclusion. Remarks and the next command
    stay, as do figures, and the rows for which the user asked.
    """

    def __init__(self, items: Iterable[Line], width: int) -> None:
        self.left = dict[str, None]()
        shown = [*_lines_shown(items, 0, self.left, verbose=False)]
        self.items: list[PlainLine | None] = [line for line, _ in shown]
        self.asked = {place for place, (line, asked) in enumerate(shown) if asked or _is_drawn(line)}
        self.width = width
        self.end = next(place for place, item in enumerate(self.items) if item is MORE)

    def on_a_screen(self) -> list[Text]:
        """The lines after as few steps as possible."""
        lines = self._lines()
        for asked in self._steps():
            lines = self._lines()
            if _height(lines, self.width) <= SCREEN + asked:
                break
        return lines

    def _lines(self) -> list[Text]:
        found = _with_more([item for item in self.items if item is not None], self.left)
        return [*_lines_of_width(found, self.width, verbose=False)]

    def _steps(self) -> Iterator[int]:
        """Leaves out more with each step; gives the lines by which what the user asked for may exceed a screen."""
        for place, table in self._tables():
            kept = table.kept(self.width)
            self._swap(place, table.only(kept), "columns without room" if len(kept) < len(table.names) else "")
        yield 0
        for place, table in self._tables():
            beneath = itertools.takewhile(self._is_explanation, range(place + 1, self.end))
            self._swap(place, replace(table, legend={}), "what columns mean" if table.legend else "")
            for below in [*beneath]:
                self._swap(below, None, "what columns mean")
        yield 0
        for place, table in reversed(self._tables()):
            single = table.in_single_lines(self.width)
            self._swap(place, single, "" if single is table else "rows in full")
            yield 0
        lines = [item for place in self.asked if place < self.end and (item := self.items[place]) is not None]
        asked = max(0, _height([*_lines_of_width(lines, self.width, verbose=True)], self.width) - _ASKED)
        yield asked
        yield from (asked for _ in self._fewer_words())
        yield from (asked for _ in self._fewer_rows(_FEW_ROWS))
        conclusion = [place for place in range(self.end, len(self.items)) if self._sentences(place)][:1]
        yield from (asked for place in conclusion for least in (3, 2) if self._cut_sentences(place, least))
        yield from (asked for _ in self._fewer_rows(1))
        yield from (asked for _ in self._fewer_lines())

    def _tables(self) -> list[tuple[int, CellTable]]:
        return [(place, item) for place, item in enumerate(self.items) if isinstance(item, CellTable)]

    def _head(self) -> int:
        """The place of the first empty line, which follows the subject."""
        return next((place for place, item in enumerate(self.items) if is_blank(item)), self.end)

    def _swap(self, place: int, item: PlainLine | None, words: str) -> None:
        """Another line in the place of one, and the words for what it lacks; as it is without words."""
        if words:
            self.items[place] = item
            self.left |= {words: None}

    def _is_explanation(self, place: int) -> bool:
        item = self.items[place]
        return isinstance(item, Text) and item.style == DIM and not item.no_wrap

    def _fewer_words(self) -> Iterator[None]:
        """Leaves out the ends of explanations, empty lines, then sentences after the first, from the end on."""
        for place in filter(self._is_explanation, {*range(self.end)} - self.asked):
            words = str(self.items[place])
            if cell_len(words) > self.width:
                self._swap(place, styled(cut_words(words, self.width), DIM), "rows in full")
                yield
        for place in reversed(range(self._head() + 1, self.end)):
            if is_blank(self.items[place]):
                self.items[place] = None
                yield
        closing = [place for place in range(self.end, len(self.items)) if self._sentences(place)]
        yield from (
            None for place in (*reversed(range(self.end)), *reversed(closing[1:])) if self._cut_sentences(place, 1)
        )

    def _sentences(self, place: int) -> list[str]:
        """The sentences of a text that takes several lines; empty if the line is anything else."""
        item = self.items[place]
        if not isinstance(item, Text) or place in self.asked or cell_len(item.plain) <= self.width:
            return []
        return _SENTENCE.split(item.plain)

    def _cut_sentences(self, place: int, least: int) -> bool:
        """Whether a text was cut to its first sentences."""
        sentences, item = self._sentences(place), self.items[place]
        if len(sentences) <= least or not isinstance(item, Text):
            return False
        self._swap(place, styled(" ".join(sentences[:least]), str(item.style)), "further sentences")
        return True

    def _fewer_rows(self, least: int) -> Iterator[None]:
        """Leaves out a row of the longest table with each step, until each has as few rows."""
        while True:
            free = [(len(table.rows) - table.sums, place, table) for place, table in self._tables()
                    if table.rest and place not in self.asked]  # fmt: skip
            count, place, table = max(free, key=lambda each: each[:2], default=(0, 0, None))
            if table is None or count <= least:
                return
            hidden = sum(other.hidden for _, other in self._tables() if other.rest == table.rest)
            for known in (table.hidden, hidden):
                self.left.pop(number_of(known, table.rest), None)
            kept = min(count - 1, SCREEN)
            more = count - kept
            self.left = {number_of(hidden + more, table.rest): None, **self.left}
            rows = [*table.rows[:kept], *table.rows[count:]]
            self.items[place] = replace(table, rows=rows, hidden=table.hidden + more)
            yield

    def _fewer_lines(self) -> Iterator[None]:
        """Leaves out whole lines and tables from the end on, but what is asked for, the first table and remarks."""
        first = next((place for place, _ in self._tables()), -1)
        for place in reversed(range(self._head(), self.end)):
            item = self.items[place]
            if item is None or is_blank(item) or place in {*self.asked, first}:
                continue
            if isinstance(item, CellTable) or (isinstance(item, Text) and item.style not in (WARN, BAD)):
                self._swap(place, None, "further lines")
                yield


def _is_drawn(line: PlainLine) -> bool:
    """Whether a line is of a figure, a command, or a document."""
    return isinstance(line, WidthDrawing) or (isinstance(line, Text) and bool(line.no_wrap))


_SENTENCE = re.compile(r"(?<=[.]) (?=[A-Z0-9$])")
_ASKED = 8  # lines of a screen that what the user asked for takes at least
_FEW_ROWS = 3


def _height(lines: Iterable[Text], width: int) -> int:
    """The lines that a terminal takes for lines, some of which may be too wide for it."""
    return sum(max(1, math.ceil(cell_len(line.plain) / width)) for line in lines)


def _spare_numbers(items: Iterable[Line]) -> Iterator[int]:
    """The numbers of the parts that a short answer can spare, of parts inside others too."""
    for item in items:
        if isinstance(item, Detail):
            yield from (item.spare, *_spare_numbers([*(() if callable(item.inner) else item.inner), *item.instead]))


def _lines_of_width(items: Iterable[PlainLine], width: int | None, *, verbose: bool) -> Iterator[Text]:
    """The lines of an answer as a terminal of this width shows them."""
    narrow = dict[str, None]()
    for item in items:
        if isinstance(item, CellTable):
            narrow |= dict.fromkeys(filter(None, item.left_out(width)))
        for line in [item] if isinstance(item, Text) else item.lines(width):
            if not line.plain.isprintable():
                line.plain = visible_text(line.plain)
            yield from _wrapped(line, width)
        if narrow and not verbose:
            yield unwrapped(cut_list(f"  {LEFT_OUT} ", [*narrow], ", ", width), DIM)
            narrow.clear()
    if narrow:
        yield from _wrapped(styled(f"{LEFT_OUT} {', '.join(narrow)}.", DIM), width)


def _wrapped(line: Text, width: int | None) -> Iterator[Text]:
    """A line, wrapped if it is too wide for the terminal and may be wrapped."""
    yield from [line] if width is None or line.no_wrap else _fit_line(line, width)


def _fit_line(line: Text, width: int) -> Iterator[Text]:
    """A line, wrapped if it is too wide."""
    yield from [line] if cell_len(line.plain) <= width else _wrap_line(line, width)


def _wrap_line(line: Text, width: int) -> Iterator[Text]:
    """A wrapped line: the rest is indented, and continues the rails of a tree."""
    found = _GUIDES.match(line.plain)
    guides = found.group() if found else ""
    inset = guides.translate(_RAILS) + ("" if guides.strip() else "  ")
    if len(inset) > width - _LEAST_ROOM:
        inset = "  "
    for position, (start, end) in enumerate(_line_breaks(line.plain, width, len(inset))):
        part = line[start:end]
        part.rstrip()
        room = width - cell_len(part.plain)  # a word may fit only where it is set in by less
        ahead = len(part.plain) - len(part.plain.lstrip())
        yield part[min(ahead, max(0, -room)) :] if position == 0 else Text.assemble(inset[: max(0, room)], part)


def _line_breaks(text: str, width: int, inset: int) -> Iterator[tuple[int, int]]:
    """The start and end of each wrapped part; a word longer than the width gets its own line."""
    start, room = 0, width
    for word in _WHOLE.finditer(text):
        if cell_len(text[start : word.end()].rstrip()) > room and text[start : word.start()].strip():
            yield start, word.start()
            start, room = word.start(), width - inset
    yield start, len(text)


def _wrapped_row(row: Sequence[str], column: int, room: int) -> Iterator[list[str]]:
    """The lines of a row with one wrapped cell; the other cells are empty after the first line."""
    words = row[column]
    for position, (start, end) in enumerate(_line_breaks(words, room, 0)):
        cells = list(row) if position == 0 else [""] * len(row)
        cells[column] = words[start:end].rstrip()
        yield cells
