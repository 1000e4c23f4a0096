"""Fits constants of serving engines to benchmarks, robustly and near the shipped values."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.reader.folders import is_near, is_shipped, places
from costmodel.documents.reader.library import UNMEASURED, CachedReader
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.base import OWN
from costmodel.documents.text.yaml_editor import Changes, document_text, place_of, rewritten
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.evidence.calibrate.fit_from_runs import SLACK, WORST_MEDIAN, is_identified
from costmodel.evidence.calibrate.regression_problem import Errors, beginning, changed, own_source, registered
from costmodel.evidence.validate.outcomes import (
    ServingQuantity,
    Where,
    chosen_rows,
    groups_of_row,
    meant,
    nothing_chosen,
)
from costmodel.evidence.validate.serving_rows import ServingRow, serving_row
from costmodel.evidence.validate.spelling import CannotModel, SkippedRow
from costmodel.evidence.validate.validate_serving import (
    COLUMN,
    Figures,
    Predicted,
    case_of_group,
    groups,
    measured,
    of_group,
    plausible,
)
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.kernel_table import file_stem
from costmodel.exchange.tables.run_table import Table
from costmodel.exchange.tables.serving_table import LOGGED, ServingTable, read_serving_runs
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

# Constants of serving engines: where they stand in documents, and how far real ones lie from what is shipped.

EXPERTS = ("serving", "experts")  # where an efficiency document has the fused experts of engines, by type
UNLIMITED = math.inf


@record
class LeafPath:
    """The place of one number in one document."""

    kind: str
    document: str
    path: tuple[str, ...]
    key: str

    def __str__(self) -> str:
        return f"{self.document} {'.'.join((*self.path, self.key))}"


@record
class EngineConstant:
    """A number to fit, shared by one or more document leaves; `spread` is the prior spread of its logarithm."""

    name: str
    leaves: tuple[LeafPath, ...]
    spread: float = 0.5
    most: float = UNLIMITED

    @property
    def key(self) -> str:
        """The key under which each document has the number."""
        return self.leaves[0].key

    @property
    def documents(self) -> list[str]:
        """The documents that contain the number."""
        return list(dict.fromkeys(leaf.document for leaf in self.leaves))


def _engine_constant(
    name: str, path: str, stacks: Sequence[str], spread: float = 0.5, most: float = UNLIMITED
) -> EngineConstant:
    """A constant at one path of several stacks, with the prior spread of its logarithm."""
    group, key = path.split(".")
    return EngineConstant(name, tuple(LeafPath("stack", stack, (group,), key) for stack in stacks), spread, most)


def _experts(name: str, key: str, *entries: tuple[Sequence[str], Sequence[str]]) -> EngineConstant:
    """A constant of fused experts, in entries of some types in some efficiency documents."""
    leaves = tuple(
        LeafPath("efficiency", document, (*EXPERTS, kind), key)
        for documents, kinds in entries
        for document in documents
        for kind in kinds
    )
    return EngineConstant(name, leaves, most=UNLIMITED if key == "start" else 1.0)


VLLM = ("vllm", "vllm-0.16", "vllm-0.20", "vllm-0.24", "vllm-0.28")
SGLANG, TRT_LLM = ("sglang",), ("trt-llm",)
WIDE, BLOCKS, FOUR_BITS = ("bf16", "fp8"), ("fp8-block",), ("nvfp4",)
HOPPER, BLACKWELL = ("h100-sxm", "h200-sxm"), ("b200-sxm", "gb200")
SHARED = (
    _engine_constant("vllm host.step", "host.step", VLLM),
    _engine_constant("sglang host.step", "host.step", SGLANG),
    _engine_constant("trt-llm host.step", "host.step", TRT_LLM),
    _engine_constant("engines kernels.operation", "kernels.operation", (*VLLM, *SGLANG, *TRT_LLM)),
    _experts(
        "experts start, 8 and 16 bits",
        "start",
        (HOPPER, WIDE),
        ((*BLACKWELL, "unmeasured"), (*WIDE, *BLOCKS)),
    ),
    _experts("experts start, nvfp4", "start", ((*BLACKWELL, "unmeasured"), FOUR_BITS)),
    _experts("experts compute_share, Hopper", "compute_share", (HOPPER, WIDE)),
    _experts("experts compute_share, Blackwell", "compute_share", (BLACKWELL, (*WIDE, *BLOCKS))),
    _experts("experts compute_share, nvfp4", "compute_share", ((*BLACKWELL, "unmeasured"), FOUR_BITS)),
    _experts(
        "experts memory_share, Blackwell",
        "memory_share",
        (BLACKWELL, (*WIDE, *BLOCKS, *FOUR_BITS)),
        (("unmeasured",), FOUR_BITS),
    ),
)


def own_constants(engine: str) -> tuple[EngineConstant, ...]:
    """The constants of one engine that your own benchmarks can improve: time per step, and the start of a burst."""
    return (
        _engine_constant(f"{engine} host.step", "host.step", (engine,)),
        _engine_constant(f"{engine} burst.front", "burst.front", (engine,), 0.7),
        _engine_constant(f"{engine} burst.share", "burst.share", (engine,), 0.5, 1.0),
    )


def accelerator_constants(name: str, fit: str) -> tuple[EngineConstant, ...]:
    """The shares of peak and bandwidth that matmuls reach, as constants of an accelerator without its own fit.

    fit: of the products, by the entry of efficiency documents
    """
    keys = {"memory_share": 0.2, "compute_share": 0.3}
    return tuple(
        EngineConstant(f"{name} {fit} {key}", (LeafPath("efficiency", name, ("matmul", fit), key),), spread, 1.0)
        for key, spread in keys.items()
    )


def shipped_value(constant: EngineConstant, shelf: CachedReader) -> float:
    """The value in the first document that has the number, before your own benchmarks changed it."""
    leaf = constant.leaves[0]
    return float(getattr(shipped_entry(leaf, shelf), leaf.key))


def shipped_entry(leaf: LeafPath, shelf: CachedReader) -> Any:
    """The document section that contains a number, before your own benchmarks changed it."""
    entries = [entry for document in _versions(leaf, shelf) if (entry := _value_at(document, leaf.path)) is not None]
    return next((entry for entry in entries if not entry.source.startswith(OWN)), entries[-1])


def _versions(leaf: LeafPath, shelf: CachedReader) -> Iterator[Any]:
    """All versions of the document that has a number: that of the working folder first, the default one last."""
    paths = [path for path in places(leaf.kind, leaf.document) if path.is_file()]
    yield from (shelf.document(leaf.kind, str(path)) for path in paths)
    if not any(map(is_shipped, paths)):
        yield beginning("accelerator", leaf.document)


def _value_at(document: Any, path: Sequence[str]) -> Any:
    """The value at a path of a document; None if there is none."""
    for name in path:
        document = document.get(name) if isinstance(document, Mapping) else getattr(document, name, None)
    return document


def with_values(case: ServingCase, constants: Sequence[EngineConstant], values: Sequence[float]) -> ServingCase:
    """The scenario with its constants at these values; documents that it does not use stay."""
    for constant, value in zip(constants, values, strict=True):
        for leaf in constant.leaves:
            if leaf.kind == "stack" and leaf.document == case.stack.name:
                case = replace(case, stack=_document_with_value(case.stack, leaf, value))
            if leaf.kind == "efficiency" and leaf.document == case.efficiency.of:
                case = replace(case, efficiency=_document_with_value(case.efficiency, leaf, value))
            if leaf.kind == "efficiency" and leaf.document == case.common.of:
                case = replace(case, common=_document_with_value(case.common, leaf, value))
    return case


def _document_with_value(document: Any, leaf: LeafPath, value: float) -> Any:
    return _section_with_value(document, (*leaf.path, leaf.key), value)


def _section_with_value(part: Any, path: Sequence[str], value: float) -> Any:
    """A copy of a document section with the number at a path changed; unchanged if it lacks the path."""
    name, *rest = path
    held = part.get(name) if isinstance(part, Mapping) else getattr(part, name, None)
    if held is None:
        return part
    new = _section_with_value(held, rest, value) if rest else value
    return {**part, name: new} if isinstance(part, Mapping) else part.model_copy(update={name: new})


def written(constant: EngineConstant, value: float) -> str:
    """The value as text in the form of documents."""
    if constant.key.endswith("share"):
        return f"{100 * value:.3g} %"
    return f"{value * 1e6:.3g} us" if value < 1e-3 else f"{value * 1e3:.3g} ms"


Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
QUANTITIES: tuple[ServingQuantity, ...] = ("tpot", "ttft", "throughput")
STEP = 0.05  # of a logarithm, downwards: shares end at 1


@record
class BenchmarkGroup:
    """Benchmark rows that share one scenario and differ only in layout and load."""

    case: ServingCase
    rows: tuple[ServingRow, ...]


def benchmark_groups(rows: Sequence[CsvRow], shelf: CachedReader) -> tuple[list[BenchmarkGroup], list[SkippedRow]]:
    """Groups of the rows that can be modelled and are plausible, and the reason for each skipped row."""
    asked, left = [], []
    for row in rows:
        try:
            asked.append(serving_row(row, shelf))
        except CannotModel as refused:
            left.append(SkippedRow(row.id, refused.code, refused.why))
    found = []
    for members in ([asked[place] for place in group] for group in groups(asked)):
        try:
            case = case_of_group(members, shelf)
        except CannotModel as refused:
            left += [SkippedRow(row.row.id, refused.code, refused.why) for row in members]
            continue
        if good := tuple(_plausible(members, of_group(inputs_of(case), members), left)):
            found.append(BenchmarkGroup(case, good))
    return found, left


def _plausible(rows: list[ServingRow], predictions: list[Predicted], left: list[SkippedRow]) -> Iterator[ServingRow]:
    """The rows that are modelled and plausible; the others are added to `left` with the reason."""
    for row, figures in zip(rows, predictions, strict=True):
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
        """All benchmark rows, sorted by group."""
        return [row for group in self.groups for row in group.rows]

    @property
    def spreads(self) -> Array:
        """The prior spread of each constant's logarithm."""
        return np.array([constant.spread for constant in self.constants])

    def figures(self, logs: Array, which: Mask | None = None) -> list[Figures]:
        """The predicted figures of some rows, all by default."""
        values, found, first = self.values(logs), [], 0
        for group in self.groups:
            last = first + len(group.rows)
            rows = [row for row, chosen in zip(group.rows, _mask_of_rows(which, first, last), strict=True) if chosen]
            first = last
            if rows:
                found += _predicted_figures(with_values(group.case, self.constants, values), rows)
        return found

    def values(self, logs: Array) -> list[float]:
        """The constants of these logarithms; a share is at most 1."""
        return [min(math.exp(log), constant.most) for constant, log in zip(self.constants, logs, strict=True)]

    def residuals(self, figures: Sequence[Figures], rows: Sequence[ServingRow] | None = None) -> Array:
        """Log of predicted over measured, over its spread, by row and quantity; NaN where nothing is measured."""
        pairs = zip(figures, self.rows if rows is None else rows, strict=True)
        return np.array([[_scaled_residual(each, row, name) for name in self.quantities] for each, row in pairs])

    def slopes(self, logs: Array) -> Array:
        """Derivative of each residual with the logarithm of each constant: rows × quantities × constants."""
        return np.concatenate([self._slopes(group, logs) for group in self.groups])

    def _slopes(self, group: BenchmarkGroup, logs: Array) -> Array:
        """The slopes of one group of rows; zero for a constant that the group does not use."""
        here = with_values(group.case, self.constants, self.values(logs))
        now, known = self.residuals(_predicted_figures(here, group.rows), group.rows), inputs_of(here)
        slopes = np.zeros((*now.shape, len(self.constants)))
        for column in range(len(self.constants)):
            moved = logs.copy()
            moved[column] -= STEP
            there = with_values(group.case, self.constants, self.values(moved))
            inputs = inputs_of(there)
            if (inputs.engine, inputs.experts, inputs.types.fit) != (known.engine, known.experts, known.types.fit):
                slopes[..., column] = (now - self.residuals(_predicted_figures(there, group.rows), group.rows)) / STEP
        return slopes


