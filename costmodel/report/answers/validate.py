"""The answers of `validate`: predicted beside measured figures, scores, the worth of terms, and changes over nights."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date
from functools import partial
from pathlib import PurePath
from typing import Any

from rich.text import Text

import costmodel
from costmodel.documents.reader.measured_cases import WORKLOADS
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.hardware import Accelerator
from costmodel.documents.schemas.measurement import MeasuredTable
from costmodel.documents.schemas.results import RL_RESULTS, SERVING_RESULTS, TRAINING_COLUMNS
from costmodel.estimate.answer_facts import row_facts
from costmodel.evidence.validate.outcomes import FITS, TOTALS, Compared, Validated
from costmodel.evidence.validate.scores import KINDS, NOTABLE, GroupScore, Score, Scoreboard, TermWorth
from costmodel.evidence.validate.spelling import REASONS, SkippedRow
from costmodel.evidence.validate.validate import ALL, MovedRuns
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.run_table import OF_SHAPE
from costmodel.exchange.tables.run_table import Table as RunTable
from costmodel.explore.import_export.import_log_folder import LogFolder
from costmodel.explore.workloads import workload_of
from costmodel.ground.counts import number_of
from costmodel.ground.units import percent, show_memory, show_time, time_unit
from costmodel.report.document import AnswerDocument, Cell, Column, Draw, Headline, Section, Table, TraceWriter, Value
from costmodel.report.terminal.formatting import and_list, result
from costmodel.report.terminal.layout import (
    BAD,
    DIM,
    HEAD,
    WARN,
    CellTable,
    Line,
    cut_list,
    schema_head,
    short_or_full,
    styled,
)
from costmodel.report.terminal.serving_formatting import result as serving_result

_MOST_DRAWN = 600


def measured_section(figures: Sequence[Compared], accelerator: Accelerator) -> Section:
    """The section of a page on published runs on an accelerator, with their errors and a table."""
    title, stated = "How far to trust it", accelerator.held_against
    if stated is None:
        return Section("measured", title, f"No run was measured on {accelerator.name}.", face="page")
    lead = f"{stated.runs:g} measured runs on {accelerator.name}: median error {percent(stated.median, 2)}"
    if not figures:
        return Section("measured", title, f"{lead}; none of them is shipped.", face="page")
    worst = max(abs(figure.error) for figure in figures if figure.error is not None)
    lead = f"{lead}, worst of the {len(figures)} shipped {percent(worst)}."
    table = runs_table(figures, [figure.groups["source_family"] for figure in figures])
    return Section("measured", title, lead, [partial(draw_runs, figures)], table=table, folded=True, face="page")


def runs_table(figures: Sequence[Compared], tables: Sequence[str], *, sortable: bool = False) -> Table:
    """A table of measured and predicted figures of runs; tables: the document of each run."""
    rows = list[list[Cell]]()
    for figure in figures:
        about: list[Cell] = [figure.run, figure.groups.get("source", ""), figure.quantity]
        if figure.measured is None or figure.predicted is None or figure.error is None:
            rows.append([*about, "", "", f"{figure.refused}: {figure.why}"])
            continue
        text_of = _formatter(figure.quantity)
        measured, predicted = (
            Value(text_of(value), value, name)
            for name, value in (("measured", figure.measured), ("predicted", figure.predicted))
        )
        error = Value(f"{figure.error:+.1%}".replace("-", "−"), figure.error, "error")
        rows.append([*about, measured, predicted, error])
    heads = [Column(head, result=head) for head in ("measured", "predicted", "error")]
    columns = [*(Column(head, "l") for head in ("run", "source", "quantity")), *heads]
    return Table(columns, rows, sortable=sortable, data=lambda traces: _run_commands(tables))


def _run_commands(tables: Sequence[str]) -> dict[str, Any]:
    """For each run, the `validate` command that compares it with its prediction."""
    lines = [shlex.join(["costmodel", "validate", table]) for table in tables]
    words = "Measured: by the source of this row. This command prints the run beside its prediction; costmodel show "
    return {"lines": lines, "words": f"{words}of the same name prints where it was published, and what was run."}


def _formatter(quantity: str) -> Callable[[float], str]:
    """The function that formats a value of this quantity."""
    if quantity in ("step_time", "iteration_time"):
        return show_time
    if quantity in WORKLOADS:
        return lambda value: serving_result(quantity, value)
    return show_memory if quantity.startswith("memory") else lambda value: result("flop_rate", value)


def compared_amounts(figures: Sequence[Compared]) -> list[tuple[Compared, float, float]]:
    """Figures with a measured and a predicted amount; figures on whether runs fit are left out."""
    return [
        (figure, figure.measured, figure.predicted)
        for figure in figures
        if figure.measured and figure.predicted and figure.quantity != FITS
    ]


def draw_runs(figures: Sequence[Compared]) -> Draw:
    """A plot of predicted against measured values, both logarithmic, with a line where they are equal."""
    from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint

    known = compared_amounts(figures)
    quantity = known[0][0].quantity if known else "step_time"
    text_of = _formatter(quantity)
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


KNOWN = {**RL_RESULTS, **SERVING_RESULTS, **TRAINING_COLUMNS}
_SHOWN_RUNS = 3  # runs of a file that are shown themselves
FILLED = "filled by rule"
_ERRORS = ("Median error", "P90 error", "Bias", "Inside P10 – P90")
_SCORE = ("rows", "modelled", "median", "P90", "bias", "in band", "")


def validation_document(
    scoreboard: Scoreboard,
    grouping: str | None = None,
    worst: int = 0,
    without: Sequence[str] = (),
    *,
    dated: bool = False,
) -> AnswerDocument:
    """Every measured and predicted figure; documents about serving and RL are scored separately.

    grouping, worst: in a terminal, the column that groups figures, and how many figures with the largest errors are
    shown. without: terms that predictions leave out. dated: with errors of sources that a fit leaves out
    """
    figures, part = scoreboard.figures, scoreboard.together.score
    outside = sum(not figure.within for figure in figures)
    stated = "Nothing compared."
    if part.median_error is not None:
        errors = f"median error {percent(part.median_error)}, nine in ten below {percent(part.p90_error or 0)}"
        held = f"{outside} lie outside their tolerance." if outside else "All lie within their tolerance."
        stated = f"{part.modelled:,} of {part.rows:,} measured figures are modelled: {errors}. {held}"
        stated += " Services and RL are scored apart, below." if scoreboard.others else ""
    lines = _scoreboard_lines(scoreboard) if dated else [
        *_board_lines(scoreboard, grouping, worst), *_other_lines(scoreboard, grouping, worst)
    ]  # fmt: skip
    sections = [Section("lines", "", beneath=lines, face="terminal", apart=False), *_page_sections(scoreboard)]
    shown = dict.fromkeys(
        name for board in (scoreboard, *scoreboard.others.values()) for name in map(_table_name, board.tables)
    )
    return AnswerDocument(
        None,
        f"Predicted against measured: {', '.join(shown)}",
        left_out_terms_line(without),
        stated,
        "bad" if outside else "good",
        sections,
        headlines=[Headline(words, cell) for words, cell in zip(_ERRORS, _score_cells(part, "all rows"), strict=True)],
    )


def _page_sections(scoreboard: Scoreboard) -> Iterator[Section]:
    """The sections of a page: a plot of all figures, scores by source, every figure, and other workloads."""
    figures, names = scoreboard.figures, _table_names(scoreboard.tables)
    plots = [partial(draw_runs, figures)] if compared_amounts(figures) else []
    yield Section("measured", "Measured and predicted", figures=plots, face="page")
    rows = list[list[Cell]]()
    for name, group in scoreboard.groups["source"].items():
        rows.append([name, f"{group.score.modelled:,}", *_score_cells(group.score, f"the rows of {name}")])
    columns = [Column("source", "l"), *map(Column, ("figures", "median", "P90", "bias", "in band"))]
    yield Section("sources", "By source", table=Table(columns, rows, sortable=True), face="page")
    yield Section("figures", "Every figure", table=runs_table(figures, names, sortable=True), face="page")
    for name, board in scoreboard.others.items():
        title, plots = f"{WORKLOADS[name]}, {name}", [partial(draw_runs, board.figures)]
        table = runs_table(board.figures, _table_names(board.tables))
        yield Section(name, title, "", plots, table=table, folded=True, face="page")


def left_out_terms_line(terms: Sequence[str]) -> list[Line]:
    """A line on the terms that predictions leave out, if any."""
    named = ", ".join(term.replace("_", "-") for term in terms)
    return [styled(f"Steps are predicted without {named}; no constant is fitted again.", HEAD)] if terms else []


def _table_name(part: Validated) -> str:
    """The name of a document of measured runs, or the file of a table."""
    return part.table.name if isinstance(part.table, MeasuredTable) else part.table.file


def _table_names(tables: Sequence[Validated]) -> list[str]:
    """The table of each figure, in the order of the figures."""
    return [_table_name(part) for part in tables for _ in part.figures]


def _score_cells(score: Score, rows: str) -> Iterator[Cell]:
    """Cells with the errors and the band coverage of some rows."""
    of_rows = f"of {rows} under Every figure that have an error"
    for name, value, words in (
        ("median_error", score.median_error, f"the median of the absolute errors {of_rows}"),
        ("p90_error", score.p90_error, f"nine in ten absolute errors {of_rows} are smaller"),
        ("bias", score.bias, f"the median of the errors {of_rows}, with their sign"),
        ("inside_band", score.inside_band, f"the part {of_rows} whose measured value lies between P10 and P90"),
    ):
        yield (
            "" if value is None else Value(percent(value), value, name, opens=partial(_trace_of, name, value, words))
        )


def _trace_of(name: str, value: float, words: str, traces: TraceWriter) -> int | None:
    """The trace of a score on a page."""
    return traces.add(name, percent(value), words)


def _other_lines(scoreboard: Scoreboard, grouping: str | None, count: int = 0) -> Iterator[Line]:
    """Lines with the scores of documents about serving and RL, by result."""
    for name, board in scoreboard.others.items():
        yield Text()
        yield styled(f"{WORKLOADS[name]}, {name}: {KNOWN[name].meaning}", HEAD)
        yield from _board_lines(board, grouping, count)


def _board_lines(scoreboard: Scoreboard, grouping: str | None = None, count: int = 0) -> list[Line]:
    """Lines with every figure of each document, scores of tables by group, and the largest errors.

    grouping: the column that groups figures; documents then show only figures out of tolerance. count: how many of the
    largest errors are shown
    """
    lines: list[Line] = []
    for part in (part for part in scoreboard.tables if isinstance(part.table, MeasuredTable)):
        lines += _run_lines(part, [figure for figure in part.figures if not (grouping and figure.within)])
    rowed = any(not isinstance(part.table, MeasuredTable) for part in scoreboard.tables)
    if rowed and not count:
        lines += _few_runs_lines(scoreboard)
    if rowed or (grouping and scoreboard.figures):
        lines += [*([Text()] if lines else []), *_group_table(scoreboard, grouping or "source")]
    if count:
        lines += _worst_table(scoreboard.worst[:count])
    if rowed:
        tables = (part.table for part in scoreboard.tables if isinstance(part.table, RunTable))
        nothing = [] if scoreboard.compares else [Text(), styled("no row is modelled: nothing is compared", BAD)]
        return [*lines, *_not_compared_lines(scoreboard), *misread_column_lines(tables), *nothing]
    if scoreboard.median is None:
        return [*lines, *_not_compared_lines(scoreboard), styled("no figures of that quantity")]
    compared = number_of(sum(figure.error is not None for figure in scoreboard.figures), "figure")
    summary = f"{compared}: median |error| {scoreboard.median:.1%}, worst {scoreboard.furthest:.1%}"
    inside = scoreboard.together.score.inside_band
    summary += "" if inside is None else f"; {inside:.0%} inside P10 – P90"
    return [*lines, *_not_compared_lines(scoreboard), Text(), styled(summary)]


def _scoreboard_lines(scoreboard: Scoreboard) -> list[Line]:
    """Lines with the errors of published runs by source, today's date and costmodel's version."""
    seen = styled(f"{date.today():%Y-%m-%d}, costmodel {costmodel.__version__}; runs of these sources were fitted", DIM)
    boards = {f"{scoreboard.figures[0].quantity}, training": scoreboard} if scoreboard.figures else {}
    boards |= {f"{name}, {WORKLOADS[name]}": board for name, board in scoreboard.others.items()}
    fitted = [(name, *_score_texts(board.together)[:-1]) for name, board in boards.items()]
    short: list[Line] = [CellTable(("published runs", *_SCORE[:-1]), fitted, "lrrrrrr", drop=("rows",)), seen]
    if scoreboard.left_out is None:
        return short_or_full(
            short,
            [*_board_lines(scoreboard, "source"), seen, *_other_lines(scoreboard, "source")],
            "each source",
        )
    stated = (
        f"of {scoreboard.left_out['runs']} runs, {scoreboard.left_out['date']}; constants and widths of the band were "
        "fitted without the source"
    )
    heads = "rows", "median", "P90", "bias", "in band"
    rows = [(kind, *_held_out_cells(scoreboard.left_out[kind])) for kind in KINDS]
    training: list[Line] = [Text(), CellTable(("left out", *heads), rows, "lrrrrr"), styled(stated, DIM)]
    rows = [
        (f"{name}, each {column}", *_held_out_cells(errors[quantity]))
        for column, errors in scoreboard.left_out["services"].items()
        for quantity, name in (("tpot", "time per token"), ("ttft", "first token"))
    ]
    services: list[Line] = [Text(), CellTable(("services, left out", *heads), rows, "lrrrrr")]
    whole = [
        *_board_lines(scoreboard, "source"),
        seen,
        *training,
        *_other_lines(scoreboard, "source"),
        *services,
    ]
    return short_or_full([*short, *training, *services], whole, "each source")


def _held_out_cells(row: Mapping[str, float]) -> tuple[str, ...]:
    """The table cells of held-out errors."""
    errors = (f"{row['median']:.1%}", f"{row['p90']:.1%}", f"{row['bias']:+.1%}")
    return (f"{row['runs']}", *errors, f"{row['inside']:.0%}")


def _run_lines(part: Validated, figures: Sequence[Compared]) -> Iterator[Line]:
    """Lines on the runs of one measured document: its title, then a row per figure."""
    assert isinstance(part.table, MeasuredTable)
    if figures:
        table = part.table
        yield styled(f"{table.title}  [{table.source.key}, {table.source.where}]", HEAD)
        rows = [(*_figure_cells(figure), _tolerance_text(figure), *_memory_total(figure)) for figure in figures]
        yield CellTable(("run", "measured", "predicted", "error", "", ""), rows, "lrrrll")


def _figure_cells(figure: Compared) -> tuple[str, str, str, str]:
    """The table cells of one figure: run, measured, predicted, error."""
    if figure.quantity == FITS:
        words = ("does not fit", "fits")
        measured, predicted = words[int(figure.measured or 0)], words[int(figure.predicted or 0)]
        return figure.run, measured, predicted, "✗" if figure.error else "✓"
    measured, predicted = (
        "" if value is None else _figure_text(figure.quantity, value) for value in (figure.measured, figure.predicted)
    )
    return figure.run, measured, predicted, "" if figure.error is None else f"{figure.error:+.1%}"


def _figure_text(quantity: str, value: float) -> str:
    """A figure as text with its unit."""
    known = KNOWN.get(quantity)
    return (
        serving_result(quantity, value)
        if quantity in SERVING_RESULTS and quantity in WORKLOADS
        else result(quantity, value, known.unit if known else "B", 4)
    )


def _memory_total(figure: Compared) -> tuple[str]:
    """The cell with the memory total that was measured, as runs can have several; empty for other quantities."""
    return (figure.quantity.removeprefix("memory_") if figure.quantity in TOTALS else "",)


def _tolerance_text(figure: Compared) -> str:
    """The tolerance of a figure, as text."""
    return "" if figure.tolerance is None else f"{'✓' if figure.within else '✗'} {figure.tolerance:.0%}"


def _group_table(scoreboard: Scoreboard, grouping: str) -> Iterator[Line]:
    """The table of scores by the values of a column, and in total."""
    named = scoreboard.groups[grouping]
    if grouping == "reason":
        named = {reason_title(name): group for name, group in sorted(named.items())}
    rows = [(name, *_score_texts(group)) for name, group in named.items()]
    rows.append(("together", *_score_texts(scoreboard.together)))
    yield CellTable((grouping, *_SCORE), rows, "lrrrrrrl", drop=("", "rows"), rest=grouping.replace("_", " "), sums=1)


def _score_texts(group: GroupScore) -> tuple[str, ...]:
    """The table cells of a group's score: counts, errors, wrong predictions of whether runs fit."""
    part, shown = group.score, group.outcomes
    wrong = shown.called_unfit + shown.called_fit
    fits = f"{wrong} of {shown.fit + shown.unfit} wrong on whether it fits" if shown.fit + shown.unfit else ""
    if part.bias is None:
        return f"{part.rows}", f"{part.modelled}", "", "", "", "", fits
    return (
        f"{part.rows}",
        f"{part.modelled}",
        f"{part.median_error:.1%}",
        f"{part.p90_error:.1%}",
        f"{part.bias:+.1%}",
        "" if part.inside_band is None else f"{part.inside_band:.0%}",
        fits,
    )


