"""Data-parallel traffic of a step, with the compute that can hide it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.compression import Codec, Method, codec_of
from costmodel.documents.schemas.sync import USUAL, sync_of
from costmodel.equations.data_parallel import (
    codec_traffic,
    feedback_bytes,
    low_rank_share,
    parameter_server_time,
    parameter_server_wire,
    quantised_share,
    sparse_share,
)
from costmodel.equations.kernels.roofline import stream_time
from costmodel.equations.layers.experts import fetch_operations
from costmodel.equations.memory.states import gradient_traffic
from costmodel.equations.network.collectives import Operation, group_latency
from costmodel.equations.network.overlap import bucket_count, exposed_time, passes_beside
from costmodel.equations.network.topology import two_level_time
from costmodel.equations.parallelism.recompute import mixed
from costmodel.estimate.machine.collective_time import collective_time, fastest_time_inside
from costmodel.estimate.machine.process_groups import (
    Group,
    Groups,
    Transfer,
    group,
    merged_group,
    network_rate,
    strides,
)
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.estimate.model.shards import layer_count, layer_matmuls, shard
from costmodel.estimate.shared.plan_batch import Block, largest, memoized, single_rank
from costmodel.estimate.training.parallelism.expert import expert_groups
from costmodel.estimate.training.parallelism.pipeline import StageLayers, summed_once, weight_replication
from costmodel.estimate.training.stage_parameters import LargestRankParameters, StageParameters, vocab_per_rank
from costmodel.estimate.training.stage_time import Stages
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.errors import Place
from costmodel.ground.record import record
from costmodel.ground.units import Figure

# Codecs of compressed gradients: method, compressed size, and error feedback.


@record
class CodecMethod:
    """How a codec compresses gradients: bytes per element and per scale, elements per scale, passes over the gradients.

    sent: compressed gradients are summed on the way (`summed`); each rank gets a part from all ranks, sums it, and all
        gather the sums (`by parts`); or each rank gets the gradients of all others (`gathered`)
    feedback: bytes per gradient that a rank stores of its own compression error
    shared_feedback: bytes per gradient that the rank which sums a part stores of that sum's error
    """

    sent: Literal["summed", "by parts", "gathered"]
    passes: float
    element: float = 4.0
    scale: float = 0.0
    group: float = 1.0
    feedback: float = 0.0
    shared_feedback: float = 0.0
    warm_up: float = 0.0


def _named_figure(value: float, what: str) -> Figure:
    """The value as a figure with its name in traces."""
    return Figure(value, Place("compression", path=what))


FP32 = _named_figure(4.0, "fp32")
INDEX = _named_figure(4.0, "32-bit index")
# fp16: read and write. int8: read once more for the scales. one-bit: what was left out is added and kept, and signs
# have one scale for a part. top-k: read once more to select. powersgd: two products, and what they leave out.
PRACTICES: dict[Method, CodecMethod] = {
    "fp16": CodecMethod("summed", _named_figure(2.0, "fp16, passes"), _named_figure(2.0, "fp16")),
    "int8": CodecMethod(
        "summed",
        _named_figure(3.0, "int8, passes"),
        _named_figure(1.0, "int8"),
        FP32,
        _named_figure(256.0, "int8, a scale"),
    ),
    "one-bit": CodecMethod(
        "by parts",
        _named_figure(3.0, "one-bit, passes"),
        _named_figure(0.125, "one bit"),
        feedback=FP32,
        shared_feedback=FP32,
        warm_up=_named_figure(0.2, "1-bit Adam: 15 to 25 % of the steps"),
    ),
    "top-k": CodecMethod("gathered", _named_figure(3.0, "top-k, passes"), FP32, feedback=FP32),
    "powersgd": CodecMethod("summed", _named_figure(6.0, "powersgd, passes"), feedback=FP32),
}
SCATTERED = frozenset({"fp16", "int8"})  # what sharded gradients can be summed in, the latter by an all-to-all


def compression_method(block: Block) -> tuple[Codec, CodecMethod]:
    """The codec of a structure, and its method."""
    codec = codec_of(block.structure.compression)
    return codec, PRACTICES[codec.method]


@memoized("compression")
def compressed_bytes(inputs: TrainingInputs, block: Block) -> Number:
    """Compressed over uncompressed bytes of the gradients, in the type that the stack reduces."""
    codec, practice = compression_method(block)
    with term("compression"):
        if codec.method == "top-k":
            return sparse_share(codec.kept, practice.element, INDEX, inputs.widths.reduced)
        if codec.method == "powersgd":
            return _factor_share(inputs, block, codec.rank)
        return quantised_share(practice.element, practice.scale, practice.group, inputs.widths.reduced)


def _factor_share(inputs: TrainingInputs, block: Block, rank: float) -> Number:
    """Elements of low-rank factors over those of the matrices, as tp shards them; small matrices are sent whole."""
    sent: Number = 0.0
    whole: Number = 0.0
    for count, matrix, part in factor_shares(inputs, block, rank):
        size = count * (matrix.n * matrix.k)
        sent = sent + size * part
        whole = whole + size
    return sent / whole


def factor_shares(inputs: TrainingInputs, block: Block, rank: float) -> Iterator[tuple[Number, Matmul, Number]]:
    """Each matrix with its count and the share of it that is sent: its factors, or 1 if these are larger."""
    for count, matrix in _rank_matrices(inputs, block):
        yield count, matrix, np.minimum(low_rank_share(rank, matrix.n, matrix.k), 1.0)


def _rank_matrices(inputs: TrainingInputs, block: Block) -> Iterator[tuple[Number, Matmul]]:
    """The matrices of a rank, and the count of each."""
    model = inputs.model
    for kind in model.layers:
        part = shard(model, kind, block.tp, block.ep, block.etp)
        for matrix in layer_matmuls(model, part):
            yield kind.count, matrix
        if part.routed is not None:
            for matrix in part.routed.matrices():
                yield kind.count * part.routed.local, matrix
    yield 1.0 if model.tied else 2.0, Matmul("table", vocab_per_rank(inputs, block.tp), model.hidden)


def warm_up(inputs: TrainingInputs, block: Block) -> float:
    """Share of the steps that run before compression starts."""
    stated = inputs.case.scenario.assume.compression.warm_up
    return compression_method(block)[1].warm_up if stated is None else stated


def error_feedback_bytes(inputs: TrainingInputs, block: Block, held: Number, routed: Number, copies: Number) -> Number:
    """Bytes of a rank's error feedback: the compression error of its gradients, stored for the next step."""
    _, practice = compression_method(block)
    if not practice.feedback:
        return 0.0
    with term("error feedback"):
        rest = feedback_bytes(held, practice.feedback, practice.shared_feedback, block.shards)
        if inputs.experts is None:
            return rest
        return rest + feedback_bytes(routed, practice.feedback, practice.shared_feedback, copies)


