"""Process groups and their traffic: the node in use, links of a group, and the exchange of tokens with experts."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario
from costmodel.documents.schemas.efficiency import CollectiveFit, NetworkFit, Protocols
from costmodel.equations.kernels.roofline import stream_time
from costmodel.equations.layers.experts import dispatch_bytes
from costmodel.equations.network.collectives import Operation, wire_bytes
from costmodel.equations.network.topology import (
    behind_host_link,
    carried_over,
    domain_in_use,
    domains_filled,
    domains_spanned,
    fewest_inside,
    first_inside,
    group_place,
    interface_bandwidth,
    interfaces_in_use,
    link_bandwidth,
    off_rail,
    rail_bandwidth,
    ranks_in_whole_groups,
    ranks_inside,
    spine_bandwidth,
    two_level_time,
)
from costmodel.equations.parallelism.counts import remainder, world_size
from costmodel.estimate.shared.plan_batch import Block, Structure, largest, memoized, single_rank
from costmodel.ground.counts import PLAN_SIZES
from costmodel.ground.equation import Number, term
from costmodel.ground.errors import fail
from costmodel.ground.record import record
from costmodel.ground.units import Figure


def domain_of(case: LoadedScenario, ranks: Number, *, even: bool = True) -> Number:
    """Accelerators of a scale-up domain that the job uses: whole nodes if the domain is a rack, else a part of a node.

    even: as many of each rack if it can; only the domain of a rack depends on the ranks of the job
    """
    node = case.node
    whole: Number = node.scale_up.domain
    counted = node.scale_up.accelerators or node.built
    if node.accelerators != counted:
        with term("domain"):
            whole = domain_in_use(whole, node.accelerators, counted)
    size, per_node = float(whole), int(node.accelerators)
    taken = (
        float(math.gcd(int(size), per_node))
        if size <= per_node
        else _ranks_of_whole_nodes(size, per_node, int(ranks), even=even)
    )
    if taken == size:
        return whole
    place = getattr(node.scale_up.domain, "place", None)
    return Figure(taken, place and replace(place, path=f"{place.path}: those of {size:g} that the job takes"))


@functools.lru_cache(maxsize=64)
def _ranks_of_whole_nodes(domain: float, per_node: int, ranks: int, *, even: bool) -> float:
    """Ranks of a domain that spans several nodes, if a job takes whole nodes with `per_node` accelerators.

    even: as many of each domain if possible
    """
    if not even:
        return float(min(int(domain) - remainder(int(domain), per_node), ranks))
    nodes = range(per_node, int(min(domain, ranks)) + 1, per_node)
    most = max(count for count in nodes if math.gcd(count, ranks) == count)
    return domain if most != ranks and most + most <= domain else float(most)


def interface_rate(case: LoadedScenario, share: float) -> Number:
    """Network rate of one accelerator: of the interfaces in use, limited by its host link."""
    nics, port, host = _interfaces(case), case.scale_out.bandwidth, case.host
    rate = interface_bandwidth(nics, port, case.node.accelerators, share)
    if host is None or case.node.scale_out.on_chip or nics <= case.node.accelerators:
        return rate
    with term("host link"):
        return behind_host_link(rate, port, host.bandwidth, share)


def _interfaces(case: LoadedScenario) -> Number:
    """Network interfaces of a node that the job uses."""
    node = case.node
    sharing = node.scale_out.accelerators or node.built
    if node.accelerators == sharing:
        return node.scale_out.nics
    with term("interfaces"):
        return interfaces_in_use(node.scale_out.nics, node.accelerators, sharing)


def is_limited_by_host_link(case: LoadedScenario) -> bool:
    """Whether the link to the host limits the network rate of an accelerator."""
    carried = interface_bandwidth(_interfaces(case), case.scale_out.bandwidth, case.node.accelerators, 1.0)
    return bool(interface_rate(case, 1.0) < carried)


def outruns_host_link(case: LoadedScenario) -> bool:
    """Whether the one interface of an accelerator, taken at its own rate, is faster than its link to the host."""
    if case.host is None or case.node.scale_out.on_chip or is_limited_by_host_link(case):
        return False
    return case.scenario.cluster.nodes > 1 and bool(interface_rate(case, 1.0) > case.host.bandwidth)


def site_batch(case: ResolvedScenario) -> float:
    """Sequences of a step at one site; an error if the sites do not divide the sequences or the nodes."""
    plan, batch = case.scenario.plan, case.scenario.workload.global_batch
    if plan is None or plan.sites is None:
        return batch
    count, place = plan.sites.count, case.place("plan.sites.count", "plan.sites")
    if case.groups:
        raise fail("D010", "sites need equal nodes, but cluster.groups has several kinds", place, "leave one out")
    for name, amount in (("nodes", case.cluster.nodes), ("sequences of a step", batch)):
        if remainder(amount, count) != 0:
            sentence = f"{amount:g} {name} do not divide over {count:g} sites"
            raise fail("D010", sentence, place, "another number of sites")
    with term("of a site"):
        return float(batch / count)


def slowest_link(case: ResolvedScenario, share: float) -> float:
    """Share of its rate that a network interface reaches, lower if the scenario assumes a slow link."""
    slow = case.scenario.assume.stragglers.slow_link
    if slow is None:
        return share
    with term("slow link"):
        return float(slow * share)


def with_interface_rate(case: ResolvedScenario, bandwidth: float) -> ResolvedScenario:
    """A scenario with network interfaces of another rate."""
    return replace(case, scale_out=case.scale_out.model_copy(update={"bandwidth": bandwidth}))


def has_nvls_fit(case: LoadedScenario) -> bool:
    """Whether the domain's switches can sum (NVLS) and a fit of their rate exists."""
    switched = case.scale_up.reduces and case.node.scale_up.topology == "switch"
    return switched and "nvls" in case.efficiency.alone


