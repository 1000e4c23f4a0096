"""Remedies for a serving plan that is invalid, does not fit or breaks a limit: each was tried before it is offered."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from costmodel.documents.schemas.serving.serving_schema import GAPS
from costmodel.estimate.serving.predict_serving import ServingAnswer, code_of
from costmodel.estimate.shared.result_limits import Limit, stated_limits
from costmodel.explore.search.cheapest_changes import Remedy
from costmodel.explore.serving.best_layout import budget_settings, states_no_plan
from costmodel.explore.serving.fleet_remedies import (
    fleet_remedies,
    in_smaller_cluster,
    narrower,
    rate_setting,
    with_room,
)
from costmodel.explore.serving.fleet_size import EASED
from costmodel.explore.serving.memory_remedies import DEGREES, fitting, memory_remedies
from costmodel.explore.serving.remedy_trials import Kind, RemedyTrials, ServingTrial
from costmodel.explore.serving.replica_counts import counts_of, more_replicas, sizes_of_cluster
from costmodel.explore.serving.search_remedies import nearest_alone, room_for_prompts
from costmodel.explore.serving.serving_levers import for_users
from costmodel.ground.units import significant

_KEYS = {"L050": ("replicas", "tp", "pp"), "L055": ("pp",), "L056": ("ep", "tp"), "L057": ("ep", "dp_attention"),
         "L058": ("pp",), "L059": ("pp",), "L063": ("dcp", "tp"), "L064": ("dcp", "tp"), "L065": ("dcp",),
         "L067": ("ep",)}  # fmt: skip
_MOST = 3  # kinds of settings, and values of a key


def with_remedies(answer: ServingAnswer) -> ServingAnswer:
    """Adds settings that fix a refused plan or one that breaks a limit: up to three alternatives of each kind, nearest
    first, that meet all limits with the preferred chance, or else the surest.

    Ahead of remedies without that chance stand those with which it fits. Where nothing helps, it has the plan that is
    nearest to the limits with one request at a time.
    """
    trials = RemedyTrials(answer)
    if answer.refused:
        return _answer_with_remedies(
            trials, trials.kinds(((_MOST, each) for each in _degrees(answer)), _MOST, _is_valid)
        )
    if not answer.broken:
        return answer
    if "M001" in answer.broken:
        found = memory_remedies(trials)
    else:
        smaller = [(1, each) for each in narrower(answer.inputs.case)]
        found = trials.first_safe(
            (
                lambda: trials.kinds(_loads(trials), _MOST),
                lambda: trials.kinds(smaller, _MOST),
                lambda: fleet_remedies(trials),
            )
        )
    room: list[Remedy] = []
    if "M001" in answer.broken and not any(trials.is_safe(remedy.chance) for remedy in found):
        known = {remedy.alternatives for remedy in found}
        room = [remedy for remedy in fitting(trials) if remedy.alternatives not in known]
    offered = _answer_with_remedies(trials, [*room, *found])
    return replace(offered, partial=len(room), alone=None if offered.remedies else nearest_alone(answer))


def _answer_with_remedies(trials: RemedyTrials, found: list[Remedy]) -> ServingAnswer:
    """The answer with these remedies and their chances."""
    return replace(
        trials.answer,
        remedies=tuple(remedy.alternatives for remedy in found),
        chances=tuple(remedy.chance for remedy in found),
        more=trials.ended,
    )


def _is_valid(trial: ServingTrial) -> bool:
    """Whether a plan is valid and fits."""
    return trial.answer is not None and not trial.answer.refused and "M001" not in trial.codes


def _degrees(answer: ServingAnswer) -> Iterator[Iterator[tuple[str, ...]]]:
    """Other degrees of an invalid plan."""
    codes = answer.refused
    if "L062" in codes:
        yield from room_for_prompts(answer.inputs)
    if answer.plan.prefill is None:
        for key in dict.fromkeys(key for code in codes for key in _KEYS.get(code, ("tp", "pp"))):
            now = float(getattr(answer.plan, key) or 1.0)
            near = sorted((value for value in DEGREES if value != now), key=lambda value: abs(math.log2(value / now)))
            yield ((f"plan.{key}={value}",) for value in near)
    elif "L050" in codes:
        fewer, smaller = _smaller_instances(answer, "decode")
        yield from (fewer, _more_nodes(answer), smaller, *_smaller_instances(answer, "prefill"))


def _smaller_instances(answer: ServingAnswer, name: str) -> list[Iterator[tuple[str, ...]]]:
    """Fewer or smaller instances of one kind of a disaggregated plan, largest first."""
    half = answer.plan.prefill if name == "prefill" else answer.plan.decode
    assert half is not None
    counts = range(int(counts_of(answer.plan, answer.costs)[f"plan.{name}.replicas"]) - 1, 0, -1)
    degrees = (degree for degree in reversed(DEGREES) if degree < half.tp)
    return [((f"plan.{name}.replicas={each}",) for each in counts), ((f"plan.{name}.tp={each}",) for each in degrees)]


def _more_nodes(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """Settings for the number of nodes that the plan needs."""
    sizes = sizes_of_cluster(answer.inputs.case)
    yield sizes.settings(sizes.number(answer.costs["gpus"]))


def _loads(trials: RemedyTrials) -> Iterator[Kind]:
    """Settings with a lower rate, with more replicas at the same rate, or with other degrees."""
    answer, rated = trials.answer, trials.answer.inputs.case.scenario.workload.rate is not None
    counted = trials.counted_safely(answer) if rated else answer
    yield from ((1, each) for each in limit_levers(answer))
    rates = [with_room(answer.inputs, each.costs) for each in (counted, answer)] if rated else []
    yield 1, [rate_setting(rate) for rate in rates if rate > 0]
    if answer.plan.prefill is not None and answer.binding == "transfer":
        yield 1, faster_links(answer)
        yield _MOST, together(answer)
    if rated and states_no_plan(answer.inputs.case):
        yield 1, in_smaller_cluster(trials, counted.costs["gpus_needed"])
    if rated:
        yield 1, itertools.chain(more_replicas(counted), more_replicas(answer))
    else:
        yield from ((_MOST, each) for each in for_users(answer))
    if answer.plan.prefill is None:
        yield _MOST, ((f"plan.tp={value}",) for value in DEGREES if value != float(answer.plan.tp))


_GBIT, _PORT = 1e9 / 8, "cluster.fabric.bandwidth"  # bytes a second of a port
_FASTER = (2, 4, 8, 16, 32, 64)  # times as fast


def faster_links(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """Faster network ports between prefill and decode instances; none where all are inside one domain."""
    if answer.costs["gpus"] > float(answer.inputs.domain):
        port = float(answer.inputs.case.scale_out.bandwidth) / _GBIT
        yield from ((f"{_PORT}={significant(factor * port)}Gbit/s",) for factor in _FASTER)


def together(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """Replicas that do both prefill and decode, in the layout of either instance: no KV cache moves."""
    room, names, found = float(answer.inputs.ranks), ("tp", "ep", "dp_attention", "dcp"), []
    for half in filter(None, (answer.plan.decode, answer.plan.prefill)):
        degrees = [f"{name}: {getattr(half, name):.0f}" for name in names if getattr(half, name) > 1 or name == "tp"]
        count = room // float(half.tp * half.dp_attention)
        found.append(f"plan={{{', '.join([*degrees, f'replicas: {count:.0f}'])}}}")
    yield from ((setting,) for setting in dict.fromkeys(found))


# --- settings that may help a plan to keep a limit that a lower rate does not help


_RENTED = ("rent_per_month", "gpus", "nodes", "replicas", "cost_of_batch")
_SMALLEST, _MOST = 256.0, 32  # token budget; numbers of replicas that are tried


def limit_levers(answer: ServingAnswer) -> Iterator[Iterator[tuple[str, ...]]]:
    """Settings by kind that ease the limits which a plan breaks, nearest first."""
    broken = [limit for limit in stated_limits(answer.inputs.case.scenario.limits) if _breaks_limit(answer, limit)]
    if any(limit.kind == "at_most" and limit.column in GAPS for limit in broken):
        yield _smaller_budgets(answer)
    if answer.plan.prefill is None and any(_is_eased(limit) for limit in broken):
        yield ((f"plan.replicas={count}",) for count in range(int(answer.costs["replicas"]) - 1, 0, -1)[:_MOST])


def _breaks_limit(answer: ServingAnswer, limit: Limit) -> bool:
    return code_of(limit) in answer.broken and not limit.holds(answer.costs[limit.column])


def _is_eased(limit: Limit) -> bool:
    """Whether fewer replicas help to meet a limit."""
    return limit.column in EASED.get(limit.kind, ()) or (limit.kind == "at_most" and limit.column in _RENTED)


def _smaller_budgets(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """Token budgets of half as much each: a step that prompts fill takes shorter."""
    budget = float(answer.inputs.budget) / 2.0
    while budget >= _SMALLEST:
        yield tuple(f"{path}={value}" for path, value in budget_settings(answer.inputs, budget).items())
        budget /= 2.0
