"""Time of a collective and of a send over a group: inside the domains and across them."""

from __future__ import annotations

import numpy as np

from costmodel.equations.network.collectives import (
    Operation,
    blended_time,
    group_latency,
    handled_bytes,
    ring_time,
    tree_all_reduce_time,
    wire_bytes,
)
from costmodel.equations.network.topology import two_level_time
from costmodel.estimate.machine.links import inside_bandwidth, network_rate
from costmodel.estimate.machine.machine import Machine
from costmodel.estimate.machine.process_groups import Group
from costmodel.ground.equation import Number, term


def collective_time(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Time of a collective over a group: inside the domains and across them, the faster algorithm across."""
    inside = inside_time(inputs, message, group, operation)
    if np.all(group.domains == 1):
        return inside
    with term("between domains"):
        times = algorithm_times(inputs, message, group, operation)
        across = np.minimum(times["ring"], times["tree"]) if "tree" in times else times["ring"]
        across = across + group_latency(group.domains, inputs.network.start, 0.0)
    return two_level_time(inside, across, inputs.network.serial_share)


def inside_time(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Time of a collective inside the fullest domain."""
    fit = inputs.collective(operation)
    with term("inside the domain"):
        latency = group_latency(group.inside, fit.start, fit.hop)
        wire = handled_bytes(wire_bytes(message, group.inside, operation=operation), group.inside, fit.own)
        return blended_time(latency, wire, inside_bandwidth(inputs, fit, group.inside), fit.blend)


def algorithm_times(inputs: Machine, message: Number, group: Group, operation: Operation) -> dict[str, Number]:
    """Time of each algorithm between domains, without the start of a call; that of a ring first."""
    network = inputs.network
    rate = network_rate(inputs, inputs.network_share, group, operation)
    part = message if operation == "all_to_all" else message / group.fewest  # there each sends its own
    times = {"ring": ring_time(part, group.domains, rate, network.ring_hop, operation=operation)}
    if operation == "all_reduce":
        times["tree"] = tree_all_reduce_time(part, group.domains, rate, network.tree_hop)
    return times


def send_time(inputs: Machine, message: Number, group: Group) -> Number:
    """Time of a send to the next stage, over the slowest boundary of the group."""
    fit, network = inputs.collective("send"), inputs.network
    with term("send inside"):
        near = blended_time(fit.start, message, inside_bandwidth(inputs, fit, 2.0), fit.blend)
    with term("send across"):
        rate = network_rate(inputs, network.pair_share, group, "send")
        far = blended_time(network.start, message, rate, fit.blend)
    return np.where(group.domains > 1, far, near)
