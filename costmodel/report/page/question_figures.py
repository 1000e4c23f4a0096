"""Figures of the answers of sweep, scale, sensitivity and check."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from costmodel.explore.compare.check import CheckedScenario
from costmodel.explore.vary.scale import ScalingResult
from costmodel.explore.vary.sensitivity import Sensitivity
from costmodel.explore.vary.sweep import SweepResult
from costmodel.explore.workload_interface import RANKS, Knob, Trial
from costmodel.ground.record import record
from costmodel.ground.units import percent, significant
from costmodel.report.page.figures import BarRow, Bars, FigureEntry, Piece, amount_bars
from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint, round_unit
from costmodel.report.terminal.formatting import ENDS, readable
from costmodel.report.trials import axis_label, short_path
from costmodel.report.workload_words import words_of

_KNOBS = 12
_SPREAD = 8  # times the least from which on an axis is logarithmic
_ROLES = ("first", "second", "third", "fourth")  # of lines of one figure
_NONE = FigureEntry("none has an answer", 0.0, "first")


@record
class TrialValue:
    """A trial in a figure: its setting, its result with the band, and whether it meets all limits.

    written: the first value that was set, as typed; at: this value in its base unit, NaN for a word
    """

    setting: str
    written: str
    value: float
    works: bool
    at: float = math.nan
    low: float = math.nan
    high: float = math.nan


def trial_figure(
    key: str, name: str, unit: str, axis: str, trials: Sequence[TrialValue], text_of: Callable[[float], str]
) -> Plot | Bars:
    """A figure of one result over all trials; trials that break a limit are orange."""
    known = [trial for trial in trials if math.isfinite(trial.value)]
    words = f"{len(known)} of {len(trials)} have an answer; orange breaks a limit."
    placed = [(trial.at, trial) for trial in known]
    base = round_unit(name, unit, max((trial.value for trial in known), default=1.0))
    if len({x for x, _ in placed}) < 2 or not all(math.isfinite(x) for x, _ in placed):
        entries = [FigureEntry(trial.setting, trial.value, _trial_role(trial), trial.setting) for trial in known]
        return amount_bars(key, name, words, entries or [_NONE], name, text_of, base)
    placed.sort(key=lambda item: item[0])
    xs = sorted({x for x, _ in placed})
    banded = len(xs) == len(placed) and all(math.isfinite(trial.low + trial.high) for _, trial in placed)
    low, high = ([getattr(trial, end) for _, trial in placed] if banded else () for end in ("low", "high"))
    line = PlotLine([(x, trial.value) for x, trial in placed], "first", "", low, high)
    points = [
        PlotPoint(x, trial.value, _trial_role(trial), f"{trial.setting}: {text_of(trial.value)}", trial.setting)
        for x, trial in placed
    ]
    legend = [("first", "meets the limits"), ("second", "breaks a limit")]
    seen = {point.role for point in points}
    written = {x: readable(trial.written) for x, trial in placed}
    across = PlotAxis(axis, axis_label, xs[0] > 0 and xs[-1] / xs[0] >= _SPREAD, at=written)
    legend = [entry for entry in legend if entry[0] in seen]
    return Plot(key, f"{name} over {axis}", words, across, PlotAxis(name, text_of, unit=base), points, [line], legend)


def _trial_role(trial: TrialValue) -> str:
    return "first" if trial.works else "second"


def sweep_figure(found: SweepResult) -> Plot | Bars:
    """The first of the results that differ over the combinations: a curve for each value of the other axes, or bars."""
    name, path = _first_differing(found), found.paths[0]
    column, say = found.asked.columns[name], partial(words_of(found.asked.case.kind).result, name)
    groups: dict[tuple[str, ...], list[Trial]] = {}
    for point in found.points:
        if math.isfinite(point.costs.get(name, math.nan)) and math.isfinite(_value_in_base_unit(point, path)):
            groups.setdefault(point.settings[1:], []).append(point)
    if not 1 < len(groups) <= len(_ROLES) or max(map(len, groups.values())) < 2:
        values = [_trial_value(point, name, path) for point in found.points]
        return trial_figure("sweep", name, column.unit, short_path(path), values, say)
    points, lines, legend = list[PlotPoint](), list[PlotLine](), list[tuple[str, str]]()
    for role, (rest, members) in zip(_ROLES, groups.items(), strict=False):
        placed = sorted(((_value_in_base_unit(point, path), point) for point in members), key=lambda item: item[0])
        lines.append(PlotLine([(x, point.costs[name]) for x, point in placed], role))
        legend.append((role, ", ".join(map(_setting_words, rest))))
        points += [
            PlotPoint(x, point.costs[name], role, f"{' '.join(point.settings)}: {say(point.costs[name])}",
                      " ".join(point.settings), hollow=not point.works)
            for x, point in placed
        ]  # fmt: skip
    xs = [point.x for point in points]
    written = {
        _value_in_base_unit(point, path): readable(point.written[0]) for members in groups.values() for point in members
    }
    x = PlotAxis(short_path(path), axis_label, min(xs) > 0 and max(xs) / min(xs) >= _SPREAD, at=written)
    better = "" if column.better == "neither" else f", {column.better} is better"
    y = PlotAxis(f"{name}{better}", say, unit=round_unit(name, column.unit, max(point.y for point in points)))
    words = f"{len(points)} of {len(found.points)} combinations have an answer; hollow breaks a limit."
    return Plot("sweep", f"{name} over {short_path(path)}", words, x, y, points, lines, legend)


def _first_differing(found: SweepResult) -> str:
    known = [point.costs for point in found.points if point.costs]
    return next((name for name in found.shown if len({costs.get(name) for costs in known}) > 1), found.shown[0])


def _value_in_base_unit(point: Trial, path: str) -> float:
    """A trial's value of a key in its base unit; NaN for a word."""
    value = point.values.get(path)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def _trial_value(point: Trial, name: str, path: str) -> TrialValue:
    value, low, high = (point.costs.get(key, math.nan) for key in (name, *(f"{name}_{end}" for end in ENDS)))
    words = " ".join(map(_setting_words, point.settings))
    return TrialValue(words, point.written[0], value, point.works, _value_in_base_unit(point, path), low, high)


