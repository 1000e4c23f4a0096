"""Data-parallel traffic of routed experts, over the ranks that hold the same experts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.estimate.machine.process_groups import Group, Groups
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.data.data_traffic import (
    DataTraffic,
    FsdpUnits,
    replicated_traffic,
    sharded_gradients,
    sharded_weights,
)
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term


def expert_data_traffic(
    inputs: TrainingInputs,
    block: Block,
    placed: Groups,
    edp: Group,
    held: Number,
    trained: Number,
    units: FsdpUnits,
    compute: tuple[Number, Number],
    rest: DataTraffic,
) -> DataTraffic:
    """Collectives of the trained parameters of experts. They hide behind the compute that other data-parallel traffic
    leaves: of a layer if they are moved with each layer, else of the whole pass.
    """
    zero, placed = block.structure.zero, replace(placed, dp=edp)
    beside = np.maximum(compute[0] - rest.taken[0], 0.0), np.maximum(compute[1] - rest.taken[1], 0.0)
    with term("experts"):
        if zero < 2:
            return replicated_traffic(inputs, block, placed, trained, 0.0, beside)
        routed = replace(units, layer=held / units.layers, table=0.0, tables=0.0, adapters=0.0)
        reduced = routed
        if trained is not held:
            reduced = replace(routed, layer=trained / units.layers)
            routed = replace(routed, adapters=reduced.layer)
        if zero == 3 or inputs.stack.states.sharded_master:
            return sharded_weights(inputs, block, placed, routed, reduced, beside)
        return sharded_gradients(inputs, block, placed, trained, 0.0, reduced, beside)


def together(one: DataTraffic, other: DataTraffic) -> DataTraffic:
    """Two transfers, one after the other."""
    return DataTraffic(
        one.exposed + other.exposed,
        one.layer_forward + other.layer_forward,
        one.layer_backward + other.layer_backward,
        (one.taken[0] + other.taken[0], one.taken[1] + other.taken[1]),
        (*one.transfers, *other.transfers),
    )
