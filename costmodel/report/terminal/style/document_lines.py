"""An answer's document as lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from costmodel.report.document import AnswerDocument, Cell, Column, Section, Table, table_of
from costmodel.report.terminal.style.layout import CellTable, Line


def document_lines(document: AnswerDocument) -> list[Line]:
    """Its head, its sections, and how it closes."""
    lines = [*document.head, *document.problems]
    for section in document.sections:
        lines += section_lines(section)
    return [*lines, *document.remarks, *([Text()] if document.closing else []), *document.closing]


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
