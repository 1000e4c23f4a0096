"""Saved activations of a layer, averaged over the layers, and activations that are offloaded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.equations.kernels.memory_traffic import linear_inputs
from costmodel.equations.memory.activations import (
    mlp_activations,
    op_level_activations,
    score_activations,
    stream_activations,
)
from costmodel.equations.network.collectives import activation_message
from costmodel.equations.parallelism.recompute import activation_output_bytes, mixed
from costmodel.estimate.model.layer_embeddings import entry_activations
from costmodel.estimate.model.mixers.table import mixer_activations, score_heads
from costmodel.estimate.model.residual_streams import stream_mixing_activations, stream_width
from costmodel.estimate.model.routed_experts import expert_activations, rows_of
from costmodel.estimate.model.shards import Shard, additions, exchanges, shard
from costmodel.estimate.model.side_branch import side_activations
from costmodel.estimate.shared.plan_batch import Block, largest
from costmodel.estimate.training.lora import between, between_of_experts, unread_by_experts
from costmodel.estimate.training.memory.offload import offloaded_share
from costmodel.estimate.training.parallelism.pipeline import StageLayers
from costmodel.estimate.training.recompute import (
    checkpointed,
    dropped,
    fused_outputs,
    narrow_widths,
    partial,
    reached,
    recompute_saving_bytes,
)
from costmodel.estimate.training.stage_parameters import local_tokens
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term


def layer_activations(inputs: TrainingInputs, block: Block, part: Shard) -> Number:
    """Bytes saved in one layer for the backward pass of one micro-batch."""
    structure, model = block.structure, inputs.model
    split = block.sequence_ranks
    tokens = local_tokens(inputs, block)
    mixer = part.mixer
    what = dropped(inputs, structure)
    if what == "layer":
        return checkpointed(inputs, structure, tokens, split)
    if what == "operations":
        sizes = (mixer.heads, mixer.kv_heads, mixer.head_dim) if mixer is not None else (0.0, 0.0, 0.0)
        kept = op_level_activations(tokens, stream_width(model), *sizes, part.ffn_hidden, inputs.widths.element, split)
        if part.routed is not None:
            kept = kept + _expert_activations(inputs, part, block) / 2.0
        kept = np.minimum(kept, whole_activations(inputs, block, part, selective=False))
        return kept + between(inputs, part, tokens) + _between_experts(inputs, block, part)
    whole = whole_activations(inputs, block, part, selective=what == "core")
    whole = whole + between(inputs, part, tokens) + _between_experts(inputs, block, part)
    if inputs.stack.kernels.compiled:
        whole = whole - fused_outputs(inputs, part, tokens, split)
    if what != "modules" and inputs.tuning is None:
        return whole
    return whole - dropped_bytes(inputs, block, part)


def dropped_bytes(inputs: TrainingInputs, block: Block, part: Shard) -> Number:
    """Bytes of a layer that named recompute modules and frozen weights do not save."""
    split = block.sequence_ranks
    sizes = (block.micro_batch / block.cp, local_tokens(inputs, block), split)
    spared = recompute_saving_bytes(inputs, block.structure, part, sizes)
    return spared if part.routed is None else spared + _spared_experts(inputs, block, part)


def _between_experts(inputs: TrainingInputs, block: Block, part: Shard) -> Number:
    """Saved bytes between the thin matrices of routed experts' adapters; 0 if all of the experts are recomputed."""
    if inputs.tuning is None or part.routed is None or inputs.experts is None:
        return 0.0
    if "moe" in (block.structure.recompute_modules or ()):
        return 0.0
    rows = rows_of(part.routed, local_tokens(inputs, block) / block.tp, inputs.experts.load)
    return between_of_experts(inputs, part.routed, rows)


def _spared_experts(inputs: TrainingInputs, block: Block, part: Shard) -> Number:
    """Bytes of routed experts that are not saved, because of recompute modules and frozen weights."""
    modules = block.structure.recompute_modules or ()
    if "moe" in modules:
        with term("dropped experts"):
            return _expert_activations(inputs, part, block)
    if ("moe-activation" not in modules and inputs.tuning is None) or part.routed is None or inputs.experts is None:
        return 0.0
    width = inputs.recipe.operand if inputs.keeps_narrow else inputs.widths.element
    rows = rows_of(part.routed, local_tokens(inputs, block) / block.tp, inputs.experts.load)
    spared: Number = 0.0
    with term("dropped experts"):
        if "moe-activation" in modules:
            spared = activation_output_bytes(rows, part.routed.ffn_hidden, width)
        if inputs.tuning is not None:
            spared = spared + unread_by_experts(inputs, part.routed, modules, (rows, width))
    return spared


