"""Collectives: bytes on the wire, time by algorithm, groups on a topology, nccl-tests' bandwidths."""

from __future__ import annotations

from typing import Literal

import numpy as np

from costmodel.ground.equation import Number, equation

Operation = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce", "send"]


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
def tree_all_reduce_time(message: Number, ranks: Number, bandwidth: Number, latency: Number) -> Number:
    """Time of a pipelined double binary tree: latency grows with the logarithm of the group.

    2 log₂ n α + 2 S / B

    message S [B]: the full buffer · ranks n · bandwidth B [B/s]: of one rank, one way · latency α [s]: of one level
    → from first send to last receive [s]
    Source: sanders-2009; nccl-2.30 tuning.cc
    Holds: messages long enough to be cut into a pipeline
    Monotone: increasing in message, ranks, latency; decreasing in bandwidth
    >>> round(float(tree_all_reduce_time(1e6, 64.0, 40e9, 5e-6)) * 1e6, 1)
    110.0
    """
    return np.where(ranks > 1, 2 * np.log2(ranks) * latency + 2 * message / bandwidth, 0.0)


@equation
def broadcast_time(message: Number, ranks: Number, bandwidth: Number, latency: Number, pieces: Number) -> Number:
    """Time of a broadcast down a pipelined chain.

    (n − 2 + k) (α + S / (k B))

    message S [B]: bytes every rank ends with · ranks n · bandwidth B [B/s]: of one rank, one way
    latency α [s]: of one hop · pieces k: pieces the message is cut into
    → from first send to last receive [s]
    Source: thakur-2005
    Holds: for reference, no estimate calls it
    Monotone: increasing in message, ranks, latency; decreasing in bandwidth
    >>> round(float(broadcast_time(1e9, 8.0, 100e9, 5e-6, 64.0)) * 1e3, 2)
    11.29
    """
    return np.where(ranks > 1, (ranks - 2 + pieces) * (latency + message / (pieces * bandwidth)), 0.0)


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
