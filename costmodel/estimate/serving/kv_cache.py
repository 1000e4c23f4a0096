"""The KV cache: its bytes by kind of layer, the time of attention over it, and its division over ranks (dcp)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.model import Layers
from costmodel.equations.kernels.roofline import attention_forward_time, stream_time
from costmodel.equations.memory.kv_cache import (
    admitted_window_tokens,
    attention_cache_bytes,
    block_tokens,
    entry_block_bytes,
)
from costmodel.equations.network.collectives import Operation, activation_message
from costmodel.equations.parallelism.context_parallel import (
    gathered_heads,
    partial_result_traffic,
    shared_cache_tokens,
    softmax_statistics_bytes,
)
from costmodel.equations.parallelism.counts import kv_heads_per_rank
from costmodel.equations.run.economics import share
from costmodel.equations.serving.engine_step import (
    absorbed_attention_flop,
    appended_attention_flop,
    chunk_count,
    reread_tokens,
)
from costmodel.estimate.machine.collective_time import collective_time
from costmodel.estimate.machine.number_formats import vector_rate
from costmodel.estimate.machine.process_groups import Group, Transfer
from costmodel.estimate.model.mixers.mixer import CacheWidth, Mixer
from costmodel.estimate.model.mixers.mixer_kinds import COMPRESSED, LATENT, SELECTIVE_SCAN
from costmodel.estimate.model.mixers.mixing_half import (
    cache_read,
    core_flop,
    mixer_cache,
    shared_keys,
    state_bytes,
    token_bytes,
    without_scan,
)
from costmodel.estimate.model.shards import Shard
from costmodel.estimate.serving.plan_columns import PlanColumns, engine_group, shard_of
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

STATE_ELEMENT = 4.0  # engines keep states in fp32
# Of vLLM 0.25 for layers with compressed entries, whose blocks are all as large as one of entries, in 8 bits with the
# rotary part in 16 (v1/core/kv_cache_utils.py; models/deepseek_v4/compressor.py, CompressorStateCache and
# DeepseekCompressor; v1/attention/backends/mla/sparse_swa.py).
ENTRY_BLOCK = 256.0  # tokens whose entries share a block
WINDOW_BLOCK = 64.0  # tokens of a window in a block: as many as a block of rate 4 has entries
RUN_BLOCKS, OTHER_RUNS = {4.0: 4.0}, 8.0  # tokens of what entries are made of in a block, by the rate of entries
ALIGNMENT = 576.0  # bytes of which a block has a whole number
ENTRY_SCALES = 8.0  # bytes beside an entry: seven scales, and one byte that is left empty
INDEX_SCALES = 4.0  # bytes beside an index key: a scale in fp32


def layer_cache(inputs: ServingInputs, kind: Layers, tp: Number, tokens: Number) -> Number:
    """KV-cache bytes of one layer for a sequence with the given number of tokens, on a rank of tp."""
    return mixer_cache(kind, tp, tokens, cache_width(inputs))


def cache_width(inputs: ServingInputs) -> CacheWidth:
    """Bytes per element of the KV cache, of states, and of 16-bit values."""
    return CacheWidth(inputs.types.cache, STATE_ELEMENT, inputs.types.wide)


def sequence_cache(inputs: ServingInputs, tp: Number, tokens: Number) -> Number:
    """KV-cache bytes of all layers for a sequence with so many tokens, on a rank of tp without a pipeline."""
    total: Number = 0.0
    for kind in inputs.model.layers:
        if kind.heads is not None:
            total = total + kind.count * layer_cache(inputs, kind, tp, tokens)
    return total if inputs.draft is None else total + sequence_cache(inputs.draft, tp, tokens)


def own_tokens(layout: PlanColumns, tokens: Number) -> Number:
    """Tokens of a sequence whose cache one rank has: all, or its part under decode context parallelism."""
    return shared_cache_tokens(tokens, layout.dcp) if layout.shares_context else tokens


def cache_block(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Tokens of a sequence that are allocated together: a block on each rank of dcp."""
    if not layout.shares_context:
        return inputs.engine.block
    with term("blocks of all ranks of dcp"):
        return layout.dcp * inputs.engine.block


def rank_cache(inputs: ServingInputs, layout: PlanColumns, tokens: Number) -> Number:
    """KV-cache bytes of all layers on a rank for a sequence with the given number of tokens, without a pipeline."""
    return sequence_cache(inputs, layout.tp, own_tokens(layout, tokens))


def admitted_cache(inputs: ServingInputs, layout: PlanColumns, request: Number) -> Number:
    """KV-cache bytes that an engine reserves on a rank for a request of so many tokens."""
    total: Number = 0.0
    for kind in inputs.model.layers:
        if kind.heads is not None:
            total = total + kind.count * admitted_layer(inputs, layout, kind, request)
    if inputs.engine.memory.definition == "share-of-total" and any(map(has_entries, inputs.model.layers)):
        total = _reserved_with_entries(inputs, layout, request)
    return total if inputs.draft is None else total + admitted_cache(inputs.draft, layout, request)


