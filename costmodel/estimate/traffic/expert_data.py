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
    units: Units,
    beside: DataTraffic,
) -> DataTraffic:
    """The same collectives over other ranks; they hide behind the compute that the rest's traffic leaves."""
    zero, held, placed = block.structure.zero, parameters.routed_held, replace(placed, dp=edp)
    with term("experts"):
        if zero < 2:
            first, last = beside.transfers[0].total_time, beside.transfers[-1].total_time
            forward = np.maximum(whole(units, units.forward) - last, 0.0)
            backward = np.maximum(whole(units, units.backward) - first, 0.0)
            return replicated_traffic(setting, block, placed, held, 0.0, forward, backward)
        taken = beside.transfers[0].time
        routed = replace(
            units,
            layer=divided(held, units.layers),
            table=0.0,
            tables=0.0,
            forward=np.maximum(units.forward - taken, 0.0),
            backward=np.maximum(units.backward - taken, 0.0),
        )
        if zero == 3 or setting.stack.states.sharded_master:
            return sharded_weights(setting, placed, routed, routed, gathered_again=zero == 3)
        return sharded_gradients(setting, placed, held, 0.0, routed, whole(routed, routed.forward))


def together(one: DataTraffic, other: DataTraffic) -> DataTraffic:
    """Both one after the other."""
    return DataTraffic(
        one.exposed + other.exposed,
        one.layer_forward + other.layer_forward,
        one.layer_backward + other.layer_backward,
        (*one.transfers, *other.transfers),
    )


def whole(units: Units, layer: Number) -> Number:
    """All layers of a stage from one."""
    return repeated(units.layers, layer)
