"""Measured beside predicted, as a part of a page and as a page of its own."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from costmodel.documents.schemas.measurement import MeasuredTable
from costmodel.evidence.validate.outcomes import FITS
from costmodel.evidence.validate.scores import Scoreboard
from costmodel.evidence.validate.validate import Compared
from costmodel.ground.units import show_memory, show_time
from costmodel.report.page.content import Cell, Headline, HtmlPage, PageTable, Part, Value
from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint
from costmodel.report.terminal.style.formatting import percent, result

_MOST_DRAWN = 600


def measured_part(figures: Sequence[Compared], accelerator: str) -> Part | None:
    """Shipped runs on one accelerator."""
    if not figures:
        return Part("measured", "How far to trust it", f"No shipped run was measured on {accelerator}.")
    errors = [abs(figure.error) for figure in figures if figure.error is not None]
    lead = (
        f"{len(errors)} measured runs on {accelerator}: median error {percent(statistics.median(errors))}, "
        f"worst {percent(max(errors))}."
    )
    return Part("measured", "How far to trust it", lead, [measured_figure(figures)],
                figures_as_table=_table(figures))  # fmt: skip


def _table(figures: Sequence[Compared]) -> PageTable:
    rows: list[Sequence[Cell]] = []
    for figure in figures:
        source = figure.groups.get("source", "")
        if figure.measured is None or figure.predicted is None or figure.error is None:
            rows.append((figure.run, source, figure.quantity, "", "", f"{figure.refused}: {figure.why}"))
            continue
        text_of = _text_of(figure.quantity)
        rows.append((figure.run, source, figure.quantity, Value(text_of(figure.measured), figure.measured, "measured"),
                     Value(text_of(figure.predicted), figure.predicted, "predicted"),
                     Value(f"{figure.error:+.1%}".replace("-", "−"), figure.error, "error")))  # fmt: skip
    return PageTable(("run", "source", "quantity", "measured", "predicted", "error"), rows, "lllrrr")


def _text_of(quantity: str) -> Callable[[float], str]:
    if quantity == "step_time":
        return show_time
    return show_memory if quantity.startswith("memory") else lambda value: result("flop_rate", value)


def measured_figure(figures: Sequence[Compared]) -> Plot:
    """Measured against predicted, both logarithmic: on the line they are the same."""
    known = [figure for figure in figures if figure.measured and figure.predicted and figure.quantity != FITS]
    quantity = known[0].quantity if known else "step_time"
    shown = [figure for figure in known if figure.quantity == quantity][:_MOST_DRAWN]
    text_of = _text_of(quantity)
    points = [
        PlotPoint(figure.measured, figure.predicted, "first" if figure.within else "second",
                  f"{figure.run}: measured {text_of(figure.measured)}, predicted {text_of(figure.predicted)}",
                  figure.run)
        for figure in shown
        if figure.measured and figure.predicted
    ]  # fmt: skip
    ends = [value for point in points for value in (point.x, point.y)] or [1.0]
    low, high = min(ends) / 1.3, max(ends) * 1.3
    same = PlotLine([(low, low), (high, high)], "quiet", "the same")
    legend = [("first", "within tolerance"), ("second", "outside")]
    seen = {point.role for point in points}
    return Plot(
        "measured",
        f"Measured and predicted {quantity}",
        f"{len(points)} runs; on the line both are the same.",
        PlotAxis(f"measured {quantity}", text_of, True, (low, high)),
        PlotAxis(f"predicted {quantity}", text_of, True, (low, high)),
        points,
        [same],
        [entry for entry in legend if entry[0] in seen],
    )


def validation_page(found: Scoreboard, commands: Sequence[str]) -> HtmlPage:
    """Every figure of every table beside the predicted one."""
    figures, part = found.figures, found.together.score
    outside = sum(not figure.within for figure in figures)
    known = part.median_error is not None
    errors = f"median error {percent(part.median_error or 0)}, nine in ten below {percent(part.p90_error or 0)}"
    stated = (
        f"{part.modelled:,} of {part.rows:,} measured figures are modelled: {errors}." if known else "Nothing compared."
    )
    held = f" {outside} lie outside their tolerance." if outside else " All lie within their tolerance."
    drawn = [figure for figure in figures if figure.measured and figure.predicted and figure.quantity != FITS]
    rows = [
        (name, f"{group.score.modelled:,}", _share(group.score.median_error), _share(group.score.p90_error),
         _share(group.score.bias), _share(group.score.inside_band))
        for name, group in found.groups["source"].items()
    ]  # fmt: skip
    heads = ("source", "figures", "median", "P90", "bias", "in band")
    parts = [
        Part("measured", "Measured and predicted", figures=[measured_figure(drawn)] if drawn else []),
        Part("sources", "By source", tables=[PageTable(heads, rows, "lrrrrr", sortable=True)]),
        Part("figures", "Every figure", tables=[_sorted(_table(figures))]),
    ]
    headlines = [
        Headline("Median error", Value(_share(part.median_error), part.median_error, "median_error")),
        Headline("P90 error", Value(_share(part.p90_error), part.p90_error, "p90_error")),
        Headline("Bias", Value(_share(part.bias), part.bias, "bias")),
        Headline("Inside P10 – P90", Value(_share(part.inside_band), part.inside_band, "inside_band")),
    ]
    tables = [part.table for part in found.tables]
    names = ", ".join(table.name if isinstance(table, MeasuredTable) else table.file for table in tables)
    return HtmlPage("Predicted against measured", [names], stated + (held if known else ""),
                "bad" if outside else "good", headlines, parts, commands=commands)  # fmt: skip


def _share(value: float | None) -> str:
    return "" if value is None else percent(value)


def _sorted(table: PageTable) -> PageTable:
    return PageTable(table.heads, table.rows, table.align, table.caption, sortable=True)
