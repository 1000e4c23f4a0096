"""Time of a collective and of a send over a group: inside the domains and across them."""

from __future__ import annotations

import numpy as np

from costmodel.equations.network.collectives import Operation, blended_time, group_latency
from costmodel.equations.network.topology import two_level_time
from costmodel.estimate.machine.algorithm_table import Level, algorithms
from costmodel.estimate.machine.links import inside_bandwidth, network_rate
from costmodel.estimate.machine.machine import Machine
from costmodel.estimate.machine.process_groups import Group
from costmodel.estimate.shared.results import number
from costmodel.ground.equation import Number, term


def collective_time(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Time of a collective over a group, with the fastest algorithm inside the domains and the fastest across them."""
    inside = inside_time(inputs, message, group, operation)
    if np.all(group.domains == 1):
        return inside
    with term("between domains"):
        across = _fastest(algorithm_times(inputs, message, group, operation, "between"))
        across = across + group_latency(group.domains, inputs.network.start, 0.0)
        if operation == "all_reduce" and inputs.network.least is not None:
            across = np.where(group.domains > 1, np.maximum(across, inputs.network.least), across)
    return two_level_time(inside, across, inputs.network.serial_share)


def inside_time(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Time of a collective inside the fullest domain."""
    with term("inside the domain"):
        return _fastest(algorithm_times(inputs, message, group, operation, "inside"))


def algorithm_times(
    inputs: Machine, message: Number, group: Group, operation: Operation, level: Level
) -> dict[str, Number]:
    """Time of each available algorithm at a level, without the fixed start of a call."""
    found = algorithms(inputs, operation, level)
    return {each.name: each.time(inputs, message, group, operation) for each in found}


def algorithms_taken(inputs: Machine, message: Number, group: Group, operation: Operation) -> tuple[str, ...]:
    """The fastest algorithm inside the domains, and the one between them where the group spans several."""
    levels: list[Level] = []
    if np.all(group.inside > 1):
        levels.append("inside")
    if np.all(group.domains > 1):
        levels.append("between")
    times = (algorithm_times(inputs, message, group, operation, level) for level in levels)
    return tuple(min(each, key=lambda name: number(each[name])) for each in times)


def _fastest(times: dict[str, Number]) -> Number:
    first, *others = times.values()
    for other in others:
        first = np.minimum(first, other)
    return first


def send_time(inputs: Machine, message: Number, group: Group) -> Number:
    """Time of a send to the next stage, over the slowest boundary of the group."""
    fit, network = inputs.collective("send"), inputs.network
    with term("send inside"):
        near = blended_time(fit.start, message, inside_bandwidth(inputs, fit, 2.0), fit.blend)
    with term("send across"):
        rate = network_rate(inputs, network.pair_share, group, "send")
        far = blended_time(network.start, message, rate, fit.blend)
    return np.where(group.domains > 1, far, near)
