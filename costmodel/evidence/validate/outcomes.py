"""Outcomes of rows: predictions beside measurements."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal

import numpy as np

from costmodel.documents.reader.library import CachedReader, accelerator_named
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.measurement import MeasuredTable
from costmodel.documents.schemas.scenario import FlopConvention
from costmodel.equations.run.economics import run_time, share, tokens_per_step, work_time
from costmodel.equations.run.uncertainty import (
    combined_error,
    end_spread,
    ninetieth_percentile,
    range_spread,
    tenth_percentile,
)
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.plan_batch import Block, Rows, memoized, summed
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.flop_count import flop_of_step
from costmodel.estimate.training.memory_breakdown import ALLOCATED, LINES, RESERVED, Ledger, memory_band
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training_answer.evaluate_training import Evaluation
from costmodel.evidence.validate.modelled_rows import Modelled, modelled_rows
from costmodel.evidence.validate.spelling import (
    SCHEDULES,
    CannotModel,
    schedule_written,
    states_recompute,
    with_schedule,
)
from costmodel.exchange.tables.csv_cells import CsvRow, cell_words
from costmodel.exchange.tables.run_table import MEMORIES, TIMES, Table
from costmodel.ground.equation import Number
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

ServingQuantity = Literal["tpot", "ttft", "throughput", "cache"]
Quantity = Literal["time", "memory"] | ServingQuantity
STATES = ("weights", "gradients", "optimizer")
TOTALS: dict[str, Sequence[str]] = {
    "memory_states": STATES,
    "memory_allocated": ALLOCATED,
    "memory_reserved": RESERVED,
    "memory_peak": LINES,
}
FITS = "fits"


@record
class ComparedFigure:
    """A measured figure and the predicted one; for memory whether the run is predicted to fit, as 1 or 0."""

    quantity: str
    measured: float
    predicted: float
    low: float | None = None
    high: float | None = None
    called_fit: bool | None = None
    fit_chance: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)  # of a predicted time, the share of each term


def quantity_of(columns: Sequence[str]) -> Quantity:
    """The quantity of a table: time if it has a time column, else memory."""
    return "time" if set(TIMES) & set(columns) else "memory"


def stated(row: CsvRow, quantity: Quantity) -> None:
    """Skips a row that is unreadable or has no measurement of the quantity."""
    beside = MEMORIES if quantity == "time" else TIMES
    unread = [fault for fault in row.faults if fault.place is None or fault.place.path not in beside]
    if unread:
        raise CannotModel("V010", f"line {row.place.line}, {'; '.join(map(cell_words, unread))}")
    if quantity == "memory" and row.text("kind") == "analytical":
        raise CannotModel("V005", "the figure is analytical")
    if quantity == "memory" and measured(row, quantity)[1] is None:
        raise CannotModel("V005", f"{', '.join(MEMORIES)} empty, and micro_batch or recompute")
    if quantity == "time" and all(name not in row.cells for name in TIMES):
        raise CannotModel("V005", f"{', '.join(TIMES)} empty")


def measured(row: CsvRow, quantity: Quantity) -> tuple[str, float | None]:
    """The measured figure of a row that is known without a model: its name and value.

    For memory a run with stated micro-batch and recompute counts as fitting, since it ran.
    """
    fits = row.flag("fits")
    if quantity == "time":
        return "step_time", row.number("step_time_s")
    if fits is not None:
        return FITS, float(fits)
    value, metric = row.number("value_gb"), row.text("metric")
    if value is None:
        value, metric = row.number("peak_mem_gb"), row.text("mem_metric")
    if value is None and ran(row):
        return FITS, 1.0
    if row.text("framework").lower().startswith("torchtune") and metric.startswith("peak memory"):
        metric = "max allocated"  # log_peak_memory_stats: peak_memory_alloc
    return total_of(metric), None if value is None else value * 1e9


def ran(row: CsvRow) -> bool:
    """Whether a row is a run with known micro-batch and recompute, so that it is evidence of fitting."""
    return any(name in row.cells for name in TIMES) and states_recompute(row)


def outcome(row: CsvRow, model: Modelled, quantity: Quantity) -> ComparedFigure:
    """The measured and the predicted figure of the row."""
    if quantity == "time":
        time, low, high = (model.figure(f"step_time{end}") for end in ("", "_low", "_high"))
        parts = shares_of_step({name: model.of_row(value) for name, value in model.evaluation.step.terms.items()})
        compared = ComparedFigure("step_time", step_time(row, model), time, low, high, parts=parts)
    else:
        compared = _memory(row, model)
    if not (math.isfinite(compared.predicted) and math.isfinite(compared.measured)):
        raise CannotModel("V006", "cells too large to compute with")
    return compared


def shares_of_step(terms: Mapping[str, Number]) -> dict[str, float]:
    """The share of the step time that each term takes, for one plan."""
    times = {name: number(time) for name, time in terms.items()}
    whole = sum(times.values())
    return {name: number(share(time, whole)) for name, time in times.items()}


def step_time(row: CsvRow, model: Modelled) -> float:
    """Measured time of a step: as stated, else from tokens per second, else from FLOP/s in the row's convention."""
    seconds, tokens = row.number("step_time_s"), row.number("tokens_per_s_per_gpu")
    if seconds is not None:
        return seconds
    inputs = model.inputs
    if tokens is not None:
        step = tokens_per_step(model.of_row(inputs.global_batch), model.of_row(inputs.sequence))
        return number(run_time(step, model.of_row(inputs.ranks) * tokens))
    return _step_time_from_flop(row, model)