def _worst_table(figures: Sequence[Compared]) -> Iterator[Line]:
    """The table of the figures with the largest errors; none without figures."""
    rows = [(*_figure_cells(figure), _filled_text(figure.filled)) for figure in figures]
    if rows:
        yield Text()
        yield CellTable(("furthest off", "measured", "predicted", "error", FILLED), rows, "lrrrl")


def _few_runs_lines(scoreboard: Scoreboard) -> Iterator[Line]:
    """Lines with the runs themselves, if they are few."""
    figures = [figure for figure in scoreboard.figures if figure.error is not None]
    if not 0 < len(figures) <= _SHOWN_RUNS:
        return
    quantity = figures[0].quantity
    known = KNOWN.get(quantity)
    yield styled(f"{quantity}: {known.meaning}" if known else quantity, HEAD)
    common, own = filled_cells([figure.filled for figure in figures])
    last = (FILLED,) if any(own) else ()
    rows = [
        (*_figure_cells(figure), _band_text(figure), *(cells for _ in last))
        for figure, cells in zip(figures, own, strict=True)
    ]
    yield CellTable(("run", "measured", "predicted", "error", "P10 – P90", *last), rows, "lrrrr" + "l" * len(last))
    yield from filled_lines(common)


def _band_text(figure: Compared) -> str:
    """The P10–P90 band of a prediction, as text."""
    if figure.low is None or figure.high is None:
        return ""
    return " – ".join(_figure_text(figure.quantity, value) for value in (figure.low, figure.high))


