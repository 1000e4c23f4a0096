"""What costmodel predicts of each shipped run by constants that are fitted without the run's source."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from costmodel.documents.reader.library import CachedReader
from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario
from costmodel.estimate.training_answer.predict_training import predict
from costmodel.evidence.calibrate.fit_from_runs import step_fit
from costmodel.evidence.calibrate.regression_problem import TimedRun, shipped_priors
from costmodel.evidence.validate.spelling import CannotModel
from costmodel.evidence.validate.validate_serving import predicted_figures

from .described_runs import Described
from .peers import peak_bytes

RATE = "output_tokens_per_s"


def own_answers(described: Sequence[tuple[Described, LoadedScenario]]) -> list[Described]:
    """Of steps with the source left out of constants and bands; no constant is fitted on the benchmarks of engines."""
    answers = [{"id": run["id"], **_timed(case)} for run, case in described]
    peak = peak_bytes()
    steps = [place for place, (_, case) in enumerate(described) if isinstance(case, ResolvedScenario)]
    unseen = _left_out([described[place] for place in steps])
    for place, (error, inside) in zip(steps, unseen, strict=True):
        answers[place] |= {"predicted": described[place][0]["measured"] * float(np.exp(error)), "in_band": int(inside)}
    for answer, (run, _) in zip(answers, described, strict=True):
        answer["peak_bytes"] = peak
        ends = answer.pop("ends", None)
        if ends is not None:
            answer |= {"predicted": ends[0], "in_band": int(ends[1] <= run["measured"] <= ends[2])}
    return answers


def _timed(case: LoadedScenario) -> dict[str, Any]:
    """Seconds of one answer; of a service the answer itself."""
    began = time.process_time()
    if isinstance(case, ResolvedScenario):
        predict(case)
        return {"seconds": time.process_time() - began}
    served = predicted_figures(case, [RATE])
    found = {"seconds": time.process_time() - began}
    return {**found, "refused": served.why} if isinstance(served, CannotModel) else {**found, "ends": served[RATE]}


def _left_out(described: Sequence[tuple[Described, Any]]) -> list[tuple[float, bool]]:
    """The log error of each step, and whether it lies in its band, fitted on the other sources."""
    shelf = CachedReader()
    runs = [TimedRun(run["id"], case, run["measured"], run["source"], run["source"]) for run, case in described]
    unseen = step_fit(runs, shipped_priors(shelf), shelf, leave_out=True).unseen
    assert unseen is not None
    return list(zip(unseen.errors.tolist(), unseen.inside.tolist(), strict=True))
