"""The longest request that an exported command lets in: an engine refuses every longer one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from costmodel.estimate.serving.engine_memory import EngineMemoryUse
from costmodel.estimate.serving.evaluate_apart import ApartEvaluation
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.predict_serving import AnyEvaluation, ServingAnswer, answer
from costmodel.ground.equation import Number
from costmodel.ground.units import Figure

_TRIES = 40  # of lengths, each shorter than the one before; a window's share of the cache grows as they shrink


def with_longest_context(found: ServingAnswer, *, step_holds_request: bool) -> tuple[ServingAnswer, str]:
    """The plan for the longest requests that its model and its cache take, and what bounds them.

    A stated `workload.context` stays; the mean lengths of a workload are always let in. step_holds_request: whether
    the engine, without chunked prefill, starts only with a step as large as its longest request.
    """
    inputs = found.inputs
    planned = math.ceil(_number(inputs.load.longest))
    if inputs.case.scenario.workload.context is not None:
        return found, "workload.context of the scenario"
    longest, bound = round(_number(inputs.model.max_sequence)), "the longest of the model"
    if planned >= longest:
        return found, f"the mean of the scenario; the model ends at {longest:,}"
    budget = round(_number(inputs.budget))
    if step_holds_request and not inputs.engine.chunked and budget < longest:
        longest, bound = budget, "a step, since prompts are computed whole"
    taken = _of_length(found, longest)
    for _ in range(_TRIES):
        held = _held(taken)
        if held >= longest or longest <= planned:
            break
        spread = 100 * inputs.engine.spread.pool
        longest, bound = held, f"what the cache holds, less {spread:.2g} % for spread"
        taken = _of_length(found, longest)
    if longest <= planned:
        return found, "the mean of the scenario, which fills the cache"
    return taken, f"{bound}; workload.context sets another"


def _held(found: ServingAnswer) -> int:
    """Tokens that one request can have in the cache of an engine whose pool is as small as the spread makes it; apart,
    in the smaller one of both kinds of instances.
    """
    engine, block = found.inputs.engine, float(found.inputs.engine.block)
    pools = (_number(use.logged) / _number(layout.dp_attention) for layout, use in kinds_of(found.evaluation))
    return min(math.floor(pool * (1.0 - engine.spread.pool) / block) * round(block) for pool in pools)


def kinds_of(evaluation: AnyEvaluation) -> list[tuple[PlanColumns, EngineMemoryUse]]:
    """The layout and the memory of each kind of instance: those for prompts first, where they are apart."""
    ahead = [(evaluation.prefill, evaluation.prefill_memory)] if isinstance(evaluation, ApartEvaluation) else []
    return [*ahead, (evaluation.layout, evaluation.memory)]


def _of_length(found: ServingAnswer, tokens: int) -> ServingAnswer:
    """The same plan where the longest request has so many tokens."""
    inputs, draft = found.inputs, found.inputs.draft
    load = replace(inputs.load, longest=Figure(float(tokens)))
    if draft is not None:
        draft = replace(draft, load=replace(draft.load, longest=load.longest))
    return answer(replace(inputs, load=load, draft=draft), found.plan, bands=False)


def _number(value: Number) -> float:
    return float(np.asarray(value, dtype=np.float64).reshape(-1)[0])
