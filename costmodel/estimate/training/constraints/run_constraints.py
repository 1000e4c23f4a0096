"""Constraints on a whole run: ways to continue after an interruption, and power caps."""

from __future__ import annotations

import numpy as np

from costmodel.estimate.machine.clock_throttling import cap_over_rating
from costmodel.estimate.machine.price import servers_of
from costmodel.estimate.shared.masks import Mask, all_if, none
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.failed_node import continues, most_replicas_lost, whole_replicas
from costmodel.estimate.training.training_inputs import TrainingInputs

LEAST_CAP = 0.7  # of the rating; under it power no longer falls with the cube of the clock


def nothing_can_leave(inputs: TrainingInputs, block: Block) -> Mask:
    """Elastic runs in which a failed node leaves no replica of all states."""
    if inputs.run is None or inputs.run.elastic is None:
        return none(block)
    return np.asarray(whole_replicas(block) <= most_replicas_lost(inputs, block))


def not_resharded(inputs: TrainingInputs, block: Block) -> Mask:
    """Ranks after an interruption that are not whole replicas on the whole nodes that are left."""
    if inputs.run is None or inputs.run.restart.ranks is None:
        return none(block)
    return ~continues(inputs, block, inputs.run.restart.ranks)


def idle_cap(inputs: TrainingInputs) -> bool:
    """Whether a cap on power has no effect."""
    return 1 <= cap_over_rating(inputs.case) < np.inf


def deep_cap(inputs: TrainingInputs) -> bool:
    """Whether a cap on power is lower than the law of its effect holds."""
    return cap_over_rating(inputs.case) < LEAST_CAP


def price_without_servers(inputs: TrainingInputs, block: Block) -> Mask:
    """A price of servers where none sums gradients."""
    stated = inputs.case.scenario.assume.server_price is not None
    return all_if(block, stated and not servers_of(block.structure.sync))
