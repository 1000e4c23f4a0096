"""The parts of a page about what changes an answer: a tornado, a sweep, sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from costmodel.documents.keys.overrides import short
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.sources import provenance
from costmodel.documents.schemas.results import machine_name
from costmodel.explore.compare.input_paths import leaves
from costmodel.explore.scaling import RANKS
from costmodel.explore.trial import Trial
from costmodel.explore.vary.knob import Knob
from costmodel.explore.vary.scale import Scaled, ScaledSize
from costmodel.explore.vary.sensitivity import Sensitivity
from costmodel.explore.vary.sweep import Swept
from costmodel.explore.workload import Workload
from costmodel.ground.units import percent, significant
from costmodel.report.page.content import Cell, PageTable, Part, Value
from costmodel.report.page.figures import BarRow, Bars, Piece
from costmodel.report.page.plots import Plot
from costmodel.report.page.row_commands import efficiency_value, row_commands, settings_of
from costmodel.report.page.trace import Traces
from costmodel.report.page.trial_figure import TrialValue, sweep_figure, trial_figure
from costmodel.report.terminal.documents.tree import written_words
from costmodel.report.terminal.style.formatting import ENDS, spaced
from costmodel.report.terminal.style.next_command import command
from costmodel.report.terminal.vary.scaled_sizes import bend
from costmodel.report.terminal.vary.sensitivity import bottleneck, settable, turned_words
from costmodel.report.trials import against_words, figure_words, heads_of, short_path, with_ends
from costmodel.report.workload_words import words_of

_KNOBS = 12


def signed(share: float) -> str:
    """A change in percent with its sign."""
    if not math.isfinite(share):
        return "no end"
    return f"{'+' if share > 0 else '−'}{significant(abs(share) * 100)} %" if abs(share) >= 5e-6 else "0 %"


def tornado_part(found: Sensitivity, traces: Traces) -> Part:
    """What moves a result most."""
    asked, say, gains = found.asked, words_of(found.asked.case.kind).result, bottleneck(found)
    plan = {} if asked.case.scenario.plan is not None else asked.kept(found.answer).settings
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
    names = with_ends(found.shown)
    heads = (*map(short_path, found.paths), *names, "verdict")
    rows: list[list[Cell]] = []
    for point in found.points:
        values: list[Cell] = [spaced(value) for value in point.written]
        rows.append([*values, *result_cells(found.asked, point, names), against_words(found.asked, point)])
    align = "r" * (len(heads) - 1) + "l"
    count = f"{len(found.points):,} combination{'' if len(found.points) == 1 else 's'}"
    figures = [*[""] * len(found.axes), *names, ""]
    table = PageTable(heads, rows, align, sortable=True, rows_data="points", figures=figures)
    return Part("sweep", "What changes", f"{count}.", [sweep_figure(found)], [table])


def result_cells(asked: Workload, point: Trial, names: Sequence[str]) -> list[Cell]:
    """Results of a trial; nothing where there are none."""
    return [
        Value(figure_words(asked, point, name), value, machine_name(name))
        if math.isfinite(value := point.costs.get(name, math.nan))
        else ""
        for name in names
    ]


def trial_commands(case: LoadedScenario, points: Sequence[Trial], *, searched: bool) -> dict[str, Any]:
    """The commands that explain trials; where each has the best plan of a search, with that plan."""
    return row_commands(case, [trial_settings(point, searched=searched) for point in points])


def trial_settings(point: Trial, *, searched: bool) -> dict[str, str]:
    """What makes a scenario one of its trials."""
    plan = point.kept.settings if searched and point.kept is not None else {}
    return {**settings_of(point.settings), **plan}


def scale_part(found: Scaled, traces: Traces, key: str = "points") -> Part:
    """Every size with its results, and efficiency where sizes compare.

    key: what the data of the page call the rows
    """
    asked, scaling = found.asked, found.scaling
    names, compared = with_ends(scaling.shown), bool(scaling.time)
    rows: list[list[Cell]] = []
    for row in found.rows:
        cells: list[Cell] = [row.found.text, *result_cells(asked, row.found.point, names)]
        rows.append([*cells, *([_efficiency(found, row, traces)] if compared else []), _verdict(found, row)])
    heads = (scaling.name.rpartition(".")[2], *heads_of(asked, names), *(["efficiency"] if compared else []), "verdict")
    figures = ("", *names, *([""] if compared else []), "")
    align = "r" * (len(heads) - 1) + "l"
    table = PageTable(heads, rows, align, sortable=True, rows_data=key, figures=figures)
    how = f"{scaling.words[0].upper()}{scaling.words[1:]}. " if scaling.words and compared else ""
    lead = f"{how}{bend(found)}" if compared else "As many replicas as keep every limit at each rate."
    return Part("scale", "Scaling" if compared else "Capacity by rate", lead, [scale_figure(found)], [table])


def _verdict(found: Scaled, row: ScaledSize) -> str:
    return against_words(found.asked, row.found.point)


def _efficiency(found: Scaled, row: ScaledSize, traces: Traces) -> Cell:
    """What each accelerator gets done, over what it does on the smallest size with an answer."""
    if not row.efficiency >= 0:
        return ""
    each = []
    for other in (row, found.known[0]):
        costs = other.found.point.costs
        settings = trial_settings(other.found.point, searched=found.best)
        line = command(found.asked.case, "explain", found.scaling.work, settings=settings)
        each.append((f"{significant(found.scaling.each(costs, other.found.size), 4)} /s", line))
    return efficiency_value(traces, percent(row.efficiency), row.efficiency, each)


def scale_figure(found: Scaled) -> Plot | Bars:
    """A result over the sizes, with its band."""
    name, asked = found.scaling.figure, found.asked
    values = []
    for row in found.rows:
        costs = row.found.point.costs
        value, low, high = (costs.get(key, math.nan) for key in (name, *(f"{name}_{end}" for end in ENDS)))
        values.append(
            TrialValue(row.found.text, row.found.text, value, row.found.point.works, row.found.size, low, high)
        )
    axis = "accelerators" if found.scaling.name == RANKS else found.scaling.name
    column, say = asked.columns[name], partial(words_of(asked.case.kind).result, name)
    if column.unit != "1/s":
        return trial_figure("scale", name, column.unit, axis, values, say)
    return trial_figure("scale", f"{name}, {column.written}", column.unit, axis, values, lambda rate: f"{rate:.6g}")
