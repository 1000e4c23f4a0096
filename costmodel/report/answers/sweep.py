"""The answer of `sweep`: results for every combination of values."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.default_values import SAFE
from costmodel.documents.schemas.results import is_money, machine_name
from costmodel.explore.vary.sweep import SweepResult
from costmodel.explore.workload_interface import Trial
from costmodel.ground.counts import number_of
from costmodel.ground.errors import fail
from costmodel.ground.units import percent
from costmodel.report.document import AnswerDocument, Cell, Column, Draw, Section, Table
from costmodel.report.terminal.charts import line_chart
from costmodel.report.terminal.formatting import and_list, readable
from costmodel.report.terminal.head import case_title, hourly_price, price_lines_of_all, price_varies
from costmodel.report.terminal.layout import BAD, DIM, WARN, Line, WidthDrawing, bar, schema_head, styled
from costmodel.report.trials import (
    axis_label,
    best_chance,
    held_fields,
    missed_lines,
    next_lines,
    remark_codes,
    remark_lines,
    result_cells,
    result_columns,
    result_note_lines,
    result_words,
    short_path,
    trial_fields,
    trial_settings,
    trial_verdict,
    with_bands,
)
from costmodel.report.workload_words import fixed_key_lines, subject_fields, varied_head, words_of

SIZES_OF_A_CLUSTER = ("cluster.nodes", "cluster.node.accelerators", "plan.replicas")
_GPU_RATE = "tokens_per_s_per_gpu"
_BAR = 16


def sweep_document(swept: SweepResult, *, chart: bool = False) -> AnswerDocument:
    """A table with a row for each combination: its settings, its results, and the fault if it has one."""
    priced = any(map(is_money, swept.shown))
    about: list[Line] = [*varied_head(swept.asked, swept.paths, priced=priced)]
    about += fixed_key_lines(swept.asked, swept.paths) if swept.best else []
    if len(swept.points) < swept.total:
        about.append(styled(f"Stopped after {len(swept.points):,} of {swept.total:,} combinations.", BAD))
    broken = sum(not point.costs for point in swept.points)
    counted = number_of(len(swept.points), "point") + (f", {broken:,} without an answer" if broken else "")
    made = "with the best plan for its --set" if swept.best else "costmodel estimate with its --set"
    last: list[Line] = [_chart_of(swept), Text()] if chart else []
    return AnswerDocument(
        swept.asked.case,
        case_title(swept.asked.case),
        about,
        _conclusion_sentence(swept),
        best_chance(swept.asked, [best] if (best := _best_combination(swept)) is not None else swept.points),
        [combinations_section(swept)],
        remark_lines(swept.points, "N003", "N023"),
        remark_codes(swept.points, "N003", "N023"),
        [*last, styled(f"{counted}; each is {made}.", DIM), *_next_lines(swept)],
    )


def _next_lines(swept: SweepResult) -> list[Line]:
    """The command for the best combination, or for the first that works where none is better."""
    first = next((point for point in swept.points if point.works), None)
    return next_lines(swept.asked, _best_combination(swept) or first, searched=swept.best)


def combinations_section(swept: SweepResult) -> Section:
    """The section with the table of combinations, with prices if they differ between rows."""
    asked, points = swept.asked, swept.points
    priced = any(map(is_money, swept.shown)) and price_varies(swept.paths)
    names = with_bands(swept.shown)
    first = names[0]
    most = max((value for point in points if 0 < (value := point.costs.get(first, 0.0)) < math.inf), default=0.0)
    main, *further = result_columns(asked, names)
    columns = [*(Column(short_path(path)) for path in swept.paths), main]
    columns += [Column("", "l", drop=1, face="terminal"), *further]
    columns += [*([Column("price")] if priced else []), *([Column("best plan", "l")] if swept.best else [])]
    rows = []
    for point in points:
        result, *results = result_cells(asked, point, names)
        row: list[Cell] = [*map(readable, point.written), result, _result_bar(point, first, most), *results]
        row += [hourly_price(point.about.price) if point.about else ""] if priced else []
        row += [point.kept.words if point.kept is not None and point.costs else ""] if swept.best else []
        rows.append([*row, trial_verdict(asked, point)])
    settings = [trial_settings(point, searched=swept.best) for point in points]
    beneath: list[Line] = [*price_lines_of_all(point.about.price for point in points if point.about)] if priced else []
    beneath += [*missed_lines(asked, points), *result_note_lines(points, swept.shown), *_unequal_sizes_line(swept)]
    table = Table([*columns, Column("verdict", "l")], rows, settings=settings, sortable=True)
    lead, drawn = f"{number_of(len(points), 'combination')}.", [partial(_draw_sweep, swept)]
    return Section("sweep", "What changes", lead, drawn, table=table, beneath=beneath, asked=True)


def _draw_sweep(swept: SweepResult) -> Draw:
    """The plot of a result over the varied keys."""
    from costmodel.report.page.question_figures import sweep_figure

    return sweep_figure(swept)


def _best_combination(swept: SweepResult) -> Trial | None:
    """The combination with the best first result, preferably a safe one; None if all are equal."""
    name, better = swept.shown[0], swept.asked.columns[swept.shown[0]].better
    known = [point for point in swept.points if point.works and math.isfinite(point.costs.get(name, math.nan))]
    known = [point for point in known if not _is_risky(swept, point)] or known
    values = {point.costs[name] for point in known}
    if better == "neither" or (len(known) > 1 and len(values) == 1):
        return None
    return min(known, key=lambda point: point.costs[name] * (-1.0 if better == "higher" else 1.0), default=None)


def _is_risky(swept: SweepResult, point: Trial) -> bool:
    """Whether the chance of a combination to work is below the one that searches prefer."""
    return point.costs.get(swept.asked.chance, 1.0) < SAFE


def _conclusion_sentence(swept: SweepResult) -> str:
    """The conclusion: the number of combinations that work, and the best one."""
    works, best = sum(point.works for point in swept.points), _best_combination(swept)
    words = f"{works} of {number_of(len(swept.points), 'combination')} work{'s' if works == 1 else ''}."
    if best is None:
        return words
    name, pairs = swept.shown[0], zip(map(short_path, swept.paths), best.written, strict=True)
    most, settings = swept.asked.columns[name].better.removesuffix("er"), ", ".join(map(" ".join, pairs))
    risky = any(point.works and _is_risky(swept, point) for point in swept.points) and not _is_risky(swept, best)
    name = f"{name} with a chance of {percent(SAFE, 2)} {swept.asked.chance_event}" if risky else name
    return f"{words} The {most}est {name}, {result_words(swept.asked, best, swept.shown[0])}, is at {settings}."


def _result_bar(point: Trial, name: str, most: float) -> str:
    """A result as a bar of characters; empty if the result is infinite."""
    value = point.costs.get(name, math.nan)
    return bar(value / most, _BAR) if most > 0 and 0 <= value <= most else ""


def _unequal_sizes_line(swept: SweepResult) -> list[Line]:
    """A warning that combinations use different numbers of GPUs although no varied key sets them."""
    sizes = dict.fromkeys(f"{point.about.ranks:,.0f}" for point in swept.points if point.about and point.costs)
    if (
        len(sizes) < 2
        or _GPU_RATE not in swept.asked.columns
        or any(path in SIZES_OF_A_CLUSTER for path in swept.paths)
    ):
        return []
    return [styled(f"  ▲ unequal: the points have {and_list(sizes)} accelerators; {_GPU_RATE} compares them", WARN)]


def _chart_of(swept: SweepResult) -> WidthDrawing:
    """The first result along the only axis."""
    path, column = swept.paths[0], swept.shown[0]
    placed = [(point.values.get(path), point.costs.get(column, math.nan), point) for point in swept.points]
    known = [(x, y, point) for x, y, point in placed if isinstance(x, float) and math.isfinite(y)]
    if len(swept.axes) != 1 or len(known) < 2:
        raise fail("C010", "a chart needs one axis of numbers with two answers or more", None, "leave --chart out")
    say = partial(words_of(swept.asked.case.kind).result, column)
    written = {x: readable(point.written[0]) for x, _, point in known}
    return line_chart([(x, y) for x, y, _ in known], (path, column), (axis_label, say), written=written)


def sweep_json(swept: SweepResult) -> dict[str, Any]:
    """All combinations as plain values."""
    asked = swept.asked
    return {
        **schema_head("costmodel/sweep/v2"),
        **subject_fields(asked, swept.paths),
        "axes": [{"path": axis.path, "values": list(axis.values)} for axis in swept.axes],
        "columns": [
            {"name": machine_name(name), "unit": asked.columns[name].unit, "meaning": asked.columns[name].meaning}
            for name in swept.shown
        ],
        "complete": len(swept.points) == swept.total,
        "points": sweep_rows(swept),
        **held_fields(asked, swept.paths, [point.remarked for point in swept.points], best=swept.best),
    }


def sweep_rows(swept: SweepResult) -> list[dict[str, Any]]:
    """One row per combination for tables of programs, in SI units; with the plan if each row has its own."""
    rows = []
    for point in swept.points:
        plan = point.kept.keys if swept.best and point.kept is not None else {}
        rows.append({**trial_fields(swept.asked, point, swept.shown, swept.paths), **plan})
    return rows
