"""Gradients summed by parameter servers: on the workers' machines and on extra machines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.sync import sync_of
from costmodel.equations.data_parallel.parameter_server import parameter_server_time, parameter_server_wire
from costmodel.equations.network.collectives import group_latency
from costmodel.equations.network.topology import two_level_time
from costmodel.estimate.machine.collective_time import inside_time
from costmodel.estimate.machine.links import network_rate
from costmodel.estimate.machine.process_groups import Group, Transfer
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.data.codecs import compressed_bytes
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term


def by_servers(inputs: TrainingInputs, block: Block, raw: Transfer) -> Transfer:
    """A sum of gradients: inside each domain first, then pushed to the servers and pulled from them."""
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
