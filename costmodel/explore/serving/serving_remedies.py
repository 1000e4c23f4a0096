"""Remedies for a serving plan that is invalid, does not fit or breaks a limit: each was tried before it is offered."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.explore.serving.vary_serving import ServingTrial, copies, tried
from costmodel.ground.units import significant

_DEGREES = (1, 2, 4, 8, 16, 32, 64)
_KEYS = {"L050": ("replicas", "tp", "pp"), "L055": ("pp",), "L056": ("ep", "tp"), "L057": ("ep", "dp_attention"),
         "L058": ("pp",), "L059": ("pp",), "L062": ("dcp", "tp"), "L063": ("dcp", "tp"), "L064": ("dcp",)}  # fmt: skip
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
    found = (tuple(itertools.islice(_working(answer, each), _MOST)) for each in kinds)
    return list(itertools.islice(filter(None, found), _MOST))


def _working(answer: ServingAnswer, settings: Iterator[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for each in settings:
        trial = tried(answer.inputs.case, each)
        if _fixed(answer, trial):
            yield each


def _fixed(answer: ServingAnswer, trial: ServingTrial) -> bool:
    """Whether a trial is valid and fits; where the plan did so before, whether it keeps every limit too."""
    if trial.answer is None or trial.answer.refused:
        return False
    return "M001" not in trial.codes if answer.refused or "M001" in answer.broken else trial.works


def _degrees(answer: ServingAnswer, codes: tuple[str, ...]) -> Iterator[Iterator[tuple[str, ...]]]:
    """Other degrees, and of what does not fit shorter prompts."""
    if answer.plan.prefill is None:
        for key in dict.fromkeys(key for code in codes for key in _KEYS.get(code, ("tp", "pp"))):
            now = float(getattr(answer.plan, key) or 1.0)
            near = sorted((value for value in _DEGREES if value != now), key=lambda value: abs(math.log2(value / now)))
            yield ((f"plan.{key}={value}",) for value in near if answer.refused or value > now)
    if "M001" in codes and not answer.refused:
        yield itertools.islice(_shorter(answer), 1) if answer.plan.prefill is None else iter(())


def _shorter(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """The longest prompt, to two digits, whose cache has room beside all else; of many the first that does."""
    memory, longest = answer.evaluation.memory, answer.inputs.load.longest
    pool, request = (float(np.asarray(each).flat[0]) for each in (memory.pool, memory.one_request))
    share = pool / request
    prompt = answer.inputs.case.scenario.workload.mean("prompt")
    if share <= 0:
        return
    for power in range(_LENGTHS):
        tokens = min(share, 1.0) * longest * 0.75**power
        if tokens < prompt and tokens >= 1:
            digits = 10.0 ** (math.floor(math.log10(tokens)) - 1)
            setting = (f"workload.prompt={math.floor(tokens / digits) * digits:.0f}",)
            if _fixed(answer, tried(answer.inputs.case, setting)):
                yield setting


def _loads(answer: ServingAnswer) -> Iterator[Iterator[tuple[str, ...]]]:
    """A lower rate, more replicas at the same rate, and other degrees."""
    costs, case = answer.costs, answer.inputs.case
    within, needed = costs["rate_within_slo_per_s"], costs["replicas_needed"]
    if case.scenario.workload.rate is not None and within > 0:
        digits = 10.0 ** (math.floor(math.log10(within)) - 2)
        yield iter([(f"workload.rate={significant(math.floor(within / digits) * digits)}/s",)])
    if case.scenario.workload.rate is not None and math.isfinite(needed) and needed > costs["replicas"]:
        nodes = math.ceil(needed * costs["gpus"] / costs["replicas"] / float(case.node.accelerators))
        more = [f"cluster.nodes={nodes}"] if nodes > float(case.scenario.cluster.nodes) else []
        yield iter([(*copies(answer.plan, needed), *more)])
    if answer.plan.prefill is None:
        yield ((f"plan.tp={value}",) for value in _DEGREES if value != float(answer.plan.tp))
