"""Constants of a serving engine, refined from a few benchmarks of your own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.folders import is_checkout, is_shipped
from costmodel.documents.schemas.serving.engine import Engine
from costmodel.documents.text.yaml_editor import document_text, place_of, rewritten
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.evidence.calibrate.priors import own_source
from costmodel.evidence.validate.serving.benchmarks import Predicted, group_inputs, groups, of_group
from costmodel.evidence.validate.serving.serving_rows import ServingRow, serving_row
from costmodel.evidence.validate.serving.validate_serving import plausible
from costmodel.evidence.validate.skip_reasons import CannotModel, SkippedRow
from costmodel.evidence.validate.validate import Where, chosen_rows, meant
from costmodel.exchange.tables.kernel_table import stem
from costmodel.exchange.tables.serving_table import ServingTable, read_serving_runs
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

FEWEST = 3  # runs of an engine that its constants are refined from
IDENTIFIED = 0.7  # spread over that of the prior, at most, of a constant that runs identify
STEPS = 6
QUANTITIES = ("tpot", "ttft")
Column = NDArray[np.float64]


@record
class ConstantPath:
    """A constant of an engine: where it stands, and how far real ones lie from what is shipped, as a logarithm."""

    group: str
    key: str
    spread: float
    most: float = math.inf

    @property
    def name(self) -> str:
        """Its path in the document."""
        return f"{self.group}.{self.key}"


LEAVES = (
    ConstantPath("host", "step", 0.5),
    ConstantPath("burst", "front", 0.7),
    ConstantPath("burst", "share", 0.5, 1.0),
)


@record
class RefinedEngine:
    """One constant: what is shipped, what the runs make of it, and how well they know it."""

    engine: str
    leaf: ConstantPath
    prior: float
    value: float
    spread: float

    @property
    def identified(self) -> bool:
        """Whether the runs determine it better than its prior does."""
        return self.spread <= IDENTIFIED * self.leaf.spread


@record
class EngineFit:
    """The runs of some tables, the constants refined from them, and median errors before and after, by quantity."""

    tables: tuple[ServingTable, ...]
    runs: int
    left: tuple[SkippedRow, ...]
    constants: tuple[RefinedEngine, ...]
    before: Mapping[str, float]
    after: Mapping[str, float]


@record
class _Runs:
    """Benchmarks of one engine: those of one scenario together, with their measured times."""

    engine: Engine
    members: tuple[tuple[ServingInputs, tuple[ServingRow, ...]], ...]

    def residuals(self, values: Column) -> Column:
        """Logarithms of predicted over measured under these constants, each over its spread; NaN of no measurement."""
        return (self.apart(values) / self.spreads).ravel()

    def apart(self, values: Column) -> Column:
        """Logarithms of predicted over measured: a row for each run, a column for each quantity."""
        engine, found = _with(self.engine, values), []
        for inputs, rows in self.members:
            for row, figures in zip(rows, of_group(replace(inputs, engine=engine), rows), strict=True):
                assert not isinstance(figures, CannotModel)
                cells = {name: row.row.number(f"{name}_s") or math.nan for name in QUANTITIES}
                found.append([math.log(figures[name] / cells[name]) for name in QUANTITIES])
        return np.array(found)

    @property
    def spreads(self) -> Column:
        """How far runs lie from predictions, as the engine's document has it, in the same rows and columns."""
        spread = self.engine.spread
        return np.array(
            [
                [spread.experts if inputs.model.has_experts else spread.tpot, spread.ttft]
                for inputs, rows in self.members
                for _ in rows
            ]
        )

    def errors(self, values: Column) -> dict[str, float]:
        """Median of the errors' amounts by quantity."""
        amounts = np.abs(np.expm1(self.apart(values)))
        shown = dict(zip(QUANTITIES, amounts.T, strict=True))
        return {name: float(np.nanmedian(each)) for name, each in shown.items() if not np.isnan(each).all()}


def refined(tables: Sequence[str], where: Where | None = None) -> EngineFit:
    """Constants of the engine that the runs of these tables are of."""
    asked, shelf = [read_serving_runs(name) for name in tables], CachedReader()
    where = meant(where or {}, asked)
    rows, left = [], []
    for row in (row for table in asked for row in chosen_rows(table, where, shelf)):
        try:
            rows.append(serving_row(row, shelf))
        except CannotModel as refused:
            left.append(SkippedRow(row.id, refused.code, refused.why))
    runs = _of_one_engine(rows, left, shelf)
    count = sum(len(members) for _, members in runs.members)
    if count < FEWEST:
        why = f"; {left[0].run}: {left[0].why}" if left else ""
        sentence = f"{count} runs are modelled, and {FEWEST} are needed{why}"
        raise fail("C005", sentence, Place("command line"), f"costmodel validate {' '.join(tables)} explains each")
    prior, values, spreads = _fit(runs)
    constants = tuple(
        RefinedEngine(runs.engine.name, leaf, *map(float, each))
        for leaf, *each in zip(LEAVES, prior, values, spreads, strict=True)
        if each[0] > 0
    )
    shown = spreads <= IDENTIFIED * np.array([leaf.spread for leaf in LEAVES])
    kept = np.where(shown, values, prior)
    return EngineFit(tuple(asked), count, tuple(left), constants, runs.errors(prior), runs.errors(kept))


