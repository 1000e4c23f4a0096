"""Replicas of weights in bidirectional pipelines."""

from __future__ import annotations

import numpy as np

from costmodel.estimate.machine.process_groups import Group, group, merged_group, strides
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import weight_replication
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import term


def replicas_both_ways(inputs: TrainingInputs, block: Block, holders: Group) -> Group:
    """Ranks with the same weights; in a bidirectional pipeline also the ranks of the mirrored stage."""
    if weight_replication(block.structure.schedule) == 1:
        return holders
    with term("mirrored stages"):
        apart = block.pp * strides(block)["pp"] / 2.0
        pair = group(inputs, "mirrored", np.where(block.pp > 1, 2.0, 1.0), apart)
    return merged_group(inputs, holders.name, holders, pair)
