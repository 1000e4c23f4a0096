"""The front of a search of a serving scenario: two results of every plan at every load, drawn and listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.results import SERVING_RESULTS, banded_results, is_money, machine_name
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.serving.predict_serving import remarks
from costmodel.explore.serving.best_layout import plan_settings
from costmodel.explore.serving.found_plans import RankedPlan, ServiceSearch
from costmodel.ground.counts import number_of
from costmodel.ground.units import percent, significant
from costmodel.report.machine.answer_fields import assumed_json, notes
from costmodel.report.machine.serving_json import frame, plan
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


def front(found: ServiceSearch, shown: int) -> list[Line]:
    """The points that none beats in both results, best in the first one first."""
    workload, case = found.inputs.case.scenario.workload, found.inputs.case
    names = _axes(found)
    load = next(word for key, word in _LOADS.items() if getattr(workload, key) is not None)
    values = [tuple(point.costs[name] for name in names) for point in _points(found)]
    points = [ScatterPoint(x, y, "●") for x, y in values]
    if found.knee is not None:
        x, y = (found.knee.costs[name] for name in names)
        points.append(ScatterPoint(x, y, "◆"))
    titles = [f"{name} ({SERVING_RESULTS[name].better} is better)" for name in names]
    text_of = tuple(partial(result, name) for name in names)
    mixture = found.inputs.model.has_experts
    shared = ("dcp",) if any("dcp" in point.sizes for point in _points(found)) else ()
    degrees = ("tp", "pp", *(("ep", "dp_attention") if mixture else ()), *shared, "replicas", "budget")
    heads = {"dp_attention": "dpa", "replicas": "repl"}
    over = varied_heads(found.variants)
    rows = [_row(found, place, point, degrees) for place, point in _spread(_points(found), shown)]
    ends = {"low": "P10", "high": "P90"}
    axes = (ends.get(name.rpartition("_")[2], name) for axis in names for name in _with_end(axis))
    head = ("#", *over, *(heads.get(name, name) for name in degrees), load, *axes, "")
    align = f"r{'k' * len(over)}{'r' * (len(head) - len(over) - 2)}l"
    plans = number_of(found.tally.evaluated, "plan")
    lines: list[Line] = [
        *title_lines(found.variants, f"{plans}, each up to its highest load"),
        *stopped_lines(found),
        *_prices(found),
        *origin_lines(case),
        *variant_remarks(found.variants, [point.variant for point in _points(found)]),
        Text(),
        scatter(points, (titles[0], titles[1]), (text_of[0], text_of[1])),
        styled("  ● on the front · ◆ its knee", DIM),
        Text(),
        CellTable(head, rows, align, drop=("budget", "pp"), indent="  "),
        *apart_words(_points(found)),
        *_without_points(found),
    ]
    if any(found.is_risky(point) and not point.broken for point in _points(found)):
        words = f"at risk: the chance to {chance_of(case)} is below {percent(found.safe or 0.0, 2)}"
        lines.append(styled(f"  {words}", DIM))
    if len(rows) < len(_points(found)):
        lines.append(
            styled(f"  {len(rows)} of {len(_points(found)):,} on the front, spread evenly; --json has all", DIM)
        )
    return [*lines, Text(), _next(found)]


def _axes(found: ServiceSearch) -> tuple[str, str]:
    assert found.front is not None
    return found.front.axes.x, found.front.axes.y


def _points(found: ServiceSearch) -> list[RankedPlan]:
    assert found.front is not None
    return found.front.rows


def _next(found: ServiceSearch) -> Line:
    """The command for the knee of the front, or for its first plan."""
    case, point = found.inputs.case, found.knee or _points(found)[0]
    key = next(key for key in _LOADS if getattr(case.scenario.workload, key) is not None)
    load = f"{significant(point.load)}/s" if key == "rate" else f"{max(point.load, 1.0):.0f}"
    settings = {**plan_settings(found, point), f"workload.{key}": load}
    label = "Knee" if found.knee else "Row 1"
    broken = f" (✗ {' '.join(point.broken)})" if point.broken else ""
    broken = " (at risk)" if not broken and found.is_risky(point) else broken
    return typed(f"{label}{broken}:", command(case, "estimate", settings=settings))


def _prices(found: ServiceSearch) -> list[Text]:
    """The prices behind a cost that plans are weighed by."""
    if not any(map(is_money, _axes(found))):
        return []
    variants = found.variants
    if not price_varies(variants.paths):
        return price_lines(price_of(found.inputs.case))
    return prices(price_of(variants.of(number).case) for number in range(len(found.service_parts)))


def _without_points(found: ServiceSearch) -> Iterator[Line]:
    """The values of keys that vary of which no plan is on the front, with why there is none."""
    variants, on_front = found.variants, {point.variant for point in _points(found)}
    for part in found.service_parts if variants.over else ():
        number = part.number
        if number not in on_front:
            value = " · ".join(map(spaced, variants.values(number).values()))
            why = "others beat all its plans" if part.best else "no plan answers a load"
            yield styled(
                f"  {value}: {why if part.fault is None else f'✗ {part.fault.code} {part.fault.sentence}'}", DIM
            )


def _row(found: ServiceSearch, place: int, point: RankedPlan, degrees: Sequence[str]) -> tuple[str, ...]:
    ranked, names = point, _axes(found)
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


def _spread(points: Sequence[RankedPlan], shown: int) -> Iterator[tuple[int, RankedPlan]]:
    """As many of the points as are shown, evenly, with their numbers; the ends too."""
    count = min(shown, len(points))
    places = {round(step * (len(points) - 1) / max(count - 1, 1)) for step in range(count)}
    return ((place + 1, points[place]) for place in sorted(places))


def front_json(found: ServiceSearch) -> dict[str, Any]:
    """The same as costmodel/result/v1."""
    rows = [
        {
            **found.variants.cells(point.variant),
            **plan(point.sizes, point.costs),
            **({} if point.prefill is None else {"prefill": point.prefill}),
            "load": point.load,
            "broken": list(point.broken),
        }
        for point in _points(found)
    ]
    axes = [{"name": machine_name(name), "better": SERVING_RESULTS[name].better} for name in _axes(found)]
    return {
        **frame(found.inputs, found.variants.paths),
        "assumed": assumed_json(found.inputs.assumed),
        "notes": notes([tuple(remarks(found.inputs))]),
        "candidates": found.tally.evaluated,
        "safe": None if found.safe is None else {"chance": found.safe},
        "pareto": {"axes": axes, "plans": rows},
    }
