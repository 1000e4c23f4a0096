"""Saved activations, and offloading of activations and states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.kernels.memory_traffic import linear_inputs
from costmodel.equations.memory.activations import op_level_activations, score_activations, stream_activations
from costmodel.equations.memory.offload import (
    host_update_time,
    host_update_traffic,
    link_time,
    paged_bytes,
    pinned_bytes,
)
from costmodel.equations.memory.states import gradient_bytes, gradient_traffic
from costmodel.equations.network.collectives import activation_message
from costmodel.equations.network.overlap import exposed_time
from costmodel.equations.parallelism.recompute import activation_output_bytes, mixed
from costmodel.equations.run.economics import share
from costmodel.estimate.model.mixers.mixing_half import mixer_activations, score_heads
from costmodel.estimate.model.shards import (
    Shard,
    entry_activations,
    layer_count,
    residual_additions,
    shard,
    side_activations,
    stream_mixing_activations,
    stream_width,
    tensor_parallel_exchanges,
)
from costmodel.estimate.shared.plan_batch import Block, largest
from costmodel.estimate.training.parallelism.expert import expert_data
from costmodel.estimate.training.parallelism.pipeline import StageLayers, summed_once
from costmodel.estimate.training.recompute import (
    checkpoint_bytes_per_layer,
    fused_output_bytes,
    is_partial_recompute,
    narrow_input_width,
    recompute_saving_bytes,
    recompute_way,
    recomputed_share_of_rank,
)
from costmodel.estimate.training.stage_parameters import (
    StageParameters,
    adapter_activation_bytes,
    expert_adapter_activation_bytes,
    local_tokens,
    unneeded_expert_input_bytes,
)
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

WINDOW = 2.0  # layers on the device at least: one in use, one in flight
PAGE = 2_097_152.0  # bytes (2 MiB) that unified memory moves at once (CUDA)
BOTH_DIRECTIONS = 2.0
BUCKETS = 2.0  # buckets of gradients on their way to the host


def updated_shard(inputs: TrainingInputs, block: Block, held: Number, routed: Number) -> Number:
    """Parameters that a rank updates; routed experts are sharded over their own ranks."""
    if not block.structure.zero:
        return held if inputs.experts is None else held + routed
    mine = held / block.shards
    return mine if inputs.experts is None else mine + routed / expert_data(inputs, block)


def states_after_offload(
    inputs: TrainingInputs, block: Block, column: dict[str, Number], updated: Number
) -> tuple[dict[str, Number], Number]:
    """The states of a stage that stay on the device, and the bytes that the host stores for the rank."""
    structure, offloading = block.structure, inputs.stack.offload
    column = dict(column)
    host: Number = 0.0
    buffers: Number = 0.0
    if "optimizer" in structure.offload:
        host = column["optimizer"]
        with term("gradients on the host"):
            copies = 0.0 if offloading is None else offloading.copies or 0.0
            buffers = gradient_traffic(updated, inputs.widths.gradient + copies)
        column["optimizer"] = 0.0
        pieces = BUCKETS * inputs.bucket(block.shards, inputs.widths.reduced)
        whole = column["gradients"]
        column["gradients"] = np.where(_reduces_gradients_late(inputs, block), whole, np.minimum(whole, pieces))
    if "parameters" in structure.offload:
        buffers = buffers + column["weights"]
        column["weights"] = 0.0
    if offloading is not None and offloading.pinned and np.any(buffers):
        with term("pinned buffers"):
            buffers = pinned_bytes(buffers)
    return column, host + buffers


def _reduces_gradients_late(inputs: TrainingInputs, block: Block) -> NDArray[np.bool_]:
    """Rows whose gradients stay on the device until the last micro-batch, because they are reduced only then."""
    offloading = inputs.stack.offload
    kept = offloading is None or not offloading.gradients or block.structure.zero < 2
    return kept | summed_once(inputs, block)


def gradients_in_memory(inputs: TrainingInputs, block: Block, parameters: StageParameters, gradients: Number) -> Number:
    """Gradients of a stage, or of its largest layer if backward updates each layer at once."""
    if not inputs.optimizer.in_backward:
        return gradients
    with term("gradients of one layer"):
        ends = np.maximum(parameters.embedding, parameters.head)
        largest = np.maximum(parameters.largest + parameters.routed_layer, ends)
        zero = block.structure.zero
        return np.minimum(gradients, gradient_bytes(largest, inputs.widths.gradient, block.shards, zero=zero))


def paged_states(inputs: TrainingInputs, needed: Number, states: Number) -> Number:
    """Bytes of optimizer states of a stage that move to the host, since the device is full."""
    if not inputs.optimizer.paged:
        return 0.0
    with term("pages on the host"):
        return paged_bytes(needed, inputs.usable_memory, states, PAGE)


def page_time(inputs: TrainingInputs, paged: Number) -> Number:
    """Time of a step to load the paged states and to store them again."""
    with term("pages in and out"):
        return _host_link_seconds(inputs, gradient_traffic(paged, BOTH_DIRECTIONS))


def activations_after_offload(
    inputs: TrainingInputs, block: Block, kept: Number, layer: Number, loss: Number
) -> tuple[Number, Number]:
    """Activations of a stage's layers that stay on the device, and those offloaded to the host.

    In addition one layer is in flight, which is gone when the loss starts; at least one layer is in use and one in
    flight.
    """
    if "activations" not in block.structure.offload:
        return kept, 0.0
    with term("activations on the host"):
        gone = offloaded_share(inputs, block) * kept
        flying = np.maximum(layer - loss, 0.0)
        stays = np.minimum(kept, np.maximum(kept - gone + flying, WINDOW * layer))
    return stays, kept - stays


def offloaded_share(inputs: TrainingInputs, block: Block) -> Number:
    """Share of the layers whose activations are offloaded."""
    chosen = block.structure.offload_layers
    if chosen is None:
        return 1.0
    layers = layer_count(inputs.model)
    return share(min(chosen, layers), layers)


def used_host_capacity(
    inputs: TrainingInputs, block: Block, states: Number, activations: Number
) -> tuple[Number, Number]:
    """Bytes of a node's ranks on host memory and drives, and their share of the capacity of the fuller one."""
    host = inputs.host
    with term("on the host"):
        both = host.ranks * (states + activations)
        if block.structure.offload_to == "cpu":
            return both, share(both, host.capacity)
        drives = share(host.ranks * states, host.drives)
        return both, np.maximum(drives, share(host.ranks * activations, host.capacity))


