"""Two results weighed against each other: of every plan, at every load it answers, those that none beats in both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.results import SERVING_RESULTS
from costmodel.documents.schemas.serving.serving_workload import LOADS as LOAD_KEYS
from costmodel.estimate.serving.constraints import invalid
from costmodel.estimate.serving.evaluate_apart import evaluate_apart
from costmodel.estimate.serving.evaluate_layouts import evaluate
from costmodel.estimate.serving.limits_chance import OWN, asking_chance
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.predict_serving import AnyEvaluation, routed_parts, unacceptable
from costmodel.estimate.serving.replica_capacity import ReplicaCapacity, capacity_at_any_load
from costmodel.estimate.serving.requests_in_time import IN_TIME
from costmodel.estimate.serving.serving_band import is_unmeasured
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.explore.safety import preferred_chance
from costmodel.explore.search.named_result import two_results
from costmodel.explore.search.progress import UNWATCHED, Watcher
from costmodel.explore.search.ranges import Axis
from costmodel.explore.serving.found_plans import (
    OverVariants,
    RankedPlan,
    ServingVariants,
    comparable,
    lacks_figure,
    varied,
)
from costmodel.explore.serving.layout_candidates import candidates, valid_pairs
from costmodel.explore.serving.plan_bands import banded_plans
from costmodel.explore.serving.search_layouts import UNSTABLE, ranked_plan
from costmodel.ground.errors import Fault, fail
from costmodel.ground.record import record

LOADS = 24  # from the lightest to the heaviest that a plan answers
LIGHTEST = 1 / 128  # of the heaviest load


@record
class FrontPoint:
    """A plan at a load: requests a second, or requests or users at a time, of the whole fleet."""

    plan: RankedPlan
    load: float


@record
class VariantFront:
    """What one value of each key that varies gives to a front: its points that none of its own beats, or a fault."""

    points: tuple[FrontPoint, ...] = ()
    looked_at: int = 0
    fault: Fault | None = None


@record
class ServingFront(OverVariants):
    """The points that none beats in both results, best in the first one first."""

    variants: ServingVariants
    x: str
    y: str
    points: tuple[FrontPoint, ...]
    parts: tuple[VariantFront, ...]
    safe: float | None = None  # chance to meet all limits under which a point is at risk

    def is_risky(self, plan: RankedPlan) -> bool:
        """Whether a plan lacks the chance that the search prefers."""
        return self.safe is not None and plan.costs[OWN] < self.safe

    @property
    def looked_at(self) -> int:
        """Plans in all."""
        return sum(part.looked_at for part in self.parts)

    @property
    def knee(self) -> FrontPoint | None:
        """The point that is farthest from the line between the ends, both results by their ranges; of safe points,
        where the search prefers these.
        """
        if len(self.points) < 3:
            return None
        values = np.array([[point.plan.costs[name] for name in (self.x, self.y)] for point in self.points])
        span = np.ptp(values, axis=0)
        part = (values - values[0]) / np.where(span > 0, span, 1.0)
        along = part[-1] - part[0]
        off = np.abs(along[0] * part[:, 1] - along[1] * part[:, 0])
        safe = [place for place, point in enumerate(self.points) if self._is_safe(point.plan)]
        return self.points[max(safe or range(len(off)), key=lambda place: float(off[place]))]

    def _is_safe(self, plan: RankedPlan) -> bool:
        return self.safe is not None and not plan.broken and not self.is_risky(plan)


def front(inputs: ServingInputs, text: str, over: Sequence[Axis] = (), watcher: Watcher = UNWATCHED) -> ServingFront:
    """Every plan of the scenario's space at loads up to the most it answers; over several scenarios if keys vary."""
    x, y = two_results(text, SERVING_RESULTS)
    variants = varied(inputs, over)
    lacking: dict[str, list[str]] = {x: [], y: []}

    def of_variant(number: int, inputs: ServingInputs) -> VariantFront:
        if without := [name for name in lacking if lacks_figure(inputs, name)]:
            lacking[without[0]].append(inputs.case.node.name)
            return VariantFront()
        return _of_variant(number, asking_chance(inputs) if {OWN, *IN_TIME} & {x, y} else inputs, x, y)

    parts = []
    for found in variants.each(of_variant, watcher):
        parts.append(VariantFront(fault=found) if isinstance(found, Fault) else found)
    for name, nodes in lacking.items():
        comparable(name, nodes)
    points = _unbeaten([point for part in parts for point in part.points], x, y)
    if not points:
        raise fail("C004", f"no plan has both {x} and {y}", inputs.case.place("search", "plan"), _unknown(inputs, x, y))
    safe = None if is_unmeasured(inputs) else preferred_chance(inputs.case)
    return ServingFront(variants, x, y, tuple(_with_bands(variants, points)), tuple(parts), safe)


