"""Collectives: bytes on the wire, time by algorithm, line rate, nccl-tests' bandwidths."""

from __future__ import annotations

from typing import Literal

import numpy as np

from costmodel.ground.equation import Number, equation

Operation = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce", "send"]


# --- Collectives: bytes on the wire, time by algorithm, groups on a topology, nccl-tests' bandwidths.


@equation
def wire_bytes(message: Number, ranks: Number, *, operation: Operation) -> Number:
    """Bytes one rank sends in a bandwidth-optimal collective.

    all-reduce 2 (n − 1)/n S; reduce-scatter, all-gather, all-to-all (n − 1)/n S; broadcast, reduce, send S

    message [B]: the full buffer, S, as nccl-tests counts it · ranks n · operation → bytes sent by a rank [B]
    Source: thakur-2005; nccl-tests PERFORMANCE.md
    Pitfall: "a ring moves O(n) bytes" is wrong: a rank sends 2 (n − 1)/n S, under 2 S however large the group
    Monotone: increasing in message, ranks
    >>> wire_bytes(1e9, 8.0, operation="all_reduce")
    1750000000.0
    """
    share = (ranks - 1) / ranks
    if operation == "all_reduce":
        return 2 * share * message
    if operation in ("broadcast", "reduce", "send"):
        return message * np.minimum(ranks - 1, 1)
    return share * message


@equation
def ring_steps(ranks: Number, *, operation: Operation) -> Number:
    """Steps of a ring, each of which waits for a neighbour.

    all-reduce 2 (n − 1), otherwise n − 1; a send is one

    ranks n · operation → steps in sequence
    Source: thakur-2005
    Monotone: increasing in ranks
    >>> ring_steps(64.0, operation="all_reduce")
    126.0
    """
    if operation == "send":
        return np.minimum(ranks - 1, 1)
    return (2.0 if operation == "all_reduce" else 1.0) * (ranks - 1)


@equation
def ring_time(message: Number, ranks: Number, bandwidth: Number, latency: Number, *, operation: Operation) -> Number:
    """Time of a ring collective: latency grows with the group, bytes per rank do not.

    all-reduce 2 (n − 1) (α + S / (n B)); reduce-scatter, all-gather (n − 1) (α + S / (n B));
    broadcast, reduce (n − 1) α + S / B, as small pieces follow each other down a chain

    message S [B]: the full buffer · ranks n · bandwidth B [B/s]: of one rank, one way · latency α [s]: of one step
    operation
    → from first send to last receive [s]
    Source: thakur-2005 §4; nccl-tests PERFORMANCE.md
    Pitfall: "the latency of ring all-reduce is O(log n)" is wrong: 2 (n − 1) steps follow each other; trees take log₂ n
    Monotone: increasing in message, ranks, latency; decreasing in bandwidth
    >>> round(ring_time(1e9, 8.0, 360e9, 5e-6, operation="all_reduce"), 7)
    0.0049311
    """
    return (
        ring_steps(ranks, operation=operation) * latency + wire_bytes(message, ranks, operation=operation) / bandwidth
    )


@equation
def group_latency(ranks: Number, start: Number, hop: Number) -> Number:
    """Fixed time of a collective inside a scale-up domain.

    α = a₀ + a₁ (n − 1), nothing for a group of one

    ranks n · start a₀ [s]: of a call · hop a₁ [s]: for each further rank → latency, α [s]
    Source: kernel-fit
    Monotone: increasing in ranks, start, hop
    >>> round(float(group_latency(8.0, 8.2e-6, 1.8e-6)) * 1e6, 1)
    20.8
    """
    return np.where(ranks > 1, start + hop * (ranks - 1), 0.0)


@equation
def blended_time(latency: Number, wire: Number, bandwidth: Number, blend: Number) -> Number:
    """Time of a collective whose latency and bandwidth regimes meet softly, as measured.

    α + w + c √(α w), w = wire bytes / B

    latency α [s]: fixed time · wire [B]: bytes a rank sends · bandwidth B [B/s]: wire rate that large messages reach
    blend c: softness of the corner
    → time [s]
    Source: kernel-fit
    Monotone: increasing in latency, wire, blend; decreasing in bandwidth
    >>> round(float(blended_time(20.8e-6, 2 * 7 / 8 * 2**20, 232e9, 1.4)) * 1e6, 1)
    46.7
    """
    transfer = wire / bandwidth
    return latency + transfer + blend * np.sqrt(latency * transfer)


