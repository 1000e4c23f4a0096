"""Offload to the host or its drives: bytes moved off the device, and the time of their traffic and update."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.memory.offload import (
    host_update_time,
    host_update_traffic,
    link_time,
    paged_bytes,
    pinned_bytes,
)
from costmodel.equations.memory.states import gradient_bytes, gradient_traffic
from costmodel.equations.network.overlap import exposed_time
from costmodel.equations.run.economics import share
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.expert import expert_data
from costmodel.estimate.training.parallelism.pipeline import summed_once
from costmodel.estimate.training.stage_parameters import StageParameters
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

WINDOW = 2.0  # layers on the device at least: one in use, one in flight
PAGE = 2_097_152.0  # bytes (2 MiB) that unified memory moves at once (CUDA)
BOTH_DIRECTIONS = 2.0
BUCKETS = 2.0  # buckets of gradients on their way to the host


def shard_of(inputs: TrainingInputs, block: Block, held: Number, routed: Number) -> Number:
    """Parameters that a rank updates; routed experts are sharded over their own ranks."""
    if not block.structure.zero:
        return held if inputs.experts is None else held + routed
    mine = held / block.shards
    return mine if inputs.experts is None else mine + routed / expert_data(inputs, block)


def moved_states(
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
        column["gradients"] = np.where(_leaving_late(inputs, block), whole, np.minimum(whole, pieces))
    if "parameters" in structure.offload:
        buffers = buffers + column["weights"]
        column["weights"] = 0.0
    if offloading is not None and offloading.pinned and np.any(buffers):
        with term("pinned buffers"):
            buffers = pinned_bytes(buffers)
    return column, host + buffers


def _leaving_late(inputs: TrainingInputs, block: Block) -> NDArray[np.bool_]:
    """Rows whose gradients stay on the device until the last micro-batch, because they are reduced only then."""
    offloading = inputs.stack.offload
    kept = offloading is None or not offloading.gradients or block.structure.zero < 2
    return kept | summed_once(inputs, block)


def gradients_held(inputs: TrainingInputs, block: Block, parameters: StageParameters, gradients: Number) -> Number:
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
        return paged_bytes(needed, inputs.usable, states, PAGE)


def page_time(inputs: TrainingInputs, paged: Number) -> Number:
    """Time of a step to load the paged states and to store them again."""
    with term("pages in and out"):
        return _link(inputs, gradient_traffic(paged, BOTH_DIRECTIONS))


def moved_activations(
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


def used_capacity(inputs: TrainingInputs, block: Block, states: Number, activations: Number) -> tuple[Number, Number]:
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
    """The offload work of a rank.

    It has the rank's shards of the weights and of updated parameters, the activation bytes of a micro-batch, and the
    compute of a micro-batch that can hide them, forward and backward.
    """

    held: Number
    updated: Number
    activations: Number
    forward: Number
    backward: Number


@record
class OffloadTime:
    """Seconds of offload in a step: exposed host-link traffic, transfers after the update, and the update itself."""

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
            fetched = _fetch(inputs, block, gradient_traffic(passing.held, inputs.stack.states.weights))
    if "optimizer" in structure.offload:
        with term("gradients to the host"):
            down = _link(inputs, gradient_traffic(updated, inputs.widths.gradient))
        update = _update(inputs, block, updated)
        tail = _tail(inputs, block, updated, update)
        if offloading.early:
            with term("update beside backward"):
                update = exposed_time(update, passing.backward, hideable, 0.0)
        late = _leaving_late(inputs, block)
        tail, down = tail + np.where(late, down, 0.0), np.where(late, 0.0, down)
    elif "parameters" in structure.offload:
        with term("updated weights to the host"):
            tail = _link(inputs, gradient_traffic(updated, inputs.stack.states.compute))
    with term("activations over the link"):
        saved = _link(inputs, passing.activations)
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


def _link(inputs: TrainingInputs, nbytes: Number) -> Number:
    return link_time(nbytes, inputs.host.link, inputs.host.link_share)


def _fetch(inputs: TrainingInputs, block: Block, nbytes: Number) -> Number:
    """Transfer over the host link, limited by a rank's share of the drives."""
    host = inputs.host
    if block.structure.offload_to == "cpu":
        return _link(inputs, nbytes)
    return np.maximum(_link(inputs, nbytes), link_time(nbytes, host.read / host.ranks, 1.0))


def _update(inputs: TrainingInputs, block: Block, updated: Number) -> Number:
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


def _tail(inputs: TrainingInputs, block: Block, updated: Number, update: Number) -> Number:
    """Transfer of updated weights to the device, pipelined with the update.

    Weights that live on the host stay there.
    """
    if "parameters" in block.structure.offload or inputs.stack.offload is None:
        return 0.0
    with term("weights back"):
        up = _link(inputs, gradient_traffic(updated, inputs.stack.states.compute))
        return exposed_time(up, update, inputs.stack.offload.overlap, 0.0)
