"""What a memory answer has of the KV cache: its bytes by kind of layer, and what the host or a store keeps of it."""

from __future__ import annotations

import numpy as np

from costmodel.equations.memory.kv_cache import mean_context
from costmodel.equations.memory.offload import link_time
from costmodel.equations.run.economics import share
from costmodel.equations.serving.cache_pool import pool_tokens
from costmodel.estimate.model.mixers.mixing_half import CacheKind, cache_kinds, mixer_cache, state_bytes, token_bytes
from costmodel.estimate.serving.engine_memory import memory_use, stage_share
from costmodel.estimate.serving.evaluate_layouts import ServingEvaluation
from costmodel.estimate.serving.host_loading import cached_bytes, host_bytes
from costmodel.estimate.serving.kv_cache import (
    admitted_cache,
    admitted_layer,
    cache_block,
    cache_width,
    layer_cache,
    own_tokens,
)
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.predict_serving import ServingAnswer, halves_of
from costmodel.estimate.serving.prefill_decode_instances import prompt_time
from costmodel.estimate.serving.serving_inputs import ServingInputs, host_rate
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

# --- the KV cache of a request by kinds of layers


def first_token_cache(inputs: ServingInputs) -> list[CacheKind]:
    """Bytes that the first cached token adds, with all heads, for each kind of layers."""
    width = cache_width(inputs)
    return cache_kinds(inputs.model, (lambda kind: mixer_cache(kind, 1.0, 1.0, width) - state_bytes(kind, 1.0, width),))


def logged_tokens(inputs: ServingInputs, layout: PlanColumns) -> tuple[float, float] | None:
    """Tokens of the KV-cache pool, as the engine's release logs them for models with windows in some layers.

    None for models with other layers, and for engines whose log is not described.
    """
    logged = inputs.engine.memory.logged
    if logged is None or not all(kind.attention is not None and not kind.scan_heads for kind in inputs.model.layers):
        return None
    width, share = cache_width(inputs), stage_share(inputs, layout)
    longest = float(inputs.case.scenario.workload.context or inputs.model.max_sequence)
    if logged == "layers":
        each = share * sum(kind.count * mixer_cache(kind, layout.tp, 1.0, width) for kind in inputs.model.layers)
    else:
        each = share * admitted_cache(inputs, layout, longest) / longest
    pool = layout.dp_attention * np.maximum(memory_use(inputs, layout).pool, 0.0)
    return float(np.ravel(pool / each)[0]), longest


def cache_by_kind(inputs: ServingInputs, layout: PlanColumns) -> list[CacheKind]:
    """KV-cache bytes of each kind of layers under one plan, on a rank; bytes per token are over all heads.

    Their columns: a token, the longest request that the engine admits, the mean request.
    """
    load, share = inputs.load, stage_share(inputs, layout)
    mean = mean_context(load.prompt, load.output, load.output_spread)
    return cache_kinds(
        inputs.model,
        (
            lambda kind: token_bytes(kind, cache_width(inputs)),
            lambda kind: np.ravel(share * admitted_layer(inputs, layout, kind, inputs.load.longest))[0],
            lambda kind: np.ravel(share * layer_cache(inputs, kind, layout.tp, own_tokens(layout, mean)))[0],
        ),
    )


# --- cache kept on the host, its drives or a store


@record
class HostCache:
    """Capacity of a KV cache in host memory, and the seconds to load a mean prompt's cache or to compute it again.

    memory: bytes of a node's host memory
    each: bytes of it that each rank may use; all of it if none are stated
    tokens: tokens that a replica stores there
    prompt: tokens that are either loaded or computed again; load and recompute are the seconds of each
    gain: compute seconds over load seconds; below 1 a host cache does not pay
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
