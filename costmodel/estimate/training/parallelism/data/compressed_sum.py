"""Traffic of a compressed gradient reduction, and the time to compress and restore."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.sync import USUAL, sync_of
from costmodel.equations.data_parallel.gradient_compression import codec_traffic
from costmodel.equations.data_parallel.synchronisation import parameter_server_time, parameter_server_wire
from costmodel.equations.kernels.roofline import stream_time
from costmodel.equations.network.collectives import Operation, group_latency
from costmodel.equations.network.topology import two_level_time
from costmodel.estimate.machine.collective_time import collective_time, inside_time
from costmodel.estimate.machine.links import network_rate
from costmodel.estimate.machine.process_groups import Group, Transfer
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.data.codecs import SCATTERED, compressed_bytes, practice_of
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term


def summed_as(inputs: TrainingInputs, block: Block, raw: Transfer) -> tuple[Transfer, ...]:
    """The transfers that sum gradients: the collective itself, or the ones for servers or compression."""
    if block.structure.sync != USUAL:
        return (by_servers(inputs, block, raw),)
    if block.structure.compression == "none":
        return (raw,)
    codec, practice = practice_of(block)
    with term("compressed gradients"):
        piece = compressed_bytes(inputs, block) * raw.message
        scattered = raw.operation == "reduce_scatter"
        if practice.sent == "gathered":
            return (_again(inputs, raw, raw.group.ranks * piece, "all_gather"),)
        if practice.sent == "by parts":
            return tuple(_again(inputs, raw, piece, each) for each in ("all_to_all", "all_gather"))
        if scattered and codec.method == "int8":
            return (_again(inputs, raw, piece, "all_to_all"),)
        whole = scattered and codec.method not in SCATTERED
        operation: Operation = "all_reduce" if whole else raw.operation
        if codec.method == "powersgd":  # one for each factor
            half = _again(inputs, raw, piece / 2.0, operation)
            return (replace(half, count=2.0 * raw.count),)
        return (_again(inputs, raw, piece, operation),)


def _again(inputs: TrainingInputs, raw: Transfer, message: Number, operation: Operation) -> Transfer:
    time = np.where(raw.count > 0, collective_time(inputs, message, raw.group, operation), 0.0)
    return Transfer(raw.group, operation, message, time, raw.count)


def codec_time(inputs: TrainingInputs, block: Block, parameters: Number, times: Number) -> Number:
    """Time of a step to compress gradients and to restore their sums; `times`: how often in a step."""
    stated = inputs.case.scenario.assume.compression.codec
    if stated is not None:
        return stated
    _, practice = practice_of(block)
    restored = block.shards if practice.sent == "gathered" else 1.0
    with term("codec"):
        share = compressed_bytes(inputs, block)
        nbytes = codec_traffic(parameters, inputs.widths.reduced, practice.passes, practice.feedback, share, restored)
        return times * stream_time(nbytes, inputs.rates.memory_bandwidth, inputs.rates.memory_share)


def by_servers(inputs: TrainingInputs, block: Block, raw: Transfer) -> Transfer:
    """A gradient sum by parameter servers: inside each domain first, then push to the servers and pull from them."""
    sync = sync_of(block.structure.sync)
    servers = sync.number if sync.way == "parameter-server" else 0.0
    message, group = raw.message, raw.group
    if block.structure.compression != "none":
        message = compressed_bytes(inputs, block) * message
    with term("parameter server"):
        time = np.where(raw.count > 0, _time(inputs, message, group, servers), 0.0)
        further = servers * inputs.case.node.accelerators
        sent = parameter_server_wire(message, group.ranks, further)
    return replace(raw, message=message, time=time, sent=sent)


def _time(inputs: TrainingInputs, message: Number, group: Group, servers: float) -> Number:
    inside = inside_time(inputs, message, group, "all_reduce")
    if np.all(group.domains == 1):
        return inside
    with term("between machines"):
        rate = network_rate(inputs, inputs.network_share, group, "all_reduce")
        across = parameter_server_time(message / group.fewest, group.domains, servers, rate)
        across = across + group_latency(group.domains, inputs.network.start, 0.0)
    return np.where(group.domains > 1, two_level_time(inside, across, inputs.network.serial_share), inside)
