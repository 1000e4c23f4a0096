"""The KV cache of a request by kinds of layers: a token's, what an engine sets aside, and what a mean request holds."""

from __future__ import annotations

import numpy as np

from costmodel.equations.memory.kv_cache import mean_context
from costmodel.estimate.model.mixers.table import CacheKind, cache_kinds, mixer_cache, state_bytes, token_bytes
from costmodel.estimate.serving.engine_memory import memory_use, stage_share
from costmodel.estimate.serving.kv_cache import admitted_cache, admitted_layer, cache_width, layer_cache, own_tokens
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs


def first_token(inputs: ServingInputs) -> list[CacheKind]:
    """KV-cache bytes that a token inside the window adds, for each kind of layers, with all heads."""
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
