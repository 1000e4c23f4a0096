"""Groups of ranks on a topology: who shares a domain, what an interface gives each, two levels together."""

from __future__ import annotations

import numpy as np

from costmodel.equation import Number, equation


@equation
def ranks_inside(ranks: Number, stride: Number, domain: Number) -> Number:
    """Members of a group that share a scale-up domain.

    clip(⌊domain / stride⌋, 1, n)

    Args:
        ranks: ranks in the group, n [1]
        stride: distance of neighbours of the group in the order of ranks [1]
        domain: accelerators in a scale-up domain [1]

    Returns:
        members in one domain [1]

    Example:
        >>> float(ranks_inside(16.0, 4.0, 8.0))
        2.0

    Source:
        megatron-lm parallel_state.py

    Monotone: increasing in ranks, domain; decreasing in stride
    """
    return np.minimum(np.maximum(np.floor(domain / stride), 1.0), ranks)


@equation
def domains_spanned(ranks: Number, inside: Number) -> Number:
    """Scale-up domains a group reaches across.

    ⌈n / g⌉

    Args:
        ranks: ranks in the group, n [1]
        inside: members in one domain, g [1]

    Returns:
        domains, k [1]

    Example:
        >>> float(domains_spanned(16.0, 2.0))
        8.0

    Source:
        composition

    Monotone: increasing in ranks; decreasing in inside
    """
    return np.ceil(ranks / inside)


@equation
def interface_bandwidth(nics: Number, port: Number, accelerators: Number, share: Number) -> Number:
    """Network rate of one accelerator when all of a node send at once.

    η nics × port / accelerators

    Args:
        nics: interfaces of a node [1]
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
