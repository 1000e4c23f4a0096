"""Answers of sweep and scale."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from rich.text import Text

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.results import OF_RUN, OF_STEP, TRAINING_COLUMNS, is_money, is_of_run, machine_name
from costmodel.estimate.evaluate.answer_facts import facts_of, row_facts
from costmodel.estimate.evaluate.evaluate_plans import fits_at_p90
from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.explore.compare.plan_figures import choices
from costmodel.explore.vary.scale import Scaled, ScaleRow
from costmodel.explore.vary.sweep import SweepPoint, Swept
from costmodel.ground.counts import number_of
from costmodel.ground.errors import fail
from costmodel.ground.units import percent, show_time, significant
from costmodel.report.machine.answer_fields import notes
from costmodel.report.machine.json_answer import conflicts, held, whole_plan
from costmodel.report.terminal.plan.plan_lines import searched
from costmodel.report.terminal.plan.plan_words import brief_words, verdict_words
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.charts import line
from costmodel.report.terminal.style.formatting import TIME_TERMS, joined, result, spaced
from costmodel.report.terminal.style.head import (
    fact_fields,
    head_of,
    hourly,
    price_fields,
    price_varies,
    prices,
    title,
)
from costmodel.report.terminal.style.layout import CellTable, Line, WidthDrawing
from costmodel.report.terminal.style.remark_lines import assumed_of_all, remarks
from costmodel.report.terminal.style.theme import BAD, DIM, WARN, bar, styled

SIZES_OF_A_CLUSTER = ("cluster.nodes", "cluster.node.accelerators", "plan.replicas")
_TERMS = {key: title for title, key in TIME_TERMS}
_SPOKEN = {
    "cluster.node.scale_out.fabric.bandwidth": "network bandwidth",
    "cluster.node.scale_up.fabric.bandwidth": "scale-up bandwidth",
    "cluster.node.accelerator.memory.bandwidth": "memory bandwidth",
}
_SHORTER = {
    "cluster.node.": "",
    "accelerator.peak.": "peak ",
}


def short_path(path: str) -> str:
    """A path without what every path of hardware begins with."""
    if path in _SPOKEN:
        return _SPOKEN[path]
    for long, brief in _SHORTER.items():
        path = path.replace(long, brief)
    return path


# ── sweep ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def sweep(found: Swept, *, chart: bool = False) -> list[Line]:
    """A row a combination: what was set, what came out, and what is wrong where something is."""
    varied, priced = [axis.path for axis in found.axes], any(map(is_money, found.shown))
    each = priced and price_varies(varied)
    lines: list[Line] = [*head_of(found.case, varied, priced=priced)]
    lines += searched(found.case, varied) if found.best else []
    if len(found.points) < found.total:
        lines.append(styled(f"Stopped after {len(found.points):,} of {found.total:,} combinations.", BAD))
    lines += [Text(), _combinations(found, priced=each)]
    if each:
        lines += prices(point.facts.price for point in found.points if point.facts)
    lines += _remarks(found.points, "N003", "N023")
    lines += _unequal(found)
    if chart:
        lines += [Text(), _chart(found)]
    broken = sum(not point.costs for point in found.points)
    count = len(found.points)
    counted = number_of(count, "point") + (f", {broken:,} without an answer" if broken else "")
    made = "the best of costmodel search" if found.best else "costmodel estimate"
    return [*lines, Text(), styled(f"{counted}; each is {made} with its --set.", DIM)]


def _combinations(found: Swept, *, priced: bool) -> CellTable:
    """The table of a sweep; with a column of prices where each row has its own."""
    first = found.shown[0]
    most = max((value for point in found.points if (value := point.costs.get(first, 0.0)) > 0), default=0.0)
    rows = []
    for point in found.points:
        set_to = [spaced(setting.partition("=")[2]) for setting in point.settings]
        costs = point.costs
        main, *others = (_figure(point, name) for name in found.shown)
        bars = bar(value / most, 16) if most > 0 and (value := costs.get(first, math.nan)) >= 0 else ""
        price = (hourly(point.facts.price) if point.facts else "",) if priced else ()
        rows.append((*set_to, main, bars, *others, *price, why_words(point), *_planned(point, best=found.best)))
    paths = (short_path(axis.path) for axis in found.axes)
    names = [*paths, first, "", *found.shown[1:], *(["price"] if priced else []), "verdict"]
    align = "r" * (len(found.axes) + 1) + "l" + "r" * (len(found.shown) - 1 + priced) + "l"
    if found.best:
        names, align = [*names, "best plan"], align + "l"
    return CellTable(names, rows, align, drop=("",))


def _figure(point: SweepPoint, name: str) -> str:
    """A result of one point; none of a plan that is refused, a dash for what one that fails does not have."""
    if point.broken and (is_money(name) or is_of_run(name)) and math.isnan(point.costs[name]):
        return "—"
    return result(name, point.costs.get(name, math.nan)) if point.costs else ""


def _planned(point: SweepPoint, *, best: bool) -> tuple[str, ...]:
    """The cell of the plan, where each point has one of its own."""
    return (brief_words(point.plan) if point.plan is not None and point.costs else "",) if best else ()


def _remarks(points: Sequence[SweepPoint], *shown: str) -> list[Line]:
    """What there is to remark on points with an answer, but for codes that the rows show."""
    found = [point for point in points if point.costs]
    codes = [[code for code in point.remarked if code not in shown] for point in found]
    nodes = [point.facts.node.name for point in found if point.facts is not None]
    return remarks(codes, [point.costs for point in found], nodes if len(nodes) == len(found) else ())


def _unequal(found: Swept) -> list[Line]:
    """That points have unlike numbers of accelerators, where none of them was varied."""
    sizes = dict.fromkeys(f"{point.facts.ranks:,.0f}" for point in found.points if point.facts and point.costs)
    if len(sizes) < 2 or any(axis.path in SIZES_OF_A_CLUSTER for axis in found.axes):
        return []
    words = f"  ▲ unequal: the points have {joined(sizes)} accelerators; tokens_per_s_per_gpu compares them"
    return [styled(words, WARN)]


def why_words(point: SweepPoint) -> str:
    """What speaks against a point, or how well it fits."""
    if point.fault is not None:
        return f"{point.fault.code} {point.fault.with_near_word}"
    if point.refused:
        first, *others = point.refused
        return ", ".join((f"{first} {REFUSALS[first].title}", *others))
    limits = [code for code in point.broken if code != "M001"]
    words = verdict_words(point.costs)
    return f"{words}, breaks {', '.join(limits)}" if limits else words


def _chart(found: Swept) -> WidthDrawing:
    """The first result along the only axis."""
    path, column = found.axes[0].path, found.shown[0]
    placed = [(point.values.get(path), point.costs.get(column, math.nan)) for point in found.points]
    points = [(x, y) for x, y in placed if isinstance(x, float) and math.isfinite(y)]
    if len(found.axes) != 1 or len(points) < 2:
        raise fail("C010", "a chart needs one axis of numbers with two answers or more", None, "leave --chart out")
    written = {
        x: spaced(point.settings[0].partition("=")[2])
        for (x, y), point in zip(placed, found.points, strict=True)
        if isinstance(x, float) and math.isfinite(y)
    }
    return line(points, (path, column), (tick_words, partial(result, column)), written=written)


def tick_words(value: float) -> str:
    """A value of a leaf on an axis."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= factor:
            return f"{significant(value / (1e3 if prefix == 'k' else factor))}{prefix}"
    return significant(value)


