"""Parts of a training plan's page: roofline, timeline of stages, and sliders over computed plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from costmodel.documents.schemas.results import TRAINING_COLUMNS, machine_name
from costmodel.estimate.training_answer.evaluate_training import verdict
from costmodel.explore.page.plan_facts import Operation, PlanFacts, TimelineWindow, rooflines
from costmodel.explore.page.report_facts import AXES
from costmodel.explore.search.search import TrainingSearch
from costmodel.explore.search.training_remedies import plan_settings
from costmodel.explore.search.training_space import Ranked
from costmodel.ground.counts import IN_ORDER
from costmodel.ground.units import gib, percent, show, show_time, significant
from costmodel.report.page.document_page import row_commands
from costmodel.report.page.plots import (
    TERM_WORDS,
    Plot,
    PlotAxis,
    PlotLine,
    PlotPoint,
    PlotSpan,
    SvgFigure,
    Timeline,
    time_text,
)

# --- figures of a training plan: its products under the roofs, and the timeline of its stages


_ROLES = {"F": "forward", "B": "backward", "W": "weight"}
_WORDS = {"F": "forward", "B": "backward", "W": "weight gradient"}


def roofline_figure(operations: Sequence[Operation]) -> Plot:
    """A roofline: FLOP per byte against FLOP per second, both logarithmic."""
    limits, longest = rooflines(list(operations)), max(item.seconds for item in operations)
    intensities = [item.intensity for item in operations] + [roof.ridge for roof in limits]
    low, high = min(intensities) / 3, max(intensities) * 2.5
    fastest = show(max(operation.attained for operation in operations), "FLOP/s")
    lines = []
    for roof in limits:
        corners = [(low, low * roof.bandwidth), (roof.ridge, roof.peak), (high, roof.peak)]
        lines.append(PlotLine([corner for corner in corners if low <= corner[0] <= high], "fourth",
                              f"peak {show(roof.peak, 'FLOP/s')}"))  # fmt: skip
    points = [
        PlotPoint(item.intensity, item.attained, _role_of_direction(item.name),
                  f"{item.name}: {show(item.attained, 'FLOP/s')}, {show_time(item.seconds)}", item.name,
                  radius=3 + 8 * (item.seconds / longest) ** 0.5)
        for item in operations
    ]  # fmt: skip
    bottom = min([item.attained for item in operations] + [low * limits[-1].bandwidth]) / 1.5
    seen = dict.fromkeys(point.role for point in points)
    return Plot(
        "roofline",
        "Roofline of the matrix products",
        f"{len(operations)} matrix products; the fastest reaches {fastest}.",
        PlotAxis("FLOP for each byte", lambda value: significant(value, 3).removesuffix(".0"), True, (low, high)),
        PlotAxis("FLOP/s", lambda value: show(value, ""), True, (bottom, limits[0].peak * 1.5)),
        points,
        lines,
        [(role, _DIRECTIONS[role]) for role in _DIRECTIONS if role in seen],
    )


_DIRECTIONS = {"first": "forward", "second": "input gradient", "third": "weight gradient"}


def _role_of_direction(name: str) -> str:
    return next((role for role, words in _DIRECTIONS.items() if name.endswith(words)), "first")


def timeline_figures(facts: PlanFacts) -> list[Callable[[float], SvgFigure]]:
    """A timeline of every window that is drawn."""
    return [_pipeline_timeline(facts, window, place) for place, window in enumerate(facts.windows)]


def _pipeline_timeline(facts: PlanFacts, window: TimelineWindow, place: int) -> Timeline:
    """The timeline of a window of the pipeline: a lane per rank, a span per operation."""
    ranks = sorted({event.rank for event in window.events})
    spans = [
        PlotSpan(
            ranks.index(event.rank),
            event.start,
            event.end,
            _ROLES[event.kind],
            str(event.micro_batch),
            f"rank {event.rank}, {_WORDS[event.kind]} of micro-batch {event.micro_batch}: "
            f"{time_text(event.start)} to {time_text(event.end)}",
        )
        for event in window.events
    ]
    kinds = dict.fromkeys(event.kind for event in window.events)
    alone = len(facts.windows) == 1
    title = "Timeline of the pipeline" if alone else f"Timeline of the pipeline, its {('beginning', 'end')[place]}"
    return Timeline(
        f"pipeline-{place}",
        title,
        f"{len(ranks)} ranks from {time_text(window.start)} to {time_text(window.end)}; grey is waiting.",
        [f"rank {rank}" for rank in ranks],
        spans,
        (window.start, window.end),
        time_text,
        [*((_ROLES[kind], _WORDS[kind]) for kind in "FBW" if kind in kinds), ("quiet", "waits")],
    )


# --- plans to choose among with the sliders of a page


_DIGITS = 7  # of figures


def _plan_commands(search_result: TrainingSearch, plans: Sequence[Ranked]) -> dict[str, Any]:
    wanted = (
        {**search_result.values(plan.variant), **plan_settings(search_result.inputs_of(plan.variant), plan)}
        for plan in plans
    )
    return row_commands(search_result.inputs.case, wanted)


def choices_data(search_result: TrainingSearch, plans: Sequence[Ranked]) -> dict[str, Any] | None:
    """Plans for the sliders: the axes that vary, columns, and a sentence for each."""
    axes = [_axis_fields(name, plans) for name in AXES]
    axes = [axis for axis in axes if len(axis["values"]) > 1]
    if not axes:
        return None
    own = _own_place(search_result, plans)
    own_step = search_result.yours.evaluation.costs.row()["step_time"] if search_result.yours is not None else math.nan
    sentences = [_plan_sentence(plan, own_step) for plan in plans]
    fits = [plan.costs["memory_share"] <= 1 for plan in plans]
    return {"axes": axes, "columns": _columns(plans), "own": own, "sentences": sentences, "fits": fits,
            **_plan_commands(search_result, plans)}  # fmt: skip


def _axis_fields(name: str, plans: Sequence[Ranked]) -> dict[str, Any]:
    """One slider as plain values: the key, its label and its values."""
    values = {plan.structure.recompute if name == "recompute" else plan.sizes[name] for plan in plans}
    ordered = (
        [word for word in ("none", "selective", "full") if word in values] if name == "recompute" else sorted(values)
    )
    return {"name": name, "label": name.replace("_", "-"), "values": [_plain_number(value) for value in ordered]}


def _own_place(search_result: TrainingSearch, plans: Sequence[Ranked]) -> int:
    """The place of the plan at which the sliders start: the scenario's own, else the best."""
    if search_result.yours is not None:
        block = search_result.yours.evaluation.block
        wanted = tuple(float(getattr(block, name)[0]) for name in AXES[:-1]), block.structure.recompute
    else:
        best = search_result.best[0] if search_result.best else plans[0]
        wanted = tuple(best.sizes[name] for name in AXES[:-1]), best.structure.recompute
    keys = [(tuple(plan.sizes[name] for name in AXES[:-1]), plan.structure.recompute) for plan in plans]
    return keys.index(wanted) if wanted in keys else 0