@record
class OffloadTraffic:
    """What a rank moves to and from the host in a step.

    It has the rank's shards of the weights and of updated parameters, the activation bytes of a micro-batch, and the
    compute seconds of a micro-batch that can hide them, forward and backward.
    """

    held: Number
    updated: Number
    activations: Number
    forward: Number
    backward: Number


@record
class OffloadTime:
    """Seconds of offload in a step.

    Exposed traffic on the host link, transfers after the update, and the update itself.
    """

    beside: Number
    after: Number
    update: Number | None


def offload_time(inputs: TrainingInputs, block: Block, passing: OffloadTraffic, micro_batches: Number) -> OffloadTime:
    """Time of offload; host traffic hides behind the compute of its micro-batch, the update is not hidden."""
    structure, offloading = block.structure, inputs.stack.offload
    if not structure.offload or offloading is None:
        return OffloadTime(0.0, 0.0, None)
    hideable = offloading.overlap
    updated = passing.updated
    fetched: Number = 0.0
    down: Number = 0.0
    tail: Number = 0.0
    update: Number | None = None
    if "parameters" in structure.offload:
        with term("weights from the host"):
            fetched = _fetch_seconds(inputs, block, gradient_traffic(passing.held, inputs.stack.states.weights))
    if "optimizer" in structure.offload:
        with term("gradients to the host"):
            down = _host_link_seconds(inputs, gradient_traffic(updated, inputs.widths.gradient))
        update = _host_update_seconds(inputs, block, updated)
        tail = _exposed_weight_return(inputs, block, updated, update)
        if offloading.early:
            with term("update beside backward"):
                update = exposed_time(update, passing.backward, hideable, 0.0)
        late = _reduces_gradients_late(inputs, block)
        tail, down = tail + np.where(late, down, 0.0), np.where(late, 0.0, down)
    elif "parameters" in structure.offload:
        with term("updated weights to the host"):
            tail = _host_link_seconds(inputs, gradient_traffic(updated, inputs.stack.states.compute))
    with term("activations over the link"):
        saved = _host_link_seconds(inputs, passing.activations)
    with term("offload forward"):
        forward = np.maximum(
            exposed_time(fetched, passing.forward, hideable, 0.0), exposed_time(saved, passing.forward, hideable, 0.0)
        )
    with term("offload backward"):
        backward = np.maximum(
            exposed_time(fetched + saved, passing.backward, hideable, 0.0),
            exposed_time(down, passing.backward, hideable, 0.0),
        )
    return OffloadTime(micro_batches * (forward + backward), tail, update)


def _host_link_seconds(inputs: TrainingInputs, nbytes: Number) -> Number:
    """Time [s] of a transfer over the host link."""
    return link_time(nbytes, inputs.host.link, inputs.host.link_share)