# Accelerators on their links, as groups of ranks see them: what training and serving share.

_STAND_INS = {"reduce": "reduce_scatter"}  # that adds up too; all others move bytes as an all-gather does


@dataclass(frozen=True, eq=False)
class Machine:
    """The cluster of a loaded scenario, with the fits of its collectives."""

    case: LoadedScenario
    collectives: dict[str, CollectiveFit]
    network: NetworkFit
    network_share: float
    algorithms: tuple[str, ...]  # of all-reduces beside rings and what the fits hold

    @property
    def ranks(self) -> Number:
        """Accelerators of the whole cluster; a job uses all of them."""
        return world_size(self.case.cluster.nodes, self.case.node.accelerators)

    @property
    def usable_memory(self) -> float:
        """Bytes of an accelerator's memory that programs may use."""
        return self.case.accelerator.memory.usable

    @property
    def domain(self) -> Number:
        """Accelerators of a scale-up domain that the job uses."""
        return domain_of(self.case, self.ranks)

    @property
    def pair_bandwidth(self) -> float:
        """Bandwidth between one pair of accelerators in the domain; with a switch, their full bandwidth."""
        return self.case.node.scale_up.pair_bandwidth or self.case.scale_up.bandwidth

    @property
    def host_bandwidth(self) -> float:
        """Bandwidth of the link to the host, which accelerators without a common fabric use."""
        return (self.case.host or self.case.scale_up).bandwidth

    @property
    def protocols(self) -> Protocols:
        """NCCL's protocols between domains: those of this network, else those that all have in common."""
        common = self.case.common.network
        known = self.network.protocols or (common and common.protocols)
        assert known
        return known

    def fitted_by(self, operation: Operation) -> str:
        """The collective whose fit an operation uses inside the scale-up domain: another one if it has no fit."""
        return operation if operation in self.collectives else _STAND_INS.get(operation, "all_gather")

    def bound_between(self, axis: str) -> float:
        """Upper bound [B/s] on an accelerator's rate to other nodes in the named group; infinite unless overridden."""
        del axis
        return math.inf

    def collective(self, operation: Operation) -> CollectiveFit:
        """The fit of a collective inside the scale-up domain."""
        return self.collectives[self.fitted_by(operation)]


@record
class Group:
    """Ranks that communicate, as placed on the topology: `inside` in the fullest domain, `fewest` in another."""

    name: str
    ranks: Number
    stride: Number
    inside: Number
    fewest: Number
    domains: Number
    extent: Number


