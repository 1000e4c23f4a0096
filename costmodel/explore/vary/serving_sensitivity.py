"""Which figure moves a result of a serving plan most: fitted constants within their spread, all others by a tenth."""

from __future__ import annotations

import math

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.estimate.serving.figure_bands import is_of_bands
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.explore.vary.sensitivity import Knob, knobs_of
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record


@record
class ServingSensitivity:
    """A result of the scenario's own plan, and what moves it, most first."""

    answer: ServingAnswer
    result: str
    value: float
    knobs: tuple[Knob, ...]


def sensitivity(case: ServingCase, result: str) -> ServingSensitivity:
    """Every figure the answer rests on, turned both ways while all else stays."""
    base = predict(case)
    value = base.costs[result]
    if base.refused or not math.isfinite(value) or not value:
        reason = ", ".join(base.refused) or (f"{result} is 0" if value == 0 else f"{result} is not known")
        hint = "costmodel estimate shows the plan and what is wrong with it"
        raise fail("C004", f"there is no {result} to move: {reason}", Place(case.file), hint)
    bands = is_of_bands(result)
    knobs = knobs_of(case, value, lambda one: predict(one, bands=bands).costs[result])
    return ServingSensitivity(base, result, value, knobs)
