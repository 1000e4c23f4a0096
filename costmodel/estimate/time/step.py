"""The training step: compute, exposed communication, bubble, optimizer."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from costmodel.equation import Number, term
from costmodel.equations.counting import divided, repeated
from costmodel.equations.overlap import passes_beside
from costmodel.equations.precision import quantise_traffic
from costmodel.equations.roofline import stream_time
from costmodel.equations.states import gradient_traffic
from costmodel.equations.traffic import optimizer_traffic
from costmodel.estimate.block import Block
from costmodel.estimate.costs import added
from costmodel.estimate.memory.kept import offloaded_activations
from costmodel.estimate.memory.offload import OffloadTime, Passing, offload_time, shard_of
from costmodel.estimate.once import once
from costmodel.estimate.passes import PASS_TERMS, Both, Pass
from costmodel.estimate.setting import ELEMENT_BYTES, Setting
from costmodel.estimate.shapes.adapters import trained
from costmodel.estimate.shapes.recompute import dispatched_again, reached
from costmodel.estimate.shapes.schedules import BOTH_WAYS, FOLDED, is_plain, stepped
from costmodel.estimate.shapes.split import StageLayers
from costmodel.estimate.shapes.work import StageParameters
from costmodel.estimate.time.ranks import busiest_rank, whole_time
from costmodel.estimate.time.stages import Stages, stages
from costmodel.estimate.traffic.collectives import collective_time
from costmodel.estimate.traffic.data import (
    DataTraffic,
    Units,
    replicated_traffic,
    sharded_gradients,
    sharded_weights,
)
from costmodel.estimate.traffic.expert import expert_data, expert_groups, expert_transfers
from costmodel.estimate.traffic.expert_data import expert_data_traffic, together
from costmodel.estimate.traffic.groups import Groups, Transfer, group, groups, mirrored
from costmodel.estimate.traffic.pipeline import PipelineTraffic, pipeline_traffic


@dataclass(frozen=True)
class TrainingStep:
    """Seconds of a step by what they are spent on, and the transfers behind them."""

    terms: dict[str, Number]
    total: Number
    compute: Number
    transfers: tuple[Transfer, ...]
    ranks: tuple[Both, Both, Both]


def _if_alone(block: Block, end: Both) -> Both:
    """An end's work where one stage holds both ends."""
    return end.each(lambda value: np.where(block.pp == 1, value, 0.0))


def training_step(
    setting: Setting, block: Block, layers: StageLayers, parameters: StageParameters, micro_batches: Number
) -> TrainingStep:
    """Time of an optimizer step and where it goes."""
    placed = groups(setting, block)
    work = stages(setting, block, layers)
    own = trained(setting, block, layers, parameters)
    held = own.fullest(block.pp, block.structure.schedule)
    data = _data(setting, block, placed, parameters, own, work, micro_batches)
    sends = _sends(setting, block, placed, work, micro_batches)
    terms, ranks = _pipelined(setting, block, work, data, micro_batches)
    terms["pp"] = sends.exposed
    terms["dp"] = terms["dp"] + data.exposed
    tied = (_tied_embedding(setting, block, placed, parameters),) if own.tied else ()
    for transfer in tied:
        terms["dp"] = terms["dp"] + transfer.total_time
    offloaded = _offload(setting, block, parameters, own, work, micro_batches)
    terms["offload"], update = offloaded.exposed, offloaded.update
    terms["optimizer"] = _optimizer(setting, block, held, own.routed_held) if update is None else update
    if setting.recipe.narrow:
        terms["memory_bound"] = terms["memory_bound"] + _converted_weights(setting, block, parameters, micro_batches)
    compute = terms["matmul"] + terms["attention"] + terms["memory_bound"]
    within = (*_tensor(setting, block, placed, work, micro_batches), *_context(block, placed, work, micro_batches))
    transfers = (*within, *data.transfers, *tied, *sends.transfers)
    return TrainingStep(terms, added(terms, TERMS), compute, transfers, ranks)