def whole_activations(inputs: TrainingInputs, block: Block, part: Shard, *, selective: bool) -> Number:
    """Bytes saved in one layer without recompute; if `selective`, with recompute of the attention core."""
    kernels, model = inputs.stack.kernels, inputs.model
    split = block.sequence_ranks
    tokens = local_tokens(inputs, block)
    with term("layer activations"):
        norms = (part.kind.norms, additions(part.kind))
        kept = stream_activations(tokens, model.hidden, *norms, inputs.widths.element, split, dropout=kernels.dropout)
        if inputs.keeps_narrow:
            kept = kept + _narrow_inputs(inputs, part, tokens, split)
        if block.structure.sequence_parallel and kernels.inputs == "kept":
            kept = kept + _gathered_inputs(inputs, part, tokens, split)
        if part.mixer is not None:
            kept = kept + mixer_activations(part.kind, part.mixer, tokens, inputs.widths.element, split)
        if part.kind.dense is not None:
            kept = kept + mlp_activations(tokens, part.ffn_hidden, inputs.widths.element, gated=part.kind.dense.gated)
        if part.routed is not None:
            kept = kept + _expert_activations(inputs, part, block)
        if part.kind.side_rank is not None:
            kept = kept + side_activations(model, part.kind, tokens, inputs.widths.element) / split
        if model.residual_streams is not None:
            halves = additions(part.kind)
            kept = kept + stream_mixing_activations(model, halves, tokens, inputs.widths.element) / split
        if model.layer_embedding is not None:
            kept = kept + entry_activations(model, tokens, inputs.widths.element) / split
        if part.mixer is None or part.kind.recurrent:
            return kept
        return kept + score_activations(
            block.micro_batch / block.cp,
            inputs.layer_sequence,
            score_heads(part.kind, part.mixer, fused=kernels.attention != "unfused"),
            inputs.widths.element,
            kernel=kernels.runs(inputs.case.accelerator.family),
            dropout=kernels.dropout,
            recompute="selective" if selective else "none",
        )


def _expert_activations(inputs: TrainingInputs, part: Shard, block: Block) -> Number:
    """Saved activations of a layer's routed experts for one micro-batch."""
    if part.routed is None or inputs.experts is None:
        return 0.0
    tokens = local_tokens(inputs, block) / block.tp
    rows = rows_of(part.routed, tokens, inputs.experts.load)
    kept = expert_activations(part.routed, rows, inputs.widths.element)
    if part.routed.of.latent_dim is not None:
        with term("narrow results"):
            kept = kept + activation_message(tokens, part.routed.hidden, inputs.widths.element)
    if not inputs.keeps_narrow:
        return kept
    inner = narrow_widths(inputs, part.routed.ffn_hidden, gated=part.routed.of.gated)
    sizes = (rows, part.routed.hidden, 1.0, inner)
    with term("experts' inputs kept narrow"):
        narrow = linear_inputs(*sizes, inputs.recipe.operand, 1.0)
    with term("experts' inputs kept wide"):
        return kept + narrow - linear_inputs(*sizes, inputs.widths.element, 1.0)


def _narrow_inputs(inputs: TrainingInputs, part: Shard, tokens: Number, split: Number) -> Number:
    """Additional bytes of inputs saved in the narrow type; the attention output is saved both wide and narrow."""
    halves, hidden = additions(part.kind), inputs.model.hidden
    own = part.kind.attention
    out = 0.0 if part.mixer is None else part.mixer.heads * (part.mixer.head_dim if own is None else own.value_width)
    inner = part.ffn_hidden
    if part.kind.dense is not None:
        inner = narrow_widths(inputs, part.ffn_hidden, gated=part.kind.dense.gated)
    with term("inputs kept narrow"):
        narrow = linear_inputs(tokens, hidden, halves, inner + out, inputs.recipe.operand, split)
    with term("inputs kept wide"):
        wide = linear_inputs(tokens, hidden, halves, inner, inputs.widths.element, split)
    return narrow - wide


def _gathered_inputs(inputs: TrainingInputs, part: Shard, tokens: Number, split: Number) -> Number:
    """Additional bytes of a layer's inputs that are saved gathered instead of sharded."""
    message = activation_message(tokens, inputs.model.hidden, inputs.widths.element)
    with term("gathered inputs kept"):
        return exchanges(part.kind) * (message - message / split)


def mean_activations(inputs: TrainingInputs, block: Block, part: Shard, layers: Number) -> Number:
    """Saved bytes of a layer on a rank, averaged over its recomputed layers and the others."""
    kept = layer_activations(inputs, block, part)
    if not partial(block.structure):
        return kept
    plain = block.under(replace(block.structure, recompute="none"))
    with term("layers not recomputed"):
        return mixed(reached(block, layers), kept, layer_activations(inputs, plain, part))


def offloaded_activations(inputs: TrainingInputs, block: Block, held: StageLayers) -> Number:
    """Bytes of a micro-batch that the layers of a rank offload to the host, for the rank that offloads most."""
    if "activations" not in block.structure.offload:
        return 0.0
    totals: list[Number] = []
    for position in held.positions:
        total: Number = 0.0
        layers = held.fullest if held.leading is None else held.held(position)
        for kind in inputs.model.layers:
            part = shard(inputs.model, kind, block.tp, block.ep, block.etp)
            own = held.of_kind(inputs.model, kind, layers, position)
            total = total + own * mean_activations(inputs, block, part, layers)
        totals.append(total)
    return offloaded_share(inputs, block) * largest(*totals)
