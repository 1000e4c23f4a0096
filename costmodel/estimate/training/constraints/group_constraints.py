"""Constraints of plans on nodes of several kinds."""

from __future__ import annotations

import numpy as np

from costmodel.equations.parallelism.counts import data_parallel_degree, world_size
from costmodel.estimate.shared.masks import Mask, all_if, leaves_rest, none
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import LOOPED
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term


def replicas_of(inputs: TrainingInputs, block: Block, nodes: Number) -> Number:
    """Data-parallel replicas on so many nodes."""
    with term("replicas of a group"):
        ranks = world_size(nodes, inputs.case.node.accelerators)
        return data_parallel_degree(ranks, block.tp, block.cp, block.pp)


def spans_kinds(inputs: TrainingInputs, block: Block) -> Mask:
    """Replicas that lie on nodes of two kinds, and what ties replicas together in each micro-batch."""
    if not inputs.groups:
        return none(block)
    wrong: Mask = np.asarray(block.ep > 1)
    for nodes, _ in inputs.groups:
        wrong = wrong | leaves_rest(replicas_of(inputs, block, nodes), 1.0)
    structure, states = block.structure, inputs.stack.states
    sharded = structure.zero >= 2 or (structure.zero >= 1 and states.sharded_master)
    uneven = structure.shares == "proportional" and (sharded or structure.schedule in LOOPED)
    return wrong | all_if(block, uneven or structure.order == "tp-cp-pp-dp")


def shares_without_groups(inputs: TrainingInputs, block: Block) -> Mask:
    """Shares of a job whose nodes are all of one kind."""
    return all_if(block, not inputs.groups and block.structure.shares != "proportional")
