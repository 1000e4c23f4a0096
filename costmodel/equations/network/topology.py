"""The network between scale-up domains, and groups of ranks laid over them."""

from __future__ import annotations

from typing import Literal

import numpy as np

from costmodel.equations.parallelism.counts import common_divisor
from costmodel.ground.equation import Number, equation

Rails = Literal["none", "optimised", "forwarded"]
Topology = Literal["switch", "mesh", "pairs", "torus", "none"]


# --- The network between domains: what an interface gives each rank, rails and pods, two levels together.


@equation
def domain_in_use(domain: Number, accelerators: Number, built: Number) -> Number:
    """Scale-up domain of a job that uses some of the accelerators of each node.

    min(D, a max(1, ⌊D / b⌋)): of a node the accelerators in use; of a rack of ⌊D / b⌋ nodes those of all its nodes

    domain D: accelerators that the whole fabric joins · accelerators a: accelerators of a node that the job uses
    built b: accelerators that the node is built with
    → ranks of the job that reach each other without leaving the fabric
    Source: composition
    Monotone: increasing in domain, accelerators; decreasing in built
    >>> [float(domain_in_use(*sizes)) for sizes in ((8.0, 4.0, 8.0), (8.0, 1.0, 8.0), (72.0, 2.0, 4.0))]
    [4.0, 1.0, 36.0]
    """
    return np.minimum(domain, accelerators * np.maximum(1.0, np.floor(domain / built)))


@equation
def interfaces_in_use(nics: Number, accelerators: Number, built: Number) -> Number:
    """Interfaces of a node that a job with some of its accelerators sends over: those next to them.

    min(n, ⌈n a / b⌉)

    nics n: interfaces of the whole node · accelerators a: accelerators of the node that the job uses
    built b: accelerators that the node is built with
    → interfaces
    Source: nccl-2.30 topo.h; composition
    Holds: an interface lies next to a fixed share of the accelerators, and a job fills the node in that order
    Monotone: increasing in nics, accelerators; decreasing in built
    >>> [float(interfaces_in_use(*sizes)) for sizes in ((8.0, 4.0, 8.0), (1.0, 4.0, 8.0), (32.0, 1.0, 8.0))]
    [4.0, 1.0, 4.0]
    """
    return np.minimum(nics, np.ceil(nics * accelerators / built))


@equation
def behind_host_link(rate: Number, port: Number, host_link: Number, share: Number) -> Number:
    """Network rate of an accelerator whose interfaces lie behind its link to the host.

    min(B, η max(P, H)): several interfaces together carry no more than that link; one is taken at its own rate

    rate B [B/s]: rate of the accelerator's interfaces together · port P [B/s]: rate of one interface, one way
    host_link H [B/s]: the link to the host, one way · share η: share of the rate that is reached
    → attainable rate of one accelerator, one way [B/s]
    Source: ml-engineering network; composition
    Monotone: increasing in rate, port, host_link, share
    >>> [float(behind_host_link(rate, 50e9, 63e9, 1.0)) / 1e9 for rate in (50e9, 100e9)]
    [50.0, 63.0]
    """
    return np.minimum(rate, share * np.maximum(port, host_link))


@equation
def interface_bandwidth(nics: Number, port: Number, accelerators: Number, share: Number) -> Number:
    """Network rate of one accelerator when all of a node send at once.

    η nics × port / accelerators

    nics: interfaces of a node that are in use · port [B/s]: rate of an interface, one way
    accelerators: accelerators of a node · share η: share of the rate that is reached
    → attainable rate of one accelerator, one way [B/s]
    Source: training-runs-fit; nccl-2.30 topo.h
    Monotone: increasing in nics, port, share; decreasing in accelerators
    >>> interface_bandwidth(8.0, 50e9, 8.0, 0.81)
    40500000000.0
    """
    return share * nics * port / accelerators


@equation
def two_level_time(inside: Number, across: Number, serial_share: Number) -> Number:
    """Time of a collective that runs inside domains and across them.

    max(inside, across) + c min(inside, across)

    inside [s]: time of the part inside a domain · across [s]: time of the part between domains · serial_share c
    → time [s]
    Source: training-runs-fit; composition
    Monotone: increasing in inside, across, serial_share
    >>> round(float(two_level_time(0.010, 0.016, 0.3)), 4)
    0.019
    """
    return np.maximum(inside, across) + serial_share * np.minimum(inside, across)


