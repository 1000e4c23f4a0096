"""The part of a page about the roofline: the matrix products of a step under the roofs of the accelerator."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.explore.page.operations import Operation, roofs
from costmodel.explore.page.plan_facts import PlanFacts
from costmodel.ground.units import percent, show, show_time, significant
from costmodel.report.document import Cell
from costmodel.report.page.content import PageTable, Part
from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint
from costmodel.report.page.values import Figures


def roofline_part(facts: PlanFacts, figures: Figures) -> Part | None:
    """The matrix products under the roofs of the accelerator."""
    if not facts.operations:
        return None
    limits = roofs(facts.operations)
    rows: list[Sequence[Cell]] = [
        (item.name, *(figures.other(f"operations.{place}.{name}", value, text) for name, (value, text) in
                      _figures_of(item).items()))
        for place, item in enumerate(facts.operations)
    ]  # fmt: skip
    stated = " and ".join(f"{show(roof.peak, 'FLOP/s')} from {show(roof.ridge, '')} FLOP/B" for roof in limits)
    return Part(
        "roofline",
        "Roofline",
        f"Each dot is one matrix product of a micro-batch, larger where it takes longer. The roof: {stated}.",
        [roofline_figure(facts.operations)],
        figures_as_table=PageTable(("operation", "FLOP/B", "attained", "time", "of the peak"), rows, "lrrrr"),
    )


def _figures_of(item: Operation) -> dict[str, tuple[float, str]]:
    """FLOP for each byte, FLOP a second, time, and the share of the peak."""
    part = item.attained / item.peak
    return {
        "intensity": (item.intensity, show(item.intensity, "")),
        "attained": (item.attained, show(item.attained, "FLOP/s")),
        "seconds": (item.seconds, show_time(item.seconds)),
        "of_peak": (part, percent(part)),
    }


def roofline_figure(found: Sequence[Operation]) -> Plot:
    """Work for each byte against work a second, both logarithmic."""
    limits, longest = roofs(list(found)), max(item.seconds for item in found)
    intensities = [item.intensity for item in found] + [roof.ridge for roof in limits]
    low, high = min(intensities) / 3, max(intensities) * 2.5
    lines = []
    for roof in limits:
        corners = [(low, low * roof.bandwidth), (roof.ridge, roof.peak), (high, roof.peak)]
        lines.append(PlotLine([corner for corner in corners if low <= corner[0] <= high], "fourth",
                              f"peak {show(roof.peak, 'FLOP/s')}"))  # fmt: skip
    points = [
        PlotPoint(item.intensity, item.attained, _direction(item.name),
                  f"{item.name}: {show(item.attained, 'FLOP/s')}, {show_time(item.seconds)}", item.name,
                  radius=3 + 8 * (item.seconds / longest) ** 0.5)
        for item in found
    ]  # fmt: skip
    bottom = min([item.attained for item in found] + [low * limits[-1].bandwidth]) / 1.5
    seen = dict.fromkeys(point.role for point in points)
    return Plot(
        "roofline",
        "Roofline of the matrix products",
        f"{len(found)} matrix products; the fastest reaches {show(max(item.attained for item in found), 'FLOP/s')}.",
        PlotAxis("FLOP for each byte", lambda value: significant(value, 3).removesuffix(".0"), True, (low, high)),
        PlotAxis("FLOP/s", lambda value: show(value, ""), True, (bottom, limits[0].peak * 1.5)),
        points,
        lines,
        [(role, _DIRECTIONS[role]) for role in _DIRECTIONS if role in seen],
    )


_DIRECTIONS = {"first": "forward", "second": "input gradient", "third": "weight gradient"}


def _direction(name: str) -> str:
    return next((role for role, words in _DIRECTIONS.items() if name.endswith(words)), "first")
