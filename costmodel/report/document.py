"""An answer as a document: what it is about, what it comes to, tables and figures. Terminal and page draw the same one.

Sections hold tables whose cells have their exact value, the result that they are of, and the trace that they open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from costmodel.documents.schemas.default_values import SAFE
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.explore.explain.explain import ExplainedFigure
    from costmodel.report.page.marks import SvgFigure
    from costmodel.report.terminal.style.layout import Line

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
        """The place of the trace of a result, if it has one."""

    def add(
        self, title: str, text: str, how: str | tuple[str, str, str] = "", inner: Iterable[int] = (), place: str = ""
    ) -> int:
        """Add a trace: its title and value, its formula and inputs, and where it is written."""


@record
class Value:
    """A figure in words, with its exact value for programs, and the trace that it opens on a page.

    link: of a text without a value, the page that it is from
    """

    text: str
    value: float | None = None
    name: str = ""
    trace: int | None = None
    opens: Callable[[TraceWriter], int | None] | None = None  # writes that trace, where the table is drawn on a page
    link: str = ""


Cell = str | Value


@record
class Headline:
    """One of the numbers at the head of a page."""

    label: str
    value: Cell
    note: str = ""
    verdict: Verdict = "plain"


def explained(text: str, value: float | None, name: str, line: str) -> Cell:
    """A figure that opens the command which explains it; plain text if it has no value.

    name: of the result, without its unit. line: the command
    """
    if value is None or not math.isfinite(value):
        return text
    return Value(text, value, opens=lambda traces: traces.add(name, text, f"{line} prints how it was made"))


def traced(text: str, value: float, name: str, trace: str = "") -> Cell:
    """A figure that opens its trace, if the page has one; plain text if it has no value.

    name: of the result, without its unit. trace: what its trace is called, where that is not its name
    """
    return Value(text, value, name, opens=lambda traces: traces.of(trace or name)) if math.isfinite(value) else text


def made_of(title: str, text: str, value: float, how: str, names: Sequence[str]) -> Cell:
    """A figure computed from others, which opens a trace if all of them have one.

    how: in words, or what stands between the others
    """

    def opens(traces: TraceWriter) -> int | None:
        inner = [place for place in map(traces.of, names) if place is not None]
        stated = ("= ", how, "") if how.startswith(" ") else how
        return traces.add(title, text, stated, inner) if len(inner) == len(names) else None

    return Value(text, value, opens=opens) if math.isfinite(value) else text


@record
class Column:
    """A column of a table.

    align: r stands right, l may wrap, k never wraps. result: that of its cells, whose trace each row opens. drop: the
    order in which columns go where a terminal has no room; 0 stays. legend: what it is of, beneath the table where the
    column is shown
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

    settings: what makes the scenario that of each row, for the commands that a page shows. data: in their place all
    that a page has of each row. whole: whether the first cell of a row opens all of it. most: rows in a terminal.
    brief: rows of a short answer; rest: what -v calls the others. sums: rows at the end that are sums of those above
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

    key: its name on a page. figures: each makes one. ahead: lines ahead of the table, in a terminal alone; beneath:
    lines beneath it, on a page too; cut: further ones in a terminal alone. folded: whether the table stands behind the
    figure on a page. zoom: whether its figures can be enlarged there. apart: whether an empty line stands ahead of it
    in a terminal. detail: what -v adds, of a section that a short answer does not have. short: its table there
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
    short: Table | None = None


def table_of(section: Section) -> Table | None:
    """The table of a section."""
    return section.table if section.table is None or isinstance(section.table, Table) else section.table()


@record
class AnswerDocument:
    """One answer.

    head: its subject. conclusion: the main result in a sentence, for a page. remarks: in a terminal, those that a page
    has by their codes. closing: the last lines of a terminal. headlines: figures at the head of a page. nodes: how
    figures were computed, for the traces of a page. problems: what speaks against it, behind the head in a terminal.
    counted: by code, on how many of several plans a remark is
    """

    case: LoadedScenario | None
    title: str
    head: Sequence[Line]
    conclusion: str
    verdict: Verdict
    sections: Sequence[Section]
    remarks: Sequence[Line] = ()
    remarked: Sequence[str] = ()
    closing: Sequence[Line] = ()
    headlines: Sequence[Headline] = ()
    nodes: Callable[[], Mapping[str, ExplainedFigure]] = dict
    problems: Sequence[Line] = ()
    counted: Mapping[str, str] = field(default_factory=dict)