def _setting_words(setting: str) -> str:
    path, _, value = setting.partition("=")
    return f"{short_path(path).rpartition('.')[2]} {readable(value)}"


def scale_figure(found: ScalingResult) -> Plot | Bars:
    """A figure that plots a result with its band over the sizes."""
    name, asked = found.scaling.drawn_result, found.asked
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


def tornado_figure(found: Sensitivity) -> Bars:
    """Bars with the change of the result when each input moves down or up, the largest first."""
    rows = [
        BarRow(
            knob.settable,
            [_turned_bar(knob, "lower", knob.low), _turned_bar(knob, "higher", knob.high)],
            f"{_signed_percent(knob.low)}, {_signed_percent(knob.high)}",
        )
        for knob in found.knobs[:_KNOBS]
    ]
    first = f"{found.knobs[0].settable} moves it most." if found.knobs else "Nothing moves it."
    legend = (("lower", "input lower"), ("higher", "input higher"))
    return Bars("sensitivity", f"What moves {found.result}", first, rows, f"change of {found.result}", _signed_percent,
                legend=legend, unit=0.01)  # fmt: skip


def _signed_percent(share: float) -> str:
    """A change in percent with its sign."""
    if not math.isfinite(share):
        return "∞"
    return f"{'+' if share > 0 else '−'}{significant(abs(share) * 100)} %" if abs(share) >= 5e-6 else "0 %"


def _turned_bar(knob: Knob, role: str, share: float) -> Piece:
    """A bar with the change of the result when an input moves to one side; no bar if the result is infinite."""
    tip = f"{knob.path} {role} by {percent(knob.spread)}: {_signed_percent(share)}"
    end = share if math.isfinite(share) else 0.0
    return Piece(0.0, end, role, tip, f"{knob.path}.{'low' if role == 'lower' else 'high'}", end)


def check_figure(found: Sequence[CheckedScenario]) -> Bars:
    """Bars of passed and failed checks, by scenario."""
    rows, every_one = [], [(checked.name, [finding.kept for finding in checked.findings]) for checked in found]
    for name, held in every_one:
        kept, every = float(sum(held)), float(len(held))
        pieces = [
            Piece(0.0, kept, "good", f"{name}: {kept:.0f} kept", f"{name}.kept", kept),
            Piece(kept, every, "bad", f"{name}: {every - kept:.0f} failed", f"{name}.failed", every - kept),
        ]
        share = percent(kept / every) if every else "held to nothing"
        rows.append(BarRow(name, pieces, f"{kept:.0f} of {every:.0f}, {share}" if every else share))
    legend = (("good", "passed"), ("bad", "failed"))
    words = f"{sum(all(held) for _, held in every_one)} of {len(found)} scenarios pass every check."
    return Bars(
        "kept",
        "Checks passed, by scenario",
        words,
        rows,
        "what is held to: number",
        lambda value: f"{value:g}",
        legend=legend,
    )
