"""The parts of a page about a search: the front, the best plans, why others are refused, and plans to choose among."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from costmodel.documents.schemas.results import TRAINING_COLUMNS, machine_name
from costmodel.estimate.evaluate.evaluate_plans import verdict
from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.estimate.shared.remarks import REMARKS
from costmodel.explore.page.ranked_nodes import MOST, TRACED, key_of
from costmodel.explore.page.reachable_plans import AXES
from costmodel.explore.search.search import TrainingSearch
from costmodel.explore.search.training_space import Ranked
from costmodel.explore.structure_words import short_words
from costmodel.ground.plan_sizes import HEADS, IN_ORDER, OF_ITSELF_ONE
from costmodel.ground.units import gib, percent, rounded_percent, significant
from costmodel.report.document import Cell
from costmodel.report.page.content import PageTable, Part
from costmodel.report.page.plots import Plot, PlotAxis, PlotPoint
from costmodel.report.page.row_commands import row_commands
from costmodel.report.page.trace import Traces
from costmodel.report.page.values import TERM_WORDS, round_unit, seconds
from costmodel.report.terminal.plan.plan_settings import plan_settings
from costmodel.report.terminal.search.ranking import safe_words
from costmodel.report.terminal.style.formatting import result

_DOTS = 200  # plans of a ranking that are drawn
_DIGITS = 7  # of figures of ranked plans
_FRONT = ("memory_peak", "step_time")


def ranking_part(found: TrainingSearch) -> Part:
    """The best plans, to sort and to filter."""
    best, tally = found.best, found.tally
    counts = f"{tally.candidates:,} plans, {tally.evaluated:,} valid, {tally.fit:,} fit{safe_words(found)}."
    sizes = [name for name in IN_ORDER if name not in OF_ITSELF_ONE or any(plan.sizes[name] != 1 for plan in best)]
    varied = list(found.values(0))
    heads = ("#", *(path.rpartition(".")[2] for path in varied), *(HEADS[name] for name in sizes),
             "zero", "recompute", "step s", "P90 s", "tok/s/GPU", "MFU %", "GiB", "verdict")  # fmt: skip
    rows = [(*_row(found, place, plan, sizes, varied),) for place, plan in enumerate(best, 1)]
    ahead = [""] * (len(heads) - 1 - len(TRACED))
    align = f"r{'l' * len(varied)}{'r' * len(sizes)}rlrrrrrl"
    words = f"The {len(best):,} best by {found.inputs.case.scenario.objective}"
    return Part(
        "plans",
        "The best plans",
        f"{counts} A plan's number opens all of it, and what it loses against the first. Its figures open their "
        "equations, or the command that prints them. Heads sort.",
        tables=[PageTable(heads, rows, align, words, sortable=True, rows_data="plans",
                          figures=[*ahead, *TRACED, ""], whole=True)],
    )  # fmt: skip


def _row(found: TrainingSearch, place: int, plan: Ranked, sizes: Sequence[str], varied: Sequence[str]) -> list[Cell]:
    costs, values = plan.costs, found.values(plan.variant)
    return [
        str(place),
        *(values[path] for path in varied),
        *(f"{plan.sizes[name]:g}" for name in sizes),
        str(plan.structure.zero),
        short_words(plan.structure),
        significant(costs["step_time"], 4),
        significant(costs["step_time_high"], 4),
        significant(costs["tokens_per_s_per_gpu"], 4),
        significant(costs["mfu"] * 100, 3),
        gib(costs["memory_peak"]),
        f"at risk: {rounded_percent(costs['fit_chance'])}"
        if "N023" in plan.remarked
        else verdict(costs["memory_share"]),
    ]


def front_part(found: TrainingSearch) -> Part | None:
    """The plans that none beats in both results."""
    if found.tally.front is None or not found.tally.front.rows:
        return None
    axes = found.tally.front.axes
    return Part(
        "front",
        "Memory against time" if (axes.x, axes.y) == _FRONT else f"{axes.x} against {axes.y}",
        f"On the front lie {len(found.tally.front.rows):,} plans that no other beats in both.",
        [front_figure(found)],
    )


def front_figure(found: TrainingSearch) -> Plot:
    """The front, the best plans, and the scenario's own."""
    front = found.tally.front
    x, y = (front.axes.x, front.axes.y) if front else _FRONT
    points = [_point(plan.costs, x, y, "quiet", f"plan {place}") for place, plan in enumerate(found.best[:_DOTS], 1)]
    points += [_point(plan.costs, x, y, "first", "on the front") for plan in (front.rows if front else ())]
    points += [_point(found.best[0].costs, x, y, "third", "best", label="best", radius=7)] if found.best else []
    if found.yours is not None and found.your_rank is not None:
        costs = found.yours.evaluation.costs.row()
        points.append(_point(costs, x, y, "second", "yours", label="yours", radius=7, hollow=True))
    points = [point for point in points if math.isfinite(point.x) and math.isfinite(point.y)]
    legend = [("first", "on the front"), ("quiet", "among the best"), ("third", "best"), ("second", "yours")]
    seen = {point.role for point in points}
    return Plot(
        "front",
        f"{x} against {y}",
        f"{len(points)} plans; {TRAINING_COLUMNS[x].better} {x} and {TRAINING_COLUMNS[y].better} {y} are better.",
        _axis_of(x, [point.x for point in points]),
        _axis_of(y, [point.y for point in points]),
        points,
        legend=[entry for entry in legend if entry[0] in seen],
    )


