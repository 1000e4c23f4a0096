"""Traffic of data parallelism and sharding in a step, and its exposed part."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.memory.states import gradient_traffic
from costmodel.equations.network.collectives import Operation
from costmodel.equations.network.overlap import bucket_count, exposed_time
from costmodel.estimate.machine.collective_time import collective_time
from costmodel.estimate.machine.process_groups import Group, Groups, Transfer
from costmodel.estimate.shared.memoize import memoized
from costmodel.estimate.shared.plan_batch import Block, single_rank
from costmodel.estimate.shared.time_breakdown import largest
from costmodel.estimate.training.parallelism.data.compressed_sum import summed_as
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class DataTraffic:
    """Exposed data-parallel time of a step, and sharded gathers within the layers.

    taken: total duration of its collectives, hidden or not, beside forward and backward.
    """

    exposed: Number
    layer_forward: Number
    layer_backward: Number
    taken: tuple[Number, Number]
    transfers: tuple[Transfer, ...]


@record
class Buffer:
    """Traffic that occurs once per step: its transfers, their total time, and the time of the last bucket."""

    transfers: tuple[Transfer, ...]
    time: Number
    tail: Number


def _bucketed(inputs: TrainingInputs, message: Number, element: float, dp: Group, operation: Operation) -> Transfer:
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
    sent = _bucketed(inputs, np.where(nothing, 1.0, message), element, dp, operation)
    sizes = (np.where(nothing, 0.0, size) for size in (sent.message, sent.time, sent.count))
    return Transfer(dp, operation, *sizes)


def _over_replicas(inputs: TrainingInputs, placed: Groups, scatter: Transfer) -> tuple[Transfer, ...]:
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
    sums = _gradients(inputs, block, placed, parameters)
    with term("dp gradients"):
        exposed = exposed_time(sums.time, beside[1], inputs.overlap.dp, sums.tail)
    if block.structure.zero == 0:
        return DataTraffic(exposed, 0.0, 0.0, (0.0, sums.time), sums.transfers)
    back = _weights_back(inputs, block, placed.dp, parameters, ends)
    exposed = exposed + _shown(inputs, back, beside[0])
    return DataTraffic(exposed, 0.0, 0.0, (back.time, sums.time), (*sums.transfers, *back.transfers))


@memoized("zero", "compression", "sync")
def _gradients(inputs: TrainingInputs, block: Block, placed: Groups, parameters: Number) -> Buffer:
    """The traffic that sums all gradients, over the shards and over their replicas."""
    with term("dp gradients"):
        gradients = gradient_traffic(parameters, inputs.widths.reduced)
        transfer = _bucketed(inputs, gradients, inputs.widths.reduced, placed.dp, _summing(inputs, block))
        sent = summed_as(inputs, block, transfer)
        transfers = (*sent, *_over_replicas(inputs, placed, sent[-1]))
        return Buffer(transfers, _sum([each.total_time for each in transfers]), _sum([each.time for each in transfers]))


def _summing(inputs: TrainingInputs, block: Block) -> Operation:
    """The collective that sums gradients over the shards."""
    zero = block.structure.zero
    return "all_reduce" if zero == 0 or (zero < 3 and inputs.stack.whole_sums) else "reduce_scatter"


def _sum(times: Sequence[Number]) -> Number:
    first, *others = times
    return sum(others, start=first)


@memoized()
def _weights_back(inputs: TrainingInputs, block: Block, dp: Group, parameters: Number, ends: Number) -> Buffer:
    """All-gather of updated weights once per step; embedding, head and adapters are sent in 16 bits."""
    compute = inputs.stack.states.compute
    with term("dp weights"):
        if np.all(inputs.gathered == compute) or inputs.tuning is not None:
            weights = gradient_traffic(parameters, compute)
        else:
            layers = gradient_traffic(parameters - ends, inputs.gathered)
            weights = layers + gradient_traffic(ends, compute)
        gathered = _bucketed(inputs, weights, compute, dp, "all_gather")
        return Buffer((gathered,), gathered.total_time, gathered.time)


def _shown(inputs: TrainingInputs, back: Buffer, forward: Number) -> Number:
    """Exposed time of the weight all-gather, of which the next forward hides a part."""
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
        """A layer's exposed time of transfers: in every micro-batch, or once per step if they are shared."""
        return np.where(self.shared, 0.0, each), np.where(self.shared, self.layers * each, 0.0)


@record
class FsdpTraffic:
    """Unit-wise FSDP traffic: its transfers, and the times of a layer and of a table."""

    transfers: tuple[Transfer, ...]
    layer: Number
    table: Number


def _moved(
    inputs: TrainingInputs,
    dp: Group,
    units: FsdpUnits,
    element: Number,
    wide: Number,
    operation: Operation,
    times: Number,
) -> tuple[Transfer, Transfer]:
    """Transfers of a layer's weights or gradients, and of a table, with their counts per step.

    Adapters are wide too.
    """
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
def _gathers(inputs: TrainingInputs, block: Block, placed: Groups, units: FsdpUnits, times: Number) -> FsdpTraffic:
    """All-gathers of weights over the shards."""
    layer, table = _moved(inputs, placed.dp, units, inputs.gathered, inputs.stack.states.compute, "all_gather", times)
    return FsdpTraffic((layer, table), layer.time, table.time)