def _fetch_seconds(inputs: TrainingInputs, block: Block, nbytes: Number) -> Number:
    """Transfer over the host link, limited by a rank's share of the drives."""
    host = inputs.host
    if block.structure.offload_to == "cpu":
        return _host_link_seconds(inputs, nbytes)
    return np.maximum(_host_link_seconds(inputs, nbytes), link_time(nbytes, host.read / host.ranks, 1.0))


def _host_update_seconds(inputs: TrainingInputs, block: Block, updated: Number) -> Number:
    """The optimizer step on the host; states on drives are read and written at the same time."""
    host, states = inputs.host, inputs.stack.states
    with term("update on the host"):
        master = states.weights if states.sharded_master else states.master
        state = master + inputs.moments
        copies = None if inputs.stack.offload is None else inputs.stack.offload.copies
        wide = max(inputs.widths.gradient, copies or 0.0)
        nbytes = host_update_traffic(updated, wide, state, states.compute)
        fit = host.update
        time = host_update_time(nbytes, host.ranks, host.bandwidth, host.update_share, updated, host.cores, fit.core)
        if block.structure.offload_to == "cpu":
            return time
        stored = gradient_traffic(updated, state)
        drives = link_time(stored, host.read / host.ranks, 1.0)
        return np.maximum(time, drives + link_time(stored, host.write / host.ranks, 1.0))


def _exposed_weight_return(inputs: TrainingInputs, block: Block, updated: Number, update: Number) -> Number:
    """Seconds to send updated weights back to the device, minus the part hidden by the update on the host."""
    if "parameters" in block.structure.offload or inputs.stack.offload is None:
        return 0.0
    with term("weights back"):
        up = _host_link_seconds(inputs, gradient_traffic(updated, inputs.stack.states.compute))
        return exposed_time(up, update, inputs.stack.offload.overlap, 0.0)


def layer_activations(inputs: TrainingInputs, block: Block, part: Shard) -> Number:
    """Bytes saved in one layer for the backward pass of one micro-batch."""
    structure, model = block.structure, inputs.model
    split = block.sequence_ranks
    tokens = local_tokens(inputs, block)
    mixer = part.mixer
    what = recompute_way(inputs, structure)
    if what == "layer":
        return checkpoint_bytes_per_layer(inputs, structure, tokens, split)
    if what == "operations":
        sizes = (mixer.heads, mixer.kv_heads, mixer.head_dim) if mixer is not None else (0.0, 0.0, 0.0)
        kept = op_level_activations(tokens, stream_width(model), *sizes, part.ffn_hidden, inputs.widths.element, split)
        if part.routed is not None:
            kept = kept + _expert_activations(inputs, part, block) / 2.0
        kept = np.minimum(kept, activations_without_recompute(inputs, block, part, selective=False))
        return kept + adapter_activation_bytes(inputs, part, tokens) + _expert_adapter_bytes(inputs, block, part)
    whole = activations_without_recompute(inputs, block, part, selective=what == "core")
    whole = whole + adapter_activation_bytes(inputs, part, tokens) + _expert_adapter_bytes(inputs, block, part)
    if inputs.stack.kernels.compiled:
        whole = whole - fused_output_bytes(inputs, part, tokens, split)
    if what != "modules" and inputs.tuning is None:
        return whole
    return whole - dropped_bytes(inputs, block, part)


def dropped_bytes(inputs: TrainingInputs, block: Block, part: Shard) -> Number:
    """Bytes of a layer that named recompute modules and frozen weights do not save."""
    split = block.sequence_ranks
    sizes = (block.micro_batch / block.cp, local_tokens(inputs, block), split)
    spared = recompute_saving_bytes(inputs, block.structure, part, sizes)
    return spared if part.routed is None else spared + _dropped_expert_bytes(inputs, block, part)


def _expert_adapter_bytes(inputs: TrainingInputs, block: Block, part: Shard) -> Number:
    """Saved bytes between the thin matrices of routed experts' adapters; 0 if all of the experts are recomputed."""
    if inputs.tuning is None or part.routed is None or inputs.experts is None:
        return 0.0
    if "moe" in (block.structure.recompute_modules or ()):
        return 0.0
    rows = part.routed.rows(local_tokens(inputs, block) / block.tp, inputs.experts.load)
    return expert_adapter_activation_bytes(inputs, part.routed, rows)


