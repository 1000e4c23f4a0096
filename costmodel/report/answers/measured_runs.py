"""Measured beside predicted, as a table and a figure, and as the section of reports on how far to trust a plan."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from costmodel.documents.reader.measured_cases import WORKLOADS
from costmodel.documents.schemas.hardware import Accelerator
from costmodel.evidence.validate.outcomes import FITS, Compared
from costmodel.ground.units import percent, show_memory, show_time, time_unit
from costmodel.report.document import Cell, Column, Draw, Section, Table, Value
from costmodel.report.terminal.serving.serving_formatting import result as serving_result
from costmodel.report.terminal.style.formatting import result

_MOST_DRAWN = 600


def measured_section(figures: Sequence[Compared], accelerator: Accelerator) -> Section:
    """Published runs on an accelerator: their number, their errors, and a table of the shipped ones."""
    title, stated = "How far to trust it", accelerator.held_against
    if stated is None:
        return Section("measured", title, f"No run was measured on {accelerator.name}.", face="page")
    lead = f"{stated.runs:g} measured runs on {accelerator.name}: median error {percent(stated.median, 2)}"
    if not figures:
        return Section("measured", title, f"{lead}; none of them is shipped.", face="page")
    worst = max(abs(figure.error) for figure in figures if figure.error is not None)
    lead = f"{lead}, worst of the {len(figures)} shipped {percent(worst)}."
    table = runs_table(figures, [figure.groups["source_family"] for figure in figures])
    return Section("measured", title, lead, [partial(runs_figure, figures)], table=table, folded=True, face="page")


def runs_table(figures: Sequence[Compared], tables: Sequence[str], *, sortable: bool = False) -> Table:
    """A table of measured and predicted figures of runs; tables: the document of each run."""
    rows = list[list[Cell]]()
    for figure in figures:
        about: list[Cell] = [figure.run, figure.groups.get("source", ""), figure.quantity]
        if figure.measured is None or figure.predicted is None or figure.error is None:
            rows.append([*about, "", "", f"{figure.refused}: {figure.why}"])
            continue
        text_of = _text_of(figure.quantity)
        measured, predicted = (
            Value(text_of(value), value, name)
            for name, value in (("measured", figure.measured), ("predicted", figure.predicted))
        )
        error = Value(f"{figure.error:+.1%}".replace("-", "−"), figure.error, "error")
        rows.append([*about, measured, predicted, error])
    heads = [Column(head, result=head) for head in ("measured", "predicted", "error")]
    columns = [*(Column(head, "l") for head in ("run", "source", "quantity")), *heads]
    return Table(columns, rows, sortable=sortable, data=lambda traces: _commands(tables))


def _commands(tables: Sequence[str]) -> dict[str, Any]:
    """For each run, the command that compares it with its prediction."""
    lines = [shlex.join(["costmodel", "validate", table]) for table in tables]
    words = "Measured: by the source of this row. This command prints the run beside its prediction; costmodel show "
    return {"lines": lines, "words": f"{words}of the same name prints where it was published, and what was run."}


def _text_of(quantity: str) -> Callable[[float], str]:
    if quantity in ("step_time", "iteration_time"):
        return show_time
    if quantity in WORKLOADS:
        return lambda value: serving_result(quantity, value)
    return show_memory if quantity.startswith("memory") else lambda value: result("flop_rate", value)


def amounts(figures: Sequence[Compared]) -> list[tuple[Compared, float, float]]:
    """Figures with a measured and a predicted amount; figures on whether runs fit are left out."""
    return [
        (figure, figure.measured, figure.predicted)
        for figure in figures
        if figure.measured and figure.predicted and figure.quantity != FITS
    ]


def runs_figure(figures: Sequence[Compared]) -> Draw:
    """A plot of predicted against measured values, both logarithmic, with a line where they are equal."""
    from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint

    known = amounts(figures)
    quantity = known[0][0].quantity if known else "step_time"
    text_of = _text_of(quantity)
    shown = [each for each in known if each[0].quantity == quantity][:_MOST_DRAWN]
    points = [
        PlotPoint(measured, predicted, "first" if figure.within else "second",
                  f"{figure.run}: measured {text_of(measured)}, predicted {text_of(predicted)}", figure.run)
        for figure, measured, predicted in shown
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
