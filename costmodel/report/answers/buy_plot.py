"""The plot of machines in the answer of `buy`: tokens per GPU against tokens per user, or cost against time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from costmodel.explore.purchase.buy import PurchaseComparison
from costmodel.explore.purchase.buy_choices import MachineCurve, PublishedRun, machine_curves, published_runs
from costmodel.explore.purchase.purchase import Purchase
from costmodel.ground.counts import number_of
from costmodel.ground.record import record
from costmodel.ground.units import significant
from costmodel.report.terminal.layout import Line, styled
from costmodel.report.workload_words import words_of

if TYPE_CHECKING:
    from costmodel.report.page.plots import SvgFigure


@record
class TradeOff:
    """The trade-off between machines: curves of the cheapest, a point for each machine, and published runs."""

    found: PurchaseComparison
    names: tuple[str, str]
    curves: Sequence[MachineCurve]
    published: Sequence[PublishedRun]

    @classmethod
    def of(cls, purchases: PurchaseComparison) -> TradeOff:
        """Computes the trade-off of a purchase."""
        names = words_of(purchases.asked.case.kind).traded
        return cls(purchases, names, machine_curves(purchases, names, len(_ROLES)), published_runs(purchases))

    @property
    def points(self) -> list[tuple[Purchase, float, float]]:
        """The machines on which a plan works, each with its two results."""
        across, up = self.names
        known = [(row, row.trial.costs) for row in self.found.working if row.trial is not None]
        placed = [(row, costs.get(across, math.nan), costs.get(up, math.nan)) for row, costs in known]
        return [(row, x, y) for row, x, y in placed if math.isfinite(x + y)]

    @property
    def accelerators(self) -> list[str]:
        """The accelerators with a colour: first those with a curve."""
        cheapest = [curve.machine.accelerator for curve in self.curves]
        return [*dict.fromkeys([*cheapest, *(row.machine.accelerator for row, _, _ in self.points)])][: len(_ROLES)]

    @property
    def measured(self) -> str:
        """A sentence on how many published runs there are and which of them are drawn."""
        if not self.published:
            return "No published run of a model of this shape on these accelerators is shipped."
        drawn = [run for run in self.published if math.isfinite(run.across)]
        others = [run for run in self.published if not math.isfinite(run.across)]
        parts = []
        if drawn:
            count = number_of(len(drawn), "published run")
            parts.append(
                f"○ {count} of a model of this shape, at the rate of each GPU ({_source_names(drawn)}), "
                "in any precision and length."
            )
        if others:
            least, most = (significant(end(run.up for run in others)) for end in (min, max))
            offline = f"offline at {least} to {most} token/s/GPU, without a rate of one user ({_source_names(others)})"
            count = number_of(len(others), "published run")
            parts.append(f"{count} of a model of this shape on these accelerators, {offline}: not drawn.")
        return " ".join(parts)

    def plot(self, width: float) -> SvgFigure:
        """Draws the plot for a page of this width."""
        from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint, round_unit

        words, columns = words_of(self.found.asked.case.kind), self.found.asked.columns
        result = words.result
        role = dict(zip(self.accelerators, _ROLES, strict=False))
        points = list[PlotPoint]()
        for row, x, y in self.points:
            name = f"{row.machine.accelerator}, {row.machine.node}"
            tip = f"{name}: {result(self.names[0], x)}, {result(self.names[1], y)}"
            points.append(PlotPoint(x, y, role.get(row.machine.accelerator, "quiet"), tip, name, radius=6))
        for run in self.published:
            if math.isfinite(run.across):
                of = f"published on {run.accelerator}, {run.source}, in any precision and length"
                tip = f"{of}: {result(self.names[0], run.across)}"
                points.append(PlotPoint(run.across, run.up, role.get(run.accelerator, "quiet"), tip, hollow=True))
        lines = [PlotLine(curve.points, role[curve.machine.accelerator]) for curve in self.curves]
        every = [(point.x, point.y) for point in points] + [point for line in lines for point in line.points]
        across, up = (
            PlotAxis(
                f"{said}, {columns[name].better} is better",
                partial(result, name),
                unit=round_unit(name, columns[name].unit, max(values)),
            )
            for name, said, values in zip(self.names, words.trade, zip(*every, strict=True), strict=True)
        )
        title = f"{words.trade[1]} against {words.trade[0]}"
        drawn = Plot(
            "plans", title, self.measured, across, up, points, lines, [(each, name) for name, each in role.items()]
        )
        return drawn(width)

    def lines(self) -> list[Line]:
        """The plot for a terminal: a letter for each accelerator, and a legend."""
        from costmodel.report.terminal.charts import ScatterPoint, scatter

        words, columns = words_of(self.found.asked.case.kind), self.found.asked.columns
        result = words.result
        letter = dict(zip(self.accelerators, "ABCD", strict=False))
        marks = [
            ScatterPoint(x, y, letter[curve.machine.accelerator].lower())
            for curve in reversed(self.curves)
            for x, y in _evenly_spaced_points(curve.points)
        ]
        marks += [ScatterPoint(run.across, run.up, "○") for run in self.published if math.isfinite(run.across)]
        marks += [ScatterPoint(x, y, letter.get(row.machine.accelerator, "+")) for row, x, y in self.points[::-1]]
        named_axes = zip(self.names, words.trade, strict=True)
        titles = [f"{said}, {columns[name].better} is better" for name, said in named_axes]
        named = " · ".join(f"{each} {name}" for name, each in letter.items())
        curved = "; small letters: its plan with 1 to 256 requests in flight at a replica" if self.curves else ""
        drawn = scatter(marks, (titles[0], titles[1]), (partial(result, self.names[0]), partial(result, self.names[1])))
        return [styled(""), drawn, styled(f"  {named}{curved}"), styled(f"  {self.measured}")]


def _source_names(runs: Iterable[PublishedRun]) -> str:
    """The sources of published runs, each once, joined by commas."""
    return ", ".join(dict.fromkeys(run.source for run in runs))


def _evenly_spaced_points(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Evenly spaced points on each piece of a curve."""
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        yield from ((x0 + (x1 - x0) * step / _STEPS, y0 + (y1 - y0) * step / _STEPS) for step in range(_STEPS + 1))


_STEPS = 24  # places between two points of a curve
_ROLES = ("first", "second", "third", "fourth")