@memoized("zero", "compression", "sync")
def _scatters(inputs: TrainingInputs, block: Block, placed: Groups, units: FsdpUnits, times: Number) -> FsdpTraffic:
    """Reduce-scatters of gradients over the shards; FSDP also reduces over the replicas after each."""
    width = inputs.widths.reduced
    raw = _moved(inputs, placed.dp, units, width, width, _summing(inputs, block), times)
    (layer, *_), (table, *_) = (summed_as(inputs, block, each) for each in raw)
    if not inputs.stack.states.sharded_master:
        return FsdpTraffic((layer, table), layer.time, table.time)
    layers = (layer, *_over_replicas(inputs, placed, layer))
    tables = (table, *_over_replicas(inputs, placed, table))
    return FsdpTraffic((*layers, *tables), *(_sum([each.time for each in kind]) for kind in (layers, tables)))


def _with_replicas(
    inputs: TrainingInputs, block: Block, placed: Groups, units: FsdpUnits, data: DataTraffic, beside: Number
) -> DataTraffic:
    """Adds the all-reduce over shard replicas, for stacks that run it only in the last micro-batch.

    The rest of that micro-batch's backward hides it. FSDP has it in each reduce-scatter already.
    """
    if single_rank(placed.replicas.ranks) or inputs.stack.states.sharded_master:
        return data
    scatters = _scatters(inputs, block, placed, units, 1.0).transfers
    sums = tuple(item for scatter in scatters for item in _over_replicas(inputs, placed, scatter))
    with term("dp all-reduce over replicas"):
        whole = _sum([item.total_time for item in sums])
        room = units.layers * np.maximum(beside - data.taken[1], 0.0)
        shown = exposed_time(whole, room, inputs.overlap.dp, largest(*(item.time for item in sums)))
        longer = whole / (units.layers * units.micro_batches)
    taken = data.taken[0], data.taken[1] + longer
    return replace(data, exposed=data.exposed + shown, taken=taken, transfers=(*data.transfers, *sums))


def _ends(
    inputs: TrainingInputs, moved: FsdpTraffic, units: FsdpUnits, times: Number, beside: Number, taken: Number
) -> tuple[Number, Number]:
    """Exposed time of embedding and head, and the link time per layer that they take.

    They hide behind the compute time that the layers leave; one table of a step has nothing to hide behind.
    """
    with term("ends"):
        whole = units.tables * moved.table
        room = units.layers * np.maximum(beside - taken, 0.0)
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
    scatters = _scatters(inputs, block, placed, units, units.micro_batches)
    exposed = exposed_time(scatters.layer, beside[1], inputs.overlap.dp, 0.0)
    back = _weights_back(inputs, block, placed.dp, parameters, ends)
    ends, longer = _ends(inputs, scatters, units, units.micro_batches, beside[1], scatters.layer)
    shown, taken = ends + _shown(inputs, back, beside[0]), (back.time, scatters.layer + longer)
    data = DataTraffic(shown, 0.0, exposed, taken, (*scatters.transfers, *back.transfers))
    return _with_replicas(inputs, block, placed, units, data, beside[1])


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
    gathers = _gathers(inputs, block, placed, units, gathered_times)
    scatters = _scatters(inputs, block, placed, reduced, units.once)
    gather, taken = gathers.layer, (gathers.layer, scatters.layer)
    if again:
        taken = gather, np.where(units.shared, gather, gather + scatters.layer)
    gathered_ends, before = _ends(inputs, gathers, units, gathered_times, beside[0], taken[0])
    scattered_ends, behind = _ends(inputs, scatters, reduced, units.once, beside[1], taken[1])
    ends, taken = gathered_ends + scattered_ends, (taken[0] + before, taken[1] + behind)
    forward = exposed_time(gather, beside[0], hideable, 0.0)
    room = np.maximum(beside[1] - gather, 0.0) if again and inputs.stack.overlap.ahead else beside[1]
    each, rest = units.placed(exposed_time(scatters.layer, room, hideable, 0.0))
    if not again:
        each_forward, once_forward = units.placed(forward)
        moved = (*gathers.transfers, *scatters.transfers)
        return DataTraffic(ends + once_forward + rest, each_forward, each, taken, moved)
    if inputs.stack.overlap.ahead:
        gathered = exposed_time(gather, beside[1], hideable, 0.0)
        both = exposed_time(scatters.layer + gather, beside[1], hideable, 0.0)
    else:
        gathered, both = gather, gather + exposed_time(scatters.layer, beside[1], hideable, 0.0)
    backward = np.where(units.shared, gathered, both)
    moved = (*gathers.transfers, gathers.transfers[0], *scatters.transfers)
    data = DataTraffic(ends + rest, forward, backward, taken, moved)
    return _with_replicas(inputs, block, placed, reduced, data, beside[1])