@record
class Transfer:
    """One kind of collective that a rank takes part in, and its count in a step.

    `carried` are the bytes that a rank sends over the slowest link, where its message does not determine them.
    """

    group: Group
    operation: Operation
    message: Number
    time: Number
    count: Number
    carried: Number | None = None
    sent: Number | None = None  # bytes that a rank sends for one, where no bandwidth-optimal collective is used

    @property
    def axis(self) -> str:
        """The parallelism it belongs to: tp, cp, ep, dp or pp."""
        return AXES.get(self.group.name, self.group.name)

    @functools.cached_property
    def total_time(self) -> Number:
        """Time of all calls in a step, hidden or not."""
        return self.count * self.time

    @functools.cached_property
    def volume(self) -> Number:
        """Bytes that a rank sends in all calls of a step."""
        if self.sent is not None:
            return self.count * self.sent
        return self.count * wire_bytes(self.message, self.group.ranks, operation=self.operation)


@record
class Exchange:
    """One kind of collective in a layer for one micro-batch, with its counts in forward, backward and recompute."""

    group: Group
    operation: Operation
    message: Number
    time: Number
    forward: Number
    backward: Number
    again: Number
    carried: Number | None = None

    def of_step(self, layers: Number, repeats: Number) -> Transfer:
        """The transfer of a whole step: `layers` layers and micro-batches, a share `repeats` of them recomputed."""
        each = self.forward + self.backward + repeats * self.again
        count = np.where(self.group.ranks > 1, each * layers, 0.0)
        return Transfer(self.group, self.operation, self.message, self.time, count, self.carried)


@record
class LayerTraffic:
    """The exposed communication time of one parallel axis in a layer for one micro-batch, and its collectives.

    `axis` is the category of the time. Backward includes the exchanges of forward that recompute repeats.
    """

    axis: str
    forward: Number = 0.0
    backward: Number = 0.0
    exchanges: tuple[Exchange, ...] = ()


AXES = {size.key: size.counted for size in PLAN_SIZES if size.counted}
AXES |= {"embedding": "dp", "replicas": "dp", "ends": "tp", "edp": "dp", "sites": "dp"}


def group(inputs: Machine, name: str, ranks: Number, stride: Number, whole: Number = 1.0) -> Group:
    """Places a group whose neighbours lie `stride` ranks apart; the next group begins after its last rank.

    whole: ranks that a scheduler places together in one domain; what they leave of it is idle
    """
    with term(f"{name} group"):
        extent, domain = ranks * stride, inputs.domain
        if np.any(remainder(domain, whole) != 0):
            domain = ranks_in_whole_groups(domain, whole)
        return _place_group(domain, name, ranks, stride, group_place(extent, stride, domain), extent)


def embedding_group(inputs: Machine, pp: Group) -> Group:
    """The first and the last stage of a pipeline, which share the embedding."""
    with term("embedding group"):
        ranks = np.where(pp.ranks > 1, 2.0, 1.0)
        apart = np.maximum(pp.stride * (pp.ranks - 1), 1.0)
        place = group_place(pp.extent, pp.stride, inputs.domain)
        return _place_group(inputs.domain, "embedding", ranks, apart, place, ranks * apart)


def _place_group(domain: Number, name: str, ranks: Number, stride: Number, place: Number, extent: Number) -> Group:
    """A group of `ranks` that lie `stride` apart from rank `place` on, with the ranks that share each domain."""
    domains = domains_spanned(ranks, stride, domain, place)
    first = first_inside(stride, domain, place)
    inside = ranks_inside(ranks, stride, domain, first, domains)
    fewest = fewest_inside(ranks, first, domains, inside)
    return Group(name, ranks, stride, inside, fewest, domains, extent)


def merged_group(inputs: Machine, name: str, one: Group, other: Group) -> Group:
    """The group of two axes together: contiguous ranks if one axis follows the other, else scattered ranks."""
    with term(f"{name} group"):
        ranks, inside = one.ranks * other.ranks, one.inside * other.inside
        extent = np.maximum(one.extent, other.extent)
        stride = np.minimum(one.stride, other.stride)
        apart = np.maximum(one.stride, other.stride)
        run = np.where(one.stride <= other.stride, one.extent, other.extent) == apart
        domains = largest(domains_filled(ranks, inside), one.domains, other.domains)
        domains = np.minimum(domains, inputs.ranks / inputs.domain)
        fewest = fewest_inside(ranks, inside, domains, inside)
    whole = group(inputs, name, ranks, stride)
    return Group(
        name,
        ranks,
        stride,
        np.where(run, whole.inside, inside),
        np.where(run, whole.fewest, fewest),
        np.where(run, whole.domains, domains),
        extent,
    )