def has_entries(kind: Layers) -> bool:
    """Whether a layer caches compressed entries of several tokens beside its window."""
    return kind.compressed is not None and kind.compressed.entries is not None


def _reserved_with_entries(inputs: ServingInputs, layout: PlanColumns, request: Number) -> Number:
    """Bytes reserved for a request with compressed entries, where windows and uncompressed tokens fill equal blocks."""
    kinds = [kind for kind in inputs.model.layers if kind.compressed is not None]
    runs = {kind.compressed.entries.rate: kind for kind in kinds if kind.compressed and kind.compressed.entries}
    most = max(sum(kind.count for kind in kinds if _tokens_per_entry(kind) == rate) for rate in runs)
    with term("blocks of entries"):
        blocks: Number = block_tokens(own_tokens(layout, request), ENTRY_BLOCK) / ENTRY_BLOCK
        page: Number = sum((kind.count * _entry_page_bytes(inputs, kind) for kind in kinds), start=0.0)
    with term("blocks of windows"):
        window = max(kind.compressed.window for kind in kinds if kind.compressed)
        groups = np.maximum(np.round(sum(kind.count for kind in kinds) / most), 1.0)  # that leave the fewest empty
        blocks = blocks + groups * _window_blocks(request, window, layout.budget, WINDOW_BLOCK)
    with term("blocks of runs"):
        for rate, kind in runs.items():
            own = kind.compressed
            seen = rate * (own.entries.series if own and own.entries else 1.0)
            blocks = blocks + _window_blocks(request, seen, layout.budget, RUN_BLOCKS.get(rate, OTHER_RUNS))
    return blocks * page


def _window_blocks(request: Number, window: Number, budget: Number, block: float) -> Number:
    """Number of blocks that an engine reserves for a window and the tokens of a step."""
    return admitted_window_tokens(request, window, budget, block) / block


def _tokens_per_entry(kind: Layers) -> float:
    return kind.compressed.entries.rate if kind.compressed and kind.compressed.entries else 0.0


def _entry_page_bytes(inputs: ServingInputs, kind: Layers) -> Number:
    """Bytes of one cache block with compressed entries in one layer."""
    own = kind.compressed
    if own is None or own.entries is None:
        return 0.0
    width, narrow, entries = inputs.types.cache, inputs.types.cache < inputs.types.wide, own.entries
    each = own.head_dim * width
    index = 0.0 if entries.indexer is None else entries.indexer.head_dim * width
    if narrow:
        each = each + own.rope_dim * (inputs.types.wide - width) + ENTRY_SCALES
        index = index + (0.0 if entries.indexer is None else INDEX_SCALES)
    return entry_block_bytes(ENTRY_BLOCK, entries.rate, each, index, ALIGNMENT)


def admitted_layer(inputs: ServingInputs, layout: PlanColumns, kind: Layers, request: Number) -> Number:
    """KV-cache bytes reserved in one layer: whole blocks; of a window, the tokens that may be in flight."""
    tp, budget = layout.tp, layout.budget
    block = inputs.engine.block
    whole = own_tokens(layout, block_tokens(request, cache_block(inputs, layout)))
    if kind.attention is not None and kind.attention.window is not None:
        tokens = admitted_window_tokens(request, kind.attention.window, budget, block)
        heads = kv_heads_per_rank(kind.attention.kv_heads, tp)
        each = attention_cache_bytes(tokens, heads, kind.attention.core_width, inputs.types.cache)
        each = 0.0 if kind.attention.shared_kv else each
        return each + state_bytes(kind, tp, cache_width(inputs)) if kind.scan_heads else each
    if kind.compressed is not None:
        windowed = admitted_window_tokens(request, kind.compressed.window, budget, block)
        return COMPRESSED.cache_parts(kind.compressed, windowed, whole, cache_width(inputs))
    return layer_cache(inputs, kind, tp, whole)


def token_cache(inputs: ServingInputs) -> Number:
    """Bytes that one token adds to the KV cache of all layers without a window, with all heads."""
    total: Number = 0.0
    with term("cache of a token"):
        for kind in inputs.model.layers:
            total = total + kind.count * token_bytes(kind, cache_width(inputs))
    return total


_CONTEXT = 8192.0  # tokens of the cache at which two widths are compared: both times grow with it evenly