def filled_cells(rows: Sequence[Mapping[str, str]]) -> tuple[str, list[str]]:
    """The cells that rules filled alike in every row, as text, and those of each row beside them.

    The shape of a shipped model stands for its sizes.

    >>> filled_cells([{"cp": "1", "shape": "gpt-3-175b", "heads": "96"}, {"cp": "1", "pp": "2"}])
    ('cp 1', ['shape gpt-3-175b', 'pp 2'])
    """
    briefer = [
        {name: value for name, value in row.items() if "shape" not in row or name not in OF_SHAPE} for row in rows
    ]
    items = briefer[0].items() if briefer else ()
    common = [item for item in items if all(item in each.items() for each in briefer)]
    own = [_filled_text({name: value for name, value in row.items() if (name, value) not in common}) for row in briefer]
    return _filled_text(dict(common)), own


def filled_lines(common: str) -> list[Line]:
    """A line on the cells that rules filled in every run; none without any."""
    return [styled(f"  {FILLED} in each: {common}", DIM)] if common else []


def _filled_text(filled: Mapping[str, str], between: str = " ") -> str:
    """The cells that a rule filled and their values, as text."""
    return ", ".join(f"{name}{between}{value}" for name, value in filled.items())


def _not_compared_lines(scoreboard: Scoreboard) -> Iterator[Text]:
    """Lines on runs that could not be modelled, and on wrong predictions of whether runs fit."""
    shown = scoreboard.together.outcomes
    if shown.fit or shown.unfit:
        yield Text()
        fitted, unfit = map(_chance_text, (shown.chance_of_fit, shown.chance_of_unfit))
        yield styled(
            f"{shown.fit} runs fitted, {shown.called_unfit} of them predicted not to fit{fitted}; "
            f"{shown.unfit} did not fit, {shown.called_fit} of them predicted to fit{unfit}"
        )
    left = [SkippedRow(figure.run, figure.refused, figure.why) for figure in scoreboard.figures if figure.refused]
    if left:
        yield Text()
        yield from skipped_run_lines(left)