@record
class Groups:
    """The groups of a plan; `dp` are the ranks that shard and reduce gradients: dp and cp, without shard replicas."""

    tp: Group
    cp: Group
    dp: Group
    replicas: Group
    pp: Group


def strides(block: Block) -> dict[str, Number]:
    """The distance in ranks between neighbours on each axis, innermost first, in the plan's order."""
    placed: dict[str, Number] = {}
    stride: Number = 1.0
    with term("placement"):
        for name in block.structure.order.split("-"):
            placed[name] = stride
            stride = stride * getattr(block, name)
    return placed


@memoized("order")
def groups(inputs: Machine, block: Block) -> Groups:
    """The groups of a plan, placed on the topology in its order, innermost first; shards lie inside HSDP replicas."""
    lie = strides(block)
    with term("placement"):
        shards = block.dp / block.dp_replicate
        replica_stride = lie["dp"] * shards
    cp = group(inputs, "cp", block.cp, lie["cp"])
    data = group(inputs, "dp", shards, lie["dp"])
    return Groups(
        group(inputs, "tp", block.tp, lie["tp"]),
        cp,
        data if single_rank(block.cp) else merged_group(inputs, "dp", cp, data),
        group(inputs, "replicas", block.dp_replicate, replica_stride),
        group(inputs, "pp", block.pp, lie["pp"]),
    )


def without_irrelevant_order(block: Block) -> Block:
    """The plans with the default order if cp = ep = etp = 1, because layer traffic then does not depend on it.

    Structures that differ in it alone then share that work.
    """
    if not (single_rank(block.cp) and single_rank(block.ep) and single_rank(block.etp)):
        return block
    return block.under(replace(block.structure, order=Structure.order))


# Rates of the links between the ranks of a group.


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
    """Bandwidth of one rank's link in a domain with the given number of ranks."""
    full, topology = inputs.case.scale_up.bandwidth, inputs.case.node.scale_up.topology
    with term("link"):
        return link_bandwidth(full, inputs.pair_bandwidth, inputs.host_bandwidth, ranks, topology=topology)


def collective_link_rate(inputs: Machine, fit: CollectiveFit, ranks: Number) -> Number:
    """Bandwidth of one rank [B/s], one way, that large messages of a collective reach in a domain with this many ranks:
    the fitted one, scaled to this machine's links.
    """
    return carried_over(fit.bandwidth, link_of(inputs, ranks), fit.link)


class DispatchKernels(Protocol):
    """Share of the link inside a domain that kernels of dispatch reach, and the fixed time of a call."""

    @property
    def inside_share(self) -> float:
        """Share of the link's bandwidth inside a domain."""

    @property
    def start(self) -> float:
        """Fixed time of a call [s]."""


@record
class SentTokens:
    """Tokens of a rank, with the copies of each that are sent inside its domain and across domains."""

    tokens: Number
    hidden: Number
    element: Number
    inside: Number
    across: Number


def dispatch_time(
    inputs: Machine, kernels: DispatchKernels, sent: SentTokens, ep: Group, across_share: float = 1.0
) -> tuple[Number, Number]:
    """Time of a dispatch, and bytes over the slowest link; transfers inside and across domains overlap partly.

    across_share: of the network interface's bandwidth that the kernels reach
    """
    with term("inside the domain"):
        near = dispatch_bytes(sent.tokens, sent.hidden, sent.inside, ep.inside, sent.element)
        inside = stream_time(near, link_of(inputs, ep.inside), kernels.inside_share)
    start = np.where(ep.ranks > 1, kernels.start, 0.0)
    if np.all(ep.domains == 1):
        return inside + start, near
    with term("between domains"):
        far = dispatch_bytes(sent.tokens, sent.hidden, sent.across, ep.domains, sent.element)
        rate = network_rate(inputs, across_share, ep, "all_to_all")
        across = stream_time(far, rate, 1.0)
    return two_level_time(inside, across, inputs.network.serial_share) + start, far
