"""Constraints on context parallelism and on shard replicas."""

from __future__ import annotations

from costmodel.documents.schemas.model import Layers
from costmodel.equations.parallelism.counts import kv_heads_per_rank
from costmodel.estimate.shared.masks import Mask, any_of, leaves_rest, none
from costmodel.estimate.shared.plan_batch import Block, single_rank
from costmodel.estimate.training.training_inputs import TrainingInputs


def chunked_sequence(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where the chunks of ranks would be unequal."""
    if single_rank(block.cp):
        return none(block)
    chunks = 1.0 if block.structure.cp_type == "a2a" else 2.0
    return (block.cp > 1) & leaves_rest(inputs.sequence, chunks * block.cp)


def heads_exchanged(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where an exchange of heads for tokens (a2a, and always in mixers that scan) would split a head."""
    found = none(block)
    if single_rank(block.cp):
        return found
    for kind in inputs.model.layers:
        found = found | _not_whole(kind, block)
    return (block.cp > 1) & found


def _not_whole(kind: Layers, block: Block) -> Mask:
    every = block.structure.cp_type == "a2a"
    counts = kind.head_counts if every else kind.scan_heads
    found = any_of(leaves_rest(heads, block.tp * block.cp) for heads in counts)
    if kind.attention is None or not every:
        return found
    return found | leaves_rest(kv_heads_per_rank(kind.attention.kv_heads, block.tp), block.cp)


def context_not_offered(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with a cp_type that the stack does not support."""
    return (block.cp > 1) & (block.structure.cp_type not in inputs.stack.context_parallel)


def indexer_not_gathered(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where a ring or an exchange of heads would hide tokens from an indexer, or entries from their queries."""
    picks = any(kind.needs_all_tokens for kind in inputs.model.layers)
    return (block.cp > 1) & (picks and block.structure.cp_type != "all-gather")


def selective_scans(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows that cut the sequence of a selective scan, which no training software does."""
    return (block.cp > 1) & any(kind.selective_scan is not None for kind in inputs.model.layers)


def shard_replicas(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with shard replicas that do not divide dp, or without sharded states."""
    if single_rank(block.dp_replicate):
        return none(block)
    return (block.dp_replicate > 1) & (leaves_rest(block.dp, block.dp_replicate) | (block.structure.zero == 0))
