"""Rates of the links that groups of ranks talk over."""

from __future__ import annotations

from costmodel.documents.hardware import CollectiveFit
from costmodel.equation import Number, term
from costmodel.equations.counting import repeated
from costmodel.equations.topology import carried_over, interface_bandwidth, link_bandwidth, spine_bandwidth
from costmodel.estimate.setting import Setting


def interface(setting: Setting, share: float) -> Number:
    """What one accelerator gets of its node's interfaces."""
    node, fabric = setting.case.node, setting.case.scale_out
    return interface_bandwidth(node.scale_out.nics, fabric.bandwidth, node.accelerators, share)


def between_pods(setting: Setting, rate: Number, extent: Number) -> Number:
    """The network's rate for a group that reaches so far, less where that is over the end of a pod."""
    cluster = setting.case.scenario.cluster
    if cluster.pod is None:
        return rate
    with term("pod"):
        pod = repeated(cluster.pod, setting.case.node.accelerators)
        return spine_bandwidth(rate, extent, pod, cluster.oversubscription)


def link_of(setting: Setting, ranks: Number) -> Number:
    """The link of one of so many ranks of a domain."""
    full, topology = setting.case.scale_up.bandwidth, setting.case.node.scale_up.topology
    with term("link"):
        return link_bandwidth(full, setting.pair_bandwidth, setting.host_bandwidth, ranks, topology=topology)


def inside_bandwidth(setting: Setting, fit: CollectiveFit, ranks: Number) -> Number:
    """What large collectives reach between so many ranks of a domain: the fit, carried over to these links."""
    return carried_over(fit.bandwidth, link_of(setting, ranks), fit.link)