def _chance_text(mean: float | None) -> str:
    """The mean chance to fit as words; empty for None."""
    return "" if mean is None else f", with a mean chance to fit of {mean:.0%}"


def validation_json(scoreboard: Scoreboard, without: Sequence[str] = ()) -> dict[str, Any]:
    """The validation as plain values; for the scoreboard, also the errors of left-out sources."""
    boards, left = (scoreboard, *scoreboard.others.values()), left_out_terms_field(without)
    result: dict[str, Any] = {
        **schema_head("costmodel/validation/v1"),
        "without": list(without),
        **_score_fields(scoreboard),
        "rows": [{**row, **left} for board in boards for part in board.tables for row in _figure_fields(part)],
    }
    for name, board in scoreboard.others.items():
        result.setdefault(WORKLOADS[name], {})[name] = _score_fields(board)
    used = {name for figure in scoreboard.figures for name in figure.filled}
    rules = (rule for part in scoreboard.tables for rule in part.rules.items())
    result["rules"] = {name: rule for name, rule in rules if name in used}
    if any(figure.called_fit is not None for figure in scoreboard.figures):
        result["fits"] = asdict(scoreboard.together.outcomes)
    if scoreboard.left_out is not None:
        result["left_out"] = scoreboard.left_out
    return result


def left_out_terms_field(terms: Sequence[str]) -> dict[str, str]:
    """A field with the terms that predictions leave out, for every row."""
    return {"without": ", ".join(terms)} if terms else {}