def serving_problem(
    groups: Sequence[BenchmarkGroup],
    constants: Sequence[EngineConstant],
    quantities: Sequence[ServingQuantity],
    shelf: CachedReader,
    outlying: float = math.inf,
) -> ServingProblem:
    """The problem without constants that ship as zero: an engine does not spend that time."""
    values = {constant: shipped_value(constant, shelf) for constant in constants}
    kept = [constant for constant in constants if values[constant] > 0]
    return ServingProblem(groups, kept, np.log([values[constant] for constant in kept]), quantities, outlying)


def _mask_of_rows(which: Mask | None, first: int, last: int) -> Collection[bool]:
    return [True] * (last - first) if which is None else which[first:last].tolist()


def _predicted_figures(case: ServingCase, rows: Sequence[ServingRow]) -> list[Figures]:
    """The predicted figures of rows that fit; constants of engines do not change which layouts fit."""
    predictions = of_group(inputs_of(case), rows)
    assert not any(isinstance(each, CannotModel) for each in predictions)
    return [each for each in predictions if isinstance(each, Mapping)]


def _scaled_residual(figures: Figures, row: ServingRow, name: ServingQuantity) -> float:
    value, column = measured(row, name), COLUMN[name]
    return math.log(figures[column] / value) / figures[f"{column}_spread"] if value else math.nan


