"""An answer as a document: what it is about, what it comes to, tables and figures. Terminal and page draw the same one.

Sections hold tables whose cells have their exact value, the result that they are of, and the trace that they open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from costmodel.documents.schemas.default_values import SAFE
from costmodel.ground.record import record
from costmodel.ground.units import show_time, time_unit

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.explore.explain.equation_trees import ExplainedFigure
    from costmodel.report.page.plots import SvgFigure
    from costmodel.report.terminal.layout import Line

Verdict = Literal["good", "warn", "bad", "plain"]
Face = Literal["all", "terminal", "page"]
Draw = Callable[[float], "SvgFigure"]


def chance_verdict(chance: float) -> Verdict:
    """`warn` for a chance below the one that searches prefer, else `good`; unknown chances are `good` too.

    >>> [chance_verdict(each) for each in (0.79, 0.899, 0.9, 0.95)]
    ['warn', 'warn', 'good', 'good']
    """
    return "warn" if chance < SAFE else "good"


class TraceWriter(Protocol):
    """The traces that the figures of a page open."""

    def of(self, name: str) -> int | None:
        """The number of the trace of a result on a page; None if there is none."""

    def add(
        self, title: str, text: str, how: str | tuple[str, str, str] = "", inner: Iterable[int] = (), place: str = ""
    ) -> int:
        """Add a trace: its title and value, its formula and inputs, and where it is written."""


@record
class Value:
    """A figure in words, with its exact value for programs, and the trace that it opens on a page.

    link: the source page, for a text without a value
    """

    text: str
    value: float | None = None
    name: str = ""
    trace: int | None = None
    opens: Callable[[TraceWriter], int | None] | None = None  # writes that trace, where the table is drawn on a page
    link: str = ""


Cell = str | Value
Sentence = Sequence[Cell]  # words and figures, one after the other


def plain(sentence: Sentence) -> str:
    """A sentence as plain text, without the equations that its figures open.

    >>> plain(["costs ", Value("$3", 3.0), "."])
    'costs $3.'
    """
    return "".join(cell if isinstance(cell, str) else cell.text for cell in sentence)


@record
class Point:
    """A sentence of a list on a page, and the command that it leads to."""

    words: Sentence
    command: str = ""


@record
class Headline:
    """One of the numbers at the head of a page."""

    label: str
    value: Cell
    note: str = ""
    verdict: Verdict = "plain"


def with_explain_command(text: str, value: float | None, name: str, line: str) -> Cell:
    """A cell whose figure opens the command that explains it; plain text without a value.

    name: the name of the result without unit. line: the command
    """
    if value is None or not math.isfinite(value):
        return text
    return Value(text, value, opens=lambda traces: traces.add(name, text, f"{line} prints how it was made"))


def traced(text: str, value: float, name: str, trace: str = "") -> Cell:
    """A cell whose figure opens its trace on a page; plain text without a value.

    name: the name of the result without unit. trace: the name of its trace, if it differs
    """
    return Value(text, value, name, opens=lambda traces: traces.of(trace or name)) if math.isfinite(value) else text


def computed(title: str, text: str, value: float, how: str, names: Sequence[str]) -> Cell:
    """A cell computed from other figures; opens a trace if all of them have one.

    how: the formula in words, or the operator between the inputs
    """

    def opens(traces: TraceWriter) -> int | None:
        """The number of the trace on a page; None if an input has none."""
        inner = [place for place in map(traces.of, names) if place is not None]
        stated = ("= ", how, "") if how.startswith(" ") else how
        return traces.add(title, text, stated, inner) if len(inner) == len(names) else None

    return Value(text, value, opens=opens) if math.isfinite(value) else text


@record
class Column:
    """A column of a table.

    align: r is right-aligned, l may wrap, k never wraps. result: the result in its cells, whose trace each row opens.
    drop: the order in which a narrow terminal drops columns; 0 is never dropped. legend: an explanation below the
    table, if the column is shown
    """

    head: str
    align: str = "r"
    result: str = ""
    drop: int = 0
    face: Face = "all"
    legend: str = ""


def columns(heads: Sequence[str], align: str, drop: Sequence[str] = ()) -> list[Column]:
    """Columns by their heads and the letter of each; drop: heads in the order in which they go."""
    places = {head: place for place, head in enumerate(drop, 1)}
    return [Column(head, side, drop=places.get(head, 0)) for head, side in zip(heads, align, strict=True)]


@record
class Table:
    """Rows under columns.

    settings: the settings of each row's scenario, for the commands on a page. data: replaces settings by all data of
    the rows on a page. whole: whether the first cell of a row opens the whole row. most: rows in a terminal. brief:
    rows of a short answer; rest: the name of the other rows with -v. sums: rows at the end that sum the rows above
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    settings: Sequence[Mapping[str, str]] = ()
    headed: bool = True
    gap: str = "  "
    sortable: bool = False
    most: int | None = None
    brief: int | None = None
    rest: str = "row"
    whole: bool = False
    data: Callable[[TraceWriter], Mapping[str, Any]] | None = None
    face: Face = "all"
    indent: str = "  "
    caption: str = ""
    sums: int = 0