# Traffic of a compressed gradient reduction, and the time to compress and restore.


def gradient_sums(inputs: TrainingInputs, block: Block, raw: Transfer) -> tuple[Transfer, ...]:
    """The transfers that sum gradients: the collective itself, or the ones for servers or compression."""
    if block.structure.sync != USUAL:
        return (server_sum(inputs, block, raw),)
    if block.structure.compression == "none":
        return (raw,)
    codec, practice = compression_method(block)
    with term("compressed gradients"):
        piece = compressed_bytes(inputs, block) * raw.message
        scattered = raw.operation == "reduce_scatter"
        if practice.sent == "gathered":
            return (_with_message(inputs, raw, raw.group.ranks * piece, "all_gather"),)
        if practice.sent == "by parts":
            return tuple(_with_message(inputs, raw, piece, each) for each in ("all_to_all", "all_gather"))
        if scattered and codec.method == "int8":
            return (_with_message(inputs, raw, piece, "all_to_all"),)
        whole = scattered and codec.method not in SCATTERED
        operation: Operation = "all_reduce" if whole else raw.operation
        if codec.method == "powersgd":  # one for each factor
            half = _with_message(inputs, raw, piece / 2.0, operation)
            return (replace(half, count=2.0 * raw.count),)
        return (_with_message(inputs, raw, piece, operation),)


def _with_message(inputs: TrainingInputs, raw: Transfer, message: Number, operation: Operation) -> Transfer:
    """The same transfers with another message [B] and collective."""
    time = np.where(raw.count > 0, collective_time(inputs, message, raw.group, operation), 0.0)
    return Transfer(raw.group, operation, message, time, raw.count)


