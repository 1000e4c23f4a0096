"""Result columns of an engine's memory."""

from __future__ import annotations

import numpy as np

from costmodel.equations.layers.parameters import table_parameters
from costmodel.equations.run.economics import share
from costmodel.equations.serving.engine_step import fastest_user_rate
from costmodel.equations.serving.serving_economics import engine_start_time
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.serving.engine_memory import (
    EngineMemoryUse,
    captured_graphs,
    map_weights,
    stage_share,
    vocab_rows,
)
from costmodel.estimate.serving.plan_columns import PlanColumns, shard_of
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term


def memory_columns(inputs: ServingInputs, layout: PlanColumns, memory: EngineMemoryUse) -> dict[str, Number]:
    """Result columns for memory, capacity, bandwidth bound and start time."""
    with term("least"):
        least = memory.least
    with term("allowed"):
        allowed = memory.allowed
    return {
        "cache_pool": np.maximum(memory.pool, 0.0),
        "cache_pool_tokens": memory.tokens,
        "kv_bytes_per_token": memory.per_token,
        "concurrency_worst": memory.requests_worst,
        "concurrency_steady": memory.requests_steady,
        "memory_peak": memory.asked,
        "memory_share": share(least, allowed),
        "bandwidth_bound": bandwidth_bound(inputs, layout),
        "start_time": start_time(inputs, layout, memory),
    }


def start_rate(inputs: ServingInputs) -> Number:
    """Rate at which a rank loads its weights at start: the engine's, or its share of the node's drives."""
    start, node = inputs.engine.start, inputs.case.node
    assert start is not None
    if node.drives is None:
        return start.read
    with term("share of the drives"):
        return np.minimum(start.read, share(node.drives.read, node.built))


def start_time(inputs: ServingInputs, layout: PlanColumns, memory: EngineMemoryUse) -> Number:
    """Cold start time of a replica; NaN for an engine without start times."""
    start = inputs.engine.start
    if start is None:
        return np.nan
    with term("layers of a stage"):
        layers = stage_share(inputs, layout) * layer_count(inputs.model)
    sizes = captured_graphs(inputs) if inputs.engine.graphs else 0.0
    return engine_start_time(start.fixed, memory.weights, start_rate(inputs), layers, start.layer, sizes, start.graph)


def read_per_rank(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Weight bytes that each rank reads per token: all layers, the selected routed experts, and the head."""
    types = inputs.types
    read: Number = 0.0
    for kind in inputs.model.layers:
        part = shard_of(inputs.model, layout, kind)
        with term("weights of a layer"):
            held = map_weights(inputs, part)
            if kind.experts is not None:
                chosen = share(kind.experts.top_k, kind.experts.count)
                held = held + chosen * (types.expert_weight * part.routed_parameters)
        read = read + kind.count * held
    with term("head"):
        return read + types.head * table_parameters(vocab_rows(inputs, layout.tp), inputs.model.hidden)


def bandwidth_bound(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Upper bound on one user's tokens per second by memory bandwidth; each read yields all accepted draft tokens."""
    with term("weights that a token reads"):
        read = layout.tp * read_per_rank(inputs, layout)
    rate = fastest_user_rate(read, layout.tp, inputs.memory_bandwidth)
    return rate if inputs.load.verified == 1 else inputs.load.accepted * rate
