"""All plans that the software allows where a row does not state its plan, with their middle and range."""

from __future__ import annotations

import math
from collections import defaultdict
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
from costmodel.evidence.validate.modelled_rows import Modelled, modelled_rows
from costmodel.evidence.validate.outcomes import FITS, ComparedFigure, Quantity, outcome
from costmodel.evidence.validate.skip_reasons import CannotModel
from costmodel.evidence.validate.spelling import SCHEDULES, schedule_written, with_schedule
from costmodel.exchange.tables.csv_cells import CsvRow

SIZES = (1.0, 2.0, 4.0, 8.0)
MOST_CHUNKS = 8
MEGATRON = ("megatron-lm", "megatron-core")  # its defaults, under which nothing overlaps, and what most runs turn on
UNRULED = ("schedule", "stack")  # whose values are alike likely: of the others the rule's is closest to runs
_SAID = ("overlap", "megatron-core", "mcore")
RowOutcome = tuple[ComparedFigure, dict[str, str]] | CannotModel  # a figure with the imputed cells of its row


def outcomes_over(
    rows: Sequence[tuple[CsvRow, Modelled | CannotModel]], quantity: Quantity, shelf: CachedReader
) -> list[RowOutcome]:
    """Predicts each row, with a band over the plans that its cells leave open; the middle where none is likelier.
    Open plans of all rows are evaluated together.
    """
    found = [_outcome(row, model, quantity) for row, model in rows]
    opened = list[tuple[int, str, CsvRow]]()
    for place, ((row, _), own) in enumerate(zip(rows, found, strict=True)):
        if isinstance(own, CannotModel) or own[0].quantity == FITS or own[0].low is None:
            continue
        for name, values in _open_cells(row, own[1]).items():
            opened += [(place, name, _with(row, name, value)) for value in values[1:]]
            own[1].filled[name] = " or ".join(dict.fromkeys(map(_shown, values)))
    every, alike = defaultdict[int, list[float]](list), defaultdict[int, list[float]](list)
    others = modelled_rows([row for _, _, row in opened], shelf)
    for (place, name, row), other in zip(opened, others, strict=True):
        predicted = _predicted(row, other, quantity)
        every[place] += predicted
        alike[place] += predicted if name in UNRULED else []
    return [
        own if isinstance(own, CannotModel) else (_middle(own[0], alike[place], every[place]), own[1].filled)
        for place, own in enumerate(found)
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


def _predicted(row: CsvRow, model: Modelled | CannotModel, quantity: Quantity) -> list[float]:
    """The figure of an alternative plan; empty where the software does not allow the plan or it does not fit."""
    found = _outcome(row, model, quantity)
    if isinstance(found, CannotModel):
        return []
    figure, model = found
    return [figure.predicted] if model.figure("memory_share") <= 1 and figure.predicted > 0 else []


def _middle(found: ComparedFigure, alike: Sequence[float], every: Sequence[float]) -> ComparedFigure:
    """The median over equally likely plans, with a band that is widened to cover all alternatives."""
    if not every:
        return found
    middle = math.exp(float(np.median(np.log([found.predicted, *alike]))))
    assert found.low is not None and found.high is not None  # noqa: PT018
    ends = ((found.low, min(found.predicted, *every)), (found.high, max(found.predicted, *every)))
    below, above = (
        combined_error(end_spread(found.predicted, end), range_spread(middle, furthest)) for end, furthest in ends
    )
    low, high = number(tenth_percentile(middle, below)), number(ninetieth_percentile(middle, above))
    return replace(found, predicted=middle, low=low, high=high)


def _with(row: CsvRow, name: str, value: float | str) -> CsvRow:
    if name == "schedule":
        return with_schedule(row, str(value))
    if name == "stack":
        return replace(row, written={**row.written, "framework": str(value)})
    return replace(row, cells={**row.cells, name: float(value)}, written={**row.written, name: f"{value:g}"})


def _open_cells(row: CsvRow, model: Modelled) -> dict[str, list[float | str]]:
    """Cells of the plan that the row does not state: the assumed value of each, then its alternatives."""
    stack, block, filled = model.inputs.stack, model.evaluation.block, model.filled
    opened: dict[str, list[float | str]] = {}
    dp, pp, vpp, size = (model.of_row(one) for one in (block.dp, block.pp, block.vpp, block.micro_batch))
    share = model.of_row(model.inputs.global_batch) / dp
    if "micro_batch" in filled and row.number("grad_accum") is None:
        opened["micro_batch"] = _first(size, [other for other in SIZES if share % other == 0])
    if pp > 1:
        named = schedule_written(row)
        if named and named.lower() not in SCHEDULES:
            opened["schedule"] = _first(str(block.structure.schedule), list(stack.schedules))
        elif not named and row.number("vp") is None and "interleaved" in stack.schedules:
            count = share / size
            fullest = math.ceil(layer_count(model.inputs.model) / pp)
            chunks = [v for v in range(1, MOST_CHUNKS + 1) if fullest % v == 0 and (v == 1 or count % pp == 0)]
            opened["vp"] = _first(vpp, [float(v) for v in chunks])
    features = row.text("features") or filled.get("features", "")
    stated = f"{row.text('framework')} {features} {row.text('notes')}".lower()
    if filled.get("stack") == MEGATRON[0] and not any(word in stated for word in _SAID):
        opened["stack"] = list(MEGATRON)
    return {name: values for name, values in opened.items() if len(values) > 1}


def _first(value: float | str, others: Sequence[float | str]) -> list[float | str]:
    """The assumed value, followed by the alternatives without it."""
    return [value, *(other for other in others if other != value)]


def _shown(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
