"""The training step: compute, exposed communication, bubble, optimizer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from costmodel.documents.model import Prediction
from costmodel.equation import Number, term
from costmodel.equations.collectives import Operation
from costmodel.equations.counting import divided, layers_per_stage, repeated, tokens_in_micro_batch
from costmodel.equations.overlap import passes_beside
from costmodel.equations.pipeline import pipeline_time
from costmodel.equations.precision import quantise_traffic
from costmodel.equations.roofline import stream_time
from costmodel.equations.states import gradient_traffic
from costmodel.equations.traffic import optimizer_traffic
from costmodel.estimate.block import Block, Pairs, Structure, pairs
from costmodel.estimate.communication import (
    DataTraffic,
    Groups,
    PipelineTraffic,
    TensorTraffic,
    Transfer,
    Units,
    collective_time,
    group,
    groups,
    pipeline_traffic,
    replicated_traffic,
    sharded_gradients,
    sharded_weights,
)
from costmodel.estimate.expert_data import expert_data_traffic, together
from costmodel.estimate.expert_traffic import ExpertTraffic, expert_data, expert_groups, expert_transfers
from costmodel.estimate.kernels import PASS_TERMS, Both, Pass, embedding_pass, head_pass, matmul_pass
from costmodel.estimate.layer import layer_work
from costmodel.estimate.mixers import Matmul
from costmodel.estimate.setting import ELEMENT_BYTES, Setting
from costmodel.estimate.work import StageParameters, layer_count


@dataclass(frozen=True)
class Stages:
    """A rank's work for one micro-batch: its layers, and what the ends add."""

    layers: Both
    embedding: Both
    head: Both
    tensor: tuple[tuple[float, TensorTraffic], ...]
    experts: tuple[tuple[float, ExpertTraffic], ...]


@dataclass(frozen=True)
class TrainingStep:
    """Seconds of a step by what they are spent on, and the transfers behind them."""

    terms: dict[str, Number]
    total: Number
    compute: Number
    transfers: tuple[Transfer, ...]


def stages(setting: Setting, block: Block) -> Stages:
    """Layers and ends of a rank for one micro-batch, each distinct combination of what they depend on once."""
    structure, distinct = block.structure, pairs(block)
    tp, micro_batch = distinct.tp, distinct.micro_batch
    total = Both(Pass(), Pass())
    tensor, experts = [], []
    for kind in setting.model.layers:
        work = layer_work(setting, structure, kind, distinct)
        layers = layers_per_stage(kind.count, block.pp)
        total = total + work.both.each(distinct.spread).each(functools.partial(repeated, layers))
        tensor.append((kind.count, _spread(work.tensor, distinct.spread)))
        experts.append((kind.count, work.experts.spread(distinct.spread)))
    end = work.tensor.end
    head = head_pass(setting, tp, micro_batch) + Both(Pass(tp=end), Pass(tp=end))
    if setting.model.prediction is not None:
        head = head + _prediction(setting, structure, setting.model.prediction, distinct, head)
    embedding = (embedding_pass(setting, micro_batch) + Both(Pass(tp=end), Pass())).each(distinct.spread)
    return Stages(total, embedding, head.each(distinct.spread), tuple(tensor), tuple(experts))


def _prediction(setting: Setting, structure: Structure, ahead: Prediction, distinct: Pairs, head: Both) -> Both:
    """Multi-token prediction beside the head: for each module a projection of both inputs, a layer, a head again."""
    with term("multi-token prediction"):
        layer = layer_work(setting, structure, ahead.layer, distinct).both
        hidden, tokens = setting.model.hidden, tokens_in_micro_batch(distinct.micro_batch, setting.sequence)
        joined = Matmul("projection", divided(hidden, distinct.tp), repeated(2.0, hidden))
        forward, backward = matmul_pass(setting, tokens, joined)
        each = layer + Both(Pass(matmul=forward), Pass(matmul=backward)) + head
        return each.each(functools.partial(repeated, ahead.depth))


def _spread(traffic: TensorTraffic, spread: Callable[[Number], Number]) -> TensorTraffic:
    transfers = tuple((operation, count, again, spread(time)) for operation, count, again, time in traffic.transfers)
    return TensorTraffic(
        spread(traffic.forward),
        spread(traffic.backward),
        spread(traffic.recomputed),
        spread(traffic.end),
        spread(traffic.message),
        transfers,
    )


def _if_alone(block: Block, end: Both) -> Both:
    """An end's work where one stage holds both ends."""
    return end.each(lambda value: np.where(block.pp == 1, value, 0.0))


