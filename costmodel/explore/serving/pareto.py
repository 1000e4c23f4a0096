"""The Pareto front of two serving results, over every plan at every load that it can serve."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.results import SERVING_RESULTS
from costmodel.documents.schemas.serving import LOADS as LOAD_KEYS
from costmodel.estimate.serving.evaluate_disaggregated import evaluate_pairs
from costmodel.estimate.serving.evaluate_layouts import evaluate
from costmodel.estimate.serving.measured_spreads import is_unmeasured
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.predict_serving import AnyEvaluation, routed_parts
from costmodel.estimate.serving.replica_capacity import ReplicaCapacity, capacity_at_any_load
from costmodel.estimate.serving.service_limits import IN_TIME, OWN, asking_chance
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.explore.search.rank import Front, Top, axes
from costmodel.explore.search.required_chance import preferred_chance
from costmodel.explore.search.scenario_variants import Variants, fail_if_listed
from costmodel.explore.search.space_interface import Keep
from costmodel.explore.search.stream import HERE, SearchOptions, through
from costmodel.explore.search.value_ranges import Axis
from costmodel.explore.serving.layout_candidates import valid_pairs
from costmodel.explore.serving.search_layouts import (
    UNSTABLE,
    OwnPlan,
    ServiceSpace,
    codes_of,
    ranked_plan,
    valid_layouts,
)
from costmodel.explore.serving.serving_search_result import (
    RankedPlan,
    ServiceSearch,
    ServiceTally,
    banded_plans,
    fail_without_figures,
    inputs_of_service,
    listed_by_search,
)
from costmodel.ground.errors import fail
from costmodel.ground.record import record

LOADS = 24  # from the lightest to the heaviest that a plan answers
LIGHTEST = 1 / 128  # of the heaviest load


@record
class LoadedSpace(ServiceSpace):
    """The plans of a serving scenario, each at loads up to the most that it serves."""

    def empty(self) -> ServiceTally:
        """The result of no plans."""
        assert self.axes is not None
        return ServiceTally(Top(self.size), Top(1), Front(self.axes))

    def searched(self, inputs: ServingInputs, piece: int, keep: Keep | None) -> ServiceTally:
        """The points of all plans of a scenario."""
        found = self.empty()
        assert found.front is not None
        named = {found.front.axes.x, found.front.axes.y}
        asked = asking_chance(inputs) if {OWN, *IN_TIME} & named else inputs
        found.parts[0], layout = valid_layouts(asked)
        halves = valid_pairs(asked, layout)
        found.parts[0].evaluated += len(halves[0])
        found.parts[0].candidates += len(halves[0])
        if not len(layout):
            raise fail("C004", "search lists no valid plan", asked.case.place("search"))
        with np.errstate(all="ignore"):
            capacity = capacity_at_any_load(asked, layout)
        for load in _loads(asked, layout, halves, capacity):
            loaded = _with_load(asked, load)
            for evaluation in _evaluate_plans(loaded, layout, halves, capacity):
                codes = codes_of(loaded, evaluation)
                unstable = [mask for code, mask in codes.items() if code in UNSTABLE]
                stands = ~np.any(np.stack([*unstable, np.zeros(len(evaluation.layout), dtype=bool)]), axis=0)
                found.front.add(_LoadedPlans(evaluation, codes, float(load)), stands)
        found.parts[0].best = next(iter(found.front.rows), None)
        return found


@record
class _LoadedPlans:
    """Plans at one load."""

    evaluation: AnyEvaluation
    codes: dict[str, NDArray[np.bool_]]
    load: float

    def column(self, name: str) -> NDArray[np.float64]:
        """The values of a result, one for each plan."""
        return self.evaluation.results.column(name)

    def ties(self, places: NDArray[np.intp]) -> Sequence[NDArray[np.float64]]:
        """No further sort keys: the first of equal plans stays."""
        return ()

    def plan(self, place: int, score: float) -> RankedPlan:
        """The plan at a place, at its load."""
        return replace(ranked_plan(self.evaluation, place, self.codes), load=self.load)


def front(inputs: ServingInputs, text: str, over: Sequence[Axis] = (), how: SearchOptions = HERE) -> ServiceSearch:
    """The Pareto front over every plan of the scenario's space at loads up to the most that it serves."""
    since = time.perf_counter()
    fail_if_listed(over, partial(listed_by_search, inputs))
    traded = axes(text, "", SERVING_RESULTS)
    variants = Variants(inputs, inputs_of_service, tuple(over))
    variants.checked(ServiceSpace.most)
    fail_without_figures(variants, [traded.x, traded.y])
    safe = None if is_unmeasured(inputs) else preferred_chance(inputs.case)
    space = LoadedSpace(0, OwnPlan(), safe, traded)
    tally = space.empty()
    stopped, total = through(space, variants, tally, how)
    assert tally.front is not None
    if not tally.front.rows and not stopped:
        place, hint = inputs.case.place("search", "plan"), _unknown_result(traded.x, traded.y)
        raise fail("C004", f"no plan has both {traded.x} and {traded.y}", place, hint)
    tally.front.rows = _with_bands(variants, tally.front.rows)
    return ServiceSearch(variants, tally, None, time.perf_counter() - since, total, stopped, safe)


