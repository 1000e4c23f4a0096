"""Cache kept in the host's memory: how much it holds, and whether to load a prompt's cache or to compute it again."""

from __future__ import annotations

import numpy as np

from costmodel.equations.memory.offload import link_time
from costmodel.equations.run.economics import share
from costmodel.equations.serving.memory.memory_budget import pool_tokens
from costmodel.estimate.serving.engine_memory import stage_share
from costmodel.estimate.serving.evaluate_layouts import ServingEvaluation
from costmodel.estimate.serving.instances import prompt_time
from costmodel.estimate.serving.kv_cache import sequence_cache
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.predict_serving import ServingAnswer, halves_of
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class HostCache:
    """What the hosts of a replica could keep, and the cache of a mean prompt on its way back.

    memory: bytes of a node's host. tokens: that all of it holds for a replica. prompt: tokens that are loaded or
    computed again, load and recompute the times of both. gain: computing over loading; under 1 keeping does not pay.
    """

    memory: float
    tokens: float
    prompt: float
    load: float
    recompute: float
    gain: float


def host_cache(answer: ServingAnswer) -> HostCache | None:
    """Loading against computing; nothing where the documents state no link to the host or not how much it holds."""
    inputs = answer.inputs
    link, node, common = inputs.case.host, inputs.case.node, inputs.case.common.host
    if link is None or node.memory is None or (link.copies is None and common is None) or answer.refused:
        return None
    layout, each_token = _prefilling(answer)
    prompt = inputs.load.prompt
    with term("cache of a prompt"):
        nbytes = stage_share(inputs, layout) * sequence_cache(inputs, layout.tp, prompt)
        part = node.memory.capacity / node.built
    reached = link.copies / link.bandwidth if link.copies is not None else common.share if common is not None else 1.0
    load, again = link_time(nbytes, link.bandwidth, reached), prompt * each_token
    tokens = layout.dp_attention * pool_tokens(part, nbytes / prompt, inputs.engine.block)
    found = (tokens, prompt, load, again, share(again, load))
    return HostCache(node.memory.capacity, *(float(np.asarray(value).reshape(-1)[0]) for value in found))


def _prefilling(answer: ServingAnswer) -> tuple[PlanColumns, Number]:
    """The ranks that compute prompts, and what each token of a prompt adds to their steps, in all stages."""
    evaluation, inputs = answer.evaluation, answer.inputs
    if isinstance(evaluation, ServingEvaluation):
        return evaluation.layout, evaluation.point.whole
    halves = halves_of(inputs, answer.plan)
    assert halves is not None
    return halves[0], prompt_time(inputs, halves[0]).gamma
