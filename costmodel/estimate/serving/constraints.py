"""Which rows of serving plans are invalid, by code of the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.model import Layers
from costmodel.documents.schemas.serving.engine import Engine
from costmodel.equations.parallelism.counts import padded_vocab
from costmodel.estimate.model.feeds import inner_widths
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.serving.engine_memory import host_expert_memory, memory_use
from costmodel.estimate.serving.expert_step import placed, unplaced
from costmodel.estimate.serving.host_loading import host_bytes
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.unchunked_prefill import INVALID, longer_than_a_step
from costmodel.estimate.shared.plan_batch import leaves_rest
from costmodel.ground.equation import term

Mask = NDArray[np.bool_]


def invalid_halves(inputs: ServingInputs, prefill: PlanColumns, decode: PlanColumns) -> Iterator[tuple[str, Mask]]:
    """Masks of invalid pairs of prefill and decode layouts, by reason code."""
    if inputs.prompts is not None:
        yield from invalid(inputs.prompts, prefill)
        yield from invalid(inputs, decode)
        return
    gpus = prefill.replicas * prefill.ranks + decode.replicas * decode.ranks
    yield "L050", np.asarray(gpus > inputs.ranks)
    for half in (prefill, decode):
        yield from ((code, mask) for code, mask in invalid(inputs, half) if code not in ("L050", "L060"))
    yield from unplaced(inputs, prefill, decode)


def invalid(inputs: ServingInputs, layout: PlanColumns) -> Iterator[tuple[str, Mask]]:
    """Masks of invalid rows, by reason code."""
    model, tp = inputs.model, layout.tp
    yield "L050", np.asarray(layout.replicas * layout.ranks > inputs.ranks)
    layers = [*model.cut_kinds, *(inputs.draft.model.layers if inputs.draft is not None else ())]
    yield "L051", _any(layout, (leaves_rest(count, tp) for kind in layers for count in kind.head_counts))
    heads = [kind.attention.kv_heads for kind in layers if kind.attention is not None]
    yield "L052", _any(layout, (leaves_rest(each, tp) & leaves_rest(tp, each) for each in heads))
    vocab = padded_vocab(model.vocab, inputs.engine.vocab_multiple, 1.0)
    yield "L053", leaves_rest(vocab, tp)
    yield "L054", _any(layout, (leaves_rest(width, tp) for width in inner_widths(model.cut_kinds)))
    yield "L055", np.asarray(layout.pp > layer_count(model))
    if model.on_one_stage:
        yield "L059", np.asarray(layout.pp > 1)
    if inputs.host_pool is not None or inputs.host_experts is not None:
        yield "L061", _past_host_memory(inputs, layout)
    if inputs.load.whole:
        yield "L062", np.broadcast_to(longer_than_a_step(inputs.load, layout.budget) > INVALID, len(layout))
    if inputs.load.verified > 1:
        yield "L058", np.asarray(layout.pp > 1)
    yield from undivided(inputs, layout, layers)
    yield from _experts(inputs, layout)


def _past_host_memory(inputs: ServingInputs, layout: PlanColumns) -> Mask:
    """Rows whose ranks need more host memory for cache and experts, or more drive capacity for cache, than there is."""
    host, pool = inputs.case.node, inputs.host_pool
    memory = np.inf if host.memory is None else host.memory.capacity
    with term("on a host"):
        ranks = np.minimum(layout.replicas * layout.ranks, host.built)
        experts = ranks * host_expert_memory(inputs, layout)
        if pool is None:
            return np.asarray(experts > memory)
        cache = ranks * host_bytes(inputs, memory_use(inputs, layout))
    if pool.stated.on == "memory":
        return np.asarray(experts + cache > memory)
    return np.asarray((experts > memory) | (cache > pool.capacity))


def _experts(inputs: ServingInputs, layout: PlanColumns) -> Iterator[tuple[str, Mask]]:
    """Masks of plans whose ranks do not divide the experts, or that shard experts of a model without any."""
    found = [kind.experts for kind in inputs.model.layers if kind.experts is not None]
    if not found:
        yield "L057", np.asarray((layout.ep > 1) | (layout.dp_attention > 1) | (layout.redundant_experts > 0))
        return
    ranks = layout.stage_ranks
    wrong = leaves_rest(ranks, layout.ep)
    for experts in found:
        parts = layout.ep * experts.ffn_hidden
        held = placed(inputs, layout, experts)
        wrong = wrong | leaves_rest(held, layout.ep) | leaves_rest(parts, ranks)
    yield "L056", wrong
    if inputs.engine.expert_ranks == "all":
        yield "L067", np.asarray((layout.ep > 1) & (layout.ep != ranks))
    yield from unplaced(inputs, layout)


def _any(layout: PlanColumns, masks: Iterator[Mask]) -> Mask:
    """A mask that is true where any of several masks is."""
    found: Mask = np.zeros(len(layout), dtype=bool)
    for mask in masks:
        found = found | mask
    return found


def undivided(
    inputs: ServingInputs, layout: PlanColumns, layers: Sequence[Layers]
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Masks of rows with invalid dcp, by reason code; `layers` are those of the model and of its draft."""
    if not layout.shares_context:
        return
    shared = np.asarray(layout.dcp > 1)
    yield "L063", leaves_rest(layout.tp, layout.dcp)
    few = np.zeros(len(layout), dtype=bool)
    for kind in layers:
        if kind.attention is not None:
            heads, kv_heads = kind.attention.heads, kind.attention.kv_heads
            with term("copies of key-value heads"):
                alike = layout.dcp * kv_heads
                queries = heads / kv_heads
            few = few | np.asarray(alike > layout.tp) | leaves_rest(queries, layout.dcp)
    yield "L064", shared & few
    if not all(divisible(inputs.engine, kind) for kind in layers):
        yield "L065", shared


def divisible(engine: Engine, kind: Layers) -> bool:
    """Whether an engine divides a layer's cache by tokens under dcp, and costmodel can predict it.

    A window, states, the keys of an indexer, and keys of another layer are not divided.
    """
    own = engine.decode_context
    if kind.heads is None:
        return True
    if own is None or kind.scan_heads or kind.compressed is not None:
        return False
    if kind.latent is not None:
        return "latent" in own.caches and kind.latent.indexer is None
    whole = kind.attention is not None and kind.attention.window is None and not kind.attention.shared_kv
    return "attention" in own.caches and whole
