"""Measured beside predicted, as a part of a page and as a page of its own."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from costmodel.documents.reader.measured_cases import WORKLOADS
from costmodel.documents.schemas.hardware import Accelerator
from costmodel.documents.schemas.measurement import MeasuredTable
from costmodel.evidence.validate.compared_figures import Compared
from costmodel.evidence.validate.outcomes import FITS
from costmodel.evidence.validate.scores import Score, Scoreboard
from costmodel.ground.units import percent, show_memory, show_time, time_unit
from costmodel.report.document import Cell, Headline, Value
from costmodel.report.page.content import HtmlPage, PageTable, Part
from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint
from costmodel.report.page.trace import Traces
from costmodel.report.terminal.serving.serving_formatting import result as serving_result
from costmodel.report.terminal.style.formatting import result

_MOST_DRAWN = 600


def measured_part(figures: Sequence[Compared], accelerator: Accelerator) -> Part:
    """Runs on one accelerator: what `list accelerators` states of them, and those that are shipped in figures."""
    stated = accelerator.held_against
    if stated is None:
        return Part("measured", "How far to trust it", f"No run was measured on {accelerator.name}.")
    lead = f"{stated.runs:g} measured runs on {accelerator.name}: median error {percent(stated.median, 2)}"
    if not figures:
        return Part("measured", "How far to trust it", f"{lead}; none of them is shipped.")
    worst = max(abs(figure.error) for figure in figures if figure.error is not None)
    lead = f"{lead}, worst of the {len(figures)} shipped {percent(worst)}."
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
    heads = ("run", "source", "quantity", "measured", "predicted", "error")
    return PageTable(heads, rows, "lllrrr", rows_data="measured", figures=["", "", "", *heads[3:]])


def measured_data(tables: Sequence[str]) -> dict[str, Any]:
    """The command that sets each measured run beside its prediction, by the table that it is in."""
    lines = [shlex.join(["costmodel", "validate", table]) for table in tables]
    words = "Measured: by the source of this row. This command prints the run beside its prediction; costmodel show "
    return {"lines": lines, "words": f"{words}of the same name prints where it was published, and what was run."}


def _text_of(quantity: str) -> Callable[[float], str]:
    if quantity in ("step_time", "iteration_time"):
        return show_time
    if quantity in WORKLOADS:
        return lambda value: serving_result(quantity, value)
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
    unit = 2.0**30 if quantity.startswith("memory") else time_unit(high) if text_of is show_time else 1.0
    same = PlotLine([(low, low), (high, high)], "quiet", "the same")
    legend = [("first", "within tolerance"), ("second", "outside")]
    seen = {point.role for point in points}
    return Plot(
        "measured",
        f"Measured and predicted {quantity}",
        f"{len(points)} runs; on the line both are the same.",
        PlotAxis(f"measured {quantity}", text_of, True, (low, high), unit),
        PlotAxis(f"predicted {quantity}", text_of, True, (low, high), unit),
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
    traces = Traces({})
    rows: list[Sequence[Cell]] = [
        (name, f"{group.score.modelled:,}", *_scored(group.score, traces, f"the rows of {name}"))
        for name, group in found.groups["source"].items()
    ]
    heads = ("source", "figures", "median", "P90", "bias", "in band")
    parts = [
        Part("measured", "Measured and predicted", figures=[measured_figure(drawn)] if drawn else []),
        Part("sources", "By source", tables=[PageTable(heads, rows, "lrrrrr", sortable=True)]),
        Part("figures", "Every figure", tables=[replace(_table(figures), sortable=True)]),
    ]
    for name, board in found.serving.items():
        of_serving = Part(name, f"Serving, {name}", figures=[measured_figure(board.figures)],
                          figures_as_table=_table(board.figures))  # fmt: skip
        parts.append(of_serving)
    headlines = [
        Headline(words, value)
        for words, value in zip(
            ("Median error", "P90 error", "Bias", "Inside P10 – P90"), _scored(part, traces, "all rows"), strict=True
        )
    ]
    held = f"{held} Documents about serving stand apart below." if found.serving else held
    shown = [*found.tables, *(part for board in found.serving.values() for part in board.tables)]
    held_tables = [part.table for part in shown]
    names = [table.name if isinstance(table, MeasuredTable) else table.file for table in held_tables]
    tables = [name for name, item in zip(names, shown, strict=True) for _ in item.figures]
    return HtmlPage("Predicted against measured", [", ".join(names)], stated + (held if known else ""),
                "bad" if outside else "good", headlines, parts, commands=commands,
                data={"trace": traces.data(), "measured": measured_data(tables)})  # fmt: skip


def _scored(found: Score, traces: Traces, rows: str) -> Iterator[Value]:
    """What the errors of some rows come to."""
    of_rows = f"of {rows} under Every figure that have an error"
    for name, value, words in (
        ("median_error", found.median_error, f"the median of the absolute errors {of_rows}"),
        ("p90_error", found.p90_error, f"nine in ten absolute errors {of_rows} are smaller"),
        ("bias", found.bias, f"the median of the errors {of_rows}, with their sign"),
        ("inside_band", found.inside_band, f"the part {of_rows} whose measured value lies between P10 and P90"),
    ):
        text = "" if value is None else percent(value)
        yield Value(text, value, name, None if value is None else traces.add(name, text, words))
