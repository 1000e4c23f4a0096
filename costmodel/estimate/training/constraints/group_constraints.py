"""Constraints of plans on nodes of several kinds."""

from __future__ import annotations

import numpy as np

from costmodel.equations.parallelism.counts import data_parallel_degree, world_size
from costmodel.estimate.shared.masks import Mask, all_if, leaves_rest, none
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import LOOPED
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term

PLAIN = ("gpipe", "1f1b")  # schedules whose stages may be unequal


def replicas_of(inputs: TrainingInputs, block: Block, nodes: Number) -> Number:
    """Data-parallel replicas on so many nodes."""
    with term("replicas of a group"):
        ranks = world_size(nodes, inputs.case.node.accelerators)
        return data_parallel_degree(ranks, block.tp, block.cp, block.pp)


def stages_of(inputs: TrainingInputs, block: Block, nodes: Number) -> Number:
    """Stages of a pipeline over all groups that lie on so many nodes."""
    with term("stages of a group"):
        return nodes / inputs.case.cluster.nodes * block.pp


def _not_over_groups(inputs: TrainingInputs, block: Block) -> Mask:
    """Pipelines whose stages do not lie over the groups in their order, each on one kind."""
    structure, wrong = block.structure, none(block)
    for nodes, _ in inputs.groups:
        wrong = wrong | leaves_rest(stages_of(inputs, block, nodes), 1.0)
    stated = structure.split != "fitting" or structure.schedule not in PLAIN
    return wrong | all_if(block, stated or structure.order == "tp-cp-pp-dp" or inputs.model.layers[0].leading)


def spans_kinds(inputs: TrainingInputs, block: Block) -> Mask:
    """Replicas that lie on nodes of two kinds, and what ties replicas together in each micro-batch."""
    if not inputs.groups:
        return none(block)
    if block.structure.shares == "stages":
        return _not_over_groups(inputs, block)
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
