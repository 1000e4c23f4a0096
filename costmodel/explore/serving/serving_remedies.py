"""Remedies for a serving plan that is invalid, does not fit or breaks a limit; each was evaluated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from costmodel.documents.keys.overrides import path_of
from costmodel.documents.reader.library import CachedReader, names
from costmodel.documents.reader.resolved_scenario import proxy_node
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.serving import GAPS
from costmodel.estimate.serving.predict_serving import ServingAnswer, code_of, replica_ranks
from costmodel.estimate.shared.results import Limit, stated_limits
from costmodel.explore.search.cheapest_changes import Remedy, safest
from costmodel.explore.serving.best_layout import budget_settings, has_assumed_plan, states_no_plan
from costmodel.explore.serving.fleet_size import EASED, counts_of, more_replicas, sizes_of_cluster
from costmodel.explore.serving.remedy_trials import Enough, Kind, RemedyTrials, ServingTrial, Settings, for_users, works
from costmodel.explore.serving.search_remedies import (
    fleet_remedies,
    in_smaller_cluster,
    narrower,
    nearest_alone,
    rate_setting,
    room_for_prompts,
    with_room,
    without,
)
from costmodel.ground.units import significant

# --- remedies for a serving plan that does not fit: each is tried as it is typed, with its load


DEGREES = (1, 2, 4, 8, 16, 32, 64)
_FEW_TIMES = 8.0  # the load over what a plan answers, which replicas may make up for
_MOST_SHOWN, _LENGTHS = (
    3,
    8,
)  # remedies and values of a key that are shown; prompts tried, each three quarters of the last


def memory_remedies(trials: RemedyTrials) -> list[Remedy]:
    """Remedies with which all limits are met: of plan and load, more accelerators, or other ones."""
    found = trials.kinds(_kinds(trials, works), _MOST_SHOWN, works)
    if not any(_of_own_machine(each) and trials.is_safe(each.chance) for each in found):
        known = {remedy.alternatives for remedy in found}
        others = [remedy for remedy in fleet_remedies(trials) if remedy.alternatives not in known]
        found = safest([*found, *others], trials.preferred)
    return _or_larger(trials, found, works)


def fitting(trials: RemedyTrials) -> list[Remedy]:
    """Remedies with which the plan fits and serves its load, or else a fair part of it."""
    for enough in (lambda trial: trial.stands, lambda trial: trial.answer is not None and _within_reach(trial.answer)):
        found = _or_larger(trials, trials.kinds(_kinds(trials, enough), _MOST_SHOWN, enough), enough)
        if found:
            break
    return found


def _or_larger(trials: RemedyTrials, found: list[Remedy], enough: Enough) -> list[Remedy]:
    """The remedies; if none keeps the scenario's accelerators, also ones with more memory."""
    if not any(map(_of_own_machine, found)):
        larger = 1, _settings_that_work(trials, larger_memory(trials.answer.inputs.case), enough)
        found = safest([*found, *trials.kinds([larger], 1, enough)], trials.preferred)
    return found[:_MOST_SHOWN]


def _of_own_machine(remedy: Remedy) -> bool:
    """Whether a remedy keeps the kind of accelerator."""
    return any(path_of(each).startswith(("plan", "cluster.nodes")) for each in remedy.settings)


def _kinds(trials: RemedyTrials, enough: Enough) -> Iterator[Kind]:
    """Kinds of changes that free memory, smallest change first; degrees only if the user stated the plan."""
    answer = trials.answer
    of_plan = answer.plan.prefill is None and not has_assumed_plan(answer.inputs.case)
    for key in ("tp", "pp") if of_plan else ():
        now = float(getattr(answer.plan, key))
        more = (_with_degree(answer, key, value) for value in DEGREES if value > now)
        yield _MOST_SHOWN, _settings_that_work(trials, more, enough)
    if answer.plan.prefill is None:
        yield 1, _settings_that_work(trials, _shorter(answer), enough)
    if not has_assumed_plan(answer.inputs.case):
        yield from ((1, _settings_that_work(trials, each, enough)) for each in narrower(answer.inputs.case)[:1])
    if of_plan:
        yield 1, _settings_that_work(trials, _more_ranks(answer), enough)


