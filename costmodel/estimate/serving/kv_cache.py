"""Bytes of cache that a rank keeps for a sequence, for each kind of layer and for the whole model."""

from __future__ import annotations

import numpy as np

from costmodel.documents.schemas.model import Layers
from costmodel.equations.memory.kv_cache import (
    admitted_window_tokens,
    attention_cache_bytes,
    block_tokens,
    entry_block_bytes,
)
from costmodel.equations.parallelism.context_parallel import shared_cache_tokens
from costmodel.equations.parallelism.counts import kv_heads_per_rank
from costmodel.estimate.model.mixers.kinds import COMPRESSED
from costmodel.estimate.model.mixers.mixer import CacheWidth
from costmodel.estimate.model.mixers.table import mixer_cache, state_bytes, token_bytes
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term

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
    """KV-cache bytes of one layer for a sequence with so many tokens, on a rank of tp."""
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
    """Tokens of a sequence in the KV cache of one rank: all of them, or its part under dcp."""
    return shared_cache_tokens(tokens, layout.dcp) if layout.shares_context else tokens


def cache_block(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Tokens of a sequence that are allocated together: a block on each rank of dcp."""
    if not layout.shares_context:
        return inputs.engine.block
    with term("blocks of all ranks of dcp"):
        return layout.dcp * inputs.engine.block


def rank_cache(inputs: ServingInputs, layout: PlanColumns, tokens: Number) -> Number:
    """KV-cache bytes of all layers on a rank for a sequence with so many tokens, without a pipeline."""
    return sequence_cache(inputs, layout.tp, own_tokens(layout, tokens))


def admitted_cache(inputs: ServingInputs, layout: PlanColumns, request: Number) -> Number:
    """KV-cache bytes that an engine reserves on a rank for a request with so many tokens, without a pipeline."""
    total: Number = 0.0
    for kind in inputs.model.layers:
        if kind.heads is not None:
            total = total + kind.count * admitted_layer(inputs, layout, kind, request)
    if inputs.engine.memory.definition == "share-of-total" and any(compresses(kind) for kind in inputs.model.layers):
        total = _packed_cache(inputs, layout, request)
    return total if inputs.draft is None else total + admitted_cache(inputs.draft, layout, request)


def compresses(kind: Layers) -> bool:
    """Whether a layer caches compressed entries of several tokens beside its window."""
    return kind.compressed is not None and kind.compressed.entries is not None


def _packed_cache(inputs: ServingInputs, layout: PlanColumns, request: Number) -> Number:
    """Bytes reserved for a request with compressed entries, where windows and uncompressed tokens fill equal blocks."""
    kinds = [kind for kind in inputs.model.layers if kind.compressed is not None]
    runs = {kind.compressed.entries.rate: kind for kind in kinds if kind.compressed and kind.compressed.entries}
    most = max(sum(kind.count for kind in kinds if _rate(kind) == rate) for rate in runs)
    with term("blocks of entries"):
        blocks: Number = block_tokens(own_tokens(layout, request), ENTRY_BLOCK) / ENTRY_BLOCK
        page: Number = sum((kind.count * _page(inputs, kind) for kind in kinds), start=0.0)
    with term("blocks of windows"):
        window = max(kind.compressed.window for kind in kinds if kind.compressed)
        groups = np.maximum(np.round(sum(kind.count for kind in kinds) / most), 1.0)  # that leave the fewest empty
        blocks = blocks + groups * _in_flight(request, window, layout.budget, WINDOW_BLOCK)
    with term("blocks of runs"):
        for rate, kind in runs.items():
            own = kind.compressed
            seen = rate * (own.entries.series if own and own.entries else 1.0)
            blocks = blocks + _in_flight(request, seen, layout.budget, RUN_BLOCKS.get(rate, OTHER_RUNS))
    return blocks * page


def _in_flight(request: Number, window: Number, budget: Number, block: float) -> Number:
    """Blocks that an engine reserves for a window and a step's tokens."""
    return admitted_window_tokens(request, window, budget, block) / block


def _rate(kind: Layers) -> float:
    return kind.compressed.entries.rate if kind.compressed and kind.compressed.entries else 0.0


def _page(inputs: ServingInputs, kind: Layers) -> Number:
    """Bytes of a block of compressed entries in one layer, aligned; index keys are stored separately."""
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
        return COMPRESSED.held(kind.compressed, windowed, whole, cache_width(inputs))
    return layer_cache(inputs, kind, tp, whole)


def token_cache(inputs: ServingInputs) -> Number:
    """Bytes that one token adds to the KV cache of all layers without a window, with all heads."""
    total: Number = 0.0
    with term("cache of a token"):
        for kind in inputs.model.layers:
            total = total + kind.count * token_bytes(kind, cache_width(inputs))
    return total
