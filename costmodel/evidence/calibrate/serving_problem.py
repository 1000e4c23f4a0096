"""Benchmarks of serving as a regression problem: predictions, log errors and slopes under constants of engines."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.evidence.calibrate.engine_constants import EngineConstant, shipped_value, with_values
from costmodel.evidence.calibrate.regression_problem import Errors
from costmodel.evidence.validate.outcomes import ServingQuantity
from costmodel.evidence.validate.serving.benchmarks import Figures, Predicted, case_of_group, groups, of_group
from costmodel.evidence.validate.serving.serving_rows import ServingRow, serving_row
from costmodel.evidence.validate.serving.validate_serving import COLUMN, measured, plausible
from costmodel.evidence.validate.skip_reasons import CannotModel, SkippedRow
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.ground.record import record

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
QUANTITIES: tuple[ServingQuantity, ...] = ("tpot", "ttft", "throughput")
STEP = 0.05  # of a logarithm, downwards: shares end at 1


@record
class BenchmarkGroup:
    """Rows that differ in layout and load alone, with their scenario."""

    case: ServingCase
    rows: tuple[ServingRow, ...]


def benchmark_groups(rows: Sequence[CsvRow], shelf: CachedReader) -> tuple[list[BenchmarkGroup], list[SkippedRow]]:
    """The rows that can be modelled and be true, and the reason for each other row."""
    asked, left = [], []
    for row in rows:
        try:
            asked.append(serving_row(row, shelf))
        except CannotModel as refused:
            left.append(SkippedRow(row.id, refused.code, refused.why))
    found = []
    for members in ([asked[place] for place in places] for places in groups(asked)):
        try:
            case = case_of_group(members, shelf)
        except CannotModel as refused:
            left += [SkippedRow(row.row.id, refused.code, refused.why) for row in members]
            continue
        if good := tuple(_plausible(members, of_group(inputs_of(case), members), left)):
            found.append(BenchmarkGroup(case, good))
    return found, left


def _plausible(rows: list[ServingRow], found: list[Predicted], left: list[SkippedRow]) -> Iterator[ServingRow]:
    """The rows that can be modelled, and true; the others are added to those left."""
    for row, figures in zip(rows, found, strict=True):
        try:
            if isinstance(figures, CannotModel):
                raise figures
            plausible(row, figures)
        except CannotModel as refused:
            left.append(SkippedRow(row.row.id, refused.code, refused.why))
        else:
            yield row


@record
class ServingProblem:
    """Benchmarks and the constants that are fitted to some of their quantities."""

    groups: Sequence[BenchmarkGroup]
    constants: Sequence[EngineConstant]
    prior: Array  # logarithms of the shipped values
    quantities: Sequence[ServingQuantity]
    outlying: float = math.inf  # spread from which a residual counts by its size; by default all count by their square

    @property
    def rows(self) -> list[ServingRow]:
        """All rows, in the order of their groups."""
        return [row for group in self.groups for row in group.rows]

    @property
    def spreads(self) -> Array:
        """Spread of each prior, of a logarithm."""
        return np.array([constant.spread for constant in self.constants])

    def figures(self, logs: Array, which: Mask | None = None) -> list[Figures]:
        """What is predicted of some rows, all by default."""
        values, found, first = self.values(logs), [], 0
        for group in self.groups:
            last = first + len(group.rows)
            rows = [row for row, chosen in zip(group.rows, _chosen(which, first, last), strict=True) if chosen]
            first = last
            if rows:
                found += _predicted(with_values(group.case, self.constants, values), rows)
        return found

    def values(self, logs: Array) -> list[float]:
        """The constants of these logarithms; a share is at most 1."""
        return [min(math.exp(log), constant.most) for constant, log in zip(self.constants, logs, strict=True)]

    def residuals(self, figures: Sequence[Figures], rows: Sequence[ServingRow] | None = None) -> Array:
        """Log of predicted over measured, over its spread, by row and quantity; NaN where nothing is measured."""
        pairs = zip(figures, self.rows if rows is None else rows, strict=True)
        return np.array([[_residual(each, row, name) for name in self.quantities] for each, row in pairs])

    def slopes(self, logs: Array) -> Array:
        """Change of each residual with the logarithm of each constant: rows, quantities, constants."""
        return np.concatenate([self._slopes(group, logs) for group in self.groups])

    def _slopes(self, group: BenchmarkGroup, logs: Array) -> Array:
        """The same of one group; a constant that it does not use changes nothing."""
        here = with_values(group.case, self.constants, self.values(logs))
        now, known = self.residuals(_predicted(here, group.rows), group.rows), inputs_of(here)
        slopes = np.zeros((*now.shape, len(self.constants)))
        for column in range(len(self.constants)):
            moved = logs.copy()
            moved[column] -= STEP
            there = with_values(group.case, self.constants, self.values(moved))
            inputs = inputs_of(there)
            if (inputs.engine, inputs.experts) != (known.engine, known.experts):
                slopes[..., column] = (now - self.residuals(_predicted(there, group.rows), group.rows)) / STEP
        return slopes


def serving_problem(
    groups: Sequence[BenchmarkGroup],
    constants: Sequence[EngineConstant],
    quantities: Sequence[ServingQuantity],
    shelf: CachedReader,
    outlying: float = math.inf,
) -> ServingProblem:
    """The problem of constants that are not zero as shipped: a time of zero stands for what an engine does not do."""
    values = {constant: shipped_value(constant, shelf) for constant in constants}
    kept = [constant for constant in constants if values[constant] > 0]
    return ServingProblem(groups, kept, np.log([values[constant] for constant in kept]), quantities, outlying)


def _chosen(which: Mask | None, first: int, last: int) -> Collection[bool]:
    return [True] * (last - first) if which is None else which[first:last].tolist()


def _predicted(case: ServingCase, rows: Sequence[ServingRow]) -> list[Figures]:
    """What is predicted; constants of engines do not change which layouts fit."""
    found = of_group(inputs_of(case), rows)
    assert not any(isinstance(each, CannotModel) for each in found)
    return [each for each in found if isinstance(each, Mapping)]


def _residual(figures: Figures, row: ServingRow, name: ServingQuantity) -> float:
    value, column = measured(row, name), COLUMN[name]
    return math.log(figures[column] / value) / figures[f"{column}_spread"] if value else math.nan


def errors_of(figures: Sequence[Figures], rows: Sequence[ServingRow]) -> dict[str, Errors]:
    """Errors by quantity, of the rows that have it."""
    found: dict[str, Errors] = {}
    for name in QUANTITIES:
        pairs = [(each, value) for each, row in zip(figures, rows, strict=True) if (value := measured(row, name))]
        if pairs:
            found[name] = _errors(pairs, COLUMN[name])
    return found


def _errors(pairs: Sequence[tuple[Figures, float]], column: str) -> Errors:
    ratios = np.array([figures[column] / value - 1 for figures, value in pairs])
    inside = [figures[f"{column}_low"] <= value <= figures[f"{column}_high"] for figures, value in pairs]
    median, p90 = np.percentile(np.abs(ratios), [50, 90])
    return Errors(len(pairs), float(median), float(p90), float(np.median(ratios)), float(np.mean(inside)))