@equation
def link_bandwidth(full: Number, pair: Number, host_link: Number, ranks: Number, *, topology: Topology) -> Number:
    """Rate at which one rank reaches the others of its group inside the domain.

    switch: full; mesh: min(full, pair (n − 1)); pairs: pair for two, host for more; torus: min(full, 2 pair);
    none: host

    full [B/s]: all links of one accelerator, one way · pair [B/s]: the link between two neighbours, one way
    host_link [B/s]: the link to the host, one way · ranks n: members of the group in the domain
    topology: "switch", "mesh", "pairs", "torus" or "none"
    → rate of one rank, one way [B/s]
    Source: ml-engineering network; scaling-book
    Holds: a torus group lies along one axis that closes into a ring
    Monotone: increasing in full, pair, host_link
    >>> float(link_bandwidth(448e9, 64e9, 63e9, 2.0, topology="mesh")) / 1e9
    64.0
    """
    if topology == "mesh":
        return np.minimum(full, pair * np.maximum(ranks - 1, 1))
    if topology == "pairs":
        return np.where(ranks <= 2, pair, host_link)
    if topology == "torus":
        return np.minimum(full, 2 * pair)
    return host_link if topology == "none" else full


@equation
def carried_over(bandwidth: Number, link: Number, fitted_link: Number) -> Number:
    """Rate that large collectives reach on a link, from a fit on another of its kind.

    B × link / fitted link

    bandwidth B [B/s]: wire rate reached where it was fitted · link [B/s]: rate of this link, one way
    fitted_link [B/s]: rate of the link it was fitted on, one way
    → wire rate reached here [B/s]
    Source: composition
    Monotone: increasing in bandwidth, link; decreasing in fitted_link
    >>> carried_over(375e9, 200e9, 450e9) / 1e9
    166.66666666666666
    """
    return bandwidth * link / fitted_link


@equation
def spine_bandwidth(rate: Number, extent: Number, pod: Number, oversubscription: Number) -> Number:
    """Network rate of a group, less where it reaches over the end of a pod.

    B inside a pod, B / o across pods

    rate B [B/s]: network rate of one accelerator · extent: ranks from the group's first member to its last
    pod: ranks that reach each other at full rate · oversubscription o
    → attainable rate of one accelerator, one way [B/s]
    Source: composition
    Holds: members placed one after the other; several pods share the spine evenly
    Monotone: increasing in rate
    >>> float(spine_bandwidth(40e9, 4096.0, 1024.0, 4.0)) / 1e9
    10.0
    """
    return np.where(extent > pod, rate / oversubscription, rate)


@equation
def off_rail(stride: Number, accelerators: Number) -> Number:
    """Whether a group's members sit at different places of their nodes, so that they hang off different leaf switches.

    0 where the stride divides the node or is a multiple of it, else 1

    stride · accelerators: accelerators of a node, each with its own interface → 1 off the rail, 0 on it
    Source: wang-2023; nccl-2.30 NCCL_CROSS_NIC
    Holds: interface i of every node on leaf switch i; rings leave a node by as many interfaces as it has members
    >>> [float(off_rail(stride, 8.0)) for stride in (1.0, 4.0, 16.0, 3.0, 12.0)]
    [0.0, 0.0, 0.0, 1.0, 1.0]
    """
    return np.where((np.mod(stride, accelerators) != 0) & (np.mod(accelerators, stride) != 0), 1.0, 0.0)


@equation
def rail_bandwidth(rate: Number, off: Number, link: Number, oversubscription: Number, *, rails: Rails) -> Number:
    """Network rate of a group on a rail-optimised fabric.

    on the rail B; off it B / o over the spine, or min(B, link) where the domain forwards to the right rail first

    rate B [B/s]: network rate of one accelerator · off: 1 where members sit on different rails
    link [B/s]: rate inside the domain, one way · oversubscription o: rate of a rail over the rate between rails
    rails: "none", "optimised" or "forwarded"
    → attainable rate of one accelerator, one way [B/s]
    Source: wang-2023; nccl-2.30 NCCL_CROSS_NIC
    Monotone: increasing in rate, link
    >>> float(rail_bandwidth(40e9, 1.0, 450e9, 4.0, rails="optimised")) / 1e9
    10.0
    """
    if rails == "none":
        return rate
    elsewhere = np.minimum(rate, link) if rails == "forwarded" else rate / oversubscription
    return np.where(off > 0, elsewhere, rate)


# --- Groups of ranks laid over scale-up domains: how many they reach across, who shares one, and what stays idle.


@equation
def group_place(period: Number, width: Number, domain: Number) -> Number:
    """Place in its domain where that group begins which reaches across the most domains.

    D − 1 − (gcd(P, D) − w)⁺

    period P: ranks after which the same comes again, of a group of n ranks every s it is n s
    width w: groups that begin side by side · domain D
    → place of its first member in its domain, from 0
    Source: composition
    Holds: all ranks of all domains taken; then by enumeration
    Pitfall: of 6 ranks on nodes of 8 every second group has two in one node and four in the next
    >>> float(group_place(6.0, 1.0, 8.0))
    6.0
    """
    place: Number = domain - 1 - np.maximum(common_divisor(period, domain) - width, 0)
    return place


