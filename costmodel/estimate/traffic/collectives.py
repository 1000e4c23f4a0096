"""Time of a collective and of a send over a group: inside the domains and across them."""

from __future__ import annotations

import numpy as np

from costmodel.equation import Number, term
from costmodel.equations.collectives import (
    Operation,
    blended_time,
    group_latency,
    handled_bytes,
    ring_time,
    tree_all_reduce_time,
    wire_bytes,
)
from costmodel.equations.counting import divided
from costmodel.equations.topology import two_level_time
from costmodel.estimate.machine import Machine
from costmodel.estimate.traffic.groups import Group
from costmodel.estimate.traffic.links import inside_bandwidth, network_rate


def collective_time(setting: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Time of a collective over a group: inside the domains and across them, the faster algorithm across."""
    fit, network = setting.collective(operation), setting.network
    with term("inside the domain"):
        latency = group_latency(group.inside, fit.start, fit.hop)
        wire = handled_bytes(wire_bytes(message, group.inside, operation=operation), group.inside, fit.own)
        inside = blended_time(latency, wire, inside_bandwidth(setting, fit, group.inside), fit.blend)
    if np.all(group.domains == 1):
        return inside
    with term("between domains"):
        rate = network_rate(setting, setting.network_share, group, operation)
        part = message if operation == "all_to_all" else divided(message, group.fewest)  # there each sends its own
        across = ring_time(part, group.domains, rate, network.ring_hop, operation=operation)
        if operation == "all_reduce":
            across = np.minimum(across, tree_all_reduce_time(part, group.domains, rate, network.tree_hop))
        across = across + group_latency(group.domains, network.start, 0.0)
    return two_level_time(inside, across, network.serial_share)


def send_time(setting: Machine, message: Number, group: Group) -> Number:
    """Time of a send to the next stage, over the slowest boundary of the group."""
    fit, network = setting.collective("send"), setting.network
    with term("send inside"):
        near = blended_time(fit.start, message, inside_bandwidth(setting, fit, 2.0), fit.blend)
    with term("send across"):
        rate = network_rate(setting, network.pair_share, group, "send")
        far = blended_time(network.start, message, rate, fit.blend)
    return np.where(group.domains > 1, far, near)
