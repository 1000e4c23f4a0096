"""Constraints on what tensor parallelism shards, and on layers that a pipeline must not separate."""

from __future__ import annotations

from costmodel.estimate.shared.masks import Mask, any_of, leaves_rest, none
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.training_inputs import TrainingInputs


def heads(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows that would split a head, or a channel that counts as one."""
    return any_of(leaves_rest(heads, block.tp) for kind in inputs.model.cut_kinds for heads in kind.head_counts)


def kv_heads(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where some ranks would have more key and value heads than others."""
    counts = {kind.attention.kv_heads for kind in inputs.model.kinds if kind.attention is not None}
    return any_of(leaves_rest(kv_heads, block.tp) & leaves_rest(block.tp, kv_heads) for kv_heads in counts)


def adapters(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where the inner width of an adapter is sharded and not divisible."""
    tuning = inputs.tuning
    if tuning is None or not inputs.stack.split_adapters:
        return none(block)
    found = leaves_rest(tuning.rank, block.tp)
    return found | leaves_rest(tuning.rank, block.etp) if tuning.experts else found


def widths(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows that would split the stream or an MLP unevenly."""
    widths = {
        inputs.model.hidden,
        *(kind.dense.ffn_hidden for kind in inputs.model.cut_kinds if kind.dense is not None),
    }
    return any_of(leaves_rest(width, block.tp) for width in widths)


def tied_layers(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows whose pipeline would part layers from what they read of others."""
    return (block.pp > 1) & inputs.model.on_one_stage