def errors_of(figures: Sequence[Figures], rows: Sequence[ServingRow]) -> dict[str, Errors]:
    """The errors of each quantity, over the rows that measure it."""
    errors: dict[str, Errors] = {}
    for name in QUANTITIES:
        pairs = [(each, value) for each, row in zip(figures, rows, strict=True) if (value := measured(row, name))]
        if pairs:
            errors[name] = _errors_of_column(pairs, COLUMN[name])
    return errors


def _errors_of_column(pairs: Sequence[tuple[Figures, float]], column: str) -> Errors:
    ratios = np.array([figures[column] / value - 1 for figures, value in pairs])
    inside = [figures[f"{column}_low"] <= value <= figures[f"{column}_high"] for figures, value in pairs]
    median, p90 = np.percentile(np.abs(ratios), [50, 90])
    return Errors(len(pairs), float(median), float(p90), float(np.median(ratios)), float(np.mean(inside)))


FEWEST = 3  # benchmarks that constants are fitted to
FURTHEST = 5.0  # spreads of its prior that a constant moves at most
STEPS, REWEIGHTINGS = 8, 50
LARGEST_STEP, SMALLEST_STEP = 1.0, 0.01  # of a logarithm
OUTLYING = 1.0  # spread from which the residuals of many benchmarks count by their size, not their square
STRAIGHT = 0.3  # a step beyond which slopes are taken anew