def _score_fields(scoreboard: Scoreboard) -> dict[str, Any]:
    """The errors of all figures, and by each column."""
    by = {
        column: {name: asdict(group.score) for name, group in groups.items()}
        for column, groups in scoreboard.groups.items()
    }
    return {"overall": asdict(scoreboard.together.score), "by": by}


def _figure_fields(part: Validated) -> Iterator[dict[str, Any]]:
    """The figures of one table as plain values."""
    for figure in part.figures:
        yield {
            **_run_facts(figure),
            "id": f"{part.table.name}/{figure.run}" if isinstance(part.table, MeasuredTable) else figure.run,
            "quantity": figure.quantity,
            "measured": None if figure.measured is None else float(figure.measured),
            "predicted": figure.predicted,
            "fit_chance": figure.fit_chance,
            "low": figure.low,
            "high": figure.high,
            "error": figure.error,
            "refused": figure.refused,
            "why": figure.why,
            "filled": _filled_text(figure.filled, "="),
            "within": None if figure.tolerance is None else figure.within,
        }


def _run_facts(figure: Compared) -> dict[str, Any]:
    """The model, cluster, sequence and batch of a run, if its table states them."""
    subject = figure.subject
    if not isinstance(subject, CsvRow):
        return _case_facts(subject)
    return {
        "model": subject.text("model_name") or subject.text("model") or None,
        "cluster": subject.text("accelerator") or subject.text("gpu") or None,
        "nodes": None,
        "gpus": subject.number("gpus"),
        "sequence": subject.number("seq_len"),
        "global_batch": subject.number("global_batch"),
    }


