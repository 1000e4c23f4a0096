"""How many replicas a plan has and how many its load needs; of prefill and decode apart, each kind by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from costmodel.documents.schemas.serving.serving_plan import ServingPlan
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.explore.serving.cluster_sizes import sizes_of_cluster

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
    """Settings for the replicas that the load needs; for disaggregated plans also with fewer of one kind."""
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