@record
class RefinedConstant:
    """One constant: as shipped, fitted, the spread of its logarithm, and whether the benchmarks identify it."""

    constant: EngineConstant
    prior: float
    value: float
    spread: float
    identified: bool


@record
class LeftOutRows:
    """Errors on the rows of one group, with the shipped constants and with constants fitted to all other rows."""

    value: str
    shipped: Mapping[str, Errors]
    unseen: Mapping[str, Errors]
    constants: Mapping[str, float]


@record
class EngineFit:
    """The benchmarks of some tables, the constants fitted to them, and errors by quantity."""

    tables: tuple[Table, ...]
    runs: int
    left: tuple[SkippedRow, ...]
    constants: tuple[RefinedConstant, ...]
    shipped: Mapping[str, Errors]
    fitted: Mapping[str, Errors]
    grouping: str = ""
    unseen: Mapping[str, Errors] | None = None
    by_value: tuple[LeftOutRows, ...] = ()

    @property
    def why(self) -> str:
        """The reason why the fit is not written; empty where it is."""
        far = [
            constant
            for constant in self.constants
            if abs(math.log(constant.value / constant.prior)) > FURTHEST * constant.constant.spread
        ]
        if far:
            times = far[0].value / far[0].prior
            return f"{far[0].constant.name} would be {times:.2g} times what is shipped; are times in seconds?"
        quantity = next(iter(self.shipped))
        now, found = self.shipped[quantity].median, self.fitted[quantity].median
        if found > WORST_MEDIAN:
            return f"half of the runs still have an error of {quantity} over {WORST_MEDIAN:.0%}; are times in seconds?"
        return "half of the runs are further off than now, by more than as much again" if found > SLACK * now else ""