def codec_time(inputs: TrainingInputs, block: Block, parameters: Number, times: Number) -> Number:
    """Time of a step [s] to compress gradients and to restore their sums: as the scenario states it, else by bytes
    through memory, times how often a step does so.
    """
    stated = inputs.case.scenario.assume.compression.codec
    if stated is not None:
        return stated
    _, practice = compression_method(block)
    restored = block.shards if practice.sent == "gathered" else 1.0
    with term("codec"):
        share = compressed_bytes(inputs, block)
        nbytes = codec_traffic(parameters, inputs.widths.reduced, practice.passes, practice.feedback, share, restored)
        return times * stream_time(nbytes, inputs.rates.memory_bandwidth, inputs.rates.memory_share)


def server_sum(inputs: TrainingInputs, block: Block, raw: Transfer) -> Transfer:
    """A gradient sum by parameter servers: inside each domain first, then push to the servers and pull from them."""
    sync = sync_of(block.structure.sync)
    servers = sync.number if sync.way == "parameter-server" else 0.0
    message, group = raw.message, raw.group
    if block.structure.compression != "none":
        message = compressed_bytes(inputs, block) * message
    with term("parameter server"):
        time = np.where(raw.count > 0, _server_sum_seconds(inputs, message, group, servers), 0.0)
        further = servers * inputs.case.node.accelerators
        sent = parameter_server_wire(message, group.ranks, further)
    return replace(raw, message=message, time=time, sent=sent)


def _server_sum_seconds(inputs: TrainingInputs, message: Number, group: Group, servers: float) -> Number:
    """Time [s] of a gradient sum by parameter servers: inside each node first, then to the servers and back."""
    inside = fastest_time_inside(inputs, message, group, "all_reduce")
    if np.all(group.domains == 1):
        return inside
    with term("between machines"):
        rate = network_rate(inputs, inputs.network_share, group, "all_reduce")
        across = parameter_server_time(message / group.fewest, group.domains, servers, rate)
        across = across + group_latency(group.domains, inputs.protocols.simple.start, 0.0)
    return np.where(group.domains > 1, two_level_time(inside, across, inputs.network.serial_share), inside)


# Traffic of data parallelism and sharding in a step, and its exposed part.


@record
class DataTraffic:
    """Exposed data-parallel seconds of a step, and sharded gathers within the layers.

    transfer_time: total seconds of its collectives, hidden or not, beside forward and backward
    """

    exposed: Number
    layer_forward: Number
    layer_backward: Number
    transfer_time: tuple[Number, Number]
    transfers: tuple[Transfer, ...]


@record
class OncePerStep:
    """Traffic that occurs once per step: its transfers, their total seconds, and the seconds of the last bucket."""

    transfers: tuple[Transfer, ...]
    time: Number
    tail: Number


def _bucketed_transfer(
    inputs: TrainingInputs, message: Number, element: float, dp: Group, operation: Operation
) -> Transfer:
    """The transfer of a buffer, sent in buckets; an empty buffer is not sent."""
    if not np.any(message):
        none = 0.0 * message
        return Transfer(dp, operation, message, none, none)
    nothing = message <= 0
    if not np.any(nothing):
        bucket = np.minimum(inputs.bucket(dp.ranks, element), message)
        count = bucket_count(message, bucket)
        piece = message / count
        return Transfer(dp, operation, piece, collective_time(inputs, piece, dp, operation), count)
    sent = _bucketed_transfer(inputs, np.where(nothing, 1.0, message), element, dp, operation)
    sizes = (np.where(nothing, 0.0, size) for size in (sent.message, sent.time, sent.count))
    return Transfer(dp, operation, *sizes)


def _replica_all_reduces(inputs: TrainingInputs, placed: Groups, scatter: Transfer) -> tuple[Transfer, ...]:
    """All-reduce of a gradient shard over the replicas, after each reduce-scatter in the shard group."""
    if single_rank(placed.replicas.ranks):
        return ()
    with term("dp all-reduce over replicas"):
        message = scatter.message / placed.dp.ranks
        time = np.where(scatter.count > 0, collective_time(inputs, message, placed.replicas, "all_reduce"), 0.0)
    return (Transfer(placed.replicas, "all_reduce", message, time, scatter.count),)


