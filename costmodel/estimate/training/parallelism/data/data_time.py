"""What replicas and shards of a plan move in a step beside its compute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.equations.network.overlap import passes_beside
from costmodel.equations.parallelism.counts import divided, repeated
from costmodel.estimate.machine.process_groups import Groups
from costmodel.estimate.shared.memoize import once
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.data.data_traffic import (
    DataTraffic,
    Units,
    replicated_traffic,
    sharded_gradients,
    sharded_weights,
)
from costmodel.estimate.training.parallelism.expert.expert_data_traffic import expert_data_traffic, together
from costmodel.estimate.training.parallelism.expert.expert_traffic import expert_groups
from costmodel.estimate.training.parallelism.pipeline.layer_split import StageLayers
from costmodel.estimate.training.parallelism.pipeline.mirrored_stages import mirrored
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import summed_once
from costmodel.estimate.training.stage_parameters import Fullest, StageParameters
from costmodel.estimate.training.time.stage_time import Stages
from costmodel.estimate.training.training_inputs import Setting
from costmodel.ground.equation import Number, term


def data_traffic(
    setting: Setting,
    block: Block,
    placed: Groups,
    parameters: StageParameters,
    own: StageParameters,
    work: Stages,
    micro_batches: Number,
) -> DataTraffic:
    """Data-parallel traffic: of the weights where they are gathered, of what is trained where gradients are summed."""
    zero, placed = block.structure.zero, _holders(setting, block, placed)
    most = fullest(setting, block, own)
    units, reduced = _units(setting, block, parameters, own, work.held, micro_batches)
    forward, backward = work.layer.forward.total, work.layer.backward.total
    if zero < 2:
        beside = _passing(setting, block, work, micro_batches)
        data = replicated_traffic(setting, block, placed, most.held, most.ends, beside)
    elif zero == 3 or setting.stack.states.sharded_master:
        beside = forward, backward
        data = sharded_weights(setting, block, placed, units, reduced, beside)
    else:
        beside = work.fullest[0], backward
        data = sharded_gradients(setting, block, placed, most.held, most.ends, reduced, beside)
    if setting.experts is None:
        return data
    edp = mirrored(setting, block, expert_groups(setting, block).edp)
    routed = fullest(setting, block, parameters).routed, most.routed
    return together(data, expert_data_traffic(setting, block, placed, edp, *routed, units, beside, data))


@once("schedule")
def fullest(setting: Setting, block: Block, parameters: StageParameters) -> Fullest:
    """Parameters of the rank with most."""
    return parameters.fullest(block)


@once("order", "schedule")
def _holders(setting: Setting, block: Block, placed: Groups) -> Groups:
    """The groups, those of data parallelism with all that hold the same weights."""
    return replace(placed, dp=mirrored(setting, block, placed.dp))


@once()
def _passing(setting: Setting, block: Block, work: Stages, micro_batches: Number) -> tuple[Number, Number]:
    """Forward and backward time that runs beside what is sent once a step."""
    passes = _passes(setting, block, micro_batches)
    forward, backward = work.fullest
    return repeated(passes, forward), repeated(passes, backward)


@once()
def _passes(setting: Setting, block: Block, micro_batches: Number) -> Number:
    with term("passes beside"):
        return passes_beside(block.pp, micro_batches, block.vpp)


@once()
def _units(
    setting: Setting,
    block: Block,
    parameters: StageParameters,
    own: StageParameters,
    layers: StageLayers,
    micro_batches: Number,
) -> tuple[Units, Units]:
    """What is sharded layer by layer, as it is gathered and as its gradients are reduced."""
    table = np.maximum(parameters.embedding, parameters.head)
    tables = divided(parameters.fuller_end(block.pp), table)
    once = summed_once(setting, block)
    units = Units(parameters.layer, table, layers.fullest, tables, micro_batches, once)
    if own is parameters:
        return units, units
    ahead = 0.0 if setting.model.prediction is None else 1.0
    reduced = replace(units, layer=own.layer, table=own.head, tables=ahead)
    return replace(units, adapters=own.layer), reduced
