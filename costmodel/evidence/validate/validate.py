"""Compares predicted with measured figures, one by one and in total."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import get_args

import numpy as np

from costmodel.documents.reader.accelerator_aliases import accelerator_named
from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.resolved_scenario import ResolvedScenario, cases
from costmodel.documents.schemas.measurement import MeasuredTable
from costmodel.equations.run.economics import share
from costmodel.estimate.evaluate.predict import Answer, predict
from costmodel.evidence.validate.alternatives import outcome_over
from costmodel.evidence.validate.outcomes import (
    FITS,
    TOTALS,
    Quantity,
    ServingQuantity,
    measured,
    memory_total,
    quantity_of,
    stated,
)
from costmodel.evidence.validate.rows import modelled
from costmodel.evidence.validate.skip_reasons import CannotModel, invalid
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.kernel_table import read_measured
from costmodel.exchange.tables.run_table import Table
from costmodel.exchange.tables.serving_table import ServingTable
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

DOCUMENTED: dict[Quantity, tuple[str, ...]] = {"time": ("step_time", "flop_rate"), "memory": tuple(TOTALS)}
TABLES = (".csv", ".txt", ".log")  # files that are no documents: tables, and logs of engines
GROUPINGS = ("source", "source_family", "gpu", "accelerator", "model", "precision", "framework", "arch", "reason")
UNKNOWN = "unknown"
_SHOWN = 8
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
    subject: CsvRow | ResolvedScenario | None = field(default=None, repr=False, compare=False)

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
class Score:
    """The errors of some figures in total; rows have equal weight, percentiles are linear."""

    rows: int
    modelled: int
    median_error: float | None
    p90_error: float | None
    bias: float | None
    inside_band: float | None


@record
class Outcomes:
    """For runs that did or did not fit in memory: how many, wrong predictions, and the mean predicted chance to fit."""

    fit: int
    called_unfit: int
    unfit: int
    called_fit: int
    chance_of_fit: float | None
    chance_of_unfit: float | None


@record
class Validated:
    """The figures of one table: a document, or a CSV file."""

    table: MeasuredTable | Table
    figures: list[Compared]


def compared(table: MeasuredTable, quantity: Quantity, accelerator: str = "") -> Iterator[Compared]:
    """Every measured figure of that quantity in a document beside our prediction; of one accelerator where named."""
    for run, case in cases(table):
        if accelerator not in ("", case.accelerator.name):
            continue
        shown = {name: value for name in DOCUMENTED[quantity] if (value := getattr(run.measured, name)) is not None}
        if not shown:
            continue
        found = predict(case)
        left = invalid(found.refused[0]) if found.refused else None
        groups = _groups_of_case(table, case, left.code if left else "modelled")
        for name, value in shown.items():
            tolerance = getattr(table.tolerance, name)
            if left:
                yield Compared(
                    run.name, name, value, None, tolerance, refused=left.code, why=left.why, groups=groups, subject=case
                )
                continue
            ours, low, high = memory_total(found, name) if quantity == "memory" else _with_ends(found, name)
            yield Compared(run.name, name, value, ours, tolerance, low, high, groups=groups, subject=case)


def _with_ends(found: Answer, name: str) -> tuple[float, float, float]:
    """A column of a plan with its P10 and P90."""
    costs = found.evaluation.costs.row()
    return costs[name], costs[f"{name}_low"], costs[f"{name}_high"]


def _groups_of_case(table: MeasuredTable, case: ResolvedScenario, reason: str) -> dict[str, str]:
    found = (table.source.key, table.name, case.accelerator.name, case.accelerator.name, case.model.name)
    kind = "moe" if any(layers.experts for layers in case.model.layers) else "dense"
    groups = (*found, case.scenario.workload.precision, case.stack.name, kind, reason)
    return dict(zip(GROUPINGS, groups, strict=True))


def compared_row(row: CsvRow, quantity: Quantity, shelf: CachedReader) -> Compared:
    """One row of a table with its prediction, or the reason why there is none."""
    try:
        stated(row, quantity)
        model = modelled(row, shelf)
        found = outcome_over(row, model, quantity, shelf)
    except CannotModel as refused:
        groups = groups_of_row(row, refused.code, shelf)
        name, value = measured(row, quantity)
        return Compared(row.id, name, value, None, refused=refused.code, why=refused.why, groups=groups, subject=row)
    groups = groups_of_row(row, "modelled", shelf)
    return Compared(
        row.id,
        found.quantity,
        found.measured,
        found.predicted,
        low=found.low,
        high=found.high,
        called_fit=found.called_fit,
        fit_chance=found.fit_chance,
        filled=model.filled,
        groups=groups,
        subject=row,
    )


def groups_of_row(row: CsvRow, reason: str, shelf: CachedReader) -> dict[str, str]:
    """What a row can be gathered by."""
    named = {
        "model": row.text("model_name") or row.text("model"),
        "gpu": row.text("gpu"),
        "accelerator": row.text("accelerator"),
    }
    named["gpu"] = named["gpu"] or named["accelerator"]
    named["accelerator"] = named["accelerator"] or accelerator_named(named["gpu"], shelf=shelf)
    named["source_family"] = row.text("source_family") or row.text("source")
    named["arch"] = row.text("arch") or ("moe" if row.number("n_experts") else "dense")
    named["framework"] = row.text("framework") or row.text("engine")
    named["reason"] = reason
    return {grouping: named.get(grouping, row.text(grouping)) or UNKNOWN for grouping in GROUPINGS}


def validated(
    tables: Sequence[str] | None = None, *, quantity: Quantity | None = None, where: Where | None = None
) -> list[Validated]:
    """Every table named, or every document found, with its figures beside the predictions."""
    asked: list[MeasuredTable | Table] = [
        read_measured(name) if name == "-" or name.lower().endswith(TABLES) else read("measured", name)
        for name in tables or names("measured")
    ]
    shelf, where = CachedReader(), meant(where or {}, asked)
    found = [_validated(table, quantity, where, shelf) for table in asked]
    if where and not any(part.figures for part in found):
        raise nothing_chosen(where, asked, shelf)
    return found


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


def _validated(table: MeasuredTable | Table, quantity: Quantity | None, where: Where, shelf: CachedReader) -> Validated:
    if isinstance(table, ServingTable):
        from costmodel.evidence.validate.serving.compare_rows import compared_serving

        return compared_serving(table, quantity, where, shelf)
    if quantity in get_args(ServingQuantity):
        name, hint = table.name if isinstance(table, MeasuredTable) else table.file, "time, memory or regret"
        raise fail("C005", f"{name} is about training, and has no {quantity}", Place("command line"), hint)
    if isinstance(table, MeasuredTable):
        asked = quantity or _quantity_of(table)
        return Validated(table, [figure for figure in compared(table, asked) if _chosen(figure.groups.get, where)])
    shown = quantity or quantity_of(table.columns)
    return Validated(table, [compared_row(row, shown, shelf) for row in chosen_rows(table, where, shelf)])


def _quantity_of(table: MeasuredTable) -> Quantity:
    """The quantity of a document: time if any of its runs has a time, else memory."""
    shown = {name for run in table.runs for name, value in run.measured if value is not None}
    return "time" if shown & set(DOCUMENTED["time"]) else "memory"


def chosen_rows(table: Table, where: Where, shelf: CachedReader) -> list[CsvRow]:
    """The rows of a table that match the selection in every column."""
    return [row for row in table.rows if _chosen(_cells(row, shelf), where)]


def _cells(row: CsvRow, shelf: CachedReader) -> Callable[[str], str | None]:
    groups = groups_of_row(row, "", shelf)
    return lambda column: groups.get(column, row.written.get(column))


def _chosen(cell: Callable[[str], str | None], where: Where) -> bool:
    """Whether every column holds one of the requested values, as text or as a number."""
    return all(any(_same(cell(column), value) for value in values) for column, values in where.items())


def _same(cell: str | None, value: str) -> bool:
    if cell == value or cell is None:
        return cell == value
    try:
        return float(cell) == float(value)
    except ValueError:
        return False


def score(figures: Sequence[Compared]) -> Score:
    """The error of these figures in total; whether a run fits counts only if there is no other figure."""
    done = [figure for figure in figures if figure.error is not None]
    amounts = [figure for figure in done if figure.quantity != FITS]
    errors = [abs(figure.error) for figure in amounts or done if figure.error is not None]
    signed = [figure.error for figure in amounts if figure.error is not None]
    banded = [figure for figure in amounts if figure.low is not None and figure.high is not None]
    return Score(
        rows=len(figures),
        modelled=len(done),
        median_error=float(np.percentile(errors, 50)) if errors else None,
        p90_error=float(np.percentile(errors, 90)) if errors else None,
        bias=float(statistics.median(signed)) if signed else None,
        inside_band=float(np.mean([_inside(figure) for figure in banded])) if banded else None,
    )


def _inside(figure: Compared) -> bool:
    assert figure.low is not None and figure.high is not None and figure.measured is not None  # noqa: PT018
    return figure.low <= figure.measured <= figure.high


def gathered(figures: Sequence[Compared], grouping: str) -> dict[str, list[Compared]]:
    """The figures by the values of a column, in the order of the table."""
    groups: dict[str, list[Compared]] = {}
    for figure in figures:
        groups.setdefault(figure.groups[grouping], []).append(figure)
    return groups


def scores(figures: Sequence[Compared], grouping: str) -> dict[str, Score]:
    """The errors by the values of a column."""
    return {name: score(members) for name, members in gathered(figures, grouping).items()}


def outcomes(figures: Sequence[Compared]) -> Outcomes:
    """The modelled runs that fitted or did not, and wrong predictions; a run with measured memory fitted."""
    shown = [(figure.quantity != FITS or figure.measured == 1, figure.called_fit) for figure in figures]
    chances = [(fitted, figure.fit_chance) for figure, (fitted, _) in zip(figures, shown, strict=True)]
    return Outcomes(
        fit=sum(fitted and called is not None for fitted, called in shown),
        called_unfit=shown.count((True, False)),
        unfit=sum(not fitted and called is not None for fitted, called in shown),
        called_fit=shown.count((False, True)),
        chance_of_fit=_mean([chance for fitted, chance in chances if fitted and chance is not None]),
        chance_of_unfit=_mean([chance for fitted, chance in chances if not fitted and chance is not None]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def worst(figures: Sequence[Compared], count: int) -> list[Compared]:
    """The figures with the largest errors in either direction, by ratio."""
    done = [figure for figure in figures if figure.error is not None]
    return sorted(done, key=lambda figure: -abs(figure.error or 0.0))[:count]