def replicated_traffic(
    inputs: TrainingInputs,
    block: Block,
    placed: Groups,
    parameters: Number,
    ends: Number,
    beside: tuple[Number, Number],
) -> DataTraffic:
    """Gradient traffic once per step, hidden by backward; with a sharded optimizer also weights, hidden by forward."""
    sums = _gradient_sums(inputs, block, placed, parameters)
    with term("dp gradients"):
        exposed = exposed_time(sums.time, beside[1], inputs.overlap.dp, sums.tail)
    if block.structure.zero == 0:
        return DataTraffic(exposed, 0.0, 0.0, (0.0, sums.time), sums.transfers)
    back = _updated_weight_gathers(inputs, block, placed.dp, parameters, ends)
    exposed = exposed + _exposed_gather(inputs, back, beside[0])
    return DataTraffic(exposed, 0.0, 0.0, (back.time, sums.time), (*sums.transfers, *back.transfers))


@memoized("zero", "compression", "sync")
def _gradient_sums(inputs: TrainingInputs, block: Block, placed: Groups, parameters: Number) -> OncePerStep:
    """The traffic that sums all gradients, over the shards and over their replicas."""
    with term("dp gradients"):
        gradients = gradient_traffic(parameters, inputs.widths.reduced)
        transfer = _bucketed_transfer(
            inputs, gradients, inputs.widths.reduced, placed.dp, _sum_operation(inputs, block)
        )
        sent = gradient_sums(inputs, block, transfer)
        transfers = (*sent, *_replica_all_reduces(inputs, placed, sent[-1]))
        return OncePerStep(
            transfers, _sum([each.total_time for each in transfers]), _sum([each.time for each in transfers])
        )


def _sum_operation(inputs: TrainingInputs, block: Block) -> Operation:
    """The collective that sums gradients over the shards."""
    zero = block.structure.zero
    return "all_reduce" if zero == 0 or (zero < 3 and inputs.stack.whole_sums) else "reduce_scatter"


def _sum(times: Sequence[Number]) -> Number:
    """The sum of times without a start value, so that a trace shows the times only."""
    first, *others = times
    return sum(others, start=first)


@memoized()
def _updated_weight_gathers(
    inputs: TrainingInputs, block: Block, dp: Group, parameters: Number, ends: Number
) -> OncePerStep:
    """All-gather of updated weights once per step; embedding, head and adapters are sent in 16 bits."""
    compute = inputs.stack.states.compute
    with term("dp weights"):
        if np.all(inputs.gathered_width == compute) or inputs.tuning is not None:
            weights = gradient_traffic(parameters, compute)
        else:
            layers = gradient_traffic(parameters - ends, inputs.gathered_width)
            weights = layers + gradient_traffic(ends, compute)
        gathered = _bucketed_transfer(inputs, weights, compute, dp, "all_gather")
        return OncePerStep((gathered,), gathered.total_time, gathered.time)


def _exposed_gather(inputs: TrainingInputs, back: OncePerStep, forward: Number) -> Number:
    """Exposed seconds of gathering updated weights, after the part that the next forward pass hides."""
    with term("dp weights"):
        return exposed_time(back.time, forward, inputs.overlap.weights, back.tail)


@record
class FsdpUnits:
    """Units of FSDP: parameters of a layer and of a table, layers and tables of a stage, and micro-batches of a step.

    It also states whether micro-batches of a pipeline share transfers, and the parameters of adapters that are gathered
    with a frozen layer.
    """

    layer: Number
    table: Number
    layers: Number
    tables: Number
    micro_batches: Number
    shared: NDArray[np.bool_]
    adapters: Number = 0.0

    @functools.cached_property
    def once(self) -> Number:
        """Repetitions in a step of a transfer that micro-batches may share: 1, or the number of micro-batches."""
        return np.where(self.shared, 1.0, self.micro_batches)

    def placed(self, each: Number) -> tuple[Number, Number]:
        """Exposed time of a layer's transfers: in every micro-batch, and once per step if micro-batches share them."""
        return np.where(self.shared, 0.0, each), np.where(self.shared, self.layers * each, 0.0)


@record
class FsdpTraffic:
    """Unit-wise FSDP traffic: its transfers, and the times of a layer and of a table."""

    transfers: tuple[Transfer, ...]
    layer: Number
    table: Number


