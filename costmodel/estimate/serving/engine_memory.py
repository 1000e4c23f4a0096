"""Memory of an engine's most loaded accelerator: weights, adapters, a step, the runtime, and the cache pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.model import Layers
from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.roofline import matmul_time
from costmodel.equations.layers.parameters import adapter_parameters, norm_parameters, table_parameters
from costmodel.equations.memory.kv_cache import block_tokens, block_waste, mean_context
from costmodel.equations.parallelism.counts import padded_vocab
from costmodel.equations.run.economics import share
from costmodel.equations.serving.cache_pool import (
    activation_peak,
    captured_sizes,
    layer_peak_bytes,
    pool_of_free_after,
    pool_of_free_before,
    pool_of_total,
    pool_tokens,
    reserve_bytes,
    static_fraction,
    worst_concurrency,
)
from costmodel.equations.serving.engine_step import experts_read, fastest_user_rate, mixed_weight_bytes
from costmodel.equations.serving.serving_economics import engine_start_time
from costmodel.estimate.model.feed_forward_kinds import dense_inner_widths, expert_tables, has_hashed_experts
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.estimate.model.shards import (
    MIXING,
    Shard,
    entry_tables,
    layer_count,
    layer_matmuls,
    stream_ends_parameters,
    stream_width,
    vision_parameters,
)
from costmodel.estimate.serving.element_types import narrow_parameters
from costmodel.estimate.serving.expert_step import bytes_with_copies
from costmodel.estimate.serving.kv_cache import admitted_cache, cache_block, has_entries, rank_cache, token_cache
from costmodel.estimate.serving.plan_columns import PlanColumns, shard_of
from costmodel.estimate.serving.serving_inputs import ServingInputs, engine_defaults
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

# --- LoRA adapters in an engine: memory of their slots, and two thin products per linear map


_ALONE = frozenset({"router", MIXING})  # matrices that no adapter stands beside
FUSED = {"qkv": 3.0, "mlp up": 2.0}  # maps in one matrix, each with an adapter of its own


def adapter_memory(inputs: ServingInputs, matrix: Matmul) -> Number:
    """Bytes of all adapter slots for one matrix; engines reserve every slot at the largest rank."""
    adapters = inputs.case.scenario.workload.adapters
    if adapters is None or matrix.name in _ALONE:
        return 0.0
    with term("adapters"):
        each = _adapter_matrix_parameters(inputs, adapters.rank, matrix)
        return adapters.count * (inputs.types.wide * each)


def adapter_time(inputs: ServingInputs, rows: Number, matrix: Matmul) -> Number:
    """Time of an adapter's two products for one matrix, if requests name adapters at random."""
    adapters, types = inputs.case.scenario.workload.adapters, inputs.types
    if adapters is None or matrix.name in _ALONE:
        return 0.0
    columns, fit = matrix.split * matrix.n, types.fit_wide
    with term("adapters"):
        read = experts_read(rows, 1.0, adapters.count) * _adapter_matrix_parameters(inputs, adapters.rank, matrix)
        passed = rows * (columns + matrix.k)
        flop = matmul_flop(rows, adapters.rank, matrix.k) + matmul_flop(rows, columns, adapters.rank)
        launches = 2.0 * fit.start
        return matmul_time(
            flop,
            types.wide * (read + passed),
            types.peak_wide,
            inputs.memory_bandwidth,
            fit.compute_share,
            fit.memory_share,
            launches,
            fit.exponent,
            1.0,
        )


def _adapter_matrix_parameters(inputs: ServingInputs, rank: float, matrix: Matmul) -> Number:
    """Parameters of one adapter for a matrix; each of several fused maps has an inner matrix."""
    dense = [kind.dense for kind in inputs.model.layers if kind.dense is not None]
    maps = FUSED.get(matrix.name, 1.0)
    if matrix.name == "mlp up":
        maps = float(max((len(feed.projected) for feed in dense), default=1))
    return adapter_parameters(rank, matrix.split * matrix.n, maps * matrix.k)


