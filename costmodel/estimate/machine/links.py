"""Rates of the links between the ranks of a group."""

from __future__ import annotations

import math

import numpy as np

from costmodel.documents.schemas.efficiency import CollectiveFit
from costmodel.equations.network.collectives import Operation
from costmodel.equations.network.topology import carried_over, link_bandwidth, off_rail, rail_bandwidth, spine_bandwidth
from costmodel.estimate.machine.machine import Machine
from costmodel.estimate.machine.node_in_use import interface_rate
from costmodel.estimate.machine.process_groups import Group
from costmodel.ground.equation import Number, term


def network_rate(inputs: Machine, share: float, group: Group, operation: Operation) -> Number:
    """Network rate of a rank in a group: lower if the group leaves its rail or its pod."""
    cluster, accelerators = inputs.case.cluster, inputs.case.node.accelerators
    rate = own = interface_rate(inputs.case, share)
    if (bound := inputs.bound_between(group.name)) < math.inf and bound < own:
        rate = own = bound
    if cluster.rails != "none":
        with term("rail"):
            off = off_rail(group.stride, accelerators)
            if operation == "all_to_all":
                off = np.where(group.inside > 1, 1.0, off)  # members of one node talk to every place of the others
            link = inputs.case.scale_up.bandwidth
            rate = rail_bandwidth(own, off, link, cluster.oversubscription, rails=cluster.rails)
    if cluster.pod is None:
        return rate
    with term("pod"):
        pod = cluster.pod * accelerators
        return np.minimum(rate, spine_bandwidth(own, group.extent, pod, cluster.oversubscription))


def link_of(inputs: Machine, ranks: Number) -> Number:
    """Bandwidth of one rank's link in a domain with so many ranks."""
    full, topology = inputs.case.scale_up.bandwidth, inputs.case.node.scale_up.topology
    with term("link"):
        return link_bandwidth(full, inputs.pair_bandwidth, inputs.host_bandwidth, ranks, topology=topology)


def inside_bandwidth(inputs: Machine, fit: CollectiveFit, ranks: Number) -> Number:
    """Bandwidth of large collectives between so many ranks of a domain: the fit, scaled to this machine's links."""
    return carried_over(fit.bandwidth, link_of(inputs, ranks), fit.link)