def _settings_that_work(trials: RemedyTrials, settings: Iterator[Settings], enough: Enough) -> Iterator[Settings]:
    """The settings that are enough; and the first that fits, if none has the preferred chance."""
    fits, safe = [], False
    for each in settings:
        trial = trials.tried(each)
        if enough(trial):
            safe = safe or trials.is_safe(trials.chance(trial))
            yield each
        if trial.answer is not None and _within_reach(trial.answer):
            fits.append((each, trial.answer))
    for each, found in fits[:1] if not safe else ():
        for more in (*more_replicas(trials.counted_safely(found)), *more_replicas(found)):
            yield (*without(more, each), *more)


def _within_reach(answer: ServingAnswer) -> bool:
    """Whether a plan fits and answers the load with a few times the replicas at most."""
    rate = answer.inputs.case.scenario.workload.rate
    fits = not answer.refused and "M001" not in answer.broken
    return fits and (rate is None or rate <= _FEW_TIMES * answer.costs["saturation_per_s"])


def _with_degree(answer: ServingAnswer, key: str, value: int) -> Settings:
    """Settings for another degree, with experts on all ranks and as many replicas as fit."""
    plan, degree = answer.plan, (f"plan.{key}={value}",)
    tp, pp = (float(value) if key == name else float(getattr(plan, name)) for name in ("tp", "pp"))
    stage = tp * float(plan.dp_attention)
    experts = (f"plan.ep={stage:.0f}",) if key == "tp" and plan.ep > 1 else ()
    room = float(answer.inputs.ranks) // (stage * pp)
    fewer = (f"plan.replicas={room:.0f}",) if plan.replicas is not None and 1 <= room < plan.replicas else ()
    return (*degree, *experts, *fewer)


def _more_ranks(answer: ServingAnswer) -> Iterator[Settings]:
    """Settings for two and four times the ranks: by tp inside a node, else by stages."""
    case, plan = answer.inputs.case, answer.plan
    sizes, now = sizes_of_cluster(case), float(answer.inputs.ranks)
    for factor in (2, 4):
        ranks = factor * float(replica_ranks(plan))
        number = sizes.number(ranks)
        if sizes.gpus(number) > now:
            keys = ("tp", "pp") if ranks <= sizes.node else ("pp",)
            yield from ((f"plan.{key}={factor * getattr(plan, key):.0f}", *sizes.settings(number)) for key in keys)


def _shorter(answer: ServingAnswer) -> Iterator[Settings]:
    """Shorter prompts, rounded to two digits, whose KV cache fits, longest first."""
    memory, longest = answer.evaluation.memory, answer.inputs.load.longest
    pool, request = (float(np.asarray(each).flat[0]) for each in (memory.pool, memory.one_request))
    share = pool / request
    workload = answer.inputs.case.scenario.workload
    prompt = workload.mean("prompt")
    if share <= 0:
        return
    most = max(float(answer.inputs.model.max_sequence) - workload.mean("output"), 0.0)
    for power in range(_LENGTHS):
        tokens = min(min(share, 1.0) * longest, most or math.inf) * 0.75**power
        if tokens < prompt and tokens >= 1:
            digits = 10.0 ** (math.floor(math.log10(tokens)) - 1)
            yield (f"workload.prompt={math.floor(tokens / digits) * digits:.0f}",)


def larger_memory(case: ServingCase) -> Iterator[tuple[str, ...]]:
    """Settings for the usual node of each accelerator of this maker with more memory, smallest memory first."""
    shelf, own = CachedReader(), case.accelerator
    found = []
    for name in names("accelerator"):
        other = shelf.document("accelerator", name)
        if other.vendor == own.vendor and other.memory.capacity > own.memory.capacity:
            found.append((float(other.memory.capacity), name))
    for _, name in sorted(found):
        stand = proxy_node(shelf, name)
        if stand is None:
            continue
        node = shelf.document("node", stand.node)
        if node.accelerator == name and float(node.accelerators) >= float(case.node.accelerators):
            yield (f"cluster.node={stand.node}",)


