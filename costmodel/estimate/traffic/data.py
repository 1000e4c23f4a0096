"""What data parallelism and sharding move in a step, and what of it compute does not hide."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from costmodel.equation import Number, term
from costmodel.equations.collectives import Operation
from costmodel.equations.counting import divided, repeated
from costmodel.equations.overlap import bucket_bytes, bucket_count, exposed_time
from costmodel.equations.states import gradient_traffic
from costmodel.estimate.block import Block, alone
from costmodel.estimate.setting import Setting
from costmodel.estimate.traffic.collectives import collective_time
from costmodel.estimate.traffic.groups import Group, Groups, Transfer


@dataclass(frozen=True)
class DataTraffic:
    """Data-parallel time of a step that compute does not hide, and sharded gathers within the layers."""

    exposed: Number
    layer_forward: Number
    layer_backward: Number
    transfers: tuple[Transfer, ...] = field(default=())


def _bucketed(setting: Setting, message: Number, dp: Group, operation: Operation) -> tuple[Number, Transfer]:
    """A buffer sent in buckets: time of the last bucket, and all of them; of nothing there is none to send."""
    if not np.any(message):
        none = repeated(0.0, message)
        return none, Transfer(dp, operation, message, none, none)
    buckets = setting.stack.buckets
    bucket = np.minimum(bucket_bytes(buckets.size, buckets.per_rank, dp.ranks), message)
    count = bucket_count(message, bucket)
    piece = divided(message, count)
    time = collective_time(setting, piece, dp, operation)
    return time, Transfer(dp, operation, piece, time, count)


def _over_replicas(setting: Setting, placed: Groups, scatter: Transfer) -> tuple[Transfer, ...]:
    """The gradient of a shard, all-reduced over the replicas after each scatter inside the shard group."""
    if alone(placed.replicas.ranks):
        return ()
    with term("dp all-reduce over replicas"):
        message = divided(scatter.message, placed.dp.ranks)
        time = np.where(scatter.count > 0, collective_time(setting, message, placed.replicas, "all_reduce"), 0.0)
    return (Transfer(placed.replicas, "all_reduce", message, time, scatter.count),)


def replicated_traffic(
    setting: Setting, block: Block, placed: Groups, parameters: Number, ends: Number, forward: Number, backward: Number
) -> DataTraffic:
    """Gradients once a step, and under a sharded optimizer the weights back; hidden by one micro-batch's passes."""
    zero, hideable = block.structure.zero, setting.overlap_dp
    with term("dp gradients"):
        gradients = gradient_traffic(parameters, setting.gradient)
        operation: Operation = "all_reduce" if zero == 0 else "reduce_scatter"
        tail, transfer = _bucketed(setting, gradients, placed.dp, operation)
        reductions = (transfer, *_over_replicas(setting, placed, transfer))
        for further in reductions[1:]:
            tail = tail + further.time
        exposed = exposed_time(_together(reductions), backward, hideable, tail)
    if zero == 0:
        return DataTraffic(exposed, 0.0, 0.0, reductions)
    shown, gathered = _weights_back(setting, placed.dp, parameters, ends, forward)
    return DataTraffic(exposed + shown, 0.0, 0.0, (*reductions, gathered))


def _together(transfers: tuple[Transfer, ...]) -> Number:
    """Time of several kinds of transfers, one after the other."""
    first, *others = (transfer.total_time for transfer in transfers)
    return sum(others, start=first)


def _weights_back(
    setting: Setting, dp: Group, parameters: Number, ends: Number, forward: Number
) -> tuple[Number, Transfer]:
    """Updated weights gathered once a step, hidden by the next forward of one micro-batch; ends, adapters stay wide."""
    compute = setting.stack.states.compute
    with term("dp weights"):
        if setting.gathered == compute or setting.tuning is not None:
            weights = gradient_traffic(parameters, compute)
        else:
            layers = gradient_traffic(parameters - ends, setting.gathered)
            weights = layers + gradient_traffic(ends, compute)
        tail, gathered = _bucketed(setting, weights, dp, "all_gather")
        return exposed_time(gathered.total_time, forward, setting.overlap_dp, tail), gathered