def _step_time_from_flop(row: CsvRow, model: Modelled) -> float:
    """Step time [s] that follows from a stated FLOP rate or utilisation."""
    convention, executed = _flop_convention(row, model)
    block = model.evaluation.block
    inputs = _with_flop_convention(model.inputs, block, convention)
    flop = flop_of_step(inputs, block)
    achieved, used = row.number("tflops_per_gpu"), row.number("mfu")
    if achieved is None and used is None:
        used, executed = row.number("hfu"), True
    peak = (row.number("mfu_peak_tflops") or inputs.rates.mfu_peak / 1e12) * 1e12
    per_second = achieved * 1e12 if achieved is not None else (used or 0.0) / 100 * peak
    done = model.of_row(flop.executed if executed else flop.model)
    return number(work_time(done, per_second, model.of_row(inputs.ranks)))


@memoized()
def _with_flop_convention(inputs: TrainingInputs, block: Block, convention: FlopConvention) -> TrainingInputs:
    """A copy of the inputs with another FLOP convention, memoised by block so that FLOP are counted once."""
    del block
    return replace(inputs, convention=convention)


def _flop_convention(row: CsvRow, model: Modelled) -> tuple[FlopConvention, bool]:
    """The FLOP convention of a row, and whether recomputed FLOP are included."""
    said = row.text("flops_convention").lower()
    if "hardware" in said:
        return "model-full", True
    if "6n" in said:
        return "palm", False
    if "halved" in said or "causal half" in said:
        return "model-causal", False
    if "72blsh^2" in said:
        return "korthikanti", False
    if "full" not in said or "not stated" in said:
        model.filled["flops_convention"] = "model-full"
    return "model-full", False


def _memory(row: CsvRow, model: Modelled) -> ComparedFigure:
    """The measured and predicted memory of a row in its metric and scope, or whether it fits."""
    quantity, value = measured(row, "memory")
    assert value is not None
    fits, chance = model.figure("memory_share") <= 1, model.figure("fit_chance")
    if quantity == FITS:
        return ComparedFigure(FITS, value, float(fits), called_fit=fits, fit_chance=chance)
    total = memory_total(model.inputs, model.evaluation, quantity, row.text("scope"), model.place)
    return ComparedFigure(quantity, value, *total, fits, chance)


def memory_total(
    inputs: TrainingInputs, evaluation: Evaluation, quantity: str, scope: str = "", place: int = 0
) -> tuple[float, float, float]:
    """A memory total of a plan of a block with its P10 and P90, for the stage of a scope, else for the worst."""
    ends = _of_stages(inputs, evaluation.block, evaluation.ledger, quantity)
    total, low, high = (_value_of_scope(scope, [float(stage[place]) for stage in stages]) for stages in ends)
    return total, low, high


@memoized()
def _of_stages(inputs: TrainingInputs, block: Block, ledger: Ledger, quantity: str) -> tuple[list[Rows], ...]:
    """A memory total of every plan with P10 and P90, for each pipeline stage."""
    names, rows = TOTALS[quantity], len(block)
    stages = [{name: ledger.line(name, stage) for name in names} for stage in range(3)]
    totals = [summed(*lines.values()) for lines in stages]
    low, high = zip(*(memory_band(inputs, lines, names) for lines in stages), strict=True)
    return tuple([np.broadcast_to(stage, rows) for stage in each] for each in (totals, low, high))


