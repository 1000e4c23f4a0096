"""The table of an answer as Parquet, its columns of kinds that no value changes, so that tables can be stacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costmodel.documents.schemas.results import TRAINING_COLUMNS, machine_name
from costmodel.ground.errors import fail, install_command
from costmodel.report.machine.formats import machine, rows_of
from costmodel.report.terminal.style.answer import Reply

_RESULTS = {machine_name(name) for name in TRAINING_COLUMNS}


def parquet_bytes(reply: Reply) -> bytes:
    """A file of the rows of an answer."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet as files
    except ImportError:
        hint = f"{install_command('pyarrow>=17')}, or take --format csv"
        raise fail("C007", "Parquet needs pyarrow, which is not installed", None, hint) from None
    rows = machine(rows_of(reply))
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: _column(arrow, name, [row.get(name) for row in rows]) for name in names}
    sink = arrow.BufferOutputStream()
    files.write_table(arrow.table(columns), sink)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _column(arrow: Any, name: str, values: Sequence[Any]) -> Any:
    """A column: results are floats, whole numbers stay whole; where kinds differ, or nothing is known, it is text."""
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
