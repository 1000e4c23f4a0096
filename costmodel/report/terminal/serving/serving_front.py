"""The front of a search of a serving scenario: two results of every plan at every load, drawn and listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.serving.serving_results import RESULTS
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.serving.predict_serving import remarks
from costmodel.estimate.serving.result_columns import machine_name
from costmodel.explore.serving.pareto import FrontPoint, ServingFront
from costmodel.ground.counts import number_of
from costmodel.ground.units import counted, significant
from costmodel.report.machine.answer_fields import notes
from costmodel.report.machine.serving_json import frame, plan
from costmodel.report.terminal.serving.serving_formatting import lengths_words, result
from costmodel.report.terminal.style.head import origin_lines, subject_words
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.remark_lines import remarks as remark_lines
from costmodel.report.terminal.style.scatter import ScatterPoint, scatter
from costmodel.report.terminal.style.theme import DIM, HEAD, styled

_LOADS = {"rate": "req/s", "concurrency": "in flight", "users": "users", "requests": "requests"}


def front(found: ServingFront, shown: int) -> list[Line]:
    """The points that none beats in both results, best in the first one first."""
    workload, case = found.inputs.case.scenario.workload, found.inputs.case
    names = (found.x, found.y)
    lengths = lengths_words(workload)
    load = next(word for key, word in _LOADS.items() if getattr(workload, key) is not None)
    values = [tuple(point.plan.costs[name] for name in names) for point in found.points]
    points = [ScatterPoint(x, y, "●") for x, y in values]
    if found.knee is not None:
        x, y = (found.knee.plan.costs[name] for name in names)
        points.append(ScatterPoint(x, y, "◆"))
    titles = [f"{name} ({RESULTS[name].better} is better)" for name in names]
    text_of = tuple(partial(result, name) for name in names)
    mixture = found.inputs.model.has_experts
    shared = ("dcp",) if any("dcp" in point.plan.sizes for point in found.points) else ()
    degrees = ("tp", "pp", *(("ep", "dp_attention") if mixture else ()), *shared, "replicas", "budget")
    heads = {"dp_attention": "dpa", "replicas": "repl"}
    rows = [_row(place, point, degrees, names) for place, point in _spread(found.points, shown)]
    head = ("#", *(heads.get(name, name) for name in degrees), load, *names, "")
    plans = number_of(found.looked_at, "plan")
    lines: list[Line] = [
        styled(subject_words(subject_of(case)), HEAD),
        styled(f"{found.inputs.engine.name} · {lengths} · {plans}, each up to its highest load"),
        *origin_lines(case),
        *remark_lines([tuple(remarks(found.inputs))]),
        Text(),
        scatter(points, (titles[0], titles[1]), (text_of[0], text_of[1])),
        styled("  ● on the front · ◆ its knee", DIM),
        Text(),
        CellTable(head, rows, "r" * (len(head) - 1) + "l", drop=("budget", "pp"), indent="  "),
    ]
    if len(rows) < len(found.points):
        lines.append(styled(f"  {len(rows)} of {len(found.points):,} on the front, spread evenly; --json has all", DIM))
    return lines


def _row(place: int, point: FrontPoint, degrees: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    ranked = point.plan
    return (
        f"{place}",
        *(counted(ranked.sizes.get(name, 1.0)) for name in degrees),
        significant(point.load),
        *(result(name, ranked.costs[name]) for name in names),
        f"✗ {' '.join(ranked.broken)}" if ranked.broken else "",
    )


def _spread(points: Sequence[FrontPoint], shown: int) -> Iterator[tuple[int, FrontPoint]]:
    """As many of the points as are shown, evenly, with their numbers; the ends too."""
    count = min(shown, len(points))
    places = {round(step * (len(points) - 1) / max(count - 1, 1)) for step in range(count)}
    return ((place + 1, points[place]) for place in sorted(places))


def front_json(found: ServingFront) -> dict[str, Any]:
    """The same as costmodel/result/v1."""
    rows = [
        {**plan(point.plan.sizes, point.plan.costs), "load": point.load, "broken": list(point.plan.broken)}
        for point in found.points
    ]
    axes = [{"name": machine_name(name), "better": RESULTS[name].better} for name in (found.x, found.y)]
    return {
        **frame(found.inputs),
        "assumed": [{"path": item.path, "value": item.value, "from": item.origin} for item in found.inputs.assumed],
        "notes": notes([tuple(remarks(found.inputs))]),
        "candidates": found.looked_at,
        "pareto": {"axes": axes, "plans": rows},
    }
