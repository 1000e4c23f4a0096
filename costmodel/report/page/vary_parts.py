"""The parts of a page about what changes an answer: a tornado, a sweep, sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from costmodel.documents.keys.overrides import short
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.reader.sources import provenance
from costmodel.documents.schemas.results import TRAINING_COLUMNS, machine_name
from costmodel.explore.compare.input_paths import leaves
from costmodel.explore.vary.knob import Knob
from costmodel.explore.vary.scale import Scaled
from costmodel.explore.vary.sensitivity import Sensitivity
from costmodel.explore.vary.sweep import SweepPoint, Swept
from costmodel.ground.units import counted, percent, significant
from costmodel.report.page.content import Cell, PageTable, Part, Value
from costmodel.report.page.figures import BarRow, Bars, FigureEntry, Piece, amounts
from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint
from costmodel.report.page.row_commands import efficiency_value, row_commands, settings_of
from costmodel.report.page.trace import Traces
from costmodel.report.page.values import round_unit
from costmodel.report.terminal.documents.tree import written_words
from costmodel.report.terminal.plan.plan_settings import settings_of_block
from costmodel.report.terminal.style.formatting import result, spaced
from costmodel.report.terminal.style.next_command import command
from costmodel.report.terminal.vary.sensitivity import bottleneck, settable, turned_words
from costmodel.report.terminal.vary.vary import bend, short_path, tick_words, why_words
from costmodel.report.workload_words import words_of

_KNOBS = 12
_LINES = 4  # lines of one figure


def signed(share: float) -> str:
    """A change in percent with its sign."""
    if not math.isfinite(share):
        return "no end"
    return f"{'+' if share > 0 else '−'}{significant(abs(share) * 100)} %" if abs(share) >= 5e-6 else "0 %"


def tornado_part(found: Sensitivity, traces: Traces) -> Part:
    """What moves a result most."""
    asked, say, gains = found.asked, words_of(found.asked.case.kind).result, bottleneck(found)
    plan = {} if asked.case.scenario.plan is not None else words_of(asked.case.kind).settings(found.answer)
    base = traces.of(found.result)
    if base is None:
        line = command(asked.case, "explain", found.result, settings=plan)
        base = traces.add(found.result, say(found.result, found.value), f"{line} prints how it was made")
    written = leaves(asked.case)
    rows: list[Sequence[Cell]] = []
    for knob in found.knobs:
        place = written[knob.path].place if knob.path in written else None
        source = "" if place is None else written_words(provenance(asked.case.trees, place))
        leaf = traces.add(settable(knob), knob.text, place=source)
        ends = []
        for share, figure in zip((knob.low, knob.high), knob.turned, strict=True):
            line = "the same equations with this constant, which the fit holds and --set does not reach"
            if knob.kind != "fitted":
                line = command(asked.case, "explain", found.result, settings={**plan, short(knob.path): figure})
            text = say(found.result, found.value * (1 + share))
            turned = traces.add(f"{found.result} with {settable(knob)} {figure}", text, line, [leaf])
            changed = traces.add("change", signed(share), ("= ", " / ", " − 1"), [turned, base])
            ends.append(Value(signed(share), share, trace=changed))
        rows.append((settable(knob), knob.text, turned_words(knob), *ends))
    return Part(
        "sensitivity",
        f"What moves {found.result}",
        f"Fitted constants within their spread, all other figures by a tenth. {' '.join(gains[:2])}",
        [tornado_figure(found)],
        figures_as_table=PageTable(("figure", "is", "turned", "down", "up"), rows, "lrrrr"),
    )


def tornado_figure(found: Sensitivity) -> Bars:
    """Figures turned down and up, the one that moves the result most first."""
    rows = [
        BarRow(
            settable(knob),
            [_turned(knob, "lower", knob.low), _turned(knob, "higher", knob.high)],
            f"{signed(knob.low)}, {signed(knob.high)}",
        )
        for knob in found.knobs[:_KNOBS]
    ]
    first = f"{settable(found.knobs[0])} moves it most." if found.knobs else "Nothing moves it."
    legend = (("lower", "figure turned down"), ("higher", "figure turned up"))
    return Bars("sensitivity", f"What moves {found.result}", first, rows, f"change of {found.result}", signed,
                legend=legend, unit=0.01)  # fmt: skip


def _turned(knob: Knob, role: str, share: float) -> Piece:
    """What a figure moves by when it is turned to one side; no bar where the result has no end."""
    tip = f"{knob.path} {role} by {percent(knob.spread)}: {signed(share)}"
    end = share if math.isfinite(share) else 0.0
    return Piece(0.0, end, role, tip, f"{knob.path}.{'low' if role == 'lower' else 'high'}", end)


def sweep_part(found: Swept) -> Part:
    """Every combination with its results."""
    heads = (*(short_path(axis.path) for axis in found.axes), *found.shown, "verdict")
    rows: list[list[Cell]] = []
    for point in found.points:
        values: list[Cell] = [spaced(setting.partition("=")[2]) for setting in point.settings]
        rows.append([*values, *(_result(point, name) for name in found.shown), why_words(point)])
    align = "r" * (len(found.axes) + len(found.shown)) + "l"
    count = f"{len(found.points):,} combination{'' if len(found.points) == 1 else 's'}"
    figures = [*[""] * len(found.axes), *found.shown, ""]
    table = PageTable(heads, rows, align, sortable=True, rows_data="points", figures=figures)
    return Part("sweep", "What changes", f"{count}.", [sweep_figure(found)], [table])


def point_commands(case: ResolvedScenario, points: Sequence[SweepPoint], *, searched: bool) -> dict[str, Any]:
    """The commands that explain points; where each has the best plan of a search, with that plan."""
    return row_commands(case, [_settings_of(point, searched=searched) for point in points])


def _settings_of(point: SweepPoint, *, searched: bool) -> dict[str, str]:
    plan = settings_of_block(point.plan) if searched and point.plan is not None else {}
    return settings_of(point.settings) | plan


def _result(point: SweepPoint, name: str) -> Cell:
    value = point.costs.get(name)
    if value is None or not math.isfinite(value):
        return ""
    return Value(result(name, value), value, machine_name(name))


def sweep_figure(found: Swept) -> Plot | Bars:
    """The first result along the axes: curves with bands over numbers, else bars."""
    name, first = found.shown[0], found.axes[0].path
    known = [point for point in found.points if math.isfinite(point.costs.get(name, math.nan))]
    numbers = all(isinstance(point.values.get(first), float) for point in known)
    words = f"{len(known)} of {len(found.points)} combinations have an answer."
    groups: dict[tuple[str, ...], list[SweepPoint]] = {}
    for point in known:
        groups.setdefault(point.settings[1:], []).append(point)
    if not numbers or not known or len(groups) > _LINES or max(map(len, groups.values())) < 2:
        entries = [FigureEntry(" ".join(map(_setting, point.settings)), point.costs[name], "first", point.settings[0])
                   for point in known]  # fmt: skip
        return amounts(
            "sweep", name, words, entries or [FigureEntry("none", 0.0, "first")], name,
            lambda value: result(name, value), _unit(name, known),
        )  # fmt: skip
    roles = ("first", "second", "third", "fourth")
    legend = [(role, " ".join(map(_setting, rest))) for role, rest in zip(roles, groups, strict=False) if rest]
    lines, points = [], []
    for role, members in zip(roles, groups.values(), strict=False):
        members.sort(key=lambda point: _at(point, first))
        lines.append(_curve([(_at(point, first), point) for point in members], name, role, banded=len(groups) == 1))
        points += [
            PlotPoint(_at(point, first), point.costs[name], role, _tip(point, name), " ".join(point.settings))
            for point in members
        ]
    written = {_at(point, first): spaced(point.settings[0].partition("=")[2]) for point in known}
    x = PlotAxis(short_path(first), tick_words, _spread(points), at=written)
    y = PlotAxis(f"{name}, {TRAINING_COLUMNS[name].better} is better", lambda value: result(name, value),
                 unit=_unit(name, known))  # fmt: skip
    return Plot("sweep", f"{name} over {short_path(first)}", words, x, y, points, lines, legend)


def _unit(name: str, points: Sequence[SweepPoint]) -> float:
    """The unit in which the values of a result are shown."""
    return round_unit(name, TRAINING_COLUMNS[name].unit, max((point.costs[name] for point in points), default=1.0))


def _tip(point: SweepPoint, name: str) -> str:
    return f"{' '.join(point.settings)}: {result(name, point.costs[name])}"


def _at(point: SweepPoint, path: str) -> float:
    value = point.values[path]
    assert isinstance(value, float)
    return value


def _spread(points: list[PlotPoint]) -> bool:
    """Whether the values lie so far apart that a logarithmic axis shows them better."""
    xs = [point.x for point in points]
    return min(xs) > 0 and max(xs) / min(xs) >= 8


def _setting(setting: str) -> str:
    path, _, value = setting.partition("=")
    return f"{short_path(path).rpartition('.')[2]} {spaced(value)}"


def _curve(placed: list[tuple[float, SweepPoint]], name: str, role: str, *, banded: bool) -> PlotLine:
    """A line through points, with the band of the result where it has one."""
    points = [(x, point.costs[name]) for x, point in placed]
    low, high = ([point.costs.get(f"{name}_{end}", math.nan) for _, point in placed] for end in ("low", "high"))
    banded = banded and all(map(math.isfinite, (*low, *high)))
    return PlotLine(points, role, "", low if banded else (), high if banded else ())


def scale_part(found: Scaled, traces: Traces, *, searched: bool) -> Part:
    """Every size with its step, efficiency and what grows."""
    rows: list[list[Cell]] = []
    name = "tokens_per_s_per_gpu"
    first = next((row for row in found.rows if row.point.costs), None)
    for row in found.rows:
        efficiency: Cell = ""
        if math.isfinite(row.efficiency) and first is not None:
            each = [(result(name, point.costs[name]), command(found.case, "explain", name,
                                                              settings=_settings_of(point, searched=searched)))
                    for point in (row.point, first.point)]  # fmt: skip
            efficiency = efficiency_value(traces, percent(row.efficiency), row.efficiency, each)
        results = [_result(row.point, name) for name in ("step_time", "mfu", "memory_peak")]
        rows.append([counted(row.ranks), *results, efficiency, why_words(row.point)])
    heads = ("ranks", "step", "MFU", "memory", "efficiency", "verdict")
    kind = "Weak scaling: the batch grows with the ranks." if found.weak else "Strong scaling: the same batch."
    figures = ("", "step_time", "mfu", "memory_peak", "", "")
    table = PageTable(heads, rows, "rrrrrl", sortable=True, rows_data="points", figures=figures)
    return Part("scale", "Scaling", f"{kind} {bend(found)}", [scale_figure(found)], [table])


def scale_figure(found: Scaled) -> Plot:
    """Throughput for each accelerator against the number of accelerators, with its band."""
    name = "tokens_per_s_per_gpu"
    placed = [(row.ranks, row.point) for row in found.rows if row.point.costs]
    points = [
        PlotPoint(x, point.costs[name], "first", f"{counted(x)}: {result(name, point.costs[name])}", counted(x))
        for x, point in placed
    ]
    lines = [_curve(placed, name, "first", banded=True)] if placed else []
    highest = max([line.points[place][1] for line in lines for place in range(len(line.points))], default=1.0)
    highest = max([highest, *(value for line in lines for value in line.high)])
    y = PlotAxis(
        "token/s for each accelerator", lambda value: result(name, value, bare=True), ends=(0.0, highest * 1.08)
    )
    x = PlotAxis("accelerators", counted, logarithmic=True, at={point.x: counted(point.x) for point in points})
    return Plot("scale", "Throughput of each accelerator over their number", bend(found), x, y, points, lines)
