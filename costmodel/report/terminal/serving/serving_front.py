"""The front of a search of a serving scenario: two results of every plan at every load, drawn and listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.results import SERVING_COLUMNS, SERVING_RESULTS, banded_results, is_money, machine_name
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.serving.predict_serving import remarks
from costmodel.explore.serving.best_layout import plan_settings
from costmodel.explore.serving.pareto import FrontPoint, ServingFront
from costmodel.ground.counts import number_of
from costmodel.ground.units import percent, significant
from costmodel.report.machine.answer_fields import assumed_json, frame, notes
from costmodel.report.machine.serving_json import plan
from costmodel.report.terminal.serving.serving_formatting import chance_of, result
from costmodel.report.terminal.serving.serving_search import apart_words, degree_words
from costmodel.report.terminal.serving.serving_variants import (
    stopped_lines,
    title_lines,
    variant_remarks,
    varied_cells,
    varied_heads,
)
from costmodel.report.terminal.style.formatting import spaced
from costmodel.report.terminal.style.head import origin_lines, price_lines, price_varies, prices
from costmodel.report.terminal.style.layout import CellTable, Line, typed
from costmodel.report.terminal.style.next_command import command
from costmodel.report.terminal.style.scatter import ScatterPoint, scatter
from costmodel.report.terminal.style.theme import DIM, styled

_LOADS = {"rate": "req/s", "concurrency": "in flight", "users": "users", "requests": "requests"}


def front(found: ServingFront, shown: int) -> list[Line]:
    """The points that none beats in both results, best in the first one first."""
    workload, case = found.inputs.case.scenario.workload, found.inputs.case
    names = (found.x, found.y)
    load = next(word for key, word in _LOADS.items() if getattr(workload, key) is not None)
    values = [tuple(point.plan.costs[name] for name in names) for point in found.points]
    points = [ScatterPoint(x, y, "●") for x, y in values]
    if found.knee is not None:
        x, y = (found.knee.plan.costs[name] for name in names)
        points.append(ScatterPoint(x, y, "◆"))
    titles = [f"{name} ({SERVING_RESULTS[name].better} is better)" for name in names]
    text_of = tuple(partial(result, name) for name in names)
    mixture = found.inputs.model.has_experts
    shared = ("dcp",) if any("dcp" in point.plan.sizes for point in found.points) else ()
    degrees = ("tp", "pp", *(("ep", "dp_attention") if mixture else ()), *shared, "replicas", "budget")
    heads = {"dp_attention": "dpa", "replicas": "repl"}
    over = varied_heads(found.variants)
    rows = [_row(found, place, point, degrees) for place, point in _spread(found.points, shown)]
    ends = {"low": "P10", "high": "P90"}
    axes = (ends.get(name.rpartition("_")[2], name) for axis in names for name in _with_end(axis))
    head = ("#", *over, *(heads.get(name, name) for name in degrees), load, *axes, "")
    align = f"r{'k' * len(over)}{'r' * (len(head) - len(over) - 2)}l"
    plans = number_of(found.looked_at, "plan")
    lines: list[Line] = [
        *title_lines(found.variants, f"{plans}, each up to its highest load"),
        *stopped_lines(found),
        *_prices(found),
        *origin_lines(case),
        *variant_remarks(found.variants, [point.plan.variant for point in found.points]),
        Text(),
        scatter(points, (titles[0], titles[1]), (text_of[0], text_of[1])),
        styled("  ● on the front · ◆ its knee", DIM),
        Text(),
        CellTable(head, rows, align, drop=("budget", "pp"), indent="  "),
        *apart_words([point.plan for point in found.points]),
        *_without_points(found),
    ]
    if any(found.is_risky(point.plan) and not point.plan.broken for point in found.points):
        words = f"at risk: the chance to {chance_of(case)} is below {percent(found.safe or 0.0, 2)}"
        lines.append(styled(f"  {words}", DIM))
    if len(rows) < len(found.points):
        lines.append(styled(f"  {len(rows)} of {len(found.points):,} on the front, spread evenly; --json has all", DIM))
    return [*lines, Text(), _next(found)]


def _next(found: ServingFront) -> Line:
    """The command for the knee of the front, or for its first plan."""
    case, point = found.inputs.case, found.knee or found.points[0]
    key = next(key for key in _LOADS if getattr(case.scenario.workload, key) is not None)
    load = f"{significant(point.load)}/s" if key == "rate" else f"{max(point.load, 1.0):.0f}"
    settings = {**plan_settings(found, point.plan), f"workload.{key}": load}
    label = "Knee" if found.knee else "Row 1"
    broken = f" (✗ {' '.join(point.plan.broken)})" if point.plan.broken else ""
    broken = " (at risk)" if not broken and found.is_risky(point.plan) else broken
    return typed(f"{label}{broken}:", command(case, "estimate", settings=settings))


def _prices(found: ServingFront) -> list[Text]:
    """The prices behind a cost that plans are weighed by."""
    if not any(map(is_money, (found.x, found.y))):
        return []
    variants = found.variants
    if not price_varies(variants.paths):
        return price_lines(price_of(found.inputs.case))
    return prices(price_of(variants.of(number).case) for number in range(len(found.parts)))


def _without_points(found: ServingFront) -> Iterator[Line]:
    """The values of keys that vary of which no plan is on the front, with why there is none."""
    variants, on_front = found.variants, {point.plan.variant for point in found.points}
    for number, part in enumerate(found.parts if variants.over else ()):
        if number not in on_front:
            value = " · ".join(map(spaced, variants.values(number).values()))
            why = "others beat all its plans" if part.points else "no plan answers a load"
            yield styled(
                f"  {value}: {why if part.fault is None else f'✗ {part.fault.code} {part.fault.sentence}'}", DIM
            )


def _row(found: ServingFront, place: int, point: FrontPoint, degrees: Sequence[str]) -> tuple[str, ...]:
    ranked, names = point.plan, (found.x, found.y)
    return (
        f"{place}",
        *varied_cells(found.variants, ranked.variant),
        *(degree_words(ranked, name) for name in degrees),
        significant(point.load),
        *(result(name, ranked.costs[name]) for axis in names for name in _with_end(axis)),
        f"✗ {' '.join(ranked.broken)}" if ranked.broken else "at risk" if found.is_risky(ranked) else "",
    )


def _with_end(name: str) -> tuple[str, ...]:
    """A result and the worse end of its band, where it has one."""
    end = "high" if SERVING_RESULTS[name].better == "lower" else "low"
    return (name, f"{name}_{end}") if name in banded_results(SERVING_RESULTS) else (name,)


def _spread(points: Sequence[FrontPoint], shown: int) -> Iterator[tuple[int, FrontPoint]]:
    """As many of the points as are shown, evenly, with their numbers; the ends too."""
    count = min(shown, len(points))
    places = {round(step * (len(points) - 1) / max(count - 1, 1)) for step in range(count)}
    return ((place + 1, points[place]) for place in sorted(places))


def front_json(found: ServingFront) -> dict[str, Any]:
    """The same as costmodel/result/v1."""
    rows = [
        {
            **found.variants.cells(point.plan.variant),
            **plan(point.plan.sizes, point.plan.costs),
            **({} if point.plan.prefill is None else {"prefill": point.plan.prefill}),
            "load": point.load,
            "broken": list(point.plan.broken),
        }
        for point in found.points
    ]
    axes = [{"name": machine_name(name), "better": SERVING_RESULTS[name].better} for name in (found.x, found.y)]
    return {
        **frame(found.inputs.case, SERVING_COLUMNS, found.variants.paths),
        "assumed": assumed_json(found.inputs.assumed),
        "notes": notes([tuple(remarks(found.inputs))]),
        "candidates": found.looked_at,
        "safe": None if found.safe is None else {"chance": found.safe},
        "pareto": {"axes": axes, "plans": rows},
    }
