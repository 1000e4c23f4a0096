"""The chart of a sweep of a service: one result along one key."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from costmodel.explore.compare.input_paths import leaves
from costmodel.explore.serving.vary_serving import SweptServing
from costmodel.ground.errors import fail
from costmodel.report.terminal.serving.serving_formatting import result
from costmodel.report.terminal.style.charts import line
from costmodel.report.terminal.style.formatting import spaced
from costmodel.report.terminal.style.layout import WidthDrawing
from costmodel.report.terminal.vary.vary import tick_words


def chart(found: SweptServing) -> WidthDrawing:
    """The first result along the only axis; a fault where it is no axis of numbers."""
    placed = list(_points(found)) if len(found.axes) == 1 else []
    points, written = [(x, y) for x, y, _ in placed], {x: text for x, _, text in placed}
    if len(points) < 2:
        raise fail("C010", "a chart needs one axis of numbers with two answers or more", None, "leave --chart out")
    name = found.shown[0]
    return line(points, (found.axes[0].path, name), (tick_words, partial(result, name)), written=written)


def _points(found: SweptServing) -> Iterator[tuple[float, float, str]]:
    for trial in found.trials:
        if trial.answer is None or trial.answer.refused or "M001" in trial.codes:
            continue
        value = leaves(trial.answer.inputs.case).get(found.axes[0].path)
        result_there = trial.answer.costs[found.shown[0]]
        if value is not None and isinstance(value.value, float) and math.isfinite(result_there):
            yield value.value, result_there, spaced(trial.settings[0].partition("=")[2])
