"""Which figure moves a result of an iteration most: fitted constants within their spread, all others by a tenth."""

from __future__ import annotations

import math

from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.estimate.rl.predict_rl import RlAnswer, predict
from costmodel.estimate.rl.trainer_steps import TrainerSteps
from costmodel.explore.search.progress import UNWATCHED, Watcher
from costmodel.explore.vary.sensitivity import Knob, knobs_of
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record


@record
class RlSensitivity:
    """A result of the scenario's own plan, and what moves it, most first."""

    answer: RlAnswer
    result: str
    value: float
    knobs: tuple[Knob, ...]


def sensitivity(case: RlCase, result: str, pace: Watcher = UNWATCHED) -> RlSensitivity:
    """Every figure the answer rests on, turned both ways while all else stays."""
    steps = TrainerSteps()
    base = predict(case, steps)
    value = base.costs.get(result, math.nan)
    if base.refused or not math.isfinite(value) or not value:
        reason = ", ".join(base.refused) or (f"{result} is 0" if value == 0 else f"{result} is not known")
        hint = "costmodel estimate shows the plan and what is wrong with it"
        raise fail("C004", f"there is no {result} to move: {reason}", Place(case.file), hint)
    knobs = knobs_of(case, value, lambda one: predict(one, steps).costs[result], pace)
    return RlSensitivity(base, result, value, knobs)