def sweep_json(found: Swept) -> dict[str, Any]:
    """All combinations as plain values."""
    names, known = list(found.shown), TRAINING_COLUMNS if found.case.scenario.run is None else OF_RUN
    return {
        **head("costmodel/sweep/v1"),
        "title": title(found.case),
        "facts": fact_fields(facts_of(found.case), [axis.path for axis in found.axes]),
        "axes": [{"path": axis.path, "values": list(axis.values)} for axis in found.axes],
        "columns": [
            {"name": machine_name(name), "unit": known[name].unit, "meaning": known[name].meaning} for name in names
        ],
        "complete": len(found.points) == found.total,
        "points": sweep_rows(found),
        "held": held(found.case, [axis.path for axis in found.axes]) if found.best else {},
        "notes": [*_conflicts(found), *notes(point.remarked for point in found.points)],
    }


def sweep_rows(found: Swept) -> list[dict[str, Any]]:
    """A row a combination, for tables of programs: SI numbers, names with units."""
    return [
        {
            **_row_facts(point, found.case, [axis.path for axis in found.axes]),
            "point": " ".join(point.settings),
            **{axis.path: point.values.get(axis.path) for axis in found.axes},
            **{machine_name(name): finite(point.costs.get(name)) for name in found.shown},
            "verdict": point.said,
            "fits_p90": _fits_p90(point),
            "fault": point.fault.sentence if point.fault else None,
            "notes": list(point.remarked),
            **({} if point.facts is None else price_fields(point.facts.price)),
            **(_whole(point) if found.best else {}),
        }
        for point in found.points
    ]


