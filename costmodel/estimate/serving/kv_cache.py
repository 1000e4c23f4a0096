"""Bytes that a rank keeps of a sequence in the layers of each kind, and of the whole model."""

from __future__ import annotations

from costmodel.documents.schemas.model import Layers
from costmodel.equations.parallelism.counts import kv_heads_per_rank
from costmodel.equations.serving.memory.kv_cache import (
    admitted_window_tokens,
    attention_cache_bytes,
    block_tokens,
    latent_cache_bytes,
    state_cache_bytes,
    window_tokens,
)
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term

STATE_ELEMENT = 4.0  # engines keep states in fp32


def layer_cache(inputs: ServingInputs, kind: Layers, tp: Number, tokens: Number) -> Number:
    """What one layer keeps of a sequence of so many tokens, on a rank of tp."""
    element = inputs.types.cache
    if kind.latent is not None:
        return latent_cache_bytes(tokens, kind.latent.kv_rank, kind.latent.rope_dim, element, element)
    if kind.state_space is not None:
        space = kind.state_space
        heads, groups = space.heads / tp, kv_heads_per_rank(space.groups, tp)
        sizes = (heads, space.head_dim, groups, space.state, space.conv)
        return state_cache_bytes(*sizes, STATE_ELEMENT, inputs.types.wide)
    if kind.attention is None:
        return 0.0
    kept = tokens if kind.attention.window is None else window_tokens(tokens, kind.attention.window)
    heads = kv_heads_per_rank(kind.attention.kv_heads, tp)
    return attention_cache_bytes(kept, heads, kind.attention.head_dim, element)


def sequence_cache(inputs: ServingInputs, tp: Number, tokens: Number) -> Number:
    """What all layers keep of a sequence of so many tokens, on a rank of tp without a pipeline."""
    total: Number = 0.0
    for kind in inputs.model.layers:
        if kind.heads is not None:
            total = total + kind.count * layer_cache(inputs, kind, tp, tokens)
    return total if inputs.draft is None else total + sequence_cache(inputs.draft, tp, tokens)


def admitted_cache(inputs: ServingInputs, tp: Number, budget: Number) -> Number:
    """What an engine sets aside for the longest request: whole blocks, and of a window as much as may be in flight."""
    longest, block = inputs.load.longest, inputs.engine.block
    total: Number = 0.0
    for kind in inputs.model.layers:
        if kind.heads is None:
            continue
        tokens = block_tokens(longest, block)
        if kind.attention is not None and kind.attention.window is not None:
            tokens = admitted_window_tokens(longest, kind.attention.window, budget, block)
            heads = kv_heads_per_rank(kind.attention.kv_heads, tp)
            each = attention_cache_bytes(tokens, heads, kind.attention.head_dim, inputs.types.cache)
        else:
            each = layer_cache(inputs, kind, tp, tokens)
        total = total + kind.count * each
    return total if inputs.draft is None else total + admitted_cache(inputs.draft, tp, budget)


def token_cache(inputs: ServingInputs) -> Number:
    """What one token adds over all layers that see every token, with all heads once."""
    total: Number = 0.0
    with term("cache of a token"):
        for kind in inputs.model.layers:
            windowed = kind.attention is not None and kind.attention.window is not None
            if kind.heads is not None and kind.state_space is None and not windowed:
                total = total + kind.count * layer_cache(inputs, kind, 1.0, 1.0)
    return total
