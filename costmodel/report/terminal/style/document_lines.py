"""An answer's document as lines of a terminal, and lines as a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from costmodel.report.document import AnswerDocument, Cell, Column, Section, Table, Verdict, table_of
from costmodel.report.terminal.style.layout import CellTable, Line

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario


def document_lines(document: AnswerDocument) -> list[Line]:
    """Its head, its sections, and how it closes."""
    lines = [*document.head, *document.problems]
    for section in document.sections:
        lines += section_lines(section)
    return [*lines, *document.remarks, *([Text()] if document.closing else []), *document.closing]


def lined_answer(
    title: str, conclusion: str, lines: Sequence[Line], verdict: Verdict = "plain", case: LoadedScenario | None = None
) -> AnswerDocument:
    """Lines as a document: a page has each of their tables, titled by the line above it."""
    sections, above = [Section("lines", "", beneath=lines, face="terminal", apart=False)], list[str]()
    for line in lines:
        if isinstance(line, Text):
            above += [line.plain.strip()] if line.plain.strip() else []
        elif isinstance(line, CellTable):
            heading = above[-1] if above else title
            columns = [Column(name, side) for name, side in zip(line.names, line.align, strict=True)]
            table = Table(columns, line.rows, headed=line.headed)
            sections.append(Section(f"part-{len(sections)}", heading, " ".join(above[:-1]), table=table, face="page"))
            above.clear()
    if above:
        sections.append(Section("remarks", "Remarks", beneath=[Text(words) for words in above], face="page"))
    return AnswerDocument(case, title, [], conclusion, verdict, sections)


def section_lines(section: Section) -> Iterator[Line]:
    """A table with the lines around it."""
    if section.face == "page":
        return
    yield from [Text()] if section.apart else []
    yield from section.ahead
    table = table_of(section)
    if table is not None and table.face != "page":
        yield table_lines(table)
    yield from section.cut
    yield from section.beneath


def table_lines(table: Table) -> CellTable:
    """The columns that a terminal shows; the first of those without room for them goes first."""
    shown = [place for place, column in enumerate(table.columns) if column.face != "page"]
    columns = [table.columns[place] for place in shown]
    rows = [[_text(row[place]) for place in shown] for row in table.rows[: table.most]]
    heads, align = [column.head for column in columns], "".join(column.align for column in columns)
    if table.sums:
        rule = [_rule([row[place] for row in rows], column) for place, column in enumerate(columns)]
        rows.insert(len(rows) - table.sums, rule)
    legend = {column.head: column.legend for column in columns if column.legend}
    return CellTable(heads, rows, align, table.headed, _dropped(columns), table.gap, table.indent, legend=legend)


def _rule(cells: Sequence[str], column: Column) -> str:
    """The line between what is summed and its sums: as long as names and numbers are."""
    return "─" * max(map(len, cells)) if column.align != "l" else ""


def _dropped(columns: Sequence[Column]) -> list[str]:
    return [column.head for column in sorted(columns, key=lambda column: column.drop) if column.drop]


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.text
