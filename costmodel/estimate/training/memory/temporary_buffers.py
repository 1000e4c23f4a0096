"""Temporary buffers: gathered weights (ZeRO-3, FSDP) and gradients before their reduction."""

from __future__ import annotations

import numpy as np

from costmodel.equations.layers.parameters import table_parameters
from costmodel.equations.memory.states import gathered_bytes, matrices_bytes
from costmodel.estimate.model.shards import matmuls, shard
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import head_holder, holds_embedding_and_head
from costmodel.estimate.training.stage_parameters import StageParameters
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term


def gathered(
    inputs: TrainingInputs, block: Block, parameters: StageParameters, adapters: Number, position: int
) -> Number:
    """Weights of the largest unit that is gathered or unpacked at a time, with its gradients and neighbours."""
    unpacked: Number = 0.0
    if inputs.packed:
        unpacked = inputs.stack.states.compute * (parameters.largest + parameters.routed_layer)
    if inputs.stack.states.cast and inputs.tuning is None:
        unpacked = unpacked + _cast(inputs, block, parameters, position)
    if block.structure.zero != 3:
        return unpacked
    at_first, at_last = holds_embedding_and_head(block.structure.schedule, position)
    ends = (parameters.embedding if at_first else 0.0, parameters.head if at_last else 0.0)
    by_layer = inputs.stack.buckets.gathered is None
    with term("largest unit"):
        whole = _layers(inputs, block, parameters, ends) if by_layer else _matrices(inputs, block, parameters, ends)
    if inputs.tuning is not None:
        with term("adapters"):
            width, ahead = inputs.stack.states.compute, inputs.stack.buckets.prefetch
            shared = gathered_bytes(adapters, width, inputs.widths.reduced, ahead)
            own = matrices_bytes(adapters, adapters, width, inputs.widths.reduced)
            whole = whole + np.where(block.shards > 1, shared, own)
    copied = inputs.stack.states.sharded_master
    return (whole if copied else np.where(block.shards > 1, whole, 0.0)) + unpacked


def _cast(inputs: TrainingInputs, block: Block, parameters: StageParameters, position: int) -> Number:
    """Copies of all weights in the matmul type, head and experts too; an embedding lookup needs no copy."""
    with term("cast weights"):
        layers = parameters.ranks[position] + parameters.routed_ranks[position]
        head = head_holder(block, parameters.head + parameters.routed_head, position)
        return inputs.stack.states.compute * (layers + head)


def _layers(inputs: TrainingInputs, block: Block, parameters: StageParameters, ends: tuple[Number, Number]) -> Number:
    """The layer in use and the prefetched layers, beside the tables of the stage.

    A rank without sharding peers copies a layer only to use it, and reduces its gradient into the stored one. If
    backward does not prefetch, its gradients coexist with one layer's weights.
    """
    stack = inputs.stack
    outer = stack.states.compute * np.where(block.pp == 1, parameters.both, ends[0] + ends[1])
    layer = parameters.largest + parameters.routed_layer
    shared = gathered_bytes(layer, inputs.gathered, _wire(inputs), stack.buckets.prefetch)
    if not stack.overlap.ahead:
        with term("forward"):
            ahead = gathered_bytes(layer, inputs.gathered, 0.0, stack.buckets.prefetch)
        with term("backward"):
            shared = np.maximum(ahead, gathered_bytes(layer, inputs.gathered, _wire(inputs), 0.0))
    with term("copied"):
        own = matrices_bytes(layer, layer, inputs.gathered, _wire(inputs))
    return np.where(block.shards > 1, shared, own) + outer


def _matrices(inputs: TrainingInputs, block: Block, parameters: StageParameters, ends: tuple[Number, Number]) -> Number:
    """Matrices of the layers that the stack gathers at a time, or of one table."""
    held = np.where(block.pp == 1, np.maximum(parameters.embedding, parameters.head), np.maximum(*ends))
    matrix = held
    for kind in inputs.model.layers:
        for each in matmuls(inputs.model, shard(inputs.model, kind, block.tp, block.ep, block.etp)):
            matrix = np.maximum(matrix, table_parameters(each.n, each.k))
    layer = np.minimum(parameters.largest + parameters.routed_layer, inputs.stack.buckets.gathered or 0.0)
    return matrices_bytes(np.maximum(layer, matrix), matrix, inputs.gathered, _wire(inputs))


def _wire(inputs: TrainingInputs) -> float:
    """Bytes of an unsharded gradient before its reduction."""
    return inputs.widths.reduced if inputs.tuning is None else 0.0


def live_buckets(inputs: TrainingInputs, block: Block) -> Number:
    """Gradient buckets, needed only where there are data-parallel peers."""
    size = inputs.stack.buckets.live * inputs.bucket(block.shards, inputs.widths.reduced)
    return np.where((block.dp > 1) | (block.cp > 1), size, 0.0)