def training_step(setting: Setting, block: Block, parameters: StageParameters, micro_batches: Number) -> TrainingStep:
    """Time of an optimizer step and where it goes."""
    placed = groups(setting, block)
    work = stages(setting, block)
    held = parameters.layers + parameters.ends(block.pp)
    data = _data(setting, block, placed, parameters, held, work, micro_batches)
    sends = _sends(setting, block, placed, work, micro_batches)
    terms = _pipelined(setting, block, work, data, micro_batches)
    terms["pp"] = sends.exposed
    terms["dp"] = terms["dp"] + data.exposed
    tied = (_tied_embedding(setting, block, placed, parameters),) if parameters.tied else ()
    for transfer in tied:
        terms["dp"] = terms["dp"] + transfer.total_time
    terms["optimizer"] = _optimizer(setting, block, held, parameters.routed_held)
    if setting.recipe.narrow:
        terms["memory_bound"] = terms["memory_bound"] + _converted_weights(setting, block, parameters, micro_batches)
    total = terms["matmul"]
    for name in TERMS[1:]:
        total = total + terms[name]
    compute = terms["matmul"] + terms["attention"] + terms["memory_bound"]
    transfers = (*_tensor(setting, block, placed, work, micro_batches), *data.transfers, *tied, *sends.transfers)
    return TrainingStep(terms, total, compute, transfers)


def _pipelined(
    setting: Setting, block: Block, work: Stages, data: DataTraffic, micro_batches: Number
) -> dict[str, Number]:
    """Seconds from the first forward to the last backward: of the busiest stage, and its waiting for others."""
    gathered_forward = Pass(dp=_per_stage(setting, block, data.layer_forward))
    gathered_backward = Pass(dp=_per_stage(setting, block, data.layer_backward))
    layers = work.layers + Both(gathered_forward, gathered_backward)
    first = layers + work.embedding + _if_alone(block, work.head)
    last = layers + work.head + _if_alone(block, work.embedding)
    with term("pipeline"):
        whole = pipeline_time(
            block.pp,
            micro_batches,
            block.vpp,
            first.forward.total,
            first.backward.total,
            layers.forward.total,
            layers.backward.total,
            last.forward.total,
            last.backward.total,
            schedule=block.structure.schedule,
        )
    terms = _busiest(first, last, micro_batches)
    busy = terms["matmul"]
    for name in PASS_TERMS[1:]:
        busy = busy + terms[name]
    terms["bubble"] = np.where(
        block.pp > 1, np.maximum(whole - busy, 0.0), 0.0
    )  # rounding may leave a hair below nothing
    return terms


def _busiest(first: Both, last: Both, micro_batches: Number) -> dict[str, Number]:
    """A step's seconds of the busier end, by what they are spent on."""
    at_the_end = np.asarray(last.total >= first.total)
    terms: dict[str, Number] = {}
    for name in PASS_TERMS:
        with term(f"{name} of the busiest stage"):
            at_last = getattr(last.forward, name) + getattr(last.backward, name)
            at_first = getattr(first.forward, name) + getattr(first.backward, name)
            terms[name] = repeated(micro_batches, np.where(at_the_end, at_last, at_first))
    return terms


TERMS = ("matmul", "attention", "memory_bound", "launch", "tp", "ep", "pp", "dp", "bubble", "optimizer")


def _per_stage(setting: Setting, block: Block, per_layer: Number) -> Number:
    layers = layer_count(setting.model)
    return repeated(layers_per_stage(layers, block.pp), per_layer)


def _data(
    setting: Setting,
    block: Block,
    placed: Groups,
    parameters: StageParameters,
    held: Number,
    work: Stages,
    micro_batches: Number,
) -> DataTraffic:
    zero = block.structure.zero
    forward, backward = work.layers.forward.total, work.layers.backward.total
    units = _units(setting, block, parameters, micro_batches, forward, backward)
    if zero < 2:
        with term("passes beside"):
            passes = passes_beside(block.pp, micro_batches, block.vpp)
        beside = repeated(passes, forward), repeated(passes, backward)
        data = replicated_traffic(setting, block, placed.dp, held, parameters.ends(block.pp), *beside)
    elif zero == 3 or setting.stack.states.sharded_master:
        data = sharded_weights(setting, placed.dp, units, gathered_again=zero == 3)
    else:
        data = sharded_gradients(setting, placed.dp, held, parameters.ends(block.pp), units, forward)
    if setting.experts is None:
        return data
    edp = expert_groups(setting, block, block.structure.order).edp
    return together(data, expert_data_traffic(setting, block, edp, parameters, units, data))


