"""The number of replicas: of a plan, for its load, and for the plans of a search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.reader.resolved_scenario import NODES, PART, counted_by_gpus
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.serving import ServingPlan
from costmodel.equations.serving.serving_economics import MONTH
from costmodel.estimate.machine.price import price_per_accelerator
from costmodel.estimate.serving.evaluate_disaggregated import DisaggregatedEvaluation, evaluate_pairs
from costmodel.estimate.serving.evaluate_layouts import ServingEvaluation, evaluate
from costmodel.estimate.serving.plan_columns import SIZES, PlanColumns, filled_with
from costmodel.estimate.serving.predict_serving import AnyEvaluation, ServingAnswer, routed_parts, unacceptable
from costmodel.estimate.serving.replicas_for_load import assumed_headroom, by_whole_nodes, without_headroom
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.results import Costs, stated_limits
from costmodel.explore.serving.serving_search_result import RankedPlan, columns_of
from costmodel.ground.record import record
from costmodel.ground.solvers import distinct_values

# --- how many replicas the plans of a search have


BY_FEWEST = frozenset({"gpus_needed", "rent_per_month", "energy_per_token"})  # objectives, which an idle replica harms
EASED = {
    "at_most": {"cost_per_minput", "cost_per_moutput", "cost_per_mtoken", "energy_per_token"},
    "at_least": {"saturation_share", "tokens_per_s_per_gpu", "concurrency"},
}  # limits that fewer replicas keep and more of them break
_ROUNDS = 4  # in which replicas are added whose share of the rate rounds up above a limit


def most_accelerators(inputs: ServingInputs) -> float:
    """The most accelerators of a plan: those of the cluster, or fewer if size or rent is limited."""
    each, price = float(inputs.case.node.accelerators), float(price_per_accelerator(inputs.case))
    most = float(inputs.ranks)
    for limit in stated_limits(inputs.case.scenario.limits):
        if limit.kind != "at_most":
            continue
        if limit.column == "rent_per_month" and price > 0:
            affordable = limit.value / (MONTH * price)
            most = min(most, affordable // each * each if by_whole_nodes(inputs) else affordable)
        elif limit.column in ("gpus", "nodes"):
            most = min(most, limit.value * (each if limit.column == "nodes" else 1.0))
    return most


def with_most_replicas(inputs: ServingInputs, layout: PlanColumns) -> PlanColumns:
    """The layouts with as many replicas as cluster and limits allow, at least one."""
    layout = filled_with(inputs, layout, most_accelerators(inputs))
    most = np.asarray(layout.replicas)
    for limit in stated_limits(inputs.case.scenario.limits):
        if limit.column == "replicas" and limit.kind == "at_most":
            most = np.minimum(most, np.floor(limit.value))
    return replace(layout, replicas=np.maximum(most, 1.0))


def counts_fleets(inputs: ServingInputs) -> bool:
    """Whether plans are compared by the replicas that they need, or counting those is cheap."""
    return counts_replicas(inputs) or not inputs.depends_on_count


def counts_replicas(inputs: ServingInputs) -> bool:
    """Whether the objective or a limit asks for as few replicas as the rate needs."""
    return any(_wants_fewest(inputs))


def with_counts(inputs: ServingInputs, plans: list[RankedPlan]) -> list[RankedPlan]:
    """Plans with the number of replicas that their rate needs; disaggregated plans are unchanged."""
    whole = [plan for plan in plans if plan.prefill is None]
    if not whole:
        return plans
    (layout,) = columns_of(whole)
    with np.errstate(all="ignore"):
        results = evaluate(inputs, layout).results
    rows = iter(range(len(whole)))
    return [plan if plan.prefill is not None else _plan_with_counts(plan, results, next(rows)) for plan in plans]


def _plan_with_counts(plan: RankedPlan, results: Costs, row: int) -> RankedPlan:
    found = {name: float(results.column(name)[row]) for name in ("replicas_needed", "gpus_needed", "rent_needed")}
    return replace(plan, costs=plan.costs | found)


def sized(inputs: ServingInputs, found: ServingEvaluation) -> Iterator[ServingEvaluation]:
    """Plans as they are, with as few replicas as the rate needs, or both, depending on objective and limits."""
    fewest, eased = _wants_fewest(inputs)
    if not fewest:
        yield found
    known = None if fewest else found.layout
    if fewest or eased:
        fewer = _fewest(inputs, found)
        places = _new(fewer.layout, known)
        if len(places) == len(fewer.layout):
            yield fewer
        elif len(places):
            yield evaluate(inputs, fewer.layout.at(places))
        known = fewer.layout if known is None else known.beside(fewer.layout)
    if eased and assumed_headroom(inputs):  # limits on cost come before the default headroom
        bare = without_headroom(inputs)
        tight = _fewest(bare, evaluate(bare, found.layout)).layout
        places = _new(tight, known)
        if len(places):
            yield evaluate(inputs, tight.at(places))


def _new(layout: PlanColumns, known: PlanColumns | None) -> NDArray[np.intp]:
    """The indices of layouts that are not among the known ones, each layout once."""
    columns = [np.stack([np.asarray(getattr(each, size)) for size in SIZES]) for each in (known, layout) if each]
    _, first = np.unique(np.concatenate(columns, axis=1), axis=1, return_index=True)
    before = 0 if known is None else len(known)
    return np.sort(first[first >= before]) - before


def sized_apart(inputs: ServingInputs, found: list[DisaggregatedEvaluation]) -> Iterator[DisaggregatedEvaluation]:
    """Disaggregated plans as they are, with as few instances as the rate needs, or both."""
    fewest, eased = _wants_fewest(inputs)
    if not fewest:
        yield from found
    if not fewest and not eased:
        return
    halves = _needed_halves(inputs, found)
    for part in routed_parts(inputs, *halves) if len(halves[0]) else ():
        with np.errstate(all="ignore"):
            yield evaluate_pairs(*part)


def _wants_fewest(inputs: ServingInputs) -> tuple[bool, bool]:
    """Whether the objective, and whether a limit, asks for as few replicas as the rate needs."""
    scenario = inputs.case.scenario
    rated = scenario.workload.rate is not None
    eased = any(limit.column in EASED.get(limit.kind, ()) for limit in stated_limits(scenario.limits))
    return rated and scenario.objective in BY_FEWEST, rated and eased


def _fewest(inputs: ServingInputs, found: ServingEvaluation) -> ServingEvaluation:
    """The plans with the fewest replicas that meet the limits at the rate; unchanged if no number does."""
    most = np.asarray(found.layout.replicas, dtype=np.float64)
    good, needed = _rows_within_limits(inputs, found), found.results.column("replicas_needed")
    counts = np.where(np.isfinite(needed), np.clip(needed, 1.0, most), most)
    fewer = found
    for _ in range(_ROUNDS):
        with np.errstate(all="ignore"):
            fewer = evaluate(inputs, replace(found.layout, replicas=counts))
        needed = fewer.results.column("replicas_needed")
        short = good & ~_rows_within_limits(inputs, fewer) & (counts < most)
        if not short.any():
            break
        counts = np.where(short, np.clip(needed, counts + 1, most), counts)
    return fewer


def _rows_within_limits(inputs: ServingInputs, found: AnyEvaluation) -> NDArray[np.bool_]:
    """Mask of the rows that meet every limit."""
    good = np.ones(len(found.layout), dtype=bool)
    for _, mask in unacceptable(inputs, found):
        good &= ~mask
    return good


def _needed_halves(inputs: ServingInputs, found: list[DisaggregatedEvaluation]) -> tuple[PlanColumns, PlanColumns]:
    """Distinct pairs of layouts with the instances of each kind that the rate needs."""
    room, count = most_accelerators(inputs), len(SIZES)
    rows = []
    for each in found:
        gpus = each.results.column("gpus_needed")
        fits = np.isfinite(gpus) & (gpus <= room)
        for half, name in ((each.prefill, "prefill_needed"), (each.decode, "decode_needed")):
            replicas = np.where(fits, each.results.column(name), half.replicas)
            sizes = replace(half, replicas=replicas)
            rows.append(np.stack([np.asarray(getattr(sizes, size)) for size in SIZES]))
    together = [np.concatenate(pair) for pair in zip(rows[::2], rows[1::2], strict=True)]
    unique = distinct_values(np.concatenate(together, axis=1), axis=1)
    return PlanColumns(*unique[:count]), PlanColumns(*unique[count:])


# --- how many replicas a plan has and how many its load needs


# Larger clusters for a remedy: more nodes, or more GPUs where the command line counts those.


@record
class ClusterSizes:
    """Sizes that a cluster may have, by number: parts of a node in powers of two where --gpus may ask for one, then
    whole nodes.
    """

    node: int
    parts: tuple[int, ...] = ()

    def gpus(self, number: int) -> int:
        """Accelerators of a size.

        >>> [ClusterSizes(8, (1, 2, 4)).gpus(number) for number in range(5)], ClusterSizes(8).gpus(0)
        ([1, 2, 4, 8, 16], 8)
        """
        return self.parts[number] if number < len(self.parts) else (number - len(self.parts) + 1) * self.node

    def number(self, gpus: float) -> int:
        """The number of the smallest size with at least `gpus` accelerators."""
        small = next((place for place, part in enumerate(self.parts) if part >= gpus), None)
        return len(self.parts) + max(math.ceil(gpus / self.node), 1) - 1 if small is None else small

    def settings(self, number: int) -> tuple[str, ...]:
        """Settings for a cluster of that size."""
        gpus = self.gpus(number)
        nodes = (f"{NODES}={max(gpus // self.node, 1)}",)
        return (*nodes, f"{PART}={min(gpus, self.node)}") if self.parts else nodes


def sizes_of_cluster(case: ServingCase) -> ClusterSizes:
    """The cluster sizes that a remedy may name."""
    each = int(case.node.accelerators)
    if not counted_by_gpus(case):
        return ClusterSizes(each)
    whole = int(case.node.built)
    powers = itertools.takewhile(lambda part: part < whole, (2**power for power in itertools.count()))
    return ClusterSizes(whole, tuple(powers)) if each < whole else ClusterSizes(whole)


APART = ("prefill", "decode")


def counts_of(plan: ServingPlan, costs: Mapping[str, float]) -> dict[str, float]:
    """The numbers of replicas of a plan, by the key that states them."""
    if plan.prefill is None or plan.decode is None:
        return {"plan.replicas": costs["replicas"]}
    halves = zip(APART, (plan.prefill, plan.decode), strict=True)
    return {f"plan.{name}.replicas": float(half.replicas) for name, half in halves}


def counts_needed(costs: Mapping[str, float]) -> dict[str, float]:
    """The numbers of replicas that the load needs, by the key that states them."""
    found = {f"plan.{name}.replicas": costs[f"{name}_needed"] for name in APART}
    apart = all(count == count for count in found.values())  # not a number where both are done together
    return found if apart else {"plan.replicas": costs["replicas_needed"]}


def gpus_of(answer: ServingAnswer, counts: Mapping[str, float]) -> float:
    """The accelerators of a plan with these numbers of replicas."""
    costs, plan = answer.costs, answer.plan
    if plan.prefill is None or plan.decode is None:
        return counts["plan.replicas"] * costs["gpus"] / costs["replicas"]
    halves = zip(counts.values(), (plan.prefill, plan.decode), strict=True)
    return sum(count * float(half.tp * half.dp_attention) for count, half in halves)


def settings_of(counts: Mapping[str, float]) -> tuple[str, ...]:
    """Settings for these numbers of replicas."""
    return tuple(f"{key}={count:.0f}" for key, count in counts.items())


def more_replicas(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """Settings for the replicas that the load needs; for disaggregated plans, also with fewer of one kind."""
    case, now, needed = answer.inputs.case, counts_of(answer.plan, answer.costs), counts_needed(answer.costs)
    if not all(map(math.isfinite, needed.values())):
        return
    room, sizes = float(answer.inputs.ranks), sizes_of_cluster(case)
    more = {name: max(count, now[name]) for name, count in needed.items()}
    fleets = [more, needed] if gpus_of(answer, more) <= room or gpus_of(answer, needed) > room else [needed, more]
    for fleet in (counts for counts in fleets if counts != now):
        changed = {name: count for name, count in fleet.items() if count != now[name]}
        number = sizes.number(gpus_of(answer, fleet))
        more_nodes = sizes.settings(number) if number > sizes.number(room) else ()
        yield (*settings_of(changed), *more_nodes)
