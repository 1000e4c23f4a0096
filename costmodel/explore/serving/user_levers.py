"""Settings that may help a load that waits for answers: fewer users, or as many replicas as all need."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from costmodel.estimate.serving.limits_chance import waits_in_batch
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.estimate.serving.requests_in_time import waiting_requests
from costmodel.explore.serving.fleets import sizes_of_cluster
from costmodel.explore.serving.remedy_trials import ServingTrial, tried, works

_GROWTH, _GROWTHS = 1.25, 8  # by which replicas grow that are too few, and how often


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