def _units(
    setting: Setting,
    block: Block,
    parameters: StageParameters,
    micro_batches: Number,
    forward: Number,
    backward: Number,
) -> Units:
    """What is sharded layer by layer, and the times of a layer it hides behind."""
    per_stage = layers_per_stage(layer_count(setting.model), block.pp)
    table = np.maximum(parameters.embedding, parameters.head)
    return Units(
        parameters.layer,
        table,
        per_stage,
        divided(parameters.ends(block.pp), table),
        micro_batches,
        np.asarray(block.pp > 1),
        divided(forward, per_stage),
        divided(backward, per_stage),
    )


def _sends(setting: Setting, block: Block, placed: Groups, work: Stages, micro_batches: Number) -> PipelineTraffic:
    return pipeline_traffic(setting, block, placed.pp, work.tensor[0][1].message, micro_batches)


def _tied_embedding(setting: Setting, block: Block, placed: Groups, parameters: StageParameters) -> Transfer:
    """All-reduce of the shared table's gradient between the first and the last stage."""
    with term("tied embedding"):
        distance = repeated(placed.pp.stride, block.pp - 1)
        pair = group(setting, "embedding", np.where(block.pp > 1, 2.0, 1.0), np.maximum(distance, 1.0))
        message = gradient_traffic(parameters.table, setting.gradient)
        time = collective_time(setting, message, pair, "all_reduce")
    return Transfer(pair, "all_reduce", message, time, np.where(block.pp > 1, 1.0, 0.0))


def _optimizer(setting: Setting, block: Block, held: Number, routed: Number) -> Number:
    zero = block.structure.zero
    with term("optimizer"):
        updated = divided(held, block.dp) if zero >= 1 else held
        kept = divided(held, block.dp) if zero >= 2 else held
        if setting.experts is not None:
            edp = expert_data(setting, block)
            updated = updated + (divided(routed, edp) if zero >= 1 else routed)
            kept = kept + (divided(routed, edp) if zero >= 2 else routed)
        nbytes = optimizer_traffic(updated, kept, setting.case.optimizer.moments, ELEMENT_BYTES["fp32"])
        return stream_time(nbytes, setting.memory_bandwidth, setting.memory_share)


def _converted_weights(setting: Setting, block: Block, parameters: StageParameters, micro_batches: Number) -> Number:
    """Weights converted after an update where the copies are kept, else in every micro-batch; a shard before it is
    gathered narrow.
    """
    narrow = setting.narrow
    shards = narrow is not None and narrow.gather and block.structure.zero >= 1
    held = divided(parameters.layers, block.dp) if shards else parameters.layers
    if setting.experts is not None:
        routed = parameters.routed
        held = held + (divided(routed, expert_data(setting, block)) if shards else routed)
    with term("convert weights"):
        nbytes = quantise_traffic(held, setting.recipe.quantised)
        once = stream_time(nbytes, setting.memory_bandwidth, setting.memory_share)
    return once if narrow is not None and narrow.cached else repeated(micro_batches, once)


def _tensor(setting: Setting, block: Block, placed: Groups, work: Stages, micro_batches: Number) -> list[Transfer]:
    transfers = []
    full = block.structure.recompute == "full"
    for count, traffic in work.tensor:
        layers = layers_per_stage(count, block.pp)
        for operation, per_layer, again, time in traffic.transfers:
            each = repeated(per_layer + again if full else per_layer, repeated(layers, micro_batches))
            times = np.where(block.tp > 1, each, 0.0)
            transfers.append(Transfer(placed.tp, operation, traffic.message, time, times))
    return [*transfers, _ends(block, placed, work, micro_batches), *_experts(setting, block, work, micro_batches)]


def _experts(setting: Setting, block: Block, work: Stages, micro_batches: Number) -> list[Transfer]:
    """Dispatch and combine forward and backward, and forward again where all is recomputed."""
    if setting.experts is None:
        return []
    placed = expert_groups(setting, block, block.structure.order)
    passes = repeated(3.0 if block.structure.recompute == "full" else 2.0, micro_batches)
    found = []
    for count, traffic in work.experts:
        found += expert_transfers(placed, traffic, layers_per_stage(count, block.pp), passes)
    return found


def _ends(block: Block, placed: Groups, work: Stages, micro_batches: Number) -> Transfer:
    """The exchanges of the head, forward and backward, and where it is the same stage of the embedding."""
    traffic = work.tensor[0][1]
    operation: Operation = "all_gather" if block.structure.sequence_parallel else "all_reduce"
    each = repeated(np.where(block.pp == 1, 3.0, 2.0), micro_batches)
    ends = replace(placed.tp, name="ends")
    return Transfer(ends, operation, traffic.message, traffic.end, np.where(block.tp > 1, each, 0.0))