def _row_facts(point: SweepPoint, case: ResolvedScenario, varied: Collection[str]) -> dict[str, Any]:
    """What a row is of; of one with a fault what does not vary."""
    return row_facts(facts_of(case), varied) if point.facts is None else row_facts(point.facts)


def _whole(point: SweepPoint) -> dict[str, Any]:
    return whole_plan({} if point.plan is None else choices(point.plan))


def _fits_p90(point: SweepPoint) -> bool | None:
    return fits_at_p90(point.costs) if point.costs else None


def finite(value: float | None) -> float | None:
    """A number that JSON can hold."""
    return None if value is None or not math.isfinite(value) else value


# ── scale ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def scale(found: Scaled, *, verbose: bool = False) -> list[Line]:
    """A row a size, and where and why it bends; verbose, all assumptions too."""
    kind = "weak scaling, the batch grows with the ranks" if found.weak else "strong scaling, the same batch"
    rows = [(*_size_cells(row), *_planned(row.point, best=found.best)) for row in found.rows]
    names, align = ["ranks", "step", "", "efficiency", "MFU", "what grows, of the step"], "rrlrrl"
    if found.best:
        names, align = [*names, "best plan"], align + "l"
    if found.case.scenario.workload.critical_batch is not None:
        names, align = [*names, "to the loss"], align + "r"
        rows = [(*cells, _to_loss(row)) for cells, row in zip(rows, found.rows, strict=True)]
    grid = CellTable(names, rows, align, drop=("",))
    lines: list[Line] = [*head_of(found.case, _sized(found))]
    lines.append(styled(f"{kind}{', the best plan at each size' if found.best else ''}"))
    lines += searched(found.case) if found.best else _freed(found)
    lines += [styled("Stopped before the last size.", BAD)] if found.stopped else []
    noted = _remarks([row.point for row in found.rows], "N003")
    noted += [Text(), *assumed_of_all(row.assumed for row in found.rows)] if verbose else []
    return [*lines, Text(), grid, *noted, Text(), styled(bend(found)), *map(styled, (*_paying(found), *found.cautions))]


def _to_loss(row: ScaleRow) -> str:
    return "" if math.isnan(row.to_loss) else percent(row.to_loss)


def _paying(found: Scaled) -> Iterator[str]:
    """Where more accelerators stop paying: where twice as many leave over three quarters of the time to a loss."""
    known = [row for row in found.rows if not math.isnan(row.to_loss)]
    if len(known) < 2:
        return
    if found.pays is None:
        yield f"More GPUs pay up to {known[-1].ranks:,.0f}: a doubling saves a quarter of the time to the loss or more."
        return
    before, after = found.rows[found.pays], next(row for row in known if row.ranks > found.rows[found.pays].ranks)
    time, more = after.to_loss / before.to_loss, after.ranks / before.ranks
    takes = f"{significant(more)} times as many take {percent(time)} of the time to the loss"
    hours = f"{significant(time * more)} times the GPU hours"
    yield f"More GPUs stop paying after {before.ranks:,.0f}: {takes}, and {hours}."


