"""The document of an answer as lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.text import Text

from costmodel.ground.counts import number_of
from costmodel.report.document import AnswerDocument, Cell, Column, Section, Table, table_of
from costmodel.report.terminal.layout import MORE, CellTable, Detail, Line, short_or_full


def document_lines(document: AnswerDocument) -> list[Line]:
    """The lines of a document: its head, its sections, and its closing."""
    lines = [*document.head, *document.problems]
    for section in document.sections:
        made = [*section_lines(section)]
        made = [Detail(made, section.detail, spare=section.spare)] if section.detail and made else made
        lines += [Detail(made, asked=True)] if section.asked else made
    return [*lines, *document.remarks, MORE, *([Text()] if document.closing else []), *document.closing]


def section_lines(section: Section) -> Iterator[Line]:
    """A table with the lines around it."""
    if section.face == "page":
        return
    yield from [Text()] if section.apart else []
    yield from section.ahead
    table = table_of(section)
    if table is not None and table.face != "page":
        yield from table_lines(table, section.short, section.least)
    yield from section.cut
    yield from section.beneath


def table_lines(table: Table, short: Table | None = None, least: Table | None = None) -> list[Line]:
    """A table; a short answer has another table or only its first rows, and the least one if it exceeds a screen."""
    if least is not None:
        usual = table_lines(table if short is None else short)
        few = replace(cell_table(least, None), rest="row")
        spared: list[Line] = [Detail(usual, least.rest, spare=4, instead=[few])]
        return spared if short is None else short_or_full(spared, [cell_table(table, table.most)], table.rest)
    count = len(table.rows[: table.most])
    if short is not None:
        hidden = count - len(short.rows)
        counted = table.rest == number_of(hidden, short.rest)
        noun = "row" if short.rest == table.rest else short.rest
        brief = replace(cell_table(short, short.most), hidden=hidden if counted else 0, rest=noun)
        return short_or_full([brief], [cell_table(table, table.most)], table.rest)
    if table.brief is None or count <= table.brief:
        return [cell_table(table, table.most)]
    words = number_of(count - table.brief, table.rest)
    shown = [replace(cell_table(table, table.brief), hidden=count - table.brief)] if table.brief else []
    return short_or_full(shown, [cell_table(table, table.most)], words)


def cell_table(table: Table, most: int | None) -> CellTable:
    """The table for a terminal, without columns that only pages show."""
    filled = [column.head or any(_cell_text(row[place]) for row in table.rows[:most])
              for place, column in enumerate(table.columns)]  # fmt: skip
    shown = [place for place, column in enumerate(table.columns) if column.face != "page" and filled[place]]
    columns = [table.columns[place] for place in shown]
    rows = [[_cell_text(row[place]) for place in shown] for row in table.rows[:most]]
    heads, align = [column.head for column in columns], "".join(column.align for column in columns)
    if table.sums:
        rule = [_line_above_sums([row[place] for row in rows], column) for place, column in enumerate(columns)]
        rows.insert(len(rows) - table.sums, rule)
    legend = {column.head: column.legend for column in columns if column.legend}
    return CellTable(
        heads, rows, align, table.headed, _dropped_heads(columns), table.gap, table.indent,
        legend=legend, rest=table.rest, sums=table.sums and table.sums + 1,
    )  # fmt: skip


def _line_above_sums(cells: Sequence[str], column: Column) -> str:
    """The line between the summed rows and their sums, as long as names and numbers are."""
    return "─" * max(map(len, cells)) if column.align != "l" else ""


def _dropped_heads(columns: Sequence[Column]) -> list[str]:
    return [column.head for column in sorted(columns, key=lambda column: column.drop) if column.drop]


def _cell_text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.text