# --- memory of an engine's most loaded accelerator: weights, a step, the runtime, and the cache pool


@record
class EngineMemoryUse:
    """Memory of the most loaded accelerator of a replica, and capacities of the replica's KV-cache pools."""

    total: Number  # of the device, as CUDA reports it
    fraction: Number  # that the engine claims of it
    weights: Number
    activations: Number
    runtime: Number
    pool: Number
    requests_worst: Number = 0.0
    requests_steady: Number = 0.0
    tokens: Number = 0.0  # of requests of the load
    logged: Number = 0.0  # of the longest requests alone, as vLLM logs them
    one_request: Number = 0.0  # bytes set aside for the longest request on the most loaded accelerator
    per_token: Number = 0.0

    @property
    def outside_pool(self) -> Number:
        """Bytes of everything except the KV-cache pool."""
        return self.weights + self.activations + self.runtime

    @property
    def with_pool(self) -> Number:
        """Bytes of everything including the KV-cache pool."""
        return self.outside_pool + np.maximum(self.pool, 0.0)

    @property
    def allowed(self) -> Number:
        """Bytes that the engine may use, at least 1; less than the weights need if there is no room for a pool."""
        return np.maximum(self.outside_pool + self.pool, 1.0)

    @property
    def least_for_one_request(self) -> Number:
        """Bytes needed to serve one request of the greatest length."""
        return self.outside_pool + self.one_request


