"""Gradients and weights of routed experts: over the ranks that hold the same experts, beside those of all else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.equation import Number, term
from costmodel.equations.counting import divided, repeated
from costmodel.estimate.block import Block
from costmodel.estimate.setting import Setting
from costmodel.estimate.shapes.work import StageParameters
from costmodel.estimate.traffic.data import (
    DataTraffic,
    Units,
    replicated_traffic,
    sharded_gradients,
    sharded_weights,
)
from costmodel.estimate.traffic.groups import Group, Groups


def expert_data_traffic(
    setting: Setting,
    block: Block,
    placed: Groups,
    edp: Group,
    parameters: StageParameters,
    own: StageParameters,
    units: Units,
    compute: tuple[Number, Number],
    rest: DataTraffic,
) -> DataTraffic:
    """The same collectives over other ranks, of what is trained of the experts; they hide behind the compute that the
    rest's traffic leaves, forward and backward: of a layer where they are moved with each, else of what runs meanwhile.
    """
    zero, placed = block.structure.zero, replace(placed, dp=edp)
    held, trained = parameters.routed_held, own.routed_held
    with term("experts"):
        if zero < 2:
            first, last = rest.transfers[0].total_time, rest.transfers[-1].total_time
            forward = np.maximum(compute[0] - last, 0.0)
            backward = np.maximum(compute[1] - first, 0.0)
            return replicated_traffic(setting, block, placed, trained, 0.0, forward, backward)
        taken = rest.transfers[0].time
        beside = np.maximum(compute[0] - taken, 0.0), np.maximum(compute[1] - taken, 0.0)
        routed = replace(units, layer=divided(held, units.layers), table=0.0, tables=0.0)
        reduced = routed if own is parameters else replace(routed, layer=divided(trained, units.layers))
        if zero == 3 or setting.stack.states.sharded_master:
            return sharded_weights(setting, block, placed, routed, reduced, beside)
        forward = repeated(units.layers, beside[0])
        return sharded_gradients(setting, block, placed, trained, 0.0, reduced, beside[1], forward)


def together(one: DataTraffic, other: DataTraffic) -> DataTraffic:
    """Both one after the other."""
    return DataTraffic(
        one.exposed + other.exposed,
        one.layer_forward + other.layer_forward,
        one.layer_backward + other.layer_backward,
        (*one.transfers, *other.transfers),
    )
