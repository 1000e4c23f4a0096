"""What stands on a page, before it is drawn: numbers, tables, parts and the page itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from costmodel.ground.record import record
from costmodel.report.document import Cell, Headline, Verdict
from costmodel.report.page.marks import SvgFigure


@record
class PageTable:
    """A table of a page; r in `align` aligns right. A table of plans can be sorted and filtered."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    align: str
    caption: str = ""
    sortable: bool = False
    rows_data: str = ""  # the part of a page's data that is about the rows
    figures: Sequence[str] = ()  # by head: the result that each row has there, which opens its trace
    whole: bool = False  # whether the first cell of a row opens all of it


@record
class Part:
    """A section: what it shows in a sentence, its figures, and tables."""

    key: str
    title: str
    lead: str = ""
    figures: Sequence[Callable[[float], SvgFigure]] = ()
    tables: Sequence[PageTable] = ()
    figures_as_table: PageTable | None = None
    zoom: bool = False
    note: str = ""
    notes: Sequence[str] = ()
    sliders: bool = False
    screen_only: bool = False
    plain: str = ""  # text as it is written, such as a document


@record
class HtmlPage:
    """A page: its conclusion first."""

    title: str
    subtitle: Sequence[str]
    conclusion: str
    verdict: Verdict
    headlines: Sequence[Headline]
    parts: Sequence[Part]
    findings: Sequence[tuple[Verdict, str]] = ()
    commands: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