def _sized(found: Scaled) -> list[str]:
    """What changes from size to size."""
    each = found.case.node.accelerators
    parts = ["cluster.node.accelerators"] if any(row.ranks < each for row in found.rows) else []
    return ["cluster.nodes", *parts, *(["workload.global_batch"] if found.weak else [])]


def _freed(found: Scaled) -> list[Line]:
    """What is written of the plan and cannot stay."""
    plan = found.case.scenario.plan
    if plan is None or plan.dp is None:
        return []
    return [styled(f"dp follows from the ranks; the {plan.dp:.0f} of the plan is left out", WARN)]


def _size_cells(row: ScaleRow) -> tuple[str, ...]:
    ranks, costs = f"{row.ranks:,.0f}", row.point.costs
    if not costs:
        return ranks, "", "", "", "", why_words(row.point)
    step, share = show_time(costs["step_time"]), percent(row.efficiency)
    return ranks, step, bar(row.efficiency, 10), share, percent(costs["mfu"]), _grew(row)


def _grew(row: ScaleRow) -> str:
    """Terms that grew, and when the plan does not fit, that."""
    stated = ", ".join(f"{_TERMS.get(term, term)} {share * 100:.1f} %" for term, share in row.grew)
    return "; ".join(part for part in (stated, "" if row.point.works else why_words(row.point)) if part)


def bend(found: Scaled) -> str:
    """Where a doubling first keeps less than 95 %, and why."""
    known = [row for row in found.rows if row.point.costs]
    if len(known) < 2:
        return "With one size there is no trend." if known else "No size has an answer."
    if found.bend is None:
        return f"No bend up to {known[-1].ranks:,.0f}: every doubling keeps 95 % or more."
    before, after = found.rows[found.bend], next(row for row in found.rows[found.bend + 1 :] if row.point.costs)
    stated = [_TERMS.get(term, term) for term, _ in after.grew[:2]]
    reason = f"{joined(stated)} grow{'s' if len(stated) == 1 else ''}" if stated else "no single term grows"
    if "bubble" in dict(after.grew) and before.waves != after.waves:
        reason += f"; micro-batches of a replica fall from {_waves(before)} to {_waves(after)} × pp"
    return f"Bends after {before.ranks:,.0f}: {reason}."


def _waves(row: ScaleRow) -> str:
    return significant(row.waves) if not row.waves.is_integer() else f"{row.waves:.0f}"


def scale_json(found: Scaled) -> dict[str, Any]:
    """All sizes as plain values."""
    return {
        **head("costmodel/scale/v1"),
        "title": title(found.case),
        "facts": fact_fields(facts_of(found.case), _sized(found)),
        "kind": "weak" if found.weak else "strong",
        "bends_after": None if found.bend is None else found.rows[found.bend].ranks,
        "why": bend(found),
        "cautions": list(found.cautions),
        "complete": not found.stopped,
        "sizes": [_size(row, found.case, _sized(found)) for row in found.rows],
        "held": held(found.case) if found.best else {},
        "notes": [*_conflicts(found), *notes(row.point.remarked for row in found.rows)],
    }


def _conflicts(found: Swept | Scaled) -> list[dict[str, str]]:
    """Where --set and the search disagree, if each answer is the best of a search."""
    return conflicts(found.case) if found.best else []


def _size(row: ScaleRow, case: ResolvedScenario, varied: Collection[str]) -> dict[str, Any]:
    return {
        **_row_facts(row.point, case, varied),
        "ranks": row.ranks,
        "efficiency": finite(row.efficiency),
        **({} if math.isnan(row.to_loss) else {"time_to_loss": row.to_loss}),
        **{machine_name(name): finite(row.point.costs.get(name)) for name in OF_STEP | row.point.costs},
        **_whole(row.point),
        "grew": " ".join(term for term, _ in row.grew),
        "verdict": row.point.said,
        "fits_p90": _fits_p90(row.point),
        "fault": row.point.fault.sentence if row.point.fault else None,
        "notes": list(row.point.remarked),
        **({} if row.point.facts is None else price_fields(row.point.facts.price)),
    }
