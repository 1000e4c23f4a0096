"""Remedies for a serving plan that does not fit: each is tried as it is typed, with its load."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from costmodel.documents.keys.overrides import path_of
from costmodel.estimate.serving.predict_serving import ServingAnswer, replica_ranks
from costmodel.explore.serving.best_layout import asked_case, has_assumed_plan
from costmodel.explore.serving.cluster_sizes import sizes_of_cluster
from costmodel.explore.serving.fleets import more_replicas
from costmodel.explore.serving.larger_memory import larger_memory
from costmodel.explore.serving.search_remedies import narrower, without
from costmodel.explore.serving.vary_serving import ServingTrial, tried

Settings = tuple[str, ...]
Enough = Callable[[ServingTrial], bool]

DEGREES = (1, 2, 4, 8, 16, 32, 64)
_FEW_TIMES = 8.0  # the load over what a plan answers, which replicas may make up for
_MOST, _LENGTHS = 3, 8  # values shown of a key; prompts tried, each three quarters of the one before


def memory_remedies(answer: ServingAnswer, of_search: Callable[[], list[Settings]]) -> list[tuple[Settings, ...]]:
    """Settings by kind: those with which every limit is kept; else of a search; else those that answer the load."""
    kept = _found(answer, of_search, lambda trial: trial.works)
    return kept or [(each,) for each in of_search()[:_MOST]] or _found(answer, list, lambda trial: trial.stands)


def fitting(answer: ServingAnswer) -> list[tuple[Settings, ...]]:
    """Settings with which the plan fits, and answers a fair part of its load."""
    return _found(answer, list, lambda trial: trial.answer is not None and _within_reach(trial.answer))


def _found(
    answer: ServingAnswer, of_search: Callable[[], list[Settings]], enough: Enough
) -> list[tuple[Settings, ...]]:
    found = list(itertools.islice(filter(None, map(tuple, _kinds(answer, enough))), _MOST))
    if has_assumed_plan(answer.inputs.case):
        found += [(each,) for each in of_search()[: _MOST - len(found)]]
    if not any(_of_own_machine(each) for kind in found for each in kind):
        found += [(each,) for each in itertools.islice(_working(answer, larger_memory(answer.inputs.case), enough), 1)]
    return found


def _of_own_machine(settings: Settings) -> bool:
    """Whether settings give another plan or more accelerators of the same kind."""
    return any(path_of(each).startswith(("plan", "cluster.nodes")) for each in settings)


def _kinds(answer: ServingAnswer, enough: Enough) -> Iterator[Iterator[Settings]]:
    """What makes room, the nearest change first; degrees only of a stated plan, since a search tries all of them."""
    of_plan = answer.plan.prefill is None and not has_assumed_plan(answer.inputs.case)
    for key in ("tp", "pp") if of_plan else ():
        now = float(getattr(answer.plan, key))
        more = (_with_degree(answer, key, value) for value in DEGREES if value > now)
        yield itertools.islice(_working(answer, more, enough), _MOST)
    if answer.plan.prefill is None:
        yield itertools.islice(_working(answer, _shorter(answer), enough), 1)
    if not has_assumed_plan(answer.inputs.case):
        yield from (_working(answer, each, enough) for each in narrower(answer.inputs.case)[:1])
    if of_plan:
        yield itertools.islice(_working(answer, _more_ranks(answer), enough), 1)


def _working(answer: ServingAnswer, settings: Iterator[Settings], enough: Enough) -> Iterator[Settings]:
    """Settings that are enough; where none is, the first that fits with the replicas that its load takes."""
    fits, worked = [], False
    for each in settings:
        trial = _typed(answer, each)
        if enough(trial):
            worked = True
            yield each
        elif trial.answer is not None and _within_reach(trial.answer):
            fits.append((each, trial.answer))
    for each, found in fits[:1] if not worked else ():
        for more in more_replicas(found):
            both = (*without(more, each), *more)
            if enough(_typed(answer, both)):
                yield both
                return


def _typed(answer: ServingAnswer, settings: Settings) -> ServingTrial:
    """The settings behind the command of an answer, which chooses a plan again where none is stated."""
    case = answer.inputs.case
    of_flags = bool(case.asked.words) and not case.name
    return tried(asked_case(case), settings, best=of_flags or has_assumed_plan(case), bands=False)


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
    """The longest prompts, to two digits, whose cache has room beside all else, the longest first."""
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