def narrow_cache_without_gain(inputs: ServingInputs, layout: PlanColumns) -> bool:
    """Whether an 8-bit KV cache does not speed up decode attention, because absorbed attention is compute-bound."""
    types = inputs.types
    if types.cache >= types.wide or not all(kind.latent is not None for kind in inputs.model.layers):
        return False
    wide = replace(inputs, types=replace(types, cache=types.wide))
    parts = [shard_of(inputs.model, layout, kind) for kind in inputs.model.layers]
    one, context = np.ones(1), np.full(1, _CONTEXT)
    times = [[decode_attention(each, layout, part, one, context) for part in parts] for each in (inputs, wide)]
    return bool(np.all(np.asarray(times[0]) == np.asarray(times[1])))


def decode_attention(
    inputs: ServingInputs, layout: PlanColumns, part: Shard, decodes: Number, context: Number
) -> Number:
    """Decode attention time of one layer, for one new token of each sequence in an attention group."""
    kind, fit = part.kind, inputs.kernels.decode
    width = cache_width(inputs)
    nbytes = decodes * cache_read(kind, layout.tp, own_tokens(layout, context), width)
    if kind.scan_heads:
        with term("written back"):
            nbytes = nbytes + decodes * state_bytes(kind, layout.tp, width)
    reading = stream_time(nbytes, inputs.memory_bandwidth, fit.memory_share)
    shared = shared_keys(kind, context)
    if shared is not None and part.mixer is not None:
        with term("absorbed"):
            cached = decodes * shared.count
            widths = (shared.width, shared.rope_dim)
            flop = absorbed_attention_flop(cached, inputs.load.verified, part.mixer.heads, *widths)
            rate = fit.absorbed_share * inputs.types.peak_wide
            reading = np.maximum(reading, attention_forward_time(flop, rate, 1.0))
    return _attention_calls(layout, part) * fit.start + reading


def _attention_calls(layout: PlanColumns, part: Shard) -> Number:
    """Number of attention kernel calls per layer."""
    if not layout.shares_context or part.kind.latent is not None:
        return 1.0
    return np.where(layout.dcp > 1, 2.0, 1.0)


def prompt_attention(inputs: ServingInputs, layout: PlanColumns, part: Shard, tokens: Number) -> Number:
    """Prefill attention time of one layer, for prompt tokens of one attention group."""
    mixer, fit, load = part.mixer, inputs.kernels.prompt, inputs.load
    assert mixer is not None
    if part.kind.selective_scan is not None:
        rate, scan = vector_rate(inputs.case.accelerator, inputs.types.peak_wide), mixer.beside or mixer
        taken = fit.start + SELECTIVE_SCAN.scan_time(part.kind.selective_scan, scan, tokens, rate, backward=False)
        if part.kind.attention is None:
            return taken
        kind, alone = without_scan(part.kind, mixer)
        return taken + prompt_attention(inputs, layout, replace(part, kind=kind, mixer=alone), tokens)
    prompts = tokens / load.computed
    flop = prompts * _prompt_flop(inputs, part, mixer)
    nbytes = 2.0 * attention_cache_bytes(tokens, _cache_traffic_heads(mixer), mixer.head_dim, inputs.types.wide)
    moved = stream_time(nbytes, inputs.memory_bandwidth, fit.memory_share)
    rate = fit.forward_share * inputs.types.peak_wide
    return _attention_calls(layout, part) * fit.start + attention_forward_time(flop, rate, 1.0) + moved


def _prompt_flop(inputs: ServingInputs, part: Shard, mixer: Mixer) -> Number:
    """Attention FLOP of a prompt; after a cached prefix only of the tokens that are computed."""
    load, kind = inputs.load, part.kind
    if kind.compressed is not None:
        return COMPRESSED.appended_flop(kind.compressed, mixer, load.computed, load.hit)
    if kind.latent is not None and kind.latent.indexer is not None:
        core, scores = LATENT.appended_flop(kind.latent, mixer, load.computed, load.hit)
        with term("scores in fp8"):  # as engines have them
            quicker = share(inputs.types.peak_wide, inputs.case.accelerator.peak.fp8 or inputs.types.peak_wide)
            return core + scores * quicker
    windowed = kind.attention is not None and kind.attention.window is not None
    if kind.scan_heads or windowed or not np.any(load.hit):
        return core_flop(kind, mixer, 1.0, load.computed, mixer.heads, causal=True)
    return appended_attention_flop(load.computed, load.hit, mixer.heads, mixer.head_dim)


def _cache_traffic_heads(mixer: Mixer) -> Number:
    """Mean of query heads and key heads, by which cache traffic is counted."""
    with term("heads"):
        return (mixer.heads + mixer.kv_heads) / 2.0


_COPIES = 4.0  # passes over gathered queries and results: laid out anew, weighted, laid out for the sum, and behind it
_MERGE = 1.0  # one more in grouped attention, which attends to new tokens apart

_STATISTIC = 4.0  # bytes of the logarithm of a sum of softmax, in fp32