@record
class Linearised:
    """Logarithms of the constants, the residuals there by row and quantity, and their slopes in each constant."""

    logs: Array
    residuals: Array
    slopes: Array

    def of(self, rows: Mask) -> tuple[Array, Array]:
        """The finite residuals of some rows, and their slopes."""
        residuals, slopes = self.residuals[rows].ravel(), self.slopes[rows].reshape(-1, len(self.logs))
        shown = np.isfinite(residuals)
        return residuals[shown], slopes[shown]


def engine_fit(
    tables: Sequence[str | Table], *, where: Where | None = None, leave_out: str = "", afresh: bool = False
) -> EngineFit:
    """Fits the constants of one engine to your own benchmarks, or the constants that engines share to many."""
    asked = tuple(_table_of_runs(each) if isinstance(each, str) else each for each in tables)
    shelf = CachedReader()
    where = meant(where or {}, asked)
    chosen = [row for table in asked for row in chosen_rows(table, where, shelf)]
    if where and not chosen:
        raise nothing_chosen(where, asked, shelf)
    groups, left = benchmark_groups(chosen, shelf)
    if sum(len(group.rows) for group in groups) < FEWEST:
        raise _too_few_benchmarks([table.file for table in asked], sum(len(group.rows) for group in groups), left)
    if leave_out or afresh:
        problem = serving_problem(groups, SHARED, ("tpot",), shelf, OUTLYING)
    else:
        groups, constants = _with_default_documents(groups, shelf)
        problem = serving_problem(groups, own_constants(_one_engine(groups)) + constants, ("tpot", "ttft"), shelf)
    return _fit(problem, shelf, leave_out, asked, tuple(left))


def _table_of_runs(name: str) -> ServingTable:
    """A table of benchmarks; a fault where it holds start-up logs."""
    table = read_serving_runs(name)
    if LOGGED in table.columns:
        sentence = f"{table.file} has start-up logs, and calibrate fits times of runs"
        raise fail("C005", sentence, Place("command line"), f"costmodel validate {name} compares their cache")
    return table


def _too_few_benchmarks(tables: Sequence[str], count: int, left: Sequence[SkippedRow]) -> CostModelError:
    """The fault for tables with too few benchmarks to fit."""
    near = all(map(is_near, tables))  # a reason repeats words of the table
    why = f"; {left[0].run}: {left[0].why}" if left and near else ""
    sentence = f"{count} runs are modelled, and {FEWEST} are needed{why}"
    place = Place(tables[0] if len(tables) == 1 else "command line")
    return fail("C005", sentence, place, f"costmodel validate {' '.join(tables)} explains each")