@record
class Section:
    """A part of an answer: what it shows in a sentence, figures of a page, a table, and lines.

    key: its name on a page. points: sentences of a page. figures: functions that each draw one. ahead: lines before the
    table, only in a terminal; beneath: lines below it, also on a page; cut: further lines, only in a terminal. folded:
    whether a page hides the table behind the figure. zoom: whether a page can enlarge its figures. apart: whether a
    terminal prints an empty line before it. detail: its name in the list of what -v adds, if only -v shows it, or where
    spare is positive, also a short answer that fits a screen with it. short: its table without -v;
    least: that table where the short answer is longer than a screen else. asked: whether the user asked for so many
    rows or lines, which a short answer has even if they do not fit a screen
    """

    key: str
    title: str
    lead: str | Callable[[], str] = ""
    figures: Sequence[Callable[[], Draw]] = ()
    ahead: Sequence[Line] = ()
    table: Table | Callable[[], Table] | None = None  # made where it is drawn, if that takes long
    beneath: Sequence[Line] = ()
    cut: Sequence[Line] = ()
    folded: bool = False
    zoom: bool = False
    apart: bool = True
    face: Face = "all"
    detail: str = ""
    spare: int = 0
    short: Table | None = None
    least: Table | None = None
    asked: bool = False
    points: Sequence[Point] = ()


def table_of(section: Section) -> Table | None:
    """The table of a section; the times of a column share one unit."""
    table = section.table if section.table is None or isinstance(section.table, Table) else section.table()
    return None if table is None else _with_one_unit(table)


_FAR = 1000.0  # times the shortest time of a column, from which on each has its own unit


def _with_one_unit(table: Table) -> Table:
    """A table in which the times of each column have the unit of the longest one, unless they lie far apart."""
    units: dict[int, float] = {}
    for place in range(len(table.columns)):
        times = [cell.value for row in table.rows if _is_time(cell := row[place]) and isinstance(cell, Value)]
        known = [time for time in times if time]
        if len({time_unit(time) for time in known}) > 1 and max(known) < _FAR * min(known):
            units[place] = time_unit(max(known))
    if not units:
        return table
    rows = [[_in_unit(cell, units.get(place)) for place, cell in enumerate(row)] for row in table.rows]
    return replace(table, rows=rows)


def _is_time(cell: Cell) -> bool:
    """Whether a cell is a duration in its usual unit."""
    return isinstance(cell, Value) and bool(cell.value) and cell.text == show_time(float(cell.value or 0.0))


def _in_unit(cell: Cell, unit: float | None) -> Cell:
    """A cell with its time in a unit, if it is one."""
    if unit is None or isinstance(cell, str) or not _is_time(cell):
        return cell
    return replace(cell, text=show_time(float(cell.value or 0.0), unit=unit))


@record
class AnswerDocument:
    """One answer.

    head: its subject. conclusion: the main result, for a page. remarks: remarks as lines of a terminal;
    a page uses their codes. closing: the last lines in a terminal. headlines: figures at the head of a page. nodes:
    explained figures, for the traces of a page. problems: reasons against a plan, after the head in a terminal.
    counted: for each remark code, how many of several plans have it
    """

    case: LoadedScenario | None
    title: str
    head: Sequence[Line]
    conclusion: str | Sentence
    verdict: Verdict
    sections: Sequence[Section]
    remarks: Sequence[Line] = ()
    remarked: Sequence[str] = ()
    closing: Sequence[Line] = ()
    headlines: Sequence[Headline] = ()
    nodes: Callable[[], Mapping[str, ExplainedFigure]] = dict
    problems: Sequence[Line] = ()
    counted: Mapping[str, str] = field(default_factory=dict)
