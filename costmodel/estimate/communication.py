"""Who talks over which link, how often, how long."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from costmodel.equation import Number, term
from costmodel.equations.collectives import (
    Operation,
    activation_message,
    blended_time,
    group_latency,
    handled_bytes,
    ring_time,
    tree_all_reduce_time,
    wire_bytes,
)
from costmodel.equations.counting import divided, repeated, tokens_in_micro_batch
from costmodel.equations.overlap import bucket_bytes, bucket_count, exposed_sends, exposed_time
from costmodel.equations.states import gradient_traffic
from costmodel.equations.topology import (
    domains_spanned,
    fewest_inside,
    ranks_inside,
    two_level_time,
)
from costmodel.estimate.block import Block
from costmodel.estimate.kernels import Pass
from costmodel.estimate.links import between_pods, inside_bandwidth, interface
from costmodel.estimate.setting import Setting


@dataclass(frozen=True)
class Group:
    """Ranks that talk to each other, as they lie on the topology."""

    name: str
    ranks: Number
    stride: Number
    inside: Number
    domains: Number


@dataclass(frozen=True)
class Transfer:
    """One kind of collective a rank takes part in, and how often in a step."""

    group: Group
    operation: Operation
    message: Number
    time: Number
    count: Number

    @property
    def axis(self) -> str:
        """The parallelism it belongs to: tp, ep, dp or pp."""
        return {"embedding": "dp", "ends": "tp", "etp": "ep", "edp": "dp"}.get(self.group.name, self.group.name)

    @property
    def total_time(self) -> Number:
        """Time of all of them, hidden or not."""
        return repeated(self.count, self.time)

    @property
    def volume(self) -> Number:
        """Bytes a rank sends for all of them."""
        return repeated(self.count, wire_bytes(self.message, self.group.ranks, operation=self.operation))


def group(setting: Setting, name: str, ranks: Number, stride: Number) -> Group:
    """A group whose neighbours lie `stride` ranks apart."""
    with term(f"{name} group"):
        inside = ranks_inside(ranks, stride, setting.domain)
        return Group(name, ranks, stride, inside, domains_spanned(ranks, inside))


@dataclass(frozen=True)
class Groups:
    """The groups of a plan in the order they are placed, innermost first."""

    tp: Group
    dp: Group
    pp: Group


def groups(setting: Setting, block: Block) -> Groups:
    """Groups placed on the topology innermost first: tensor parallel, then as the plan's order says."""
    tp, dp, pp = block.tp, block.dp, block.pp
    with term("placement"):
        inner_dp = block.structure.order == "tp-dp-pp"
        after_tp = repeated(tp, dp if inner_dp else pp)
        dp_stride, pp_stride = (tp, after_tp) if inner_dp else (after_tp, tp)
    return Groups(
        group(setting, "tp", tp, 1.0), group(setting, "dp", dp, dp_stride), group(setting, "pp", pp, pp_stride)
    )


def collective_time(setting: Setting, message: Number, group: Group, operation: Operation) -> Number:
    """Time of a collective over a group: inside the domains and across them, the faster algorithm across."""
    fit, network = setting.collective(operation), setting.network
    with term("inside the domain"):
        latency = group_latency(group.inside, fit.start, fit.hop)
        wire = handled_bytes(wire_bytes(message, group.inside, operation=operation), group.inside, fit.own)
        inside = blended_time(latency, wire, inside_bandwidth(setting, fit, group.inside), fit.blend)
    if np.all(group.domains == 1):
        return inside
    with term("between domains"):
        rate = between_pods(setting, interface(setting, setting.network_share), repeated(group.ranks, group.stride))
        part = divided(message, fewest_inside(group.ranks, group.inside, group.domains))
        across = ring_time(part, group.domains, rate, network.ring_hop, operation=operation)
        if operation == "all_reduce":
            across = np.minimum(across, tree_all_reduce_time(part, group.domains, rate, network.tree_hop))
        across = across + group_latency(group.domains, network.start, 0.0)
    return two_level_time(inside, across, network.serial_share)


