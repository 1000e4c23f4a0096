"""Remedies for a serving plan that is invalid, does not fit or breaks a limit: each was tried before it is offered."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.estimate.serving.element_types import stored_types
from costmodel.estimate.serving.predict_serving import ServingAnswer, replica_ranks
from costmodel.estimate.serving.replicas_for_load import share_of_saturation
from costmodel.estimate.serving.service_limits import service_limits, waits_in_batch
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.estimate.serving.whole_prompts import least_budget
from costmodel.explore.serving.best_layout import states_no_plan
from costmodel.explore.serving.cluster_sizes import sizes_of_cluster
from costmodel.explore.serving.fleets import counts_needed, counts_of, gpus_of, settings_of
from costmodel.explore.serving.found_plans import FoundPlans, RankedPlan
from costmodel.explore.serving.instance_levers import faster_links, together
from costmodel.explore.serving.larger_memory import larger_memory
from costmodel.explore.serving.limit_levers import best_of_search, limit_levers
from costmodel.explore.serving.limit_misses import limit_misses
from costmodel.explore.serving.search_layouts import search
from costmodel.explore.serving.smallest_cluster import (
    in_smaller_cluster,
    search_remedy,
    smaller_fleet,
    smallest_cluster,
)
from costmodel.explore.serving.user_levers import for_users
from costmodel.explore.serving.vary_serving import ServingTrial, tried, unloaded
from costmodel.ground.units import significant

_DEGREES = (1, 2, 4, 8, 16, 32, 64)
_KEYS = {"L050": ("replicas", "tp", "pp"), "L055": ("pp",), "L056": ("ep", "tp"), "L057": ("ep", "dp_attention"),
         "L058": ("pp",), "L059": ("pp",), "L063": ("dcp", "tp"), "L064": ("dcp", "tp"), "L065": ("dcp",),
         "L067": ("ep",)}  # fmt: skip
_EVERY = 100_000  # plans, of which the nearest to the limits is taken
_FEW_TIMES = 8.0  # the load over what a plan answers; beyond that, fitting alone helps no one
_MOST, _LENGTHS = 3, 8  # values shown of a key; prompts tried, each three quarters of the one before


def with_remedies(answer: ServingAnswer) -> ServingAnswer:
    """The same answer with settings that fix its plan, if it is refused or breaks a limit."""
    return replace(answer, remedies=tuple(remedies(answer)))


def remedies(answer: ServingAnswer) -> list[tuple[tuple[str, ...], ...]]:
    """Settings that fix a plan, by kind; up to three alternatives of each kind, the nearest first."""
    codes = answer.refused or answer.broken
    if not codes:
        return []
    kinds = _degrees(answer, codes) if answer.refused or "M001" in codes else _loads(answer)
    found = list(itertools.islice(filter(None, (_first_ones(answer, each) for each in kinds)), _MOST))
    if "M001" in codes and not answer.refused and not _changes_plan(found):
        other = _first_ones(answer, itertools.islice(_working(answer, larger_memory(answer.inputs.case)), 1))
        return [*found, *([other] if other else [])]
    if found or answer.refused or "M001" in codes:
        return found
    others = (*_narrower(answer.inputs.case), best_of_search(answer))
    return list(filter(None, (_first_ones(answer, each) for each in others)))


def _changes_plan(found: list[tuple[tuple[str, ...], ...]]) -> bool:
    """Whether another plan on the same kind of machine is among remedies."""
    return any(setting.startswith("plan.") for kind in found for each in kind for setting in each)


def _first_ones(answer: ServingAnswer, settings: Iterator[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    return tuple(itertools.islice(_working(answer, settings), _MOST))


def _working(answer: ServingAnswer, settings: Iterator[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for each in settings:
        trial = tried(answer.inputs.case, each, bands=False)
        if _fixed(answer, trial):
            yield each


def _fixed(answer: ServingAnswer, trial: ServingTrial) -> bool:
    """Whether a trial is valid and fits; where the plan did so before, whether it keeps every limit too."""
    if trial.answer is None or trial.answer.refused:
        return False
    if answer.refused or "M001" in answer.broken:
        return "M001" not in trial.codes and (bool(answer.refused) or _within_reach(trial.answer))
    return trial.works


def _within_reach(answer: ServingAnswer) -> bool:
    """Whether a plan that fits answers the load with a few times the replicas at most."""
    rate = answer.inputs.case.scenario.workload.rate
    return rate is None or rate <= _FEW_TIMES * answer.costs["saturation_per_s"]


def _degrees(answer: ServingAnswer, codes: tuple[str, ...]) -> Iterator[Iterator[tuple[str, ...]]]:
    """Other degrees, and of what does not fit shorter prompts."""
    if "L062" in codes:
        yield from _room_for_prompts(answer.inputs)
    if answer.plan.prefill is None:
        for key in dict.fromkeys(key for code in codes for key in _KEYS.get(code, ("tp", "pp"))):
            now = float(getattr(answer.plan, key) or 1.0)
            near = sorted((value for value in _DEGREES if value != now), key=lambda value: abs(math.log2(value / now)))
            yield (_with_degree(answer, key, value) for value in near if answer.refused or value > now)
    elif "L050" in codes:
        fewer, smaller = _smaller_instances(answer, "decode")
        yield from (fewer, _more_nodes(answer), smaller, *_smaller_instances(answer, "prefill"))
    if "M001" in codes and not answer.refused:
        if answer.plan.prefill is None:
            yield itertools.islice(_shorter(answer), 1)
        yield from _narrower(answer.inputs.case)[:1]
        if answer.plan.prefill is None:
            yield itertools.islice(_working(answer, _more_ranks(answer)), 1)


def _with_degree(answer: ServingAnswer, key: str, value: int) -> tuple[str, ...]:
    """Another degree; of a plan that does not fit, with experts on all ranks again, and the replicas that have room."""
    plan, degree = answer.plan, (f"plan.{key}={value}",)
    if answer.refused or key not in ("tp", "pp"):
        return degree
    tp, pp = (float(value) if key == name else float(getattr(plan, name)) for name in ("tp", "pp"))
    stage = tp * float(plan.dp_attention)
    experts = (f"plan.ep={stage:.0f}",) if key == "tp" and plan.ep > 1 else ()
    room = float(answer.inputs.ranks) // (stage * pp)
    fewer = (f"plan.replicas={room:.0f}",) if plan.replicas is not None and 1 <= room < plan.replicas else ()
    return (*degree, *experts, *fewer)


def _smaller_instances(answer: ServingAnswer, name: str) -> list[Iterator[tuple[str, ...]]]:
    """Of instances apart fewer of one kind, and smaller ones, the largest first."""
    half = answer.plan.prefill if name == "prefill" else answer.plan.decode
    assert half is not None
    counts = range(int(counts_of(answer.plan, answer.costs)[f"plan.{name}.replicas"]) - 1, 0, -1)
    degrees = (degree for degree in reversed(_DEGREES) if degree < half.tp)
    return [((f"plan.{name}.replicas={each}",) for each in counts), ((f"plan.{name}.tp={each}",) for each in degrees)]


def _more_nodes(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """As many nodes as a plan takes."""
    sizes = sizes_of_cluster(answer.inputs.case)
    yield sizes.settings(sizes.number(answer.costs["gpus"]))


def _more_ranks(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """Twice and four times the ranks, on as many more GPUs of the same kind: inside a node by tp, else by stages."""
    case, plan = answer.inputs.case, answer.plan
    sizes, now = sizes_of_cluster(case), float(answer.inputs.ranks)
    for factor in (2, 4):
        ranks = factor * float(replica_ranks(plan))
        number = sizes.number(ranks)
        if sizes.gpus(number) > now:
            keys = ("tp", "pp") if ranks <= sizes.node else ("pp",)
            yield from ((f"plan.{key}={factor * getattr(plan, key):.0f}", *sizes.settings(number)) for key in keys)


def _shorter(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """The longest prompt, to two digits, whose cache has room beside all else; of many the first that does."""
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
            setting = (f"workload.prompt={math.floor(tokens / digits) * digits:.0f}",)
            if _fixed(answer, tried(answer.inputs.case, setting, bands=False)):
                yield setting


def _loads(answer: ServingAnswer) -> Iterator[Iterator[tuple[str, ...]]]:
    """A lower rate, more replicas at the same rate, and other degrees."""
    rated = answer.inputs.case.scenario.workload.rate is not None
    yield from (itertools.islice(_working(answer, each), 1) for each in limit_levers(answer))
    if rated and answer.costs["rate_within_slo_per_s"] > 0:
        yield iter([_rate_setting(_with_room(answer.inputs, answer.costs))])
    if answer.plan.prefill is not None and answer.binding == "transfer":
        yield itertools.islice(_working(answer, faster_links(answer)), 1)
        yield together(answer)
    if rated and states_no_plan(answer.inputs.case):
        yield in_smaller_cluster(answer)
    if rated:
        yield itertools.islice(_more_replicas(answer), 1)
    else:
        yield from for_users(answer)
    if answer.plan.prefill is None:
        yield ((f"plan.tp={value}",) for value in _DEGREES if value != float(answer.plan.tp))


def _more_replicas(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """As many replicas as the load needs; of instances apart more of the kind that is short, or fewer of the other."""
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


def with_search_remedies(found: FoundPlans) -> FoundPlans:
    """The same result; where no plan keeps every limit, with settings of the search under which one does."""
    if found.kept or found.stopped:
        return found
    case, values = found.variants.of(found.nearest).case, found.variants.values(found.nearest)
    kinds = (*_longer_steps(found, case), *_narrower(case), _lower_rates(found, case))
    tried_ones = [next(filter(None, (search_remedy(case, each) for each in kind)), None) for kind in kinds]
    smallest = None if waits_in_batch(case) else smallest_cluster(found, case)
    tried_ones.insert(len(_longer_steps(found, case)), smallest)
    if not found.valid and not any(tried_ones):
        longer = itertools.chain.from_iterable(_longer_steps(found, case))
        tried_ones = [next(filter(None, (search_remedy(case, each, fits=True) for each in longer)), None)]
    alone = None if any(tried_ones) else _unloaded(case)
    ahead = tuple(f"{path}={value}" for path, value in values.items())
    remedies = [replace(one, settings=(*_without(ahead, one.settings), *one.settings)) for one in tried_ones if one]
    smaller = None if smallest is None else smaller_fleet(found, case, smallest)
    return replace(found, remedies=tuple(remedies[:_MOST]), alone=alone, smaller=smaller)


def _longer_steps(found: FoundPlans, case: ServingCase) -> list[Iterator[tuple[str, ...]]]:
    """Prompts in parts, or a larger budget, where a prompt does not fit into a step."""
    if not found.refused["L062"]:
        return []
    return list(_room_for_prompts(inputs_of(case)))


def _room_for_prompts(inputs: ServingInputs) -> Iterator[Iterator[tuple[str, ...]]]:
    """What makes room for long prompts in a step, beside all sequences that the engine decodes."""
    yield iter([("stack.chunked=true",)])
    needed = float(np.max(least_budget(inputs.load))) + float(inputs.sequences)
    yield iter([(f"stack.budget={2 ** math.ceil(math.log2(needed))}",)])


def _without(settings: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """Settings of which none of the others is of the same key."""
    keys = {other.partition("=")[0] for other in others}
    return tuple(setting for setting in settings if setting.partition("=")[0] not in keys)


def _unloaded(case: ServingCase) -> RankedPlan | None:
    """The nearest plan where hardly any request meets another, if none keeps the limits even then."""
    if case.scenario.workload.rate is None:
        return None
    inputs = inputs_of(unloaded(case))
    found, limits = search(inputs, _EVERY, bands=False), service_limits(inputs)

    def beyond(plan: RankedPlan) -> float:
        return float(limit_misses(limits, lambda name: np.array([plan.costs[name]]), 1)[0])

    return min(found.best, key=beyond) if found.best and not found.kept else None


def _narrower(case: ServingCase) -> list[Iterator[tuple[str, ...]]]:
    """Weights, or the cache, of half as many bytes, where the scenario does not state them."""
    workload = case.scenario.workload
    wide = workload.precision in ("bf16", "fp16") and not any(stored_types(case))
    kinds = [key for key in ("weights", "cache") if wide and getattr(workload, key) is None]
    return [iter([(f"workload.{key}=fp8",)]) for key in kinds]


def _lower_rates(found: FoundPlans, case: ServingCase) -> Iterator[tuple[str, ...]]:
    """The most that a plan answers within the limits."""
    inputs = inputs_of(case)
    within = max((_with_room(inputs, plan.costs) for plan in found.best), default=0.0)
    if case.scenario.workload.rate is not None and within > 0:
        yield _rate_setting(within)


def _with_room(inputs: ServingInputs, costs: Mapping[str, float]) -> float:
    """The highest rate that leaves a plan the headroom."""
    return share_of_saturation(inputs) * costs["rate_within_slo_per_s"]


def _rate_setting(within: float) -> tuple[str, ...]:
    """A rate to three digits, at most that one."""
    digits = 10.0 ** (math.floor(math.log10(within)) - 2)
    return (f"workload.rate={significant(math.floor(within / digits) * digits)}/s",)
