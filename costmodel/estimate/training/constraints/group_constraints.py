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
    """Data-parallel replicas on this number of nodes."""
    with term("replicas of a group"):
        ranks = world_size(nodes, inputs.case.node.accelerators)
        return data_parallel_degree(ranks, block.tp, block.cp, block.pp)


def stages_of(inputs: TrainingInputs, block: Block, nodes: Number) -> Number:
    """Pipeline stages on this number of nodes, if the pipeline spans all groups."""
    with term("stages of a group"):
        return nodes / inputs.case.cluster.nodes * block.pp


def _not_over_groups(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows whose pipeline stages do not each lie on one kind of node, in the order of the groups."""
    structure, wrong = block.structure, none(block)
    for nodes, _ in inputs.groups:
        wrong = wrong | leaves_rest(stages_of(inputs, block, nodes), 1.0)
    stated = structure.split != "fitting" or structure.schedule not in PLAIN
    return wrong | all_if(block, stated or structure.order == "tp-cp-pp-dp" or inputs.model.layers[0].leading)


def spans_kinds(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with replicas on two kinds of nodes, or with unequal replicas that synchronise in each micro-batch."""
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
    """Rows with unequal shares in a job with only one kind of node."""
    return all_if(block, not inputs.groups and block.structure.shares != "proportional")