def send_time(setting: Setting, message: Number, group: Group) -> Number:
    """Time of a send to the next stage, over the slowest boundary of the group."""
    fit, network = setting.collective("send"), setting.network
    with term("send inside"):
        near = blended_time(fit.start, message, inside_bandwidth(setting, fit, 2.0), fit.blend)
    with term("send across"):
        extent = repeated(group.ranks, group.stride)
        rate = between_pods(setting, interface(setting, network.pair_share), extent)
        far = blended_time(network.start, message, rate, fit.blend)
    return np.where(group.domains > 1, far, near)


@dataclass(frozen=True)
class TensorTraffic:
    """Exposed tensor-parallel time of a layer and of the ends, for one micro-batch.

    A transfer is its operation, how often a layer makes it, how often again under full recompute, and its time.
    """

    forward: Number
    backward: Number
    recomputed: Number
    end: Number
    message: Number
    transfers: tuple[tuple[Operation, float, float, Number], ...]


def tensor_traffic(
    setting: Setting, tp: Number, micro_batch: Number, forward: Pass, exchanges: float, *, sequence_parallel: bool
) -> TensorTraffic:
    """Two exchanges a layer and direction, one where its halves are parallel.

    Sequence parallelism halves each and gathers inputs again in backward.
    """
    tokens = tokens_in_micro_batch(micro_batch, setting.sequence)
    message = activation_message(tokens, setting.model.hidden, setting.element)
    tp_group = group(setting, "tp", tp, 1.0)
    hideable, twice = setting.overlap_tp, exchanges + exchanges
    repeats = exchanges - 1.0 if setting.stops_early else exchanges  # the last matmul's own is not made again
    if not sequence_parallel:
        with term("tp all-reduce"):
            time = collective_time(setting, message, tp_group, "all_reduce")
        both = repeated(exchanges, time)
        exposed = exposed_time(both, forward.matmul, hideable, 0.0)
        anew = exposed_time(repeated(repeats, time), forward.matmul, hideable, 0.0)
        return TensorTraffic(exposed, exposed, anew, time, message, (("all_reduce", twice, repeats, time),))
    with term("tp all-gather"):
        gather = collective_time(setting, message, tp_group, "all_gather")
    with term("tp reduce-scatter"):
        scatter = collective_time(setting, message, tp_group, "reduce_scatter")
    gathered, scattered = repeated(exchanges, gather), repeated(exchanges, scatter)
    exposed = exposed_time(gathered + scattered, forward.matmul, hideable, 0.0)
    anew = exposed_time(gathered + repeated(repeats, scatter), forward.matmul, hideable, 0.0)
    with term("tp all-gather again for weight gradients"):
        again = exposed_time(gathered, forward.matmul, 1.0, 0.0)
    gathers: tuple[Operation, float, float, Number] = ("all_gather", twice + exchanges, exchanges, gather)
    scatters: tuple[Operation, float, float, Number] = ("reduce_scatter", twice, repeats, scatter)
    return TensorTraffic(exposed, exposed + again, anew, gather, message, (gathers, scatters))


@dataclass(frozen=True)
class DataTraffic:
    """Data-parallel time of a step that compute does not hide, and sharded gathers within the layers."""

    exposed: Number
    layer_forward: Number
    layer_backward: Number
    transfers: tuple[Transfer, ...] = field(default=())


def _bucketed(setting: Setting, message: Number, dp: Group, operation: Operation) -> tuple[Number, Transfer]:
    """A buffer sent in buckets: time of the last bucket, and all of them."""
    buckets = setting.stack.buckets
    bucket = np.minimum(bucket_bytes(buckets.size, buckets.per_rank, dp.ranks), message)
    count = bucket_count(message, bucket)
    piece = divided(message, count)
    time = collective_time(setting, piece, dp, operation)
    return time, Transfer(dp, operation, piece, time, count)


def replicated_traffic(
    setting: Setting, block: Block, dp: Group, parameters: Number, ends: Number, forward: Number, backward: Number
) -> DataTraffic:
    """Gradients once a step, and under a sharded optimizer the weights back; hidden by one micro-batch's passes."""
    zero, hideable = block.structure.zero, setting.overlap_dp
    with term("dp gradients"):
        gradients = gradient_traffic(parameters, setting.gradient)
        operation: Operation = "all_reduce" if zero == 0 else "reduce_scatter"
        tail, transfer = _bucketed(setting, gradients, dp, operation)
        exposed = exposed_time(transfer.total_time, backward, hideable, tail)
    if zero == 0:
        return DataTraffic(exposed, 0.0, 0.0, (transfer,))
    shown, gathered = _weights_back(setting, dp, parameters, ends, forward)
    return DataTraffic(exposed + shown, 0.0, 0.0, (transfer, gathered))