def _layer_and_table_transfers(
    inputs: TrainingInputs,
    dp: Group,
    units: FsdpUnits,
    element: Number,
    wide: Number,
    operation: Operation,
    times: Number,
) -> tuple[Transfer, Transfer]:
    """Transfers of one FSDP layer's weights or gradients and of one embedding table, with their counts per step."""
    with term(f"dp {operation} of a layer"):
        message = gradient_traffic(units.layer, element)
        if inputs.tuning is not None:
            with term("adapters"):
                message = message + gradient_traffic(units.adapters, wide)
        time = np.where(message > 0, collective_time(inputs, message, dp, operation), 0.0)
        count = np.where(message > 0, units.layers * times, 0.0)
        layer = Transfer(dp, operation, message, time, count)
    with term(f"dp {operation} of the ends"):
        message = gradient_traffic(units.table, wide)
        time = np.where(units.tables > 0, collective_time(inputs, message, dp, operation), 0.0)
        table = Transfer(dp, operation, message, time, units.tables * times)
    return layer, table


@memoized()
def _weight_gathers(
    inputs: TrainingInputs, block: Block, placed: Groups, units: FsdpUnits, times: Number
) -> FsdpTraffic:
    """All-gathers of weights over the shards."""
    layer, table = _layer_and_table_transfers(
        inputs, placed.dp, units, inputs.gathered_width, inputs.stack.states.compute, "all_gather", times
    )
    return FsdpTraffic((layer, table), layer.time, table.time)


@memoized("zero", "compression", "sync")
def _gradient_scatters(
    inputs: TrainingInputs, block: Block, placed: Groups, units: FsdpUnits, times: Number
) -> FsdpTraffic:
    """Reduce-scatters of gradients over the shards; FSDP also reduces over the replicas after each."""
    width = inputs.widths.reduced
    raw = _layer_and_table_transfers(inputs, placed.dp, units, width, width, _sum_operation(inputs, block), times)
    (layer, *_), (table, *_) = (gradient_sums(inputs, block, each) for each in raw)
    if not inputs.stack.states.sharded_master:
        return FsdpTraffic((layer, table), layer.time, table.time)
    layers = (layer, *_replica_all_reduces(inputs, placed, layer))
    tables = (table, *_replica_all_reduces(inputs, placed, table))
    return FsdpTraffic((*layers, *tables), *(_sum([each.time for each in kind]) for kind in (layers, tables)))


def _with_replica_sums(
    inputs: TrainingInputs, block: Block, placed: Groups, units: FsdpUnits, data: DataTraffic, beside: Number
) -> DataTraffic:
    """Adds the all-reduce over shard replicas, for stacks that run it only in the last micro-batch.

    The rest of that micro-batch's backward hides it. FSDP has it in each reduce-scatter already.
    """
    if single_rank(placed.replicas.ranks) or inputs.stack.states.sharded_master:
        return data
    scatters = _gradient_scatters(inputs, block, placed, units, 1.0).transfers
    sums = tuple(item for scatter in scatters for item in _replica_all_reduces(inputs, placed, scatter))
    with term("dp all-reduce over replicas"):
        whole = _sum([item.total_time for item in sums])
        room = units.layers * np.maximum(beside - data.transfer_time[1], 0.0)
        shown = exposed_time(whole, room, inputs.overlap.dp, largest(*(item.time for item in sums)))
        longer = whole / (units.layers * units.micro_batches)
    transfer_time = data.transfer_time[0], data.transfer_time[1] + longer
    return replace(data, exposed=data.exposed + shown, transfer_time=transfer_time, transfers=(*data.transfers, *sums))


def _exposed_table_transfers(
    inputs: TrainingInputs, moved: FsdpTraffic, units: FsdpUnits, times: Number, beside: Number, transfer_time: Number
) -> tuple[Number, Number]:
    """Exposed time [s] of FSDP transfers of embedding and head, and the link time that they take from each layer.

    They hide behind the compute time that the layers leave; one table of a step has nothing to hide behind.
    """
    with term("ends"):
        whole = units.tables * moved.table
        room = units.layers * np.maximum(beside - transfer_time, 0.0)
        each = exposed_time(whole, room, inputs.overlap.dp, 0.0)
        first = exposed_time(whole, room, inputs.overlap.dp, moved.table)
        return first + (times - 1.0) * each, whole / units.layers


