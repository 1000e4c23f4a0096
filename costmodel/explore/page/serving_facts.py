"""What a page shows of a serving scenario: its plan at several loads, its traces, and its search."""

from __future__ import annotations

import functools
import math

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.estimate.serving.replica_capacity import transfers
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore.explain.equation_trees import ExplainedFigure
from costmodel.explore.page.transfer_nodes import transfer_trees
from costmodel.explore.purchase.smallest_size import evaluate_trial
from costmodel.explore.serving.explain_serving import explain_all, traced_evaluation
from costmodel.explore.serving.remedy_trials import CacheLever, levers
from costmodel.explore.serving.search_layouts import search
from costmodel.explore.serving.search_remedies import with_search_remedies
from costmodel.explore.serving.serving_search_result import ServiceSearch
from costmodel.explore.vary.scale import ScalingResult, scale
from costmodel.explore.vary.sensitivity import Sensitivity, sensitivity
from costmodel.explore.workload_interface import Trial
from costmodel.explore.workloads import workload_of
from costmodel.ground.equation import trace
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record

_LOADS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # shares of the rate that it can answer
_SIZES = (0.25, 0.5, 1, 2, 4, 8)  # of the scenario's rate
_BEST = 10  # plans of its search in a report as text
_IN_FLIGHT = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


@record
class ServingFacts:
    """A serving plan with all that a page draws of it."""

    case: ServingCase
    answer: ServingAnswer

    @functools.cached_property
    def nodes(self) -> dict[str, ExplainedFigure]:
        """The equation tree of every figure, including transfers."""
        inputs = self.answer.inputs
        evaluation = traced_evaluation(inputs)
        with trace():
            sent = [item.transfer for item in transfers(inputs, evaluation.layout, evaluation.in_flight)]
        return explain_all(inputs, evaluation) | transfer_trees(self.case.trees, sent)

    @functools.cached_property
    def loads(self) -> list[Trial]:
        """The results of the plan at lighter and heavier loads, without loads that it cannot serve."""
        if self.answer.refused or "M001" in self.answer.broken:
            return []
        asked = workload_of(self.case)
        trials = [
            evaluate_trial(asked, [setting], paths=[setting.partition("=")[0]]) for setting in self._load_assignments()
        ]
        return [trial for trial in trials if math.isfinite(trial.costs.get("ttft", math.nan))]

    @functools.cached_property
    def sizes(self) -> ScalingResult | None:
        """The replicas needed to meet all limits at fractions and multiples of the scenario's rate."""
        rate = self.case.scenario.workload.rate
        if rate is None or self.answer.refused or "M001" in self.answer.broken:
            return None
        return scale(workload_of(self.case), "", ",".join(f"{float(rate * share):.6g} /s" for share in _SIZES))

    @functools.cached_property
    def levers(self) -> list[CacheLever]:
        """The effect of changing single keys on the KV-cache pool."""
        return [] if self.answer.refused else levers(self.answer)

    @functools.cached_property
    def found(self) -> ServiceSearch | None:
        """The search around the plan; None where its space is empty."""
        try:
            return search(inputs_of(self.case), 50)
        except CostModelError:
            return None

    @functools.cached_property
    def ranked(self) -> ServiceSearch | None:
        """The search with its best plans; if none meets every limit, with settings under which one does."""
        return None if self.found is None else with_search_remedies(self.found.first(_BEST))

    @functools.cached_property
    def sensitive(self) -> Sensitivity | None:
        """The sensitivity of the time per token; None where it cannot be computed."""
        try:
            return sensitivity(workload_of(self.case), "tpot")
        except CostModelError:
            return None

    def _load_assignments(self) -> list[str]:
        """--set assignments for a chart over load: rates or requests in flight; empty if it has neither."""
        workload, most = self.case.scenario.workload, self.answer.costs["saturation_per_s"]
        if workload.rate is not None and math.isfinite(most):
            return [f"workload.rate={float(share * most):.3g} /s" for share in _LOADS]
        if workload.concurrency is not None:
            return [f"workload.concurrency={count}" for count in _IN_FLIGHT]
        return []
