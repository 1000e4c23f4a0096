"""A result of several trials: a curve with its band where numbers were varied, bars where words were."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.explore.compare.input_paths import leaves
from costmodel.ground.record import record
from costmodel.report.page.figures import Bars, FigureEntry, amounts
from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint
from costmodel.report.page.values import round_unit
from costmodel.report.terminal.style.formatting import spaced
from costmodel.report.terminal.vary.vary import tick_words

_SPREAD = 8  # times the least from which on an axis is logarithmic
_NONE = FigureEntry("none has an answer", 0.0, "first")


@record
class TrialValue:
    """A trial by what was set, its result with the band where there is one, and whether it keeps all limits.

    written: the first value that was set, as it was written; at: the same in its base unit, nan of a word
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
    """One result of every trial; what breaks a limit is orange."""
    known = [trial for trial in trials if math.isfinite(trial.value)]
    words = f"{len(known)} of {len(trials)} have an answer; orange breaks a limit."
    placed = [(trial.at, trial) for trial in known]
    base = round_unit(name, unit, max((trial.value for trial in known), default=1.0))
    if len({x for x, _ in placed}) < 2 or not all(math.isfinite(x) for x, _ in placed):
        entries = [FigureEntry(trial.setting, trial.value, _role(trial), trial.setting) for trial in known]
        return amounts(key, name, words, entries or [_NONE], name, text_of, base)
    placed.sort(key=lambda item: item[0])
    xs = sorted({x for x, _ in placed})
    banded = len(xs) == len(placed) and all(math.isfinite(trial.low + trial.high) for _, trial in placed)
    low, high = ([getattr(trial, end) for _, trial in placed] if banded else () for end in ("low", "high"))
    line = PlotLine([(x, trial.value) for x, trial in placed], "first", "", low, high)
    points = [
        PlotPoint(x, trial.value, _role(trial), f"{trial.setting}: {text_of(trial.value)}", trial.setting)
        for x, trial in placed
    ]
    legend = [("first", "keeps the limits"), ("second", "breaks a limit")]
    seen = {point.role for point in points}
    written = {x: spaced(trial.written) for x, trial in placed}
    across = PlotAxis(axis, tick_words, xs[0] > 0 and xs[-1] / xs[0] >= _SPREAD, at=written)
    legend = [entry for entry in legend if entry[0] in seen]
    return Plot(key, f"{name} over {axis}", words, across, PlotAxis(name, text_of, unit=base), points, [line], legend)


def _role(trial: TrialValue) -> str:
    return "first" if trial.works else "second"


def number_at(case: LoadedScenario, path: str) -> float:
    """A value of a scenario as it was read, in its base unit; nan of a word."""
    found = leaves(case).get(path)
    value = None if found is None else found.value
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
