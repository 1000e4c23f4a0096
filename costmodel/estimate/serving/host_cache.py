"""Cache kept on the host, its drives or a store: how much it holds, and whether loading from there pays."""

from __future__ import annotations

import numpy as np

from costmodel.equations.memory.offload import link_time
from costmodel.equations.run.economics import share
from costmodel.equations.serving.cache_pool import pool_tokens
from costmodel.estimate.serving.evaluate_layouts import ServingEvaluation
from costmodel.estimate.serving.host_loading import cached_bytes, host_bytes
from costmodel.estimate.serving.host_pool import host_rate
from costmodel.estimate.serving.kv_cache import cache_block
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.predict_serving import ServingAnswer, halves_of
from costmodel.estimate.serving.prefill_decode_instances import prompt_time
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class HostCache:
    """Capacity of a KV cache in host memory, and the time to load a mean prompt's cache or recompute it.

    memory: bytes of a node's host. each: what of them each rank keeps, all of it where none is stated. tokens: what a
    replica keeps there. prompt: tokens that are loaded or
    computed again, load and recompute the times of both. gain: computing over loading; under 1 keeping does not pay.
    """

    memory: float
    each: float
    tokens: float
    prompt: float
    load: float
    recompute: float
    gain: float


def host_cache(answer: ServingAnswer) -> HostCache | None:
    """Loading a prompt's cache from the host against recomputing it; None if the host's link or memory is unknown."""
    inputs = answer.inputs
    pool, node = inputs.host_pool, inputs.case.node
    rate = host_rate(inputs.case) if pool is None else pool.rate
    if rate is None or (pool is None and node.memory is None) or answer.refused:
        return None
    every = pool.capacity if pool is not None else 0.0 if node.memory is None else node.memory.capacity
    layout, each_token = _prefill_layout(answer)
    prompt = inputs.load.prompt
    with term("cache of a prompt"):
        nbytes = cached_bytes(inputs, layout, prompt)
        part: Number = every / node.built
    if pool is not None:
        part = host_bytes(inputs, answer.evaluation.memory)
    load, again = link_time(nbytes, rate, 1.0), prompt * each_token
    tokens = layout.dp_attention * pool_tokens(part, nbytes / prompt, cache_block(inputs, layout))
    found = (part, tokens, prompt, load, again, share(again, load))
    return HostCache(every, *(float(np.asarray(value).reshape(-1)[0]) for value in found))


def _prefill_layout(answer: ServingAnswer) -> tuple[PlanColumns, Number]:
    """The layout that prefills prompts, and the time that each prompt token adds over all pipeline stages."""
    evaluation, inputs = answer.evaluation, answer.inputs
    if isinstance(evaluation, ServingEvaluation):
        return evaluation.layout, evaluation.point.whole
    halves = halves_of(inputs, answer.plan)
    assert halves is not None
    return halves[0], prompt_time(inputs, halves[0]).gamma
