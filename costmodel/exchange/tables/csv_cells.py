"""Reads CSV tables cell by cell: each with its value, its place, and a fault if it is invalid."""

from __future__ import annotations

import csv
import functools
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from costmodel.documents.reader.folders import is_near, place_in
from costmodel.ground.errors import Fault, Place, fail, quoted_value
from costmodel.ground.record import record

Kind = Literal["text", "count", "whole", "number", "flag"]


@record
class Column:
    """The kind of value in a column, such as text, a count or a flag, and its meaning."""

    kind: Kind
    meaning: str


_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_FLAGS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False, "1.0": True, "0.0": False}
_UNKNOWN = ("n/a", "na", "null", "-", "?")  # as programs and people write an empty cell
_LARGEST = 1e18
_TOO_MANY, _TOO_FEW = "put a cell with a comma in quotes", "an empty cell still has its comma"
_QUOTES = "put quotes around the whole cell, and write a quote inside it twice"
_WANTED = {"count": "a whole number from 1", "whole": "a whole number from 0", "number": "a number above 0"}


@record
class CsvRow:
    """One row: its cells as written, the parsed values of known columns, and a fault for each unreadable cell."""

    place: Place
    written: Mapping[str, str]
    cells: Mapping[str, float | bool]
    faults: tuple[Fault, ...] = ()

    @property
    def id(self) -> str:
        """The name of the row, or else file and line."""
        return self.text("id") or f"{Path(self.place.file).stem}:{self.place.line}"

    def text(self, name: str) -> str:
        """A cell as it was written; empty when unknown."""
        return self.written.get(name, "")

    def number(self, name: str) -> float | None:
        """The value of a numeric cell; None if unknown."""
        return self.cells.get(name)

    def flag(self, name: str) -> bool | None:
        """The value of a flag cell; None if unknown."""
        value = self.cells.get(name)
        return None if value is None else bool(value)


@record
class Sheet:
    """A table as written: its column names, and its records with their places."""

    place: Place
    names: list[str]
    records: Iterator[tuple[Place, list[str]]]


def hint_for_log(place: Place, otherwise: str) -> str:
    """The hint for a log that was given instead of a table; any other text gets the hint `otherwise`.

    >>> hint_for_log(Place("run.log", text=" iteration 10/ 100 | elapsed time"), "")
    'of a log, costmodel import run.log --as runs -o runs.csv makes a table'
    """
    is_log = place.text.startswith("{") or re.search(r"\b(?:iteration|step)\b", place.text) is not None
    return f"of a log, costmodel import {place.file} --as runs -o runs.csv makes a table" if is_log else otherwise


def read_sheet(path: str, text: str, known: Collection[str]) -> Sheet:
    """The table in a text; column names match known ones regardless of capital letters."""
    lines = list(io.StringIO(text, newline=""))
    found = _records(path, text)
    start, header = next(found, (1, []))
    private = not is_near(path)

    def place(line: int) -> Place:
        return Place(path, line, 1, text=lines[line - 1].rstrip("\r\n") if lines else "", private=private)

    names = [name.lower() if name.lower() in known else name for name in header]
    return Sheet(place(start), names, ((place(line), record) for line, record in found))


def _records(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Every non-empty record, with the number of its first line."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, ["" if (stated := cell.strip()).lower() in _UNKNOWN else stated for cell in cells]
            line = reader.line_num + 1
    except csv.Error as error:
        sentence = f"this is not a table of cells between commas: {error}"
        raise fail("D014", sentence, place_in(path, line, 1), _QUOTES) from None


def row_of(place: Place, names: list[str], record: list[str], columns: Mapping[str, Column]) -> CsvRow:
    """The row for a record, with its values checked."""
    if len(record) != len(names):
        sentence = f"this row has {len(record)} cells and the header {len(names)}"
        hint = _TOO_MANY if len(record) > len(names) else _TOO_FEW
        return CsvRow(place, {}, {}, (Fault("D014", sentence, place, hint),))
    cells: dict[str, float | bool] = {}
    faults = []
    for index, (name, written) in enumerate(zip(names, record, strict=True)):
        column = columns.get(name)
        if column is None or column.kind == "text" or not written:
            continue
        value = _value(column.kind, written)
        if isinstance(value, Fault):
            faults.append(Fault(value.code, value.sentence, cell_at(place, index, name), value.hint, ours=name))
        else:
            cells[name] = value
    return CsvRow(place, dict(zip(names, record, strict=True)), cells, tuple(faults))


def row_texts(row: Mapping[str, object], names: Collection[str]) -> list[str]:
    """The cells of a row in the order of the columns; empty for unknown values.

    >>> row_texts({"tp": 8, "fsdp": True}, ["tp", "pp", "fsdp"])
    ['8', '', 'true']
    """
    found = (row.get(name) for name in names)
    return ["" if value is None else str(value).lower() if isinstance(value, bool) else str(value) for value in found]


def cell_words(fault: Fault) -> str:
    """The problem with a cell, preceded by its column name if the place states one.

    >>> cell_words(Fault("D006", "a whole number is expected here", Place("runs.csv", 2, 5, "prompt")))
    'prompt: a whole number is expected here'
    """
    column = fault.place.path if fault.place is not None else ""
    return f"{column}: {fault.sentence}" if column else fault.sentence


def repeated_column_faults(place: Place, names: list[str]) -> list[Fault]:
    """A fault for every column name that occurs twice, at its last occurrence."""
    last = {name: index for index, name in enumerate(names)}
    twice = sorted(name for name, count in Counter(names).items() if name and count > 1)
    return [Fault("D005", f"the column '{name}' occurs twice", cell_at(place, last[name])) for name in twice]


def _value(kind: Kind, written: str) -> float | bool | Fault:
    """The value of a cell, or a fault without a place."""
    unknown = "leave the cell empty where nothing is known"
    if kind == "flag":
        flag = _FLAGS.get(written.lower())
        return (
            Fault("D006", f"true or false is expected here, not {quoted_value(written)}", None, unknown)
            if flag is None
            else flag
        )
    if not _NUMBER.fullmatch(written):
        return Fault("D006", f"{_WANTED[kind]} is expected here, not {quoted_value(written)}", None, unknown)
    number = float(written)
    whole = kind == "number" or number.is_integer()
    if number > _LARGEST:
        most = f"{_LARGEST:g}".replace("+", "")
        return Fault("D008", f"{quoted_value(written)} is out of range: at most {most} is expected here")
    if not whole or number < (0 if kind == "whole" else 1 if kind == "count" else 1 / _LARGEST):
        return Fault("D008", f"{quoted_value(written)} is out of range: {_WANTED[kind]} is expected here")
    return number


def cell_at(place: Place, index: int, name: str = "") -> Place:
    """The place of a cell in a line; the whole line if the record continues on the next line."""
    starts = _cell_starts(place.text)
    if index >= len(starts):
        return replace(place, column=1, path=name, text="", width=1)
    end = starts[index + 1] - 1 if index + 1 < len(starts) else len(place.text)
    return replace(place, column=starts[index] + 1, path=name, width=max(1, end - starts[index]))


@functools.lru_cache(maxsize=8)
def _cell_starts(line: str) -> list[int]:
    """The start positions of the cells in a line."""
    starts, quoted = [0], False
    for position, letter in enumerate(line):
        if letter == '"':
            quoted = not quoted
        elif letter == "," and not quoted:
            starts.append(position + 1)
    return starts
