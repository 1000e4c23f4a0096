"""The labels that a command really prints: heads of columns, the first cell of every row, the words of a plan, and what
stands alone before two blanks.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from costmodel.report.terminal.layout import CellTable

# Heads of columns whose cells are values: places, sizes, runs, and what figures are gathered by.
OF_VALUES = {"#", "ranks", "run", "furthest off", "source", "gpu", "model", "rate"}
ALONE = re.compile(r"^ {2,4}([A-Za-z][\w -]*?) {2,}\S")
_VALUE = re.compile(r"[-+~▲✓✗─·\d.,]*( %)?")


def labels_of_grid(grid: CellTable) -> Iterator[str]:
    """The labels of one table."""
    yield from grid.names if grid.headed else ()
    head = grid.names[0] if grid.headed else ""
    if head not in OF_VALUES and "." not in head:
        yield from (row[0] for row in grid.rows)
    if not grid.headed and len(grid.names) > 3 and not any(grid.names):  # facts, two to a line
        yield from (row[2] for row in grid.rows)
    for name in ("path", "name"):
        if name in grid.names:
            yield from (row[list(grid.names).index(name)] for row in grid.rows)


def _of_plan(line: str) -> Iterator[str]:
    """The words of a plan such as "tp 4 · dp 8 · recompute none"."""
    if line.startswith("tp "):
        yield from (part.split(" ")[0] for part in line.split(" · "))


def printed(run: Any, command: str) -> tuple[str, list[CellTable]]:
    """What a command prints, and the tables that it draws."""
    grids: list[CellTable] = []
    drawn = CellTable.lines

    def watched(self: CellTable, width: int | None = None) -> Any:
        grids.append(self)
        return drawn(self, width)

    with pytest.MonkeyPatch.context() as patch:  # of how a table is drawn, which changes no cached reply
        patch.setattr(CellTable, "lines", watched)
        ran = run(*shlex.split(command))
    assert ran.code in (0, 1), ran.err
    return ran.out, grids


def labels_of(run: Any, command: str) -> set[str]:
    """Every label that a command prints."""
    out, grids = printed(run, command)
    found = {label for grid in grids for label in labels_of_grid(grid)}
    tables = {line.plain for grid in grids for line in grid.lines(None)}
    for line in out.splitlines():
        if line not in tables:
            found |= {match[1]} if (match := ALONE.match(line)) else set()
            found.update(_of_plan(line))
    return {label.strip() for label in found if not _VALUE.fullmatch(label.strip())}