def _axis_of(name: str, values: Sequence[float]) -> PlotAxis:
    """An axis of a result, round in the unit that it is shown in."""
    unit = round_unit(name, TRAINING_COLUMNS[name].unit, max(values, default=1.0))
    words = f"{name}, {TRAINING_COLUMNS[name].better} is better"
    return PlotAxis(words, lambda value: result(name, value, bare=True), unit=unit)


def _point(costs: dict[str, float], x: str, y: str, role: str, words: str, **look: Any) -> PlotPoint:
    values = costs.get(x, math.nan), costs.get(y, math.nan)
    tip = f"{words}: {result(x, values[0])}, {result(y, values[1])}"
    return PlotPoint(*values, role, tip, words, **look)


def why_part(found: TrainingSearch) -> Part | None:
    """Reasons, and how many plans each refuses."""
    total = found.tally.candidates
    counts = [(code, count) for code, count in found.tally.refused.most_common() if count]
    if not counts:
        return None
    rows = [(code, REFUSALS[code].title, f"{count:,}", percent(count / total), REFUSALS[code].meaning)
            for code, count in counts]  # fmt: skip
    heads = ("code", "why", "plans", "of all", "what it means")
    lead = "Each refused plan counts under the first reason that applies."
    return Part("why-not", "Why not the others", lead, tables=[PageTable(heads, rows, "llrrl")])


# ── data for the script ──────────────────────────────────────────────────────────────────────────────────────────────


def plans_data(found: TrainingSearch, traces: Traces) -> dict[str, Any]:
    """Ranked plans as columns, what makes the scenario's plan each of them, and the traces that the page holds."""
    places = {name: [traces.of(key_of(place, name)) for place in range(min(MOST, len(found.best)))] for name in TRACED}
    held = {name: [place for place in found_places if place is not None] for name, found_places in places.items()}
    notes = [_why_not(found, plan) for plan in found.best]
    return {"columns": _columns(found.best), **_commands(found, found.best), "notes": notes, "traces": held}


def _commands(found: TrainingSearch, plans: Sequence[Ranked]) -> dict[str, Any]:
    wanted = ({**found.values(plan.variant), **plan_settings(found.inputs_of(plan.variant), plan)} for plan in plans)
    return row_commands(found.inputs.case, wanted)


def _why_not(found: TrainingSearch, plan: Ranked) -> list[str]:
    """What a plan loses against the best, and what there is to remark."""
    stated = [f"{code} {REMARKS[code].title}: {REMARKS[code].meaning}" for code in plan.remarked]
    best = found.best[0]
    gap = plan.costs["step_time"] - best.costs["step_time"]
    if plan is best or not math.isfinite(gap):
        return stated
    moved = [(plan.costs[name] - best.costs[name], words) for name, words in TERM_WORDS.items()
             if math.isfinite(plan.costs.get(name, math.nan) + best.costs.get(name, math.nan))]  # fmt: skip
    shown = sorted((item for item in moved if abs(item[0]) > abs(gap) / 20), key=lambda item: -abs(item[0]))[:4]
    terms = ", ".join(f"{words} {_signed(value)}" for value, words in shown)
    return [f"Against plan 1: {_signed(gap)} a step. {terms[:1].upper()}{terms[1:]}.", *stated]


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else '−'}{seconds(abs(value))}"


