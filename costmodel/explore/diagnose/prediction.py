"""The terms of a step as a profile would show them, for a scenario and for changes of one of its figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.plan import Plan
from costmodel.estimate.evaluate.evaluate_plans import TERM_COLUMNS, Evaluation, evaluate
from costmodel.estimate.evaluate.predict import plan_block
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.explore.compare.input_paths import changed
from costmodel.ground.errors import CostModelError
from costmodel.ground.plan_sizes import EXCHANGING
from costmodel.ground.record import record

WITHOUT_KERNELS = ("bubble", "launch")


@record
class PredictedTerms:
    """A predicted step in seconds, the terms that add up to it, and each axis's communication, hidden or not."""

    block: Block
    step: float
    terms: dict[str, float]

    def with_added(self, term: str, time: float) -> PredictedTerms:
        """A copy that is `time` longer, with the time added to one term; without a term, to idle time."""
        terms = {**self.terms, term: self.terms[term] + time} if term else dict(self.terms)
        if term in ("", *WITHOUT_KERNELS):
            terms["idle"] += time
        return replace(self, step=self.step + time, terms=terms)


def predicted(inputs: TrainingInputs, plan: Plan) -> PredictedTerms:
    """The step of a plan."""
    block, _ = plan_block(inputs, plan)
    return of_evaluation(evaluate(inputs, block))


def of_evaluation(evaluation: Evaluation) -> PredictedTerms:
    """The step of a plan that is evaluated."""
    costs, terms = evaluation.costs.row(), dict[str, float]()
    for column in TERM_COLUMNS.values():
        terms[column] = costs[column]
    for axis in EXCHANGING:
        of_axis = [number(item.total_time) for item in evaluation.step.transfers if item.axis == axis]
        terms[f"{axis}_time"] = sum(of_axis)
    terms["idle"] = sum(terms[name] for name in WITHOUT_KERNELS)
    return PredictedTerms(evaluation.block, costs["step_time"], terms)


def with_figure(case: ResolvedScenario, plan: Plan, path: str, value: float) -> PredictedTerms | None:
    """The predicted step with one figure changed; None where the value is invalid."""
    try:
        other: Any = changed(case, path, value)
        with np.errstate(all="ignore"):
            found = predicted(training_inputs(other), plan)
    except (CostModelError, ValidationError):
        return None
    return found if np.isfinite(found.step) else None
