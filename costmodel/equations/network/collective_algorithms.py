"""Collective algorithms beside ring and tree: halving and doubling, reduction in the switch, two-level all-to-all."""

from __future__ import annotations

import numpy as np

from costmodel.equations.network.collectives import Operation, ring_steps, wire_bytes
from costmodel.ground.equation import Number, equation


@equation
def halving_doubling_time(message: Number, ranks: Number, bandwidth: Number, latency: Number) -> Number:
    """Time of an all-reduce by recursive halving and doubling: a ring's bytes in a tree's steps.

    2 log₂ p α + 2 (p − 1)/p S / B with p = 2^⌊log₂ n⌋, and 2 (α + S / B) more where n is no power of two

    Args:
        message: the full buffer, S [B]
        ranks: ranks in the group, n [1]
        bandwidth: of one rank, one way, B [B/s]
        latency: of one step, α [s]

    Returns:
        from first send to last receive [s]

    Example:
        >>> round(float(halving_doubling_time(2.0**20, 64.0, 40e9, 5e-6)) * 1e6)
        112

    Holds: a network without contention between distant pairs; ranks over p hand theirs to another, and get the result

    Source:
        rabenseifner-2004; thakur-2005

    Monotone: increasing in message, latency; decreasing in bandwidth
    """
    steps = np.floor(np.log2(ranks))
    paired = 2.0**steps
    time = 2 * steps * latency + 2 * (paired - 1) / paired * message / bandwidth
    return time + np.where(ranks > paired, 2.0, 0.0) * (latency + message / bandwidth)


@equation
def switch_reduce_bytes(message: Number, ranks: Number) -> Number:
    """Bytes a rank sends when the NVLink switch adds (NVLS): its own buffer once, and its share of the result.

    (n + 1)/n S

    Args:
        message: the full buffer, S [B]
        ranks: ranks in the group, n [1]

    Returns:
        bytes sent by a rank [B]

    Example:
        >>> switch_reduce_bytes(8e9, 8.0)
        9000000000.0

    Source:
        nccl-2.30 nvls; count of bytes
    """
    return (ranks + 1) / ranks * message


@equation
def switch_reduce_time(message: Number, ranks: Number, bandwidth: Number, latency: Number) -> Number:
    """Time of an all-reduce that the NVLink switch adds up.

    2 α + (n + 1)/n S / B

    Args:
        message: the full buffer, S [B]
        ranks: ranks in the group, n [1]
        bandwidth: of one rank, one way, B [B/s]
        latency: through the switch, α [s]

    Returns:
        from first send to last receive [s]

    Example:
        >>> round(float(switch_reduce_time(1e9, 8.0, 450e9, 5e-6)) * 1e3, 2)
        2.51

    Holds:
        at most 2 (n − 1)/(n + 1) faster than a ring, 1.56 at n = 8; 1.23 to 1.31 are measured; for reference, no
        estimate calls it

    Source:
        nccl-2.30 tuning.cc; ml-engineering network

    Monotone: increasing in message, latency; decreasing in bandwidth
    """
    return 2 * latency + switch_reduce_bytes(message, ranks) / bandwidth


@equation
def network_reduce_time(message: Number, bandwidth: Number, latency: Number) -> Number:
    """Time of an all-reduce that the network's switches add up (SHARP): up and down at once.

    2 α + S / B

    Args:
        message: the full buffer, S [B]
        bandwidth: of one rank, one way, B [B/s]
        latency: to the root of the tree of switches, α [s]

    Returns:
        from first send to last receive [s]

    Example:
        >>> round(network_reduce_time(1e9, 50e9, 10e-6) * 1e3, 2)
        20.02

    Source:
        graham-2016

    Monotone: increasing in message, latency; decreasing in bandwidth
    """
    return 2 * latency + message / bandwidth


@equation
def two_level_all_to_all_time(
    message: Number,
    inside: Number,
    domains: Number,
    near: Number,
    far: Number,
    near_latency: Number,
    far_latency: Number,
) -> Number:
    """Time of an all-to-all that gathers inside a domain before it crosses, so that pairs of domains exchange once.

    (g − 1)(α₁ + S / (g B₁)) + (k − 1)(α₂ + S / (k B₂)), S the buffer of a rank

    Args:
        message: buffer of one rank, S [B]
        inside: members in one domain, g [1]
        domains: domains, k [1]
        near: rate inside, one way, B₁ [B/s]
        far: rate between domains, one way, B₂ [B/s]
        near_latency: of one step inside, α₁ [s]
        far_latency: of one step between, α₂ [s]

    Returns:
        from first send to last receive [s]

    Example:
        >>> round(two_level_all_to_all_time(64e6, 8.0, 4.0, 400e9, 50e9, 2e-6, 10e-6) * 1e3, 3)
        1.144

    Source:
        thakur-2005; composition

    Holds: for reference, no estimate calls it

    Monotone: increasing in message, near_latency, far_latency; decreasing in near, far
    """
    within = (inside - 1) * (near_latency + message / (inside * near))
    return within + (domains - 1) * (far_latency + message / (domains * far))


@equation
def flat_ring_time(
    message: Number, ranks: Number, domains: Number, bandwidth: Number, latency: Number, *, operation: Operation
) -> Number:
    """Time that a ring through all ranks needs of the interfaces of a domain: every chunk crosses each boundary.

    steps(k) α + w(n) / B: as ring_time, but the bytes of all ranks leave over the interfaces of one domain together

    Args:
        message: the full buffer, S [B]
        ranks: ranks in the group, n [1]
        domains: domains, k [1]
        bandwidth: of all interfaces of a domain, one way, B [B/s]
        latency: of a step between domains, α [s]
        operation: which collective

    Returns:
        time of the part between domains [s]

    Example:
        >>> round(flat_ring_time(16e9, 32.0, 4.0, 192e9, 14e-6, operation="all_reduce") * 1e3, 1)
        161.5

    Holds:
        four nodes of 8 A100 with 8 × 25 GB/s reach 192 GB/s bus bandwidth: 0.96 of their interfaces together

    Source:
        nccl-2.30 tuning.cc; ml-engineering network

    Monotone: increasing in message, ranks, domains, latency; decreasing in bandwidth
    """
    steps = ring_steps(domains, operation=operation)
    return steps * latency + wire_bytes(message, ranks, operation=operation) / bandwidth


@equation
def double_tree_time(message: Number, ranks: Number, bandwidth: Number, latency: Number) -> Number:
    """Time of a double binary tree by the busiest member, which has a parent in one tree and two children in the other.

    2 log₂ n α + min(n − 1, 2) S / B: of two members each sends the buffer once

    Args:
        message: the full buffer, S [B]
        ranks: members of the tree, n [1]
        bandwidth: of one member, one way, B [B/s]
        latency: of one level, α [s]

    Returns:
        from first send to last receive [s]

    Example:
        >>> [round(float(double_tree_time(1e9, n, 50e9, 14e-6)) * 1e3, 2) for n in (2.0, 4.0)]
        [20.03, 40.06]

    Holds:
        messages long enough to be cut into a pipeline

    Source:
        sanders-2009; nccl-2.30 tuning.cc

    Monotone: increasing in message, ranks, latency; decreasing in bandwidth
    """
    return 2 * np.log2(ranks) * latency + np.minimum(ranks - 1, 2) * message / bandwidth