def choices_data(found: TrainingSearch, plans: Sequence[Ranked]) -> dict[str, Any] | None:
    """Plans for the sliders: the axes that vary, columns, and a sentence for each."""
    axes = [_axis(name, plans) for name in AXES]
    axes = [axis for axis in axes if len(axis["values"]) > 1]
    if not axes:
        return None
    own = _own_place(found, plans)
    own_step = found.yours.evaluation.costs.row()["step_time"] if found.yours is not None else math.nan
    sentences = [_sentence(plan, own_step) for plan in plans]
    fits = [plan.costs["memory_share"] <= 1 for plan in plans]
    return {"axes": axes, "columns": _columns(plans), "own": own, "sentences": sentences, "fits": fits,
            **_commands(found, plans)}  # fmt: skip


def _axis(name: str, plans: Sequence[Ranked]) -> dict[str, Any]:
    values = {plan.structure.recompute if name == "recompute" else plan.sizes[name] for plan in plans}
    ordered = (
        [word for word in ("none", "selective", "full") if word in values] if name == "recompute" else sorted(values)
    )
    return {"name": name, "label": name.replace("_", "-"), "values": [_plain(value) for value in ordered]}


def _own_place(found: TrainingSearch, plans: Sequence[Ranked]) -> int:
    """The plan that the sliders start at: the scenario's own settings, else the best."""
    if found.yours is not None:
        block = found.yours.evaluation.block
        wanted = tuple(float(getattr(block, name)[0]) for name in AXES[:-1]), block.structure.recompute
    else:
        best = found.best[0] if found.best else plans[0]
        wanted = tuple(best.sizes[name] for name in AXES[:-1]), best.structure.recompute
    keys = [(tuple(plan.sizes[name] for name in AXES[:-1]), plan.structure.recompute) for plan in plans]
    return keys.index(wanted) if wanted in keys else 0


def _sentence(plan: Ranked, own_step: float) -> str:
    costs = plan.costs
    words = f"{seconds(costs['step_time'])} a step at {percent(costs['mfu'])} MFU"
    room = verdict(costs["memory_share"])
    stated = f"{words}; {gib(costs['memory_peak'])} GiB, {percent(costs['memory_share'])} of what is usable: {room}."
    ratio = own_step / costs["step_time"]
    return f"{stated} {ratio:.2f} × as fast as the scenario's plan." if math.isfinite(ratio) else stated


_RESULTS = ("step_time", "step_time_low", "step_time_high", "tokens_per_s_per_gpu", "mfu", "hfu", "cost_per_mtoken",
            "memory_peak", "memory_share")  # fmt: skip


def _columns(plans: Sequence[Ranked]) -> list[dict[str, Any]]:
    """Sizes, choices, results and terms of plans, each a column."""
    columns = [_column(name, name, "", [plan.sizes[name] for plan in plans]) for name in IN_ORDER]
    columns += [
        _column(name, name, "", [getattr(plan.structure, name) for plan in plans])
        for name in ("zero", "recompute", "schedule", "sequence_parallel")
    ]
    for name in (*_RESULTS, *TERM_WORDS):
        values = [plan.costs.get(name, math.nan) for plan in plans]
        if any(math.isfinite(value) for value in values):
            column = _column(machine_name(name), TERM_WORDS.get(name, name), TRAINING_COLUMNS[name].unit, values)
            columns.append(column | {"figure": name})
    return columns


def _column(name: str, label: str, unit: str, values: Sequence[Any]) -> dict[str, Any]:
    return {"name": name, "label": label, "unit": {"1/s": "token/s"}.get(unit, unit), "values": [*map(_plain, values)]}


def _plain(value: Any) -> Any:
    """A value to seven digits, whole where it is whole, nothing where it is not known."""
    if isinstance(value, bool) or not isinstance(value, float | int):
        return value
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() else short
