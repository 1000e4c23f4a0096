"""Figures of a search on a page: plans by two results, and what a plan loses against the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from costmodel.documents.schemas.results import ResultColumn
from costmodel.ground.record import record
from costmodel.ground.units import show_time
from costmodel.report.page.plots import Plot, PlotAxis, PlotPoint
from costmodel.report.page.values import round_unit

_LOST = 4  # terms of the time that a plan loses
_LEGEND = [("first", "on the front"), ("quiet", "among the best"), ("third", "best"), ("second", "yours")]
_WORKS = [("first", "works"), ("second", "breaks a limit, or may not work")]


@record
class DrawnPlan:
    """A plan of a figure: its results, its words, its colour and its label."""

    costs: Mapping[str, float]
    words: str
    role: str
    label: str = ""


def plans_plot(
    axes: tuple[str, str],
    plans: Sequence[DrawnPlan],
    columns: Mapping[str, ResultColumn],
    result: Callable[[str, float], str],
    *,
    front: bool,
) -> Plot:
    """A plot of plans by two results; front: whether they are a Pareto front and other plans, or a ranking."""
    points = [_point(plan, axes, result, front=front) for plan in plans]
    points = [point for point in points if math.isfinite(point.x) and math.isfinite(point.y)]
    across, up = (
        PlotAxis(
            f"{name.replace('_', ' ')}, {columns[name].better} is better",
            partial(result, name),
            unit=round_unit(name, columns[name].unit, max(values, default=1.0)),
        )
        for name, values in zip(axes, ([p.x for p in points], [p.y for p in points]), strict=True)
    )
    better = " and ".join(f"{columns[name].better} {name}" for name in axes)
    seen = {point.role for point in points}
    legend = [entry for entry in (_LEGEND if front else _WORKS) if entry[0] in seen]
    title, key = " against ".join(axes), "front" if front else "plans"
    return Plot(key, title, f"{len(points)} plans; {better} are better.", across, up, points, legend=legend)


def _point(plan: DrawnPlan, axes: tuple[str, str], result: Callable[[str, float], str], *, front: bool) -> PlotPoint:
    x, y = (plan.costs.get(name, math.nan) for name in axes)
    tip = f"{plan.words}: {result(axes[0], x)}, {result(axes[1], y)}"
    large = 7 if plan.label else 4 if front else 5
    return PlotPoint(x, y, plan.role, tip, plan.words, plan.label, large, plan.label == "yours")


def lost_time(
    costs: Mapping[str, float], best: Mapping[str, float], name: str, terms: Mapping[str, str], per: str
) -> str:
    """A sentence on the time that a plan loses against the best, by term; empty if it is not known."""
    gap = costs[name] - best[name]
    if not math.isfinite(gap):
        return ""
    moved = [
        (-1.0 if key == "overlapped" else 1.0, costs.get(key, math.nan) - best.get(key, math.nan), words)
        for key, words in terms.items()
    ]
    known = [(sign * value, words) for sign, value, words in moved if abs(value) > abs(gap) / 20]
    shown = ", ".join(f"{words} {_signed(value)}" for value, words in sorted(known, key=lambda it: -abs(it[0]))[:_LOST])
    more = f" {shown[:1].upper()}{shown[1:]}." if shown else ""
    return f"Against plan 1: {_signed(gap)} {per}.{more}"


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else '−'}{show_time(abs(value))}"
