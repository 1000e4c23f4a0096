"""Measured figures beside their predictions, what they are gathered by, and the rows of tables that are selected."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace

from costmodel.documents.reader.cached_reader import CachedReader, accelerator_named
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.measurement import MeasuredTable
from costmodel.equations.run.economics import share
from costmodel.evidence.validate.outcomes import FITS
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.run_table import Table
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

GROUPINGS = (
    *("source", "source_family", "gpu", "accelerator", "model", "precision", "framework", "arch", "reason"),
    *("maker", "stack", "layer_kind"),
)
UNKNOWN = "unknown"
_SHOWN = 8
_ROUNDING = 1e-9  # of a sum of shares
Where = Mapping[str, Sequence[str]]


@record
class Compared:
    """One measured figure with its prediction, or the reason why there is none."""

    run: str
    quantity: str
    measured: float | None
    predicted: float | None
    tolerance: float | None = None
    low: float | None = None
    high: float | None = None
    called_fit: bool | None = None
    fit_chance: float | None = None
    refused: str | None = None
    why: str = ""
    filled: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    subject: CsvRow | LoadedScenario | None = field(default=None, repr=False, compare=False)
    parts: Mapping[str, float] = field(default_factory=dict, repr=False)  # of a predicted time, the share of each term

    def without(self, terms: Collection[str]) -> Compared:
        """A copy predicted without these terms of a step; nothing is fitted again."""
        left = 1.0 - sum(self.parts.get(name, 0.0) for name in terms)
        if left <= _ROUNDING:
            named = ", ".join(terms)
            raise fail("C005", f"{self.run} has no other terms than {named}", Place("command line"), "leave fewer out")
        scale = left if self.quantity == "step_time" else 1.0 / left
        scaled = (None if value is None else value * scale for value in (self.predicted, self.low, self.high))
        predicted, low, high = scaled
        return replace(self, predicted=predicted, low=low, high=high)

    @property
    def error(self) -> float | None:
        """Predicted over measured, less one; for yes or no, the difference. None for a row that is not modelled."""
        if self.measured is None or self.predicted is None:
            return None
        if self.quantity == FITS:
            return self.predicted - self.measured
        return float(share(self.predicted, self.measured)) - 1

    @property
    def within(self) -> bool:
        """Whether the error is within the document's tolerance; never for a refused run."""
        return self.tolerance is None or (self.error is not None and abs(self.error) <= self.tolerance)


@record
class Validated:
    """The figures of one table (a document or a CSV file), with the rules that fill its empty cells."""

    table: MeasuredTable | Table
    figures: list[Compared]
    rules: Mapping[str, str] = field(default_factory=dict)


def meant(where: Where, tables: Sequence[MeasuredTable | Table]) -> Where:
    """The columns of a selection, as the tables spell them; a fault where no table has one."""
    known = sorted({column for table in tables for column in _columns(table)})
    found = {column: column if column in known else column.lower() for column in where}
    for column, name in found.items():
        if name not in known:
            raise fail("C005", f"no table has a column '{column}'", Place("command line"), f"known: {', '.join(known)}")
    return {found[column]: values for column, values in where.items()}


def nothing_chosen(where: Where, tables: Sequence[MeasuredTable | Table], shelf: CachedReader) -> CostModelError:
    """The fault for a selection without runs, with the values that the first unmatched column does hold."""
    chosen = ", ".join(f"{column}={value}" for column, values in where.items() for value in values)
    rows = [row for table in tables if isinstance(table, Table) for row in table.rows]
    hint = "validate --by shows what a column holds"
    for column, values in where.items() if rows else ():
        held = list(dict.fromkeys(_cells(row, shelf)(column) or "nothing" for row in rows))
        if not any(_same(cell, value) for cell in held for value in values):
            hint = f"{column} is {', '.join(held[:_SHOWN])}{' and more' if len(held) > _SHOWN else ''}"
            break
    return fail("C005", f"no run has {chosen}", Place("command line"), hint)


def _columns(table: MeasuredTable | Table) -> Sequence[str]:
    return (*table.columns, *GROUPINGS[:-1]) if isinstance(table, Table) else GROUPINGS[:-1]


def groups_of_row(row: CsvRow, reason: str, shelf: CachedReader) -> dict[str, str]:
    """The columns by which results can be grouped, with the value of a row in each."""
    named = {
        "model": row.text("model_name") or row.text("model"),
        "gpu": row.text("gpu"),
        "accelerator": row.text("accelerator"),
    }
    named["gpu"] = named["gpu"] or named["accelerator"]
    named["accelerator"] = named["accelerator"] or accelerator_named(named["gpu"], shelf=shelf)
    part = named["accelerator"]
    named["maker"] = shelf.document("accelerator", part).vendor if part and shelf.has("accelerator", part) else ""
    named["source_family"] = row.text("source_family") or row.text("source")
    named["arch"] = row.text("arch") or ("moe" if row.number("n_experts") else "dense")
    named["framework"] = row.text("framework") or row.text("engine")
    named["reason"] = reason
    return {grouping: named.get(grouping, row.text(grouping)) or UNKNOWN for grouping in GROUPINGS}


def chosen_rows(table: Table, where: Where, shelf: CachedReader) -> list[CsvRow]:
    """The rows of a table that match the selection in every column."""
    if not where:
        return list(table.rows)
    return [row for row in table.rows if chosen(_cells(row, shelf), where)]


def _cells(row: CsvRow, shelf: CachedReader) -> Callable[[str], str | None]:
    groups = groups_of_row(row, "", shelf)
    return lambda column: groups.get(column, row.written.get(column))


def chosen(cell: Callable[[str], str | None], where: Where) -> bool:
    """Whether every column holds one of the requested values, as text or as a number."""
    return all(any(_same(cell(column), value) for value in values) for column, values in where.items())


def _same(cell: str | None, value: str) -> bool:
    if cell == value or cell is None:
        return cell == value
    try:
        return float(cell) == float(value)
    except ValueError:
        return False