def total_of(metric: str) -> str:
    """The memory total of a metric: tensors at peak, tensors between steps, with the allocator, or everything."""
    said = metric.lower()
    steady = "steady" in said or ("alloc" in said and "max" not in said and "peak" not in said)
    first = said.partition(";")[0]  # of several totals the one that is stated
    if "reserved" in first and "max_allocated" not in first:
        return "memory_reserved"
    if "alloc" in said or "peak_memory_usage" in said or said == 'reported "memory (gb)"':  # Megatron's own log
        return "memory_states" if steady else "memory_allocated"
    return "memory_peak"


def _value_of_scope(scope: str, stages: list[float]) -> float:
    """The value of the stage that a scope such as 'pp_stage 1/2' names, else the largest."""
    if scope.startswith("rank 0 "):
        return stages[0]
    if "pp_stage " not in scope:
        return max(stages)
    first, _, count = scope.partition("pp_stage ")[2].split(" ")[0].partition("/")
    return stages[0] if first == "0" else stages[2] if first == str(int(count or 1) - 1) else stages[1]


# All plans that the software allows where a row does not state its plan, with their middle and range.

SIZES = (1.0, 2.0, 4.0, 8.0)
MOST_CHUNKS = 8
MEGATRON = ("megatron-lm", "megatron-core")  # its defaults, under which nothing overlaps, and what most runs turn on
UNRULED = ("schedule", "stack")  # whose values are alike likely: of the others the rule's is closest to runs
_SAID = ("overlap", "megatron-core", "mcore")
RowOutcome = tuple[ComparedFigure, dict[str, str]] | CannotModel  # a figure with the imputed cells of its row


def outcomes_over(
    rows: Sequence[tuple[CsvRow, Modelled | CannotModel]], quantity: Quantity, shelf: CachedReader
) -> list[RowOutcome]:
    """The outcome of each row, with a band over the plans that its cells leave open; evaluated together."""
    outcomes = [_outcome(row, model, quantity) for row, model in rows]
    opened = list[tuple[int, str, CsvRow]]()
    for place, ((row, _), own) in enumerate(zip(rows, outcomes, strict=True)):
        if isinstance(own, CannotModel) or own[0].quantity == FITS or own[0].low is None:
            continue
        for name, values in _unstated_cells(row, own[1]).items():
            opened += [(place, name, _row_with_cell(row, name, value)) for value in values[1:]]
            own[1].filled[name] = " or ".join(dict.fromkeys(map(_cell_text, values)))
    every, alike = defaultdict[int, list[float]](list), defaultdict[int, list[float]](list)
    others = modelled_rows([row for _, _, row in opened], shelf)
    for (place, name, row), other in zip(opened, others, strict=True):
        predicted = _predicted_alternative(row, other, quantity)
        every[place] += predicted
        alike[place] += predicted if name in UNRULED else []
    return [
        own if isinstance(own, CannotModel) else (_median_figure(own[0], alike[place], every[place]), own[1].filled)
        for place, own in enumerate(outcomes)
    ]


def _outcome(
    row: CsvRow, model: Modelled | CannotModel, quantity: Quantity
) -> tuple[ComparedFigure, Modelled] | CannotModel:
    """The predicted figure for the assumed plan of a row, or the reason why there is none."""
    if isinstance(model, CannotModel):
        return model
    try:
        return outcome(row, model, quantity), model
    except CannotModel as refused:
        return refused


def _predicted_alternative(row: CsvRow, model: Modelled | CannotModel, quantity: Quantity) -> list[float]:
    """The figure of an alternative plan; empty where the software does not allow the plan or it does not fit."""
    outcome_of_row = _outcome(row, model, quantity)
    if isinstance(outcome_of_row, CannotModel):
        return []
    figure, model = outcome_of_row
    return [figure.predicted] if model.figure("memory_share") <= 1 and figure.predicted > 0 else []


def _median_figure(compared_figure: ComparedFigure, alike: Sequence[float], every: Sequence[float]) -> ComparedFigure:
    """The median over equally likely plans, with a band that covers all of them."""
    if not every:
        return compared_figure
    middle = math.exp(float(np.median(np.log([compared_figure.predicted, *alike]))))
    assert compared_figure.low is not None and compared_figure.high is not None  # noqa: PT018
    ends = (
        (compared_figure.low, min(compared_figure.predicted, *every)),
        (compared_figure.high, max(compared_figure.predicted, *every)),
    )
    below, above = (
        combined_error(end_spread(compared_figure.predicted, end), range_spread(middle, furthest))
        for end, furthest in ends
    )
    low, high = number(tenth_percentile(middle, below)), number(ninetieth_percentile(middle, above))
    return replace(compared_figure, predicted=middle, low=low, high=high)