@dataclass(frozen=True)
class Units:
    """What is sharded and moved unit by unit: parameters of a layer and of a table at the ends, layers and tables of a
    stage, micro-batches of a step, whether there is a pipeline, and a layer's time.
    """

    layer: Number
    table: Number
    layers: Number
    tables: Number
    micro_batches: Number
    pipelined: NDArray[np.bool_]
    forward: Number
    backward: Number

    @property
    def once(self) -> Number:
        """How often a step moves what a pipeline's micro-batches share: once with a pipeline, else in each."""
        return np.where(self.pipelined, 1.0, self.micro_batches)

    def placed(self, each: Number) -> tuple[Number, Number]:
        """A layer's exposed time of what a pipeline's micro-batches share: in every micro-batch, and once a step."""
        return np.where(self.pipelined, 0.0, each), np.where(self.pipelined, repeated(self.layers, each), 0.0)


def _moved(
    setting: Setting, dp: Group, units: Units, element: Number, wide: Number, operation: Operation, times: Number
) -> tuple[Transfer, Transfer]:
    """A layer's weights gathered or gradients scattered, and those of a table at the ends, wide, so often a step."""
    with term(f"dp {operation} of a layer"):
        message = gradient_traffic(units.layer, element)
        time = np.where(message > 0, collective_time(setting, message, dp, operation), 0.0)
        count = np.where(message > 0, repeated(units.layers, times), 0.0)
        layer = Transfer(dp, operation, message, time, count)
    with term(f"dp {operation} of the ends"):
        message = gradient_traffic(units.table, wide)
        time = np.where(units.tables > 0, collective_time(setting, message, dp, operation), 0.0)
        table = Transfer(dp, operation, message, time, repeated(units.tables, times))
    return layer, table


def _scatters(
    setting: Setting, placed: Groups, units: Units, times: Number
) -> tuple[tuple[Transfer, ...], Number, Number]:
    """Gradients scattered over the shards and reduced over the replicas: transfers, time of a layer and of a table."""
    layer, table = _moved(setting, placed.dp, units, setting.gradient, setting.gradient, "reduce_scatter", times)
    layers = (layer, *_over_replicas(setting, placed, layer))
    tables = (table, *_over_replicas(setting, placed, table))
    each, end = (sum((other.time for other in kind[1:]), start=kind[0].time) for kind in (layers, tables))
    return (*layers, *tables), each, end


def sharded_gradients(
    setting: Setting, placed: Groups, parameters: Number, ends: Number, units: Units, forward: Number
) -> DataTraffic:
    """Zero 2: gradients scattered layer by layer in every micro-batch, weights gathered once a step."""
    transfers, scatter, table = _scatters(setting, placed, units, units.micro_batches)
    exposed = exposed_time(scatter, units.backward, setting.overlap_dp, 0.0)
    shown, gathered = _weights_back(setting, placed.dp, parameters, ends, forward)
    return DataTraffic(table + shown, 0.0, exposed, (*transfers, gathered))


def sharded_weights(
    setting: Setting, placed: Groups, units: Units, reduced: Units, *, gathered_again: bool
) -> DataTraffic:
    """FSDP: weights gathered layer by layer forward, and again backward if they were dropped; gradients scattered.

    Those of the ends, which are dropped after backward alone, are gathered once a pass.
    With a pipeline the gradients wait for the last micro-batch, and weights that are not dropped are gathered once. Of
    the ends the first gather and the last scatter of a step have nothing to hide behind.
    """
    hideable = setting.overlap_dp
    times = units.micro_batches if gathered_again else units.once
    gathers = _moved(setting, placed.dp, units, setting.gathered, setting.stack.states.compute, "all_gather", times)
    scatters, scatter, table = _scatters(setting, placed, reduced, units.once)
    gather = gathers[0].time
    ends = gathers[1].time + table
    forward = exposed_time(gather, units.forward, hideable, 0.0)
    if not gathered_again:
        each_forward, once_forward = units.placed(forward)
        each, once = units.placed(exposed_time(scatter, units.backward, hideable, 0.0))
        return DataTraffic(ends + once_forward + once, each_forward, each, (*gathers, *scatters))
    _, once = units.placed(exposed_time(scatter, units.backward, hideable, 0.0))
    both = exposed_time(scatter + gather, units.backward, hideable, 0.0)
    backward = np.where(units.pipelined, exposed_time(gather, units.backward, hideable, 0.0), both)
    return DataTraffic(ends + once, forward, backward, (*gathers, gathers[0], *scatters))
