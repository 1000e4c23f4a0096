"""A service on nodes of several kinds: each kind with its own plan, and a share of the load by what it can answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.serving.serving_workload import LOADS
from costmodel.ground.errors import fail
from costmodel.ground.record import record

_SUMS = frozenset({
    "requests_per_s", "output_tokens_per_s", "total_tokens_per_s", "saturation_per_s", "rate_within_slo_per_s",
    "in_time_per_s", "replicas", "gpus", "nodes", "rent_per_month", "replicas_needed", "gpus_needed", "rent_needed",
})  # fmt: skip
_WORST = frozenset({"ttft_p99", "tpot_p99", "worst_gap", "memory_share", "memory_peak", "saturation_share"})
_LEAST = frozenset({"limits_chance"})
_WITHIN = frozenset({"cost_within_limits"})  # means over what is answered at the highest rate within the limits
_MEANS = frozenset({
    "ttft", "tpot", "latency", "in_time_share", "interference_share", "prefix_hit", "cost_per_minput",
    "cost_per_moutput", "cost_per_mtoken", "energy_per_token",
})  # fmt: skip
Costs = Mapping[str, float]


@record
class GroupShare:
    """A kind of nodes in a service on several: its case under its share of the load, and that share."""

    case: ServingCase
    share: float


def shared_load(case: ServingCase, rates: Sequence[float]) -> tuple[GroupShare, ...]:
    """The service on each kind of nodes with its share of the load, in the proportion of the rates they can answer."""
    groups = [group for _, group in case.groups]
    whole = sum(rates)
    if not whole > 0:
        sentence = "no kind of nodes in cluster.groups answers a request within the limits"
        hint = f"costmodel estimate on one of them shows why: --set 'cluster={{node: {groups[0].node.name}, nodes: 1}}'"
        raise fail("D010", sentence, case.place("cluster.groups"), hint)
    shares = [rate / whole for rate in rates]
    return tuple(
        GroupShare(under_share(group, share), share)
        for group, share in zip(groups, shares, strict=True)  # type: ignore[arg-type]
        if share > 0
    )


def under_share(case: ServingCase, share: float) -> ServingCase:
    """A case under a share of its load."""
    workload = case.scenario.workload
    loads = {name: getattr(workload, name) for name in LOADS}
    part = workload.model_copy(update={name: share * load for name, load in loads.items() if load is not None})
    return replace(case, scenario=case.scenario.model_copy(update={"workload": part}))


def combined(found: Sequence[Costs]) -> dict[str, float]:
    """Results of all kinds together: sums, means over requests, and of p99 the worst kind's.

    A result that has no such meaning, as the time of a term or the memory of a pool, is not a number.
    """
    answered = [each["requests_per_s"] for each in found]
    within = [each["rate_within_slo_per_s"] for each in found]
    costs = {name: _rule(name)([each[name] for each in found], answered, within) for name in found[0]}
    for end in ("", "_low", "_high"):
        if f"tokens_per_s_per_user{end}" in costs:
            other = {"": "", "_low": "_high", "_high": "_low"}[end]
            costs[f"tokens_per_s_per_user{end}"] = 1 / costs[f"tpot{other}"]
        for name, over in (("tokens_per_s_per_gpu", answered), ("tokens_per_gpu_within_limits", within)):
            each = [one[f"{name}{end}"] * one["gpus"] for one in found if f"{name}{end}" in one]
            if len(each) == len(over):
                costs[f"{name}{end}"] = sum(each) / costs["gpus"]
    return costs


def _rule(name: str) -> Callable[[Sequence[float], Sequence[float], Sequence[float]], float]:
    """How a result of all follows from those of each kind, with the requests they answer and could answer."""
    base = name.removesuffix("_low").removesuffix("_high")
    if base in _SUMS:
        return lambda values, answered, within: sum(values)
    if base in _WORST:
        return lambda values, answered, within: max(values)
    if base in _LEAST:
        return lambda values, answered, within: min(values)
    if base in _WITHIN:
        return lambda values, answered, within: _mean(values, within)
    if base in _MEANS:
        return lambda values, answered, within: _mean(values, answered)
    return lambda values, answered, within: math.nan


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    counted = [(value, weight) for value, weight in zip(values, weights, strict=True) if weight > 0]
    whole = sum(weight for _, weight in counted)
    return sum(value * weight for value, weight in counted) / whole if whole > 0 else math.nan