@equation
def handled_bytes(wire: Number, ranks: Number, own: Number) -> Number:
    """Bytes a rank sends, and the part of the buffer that it keeps, which is copied or added up all the same.

    w (1 + κ / (n − 1)): of n parts n − 1 are sent and one stays

    wire w [B]: bytes a rank sends · ranks n · own κ: what a kept byte costs over a sent one → bytes that take time [B]
    Source: kernel-fit
    Pitfall: one bandwidth for groups of every size is off by a third between 2 and 8 GPUs; the part that stays explains
        it
    Monotone: increasing in wire, own; decreasing in ranks
    >>> float(handled_bytes(1.5e9, 4.0, 0.6))
    1800000000.0
    """
    return wire * (1 + own / np.maximum(ranks - 1, 1))


@equation
def algorithm_bandwidth(message: Number, time: Number) -> Number:
    """Bytes of the buffer over time, as nccl-tests prints algbw.

    S / t

    message S [B]: the full buffer · time t [s]: of the collective → algbw [B/s]
    Source: nccl-tests PERFORMANCE.md
    Monotone: increasing in message; decreasing in time
    >>> algorithm_bandwidth(1e9, 0.01)
    100000000000.0
    """
    return message / time


@equation
def bus_bandwidth(message: Number, ranks: Number, time: Number, *, operation: Operation) -> Number:
    """Rate a link must have carried, as nccl-tests prints busbw; comparable across group sizes.

    wire bytes / t

    message S [B]: the full buffer · ranks n · time t [s]: of the collective · operation → busbw [B/s]
    Source: nccl-tests PERFORMANCE.md
    Monotone: increasing in message, ranks; decreasing in time
    >>> round(bus_bandwidth(2.0**32, 8.0, 32.136e-3, operation="all_reduce") / 1e9, 2)
    233.89
    """
    return wire_bytes(message, ranks, operation=operation) / time


@equation
def activation_message(tokens: Number, hidden: Number, element: Number) -> Number:
    """Activations of a micro-batch at a layer's boundary: what tensor and pipeline parallelism exchange.

    e h per token

    tokens: tokens of a micro-batch · hidden h · element e [B] → buffer [B]
    Source: korthikanti-2022 §4.2
    Pitfall: two all-reduces a layer are the forward pass alone: four with backward, six with full recompute; and the
        buffer is not what crosses the wire, 2 (t − 1)/t of it does: 1.5 times at t = 4
    Monotone: increasing in tokens, hidden, element
    >>> activation_message(3200.0, 4096.0, 2.0) / 1e6
    26.2144
    """
    return element * hidden * tokens


# --- Collective algorithms beside ring and tree: halving and doubling, reduction in the switch, two-level all-to-all.


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
def ring_latency(
    ranks: Number, domains: Number, start: Number, near_latency: Number, far_latency: Number, *, operation: Operation
) -> Number:
    """Fixed time of a ring through all ranks of several domains: most of its steps stay inside one.

    t₀ + (s(n) − s(k)) α₁ + s(k) α₂, with s as ring_steps

    ranks n · domains k: domains · start t₀ [s]: of a call · near_latency α₁ [s]: of a step inside a domain
    far_latency α₂ [s]: of a step between domains · operation
    → latency [s]
    Source: nccl-2.30 tuning.cc
    Monotone: increasing in ranks, start, far_latency
    >>> round(ring_latency(16.0, 2.0, 6.7e-6, 2e-6, 2.7e-6, operation="all_gather") * 1e6, 1)
    37.4
    """
    between = ring_steps(domains, operation=operation)
    return start + (ring_steps(ranks, operation=operation) - between) * near_latency + between * far_latency


@equation
def tree_latency(inside: Number, domains: Number, start: Number, near_latency: Number, far_latency: Number) -> Number:
    """Fixed time of a tree of domains, in each of which a chain leads through its ranks, up and down.

    t₀ + 2 ((g − 1) α₁ + log₂ k α₂)

    inside g: ranks in one domain · domains k: domains · start t₀ [s]: of a call
    near_latency α₁ [s]: of a step inside a domain · far_latency α₂ [s]: of a level between domains
    → latency [s]
    Source: nccl-2.30 tuning.cc
    Holds: 25 and 35 µs of 8 H100 on each of two and four nodes over InfiniBand, as measured (nccl-tests issue 309)
    Monotone: increasing in inside, domains, start, near_latency, far_latency
    >>> [round(float(tree_latency(8.0, k, 6.7e-6, 0.6e-6, 5e-6)) * 1e6, 1) for k in (2.0, 4.0)]
    [25.1, 35.1]
    """
    return start + 2 * ((inside - 1) * near_latency + np.log2(domains) * far_latency)