def _with_bands(variants: Variants[ServingInputs], points: Sequence[RankedPlan]) -> list[RankedPlan]:
    """The points with both ends of every band, each at its load."""
    found = list(points)
    for kind in dict.fromkeys((point.variant, point.load) for point in points):
        places = [place for place, point in enumerate(points) if (point.variant, point.load) == kind]
        inputs = _with_load(variants.of(kind[0]), kind[1])
        for place, plan in zip(places, banded_plans(inputs, [points[place] for place in places]), strict=True):
            found[place] = plan
    return found


def _unknown_result(x: str, y: str) -> str:
    """A sentence on what a result needs that no plan here has; empty for other results."""
    if "makespan" in (x, y) or "tail_share" in (x, y) or "cost_of_batch" in (x, y):
        return "makespan, tail_share and cost_of_batch are of an offline batch: workload.requests"
    return ""


Halves = tuple[PlanColumns, PlanColumns]


def _evaluate_plans(
    inputs: ServingInputs, layout: PlanColumns, halves: Halves, capacity: ReplicaCapacity | None
) -> Iterator[AnyEvaluation]:
    """Evaluates plans whose engines do both prefill and decode, then disaggregated ones."""
    with np.errstate(all="ignore"):
        yield evaluate(inputs, layout, capacity)
        if len(halves[0]):
            yield from (evaluate_pairs(*part) for part in routed_parts(inputs, *halves))


def _loads(
    inputs: ServingInputs, layout: PlanColumns, halves: Halves, capacity: ReplicaCapacity | None
) -> NDArray[np.float64]:
    """Loads in equal ratios, up to the most that any plan serves."""
    workload = inputs.case.scenario.workload
    top = 0.0
    for evaluation in _evaluate_plans(inputs, layout, halves, capacity):
        found = evaluation.results
        if workload.rate is not None:
            most = found.column("saturation_per_s")
        else:
            most = found.column("concurrency_steady") * evaluation.layout.replicas
        answered = (found.column("memory_share") <= 1) & np.isfinite(most)
        top = max(top, float(np.max(np.where(answered, most, 0.0), initial=0.0)))
    if not top:
        raise fail("C004", "no plan of the search fits", inputs.case.place("search", "plan"))
    return np.geomspace(max(top * LIGHTEST, 1.0 if workload.rate is None else 0.0), top * (1 - 1e-6), LOADS)


def _with_load(inputs: ServingInputs, load: float) -> ServingInputs:
    """The scenario with another value of its load, such as another rate."""
    case, workload = inputs.case, inputs.case.scenario.workload
    kind = next(name for name in LOAD_KEYS if getattr(workload, name) is not None)
    changed = workload.model_copy(update={kind: float(load)})
    return replace(inputs, case=replace(case, scenario=case.scenario.model_copy(update={"workload": changed})))
