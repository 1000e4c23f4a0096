"""Constraints on the sharding of experts."""

from __future__ import annotations

import numpy as np

from costmodel.estimate.shared.masks import Mask, leaves_rest, none
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.training_inputs import TrainingInputs


def whole_experts(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where ep does not divide the experts."""
    found = none(block)
    for kind in inputs.model.kinds:
        if kind.experts is not None:
            found = found | leaves_rest(kind.experts.count, block.ep)
    return found


def expert_widths(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where etp does not divide an expert's inner width."""
    found = none(block)
    for kind in inputs.model.kinds:
        if kind.experts is not None:
            found = found | leaves_rest(kind.experts.ffn_hidden, block.etp)
    return found


def expert_ranks(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where the ranks of a stage, within one replica of the shards, are not a whole number of expert groups."""
    ranks = block.dp * block.tp * block.cp
    experts = block.ep * block.etp
    if inputs.experts is not None:
        experts = experts * block.dp_replicate
    return leaves_rest(ranks, experts)


def whole_sequences(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where all ranks of tp would send the same tokens to the experts."""
    if inputs.experts is None or block.structure.sequence_parallel:
        return none(block)
    return np.asarray(block.tp > 1)


def no_experts(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows that shard experts of a model without experts."""
    if inputs.experts is not None:
        return none(block)
    return np.asarray((block.ep > 1) | (block.etp > 1))