def stage_share(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Share of the layers on the most loaded pipeline stage."""
    layers = layer_count(inputs.model)
    with term("layers of the most loaded stage"):
        return np.ceil(layers / layout.pp) / layers


def vocab_rows(inputs: ServingInputs, tp: Number) -> Number:
    """Rows of the embedding, or of the head, on one rank."""
    return padded_vocab(inputs.model.vocab, inputs.engine.vocab_multiple, tp) / tp


def layer_weights(inputs: ServingInputs, layout: PlanColumns, kind: Layers) -> tuple[Number, Number]:
    """Weight bytes of one layer on one rank: those that every step reads, and the routed experts."""
    part = shard_of(inputs.model, layout, kind)
    maps = dense_layer_weights(inputs, part)
    if inputs.case.scenario.workload.adapters is not None:
        for matrix in layer_matmuls(inputs.model, part):
            maps = maps + adapter_memory(inputs, matrix)
    if kind.experts is None:
        return maps, 0.0
    routed = bytes_with_copies(inputs, layout, kind.experts, inputs.types.expert_weight * part.routed_parameters)
    return maps, routed if inputs.host_experts is None else inputs.host_experts.kept * routed


def host_expert_memory(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Expert weights of one rank in host memory."""
    total: Number = 0.0
    if inputs.host_experts is not None:
        for kind in inputs.model.layers:
            part = shard_of(inputs.model, layout, kind)
            total = total + kind.count * inputs.types.expert_weight * part.routed_parameters
        total = inputs.host_experts.share * stage_share(inputs, layout) * total
    return total


def dense_layer_weights(inputs: ServingInputs, part: Shard) -> Number:
    """Weight bytes of one layer on one rank, without adapters and routed experts."""
    narrow = narrow_parameters(inputs.model, part)
    return mixed_weight_bytes(part.parameters, narrow, inputs.types.weight, inputs.types.wide)


def weight_memory(inputs: ServingInputs, layout: PlanColumns) -> tuple[Number, Number]:
    """Weight bytes of the most loaded accelerator: of its layers, and of its embedding and head."""
    model, types = inputs.model, inputs.types
    layers: Number = 0.0
    for kind in model.layers:
        maps, routed = layer_weights(inputs, layout, kind)
        layers = layers + kind.count * (maps + routed)
    with term("embedding"):
        entries = table_parameters(vocab_rows(inputs, layout.tp), model.hidden)
        head = entries * types.head
        table = head if model.tied else entries * types.embedding
        last = norm_parameters(model.hidden, norm=model.norm) * types.wide
        if model.vision is not None:
            last = last + vision_parameters(model, layout.tp) * types.wide
        if has_hashed_experts(model):
            last = last + expert_tables(model)
        if model.residual_streams is not None:
            last = last + stream_ends_parameters(model) * types.wide
        if model.layer_embedding is not None:
            last = last + entry_tables(model, layer_count(model), layout.tp) * types.wide
    ends = np.where(layout.pp == 1, head if model.tied else table + head, np.maximum(table, head)) + last
    layers = stage_share(inputs, layout) * layers
    return (layers, ends) if inputs.draft is None else (layers + _draft_weights(inputs, layout), ends)


def _draft_weights(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Weight bytes of a draft: its layers, and its embedding and head if it is a separate model."""
    assert inputs.draft is not None
    with term("draft"):
        layers, ends = weight_memory(inputs.draft, layout)
    return layers + ends if inputs.draft.model is inputs.case.draft else layers


def memory_use(inputs: ServingInputs, layout: PlanColumns) -> EngineMemoryUse:
    """Memory of the most loaded accelerator by line, with the capacities of the KV-cache pool."""
    engine, model = inputs.engine, inputs.model
    layers, ends = weight_memory(inputs, layout)
    weights = layers + ends
    total = inputs.usable_memory - engine.memory.driver
    widest = max(dense_inner_widths(model.layers), default=model.hidden)
    with term("activations"):
        inner = widest / layout.tp
        peak = layer_peak_bytes(layout.budget, stream_width(model), inner, inputs.types.wide)
        layer = np.maximum(peak, engine.memory.layer)
        activations = activation_peak(inputs.sequences, model.vocab, engine.memory.logit, layer)
    runtime = np.where(layout.ranks > 1, engine.memory.group_context, engine.memory.context) + graph_memory(inputs)
    fraction, pool, activations = _pool(inputs, layout, total, weights, activations, runtime)
    return _with_capacities(inputs, layout, EngineMemoryUse(total, fraction, weights, activations, runtime, pool))


def graph_memory(inputs: ServingInputs) -> Number:
    """Bytes of captured graphs that the engine counts in its memory share; 0 if it captures none."""
    engine, each = inputs.engine, inputs.engine.memory.graph
    if not engine.graphs:
        return 0.0
    if each is None:
        return engine.memory.graphs
    kinds = inputs.model.layers
    if any(has_entries(kind) for kind in kinds):
        return engine.memory.graphs + each.compressed
    size = each.experts if any(kind.experts is not None for kind in kinds) else each.dense
    with term("captured graphs"):
        return engine.memory.graphs + captured_graphs(inputs) * size


def captured_graphs(inputs: ServingInputs) -> Number:
    """Number of batch sizes for which a graph is captured."""
    return captured_sizes(inputs.sequences, largest_captured(inputs, FEW_RANKS))


FEW_RANKS = 4.0  # under which SGLang captures fewer sizes


def largest_captured(inputs: ServingInputs, tp: Number) -> Number:
    """The largest batch for which a graph is captured."""
    engine, picked = inputs.engine, engine_defaults(inputs.case)
    if engine.captured is not None or picked.captured_of_few is None:
        return picked.captured if engine.captured is None else engine.captured
    return np.where(np.asarray(tp) < FEW_RANKS, picked.captured_of_few, picked.captured)


def _pool(
    inputs: ServingInputs, layout: PlanColumns, total: Number, weights: Number, activations: Number, runtime: Number
) -> tuple[Number, Number, Number]:
    """The memory share that the engine claims, and the bytes that it leaves to the pool and to activations."""
    memory, rule = inputs.engine.memory, inputs.engine.thumb_rule
    if memory.definition == "share-of-total":
        share = memory.share if memory.share is not None else 1.0
        return share, pool_of_total(total, share, weights, activations, runtime), activations
    if memory.definition == "share-of-free-after":
        share = memory.share if memory.share is not None else 1.0
        return share, pool_of_free_after(total, weights + activations + runtime, share), activations
    share_of_free: Number = memory.share if memory.share is not None else 1.0
    if memory.share is None and rule is not None:
        ranks = layout.tp * layout.pp
        captured = largest_captured(inputs, layout.tp)
        each = (rule.chunk_token, ranks, rule.rank, captured, rule.sequence, rule.graph_sizes, rule.graph_size)
        reserve = reserve_bytes(rule.base, layout.budget, *each)
        least = rule.least if inputs.usable_memory > rule.large else 0.0
        share_of_free = static_fraction(inputs.usable_memory, reserve, least, 0.0)
    free = total - runtime
    pool = pool_of_free_before(free, free - weights, share_of_free)
    left = free - weights - pool
    return share_of_free, pool, left


def _with_capacities(inputs: ServingInputs, layout: PlanColumns, use: EngineMemoryUse) -> EngineMemoryUse:
    """The memory use, with how many requests and tokens the KV-cache pools of a replica can store."""
    load, block, stages = inputs.load, cache_block(inputs, layout), stage_share(inputs, layout)
    pool = np.maximum(use.pool, 0.0)
    shared: Number = 0.0
    if np.any(load.common):
        with term("shared beginning"):
            shared = stages * rank_cache(inputs, layout, load.common)
    with term("a mean request"):
        context = load.private + load.generated
        if not inputs.engine.memory.no_eviction:
            context = mean_context(load.private, load.generated, load.output_spread)
        context = context + load.samples * block_waste(block)
        mean = stages * rank_cache(inputs, layout, context)
    with term("the longest request"):
        worst = stages * admitted_cache(inputs, layout, load.longest)
        logged = pool_tokens(pool, worst / block_tokens(load.longest, block), block)
    planned, tokens = load.prompt + load.output, logged
    if np.any(planned != load.longest):  # of windows and states the longest allowed request would change what it holds
        with term("pool"):
            each = stages * admitted_cache(inputs, layout, planned) / block_tokens(planned, block)
            tokens = pool_tokens(pool, each, block)
    return replace(
        use,
        requests_worst=layout.dp_attention * worst_concurrency(logged, load.longest, block),
        requests_steady=layout.dp_attention * (np.maximum(pool - shared, 0.0) / mean),
        tokens=layout.dp_attention * tokens,
        logged=layout.dp_attention * logged,
        one_request=worst,
        per_token=token_cache(inputs),
    )


# Result columns of an engine's memory.


def memory_columns(inputs: ServingInputs, layout: PlanColumns, memory: EngineMemoryUse) -> dict[str, Number]:
    """Result columns for memory, capacity, bandwidth bound and start time."""
    with term("least"):
        least = memory.least_for_one_request
    with term("allowed"):
        allowed = memory.allowed
    return {
        "cache_pool": np.maximum(memory.pool, 0.0),
        "cache_pool_tokens": memory.tokens,
        "kv_bytes_per_token": memory.per_token,
        "concurrency_worst": memory.requests_worst,
        "concurrency_steady": memory.requests_steady,
        "memory_peak": memory.with_pool,
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


def weights_read_per_token(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Weight bytes that each rank reads per token: all layers, the selected routed experts, and the head."""
    types = inputs.types
    read: Number = 0.0
    for kind in inputs.model.layers:
        part = shard_of(inputs.model, layout, kind)
        with term("weights of a layer"):
            held = dense_layer_weights(inputs, part)
            if kind.experts is not None:
                chosen = share(kind.experts.top_k, kind.experts.count)
                held = held + chosen * (types.expert_weight * part.routed_parameters)
        read = read + kind.count * held
    with term("head"):
        return read + types.head * table_parameters(vocab_rows(inputs, layout.tp), inputs.model.hidden)


def bandwidth_bound(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Upper bound on one user's tokens per second by memory bandwidth; each read yields all accepted draft tokens."""
    with term("weights that a token reads"):
        read = layout.tp * weights_read_per_token(inputs, layout)
    rate = fastest_user_rate(read, layout.tp, inputs.memory_bandwidth)
    return rate if inputs.load.verified == 1 else inputs.load.accepted * rate
