"""The network between domains: what an interface gives each rank, rails and pods, two levels together."""

from __future__ import annotations

from typing import Literal

import numpy as np

from costmodel.ground.equation import Number, equation

Rails = Literal["none", "optimised", "forwarded"]
Topology = Literal["switch", "mesh", "pairs", "torus", "none"]


@equation
def domain_in_use(domain: Number, accelerators: Number, built: Number) -> Number:
    """Scale-up domain of a job that uses some of the accelerators of each node.

    min(D, a max(1, ⌊D / b⌋)): of a node the accelerators in use; of a rack of ⌊D / b⌋ nodes those of all its nodes

    Args:
        domain: accelerators that the whole fabric joins, D [1]
        accelerators: accelerators of a node that the job uses, a [1]
        built: accelerators that the node is built with, b [1]

    Returns:
        ranks of the job that reach each other without leaving the fabric [1]

    Example:
        >>> [float(domain_in_use(*sizes)) for sizes in ((8.0, 4.0, 8.0), (8.0, 1.0, 8.0), (72.0, 2.0, 4.0))]
        [4.0, 1.0, 36.0]

    Source:
        composition

    Monotone: increasing in domain, accelerators; decreasing in built
    """
    return np.minimum(domain, accelerators * np.maximum(1.0, np.floor(domain / built)))


@equation
def interfaces_in_use(nics: Number, accelerators: Number, built: Number) -> Number:
    """Interfaces of a node that a job with some of its accelerators sends over: those next to them.

    min(n, ⌈n a / b⌉)

    Args:
        nics: interfaces of the whole node, n [1]
        accelerators: accelerators of the node that the job uses, a [1]
        built: accelerators that the node is built with, b [1]

    Returns:
        interfaces [1]

    Example:
        >>> [float(interfaces_in_use(*sizes)) for sizes in ((8.0, 4.0, 8.0), (1.0, 4.0, 8.0), (32.0, 1.0, 8.0))]
        [4.0, 1.0, 4.0]

    Holds:
        an interface lies next to a fixed share of the accelerators, and a job fills the node in that order

    Source:
        nccl-2.30 topo.h; composition

    Monotone: increasing in nics, accelerators; decreasing in built
    """
    return np.minimum(nics, np.ceil(nics * accelerators / built))


@equation
def behind_host_link(rate: Number, port: Number, host_link: Number, share: Number) -> Number:
    """Network rate of an accelerator whose interfaces lie behind its link to the host.

    min(B, η max(P, H)): several interfaces together carry no more than that link; one is taken at its own rate

    Args:
        rate: rate of the accelerator's interfaces together, B [B/s]
        port: rate of one interface, one way, P [B/s]
        host_link: the link to the host, one way, H [B/s]
        share: share of the rate that is reached, η [1]

    Returns:
        attainable rate of one accelerator, one way [B/s]

    Example:
        >>> [float(behind_host_link(rate, 50e9, 63e9, 1.0)) / 1e9 for rate in (50e9, 100e9)]
        [50.0, 63.0]

    Source:
        ml-engineering network; composition

    Monotone: increasing in rate, port, host_link, share
    """
    return np.minimum(rate, share * np.maximum(port, host_link))


@equation
def interface_bandwidth(nics: Number, port: Number, accelerators: Number, share: Number) -> Number:
    """Network rate of one accelerator when all of a node send at once.

    η nics × port / accelerators

    Args:
        nics: interfaces of a node that are in use [1]
        port: rate of an interface, one way [B/s]
        accelerators: accelerators of a node [1]
        share: share of the rate that is reached, η [1]

    Returns:
        attainable rate of one accelerator, one way [B/s]

    Example:
        >>> interface_bandwidth(8.0, 50e9, 8.0, 0.81)
        40500000000.0

    Source:
        training-runs-fit; nccl-2.30 topo.h

    Monotone: increasing in nics, port, share; decreasing in accelerators
    """
    return share * nics * port / accelerators


@equation
def two_level_time(inside: Number, across: Number, serial_share: Number) -> Number:
    """Time of a collective that runs inside domains and across them.

    max(inside, across) + c min(inside, across)

    Args:
        inside: time of the part inside a domain [s]
        across: time of the part between domains [s]
        serial_share: share of the shorter part that does not overlap, c [1]

    Returns:
        time [s]

    Example:
        >>> round(float(two_level_time(0.010, 0.016, 0.3)), 4)
        0.019

    Source:
        training-runs-fit; composition

    Monotone: increasing in inside, across, serial_share
    """
    return np.maximum(inside, across) + serial_share * np.minimum(inside, across)