def _pipelined(
    setting: Setting, block: Block, work: Stages, data: DataTraffic, micro_batches: Number
) -> tuple[dict[str, Number], tuple[Both, Both, Both]]:
    """Seconds from the first forward to the last backward: of the busiest rank, and its waiting; and the ranks."""
    held = work.held
    shown = Both(Pass(dp=data.layer_forward), Pass(dp=data.layer_backward))
    middle = (work.each[1] + shown).each(functools.partial(repeated, held.middle))
    at_first, at_last = (
        middle if held.equal else (layer + shown).each(functools.partial(repeated, layers))
        for layer, layers in ((work.each[0], held.first), (work.each[2], held.last))
    )
    on_first, on_last = _ends_of_ranks(block, work)
    first, last = at_first + on_first, at_last + on_last
    with term("pipeline"):
        whole = whole_time(setting, block, micro_batches, (first, middle, last))
    plain = is_plain(block.structure.schedule)
    terms = busiest_rank((first, last) if held.equal and plain else (first, last, middle), micro_batches)
    waiting = np.maximum(whole - added(terms, PASS_TERMS), 0.0)  # rounding may leave a hair below nothing
    terms["bubble"] = np.where(block.pp > 1, waiting, 0.0)
    return terms, (first, middle, last)


def _ends_of_ranks(block: Block, work: Stages) -> tuple[Both, Both]:
    """What embedding and head add on the first rank and on the last."""
    schedule = block.structure.schedule
    if schedule in FOLDED:
        return work.embedding + work.head, Both(Pass(), Pass())
    if schedule in BOTH_WAYS:
        half = (work.embedding + work.head).each(functools.partial(repeated, 0.5))
        return half, half
    return work.embedding + _if_alone(block, work.head), work.head + _if_alone(block, work.embedding)


EXPOSED = ("tp", "cp", "ep", "pp", "dp")
TERMS = ("matmul", "attention", "memory_bound", "launch", *EXPOSED, "bubble", "offload", "optimizer")


def _data(
    setting: Setting,
    block: Block,
    placed: Groups,
    parameters: StageParameters,
    own: StageParameters,
    work: Stages,
    micro_batches: Number,
) -> DataTraffic:
    """Data-parallel traffic: of the weights where they are gathered, of what is trained where gradients are summed."""
    placed = replace(placed, dp=mirrored(setting, block, placed.dp))
    zero, held, ends = block.structure.zero, own.fullest(block.pp, block.structure.schedule), own.ends(block.pp)
    forward, backward = work.fullest
    units = _units(block, parameters, micro_batches, work)
    ahead = 0.0 if setting.model.prediction is None else 1.0
    reduced = units if own is parameters else replace(units, layer=own.layer, table=own.head, tables=ahead)
    if zero < 2:
        with term("passes beside"):
            passes = passes_beside(block.pp, micro_batches, block.vpp)
        beside = repeated(passes, forward), repeated(passes, backward)
        data = replicated_traffic(setting, block, placed, held, ends, *beside)
    elif zero == 3 or setting.stack.states.sharded_master:
        data = sharded_weights(setting, placed, units, reduced, gathered_again=zero == 3)
    else:
        data = sharded_gradients(setting, placed, held, ends, reduced, forward)
    if setting.experts is None:
        return data
    edp = mirrored(setting, block, expert_groups(setting, block).edp)
    return together(data, expert_data_traffic(setting, block, placed, edp, parameters, own, units, data))


def _units(block: Block, parameters: StageParameters, micro_batches: Number, work: Stages) -> Units:
    """What is sharded layer by layer, and the times of a layer it hides behind."""
    table = np.maximum(parameters.embedding, parameters.head)
    return Units(
        parameters.layer,
        table,
        work.held.fullest,
        divided(parameters.ends(block.pp), table),
        micro_batches,
        block.pp > 1,
        work.layer.forward.total,
        work.layer.backward.total,
    )


def _sends(setting: Setting, block: Block, placed: Groups, work: Stages, micro_batches: Number) -> PipelineTraffic:
    return pipeline_traffic(setting, block, placed.pp, work.tensor[0][1].message, micro_batches)


@once()
def _tied_embedding(setting: Setting, block: Block, placed: Groups, parameters: StageParameters) -> Transfer:
    """All-reduce of the shared table's gradient between the first and the last stage."""
    with term("tied embedding"):
        distance = repeated(placed.pp.stride, block.pp - 1)
        pair = group(setting, "embedding", np.where(block.pp > 1, 2.0, 1.0), np.maximum(distance, 1.0))
        message = gradient_traffic(parameters.table, setting.gradient)
        time = collective_time(setting, message, pair, "all_reduce")
    return Transfer(pair, "all_reduce", message, time, np.where(block.pp > 1, 1.0, 0.0))


