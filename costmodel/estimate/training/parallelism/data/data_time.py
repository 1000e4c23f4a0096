"""Data-parallel traffic of a step, with the compute that can hide it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.equations.layers.experts import fetch_operations
from costmodel.equations.memory.states import gradient_traffic
from costmodel.equations.network.overlap import passes_beside
from costmodel.equations.parallelism.recompute import mixed
from costmodel.estimate.machine.collective_time import collective_time
from costmodel.estimate.machine.process_groups import Group, Groups, group, merged_group, strides
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.memoize import memoized
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.data.codecs import warm_up
from costmodel.estimate.training.parallelism.data.compressed_sum import codec_time
from costmodel.estimate.training.parallelism.data.data_traffic import (
    DataTraffic,
    FsdpUnits,
    replicated_traffic,
    sharded_gradients,
    sharded_weights,
)
from costmodel.estimate.training.parallelism.expert.expert_traffic import expert_groups
from costmodel.estimate.training.parallelism.pipeline.layer_split import StageLayers
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import summed_once, weight_replication
from costmodel.estimate.training.stage_parameters import LargestRankParameters, StageParameters
from costmodel.estimate.training.time.stage_time import Stages
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term


def data_traffic(
    inputs: TrainingInputs,
    block: Block,
    placed: Groups,
    parameters: StageParameters,
    own: StageParameters,
    work: Stages,
    micro_batches: Number,
) -> DataTraffic:
    """Data-parallel traffic: weights where they are gathered, and gradients of trained parameters.

    With compression it is the mean over all steps, of which the first are not compressed.
    """
    found = _data_traffic(inputs, block, placed, parameters, own, work, micro_batches)
    if block.structure.compression == "none":
        return found
    most = fullest(inputs, block, own)
    often = 1.0 if block.structure.zero < 2 else np.where(summed_once(inputs, block), 1.0, micro_batches)
    with term("compression"):
        coded = np.where(block.shards > 1, codec_time(inputs, block, most.held + most.routed, often), 0.0)
        found = replace(found, exposed=found.exposed + coded)
    before = warm_up(inputs, block)
    if before == 0:
        return found
    plain = block.under(replace(block.structure, compression="none"))
    return _mixed(before, _data_traffic(inputs, plain, placed, parameters, own, work, micro_batches), found)


def _mixed(part: float, one: DataTraffic, other: DataTraffic) -> DataTraffic:
    """The mean of two kinds of traffic; `part` is the share of steps of the first kind."""
    with term("warm-up"):
        sent = [replace(each, count=part * each.count) for each in one.transfers]
        sent += [replace(each, count=(1.0 - part) * each.count) for each in other.transfers]
        exposed, forward, backward = (
            mixed(part, getattr(one, name), getattr(other, name))
            for name in ("exposed", "layer_forward", "layer_backward")
        )
        taken = mixed(part, one.taken[0], other.taken[0]), mixed(part, one.taken[1], other.taken[1])
    return DataTraffic(exposed, forward, backward, taken, tuple(sent))


def _data_traffic(
    inputs: TrainingInputs,
    block: Block,
    placed: Groups,
    parameters: StageParameters,
    own: StageParameters,
    work: Stages,
    micro_batches: Number,
) -> DataTraffic:
    """Data-parallel traffic of a step, without compression time and warm-up."""
    zero, placed = block.structure.zero, _holders(inputs, block, placed)
    most = fullest(inputs, block, own)
    units, reduced = _units(inputs, block, parameters, own, work.held, micro_batches)
    forward, backward = work.layer.forward.total, work.layer.backward.total
    if zero < 2:
        beside = _passing(inputs, block, work, micro_batches)
        data = replicated_traffic(inputs, block, placed, most.held, most.ends, beside)
    elif zero == 3 or inputs.stack.states.sharded_master:
        beside = forward, backward
        data = sharded_weights(inputs, block, placed, units, reduced, beside)
    else:
        beside = work.fullest[0], backward
        data = sharded_gradients(inputs, block, placed, most.held, most.ends, reduced, beside)
    if inputs.experts is None:
        return data
    edp = replicas_both_ways(inputs, block, expert_groups(inputs, block).edp)
    routed = fullest(inputs, block, parameters).routed, most.routed
    experts = expert_data_traffic(inputs, block, placed, edp, *routed, units, beside, data)
    return together(data, one_by_one(inputs, block, edp, routed[0] / units.layers, experts) if zero == 3 else experts)


def one_by_one(inputs: TrainingInputs, block: Block, edp: Group, held: Number, data: DataTraffic) -> DataTraffic:
    """The traffic if the host gathers matrices of experts one after the other; recompute gathers them again."""
    kernels = inputs.stack.experts
    if kernels is None or kernels.fetched is None or not kernels.looped:
        return data
    kinds = [kind for kind in inputs.model.layers if kind.experts is not None]
    with term("experts one by one"):
        whole = sum(
            kind.count * kind.experts.count * (3.0 if kind.experts.gated else 2.0) for kind in kinds if kind.experts
        )
        matrices = whole / layer_count(inputs.model) / block.ep
        issued = fetch_operations(matrices, kernels.fetched) * inputs.stack.launch.each
        piece = gradient_traffic(held / matrices, inputs.stack.states.compute)
        sent = matrices * collective_time(inputs, piece, edp, "all_gather")
        time = np.where(block.shards > 1, issued + sent, 0.0)
        again = 2.0 if block.structure.recompute == "full" else 1.0
        forward, backward = np.maximum(data.layer_forward, time), np.maximum(data.layer_backward, again * time)
    return replace(data, layer_forward=forward, layer_backward=backward)


@memoized("schedule")
def fullest(inputs: TrainingInputs, block: Block, parameters: StageParameters) -> LargestRankParameters:
    """Parameters of the rank with most parameters."""
    return parameters.fullest(block)


@memoized("order", "schedule")
def _holders(inputs: TrainingInputs, block: Block, placed: Groups) -> Groups:
    """The groups, with data-parallel ranks of both directions in a bidirectional pipeline."""
    return replace(placed, dp=replicas_both_ways(inputs, block, placed.dp))


@memoized()
def _passing(inputs: TrainingInputs, block: Block, work: Stages, micro_batches: Number) -> tuple[Number, Number]:
    """Forward and backward time that can hide traffic once per step."""
    passes = _passes(inputs, block, micro_batches)
    forward, backward = work.fullest
    return passes * forward, passes * backward


@memoized()
def _passes(inputs: TrainingInputs, block: Block, micro_batches: Number) -> Number:
    with term("passes beside"):
        return passes_beside(block.pp, micro_batches, block.vpp)


@memoized()
def _units(
    inputs: TrainingInputs,
    block: Block,
    parameters: StageParameters,
    own: StageParameters,
    layers: StageLayers,
    micro_batches: Number,
) -> tuple[FsdpUnits, FsdpUnits]:
    """FSDP units: parameters that are gathered, and parameters that are reduced, layer by layer."""
    table = np.maximum(parameters.embedding, parameters.head)
    tables = parameters.fuller_end(block.pp) / table
    once = summed_once(inputs, block)
    units = FsdpUnits(parameters.layer, table, layers.fullest, tables, micro_batches, once)
    if own is parameters:
        return units, units
    if inputs.tuning is None:  # a frozen vision tower is gathered, and has no gradients
        return units, replace(units, table=np.maximum(own.embedding, own.head))
    ahead = 0.0 if inputs.model.prediction is None else 1.0
    reduced = replace(units, layer=own.layer, table=own.head, tables=ahead)
    return replace(units, adapters=own.layer), reduced


def replicas_both_ways(inputs: TrainingInputs, block: Block, holders: Group) -> Group:
    """Ranks with the same weights; in a bidirectional pipeline also the ranks of the mirrored stage."""
    if weight_replication(block.structure.schedule) == 1:
        return holders
    with term("mirrored stages"):
        apart = block.pp * strides(block)["pp"] / 2.0
        pair = group(inputs, "mirrored", np.where(block.pp > 1, 2.0, 1.0), apart)
    return merged_group(inputs, holders.name, holders, pair)


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
    """Data-parallel traffic of routed experts.

    It hides behind the compute that other data-parallel traffic leaves: of a layer if experts are moved with each
    layer, else of the whole pass.
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
    """The traffic of two kinds of parameters, one after the other."""
    return DataTraffic(
        one.exposed + other.exposed,
        one.layer_forward + other.layer_forward,
        one.layer_backward + other.layer_backward,
        (one.taken[0] + other.taken[0], one.taken[1] + other.taken[1]),
        (*one.transfers, *other.transfers),
    )
