"""Remedies for a serving plan that does not fit: each is tried as it is typed, with its load."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from costmodel.documents.keys.overrides import path_of
from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.library import names
from costmodel.documents.reader.resolved_scenario import proxy_node
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.estimate.serving.predict_serving import ServingAnswer, replica_ranks
from costmodel.explore.search.cheapest_changes import Remedy, safest
from costmodel.explore.serving.best_layout import has_assumed_plan
from costmodel.explore.serving.fleet_remedies import fleet_remedies, narrower, without
from costmodel.explore.serving.remedy_trials import Enough, Kind, RemedyTrials, Settings, works
from costmodel.explore.serving.replica_counts import more_replicas, sizes_of_cluster

DEGREES = (1, 2, 4, 8, 16, 32, 64)
_FEW_TIMES = 8.0  # the load over what a plan answers, which replicas may make up for
_MOST, _LENGTHS = 3, 8  # remedies and values of a key that are shown; prompts tried, each three quarters of the last


def memory_remedies(trials: RemedyTrials) -> list[Remedy]:
    """Remedies by kind with which all limits are met: of plan and load, more accelerators, or other ones."""
    found = trials.kinds(_kinds(trials, works), _MOST, works)
    if not any(_of_own_machine(each) and trials.is_safe(each.chance) for each in found):
        known = {remedy.alternatives for remedy in found}
        others = [remedy for remedy in fleet_remedies(trials) if remedy.alternatives not in known]
        found = safest([*found, *others], trials.preferred)
    return _or_larger(trials, found, works)


def fitting(trials: RemedyTrials) -> list[Remedy]:
    """Settings with which the plan fits and answers its load, or else a fair part of it."""
    for enough in (lambda trial: trial.stands, lambda trial: trial.answer is not None and _within_reach(trial.answer)):
        found = _or_larger(trials, trials.kinds(_kinds(trials, enough), _MOST, enough), enough)
        if found:
            break
    return found


def _or_larger(trials: RemedyTrials, found: list[Remedy], enough: Enough) -> list[Remedy]:
    """The remedies; where none uses the scenario's own accelerators, also ones with more memory."""
    if not any(map(_of_own_machine, found)):
        larger = 1, _settings_that_work(trials, larger_memory(trials.answer.inputs.case), enough)
        found = safest([*found, *trials.kinds([larger], 1, enough)], trials.preferred)
    return found[:_MOST]


def _of_own_machine(remedy: Remedy) -> bool:
    """Whether settings give another plan or more accelerators of the same kind."""
    return any(path_of(each).startswith(("plan", "cluster.nodes")) for each in remedy.settings)


def _kinds(trials: RemedyTrials, enough: Enough) -> Iterator[Kind]:
    """Changes that free memory, the nearest first; degrees only where the user stated the plan."""
    answer = trials.answer
    of_plan = answer.plan.prefill is None and not has_assumed_plan(answer.inputs.case)
    for key in ("tp", "pp") if of_plan else ():
        now = float(getattr(answer.plan, key))
        more = (_with_degree(answer, key, value) for value in DEGREES if value > now)
        yield _MOST, _settings_that_work(trials, more, enough)
    if answer.plan.prefill is None:
        yield 1, _settings_that_work(trials, _shorter(answer), enough)
    if not has_assumed_plan(answer.inputs.case):
        yield from ((1, _settings_that_work(trials, each, enough)) for each in narrower(answer.inputs.case)[:1])
    if of_plan:
        yield 1, _settings_that_work(trials, _more_ranks(answer), enough)


def _settings_that_work(trials: RemedyTrials, settings: Iterator[Settings], enough: Enough) -> Iterator[Settings]:
    """Remedies that are enough; and the first that fits, if none has the preferred chance."""
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
    """Another degree, with experts on all ranks again, and the replicas that have room."""
    plan, degree = answer.plan, (f"plan.{key}={value}",)
    tp, pp = (float(value) if key == name else float(getattr(plan, name)) for name in ("tp", "pp"))
    stage = tp * float(plan.dp_attention)
    experts = (f"plan.ep={stage:.0f}",) if key == "tp" and plan.ep > 1 else ()
    room = float(answer.inputs.ranks) // (stage * pp)
    fewer = (f"plan.replicas={room:.0f}",) if plan.replicas is not None and 1 <= room < plan.replicas else ()
    return (*degree, *experts, *fewer)


def _more_ranks(answer: ServingAnswer) -> Iterator[Settings]:
    """Twice and four times the ranks, on as many more GPUs of the same kind: inside a node by tp, else by stages."""
    case, plan = answer.inputs.case, answer.plan
    sizes, now = sizes_of_cluster(case), float(answer.inputs.ranks)
    for factor in (2, 4):
        ranks = factor * float(replica_ranks(plan))
        number = sizes.number(ranks)
        if sizes.gpus(number) > now:
            keys = ("tp", "pp") if ranks <= sizes.node else ("pp",)
            yield from ((f"plan.{key}={factor * getattr(plan, key):.0f}", *sizes.settings(number)) for key in keys)


def _shorter(answer: ServingAnswer) -> Iterator[Settings]:
    """Prompt lengths, rounded to two digits, whose KV cache has room beside all else, longest first."""
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