def _weights_back(
    setting: Setting, dp: Group, parameters: Number, ends: Number, forward: Number
) -> tuple[Number, Transfer]:
    """Updated weights gathered once a step, hidden by the next forward of one micro-batch; the ends stay wide."""
    compute = setting.stack.states.compute
    with term("dp weights"):
        if setting.gathered == compute:
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
        time = collective_time(setting, message, dp, operation)
        layer = Transfer(dp, operation, message, time, repeated(units.layers, times))
    with term(f"dp {operation} of the ends"):
        message = gradient_traffic(units.table, wide)
        time = np.where(units.tables > 0, collective_time(setting, message, dp, operation), 0.0)
        table = Transfer(dp, operation, message, time, repeated(units.tables, times))
    return layer, table


def sharded_gradients(
    setting: Setting, dp: Group, parameters: Number, ends: Number, units: Units, forward: Number
) -> DataTraffic:
    """Zero 2: gradients scattered layer by layer in every micro-batch, weights gathered once a step."""
    scatter, table = _moved(
        setting, dp, units, setting.gradient, setting.gradient, "reduce_scatter", units.micro_batches
    )
    exposed = exposed_time(scatter.time, units.backward, setting.overlap_dp, 0.0)
    shown, gathered = _weights_back(setting, dp, parameters, ends, forward)
    return DataTraffic(table.time + shown, 0.0, exposed, (scatter, table, gathered))


def sharded_weights(setting: Setting, dp: Group, units: Units, *, gathered_again: bool) -> DataTraffic:
    """FSDP: weights gathered layer by layer forward, and again backward if they were dropped; gradients scattered.

    With a pipeline the gradients wait for the last micro-batch, and weights that are not dropped are gathered once. Of
    the ends the first gather and the last scatter of a step have nothing to hide behind.
    """
    hideable = setting.overlap_dp
    times = units.micro_batches if gathered_again else units.once
    gathers = _moved(setting, dp, units, setting.gathered, setting.stack.states.compute, "all_gather", times)
    scatters = _moved(setting, dp, units, setting.gradient, setting.gradient, "reduce_scatter", units.once)
    gather, scatter = gathers[0].time, scatters[0].time
    ends = gathers[1].time + scatters[1].time
    forward = exposed_time(gather, units.forward, hideable, 0.0)
    if not gathered_again:
        each_forward, once_forward = units.placed(forward)
        each, once = units.placed(exposed_time(scatter, units.backward, hideable, 0.0))
        return DataTraffic(ends + once_forward + once, each_forward, each, (*gathers, *scatters))
    _, once = units.placed(exposed_time(scatter, units.backward, hideable, 0.0))
    both = exposed_time(scatter + gather, units.backward, hideable, 0.0)
    backward = np.where(units.pipelined, exposed_time(gather, units.backward, hideable, 0.0), both)
    return DataTraffic(ends + once, forward, backward, (*gathers, *gathers, *scatters))


@dataclass(frozen=True)
class PipelineTraffic:
    """Sends between stages."""

    exposed: Number
    transfers: tuple[Transfer, ...]


def pipeline_traffic(
    setting: Setting, block: Block, pp: Group, message: Number, micro_batches: Number
) -> PipelineTraffic:
    """Activations forward and their gradients backward over each boundary; every tp rank sends its part."""
    with term("pp send"):
        part = divided(message, block.tp)
        time = send_time(setting, part, pp)
    exposed = exposed_sends(block.pp, micro_batches, block.vpp, time, setting.overlap_pp)
    crossings = repeated(2.0, repeated(block.vpp, micro_batches))
    count = np.where(block.pp > 1, crossings, 0.0)
    return PipelineTraffic(exposed, (Transfer(pp, "send", part, time, count),))
