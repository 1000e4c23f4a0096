"""How many replicas a plan has and how many its load needs; of prefill and decode apart, each kind by itself."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from costmodel.documents.reader.resolved_scenario import NODES, PART, counted_by_gpus
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.serving.serving_schema import ServingPlan
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.ground.record import record

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
    """The sizes that a remedy may name."""
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