def _plan_sentence(plan: Ranked, own_step: float) -> str:
    """A sentence on a plan: time, memory, and how it compares with the scenario's own."""
    costs = plan.costs
    words = f"{time_text(costs['step_time'])} a step at {percent(costs['mfu'])} MFU"
    room = verdict(costs["memory_share"])
    stated = f"{words}; {gib(costs['memory_peak'])} GiB, {percent(costs['memory_share'])} of what is usable: {room}."
    ratio = own_step / costs["step_time"]
    return f"{stated} {ratio:.2f} × as fast as the scenario's plan." if math.isfinite(ratio) else stated


_RESULTS = ("step_time", "step_time_low", "step_time_high", "tokens_per_s_per_gpu", "mfu", "hfu", "cost_per_mtoken",
            "memory_peak", "memory_share")  # fmt: skip


def _columns(plans: Sequence[Ranked]) -> list[dict[str, Any]]:
    """Sizes, choices, results and terms of plans, each a column."""
    columns = [_column_fields(name, name, "", [plan.sizes[name] for plan in plans]) for name in IN_ORDER]
    columns += [
        _column_fields(name, name, "", [getattr(plan.structure, name) for plan in plans])
        for name in ("zero", "recompute", "schedule", "sequence_parallel")
    ]
    for name in (*_RESULTS, *TERM_WORDS):
        values = [plan.costs.get(name, math.nan) for plan in plans]
        if any(math.isfinite(value) for value in values):
            column = _column_fields(machine_name(name), TERM_WORDS.get(name, name), TRAINING_COLUMNS[name].unit, values)
            columns.append(column | {"figure": name})
    return columns


def _column_fields(name: str, label: str, unit: str, values: Sequence[Any]) -> dict[str, Any]:
    """One column of plan results as plain values."""
    return {
        "name": name,
        "label": label,
        "unit": {"1/s": "token/s"}.get(unit, unit),
        "values": [*map(_plain_number, values)],
    }


def _plain_number(value: Any) -> Any:
    """A number rounded to seven digits, an integer if it is whole, None if it is not finite."""
    if isinstance(value, bool) or not isinstance(value, float | int):
        return value
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() else short