def _case_facts(case: LoadedScenario | None) -> dict[str, Any]:
    """The model, cluster, sequence and batch of a scenario as plain values; empty without one."""
    if case is None:
        return {}
    facts = row_facts(workload_of(case).facts)
    return {**facts, **{name: facts.get(name) for name in ("sequence", "global_batch")}}


def reason_title(code: str) -> str:
    """The code of a reason with its title."""
    return f"{code} {REASONS[code].title}" if code in REASONS else code


def skipped_run_lines(left: Iterable[SkippedRow]) -> Iterator[Text]:
    """A line for each reason to skip runs of measured tables, with its first run and a count."""
    runs: dict[str, list[SkippedRow]] = {}
    for first in left:
        runs.setdefault(first.refused, []).append(first)
    for code, (first, *rest) in sorted(runs.items()):
        also = f" and {len(rest)} more" if rest else ""
        yield styled(f"not modelled: {reason_title(code)}: {first.run}{also}: {first.why}", DIM)


def misread_column_lines(tables: Iterable[RunTable]) -> Iterator[Text]:
    """Lines on columns read under another name, and on columns that are not used; first those that look misspelt."""
    for table in tables:
        for name, meant in table.renamed:
            yield styled(f"{table.file}: the column '{name}' is read as {meant}", DIM)
        unused = table.unused
        for name in (name for name, meant in unused.items() if meant):
            yield styled(f"{table.file}: the column '{name}' is not used; is it '{unused[name]}'?", WARN)
        if others := [name for name, meant in unused.items() if not meant]:
            yield styled(cut_list(f"{table.file}: columns not used: ", others, ", "), WARN)


