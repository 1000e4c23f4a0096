"""An answer's document as a page."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.report.document import AnswerDocument, Draw, Section, Table, table_of
from costmodel.report.page.content import HtmlPage, PageTable, Part, remark_findings
from costmodel.report.page.trace import Traces, opened, traced_roots
from costmodel.report.terminal.style.head import around
from costmodel.report.terminal.style.layout import Line, of_length

# Rows of a table that are other plans than the page's own: the commands that print how their figures were made.


def row_commands(case: LoadedScenario, settings: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    """Parts of the commands that a page's script writes: the scenario, and the settings of each row."""
    found = [around(case, "explain", each) for each in settings]
    named = found[0][0] if found else []
    return {"scenario": shlex.join(named), "settings": [shlex.join(options) for _, options in found]}


def settings_of(stated: Iterable[str]) -> dict[str, str]:
    """Settings as `path=value`, by their path."""
    return {path: value for path, _, value in (setting.partition("=") for setting in stated)}


def document_page(document: AnswerDocument, commands: Sequence[str]) -> HtmlPage:
    """A document as a page: the conclusion first, then the sections."""
    traces, shown = (
        Traces(traced_roots(document.nodes)),
        [section for section in document.sections if section.face != "terminal"],
    )
    parts = [section_part(section, traces) for section in shown]
    data = {key: value for section in shown for key, value in section_data(section, document.case, traces).items()}
    headlines = [replace(each, value=opened(each.value, traces)) for each in document.headlines]
    data |= {"trace": made} if (made := traces.data())["nodes"] else {}
    about = [words for words in plain_words(document.head) if words not in (document.title, document.conclusion)]
    findings = list(remark_findings(document.remarked, document.counted))
    return HtmlPage(
        document.title, about, document.conclusion, document.verdict, headlines, parts, findings, commands, data
    )


def document_figure(document: AnswerDocument) -> Draw | None:
    """The first figure of a document."""
    return next((make() for section in document.sections for make in section.figures), None)


def section_part(section: Section, traces: Traces) -> Part:
    """A section as a part of a page, with the traces of its cells."""
    held = table_of(section)
    table = None if held is None else _page_table(held, traces, section.key)
    return Part(
        section.key,
        section.title,
        section.lead if isinstance(section.lead, str) else section.lead(),
        [make() for make in section.figures],
        tables=[table] if table is not None and not section.folded else [],
        figures_as_table=table if section.folded else None,
        zoom=section.zoom,
        notes=[*_legends(held), *plain_words(section.beneath)],
    )


def section_data(section: Section, case: LoadedScenario | None, traces: Traces) -> dict[str, Any]:
    """Data of a section's table for the script of a page: all of its rows, or the commands that explain them."""
    table = table_of(section)
    if table is not None and table.data is not None:
        return {_rows_of(section.key): table.data(traces)}
    if table is None or not table.settings or case is None:
        return {}
    return {_rows_of(section.key): row_commands(case, table.settings)}


def _has_data(table: Table) -> bool:
    return bool(table.settings) or table.data is not None


def _page_table(table: Table, traces: Traces, key: str) -> PageTable:
    shown = [place for place, column in enumerate(table.columns) if column.face != "terminal"]
    columns = [table.columns[place] for place in shown]
    rows = [[opened(row[place], traces) for place in shown] for row in table.rows]
    return PageTable(
        [column.head for column in columns],
        rows,
        "".join("r" if column.align == "r" else "l" for column in columns),
        table.caption,
        sortable=table.sortable,
        rows_data=_rows_of(key) if _has_data(table) else "",
        figures=[column.result for column in columns] if _has_data(table) else (),
        whole=table.whole,
    )


def _legends(table: Table | None) -> Iterator[str]:
    """The legends of a table's columns."""
    for column in () if table is None else table.columns:
        if column.legend:
            yield f"{column.head}: {column.legend}"


def _rows_of(key: str) -> str:
    return f"{key}-rows"


def plain_words(lines: Iterable[Line]) -> Iterator[str]:
    """Lines as plain text."""
    return (line.plain.strip() for line in of_length(lines) if isinstance(line, Text) and line.plain.strip())