def sharded_gradients(
    inputs: TrainingInputs,
    block: Block,
    placed: Groups,
    parameters: Number,
    ends: Number,
    units: FsdpUnits,
    beside: tuple[Number, Number],
) -> DataTraffic:
    """ZeRO 2 traffic: gradients reduce-scattered layer by layer in every micro-batch, weights gathered once per step.

    They overlap with all layers in forward, and with one backward.
    """
    scatters = _gradient_scatters(inputs, block, placed, units, units.micro_batches)
    exposed = exposed_time(scatters.layer, beside[1], inputs.overlap.dp, 0.0)
    back = _updated_weight_gathers(inputs, block, placed.dp, parameters, ends)
    ends, longer = _exposed_table_transfers(inputs, scatters, units, units.micro_batches, beside[1], scatters.layer)
    shown, transfer_time = ends + _exposed_gather(inputs, back, beside[0]), (back.time, scatters.layer + longer)
    data = DataTraffic(shown, 0.0, exposed, transfer_time, (*scatters.transfers, *back.transfers))
    return _with_replica_sums(inputs, block, placed, units, data, beside[1])


def sharded_weights(
    inputs: TrainingInputs,
    block: Block,
    placed: Groups,
    units: FsdpUnits,
    reduced: FsdpUnits,
    beside: tuple[Number, Number],
) -> DataTraffic:
    """FSDP traffic: weights gathered layer by layer in forward, under ZeRO 3 again in backward; gradients scattered.

    Embedding and head are freed only after backward, so they are gathered once per pass. In PyTorch's pipelines the
    gradients wait for the last micro-batch, and weights that stay gathered are gathered once. The first gather and the
    last scatter of a step have nothing to hide behind. All other traffic overlaps with a layer in forward and backward,
    except gathers of a backward pass without prefetch.
    """
    hideable, again = inputs.overlap.dp, block.structure.zero == 3
    gathered_times = units.micro_batches if again else units.once
    gathers = _weight_gathers(inputs, block, placed, units, gathered_times)
    scatters = _gradient_scatters(inputs, block, placed, reduced, units.once)
    gather, transfer_time = gathers.layer, (gathers.layer, scatters.layer)
    if again:
        transfer_time = gather, np.where(units.shared, gather, gather + scatters.layer)
    gathered_ends, before = _exposed_table_transfers(
        inputs, gathers, units, gathered_times, beside[0], transfer_time[0]
    )
    scattered_ends, behind = _exposed_table_transfers(
        inputs, scatters, reduced, units.once, beside[1], transfer_time[1]
    )
    ends, transfer_time = gathered_ends + scattered_ends, (transfer_time[0] + before, transfer_time[1] + behind)
    forward = exposed_time(gather, beside[0], hideable, 0.0)
    room = np.maximum(beside[1] - gather, 0.0) if again and inputs.stack.overlap.ahead else beside[1]
    each, rest = units.placed(exposed_time(scatters.layer, room, hideable, 0.0))
    if not again:
        each_forward, once_forward = units.placed(forward)
        moved = (*gathers.transfers, *scatters.transfers)
        return DataTraffic(ends + once_forward + rest, each_forward, each, transfer_time, moved)
    if inputs.stack.overlap.ahead:
        gathered = exposed_time(gather, beside[1], hideable, 0.0)
        both = exposed_time(scatters.layer + gather, beside[1], hideable, 0.0)
    else:
        gathered, both = gather, gather + exposed_time(scatters.layer, beside[1], hideable, 0.0)
    backward = np.where(units.shared, gathered, both)
    moved = (*gathers.transfers, gathers.transfers[0], *scatters.transfers)
    data = DataTraffic(ends + rest, forward, backward, transfer_time, moved)
    return _with_replica_sums(inputs, block, placed, reduced, data, beside[1])


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
    traffic = _data_traffic(inputs, block, placed, parameters, own, work, micro_batches)
    if block.structure.compression == "none":
        return traffic
    most = largest_rank(inputs, block, own)
    often = 1.0 if block.structure.zero < 2 else np.where(summed_once(inputs, block), 1.0, micro_batches)
    with term("compression"):
        coded = np.where(block.shards > 1, codec_time(inputs, block, most.held + most.routed, often), 0.0)
        traffic = replace(traffic, exposed=traffic.exposed + coded)
    before = warm_up(inputs, block)
    if before == 0:
        return traffic
    plain = block.under(replace(block.structure, compression="none"))
    return _mean_traffic(before, _data_traffic(inputs, plain, placed, parameters, own, work, micro_batches), traffic)