def _dropped_expert_bytes(inputs: TrainingInputs, block: Block, part: Shard) -> Number:
    """Bytes of routed experts that are not saved, because of recompute modules and frozen weights."""
    modules = block.structure.recompute_modules or ()
    if "moe" in modules:
        with term("dropped experts"):
            return _expert_activations(inputs, part, block)
    if ("moe-activation" not in modules and inputs.tuning is None) or part.routed is None or inputs.experts is None:
        return 0.0
    width = inputs.recipe.operand if inputs.keeps_narrow else inputs.widths.element
    rows = part.routed.rows(local_tokens(inputs, block) / block.tp, inputs.experts.load)
    spared: Number = 0.0
    with term("dropped experts"):
        if "moe-activation" in modules:
            spared = activation_output_bytes(rows, part.routed.each.inner, width)
        if inputs.tuning is not None:
            spared = spared + unneeded_expert_input_bytes(inputs, part.routed, modules, (rows, width))
    return spared


def activations_without_recompute(inputs: TrainingInputs, block: Block, part: Shard, *, selective: bool) -> Number:
    """Bytes saved in one layer without recompute; if `selective`, with recompute of the attention core."""
    kernels, model = inputs.stack.kernels, inputs.model
    split = block.sequence_ranks
    tokens = local_tokens(inputs, block)
    with term("layer activations"):
        norms = (part.kind.norms, residual_additions(part.kind))
        kept = stream_activations(tokens, model.hidden, *norms, inputs.widths.element, split, dropout=kernels.dropout)
        if inputs.keeps_narrow:
            kept = kept + _narrow_input_bytes(inputs, part, tokens, split)
        if block.structure.sequence_parallel and kernels.inputs == "kept":
            kept = kept + _gathered_input_bytes(inputs, part, tokens, split)
        if part.mixer is not None:
            kept = kept + mixer_activations(part.kind, part.mixer, tokens, inputs.widths.element, split)
        if part.dense is not None:
            kept = kept + part.dense.activations(tokens, inputs.widths.element)
        if part.routed is not None:
            kept = kept + _expert_activations(inputs, part, block)
        if part.kind.side_rank is not None:
            kept = kept + side_activations(model, part.kind, tokens, inputs.widths.element) / split
        if model.residual_streams is not None:
            halves = residual_additions(part.kind)
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
    rows = part.routed.rows(tokens, inputs.experts.load)
    kept = part.routed.activations(rows, inputs.widths.element)
    if part.routed.of.latent_dim is not None:
        with term("narrow results"):
            kept = kept + activation_message(tokens, part.routed.hidden, inputs.widths.element)
    if not inputs.keeps_narrow:
        return kept
    inner = narrow_input_width(inputs, part.routed.each)
    sizes = (rows, part.routed.hidden, 1.0, inner)
    with term("experts' inputs kept narrow"):
        narrow = linear_inputs(*sizes, inputs.recipe.operand, 1.0)
    with term("experts' inputs kept wide"):
        return kept + narrow - linear_inputs(*sizes, inputs.widths.element, 1.0)


def _narrow_input_bytes(inputs: TrainingInputs, part: Shard, tokens: Number, split: Number) -> Number:
    """Additional bytes of inputs saved in the narrow type; the attention output is saved both wide and narrow."""
    halves, hidden = residual_additions(part.kind), inputs.model.hidden
    own = part.kind.attention
    out = 0.0 if part.mixer is None else part.mixer.heads * (part.mixer.head_dim if own is None else own.value_width)
    inner = 0.0 if part.dense is None else narrow_input_width(inputs, part.dense)
    with term("inputs kept narrow"):
        narrow = linear_inputs(tokens, hidden, halves, inner + out, inputs.recipe.operand, split)
    with term("inputs kept wide"):
        wide = linear_inputs(tokens, hidden, halves, inner, inputs.widths.element, split)
    return narrow - wide


def _gathered_input_bytes(inputs: TrainingInputs, part: Shard, tokens: Number, split: Number) -> Number:
    """Additional bytes of a layer's inputs that are saved gathered instead of sharded."""
    message = activation_message(tokens, inputs.model.hidden, inputs.widths.element)
    with term("gathered inputs kept"):
        return tensor_parallel_exchanges(part.kind) * (message - message / split)


def mean_activations(inputs: TrainingInputs, block: Block, part: Shard, layers: Number) -> Number:
    """Saved bytes of a layer on a rank, averaged over its recomputed layers and the others."""
    kept = layer_activations(inputs, block, part)
    if not is_partial_recompute(block.structure):
        return kept
    plain = block.under(replace(block.structure, recompute="none"))
    with term("layers not recomputed"):
        return mixed(recomputed_share_of_rank(block, layers), kept, layer_activations(inputs, plain, part))


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