def _of_one_engine(rows: list[ServingRow], left: list[SkippedRow], shelf: CachedReader) -> _Runs:
    """The rows that can be modelled; a fault where they are of several engines."""
    engines = sorted({row.scenario["stack"] for row in rows})
    if len(engines) != 1:
        what = f"runs of {', '.join(engines)}" if engines else "no runs that can be modelled"
        hint = "--where engine=vllm, and --where engine_version where releases differ"
        raise fail("C005", f"these tables hold {what}; constants are of one engine", Place("command line"), hint)
    members = []
    for places in groups(rows):
        asked = [rows[place] for place in places]
        try:
            inputs = group_inputs(asked[0].scenario, shelf)
        except CostModelError as error:
            left += [SkippedRow(row.row.id, "V006", error.faults[0].sentence) for row in asked]
            continue
        if good := tuple(_plausible(asked, of_group(inputs, asked), left)):
            members.append((inputs, good))
    return _Runs(shelf.document("stack", engines[0]), tuple(members))


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


def _fit(runs: _Runs) -> tuple[Column, Column, Column]:
    """Shipped constants, the most probable ones on the logarithmic scale, and the spread of each."""
    prior = np.array([getattr(getattr(runs.engine, leaf.group), leaf.key) for leaf in LEAVES], dtype=np.float64)
    free = np.flatnonzero(prior > 0)
    known = np.array([leaf.spread for leaf in LEAVES])
    most = np.log(np.array([leaf.most for leaf in LEAVES]))[free]
    start = np.log(prior[free])

    def residuals(logs: Column) -> Column:
        values = prior.copy()
        values[free] = np.exp(logs)
        return runs.residuals(values)

    logs, small = start.copy(), 0.05
    for _ in range(STEPS):
        now = residuals(logs)
        shown = np.isfinite(now)
        slopes = np.stack(
            [(residuals(logs - small * unit) - now)[shown] / -small for unit in np.eye(len(free))], axis=1
        )
        curve = slopes.T @ slopes + np.diag(known[free] ** -2)
        pull = slopes.T @ now[shown] + (logs - start) / known[free] ** 2
        logs = np.minimum(logs - np.clip(np.linalg.solve(curve, pull), -1.0, 1.0), most)
    values, spreads = prior.copy(), known.copy()
    values[free] = np.exp(logs)
    spreads[free] = np.sqrt(np.diag(np.linalg.inv(curve)))
    return prior, values, spreads


def _with(engine: Engine, values: Column) -> Engine:
    """The engine with these constants."""
    changes: dict[str, dict[str, float]] = {}
    for leaf, value in zip(LEAVES, values, strict=True):
        changes.setdefault(leaf.group, {})[leaf.key] = float(value)
    return engine.model_copy(
        update={group: getattr(engine, group).model_copy(update=held) for group, held in changes.items()}
    )


def engine_text(found: EngineFit) -> dict[Path, str]:
    """The engine's document of the working folder with what the runs identify; comments and order stay."""
    shown = [constant for constant in found.constants if constant.identified]
    if not shown:
        return {}
    name = shown[0].engine
    path = place_of("stack", name)
    if is_shipped(path) or is_checkout(Path()):
        raise fail("C002", f"{path} is where what is shipped is", Place(str(path)), "run it in a folder of your own")
    where = ", ".join(f"{stem(table.file)} {table.digest}" for table in found.tables) + f", {found.runs} runs"
    source = own_source(where)
    changes: dict[tuple[str, ...], dict[str, Any]] = {}
    for constant in shown:
        entry = changes.setdefault((constant.leaf.group,), {"source": source, "check": None, "note": "Own benchmarks"})
        entry[constant.leaf.key] = written(constant.leaf, constant.value)
    cited = {"title": "Fit of costmodel calibrate on measured benchmarks", "where": where}
    return {path: rewritten(document_text("stack", name), {**changes, ("sources", source): cited})}


def written(leaf: ConstantPath, value: float) -> str:
    """A value as documents write it."""
    if leaf.key == "share":
        return f"{100 * value:.3g} %"
    return f"{value * 1e6:.3g} us" if value < 1e-3 else f"{value * 1e3:.3g} ms"