def _row_with_cell(row: CsvRow, name: str, value: float | str) -> CsvRow:
    """A copy of the row with another value in one cell."""
    if name == "schedule":
        return with_schedule(row, str(value))
    if name == "stack":
        return replace(row, written={**row.written, "framework": str(value)})
    return replace(row, cells={**row.cells, name: float(value)}, written={**row.written, name: f"{value:g}"})


def _unstated_cells(row: CsvRow, model: Modelled) -> dict[str, list[float | str]]:
    """Cells of the plan that a row leaves open: the assumed value of each, then the alternatives."""
    stack, block, filled = model.inputs.stack, model.evaluation.block, model.filled
    opened: dict[str, list[float | str]] = {}
    dp, pp, vpp, size = (model.of_row(one) for one in (block.dp, block.pp, block.vpp, block.micro_batch))
    share = model.of_row(model.inputs.global_batch) / dp
    if "micro_batch" in filled and row.number("grad_accum") is None:
        opened["micro_batch"] = _assumed_first(size, [other for other in SIZES if share % other == 0])
    if pp > 1:
        named = schedule_written(row)
        if named and named.lower() not in SCHEDULES:
            opened["schedule"] = _assumed_first(str(block.structure.schedule), list(stack.schedules))
        elif not named and row.number("vp") is None and "interleaved" in stack.schedules:
            count = share / size
            fullest = math.ceil(layer_count(model.inputs.model) / pp)
            chunks = [v for v in range(1, MOST_CHUNKS + 1) if fullest % v == 0 and (v == 1 or count % pp == 0)]
            opened["vp"] = _assumed_first(vpp, [float(v) for v in chunks])
    features = row.text("features") or filled.get("features", "")
    stated = f"{row.text('framework')} {features} {row.text('notes')}".lower()
    if filled.get("stack") == MEGATRON[0] and not any(word in stated for word in _SAID):
        opened["stack"] = list(MEGATRON)
    return {name: values for name, values in opened.items() if len(values) > 1}


def _assumed_first(value: float | str, others: Sequence[float | str]) -> list[float | str]:
    """The assumed value, followed by the alternatives without it."""
    return [value, *(other for other in others if other != value)]


def _cell_text(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


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
    """The selection with columns as the tables spell them; a fault for a column that no table has."""
    known = sorted({column for table in tables for column in _grouping_columns(table)})
    conditions = {column: column if column in known else column.lower() for column in where}
    for column, name in conditions.items():
        if name not in known:
            raise fail("C005", f"no table has a column '{column}'", Place("command line"), f"known: {', '.join(known)}")
    return {conditions[column]: values for column, values in where.items()}


def nothing_chosen(where: Where, tables: Sequence[MeasuredTable | Table], shelf: CachedReader) -> CostModelError:
    """The fault for a selection without runs, with the values that the first unmatched column does hold."""
    chosen = ", ".join(f"{column}={value}" for column, values in where.items() for value in values)
    rows = [row for table in tables if isinstance(table, Table) for row in table.rows]
    hint = "validate --by shows the values of a column"
    for column, values in where.items() if rows else ():
        held = list(dict.fromkeys(_cell_reader(row, shelf)(column) or "nothing" for row in rows))
        if not any(_cell_matches(cell, value) for cell in held for value in values):
            hint = f"{column} is {', '.join(held[:_SHOWN])}{' and more' if len(held) > _SHOWN else ''}"
            break
    return fail("C005", f"no run has {chosen}", Place("command line"), hint)


def _grouping_columns(table: MeasuredTable | Table) -> Sequence[str]:
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
    return [row for row in table.rows if chosen(_cell_reader(row, shelf), where)]


def _cell_reader(row: CsvRow, shelf: CachedReader) -> Callable[[str], str | None]:
    groups = groups_of_row(row, "", shelf)
    return lambda column: groups.get(column, row.written.get(column))


def chosen(cell: Callable[[str], str | None], where: Where) -> bool:
    """Whether every column holds one of the requested values, as text or as a number."""
    return all(any(_cell_matches(cell(column), value) for value in values) for column, values in where.items())


def _cell_matches(cell: str | None, value: str) -> bool:
    """Whether a cell equals a value, as text or as a number."""
    if cell == value or cell is None:
        return cell == value
    try:
        return float(cell) == float(value)
    except ValueError:
        return False