def _mean_traffic(part: float, one: DataTraffic, other: DataTraffic) -> DataTraffic:
    """The weighted mean of two kinds of traffic; `part` is the share of steps of the first kind."""
    with term("warm-up"):
        sent = [replace(transfer, count=part * transfer.count) for transfer in one.transfers]
        sent += [replace(transfer, count=(1.0 - part) * transfer.count) for transfer in other.transfers]
        exposed, forward, backward = (
            mixed(part, getattr(one, name), getattr(other, name))
            for name in ("exposed", "layer_forward", "layer_backward")
        )
        transfer_time = (
            mixed(part, one.transfer_time[0], other.transfer_time[0]),
            mixed(part, one.transfer_time[1], other.transfer_time[1]),
        )
    return DataTraffic(exposed, forward, backward, transfer_time, tuple(sent))


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
    zero, placed = block.structure.zero, _groups_both_ways(inputs, block, placed)
    most = largest_rank(inputs, block, own)
    units, reduced = _fsdp_units(inputs, block, parameters, own, work.held, micro_batches)
    forward, backward = work.layer.forward.total, work.layer.backward.total
    if zero < 2:
        beside = _hiding_passes(inputs, block, work, micro_batches)
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
    routed = largest_rank(inputs, block, parameters).routed, most.routed
    experts = expert_data_traffic(inputs, block, placed, edp, *routed, units, beside, data)
    return added_traffic(
        data, expert_by_expert(inputs, block, edp, routed[0] / units.layers, experts) if zero == 3 else experts
    )


def expert_by_expert(inputs: TrainingInputs, block: Block, edp: Group, held: Number, data: DataTraffic) -> DataTraffic:
    """Data-parallel traffic if experts' matrices are gathered one after the other; recompute gathers them again."""
    kernels = inputs.stack.experts
    if kernels is None or kernels.fetched is None or not kernels.looped:
        return data
    parts = [(kind, kind.experts) for kind in inputs.model.layers if kind.experts is not None]
    with term("experts one by one"):
        whole = sum(kind.count * own.count * (len(own.projected) + 1.0) for kind, own in parts)
        matrices = whole / layer_count(inputs.model) / block.ep
        issued = fetch_operations(matrices, kernels.fetched) * inputs.stack.launch.each
        piece = gradient_traffic(held / matrices, inputs.stack.states.compute)
        sent = matrices * collective_time(inputs, piece, edp, "all_gather")
        time = np.where(block.shards > 1, issued + sent, 0.0)
        again = 2.0 if block.structure.recompute == "full" else 1.0
        forward, backward = np.maximum(data.layer_forward, time), np.maximum(data.layer_backward, again * time)
    return replace(data, layer_forward=forward, layer_backward=backward)


@memoized("schedule")
def largest_rank(inputs: TrainingInputs, block: Block, parameters: StageParameters) -> LargestRankParameters:
    """Parameters of the rank with most parameters."""
    return parameters.fullest(block)


@memoized("order", "schedule")
def _groups_both_ways(inputs: TrainingInputs, block: Block, placed: Groups) -> Groups:
    """The process groups with the data-parallel ranks of both directions in a bidirectional pipeline."""
    return replace(placed, dp=replicas_both_ways(inputs, block, placed.dp))


@memoized()
def _hiding_passes(inputs: TrainingInputs, block: Block, work: Stages, micro_batches: Number) -> tuple[Number, Number]:
    """Forward and backward seconds that can hide traffic which occurs once per step."""
    passes = _passes_beside_traffic(inputs, block, micro_batches)
    forward, backward = work.fullest
    return passes * forward, passes * backward


@memoized()
def _passes_beside_traffic(inputs: TrainingInputs, block: Block, micro_batches: Number) -> Number:
    """Number of micro-batch passes that run beside the traffic of a step."""
    with term("passes beside"):
        return passes_beside(block.pp, micro_batches, block.vpp)


@memoized()
def _fsdp_units(
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
    beside = np.maximum(compute[0] - rest.transfer_time[0], 0.0), np.maximum(compute[1] - rest.transfer_time[1], 0.0)
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


def added_traffic(one: DataTraffic, other: DataTraffic) -> DataTraffic:
    """The traffic of two kinds of parameters, one after the other."""
    return DataTraffic(
        one.exposed + other.exposed,
        one.layer_forward + other.layer_forward,
        one.layer_backward + other.layer_backward,
        (one.transfer_time[0] + other.transfer_time[0], one.transfer_time[1] + other.transfer_time[1]),
        (*one.transfers, *other.transfers),
    )