@equation
def link_bandwidth(full: Number, pair: Number, host_link: Number, ranks: Number, *, topology: Topology) -> Number:
    """Rate at which one rank reaches the others of its group inside the domain.

    switch: full; mesh: min(full, pair (n − 1)); pairs: pair for two, host for more; torus: min(full, 2 pair);
    none: host

    Args:
        full: all links of one accelerator, one way [B/s]
        pair: the link between two neighbours, one way [B/s]
        host_link: the link to the host, one way [B/s]
        ranks: members of the group in the domain, n [1]
        topology: "switch", "mesh", "pairs", "torus" or "none"

    Returns:
        rate of one rank, one way [B/s]

    Example:
        >>> float(link_bandwidth(448e9, 64e9, 63e9, 2.0, topology="mesh")) / 1e9
        64.0

    Holds:
        a torus group lies along one axis that closes into a ring

    Source:
        ml-engineering network; scaling-book

    Monotone: increasing in full, pair, host_link
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

    Args:
        bandwidth: wire rate reached where it was fitted, B [B/s]
        link: rate of this link, one way [B/s]
        fitted_link: rate of the link it was fitted on, one way [B/s]

    Returns:
        wire rate reached here [B/s]

    Example:
        >>> carried_over(375e9, 200e9, 450e9) / 1e9
        166.66666666666666

    Source:
        composition

    Monotone: increasing in bandwidth, link; decreasing in fitted_link
    """
    return bandwidth * link / fitted_link


@equation
def spine_bandwidth(rate: Number, extent: Number, pod: Number, oversubscription: Number) -> Number:
    """Network rate of a group, less where it reaches over the end of a pod.

    B inside a pod, B / o across pods

    Args:
        rate: network rate of one accelerator, B [B/s]
        extent: ranks from the group's first member to its last [1]
        pod: ranks that reach each other at full rate [1]
        oversubscription: rate inside a pod over the rate between pods, o [1]

    Returns:
        attainable rate of one accelerator, one way [B/s]

    Example:
        >>> float(spine_bandwidth(40e9, 4096.0, 1024.0, 4.0)) / 1e9
        10.0

    Holds:
        members placed one after the other; several pods share the spine evenly

    Source:
        composition

    Monotone: increasing in rate
    """
    return np.where(extent > pod, rate / oversubscription, rate)


@equation
def off_rail(stride: Number, accelerators: Number) -> Number:
    """Whether a group's members sit at different places of their nodes, so that they hang off different leaf switches.

    0 where the stride divides the node or is a multiple of it, else 1

    Args:
        stride: distance of neighbours of the group in the order of ranks [1]
        accelerators: accelerators of a node, each with its own interface [1]

    Returns:
        1 off the rail, 0 on it [1]

    Example:
        >>> [float(off_rail(stride, 8.0)) for stride in (1.0, 4.0, 16.0, 3.0, 12.0)]
        [0.0, 0.0, 0.0, 1.0, 1.0]

    Holds:
        interface i of every node on leaf switch i; rings leave a node by as many interfaces as it has members

    Source:
        wang-2023; nccl-2.30 NCCL_CROSS_NIC
    """
    return np.where((np.mod(stride, accelerators) != 0) & (np.mod(accelerators, stride) != 0), 1.0, 0.0)


@equation
def rail_bandwidth(rate: Number, off: Number, link: Number, oversubscription: Number, *, rails: Rails) -> Number:
    """Network rate of a group on a rail-optimised fabric.

    on the rail B; off it B / o over the spine, or min(B, link) where the domain forwards to the right rail first

    Args:
        rate: network rate of one accelerator, B [B/s]
        off: 1 where members sit on different rails [1]
        link: rate inside the domain, one way [B/s]
        oversubscription: rate of a rail over the rate between rails, o [1]
        rails: "none", "optimised" or "forwarded"

    Returns:
        attainable rate of one accelerator, one way [B/s]

    Example:
        >>> float(rail_bandwidth(40e9, 1.0, 450e9, 4.0, rails="optimised")) / 1e9
        10.0

    Source:
        wang-2023; nccl-2.30 NCCL_CROSS_NIC

    Monotone: increasing in rate, link
    """
    if rails == "none":
        return rate
    elsewhere = np.minimum(rate, link) if rails == "forwarded" else rate / oversubscription
    return np.where(off > 0, elsewhere, rate)