def _with_default_documents(
    groups: Sequence[BenchmarkGroup], shelf: CachedReader
) -> tuple[list[BenchmarkGroup], tuple[EngineConstant, ...]]:
    """The groups, with default documents for accelerators without a fit, and the constants to fit for these."""
    found, constants = list[BenchmarkGroup](), dict[str, EngineConstant]()
    for group in groups:
        case, name = group.case, group.case.accelerator.name
        if case.efficiency.of == UNMEASURED:
            case = replace(case, efficiency=registered("accelerator", name, shelf))
        if not any(path.is_file() and is_shipped(path) for path in places("efficiency", case.efficiency.of)):
            fit = inputs_of(case).types.recipe.fit
            constants |= {each.name: each for each in accelerator_constants(name, fit)}
        found.append(replace(group, case=case))
    return found, tuple(constants.values())


def _one_engine(groups: Sequence[BenchmarkGroup]) -> str:
    """The name of the engine of all rows; a fault where they use several."""
    engines = sorted({group.case.stack.name for group in groups})
    if len(engines) > 1:
        what = f"these tables have runs of {', '.join(engines)}; constants are of one engine"
        hint = "--where engine=vllm chooses one, --where engine_version a release; --afresh fits what engines share"
        raise fail("C005", what, Place("command line"), hint)
    return engines[0]


def _fit(
    problem: ServingProblem,
    shelf: CachedReader,
    leave_out: str,
    tables: tuple[Table, ...],
    left: tuple[SkippedRow, ...],
) -> EngineFit:
    """Fits the constants to all rows, and if asked for to the rows without each value of a column."""
    rows, shipped = problem.rows, problem.figures(problem.prior)
    start = Linearised(problem.prior, problem.residuals(shipped), problem.slopes(problem.prior))
    whole, spreads, free = identified_fit(problem, start, np.ones(len(rows), bool))
    priors, values = problem.values(problem.prior), problem.values(whole.logs)
    constants = tuple(map(RefinedConstant, problem.constants, priors, values, spreads.tolist(), free.tolist()))
    now, fitted = errors_of(shipped, rows), errors_of(problem.figures(whole.logs), rows)
    fit = EngineFit(tables, len(rows), left, constants, now, fitted, leave_out)
    return with_left_out(fit, problem, whole, shipped, shelf) if leave_out else fit


def with_left_out(
    fit: EngineFit, problem: ServingProblem, whole: Linearised, shipped: Sequence[Figures], shelf: CachedReader
) -> EngineFit:
    """Adds the errors of each value's rows, predicted with constants fitted to all other rows."""
    rows, values = problem.rows, _values_of_column(problem, fit.grouping, shelf)
    unseen, parts = list(shipped), []
    for value in sorted(set(values), key=lambda value: (-values.count(value), value)):
        which = np.array([each == value for each in values])
        others = identified_fit(problem, whole, ~which)[0]
        figures, places = problem.figures(others.logs, which), np.flatnonzero(which).tolist()
        for place, each in zip(places, figures, strict=True):
            unseen[place] = each
        asked = [rows[place] for place in places]
        now = errors_of([shipped[place] for place in places], asked)
        constants = zip((constant.name for constant in problem.constants), problem.values(others.logs), strict=True)
        parts.append(LeftOutRows(value, now, errors_of(figures, asked), dict(constants)))
    return replace(fit, unseen=errors_of(unseen, rows), by_value=tuple(parts))


def _values_of_column(problem: ServingProblem, grouping: str, shelf: CachedReader) -> list[str]:
    """The value of each row in a column; the values of several columns are joined by " on "."""
    texts = []
    for group in problem.groups:
        for row in group.rows:
            cells = groups_of_row(row.row, "", shelf)
            cells |= {"model_name": cells["model"], "accelerator_family": group.case.accelerator.family}
            texts.append(" on ".join(cells[name] for name in grouping.split(",")))
    return texts


def identified_fit(problem: ServingProblem, start: Linearised, rows: Mask) -> tuple[Linearised, Array, Mask]:
    """The fit that moves only identified constants, the spread of each constant, and which are identified."""
    everything = np.ones(len(problem.prior), bool)
    optimum, spreads = most_probable(problem, start, rows, everything)
    each = zip(problem.spreads, spreads, optimum.logs - problem.prior, strict=True)
    free = np.array([is_identified(*map(float, numbers)) for numbers in each])
    if not free.all():
        logs = np.where(free, optimum.logs, problem.prior)
        optimum = Linearised(logs, problem.residuals(problem.figures(logs)), optimum.slopes)
        optimum, _ = most_probable(problem, optimum, rows, free)
    return optimum, spreads, free