def worth_document(
    term_worths: Sequence[TermWorth], rows: int, unused: Sequence[str], grouping: str | None, here: Mapping[str, float]
) -> AnswerDocument:
    """What each term of a step is worth: errors with and without it, on rows where it takes 5 % or more.

    here: the share of each term in a plan, if the question is about a plan
    """
    bad = [
        f"{each.term}{f' of {each.group}' if each.group else ''}" for each in term_worths if not each.earns_its_place
    ]
    stated = f"Of {rows:,} measured steps, those in which a term takes {percent(NOTABLE)} or more; constants are kept."
    closing = [f"Without evidence, no row exercises it enough: {', '.join(unused)}."] if unused else []
    closing.append(
        f"Predictions are no worse without {', '.join(bad)}." if bad else "Each lowers the median error or P90."
    )
    columns = [Column("term", "l"), *([Column("here")] if here else []), *([Column(grouping, "l")] if grouping else [])]
    columns += [Column("rows"), Column("share")]
    columns += [Column(f"{head}{end}") for end in (" with", " without") for head in ("median", "P90")]
    cells = list[list[Cell]]()
    for each in term_worths:
        row: list[Cell] = [each.term.replace("_", "-"), *([percent(here.get(each.term, 0.0), 2)] if here else [])]
        row += [*([each.group] if grouping else []), f"{each.score.modelled:,}", percent(each.share, 2)]
        for part in (each.score, each.without):
            row += [Value(percent(value or 0.0), value or 0.0) for value in (part.median_error, part.p90_error)]
        cells.append(row)
    beneath: list[Line] = [styled(f"  {line}", DIM) for line in closing]
    table = Table(columns, cells, sortable=True, rest="term")
    section = Section("terms", "What each term is worth", stated, table=table, beneath=beneath)
    about: list[Line] = [styled(stated, HEAD)]
    return AnswerDocument(None, "What each term of a step is worth", about, " ".join(closing), "good", [section])


def worth_json(
    term_worths: Sequence[TermWorth], rows: int, unused: Sequence[str], here: Mapping[str, float]
) -> dict[str, Any]:
    """The worth of terms as plain values."""
    return {
        **schema_head("costmodel/worth/v1"),
        "rows": rows,
        "least_share": NOTABLE,
        "terms": [
            {
                "term": each.term,
                "group": each.group or None,
                "share": each.share,
                "here": here.get(each.term, 0.0) if here else None,
                "with": asdict(each.score),
                "without": asdict(each.without),
                "better_with_it": each.earns_its_place,
            }
            for each in term_worths
        ],
        "without_evidence": list(unused),
    }