@equation
def domains_spanned(ranks: Number, stride: Number, domain: Number, place: Number) -> Number:
    """Scale-up domains a group reaches across.

    min(⌊(f + (n − 1) s) / D⌋ + 1, n), at least 1

    ranks n · stride s · domain D · place f: of its first member in its domain, from 0 → domains, k
    Source: megatron-lm parallel_state.py; composition
    Monotone: increasing in ranks, place
    >>> float(domains_spanned(16.0, 4.0, 8.0, 3.0))
    8.0
    >>> float(domains_spanned(6.0, 1.0, 8.0, 6.0))
    2.0
    """
    domains: Number = np.maximum(np.minimum(np.floor((place + (ranks - 1) * stride) / domain) + 1, ranks), 1)
    return domains


@equation
def first_inside(stride: Number, domain: Number, place: Number) -> Number:
    """Members of a long group in the domain where it begins.

    ⌊(D − 1 − f) / s⌋ + 1

    stride s · domain D · place f: of its first member in its domain, from 0 → members, h
    Source: composition
    >>> float(first_inside(1.0, 8.0, 6.0))
    2.0
    """
    return np.floor((domain - 1 - place) / stride) + 1


@equation
def ranks_inside(ranks: Number, stride: Number, domain: Number, first: Number, domains: Number) -> Number:
    """Ranks of a group in the domain with the most of them.

    n in one domain; else min(⌈D / s⌉, max(h, n − h))

    ranks n · stride s · domain D · first h: members in the domain where it begins
    domains: domains the group reaches across
    → members in one domain
    Source: megatron-lm parallel_state.py; composition
    >>> float(ranks_inside(16.0, 4.0, 8.0, 2.0, 8.0))
    2.0
    >>> float(ranks_inside(6.0, 1.0, 8.0, 2.0, 2.0))
    4.0
    """
    most = np.minimum(np.ceil(domain / stride), np.maximum(first, ranks - first))
    return np.where(domains > 1, most, ranks)


@equation
def domains_filled(ranks: Number, inside: Number) -> Number:
    """Scale-up domains that a number of ranks fills.

    ⌈n / g⌉

    ranks n · inside g: members in one domain → domains, k
    Source: composition
    Monotone: increasing in ranks; decreasing in inside
    >>> float(domains_filled(16.0, 2.0))
    8.0
    """
    return np.ceil(ranks / inside)


@equation
def fewest_inside(ranks: Number, first: Number, domains: Number, inside: Number) -> Number:
    """Members of a group in the domain that holds the fewest, whose interfaces carry the most each.

    n in one domain; else min(h, n − h − (k − 2) g), at least 1

    ranks n · first h: members in the domain where it begins · domains k: domains the group reaches across
    inside g: members in a full domain
    → members, g where every domain is full
    Source: composition
    >>> float(fewest_inside(14.0, 2.0, 3.0, 8.0))
    2.0
    >>> float(fewest_inside(12.0, 8.0, 2.0, 8.0))
    4.0
    """
    fewest = np.maximum(np.minimum(first, ranks - first - (domains - 2) * inside), 1)
    return np.where(domains > 1, fewest, ranks)


@equation
def ranks_in_whole_groups(domain: Number, ranks: Number) -> Number:
    """Accelerators of a domain that groups fill which lie in it whole.

    ⌊D / n⌋ n; D of groups larger than it

    domain D · ranks n: ranks in a group → accelerators, the rest of the domain is idle
    Source: composition
    >>> float(ranks_in_whole_groups(72.0, 16.0))
    64.0
    """
    return np.where(ranks > domain, domain, np.floor(domain / ranks) * ranks)


@equation
def groups_beside(domains: Number, domain: Number, larger: Number, count: Number, ranks: Number) -> Number:
    """Groups that fit whole into a domain besides larger groups, which a scheduler places first.

    by first fit: F ⌊(D − k m) / n⌋ + ⌊(D − r m) / n⌋ + (d − F − 1) ⌊D / n⌋ with k = ⌊D / m⌋, F = ⌊c / k⌋, r = c − F k

    domains d: scale-up domains · domain D: accelerators in each · larger m: ranks in a larger group
    count c: how many larger ones · ranks n: ranks in a group
    → groups; less than 0 where the larger ones alone have no room
    Source: composition
    Monotone: increasing in domains; decreasing in count
    >>> float(groups_beside(2.0, 72.0, 48.0, 2.0, 16.0))
    2.0
    """
    each = np.floor(domain / larger)
    full = np.floor(count / np.maximum(each, 1))
    left = np.floor((domain - each * larger) / ranks)
    last = np.floor((domain - (count - full * each) * larger) / ranks)
    most = full * left + np.where(domains > full, last + (domains - full - 1) * np.floor(domain / ranks), 0)
    lacking = (each < 1) | (count > each * domains)
    return np.where(lacking & (count > 0), -1.0, most)