@equation
def pipelined_time(latency: Number, wire: Number, bandwidth: Number) -> Number:
    """Time of a message that is pipelined in the number of pieces that makes it fastest.

    α + w + 2 √(α w), w = wire bytes / B: over d steps k pieces take (d + k − 1)(α/d + w/k), least at k = d √(w/α)

    latency α [s]: of all steps together · wire [B]: bytes a rank sends · bandwidth B [B/s]: of one rank, one way
    → time [s]
    Source: sanders-2009
    Monotone: increasing in latency, wire; decreasing in bandwidth
    >>> round(float(pipelined_time(48.5e-6, 2.0**20 / 8, 44e9)) * 1e6, 1)
    75.5
    """
    transfer = wire / bandwidth
    return latency + transfer + 2 * np.sqrt(latency * transfer)


@equation
def double_tree_bytes(message: Number, ranks: Number) -> Number:
    """Bytes that the busiest member of a double binary tree sends: to a parent in one, to two children in the other.

    min(n − 1, 2) S: of two members each sends the buffer once

    message S [B]: the full buffer · ranks n: members of the tree → bytes sent by a member [B]
    Source: sanders-2009; nccl-2.30 tuning.cc
    >>> [float(double_tree_bytes(1e9, n)) for n in (2.0, 4.0)]
    [1000000000.0, 2000000000.0]
    """
    return np.minimum(ranks - 1, 2) * message


# --- The least time of a collective: what has to cross the links around a part of the group, at their line rate.


@equation
def line_rate_time(
    message: Number,
    ranks: Number,
    smallest: Number,
    parts: Number,
    bandwidth: Number,
    *,
    operation: Operation,
    switched: bool,
) -> Number:
    """Least time of a collective by the bytes that must cross the border of each part of its group.

    all-reduce S / (m B), and 2 (p − 1) S / (n B) where no switch adds up; broadcast, reduce, send S / (m B);
    all-gather, reduce-scatter (n − m)/n S / (m B); all-to-all (n − m)/n S / B; nothing for a group of one part

    message [B]: the full buffer, S, as nccl-tests counts it · ranks n · smallest m: ranks of the smallest part
    parts p: nodes or single ranks · bandwidth B [B/s]: line rate of one rank across the border, one way · operation
    switched: whether switches outside the parts add up
    → no algorithm takes less [s]
    Source: patarasuk-2009; count of bytes
    Holds: without compression on the way
    Monotone: increasing in message; decreasing in bandwidth
    >>> float(line_rate_time(1e9, 64.0, 8.0, 8.0, 50e9, operation="all_reduce", switched=False))
    0.004375
    >>> float(line_rate_time(64e6, 16.0, 8.0, 2.0, 50e9, operation="all_to_all", switched=False))
    0.00064
    """
    smallest = np.minimum(smallest, ranks)
    whole = message * np.minimum(parts - 1, 1) / (smallest * bandwidth)
    if operation in ("broadcast", "reduce", "send"):
        return whole
    if operation == "all_reduce":
        both_ways = 2 * (parts - 1) * message / (ranks * bandwidth)
        return whole if switched else np.maximum(whole, both_ways)
    away = (ranks - smallest) / ranks * message
    return away / bandwidth if operation == "all_to_all" else away / (smallest * bandwidth)


# --- A ring all-reduce step by step: which chunk a rank sends when.


@equation
def ring_chunk(member: Number, ring_step: Number, ranks: Number, *, half: Literal["scatter", "gather"]) -> Number:
    """Chunk that a rank of a ring sends to the next one in a step of an all-reduce.

    scatter, which adds on the way: (r − s) mod n; gather, which passes sums on: (r + 1 − s) mod n; s from 0 to n − 2

    member: position in the ring, r, from 0 · ring_step: of the half, s, from 0
    ranks n: ranks in the ring and chunks of the buffer · half: the scattering first half, or the gathering second half
    → chunk, from 0
    Source: thakur-2005; count
    >>> [float(ring_chunk(0.0, s, 4.0, half="scatter")) for s in (0.0, 1.0, 2.0)]
    [0.0, 3.0, 2.0]
    """
    return np.mod(member - ring_step + (0.0 if half == "scatter" else 1.0), ranks)
