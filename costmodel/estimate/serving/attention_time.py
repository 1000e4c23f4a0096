"""Attention time of an engine: decode of one token per sequence, and prefill of prompts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.equations.kernels.roofline import attention_forward_time, stream_time
from costmodel.equations.memory.kv_cache import attention_cache_bytes
from costmodel.equations.run.economics import share
from costmodel.equations.serving.engine_step import absorbed_attention_flop, appended_attention_flop
from costmodel.estimate.machine.number_formats import vector_rate
from costmodel.estimate.model.mixers.kinds import COMPRESSED, LATENT, SELECTIVE_SCAN
from costmodel.estimate.model.mixers.mixer import Mixer
from costmodel.estimate.model.mixers.table import cache_read, core_flop, shared_keys, state_bytes, without_scan
from costmodel.estimate.model.shards import Shard
from costmodel.estimate.serving.kv_cache import cache_width, own_tokens
from costmodel.estimate.serving.plan_columns import PlanColumns, shard_of
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term

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
    return _calls(layout, part) * fit.start + reading


def _calls(layout: PlanColumns, part: Shard) -> Number:
    """Attention calls per layer; with dcp, grouped attention handles new tokens in a call of their own."""
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
    nbytes = 2.0 * attention_cache_bytes(tokens, _heads(mixer), mixer.head_dim, inputs.types.wide)
    moved = stream_time(nbytes, inputs.memory_bandwidth, fit.memory_share)
    rate = fit.forward_share * inputs.types.peak_wide
    return _calls(layout, part) * fit.start + attention_forward_time(flop, rate, 1.0) + moved


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


def _heads(mixer: Mixer) -> Number:
    """Mean of query heads and key heads, by which cache traffic is counted."""
    with term("heads"):
        return (mixer.heads + mixer.kv_heads) / 2.0
