"""Answers of sweep."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.results import is_money, machine_name
from costmodel.explore.trial import Trial
from costmodel.explore.vary.sweep import Swept
from costmodel.ground.counts import number_of
from costmodel.ground.errors import fail
from costmodel.report.machine.answer_fields import notes
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.charts import line
from costmodel.report.terminal.style.formatting import joined, spaced
from costmodel.report.terminal.style.head import hourly, price_varies, prices
from costmodel.report.terminal.style.layout import CellTable, Line, WidthDrawing
from costmodel.report.terminal.style.theme import BAD, DIM, WARN, bar, styled
from costmodel.report.trials import (
    NARROW,
    against_words,
    aside_lines,
    figure_words,
    heads_of,
    missed_lines,
    remark_lines,
    short_path,
    tick_words,
    trial_fields,
    with_ends,
)
from costmodel.report.workload_words import held_lines, subject_fields, varied_head, words_of

SIZES_OF_A_CLUSTER = ("cluster.nodes", "cluster.node.accelerators", "plan.replicas")
_EACH = "tokens_per_s_per_gpu"
_BAR = 16


def sweep(found: Swept, *, chart: bool = False) -> list[Line]:
    """A row a combination: what was set, what came out, and what is wrong where something is."""
    priced = any(map(is_money, found.shown))
    each = priced and price_varies(found.paths)
    lines: list[Line] = [*varied_head(found.asked, found.paths, priced=priced)]
    lines += held_lines(found.asked, found.paths) if found.best else []
    if len(found.points) < found.total:
        lines.append(styled(f"Stopped after {len(found.points):,} of {found.total:,} combinations.", BAD))
    lines += [Text(), _combinations(found, priced=each)]
    if each:
        lines += prices(point.about.price for point in found.points if point.about)
    lines += missed_lines(found.asked, found.points)
    lines += aside_lines(found.points, found.shown)
    lines += remark_lines(found.points, "N003", "N023")
    lines += _unequal(found)
    if chart:
        lines += [Text(), _chart(found)]
    broken = sum(not point.costs for point in found.points)
    counted = number_of(len(found.points), "point") + (f", {broken:,} without an answer" if broken else "")
    made = "the best of costmodel search" if found.best else "costmodel estimate"
    return [*lines, Text(), styled(f"{counted}; each is {made} with its --set.", DIM)]


def _combinations(found: Swept, *, priced: bool) -> CellTable:
    """The table of a sweep; with a column of prices where each row has its own."""
    first, *others = with_ends(found.shown)
    most = max((value for point in found.points if 0 < (value := point.costs.get(first, 0.0)) < math.inf), default=0.0)
    rows = []
    for point in found.points:
        main, *further = (figure_words(found.asked, point, name) for name in (first, *others))
        price = (hourly(point.about.price) if point.about else "",) if priced else ()
        plan = (point.kept.words if point.kept is not None and point.costs else "",) if found.best else ()
        verdict = against_words(found.asked, point)
        values = map(spaced, point.written)
        rows.append((*values, main, _bar(point, first, most), *further, *price, *plan, verdict))
    main_head, *other_heads = heads_of(found.asked, (first, *others))
    heads = [*map(short_path, found.paths), main_head, "", *other_heads]
    heads += [*(["price"] if priced else []), *(["best plan"] if found.best else []), "verdict"]
    align = "r" * (len(found.axes) + 1) + "l" + "r" * (len(others) + priced) + "l" * (1 + found.best)
    return CellTable(heads, rows, align, drop=[head for head in ("", *NARROW) if head in heads])


def _bar(point: Trial, name: str, most: float) -> str:
    """A result as a bar; none where it has no end."""
    value = point.costs.get(name, math.nan)
    return bar(value / most, _BAR) if most > 0 and 0 <= value <= most else ""


def _unequal(found: Swept) -> list[Line]:
    """That points have unlike numbers of accelerators, where none of them was varied."""
    sizes = dict.fromkeys(f"{point.about.ranks:,.0f}" for point in found.points if point.about and point.costs)
    if len(sizes) < 2 or _EACH not in found.asked.columns or any(path in SIZES_OF_A_CLUSTER for path in found.paths):
        return []
    return [styled(f"  ▲ unequal: the points have {joined(sizes)} accelerators; {_EACH} compares them", WARN)]


def _chart(found: Swept) -> WidthDrawing:
    """The first result along the only axis."""
    path, column = found.paths[0], found.shown[0]
    placed = [(point.values.get(path), point.costs.get(column, math.nan), point) for point in found.points]
    known = [(x, y, point) for x, y, point in placed if isinstance(x, float) and math.isfinite(y)]
    if len(found.axes) != 1 or len(known) < 2:
        raise fail("C010", "a chart needs one axis of numbers with two answers or more", None, "leave --chart out")
    say = partial(words_of(found.asked.case.kind).result, column)
    written = {x: spaced(point.written[0]) for x, _, point in known}
    return line([(x, y) for x, y, _ in known], (path, column), (tick_words, say), written=written)


def sweep_json(found: Swept) -> dict[str, Any]:
    """All combinations as plain values."""
    asked = found.asked
    held, conflicts = asked.held(found.paths) if found.best else ({}, ())
    return {
        **head("costmodel/sweep/v2"),
        **subject_fields(asked, found.paths),
        "axes": [{"path": axis.path, "values": list(axis.values)} for axis in found.axes],
        "columns": [
            {"name": machine_name(name), "unit": asked.columns[name].unit, "meaning": asked.columns[name].meaning}
            for name in found.shown
        ],
        "complete": len(found.points) == found.total,
        "points": sweep_rows(found),
        "held": dict(held),
        "notes": [
            *({"code": "N024", "text": sentence} for sentence in conflicts),
            *notes(point.remarked for point in found.points),
        ],
    }


def sweep_rows(found: Swept) -> list[dict[str, Any]]:
    """A row a combination, for tables of programs: SI numbers, names with units; the plan where each has its own."""
    rows = []
    for point in found.points:
        plan = point.kept.keys if found.best and point.kept is not None else {}
        rows.append({**trial_fields(found.asked, point, found.shown, found.paths), **plan})
    return rows