def _optimizer(setting: Setting, block: Block, held: Number, routed: Number) -> Number:
    """The update of what a rank steps, and the clearing and norm of all gradients it keeps."""
    zero = block.structure.zero
    with term("optimizer"):
        own = stepped(block, held)
        updated = divided(own, block.shards) if zero >= 1 else own
        kept = divided(held, block.shards) if zero >= 2 else held
        if setting.experts is not None:
            edp, own = expert_data(setting, block), stepped(block, routed)
            updated = updated + (divided(own, edp) if zero >= 1 else own)
            kept = kept + (divided(routed, edp) if zero >= 2 else routed)
        nbytes = optimizer_traffic(updated, kept, setting.case.optimizer.moments, ELEMENT_BYTES["fp32"])
        return stream_time(nbytes, setting.memory_bandwidth, setting.memory_share)


def _offload(
    setting: Setting,
    block: Block,
    parameters: StageParameters,
    own: StageParameters,
    work: Stages,
    micro_batches: Number,
) -> OffloadTime:
    """What the host link and the host's update add, on the fullest rank."""
    if not block.structure.offload:
        return OffloadTime(0.0, None)
    schedule = block.structure.schedule
    held = shard_of(setting, block, parameters.fullest(block.pp, schedule), parameters.routed_held)
    updated = shard_of(setting, block, stepped(block, own.fullest(block.pp, schedule)), stepped(block, own.routed_held))
    passing = Passing(held, updated, offloaded_activations(setting, block, work.held), *work.fullest)
    return offload_time(setting, block, passing, micro_batches)


def _converted_weights(setting: Setting, block: Block, parameters: StageParameters, micro_batches: Number) -> Number:
    """Weights converted after an update where the copies are kept, else in every micro-batch; a shard before it is
    gathered narrow.
    """
    narrow = setting.narrow
    shards = narrow is not None and narrow.gather and block.structure.zero >= 1
    held = divided(parameters.layers, block.shards) if shards else parameters.layers
    if setting.experts is not None:
        routed = parameters.routed
        held = held + (divided(routed, expert_data(setting, block)) if shards else routed)
    with term("convert weights"):
        nbytes = quantise_traffic(held, setting.recipe.quantised)
        once = stream_time(nbytes, setting.memory_bandwidth, setting.memory_share)
    return once if narrow is not None and narrow.cached else repeated(micro_batches, once)


def _tensor(setting: Setting, block: Block, placed: Groups, work: Stages, micro_batches: Number) -> list[Transfer]:
    transfers = []
    for layers, traffic, repeats in work.tensor:
        for operation, per_layer, again, time in traffic.transfers:
            each = repeated(per_layer + repeated(repeats, again), repeated(layers, micro_batches))
            times = np.where(block.tp > 1, each, 0.0)
            transfers.append(Transfer(placed.tp, operation, traffic.message, time, times))
    return [*transfers, *_ends(block, placed, work, micro_batches), *_experts(setting, block, work, micro_batches)]


def _again(block: Block, work: Stages) -> Number:
    """Share of the layers of the fullest rank whose forward is run and exchanged again."""
    return reached(block, work.held.fullest) if block.structure.recompute == "full" else 0.0


def _context(block: Block, placed: Groups, work: Stages, micro_batches: Number) -> list[Transfer]:
    """What ranks that share sequences exchange, again where all is recomputed what they did forward."""
    found, again = [], _again(block, work)
    for held, traffic in work.context:
        layers = repeated(held, micro_batches)
        for item in traffic.exchanges:
            each = item.forward + item.backward + repeated(again, item.forward)
            found.append(Transfer(placed.cp, item.operation, item.message, item.time, repeated(each, layers)))
    return found


def _experts(setting: Setting, block: Block, work: Stages, micro_batches: Number) -> list[Transfer]:
    """Dispatch and combine forward and backward, and forward again where that is recomputed."""
    if setting.experts is None:
        return []
    placed = expert_groups(setting, block)
    again = reached(block, work.held.fullest) if dispatched_again(block.structure) else 0.0
    passes = repeated(2.0 + again, micro_batches)
    found = []
    for layers, traffic in work.experts:
        found += expert_transfers(placed, traffic, layers, passes)
    return found


def _ends(block: Block, placed: Groups, work: Stages, micro_batches: Number) -> list[Transfer]:
    """The exchanges of the head, and where it is the same stage of the embedding."""
    traffic, ends, found = work.tensor[0][1], replace(placed.tp, name="ends"), []
    for operation, at_head, at_embedding, time in traffic.ends:
        each = repeated(np.where(block.pp == 1, at_head + at_embedding, at_head), micro_batches)
        found.append(Transfer(ends, operation, traffic.message, time, np.where(block.tp > 1, each, 0.0)))
    return found
