"""The table of an answer as an Excel workbook or a Parquet file.

Text never becomes a formula, and the types of Parquet columns do not depend on values, so that tables can be stacked.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from costmodel.documents.schemas.results import TRAINING_COLUMNS, machine_name
from costmodel.ground.errors import fail, install_command
from costmodel.report.data_formats.json_csv_markdown import json_value, table_rows
from costmodel.report.terminal.layout import Reply

_RESULTS = {machine_name(name) for name in TRAINING_COLUMNS}  # columns of floats in Parquet
_WIDEST, _LONGEST, _SHEET = 40, 32_000, 31
_ABOUT = ("assumed", "columns", "documents", "refused", "notes")  # lists of an answer with a sheet of their own


def xlsx_bytes(reply: Reply) -> bytes:
    """A workbook: the table first, then what the answer is about, what was assumed, and what columns mean."""
    try:
        import openpyxl
    except ImportError:
        hint = f"{install_command('openpyxl>=3.1')}, or take --format csv"
        raise fail("C007", "Excel needs openpyxl, which is not installed", None, hint) from None
    result = json_value(reply.result())
    book = openpyxl.Workbook(write_only=False)
    book.remove(book.active)
    _add_sheet(book, reply.rows.rpartition(".")[2] or "answer", json_value(table_rows(reply)) if reply.rows else [])
    _add_sheet(book, "about", [{"name": name, "value": value} for name, value in _flat_facts(result)])
    for name in _ABOUT:
        rows = result.get(name)
        if isinstance(rows, list) and rows and name != reply.rows:
            _add_sheet(book, name, [row for row in rows if isinstance(row, Mapping)])
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


def _flat_facts(result: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """The values of an answer that are not in lists."""
    for name, value in result.items():
        if isinstance(value, Mapping):
            yield from (
                (f"{name}.{key}", inner) for key, inner in value.items() if not isinstance(inner, list | Mapping)
            )
        elif not isinstance(value, list):
            yield name, value


def _add_sheet(book: Any, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add a sheet with a fixed head row and columns as wide as their content."""
    sheet = book.create_sheet(name[:_SHEET])
    heads = list(dict.fromkeys(key for row in rows for key in row))
    for place, head in enumerate(heads, 1):
        _write_cell(sheet.cell(1, place), head)
        widest = max([len(head), *(len(str(row.get(head, ""))) for row in rows[:200])])
        sheet.column_dimensions[sheet.cell(1, place).column_letter].width = min(widest + 2, _WIDEST)
    for line, row in enumerate(rows, 2):
        for place, head in enumerate(heads, 1):
            _write_cell(sheet.cell(line, place), row.get(head))
    sheet.freeze_panes = "A2"
    if rows:
        sheet.auto_filter.ref = sheet.dimensions


def _write_cell(cell: Any, value: Any) -> None:
    """A value into a cell: text stays text whatever it begins with."""
    if isinstance(value, bool | int | float) or value is None:
        cell.value = value
        return
    cell.value = (value if isinstance(value, str) else _list_text(value))[:_LONGEST]
    cell.data_type = "s"


def _list_text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def parquet_bytes(reply: Reply) -> bytes:
    """A file of the rows of an answer."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet as files
    except ImportError:
        hint = f"{install_command('pyarrow>=17')}, or take --format csv"
        raise fail("C007", "Parquet needs pyarrow, which is not installed", None, hint) from None
    rows = json_value(table_rows(reply))
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: _parquet_column(arrow, name, [row.get(name) for row in rows]) for name in names}
    sink = arrow.BufferOutputStream()
    files.write_table(arrow.table(columns), sink)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _parquet_column(arrow: Any, name: str, values: Sequence[Any]) -> Any:
    """A Parquet column: results are floats, whole numbers are integers; mixed or unknown values are text."""
    kinds = {type(value) for value in values if value is not None}
    if name in _RESULTS or kinds == {int, float} or kinds == {float}:
        return arrow.array(values, arrow.float64())
    if kinds == {int}:
        return arrow.array(values, arrow.int64())
    if kinds == {bool}:
        return arrow.array(values, arrow.bool_())
    if kinds == {list}:
        return arrow.array([list(map(str, value or ())) for value in values], arrow.list_(arrow.string()))
    return arrow.array([None if value is None else str(value) for value in values], arrow.string())
