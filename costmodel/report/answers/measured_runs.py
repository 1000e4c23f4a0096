"""Measured beside predicted: a section of reports, and the answer of `validate`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from costmodel.documents.reader.measured_cases import WORKLOADS
from costmodel.documents.schemas.hardware import Accelerator
from costmodel.documents.schemas.measurement import MeasuredTable
from costmodel.evidence.validate.compared_figures import Compared, Validated
from costmodel.evidence.validate.outcomes import FITS
from costmodel.evidence.validate.scores import Score, Scoreboard
from costmodel.ground.units import percent, show_memory, show_time, time_unit
from costmodel.report.document import AnswerDocument, Cell, Column, Draw, Headline, Section, Table, TraceWriter, Value
from costmodel.report.terminal.serving.serving_formatting import result as serving_result
from costmodel.report.terminal.style.formatting import result
from costmodel.report.terminal.style.layout import Line

_MOST_DRAWN = 600
_SCORES = ("Median error", "P90 error", "Bias", "Inside P10 – P90")


def measured_section(figures: Sequence[Compared], accelerator: Accelerator) -> Section:
    """Runs on one accelerator: what `list accelerators` states of them, and those that are shipped in figures."""
    title, stated = "How far to trust it", accelerator.held_against
    if stated is None:
        return Section("measured", title, f"No run was measured on {accelerator.name}.", face="page")
    lead = f"{stated.runs:g} measured runs on {accelerator.name}: median error {percent(stated.median, 2)}"
    if not figures:
        return Section("measured", title, f"{lead}; none of them is shipped.", face="page")
    worst = max(abs(figure.error) for figure in figures if figure.error is not None)
    lead = f"{lead}, worst of the {len(figures)} shipped {percent(worst)}."
    table = _table(figures, [figure.groups["source_family"] for figure in figures])
    return Section("measured", title, lead, [partial(_figure, figures)], table=table, folded=True, face="page")


def _table(figures: Sequence[Compared], tables: Sequence[str], *, sortable: bool = False) -> Table:
    """Runs beside their predictions; tables: those that they are in."""
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


def _figure(figures: Sequence[Compared]) -> Draw:
    """Measured against predicted, both logarithmic: on the line they are the same."""
    from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint

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


def validation(found: Scoreboard, lines: Sequence[Line]) -> AnswerDocument:
    """Every figure of every table beside the predicted one; lines: in a terminal."""
    figures, part = found.figures, found.together.score
    outside = sum(not figure.within for figure in figures)
    stated = "Nothing compared."
    if part.median_error is not None:
        errors = f"median error {percent(part.median_error)}, nine in ten below {percent(part.p90_error or 0)}"
        held = f"{outside} lie outside their tolerance." if outside else "All lie within their tolerance."
        stated = f"{part.modelled:,} of {part.rows:,} measured figures are modelled: {errors}. {held}"
        stated += " Services and RL are scored apart, below." if found.others else ""
    drawn = [figure for figure in figures if figure.measured and figure.predicted and figure.quantity != FITS]
    heads = ("figures", "median", "P90", "bias", "in band")
    rows = list[list[Cell]]()
    for name, group in found.groups["source"].items():
        rows.append([name, f"{group.score.modelled:,}", *_scored(group.score, f"the rows of {name}")])
    by_source = Table([Column("source", "l"), *map(Column, heads)], rows, sortable=True)
    sections = [
        Section("lines", "", beneath=lines, face="terminal", apart=False),
        Section("measured", "Measured and predicted", figures=[partial(_figure, drawn)] if drawn else [], face="page"),
        Section("sources", "By source", table=by_source, face="page"),
        Section("figures", "Every figure", table=_table(figures, _names(found.tables), sortable=True), face="page"),
    ]
    for name, board in found.others.items():
        of_board, table = [partial(_figure, board.figures)], _table(board.figures, _names(board.tables))
        sections.append(
            Section(name, f"{WORKLOADS[name]}, {name}", "", of_board, table=table, folded=True, face="page")
        )
    shown = dict.fromkeys(name for board in (found, *found.others.values()) for name in map(_name, board.tables))
    return AnswerDocument(
        None,
        f"Predicted against measured: {', '.join(shown)}",
        [],
        stated,
        "bad" if outside else "good",
        sections,
        headlines=[Headline(words, cell) for words, cell in zip(_SCORES, _scored(part, "all rows"), strict=True)],
    )


def _name(part: Validated) -> str:
    return part.table.name if isinstance(part.table, MeasuredTable) else part.table.file


def _names(tables: Sequence[Validated]) -> list[str]:
    """The table of each figure."""
    return [_name(part) for part in tables for _ in part.figures]


def _scored(found: Score, rows: str) -> Iterator[Cell]:
    """What the errors of some rows come to."""
    of_rows = f"of {rows} under Every figure that have an error"
    for name, value, words in (
        ("median_error", found.median_error, f"the median of the absolute errors {of_rows}"),
        ("p90_error", found.p90_error, f"nine in ten absolute errors {of_rows} are smaller"),
        ("bias", found.bias, f"the median of the errors {of_rows}, with their sign"),
        ("inside_band", found.inside_band, f"the part {of_rows} whose measured value lies between P10 and P90"),
    ):
        yield "" if value is None else Value(percent(value), value, name, opens=partial(_stated, name, value, words))


def _stated(name: str, value: float, words: str, traces: TraceWriter) -> int | None:
    return traces.add(name, percent(value), words)