def most_probable(problem: ServingProblem, start: Linearised, rows: Mask, free: Mask) -> tuple[Linearised, Array]:
    """The most probable free constants by some rows, and their spreads: Gauss-Newton steps on the equations.

    Slopes are taken anew after long steps only.
    """
    here, spreads = start, problem.spreads
    most = np.log([constant.most for constant in problem.constants])
    for _ in range(STEPS):
        residuals, slopes = here.of(rows)
        step, curved = robust_step(residuals, slopes * free, here.logs - problem.prior, spreads, problem.outlying)
        logs = np.minimum(here.logs + np.clip(step, -LARGEST_STEP, LARGEST_STEP), most)
        moved = float(np.max(np.abs(logs - here.logs)))
        if moved < SMALLEST_STEP:
            break
        anew = problem.slopes(logs) if moved > STRAIGHT else here.slopes
        here = Linearised(logs, problem.residuals(problem.figures(logs)), anew)
    return here, np.sqrt(np.diag(np.linalg.inv(curved)))


def robust_step(
    residuals: Array, slopes: Array, away: Array, spreads: Array, outlying: float = math.inf
) -> tuple[Array, Array]:
    """The step to the least loss where residuals change by these slopes, and the curvature of the loss there.

    A residual costs its square, beyond what is outlying its size; a distance from a prior costs its square.
    """
    step: Array = np.zeros(len(away))
    for _ in range(REWEIGHTINGS):
        weights = 1 / np.sqrt(1 + ((residuals + slopes @ step) / outlying) ** 2)
        curved: Array = slopes.T @ (slopes * weights[:, None]) + np.diag(spreads**-2)
        uphill = slopes.T @ (weights * residuals) + away / spreads**2
        step = -np.linalg.solve(curved, uphill).astype(np.float64)
    return step, curved


# --- fitted constants of serving engines in documents of the working folder


def engine_texts(fit: EngineFit) -> dict[Path, str]:
    """The documents with what the benchmarks identify; comments and order stay."""
    where = ", ".join(f"{file_stem(table.file)} {table.digest}" for table in fit.tables) + f", {fit.runs} runs"
    source, shelf = own_source(where), CachedReader()
    fitted: dict[LeafPath, str] = {}
    for each in fit.constants if not fit.why else ():
        if each.identified:
            fitted |= dict.fromkeys(each.constant.leaves, written(each.constant, each.value))
    entries: dict[tuple[str, str], dict[tuple[str, ...], dict[str, Any]]] = {}
    for leaf in fitted:
        mine = {other.key: value for other, value in fitted.items() if replace(other, key=leaf.key) == leaf}
        note = f"{' and '.join(mine)} fitted on own benchmarks; all else is of {shipped_entry(leaf, shelf).source}"
        fields: dict[str, Any] = {**mine, "source": source, "check": None, "note": note}
        if leaf.kind == "efficiency":
            errors = fit.fitted["tpot"]
            residual = {"median": f"{100 * errors.median:.2g} %", "p90": f"{100 * errors.p90:.2g} %"}
            fields["fitted"] = {"points": errors.runs, **residual, "out_of": "fit"}
        entries.setdefault((leaf.kind, leaf.document), {})[leaf.path] = fields
    cited = {"title": "Fit of costmodel calibrate on measured benchmarks", "where": where}
    return {
        place_of(kind, name): _text(kind, name, {**parts, ("sources", source): cited})
        for (kind, name), parts in entries.items()
    }


def _text(kind: str, name: str, changes: Changes) -> str:
    """A document with these changes; an accelerator without one gets its default document."""
    if kind == "efficiency":
        return changed("accelerator", name, changes)
    return rewritten(document_text(kind, name), changes)