def moved_document(read: LogFolder, tables_moved: Sequence[MovedRuns]) -> AnswerDocument:
    """Whether runs of the last night take longer than earlier runs, and which term explains it."""
    sections = [replace(_moved_section(read, each), apart=number > 0) for number, each in enumerate(tables_moved)]
    slower = any(each.found.slower for each in tables_moved)
    stated = " ".join(str(section.lead) for section in sections)
    lines: list[Line] = [styled(f"not read: {each.file}: {each.why}", WARN) for each in read.unread]
    sections += [Section("unread", "Not read", beneath=lines)] if lines else []
    return AnswerDocument(None, "Which term of a step moved", [], stated, "bad" if slower else "good", sections)


def _moved_section(read: LogFolder, each: MovedRuns) -> Section:
    """A section on one kind of runs: how its time changed, and how well each term explains it."""
    change, whole, best = each.found, _WHOLE[each.figure], each.found.likeliest
    counts = f"{number_of(change.now, 'run')} of {PurePath(read.folder) / each.night}"
    counts += f" beside {number_of(change.before, 'run')} before"
    same = f"{counts} differ by no more than those among themselves, {percent(change.spread, 2)}"
    stated = f"{whole.capitalize()} takes as long as before: {same}."
    mean = f"{_change_words(change.change)} on average"
    if best is not None:
        stated = f"{_term_words(best.term, whole)} {_change_words(best.factor)} than before. {counts}: {whole} {mean}."
        if change.alike:
            others = and_list(_term_words(name, whole) for name in change.alike)
            stated += f" These runs do not distinguish it from {others}."
    elif change.moved:
        stated = f"{whole.capitalize()} moved, and no single term explains it. {counts}: it {mean}."
    if each.release is not None and change.moved:
        stated += f" The release went from {each.release[0]} to {each.release[1]}."
    columns = [Column("term", "l"), Column("factor"), Column("explains", legend=_REMOVED)]
    rows: list[list[Cell]] = [
        [_term_words(term.term, whole), Value(f"{term.factor:.2f} ×", term.factor), percent(1 - term.left, 2)]
        for term in (change.terms if change.moved else ())
    ]
    table = Table(columns, rows) if len(rows) > 2 else None
    return Section(
        f"terms-{each.figure}",
        f"What moved {whole}",
        stated,
        ahead=[styled(stated, BAD if change.slower else HEAD)],
        table=table,
    )


_REMOVED = "share of the squared changes that this factor removes"
_WHOLE = {"time": "a step", "tpot": "a token", "ttft": "a first token"}


def _term_words(name: str, whole: str) -> str:
    """The name of a term of a step in words; for all terms, the whole that they add up to."""
    return f"{whole} in all its terms" if name == ALL else name.replace("_", "-")


def _change_words(factor: float) -> str:
    """A factor of a time in words, such as `takes 5 % longer`."""
    return f"takes {percent(abs(factor - 1), 2)} {'longer' if factor > 1 else 'less'}"


def moved_json(read: LogFolder, tables_moved: Sequence[MovedRuns]) -> dict[str, Any]:
    """The changes as plain values: of the kind of runs that became slower, and of every kind."""
    runs = [_moved_fields(each) for each in tables_moved]
    most = next((run for run in runs if run["slower"]), runs[0])
    unread = [{"file": each.file, "why": each.why} for each in read.unread]
    return {**schema_head("costmodel/moved/v2"), "folder": read.folder, **most, "runs": runs, "unread": unread}


def _moved_fields(each: MovedRuns) -> dict[str, Any]:
    """How one kind of runs changed between nights, as plain values."""
    change, best = each.found, each.found.likeliest
    return {
        "figure": each.figure,
        "night": each.night,
        "release": None if each.release is None else list(each.release),
        "runs_before": change.before,
        "runs_now": change.now,
        "spread": change.spread,
        "change": change.change,
        "moved": change.moved,
        "slower": change.slower,
        "term": None if best is None else best.term,
        "factor": None if best is None else best.factor,
        "alike": list(change.alike),
        "terms": [{"term": term.term, "factor": term.factor, "explains": 1 - term.left} for term in change.terms],
    }
