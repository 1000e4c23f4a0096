"""Remedies for a serving plan that is invalid, does not fit or breaks a limit: each was tried before it is offered."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.explore.serving.best_layout import states_no_plan
from costmodel.explore.serving.cluster_sizes import sizes_of_cluster
from costmodel.explore.serving.fleets import counts_of, more_replicas
from costmodel.explore.serving.instance_levers import faster_links, together
from costmodel.explore.serving.limit_levers import limit_levers
from costmodel.explore.serving.memory_remedies import DEGREES, fitting, memory_remedies
from costmodel.explore.serving.search_remedies import (
    narrower,
    nearest_alone,
    rate_setting,
    room_for_prompts,
    searched,
    settings_found,
    with_room,
)
from costmodel.explore.serving.smallest_cluster import in_smaller_cluster
from costmodel.explore.serving.user_levers import for_users
from costmodel.explore.serving.vary_serving import ServingTrial, tried

_KEYS = {"L050": ("replicas", "tp", "pp"), "L055": ("pp",), "L056": ("ep", "tp"), "L057": ("ep", "dp_attention"),
         "L058": ("pp",), "L059": ("pp",), "L063": ("dcp", "tp"), "L064": ("dcp", "tp"), "L065": ("dcp",),
         "L067": ("ep",)}  # fmt: skip
_MOST = 3  # kinds of settings, and values of a key


def with_remedies(answer: ServingAnswer) -> ServingAnswer:
    """The same answer with settings that fix its plan, if it is refused or breaks a limit; up to three alternatives of
    each kind, the nearest first.

    Where nothing helps, it has the plan that is nearest to the limits with one request at a time.
    """
    if answer.refused:
        return replace(answer, remedies=tuple(_tried(answer, _degrees(answer))))
    if not answer.broken:
        return answer
    search_once = functools.cache(lambda: searched(answer))
    if "M001" in answer.broken:
        found = memory_remedies(answer, lambda: settings_found(answer, search_once()))
    else:
        found = _tried(answer, _loads(answer)) or _tried(answer, narrower(answer.inputs.case))
        found = found or [(each,) for each in settings_found(answer, search_once())[:_MOST]]
    if found:
        return replace(answer, remedies=tuple(found))
    room = fitting(answer) if "M001" in answer.broken else []
    return replace(answer, remedies=tuple(room), partial=bool(room), alone=nearest_alone(answer, search_once()))


def _tried(answer: ServingAnswer, kinds: Iterable[Iterator[tuple[str, ...]]]) -> list[tuple[tuple[str, ...], ...]]:
    """Of the first kinds that hold any the first settings that work."""
    found = (tuple(itertools.islice(_working(answer, each), _MOST)) for each in kinds)
    return list(itertools.islice(filter(None, found), _MOST))


def _working(answer: ServingAnswer, settings: Iterator[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for each in settings:
        if _fixed(answer, tried(answer.inputs.case, each, bands=False)):
            yield each


def _fixed(answer: ServingAnswer, trial: ServingTrial) -> bool:
    """Whether a trial of an invalid plan is valid and fits; of a valid one, whether it keeps every limit."""
    if trial.answer is None or trial.answer.refused:
        return False
    return "M001" not in trial.codes if answer.refused else trial.works


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
    """Of instances apart fewer of one kind, and smaller ones, the largest first."""
    half = answer.plan.prefill if name == "prefill" else answer.plan.decode
    assert half is not None
    counts = range(int(counts_of(answer.plan, answer.costs)[f"plan.{name}.replicas"]) - 1, 0, -1)
    degrees = (degree for degree in reversed(DEGREES) if degree < half.tp)
    return [((f"plan.{name}.replicas={each}",) for each in counts), ((f"plan.{name}.tp={each}",) for each in degrees)]


def _more_nodes(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """As many nodes as a plan takes."""
    sizes = sizes_of_cluster(answer.inputs.case)
    yield sizes.settings(sizes.number(answer.costs["gpus"]))


def _loads(answer: ServingAnswer) -> Iterator[Iterator[tuple[str, ...]]]:
    """A lower rate, more replicas at the same rate, and other degrees."""
    rated = answer.inputs.case.scenario.workload.rate is not None
    yield from (itertools.islice(_working(answer, each), 1) for each in limit_levers(answer))
    if rated and answer.costs["rate_within_slo_per_s"] > 0:
        yield iter([rate_setting(with_room(answer.inputs, answer.costs))])
    if answer.plan.prefill is not None and answer.binding == "transfer":
        yield itertools.islice(_working(answer, faster_links(answer)), 1)
        yield together(answer)
    if rated and states_no_plan(answer.inputs.case):
        yield in_smaller_cluster(answer)
    if rated:
        yield itertools.islice(more_replicas(answer), 1)
    else:
        yield from for_users(answer)
    if answer.plan.prefill is None:
        yield ((f"plan.tp={value}",) for value in DEGREES if value != float(answer.plan.tp))
