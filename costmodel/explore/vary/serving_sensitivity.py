"""Which figure moves a result of a serving plan most: fitted constants within their spread, all others by a tenth.

The load, the lengths of requests and the sizes of a step are among them: users choose them, and ask what they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from pydantic import ValidationError

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.serving.serving_workload import LOADS
from costmodel.estimate.serving.figure_bands import is_of_bands
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.explore.compare.input_paths import changed, leaves
from costmodel.explore.search.progress import UNWATCHED, Watcher
from costmodel.explore.vary.sensitivity import TENTH, Knob, knobs_of, scaled
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

_LENGTHS = ("workload.prompt", "workload.output")
_FRACTIONAL = "workload.rate"  # the others are whole numbers


@record
class ServingSensitivity:
    """A result of the scenario's own plan, and what moves it, most first."""

    answer: ServingAnswer
    result: str
    value: float
    knobs: tuple[Knob, ...]


def sensitivity(case: ServingCase, result: str, pace: Watcher = UNWATCHED) -> ServingSensitivity:
    """Every figure the answer rests on, turned both ways while all else stays."""
    base = predict(case)
    value = base.costs[result]
    if base.refused or not math.isfinite(value) or not value:
        reason = ", ".join(base.refused) or (f"{result} is 0" if value == 0 else f"{result} is not known")
        hint = "costmodel estimate shows the plan and what is wrong with it"
        raise fail("C004", f"there is no {result} to move: {reason}", Place(case.file), hint)
    bands = is_of_bands(result)

    def found(one: ServingCase) -> float:
        return float(predict(one, bands=bands).costs[result])

    asked = [knob for knob in _asked(base, value, found) if knob.swing > 1e-9]
    knobs = sorted((*knobs_of(case, value, found, pace), *asked), key=lambda knob: (-knob.swing, knob.path))
    return ServingSensitivity(base, result, value, tuple(knobs))


def _asked(base: ServingAnswer, value: float, result: Callable[[ServingCase], float]) -> Iterator[Knob]:
    """The load, the lengths of requests, and the most tokens and sequences of a step, each turned by a tenth."""
    case, inputs, written = base.inputs.case, base.inputs, leaves(base.inputs.case)
    named = [f"workload.{name}" for name in LOADS] + [f"{path}{end}" for path in _LENGTHS for end in ("", ".mean")]
    figures = {path: (float(written[path].value), written[path].text) for path in named if path in written}
    for path, size in (("stack.budget", inputs.budget), ("stack.sequences", inputs.sequences)):
        figures[path] = float(np.asarray(size).flat[0]), f"{float(np.asarray(size).flat[0]):.10g}"
    for path, (figure, text) in figures.items():
        step = TENTH * figure if path == _FRACTIONAL else max(1.0, round(TENTH * figure))
        low, high = (_change(case, path, end, value, result) for end in (figure - step, figure + step))
        turned = scaled(text, 1 - step / figure), scaled(text, 1 + step / figure)
        kind: Literal["workload", "plan"] = "plan" if path.startswith("stack.") else "workload"
        yield Knob(path, text, kind, step / figure, low, high, turned)


def _change(case: ServingCase, path: str, figure: float, value: float, result: Callable[[ServingCase], float]) -> float:
    """The share by which a result changes where a number is another; none where it may not be."""
    try:
        return result(changed(case, path, figure)) / value - 1
    except (ValidationError, CostModelError):
        return 0.0
