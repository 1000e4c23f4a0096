"""Settings of a service to try: those that change its KV-cache pool; fewer users or more replicas where many wait."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.element_types import stored_types
from costmodel.estimate.serving.goodput import waiting_requests
from costmodel.estimate.serving.limits_chance import waits_in_batch
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.explore.serving.remedy_trials import ServingTrial, tried, works
from costmodel.explore.serving.replica_counts import sizes_of_cluster
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record

_GROWTH, _GROWTHS = 1.25, 8  # by which replicas grow that are too few, and how often


@record
class CacheLever:
    """A change of one key, and the tokens of a replica's KV-cache pool after it; 0 where it does not fit."""

    assignment: str
    tokens: float


def levers(answer: ServingAnswer) -> list[CacheLever]:
    """Changes of the KV-cache pool: a narrower cache or weights, twice the ranks of a replica, and half if it fits."""
    return [CacheLever(each, tokens) for each, tokens in _cache_sizes_tried(answer)]


def _cache_sizes_tried(answer: ServingAnswer) -> Iterator[tuple[str, float]]:
    """Settings that change the KV-cache pool, each with the pool's tokens; 0 if the plan does not fit."""
    workload, tp = answer.inputs.case.scenario.workload, float(answer.plan.tp)
    wanted = ["workload.cache=fp8"] if workload.cache != "fp8" else []
    wide = workload.weights is None and workload.precision in ("bf16", "fp16")
    stored = any(stored_types(answer.inputs.case))
    wanted += ["workload.weights=fp8"] if wide and not stored else []
    fewer = [tp / 2] if tp > 1 and "M001" not in answer.broken else []
    wanted += [f"plan.tp={degree:g}" for degree in (*fewer, tp * 2)]
    for assignment in wanted:
        try:
            found = predict(serving(vary_any(answer.inputs.case, [assignment])), bands=False)
        except CostModelError:  # a type that the accelerator or the engine lacks
            continue
        if not found.refused:
            yield assignment, 0.0 if "M001" in found.broken else found.costs["cache_pool_tokens"]


def for_users(answer: ServingAnswer) -> Iterator[Iterator[tuple[str, ...]]]:
    """Fewer users or requests in flight for a load that waits for answers, and the replicas that all need."""
    workload, replicas = answer.inputs.case.scenario.workload, answer.costs["replicas"]
    if workload.requests is not None:
        if not waits_in_batch(answer.inputs.case):
            yield _for_all(answer, int(replicas) + 1)
        return
    name = "users" if workload.users is not None else "concurrency"
    now = float(getattr(workload, name) or 0.0)
    most = _most_users(answer, name, now)
    if not most:
        return
    digits = 10 ** max(len(str(most)) - 2, 0)
    yield iter([(f"workload.{name}={most // digits * digits}",)])
    if answer.plan.prefill is None:
        yield _for_all(answer, math.ceil(now / (most / replicas)))


def with_room_for_all(answer: ServingAnswer) -> ServingAnswer:
    """Adds the replicas that end the waiting, where requests wait in line for most of their time."""
    workload = answer.inputs.case.scenario.workload
    waiting = waiting_requests(workload, answer.costs)
    if not waiting or answer.remedies or answer.plan.prefill is not None:
        return answer
    served = 1.0 - waiting / float(workload.users or workload.concurrency or waiting)
    if served <= 0:
        return answer
    found = _for_all(answer, math.ceil(answer.costs["replicas"] / served), _keeps_none_waiting)
    remedies = tuple((settings,) for settings in found)
    return replace(answer, remedies=remedies, chances=(None,) * len(remedies))


def _keeps_none_waiting(trial: ServingTrial) -> bool:
    if trial.answer is None or not trial.works:
        return False
    return not waiting_requests(trial.answer.inputs.case.scenario.workload, trial.answer.costs)


def _most_users(answer: ServingAnswer, name: str, now: float) -> int:
    """The most users, within 2 %, with which the plan meets the limits; 0 where it meets them with none."""
    low, high = 0, round(now)
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        enough = tried(answer.inputs.case, (f"workload.{name}={middle}",), bands=False).works
        low, high = (middle, high) if enough else (low, middle)
    return low


def _for_all(
    answer: ServingAnswer, least: int, enough: Callable[[ServingTrial], bool] = works
) -> Iterator[tuple[str, ...]]:
    """The fewest replicas for all users, about as many as given; of conversations more, since turns find less then."""

    def works(count: int) -> bool:
        return enough(tried(answer.inputs.case, _with_replicas(answer, count), bands=False))

    few, many = max(least - 2, int(answer.costs["replicas"])), least + 1
    for _ in range(_GROWTHS):
        if works(many):
            break
        few, many = many, math.ceil(_GROWTH * many)
    else:
        return
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if works(middle) else (middle, many)
    yield _with_replicas(answer, many)


def _with_replicas(answer: ServingAnswer, count: int) -> tuple[str, ...]:
    """Settings for `count` replicas, and for the nodes that they need beyond those there are."""
    sizes = sizes_of_cluster(answer.inputs.case)
    number = sizes.number(count * answer.costs["gpus"] / answer.costs["replicas"])
    more_nodes = sizes.settings(number) if number > sizes.number(float(answer.inputs.ranks)) else ()
    return (f"plan.replicas={count}", *more_nodes)
