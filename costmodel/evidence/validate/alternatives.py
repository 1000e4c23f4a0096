"""All plans that the software allows where a row does not state its plan, with their middle and range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.equations.run.uncertainty import (
    combined_error,
    end_spread,
    ninetieth_percentile,
    range_spread,
    tenth_percentile,
)
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.results import number
from costmodel.evidence.validate.outcomes import FITS, ComparedFigure, Quantity, outcome
from costmodel.evidence.validate.rows import Modelled, modelled
from costmodel.evidence.validate.skip_reasons import CannotModel
from costmodel.evidence.validate.spelling import SCHEDULES, schedule_written, with_schedule
from costmodel.exchange.tables.csv_cells import CsvRow

SIZES = (1.0, 2.0, 4.0, 8.0)
MOST_CHUNKS = 8
MEGATRON = ("megatron-lm", "megatron-core")  # its defaults, under which nothing overlaps, and what most runs turn on
UNRULED = ("schedule", "stack")  # whose values are alike likely: of the others the rule's is closest to runs
_SAID = ("overlap", "megatron-core", "mcore")


def outcome_over(row: CsvRow, model: Modelled, quantity: Quantity, shelf: CachedReader) -> ComparedFigure:
    """What a row's plan gives, with a band that also holds the plans it leaves open; their middle where no rule states
    which of them is likelier.
    """
    found = outcome(row, model, quantity)
    if found.quantity == FITS or found.low is None or found.high is None:
        return found
    every, alike = [found], [found]
    for name, values in _open_cells(row, model).items():
        others = [one for value in values[1:] if (one := _other(_with(row, name, value), quantity, shelf)) is not None]
        every += others
        alike += others if name in UNRULED else []
        model.filled[name] = " or ".join(dict.fromkeys(map(_shown, values)))
    return _middle(found, [one.predicted for one in alike], [one.predicted for one in every])


def _middle(found: ComparedFigure, alike: Sequence[float], every: Sequence[float]) -> ComparedFigure:
    """The median of predictions that are alike likely, with a band that also holds how far all lie apart."""
    if len(every) == 1:
        return found
    middle = math.exp(float(np.median(np.log(alike))))
    assert found.low is not None and found.high is not None  # noqa: PT018
    ends = ((found.low, min(every)), (found.high, max(every)))
    below, above = (
        combined_error(end_spread(found.predicted, end), range_spread(middle, furthest)) for end, furthest in ends
    )
    low, high = number(tenth_percentile(middle, below)), number(ninetieth_percentile(middle, above))
    return replace(found, predicted=middle, low=low, high=high)


def _other(row: CsvRow, quantity: Quantity, shelf: CachedReader) -> ComparedFigure | None:
    """What another plan would give, if the software allows it and memory holds it."""
    try:
        model = modelled(row, shelf)
        found = outcome(row, model, quantity)
    except CannotModel:
        return None
    fits = bool(model.answer.evaluation.costs.column("memory_share")[0] <= 1)
    return found if fits and found.predicted > 0 else None


def _with(row: CsvRow, name: str, value: float | str) -> CsvRow:
    if name == "schedule":
        return with_schedule(row, str(value))
    if name == "stack":
        return replace(row, written={**row.written, "framework": str(value)})
    return replace(row, cells={**row.cells, name: float(value)}, written={**row.written, name: f"{value:g}"})


def _open_cells(row: CsvRow, model: Modelled) -> dict[str, list[float | str]]:
    """The cells of the plan that are not stated, each with its assumed value and then the others it may have."""
    stack, plan, filled = model.answer.inputs.stack, model.answer.plan, model.filled
    opened: dict[str, list[float | str]] = {}
    share = float(model.answer.inputs.global_batch / model.answer.evaluation.block.dp[0])
    if "micro_batch" in filled and row.number("grad_accum") is None:
        opened["micro_batch"] = _first(plan.micro_batch, [size for size in SIZES if share % size == 0])
    if plan.pp > 1:
        named = schedule_written(row)
        if named and named.lower() not in SCHEDULES:
            opened["schedule"] = _first(str(model.answer.evaluation.block.structure.schedule), list(stack.schedules))
        elif not named and row.number("vp") is None and "interleaved" in stack.schedules:
            count = share / plan.micro_batch
            fullest = math.ceil(layer_count(model.answer.inputs.model) / plan.pp)
            chunks = [v for v in range(1, MOST_CHUNKS + 1) if fullest % v == 0 and (v == 1 or count % plan.pp == 0)]
            opened["vp"] = _first(plan.vpp, [float(v) for v in chunks])
    features = row.text("features") or filled.get("features", "")
    stated = f"{row.text('framework')} {features} {row.text('notes')}".lower()
    if filled.get("stack") == MEGATRON[0] and not any(word in stated for word in _SAID):
        opened["stack"] = list(MEGATRON)
    return {name: values for name, values in opened.items() if len(values) > 1}


def _first(value: float | str, others: Sequence[float | str]) -> list[float | str]:
    """A value and the others behind it."""
    return [value, *(other for other in others if other != value)]


def _shown(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