def _with_bands(variants: ServingVariants, points: Sequence[FrontPoint]) -> list[FrontPoint]:
    """The points with both ends of every band, each at its load."""
    found = list(points)
    for kind in dict.fromkeys((point.plan.variant, point.load) for point in points):
        places = [place for place, point in enumerate(points) if (point.plan.variant, point.load) == kind]
        inputs = _loaded(variants.of(kind[0]), kind[1])
        for place, plan in zip(places, banded_plans(inputs, [points[place].plan for place in places]), strict=True):
            found[place] = replace(points[place], plan=plan)
    return found


def _unknown(inputs: ServingInputs, x: str, y: str) -> str:
    """What a result needs that no plan has."""
    if "makespan" in (x, y) or "tail_share" in (x, y) or "cost_of_batch" in (x, y):
        return "makespan, tail_share and cost_of_batch are of an offline batch: workload.requests"
    return ""


def _of_variant(number: int, inputs: ServingInputs, x: str, y: str) -> VariantFront:
    layout = candidates(inputs)
    kept = np.ones(len(layout), dtype=bool)
    for _, mask in invalid(inputs, layout):
        kept &= ~mask
    layout = layout.at(kept)
    prefill, decode = valid_pairs(inputs, layout)
    if not len(layout):
        raise fail("C004", "search lists no valid plan", inputs.case.place("search"))
    points: list[FrontPoint] = []
    halves = prefill, decode
    with np.errstate(all="ignore"):
        capacity = capacity_at_any_load(inputs, layout)
    for load in _loads(inputs, layout, halves, capacity):
        for evaluation in _evaluated(_loaded(inputs, load), layout, halves, capacity):
            points += _at(_loaded(inputs, load), evaluation, x, y, load, number)
    return VariantFront(tuple(_unbeaten(points, x, y)), len(layout) + len(decode))


Halves = tuple[PlanColumns, PlanColumns]


def _evaluated(
    inputs: ServingInputs, layout: PlanColumns, halves: Halves, capacity: ReplicaCapacity | None
) -> Iterator[AnyEvaluation]:
    """Plans whose engines do both, and those with prefill and decode apart."""
    with np.errstate(all="ignore"):
        yield evaluate(inputs, layout, capacity)
        if len(halves[0]):
            yield from (evaluate_apart(*part) for part in routed_parts(inputs, *halves))


def _loads(
    inputs: ServingInputs, layout: PlanColumns, halves: Halves, capacity: ReplicaCapacity | None
) -> NDArray[np.float64]:
    """Loads of equal ratio, up to the most that any plan answers."""
    workload = inputs.case.scenario.workload
    top = 0.0
    for evaluation in _evaluated(inputs, layout, halves, capacity):
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


def _loaded(inputs: ServingInputs, load: float) -> ServingInputs:
    """The scenario under another load of its kind."""
    case, workload = inputs.case, inputs.case.scenario.workload
    kind = next(name for name in LOAD_KEYS if getattr(workload, name) is not None)
    changed = workload.model_copy(update={kind: float(load)})
    return replace(inputs, case=replace(case, scenario=case.scenario.model_copy(update={"workload": changed})))


def _at(inputs: ServingInputs, evaluation: AnyEvaluation, x: str, y: str, load: float, number: int) -> list[FrontPoint]:
    """The points of one load that none of it beats."""
    codes = dict(_broken(inputs, evaluation))
    stands = np.isfinite(evaluation.results.column(x)) & np.isfinite(evaluation.results.column(y))
    for code, mask in codes.items():
        stands &= ~mask if code in UNSTABLE else True
    rows = np.flatnonzero(stands)
    first, second = (_sign(name) * evaluation.results.column(name)[rows] for name in (x, y))
    return [
        FrontPoint(ranked_plan(evaluation, int(rows[place]), codes, number), float(load))
        for place in _least(first, second)
    ]


def _broken(inputs: ServingInputs, evaluation: AnyEvaluation) -> dict[str, NDArray[np.bool_]]:
    codes: dict[str, NDArray[np.bool_]] = {}
    for code, mask in unacceptable(inputs, evaluation):
        codes[code] = codes.get(code, np.zeros(len(evaluation.layout), dtype=bool)) | mask
    return codes


def _sign(name: str) -> float:
    return -1.0 if SERVING_RESULTS[name].better == "higher" else 1.0


def _least(first: NDArray[np.float64], second: NDArray[np.float64]) -> list[int]:
    """Places of the points that none beats in both, the first result from its least."""
    found, lowest = [], np.inf
    for place in np.lexsort((second, first)):
        if second[place] < lowest:
            found.append(int(place))
            lowest = float(second[place])
    return found


def _unbeaten(points: list[FrontPoint], x: str, y: str) -> list[FrontPoint]:
    first, second = (np.array([_sign(name) * point.plan.costs[name] for point in points]) for name in (x, y))
    return [points[place] for place in _least(first, second)]
