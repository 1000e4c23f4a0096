"""Collective algorithms beside ring and tree: halving and doubling, reduction in the switch, two-level all-to-all."""

from __future__ import annotations

import numpy as np

from costmodel.equations.network.collectives import Operation, ring_steps, wire_bytes
from costmodel.ground.equation import Number, equation


@equation
def halving_doubling_time(message: Number, ranks: Number, bandwidth: Number, latency: Number) -> Number:
    """Time of an all-reduce by recursive halving and doubling: a ring's bytes in a tree's steps.

    2 log₂ p α + 2 (p − 1)/p S / B with p = 2^⌊log₂ n⌋, and 2 (α + S / B) more where n is no power of two

    message S [B]: the full buffer · ranks n · bandwidth B [B/s]: of one rank, one way · latency α [s]: of one step
    → from first send to last receive [s]
    Source: rabenseifner-2004; thakur-2005
    Holds: a network without contention between distant pairs; ranks over p hand theirs to another, and get the result
    Monotone: increasing in message, latency; decreasing in bandwidth
    >>> round(float(halving_doubling_time(2.0**20, 64.0, 40e9, 5e-6)) * 1e6)
    112
    """
    steps = np.floor(np.log2(ranks))
    paired = 2.0**steps
    time = 2 * steps * latency + 2 * (paired - 1) / paired * message / bandwidth
    return time + np.where(ranks > paired, 2.0, 0.0) * (latency + message / bandwidth)


@equation
def switch_reduce_bytes(message: Number, ranks: Number) -> Number:
    """Bytes a rank sends when the NVLink switch adds (NVLS): its own buffer once, and its share of the result.

    (n + 1)/n S

    message S [B]: the full buffer · ranks n → bytes sent by a rank [B]
    Source: nccl-2.30 nvls; count of bytes
    >>> switch_reduce_bytes(8e9, 8.0)
    9000000000.0
    """
    return (ranks + 1) / ranks * message


@equation
def switch_reduce_time(message: Number, ranks: Number, bandwidth: Number, latency: Number) -> Number:
    """Time of an all-reduce that the NVLink switch adds up.

    2 α + (n + 1)/n S / B

    message S [B]: the full buffer · ranks n · bandwidth B [B/s]: of one rank, one way
    latency α [s]: through the switch
    → from first send to last receive [s]
    Source: nccl-2.30 tuning.cc; ml-engineering network
    Holds: at most 2 (n − 1)/(n + 1) faster than a ring, 1.56 at n = 8; 1.23 to 1.31 are measured; for reference, no
        estimate calls it
    Monotone: increasing in message, latency; decreasing in bandwidth
    >>> round(float(switch_reduce_time(1e9, 8.0, 450e9, 5e-6)) * 1e3, 2)
    2.51
    """
    return 2 * latency + switch_reduce_bytes(message, ranks) / bandwidth


@equation
def network_reduce_time(message: Number, bandwidth: Number, latency: Number) -> Number:
    """Time of an all-reduce that the network's switches add up (SHARP): up and down at once.

    2 α + S / B

    message S [B]: the full buffer · bandwidth B [B/s]: of one rank, one way
    latency α [s]: to the root of the tree of switches
    → from first send to last receive [s]
    Source: graham-2016
    Monotone: increasing in message, latency; decreasing in bandwidth
    >>> round(network_reduce_time(1e9, 50e9, 10e-6) * 1e3, 2)
    20.02
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

    message S [B]: buffer of one rank · inside g: members in one domain · domains k: domains
    near B₁ [B/s]: rate inside, one way · far B₂ [B/s] · near_latency α₁ [s]: of one step inside
    far_latency α₂ [s]: of one step between
    → from first send to last receive [s]
    Source: thakur-2005; composition
    Holds: for reference, no estimate calls it
    Monotone: increasing in message, near_latency, far_latency; decreasing in near, far
    >>> round(two_level_all_to_all_time(64e6, 8.0, 4.0, 400e9, 50e9, 2e-6, 10e-6) * 1e3, 3)
    1.144
    """
    within = (inside - 1) * (near_latency + message / (inside * near))
    return within + (domains - 1) * (far_latency + message / (domains * far))


@equation
def flat_ring_time(
    message: Number, ranks: Number, domains: Number, bandwidth: Number, latency: Number, *, operation: Operation
) -> Number:
    """Time that a ring through all ranks needs of the interfaces of a domain: every chunk crosses each boundary.

    steps(k) α + w(n) / B: as ring_time, but the bytes of all ranks leave over the interfaces of one domain together

    message S [B]: the full buffer · ranks n · domains k: domains
    bandwidth B [B/s]: of all interfaces of a domain, one way · latency α [s]: of a step between domains · operation
    → time of the part between domains [s]
    Source: nccl-2.30 tuning.cc; ml-engineering network
    Holds: four nodes of 8 A100 with 8 × 25 GB/s reach 192 GB/s bus bandwidth: 0.96 of their interfaces together
    Monotone: increasing in message, ranks, domains, latency; decreasing in bandwidth
    >>> round(flat_ring_time(16e9, 32.0, 4.0, 192e9, 14e-6, operation="all_reduce") * 1e3, 1)
    161.5
    """
    steps = ring_steps(domains, operation=operation)
    return steps * latency + wire_bytes(message, ranks, operation=operation) / bandwidth


@equation
def double_tree_time(message: Number, ranks: Number, bandwidth: Number, latency: Number) -> Number:
    """Time of a double binary tree by the busiest member, which has a parent in one tree and two children in the other.

    2 log₂ n α + min(n − 1, 2) S / B: of two members each sends the buffer once

    message S [B]: the full buffer · ranks n: members of the tree · bandwidth B [B/s]: of one member, one way
    latency α [s]: of one level
    → from first send to last receive [s]
    Source: sanders-2009; nccl-2.30 tuning.cc
    Holds: messages long enough to be cut into a pipeline
    Monotone: increasing in message, ranks, latency; decreasing in bandwidth
    >>> [round(float(double_tree_time(1e9, n, 50e9, 14e-6)) * 1e3, 2) for n in (2.0, 4.0)]
    [20.03, 40.06]
    """
    return 2 * np.log2(ranks) * latency + np.minimum(ranks - 1, 2) * message / bandwidth