@record
class ContextTime:
    """Seconds of decode context parallelism (dcp): exchanges, and memory passes for them; 0 without dcp."""

    exchange: Number = 0.0
    passes: Number = 0.0


def with_dcp_only(layout: PlanColumns, value: Number) -> Number:
    """The value for plans with decode context parallelism; 0 for other plans."""
    return np.where(layout.dcp > 1, value, 0.0)


def dcp_query_transfers(inputs: ServingInputs, layout: PlanColumns, part: Shard, rows: Number) -> Iterator[Transfer]:
    """Collectives of one attention layer with dcp, for the given number of queries of one attention group."""
    ranks = _dcp_group(inputs, layout)
    heads, query, result = _dcp_widths(layout, part)
    merged = inputs.engine.decode_context and inputs.engine.decode_context.merged
    operations: tuple[tuple[str, Operation, Number], ...] = (
        ("gather queries", "all_gather", activation_message(rows, heads * query, inputs.types.wide)),
        ("gather sums of softmax", "all_gather", softmax_statistics_bytes(rows, heads, layout.dcp, _STATISTIC)),
        ("sum results", "reduce_scatter", activation_message(rows, heads * result, merged or inputs.types.wide)),
    )
    for name, operation, message in operations:
        with term(name):
            time = collective_time(inputs, message, ranks, operation)
            yield Transfer(ranks, operation, message, time, with_dcp_only(layout, 1.0))


def dcp_query_time(inputs: ServingInputs, layout: PlanColumns, part: Shard, rows: Number) -> ContextTime:
    """Time of one layer's dcp collectives, with memory passes over queries and results."""
    exchange: Number = 0.0
    for transfer in dcp_query_transfers(inputs, layout, part, rows):
        exchange = exchange + with_dcp_only(layout, transfer.time)
    heads, query, result = _dcp_widths(layout, part)
    calls = _COPIES if part.kind.latent is not None else _COPIES + _MERGE
    with term("partial results"):
        nbytes = partial_result_traffic(rows, heads, query, result, layout.dcp, inputs.types.wide)
        moved = stream_time(nbytes, inputs.memory_bandwidth, inputs.memory_share)
        passes = with_dcp_only(layout, calls * inputs.engine.kernels.operation + moved)
    return ContextTime(exchange, passes)


def dcp_prompt_transfer(inputs: ServingInputs, layout: PlanColumns, kind: Layers, tokens: Number) -> Transfer:
    """All-gather of earlier tokens in one latent attention layer with dcp, for the given number of prompt tokens."""
    ranks, load = _dcp_group(inputs, layout), inputs.load
    with term("gather earlier tokens"):
        prompts, budget = tokens / load.computed, layout.budget
        cached = chunk_count(load.computed, budget) * load.hit
        earlier = prompts * (cached + reread_tokens(load.computed, budget))
        message = earlier * token_bytes(kind, cache_width(inputs))
        time = collective_time(inputs, message, ranks, "all_gather")
    return Transfer(ranks, "all_gather", message, time, with_dcp_only(layout, np.where(message > 0, 1.0, 0.0)))


def dcp_latent_time(inputs: ServingInputs, layout: PlanColumns, queries: Number) -> ContextTime:
    """Time of dcp in all latent attention layers for decode queries."""
    found = ContextTime()
    if not layout.shares_context:
        return found
    for kind in inputs.model.layers:
        if kind.latent is not None:
            with term("decode context"):
                part = shard_of(inputs.model, layout, kind)
                each = dcp_query_time(inputs, layout, part, queries)
            found = ContextTime(found.exchange + kind.count * each.exchange, found.passes + kind.count * each.passes)
    return found


def dcp_prompt_time(inputs: ServingInputs, layout: PlanColumns, tokens: Number) -> Number:
    """Time in which all latent attention layers gather earlier tokens for prompt tokens."""
    total: Number = 0.0
    if not layout.shares_context:
        return total
    for kind in inputs.model.layers:
        if kind.latent is not None:
            transfer = dcp_prompt_transfer(inputs, layout, kind, tokens)
            total = total + kind.count * np.where(transfer.count > 0, transfer.time, 0.0)
    return total


def _dcp_group(inputs: ServingInputs, layout: PlanColumns) -> Group:
    """The dcp group: neighbours inside tp with the same KV heads."""
    return engine_group(inputs, layout, "dcp", layout.dcp)


def _dcp_widths(layout: PlanColumns, part: Shard) -> tuple[Number, Number, Number]:
    """Heads that a rank computes under decode context parallelism, and the widths of queries and results."""
    assert part.mixer is not None
    heads, latent = gathered_heads(part.mixer.heads, layout.dcp), part.kind.latent
    if latent is None:
        return heads, part.mixer.head_dim, part.mixer.head_dim
    with term("absorbed queries"):
        return heads, latent.kv_rank + latent.rope_dim, latent.kv_rank
