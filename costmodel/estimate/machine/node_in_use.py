"""The part of a node that a job uses if it uses some accelerators: domain, interfaces, host links.

One rule: what belongs to an accelerator stays with it, its links inside the domain, the interfaces next to it and its
link to the host; those of idle accelerators carry nothing. What belongs to the node, the host's memory, its drives and
the rent, is shared by the accelerators in use.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario
from costmodel.equations.network.topology import behind_host_link, domain_in_use, interface_bandwidth, interfaces_in_use
from costmodel.equations.parallelism.counts import remainder
from costmodel.ground.equation import Number, term
from costmodel.ground.errors import fail
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
    size, each = float(whole), int(node.accelerators)
    taken = float(math.gcd(int(size), each)) if size <= each else _whole_nodes(size, each, int(ranks), even=even)
    if taken == size:
        return whole
    place = getattr(node.scale_up.domain, "place", None)
    return Figure(taken, place and replace(place, path=f"{place.path}: those of {size:g} that the job takes"))


@functools.lru_cache(maxsize=64)
def _whole_nodes(domain: float, each: int, ranks: int, *, even: bool) -> float:
    """Ranks that a job uses in a rack's domain, in whole nodes."""
    if not even:
        return float(min(int(domain) - remainder(int(domain), each), ranks))
    nodes = range(each, int(min(domain, ranks)) + 1, each)
    taken = max(count for count in nodes if math.gcd(count, ranks) == count)
    return domain if taken != ranks and taken + taken <= domain else float(taken)


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


def held_by_host_link(case: LoadedScenario) -> bool:
    """Whether the interfaces of an accelerator together carry more than its link to the host."""
    carried = interface_bandwidth(_interfaces(case), case.scale_out.bandwidth, case.node.accelerators, 1.0)
    return bool(interface_rate(case, 1.0) < carried)


def batch_of_a_site(case: ResolvedScenario) -> float:
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


def with_port(case: ResolvedScenario, bandwidth: float) -> ResolvedScenario:
    """A scenario with network interfaces of another rate."""
    return replace(case, scale_out=case.scale_out.model_copy(update={"bandwidth": bandwidth}))


def nvls_at(case: LoadedScenario) -> bool:
    """Whether the domain's switches can sum (NVLS) and a fit of their rate exists."""
    switched = case.scale_up.reduces and case.node.scale_up.topology == "switch"
    return switched and "nvls" in case.efficiency.alone