# --- remedies for a serving plan that is invalid, does not fit or breaks a limit


_KEYS = {"L050": ("replicas", "tp", "pp"), "L055": ("pp",), "L056": ("ep", "tp"), "L057": ("ep", "dp_attention"),
         "L058": ("pp",), "L059": ("pp",), "L063": ("dcp", "tp"), "L064": ("dcp", "tp"), "L065": ("dcp",),
         "L067": ("ep",)}  # fmt: skip
_MOST = 3  # kinds of settings, and values of a key


def with_remedies(answer: ServingAnswer) -> ServingAnswer:
    """Adds settings that fix a plan which is refused or breaks a limit, up to three of each kind.

    They meet all limits with the preferred chance, or else are the surest; settings with which it fits come first. If
    nothing helps, the answer has the plan nearest to the limits for single requests.
    """
    trials = RemedyTrials(answer)
    if answer.refused:
        found = next(filter(None, (_other_degrees(trials, enough) for enough in (works, _is_valid))), [])
        return _answer_with_remedies(trials, found)
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


def _other_degrees(trials: RemedyTrials, enough: Enough) -> list[Remedy]:
    """Other degrees with which an invalid plan is good enough."""
    return trials.kinds(((_MOST, each) for each in _degrees(trials.answer)), _MOST, enough)


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
            if key == "replicas":
                yield _most_replicas(answer)
                continue
            now = float(getattr(answer.plan, key) or 1.0)
            near = sorted((value for value in DEGREES if value != now), key=lambda value: abs(math.log2(value / now)))
            yield ((f"plan.{key}={value}",) for value in near)
    elif "L050" in codes:
        fewer, smaller = _smaller_instances(answer, "decode")
        yield from (fewer, _more_nodes(answer), smaller, *_smaller_instances(answer, "prefill"))


def _most_replicas(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """A setting with as many replicas of the same layout as the cluster has room for."""
    room = float(answer.inputs.ranks) * answer.costs["replicas"] // answer.costs["gpus"]
    if room >= 1:
        yield (f"plan.replicas={room:.0f}",)


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
    """Replicas that do both prefill and decode in the layout of either instance, so that no KV cache moves."""
    room, names, found = float(answer.inputs.ranks), ("tp", "ep", "dp_attention", "dcp"), []
    for half in filter(None, (answer.plan.decode, answer.plan.prefill)):
        degrees = [f"{name}: {getattr(half, name):.0f}" for name in names if getattr(half, name) > 1 or name == "tp"]
        count = room // float(half.tp * half.dp_attention)
        found.append(f"plan={{{', '.join([*degrees, f'replicas: {count:.0f}'])}}}")
    yield from ((setting,) for setting in dict.fromkeys(found))


# --- settings that may help a plan to keep a limit that a lower rate does not help


_RENTED = ("rent_per_month", "gpus", "nodes", "replicas", "cost_of_batch")
_SMALLEST, _MOST_COUNTS = 256.0, 32  # token budget; numbers of replicas that are tried


def limit_levers(answer: ServingAnswer) -> Iterator[Iterator[tuple[str, ...]]]:
    """Settings by kind that help to meet the limits which a plan breaks."""
    broken = [limit for limit in stated_limits(answer.inputs.case.scenario.limits) if _breaks_limit(answer, limit)]
    if any(limit.kind == "at_most" and limit.column in GAPS for limit in broken):
        yield _smaller_budgets(answer)
    if answer.plan.prefill is None and any(_is_eased(limit) for limit in broken):
        yield ((f"plan.replicas={count}",) for count in range(int(answer.costs["replicas"]) - 1, 0, -1)[:_MOST_COUNTS])


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
