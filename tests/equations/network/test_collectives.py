"""Collectives: closed forms against rings, chains and trees played out in plain Python, and against nccl-tests."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from each import each

from costmodel.equations.memory.states import gradient_traffic
from costmodel.equations.network.collectives import (
    activation_message,
    algorithm_bandwidth,
    blended_time,
    bus_bandwidth,
    double_tree_bytes,
    group_latency,
    pipelined_time,
    ring_steps,
    ring_time,
    tree_latency,
    wire_bytes,
)
from costmodel.equations.network.topology import (
    domains_spanned,
    fewest_inside,
    first_inside,
    group_place,
    interface_bandwidth,
    ranks_inside,
    two_level_time,
)

OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "send")
RINGS = ("all_reduce", "reduce_scatter", "all_gather")
GROUPS = [1, 2, 3, 4, 7, 8]
LLAMA_8B = 8030261248.0


class Ring:
    """Ranks in a ring, each with a buffer of n chunks; counts what is sent and how long each step takes."""

    def __init__(self, ranks: int, chunk: float, bandwidth: float, latency: float) -> None:
        self.ranks, self.chunk, self.bandwidth, self.latency = ranks, chunk, bandwidth, latency
        self.buffers = [[{(rank, piece)} for piece in range(ranks)] for rank in range(ranks)]
        self.sent = [0.0] * ranks
        self.steps = 0
        self.time = 0.0

    def step(self, offset: int, *, add: bool) -> None:
        """Every rank sends one chunk to the next, all at once."""
        moving = [(rank, (rank + offset - self.steps) % self.ranks) for rank in range(self.ranks)]
        carried = [(rank, piece, set(self.buffers[rank][piece])) for rank, piece in moving]
        for rank, piece, content in carried:
            target = self.buffers[(rank + 1) % self.ranks]
            target[piece] = target[piece] | content if add else content
            self.sent[rank] += self.chunk
        self.steps += 1
        self.time += self.latency + self.chunk / self.bandwidth

    def whole(self, piece: int) -> set[tuple[int, int]]:
        """A chunk with every rank's part in it."""
        return {(rank, piece) for rank in range(self.ranks)}


def played(operation: str, ranks: int, message: float, bandwidth: float, latency: float) -> Ring:
    """A ring collective played out; asserts that every rank ends with what the collective promises."""
    ring = Ring(ranks, message / ranks, bandwidth, latency)
    if operation == "all_gather":
        ring.buffers = [
            [ring.whole(piece) if piece == (rank + 1) % ranks else set() for piece in range(ranks)]
            for rank in range(ranks)
        ]
    if operation in ("all_reduce", "reduce_scatter"):
        for _ in range(ranks - 1):
            ring.step(0, add=True)
        assert all(ring.buffers[rank][(rank + 1) % ranks] == ring.whole((rank + 1) % ranks) for rank in range(ranks))
    if operation in ("all_reduce", "all_gather"):
        start = ring.steps
        for _ in range(ranks - 1):
            ring.step(1 + start, add=False)
        assert all(ring.buffers[rank][piece] == ring.whole(piece) for rank in range(ranks) for piece in range(ranks))
    return ring


@pytest.mark.parametrize("ranks", GROUPS)
@pytest.mark.parametrize("operation", RINGS)
def test_a_ring_played_out(operation: Any, ranks: int) -> None:
    message, bandwidth, latency = 840.0, 100.0, 0.25
    ring = played(operation, ranks, message, bandwidth, latency)
    for sent in ring.sent:
        assert sent == pytest.approx(wire_bytes(message, float(ranks), operation=operation))
    assert ring.steps == ring_steps(float(ranks), operation=operation)
    assert ring.time == pytest.approx(ring_time(message, float(ranks), bandwidth, latency, operation=operation))


@pytest.mark.parametrize("ranks", GROUPS)
def test_an_all_to_all_played_out(ranks: int) -> None:
    """Each rank keeps its own part of its buffer and sends one part to each other rank, one after the other."""
    sent = steps = 0.0
    for other in range(ranks):
        if other != 0:
            sent, steps = sent + 840.0 / ranks, steps + 1
    assert wire_bytes(840.0, float(ranks), operation="all_to_all") == pytest.approx(sent)
    assert ring_steps(float(ranks), operation="all_to_all") == steps


def tree_time(message: float, ranks: float, bandwidth: float, latency: float) -> float:
    """An all-reduce by a double tree of single ranks."""
    steps = tree_latency(1.0, ranks, 0.0, 0.0, latency)
    return float(pipelined_time(steps, double_tree_bytes(message, ranks), bandwidth))


def chain_time(ranks: int, pieces: int) -> float:
    """A message of 840 bytes at 100 B/s passes down a chain in pieces, each step of which takes 0.25 s more."""
    hop = 0.25 + 840.0 / pieces / 100.0
    arrived = [[0.0] * pieces] + [[math.inf] * pieces for _ in range(ranks - 1)]
    for rank in range(1, ranks):
        free = 0.0
        for piece in range(pieces):
            free = max(free, arrived[rank - 1][piece]) + hop
            arrived[rank][piece] = free
    return arrived[-1][-1]


@pytest.mark.parametrize("ranks", [9, 33])
def test_a_chain_played_out_in_as_many_pieces_as_make_it_fastest(ranks: int) -> None:
    fastest = min(chain_time(ranks, pieces) for pieces in range(1, 60))
    closed = float(pipelined_time((ranks - 1) * 0.25, 840.0, 100.0))
    assert fastest < closed < 1.06 * fastest


@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_rank_alone_needs_no_time(operation: Any) -> None:
    assert wire_bytes(1e9, 1.0, operation=operation) == 0
    assert ring_steps(1.0, operation=operation) == 0
    assert ring_time(1e9, 1.0, 1e9, 1e-3, operation=operation) == 0
    assert tree_time(1e9, 1.0, 1e9, 1e-3) == 0
    assert group_latency(1.0, 8e-6, 1e-6) == 0
    assert blended_time(0.0, 0.0, 1e9, 1.4) == 0


@pytest.mark.parametrize("operation", OPERATIONS)
def test_infinite_bandwidth_leaves_latency(operation: Any) -> None:
    steps = ring_steps(64.0, operation=operation)
    assert ring_time(1e9, 64.0, math.inf, 5e-6, operation=operation) == steps * 5e-6
    assert tree_time(1e9, 64.0, math.inf, 5e-6) == pytest.approx(2 * 6 * 5e-6)
    assert blended_time(5e-6, 1e9, math.inf, 1.4) == 5e-6


def test_bytes_of_a_ring_do_not_grow_with_the_group() -> None:
    ranks = 2.0 ** np.arange(1, 21)
    sent = np.asarray(wire_bytes(1e9, ranks, operation="all_reduce"))
    assert np.all(np.diff(sent) > 0)
    assert np.all(sent < 2e9)
    assert sent[0] == 1e9
    assert sent[-1] == pytest.approx(2e9, rel=1e-5)


def test_latency_of_a_ring_grows_with_the_group_of_a_tree_with_its_logarithm() -> None:
    ring = [ring_time(0.0, ranks, 1e9, 5e-6, operation="all_reduce") for ranks in (9.0, 17.0, 33.0)]
    tree = [tree_time(0.0, ranks, 1e9, 5e-6) for ranks in (8.0, 64.0, 4096.0)]
    assert ring[1] / ring[0] == pytest.approx(2)
    assert ring[2] / ring[1] == pytest.approx(2)
    assert tree[1] / tree[0] == pytest.approx(2)
    assert tree[2] / tree[1] == pytest.approx(2)


def test_a_tree_sends_at_most_twice_the_buffer() -> None:
    for ranks in (2.0, 8.0, 1024.0):
        assert tree_time(1e9, ranks, 1e9, 0.0) == (1.0 if ranks == 2 else 2.0)
        assert ring_time(1e9, ranks, 1e9, 0.0, operation="all_reduce") < 2.0


def test_rings_win_large_messages_and_trees_small_ones_on_many_ranks() -> None:
    small = 2.0**16, 1024.0, 40e9, 5e-6
    large = 2.0**34, 1024.0, 40e9, 5e-6
    assert tree_time(*small) < ring_time(*small, operation="all_reduce") / 50
    assert ring_time(*large, operation="all_reduce") == pytest.approx(tree_time(*large), rel=0.04)


def test_all_reduce_is_scatter_and_gather() -> None:
    parts = [wire_bytes(1e9, 8.0, operation=name) for name in ("reduce_scatter", "all_gather")]  # type: ignore[arg-type]
    assert sum(parts) == wire_bytes(1e9, 8.0, operation="all_reduce")


def test_worked_rings() -> None:
    """n = 64, α = 5 µs, 40 GB/s: 682 µs for 1 MiB, 53.5 ms for 1 GiB."""
    assert ring_time(2.0**20, 64.0, 40e9, 5e-6, operation="all_reduce") == pytest.approx(682e-6, rel=1e-3)
    assert ring_time(2.0**30, 64.0, 40e9, 5e-6, operation="all_reduce") == pytest.approx(53.5e-3, rel=1e-3)


def test_nccl_tests_on_eight_a100() -> None:
    """4 GiB at a busbw of 233.88 GB/s take 32.137 ms (nccl-tests printed 32,136 µs), 133.65 GB/s of algbw."""
    time = wire_bytes(2.0**32, 8.0, operation="all_reduce") / 233.88e9
    assert time == pytest.approx(32.137e-3, abs=0.5e-6)
    assert bus_bandwidth(2.0**32, 8.0, time, operation="all_reduce") == pytest.approx(233.88e9)
    assert algorithm_bandwidth(2.0**32, time) == pytest.approx(133.65e9, rel=1e-4)


@pytest.mark.parametrize(
    ("operation", "factor"),
    [("all_reduce", 14 / 8), ("reduce_scatter", 7 / 8), ("all_gather", 7 / 8), ("all_to_all", 7 / 8)],
)
def test_busbw_is_algbw_times_the_factor_of_nccl_tests(operation: Any, factor: float) -> None:
    busbw = bus_bandwidth(1e9, 8.0, 1e-3, operation=operation)
    assert busbw == pytest.approx(float(algorithm_bandwidth(1e9, 1e-3)) * factor)


@pytest.mark.parametrize("operation", ["broadcast", "send"])
def test_busbw_of_a_broadcast_is_algbw(operation: Any) -> None:
    assert bus_bandwidth(1e9, 8.0, 1e-3, operation=operation) == algorithm_bandwidth(1e9, 1e-3)


def test_a_ring_at_full_rate_shows_the_link_as_busbw() -> None:
    for ranks in (2.0, 8.0, 512.0):
        time = ring_time(1e9, ranks, 40e9, 0.0, operation="all_reduce")
        assert bus_bandwidth(1e9, ranks, time, operation="all_reduce") == pytest.approx(40e9)


def test_two_levels_become_one() -> None:
    assert two_level_time(0.02, 0.0, 0.3) == 0.02
    assert two_level_time(0.0, 0.02, 0.3) == 0.02
    assert two_level_time(0.02, 0.03, 0.0) == 0.03
    assert two_level_time(0.02, 0.03, 1.0) == 0.05


def test_four_nodes_of_eight_b200() -> None:
    """4 GiB over 4 × 8 at 50 GB/s a GPU: 16.1 ms between nodes, whose bytes are those of a flat ring over the NICs."""
    across = ring_time(2.0**32 / 8, 4.0, 50e9, 0.0, operation="all_reduce")
    assert across == pytest.approx(16.1e-3, rel=2e-3)
    assert two_level_time(26.3e-3 - 16.1e-3, across, 1.0) == pytest.approx(26.3e-3, rel=2e-3)
    per_node = 8 * wire_bytes(2.0**32 / 8, 4.0, operation="all_reduce")
    flat = wire_bytes(2.0**32, 32.0, operation="all_reduce")
    assert per_node == pytest.approx(flat * (1 - 1 / 4) / (1 - 1 / 32))


def test_the_blend_lies_between_the_longer_and_the_sum_of_both_and_more() -> None:
    wire = np.logspace(3, 11, 50)
    blended = np.asarray(blended_time(20e-6, wire, 200e9, 1.4))
    assert np.all(blended >= 20e-6 + wire / 200e9)
    assert np.all(blended <= 20e-6 + wire / 200e9 + 1.4 * np.maximum(20e-6, wire / 200e9))
    assert blended[0] == pytest.approx(20e-6, rel=0.05)
    assert blended[-1] == pytest.approx(wire[-1] / 200e9, rel=0.02)


@each("ranks, stride, domain", product((1, 2, 3, 4, 6, 8, 12, 16, 32), (1, 2, 3, 4, 6, 8, 16), (4, 6, 8, 16)))
def test_the_group_that_reaches_furthest_is_counted(ranks: int, stride: int, domain: int) -> None:
    """All groups of a world that both fill, rank by rank: the one in most domains."""
    size, step, whole = float(ranks), float(stride), float(domain)
    place = group_place(size * step, step, whole)
    domains = domains_spanned(size, step, whole, place)
    first = first_inside(step, whole, place)
    inside = ranks_inside(size, step, whole, first, domains)
    counts = list[list[int]]()
    for start in range(math.lcm(ranks * stride, domain)):
        if start % (ranks * stride) < stride:
            homes = [(start + member * stride) // domain for member in range(ranks)]
            counts.append([homes.count(home) for home in set(homes)])
    worst = max(counts, key=lambda each: (len(each), -min(each)))
    assert domains == len(worst)
    if domain % stride == 0:
        assert inside == max(worst)
        assert fewest_inside(size, first, domains, inside) == min(worst)


def test_interfaces_are_shared_by_the_accelerators_of_a_node() -> None:
    """One NIC a GPU is not a law: p4d has four for eight."""
    assert interface_bandwidth(8.0, 50e9, 8.0, 1.0) == 50e9
    assert interface_bandwidth(4.0, 12.5e9, 8.0, 1.0) == 6.25e9


@pytest.mark.parametrize(
    ("gradient", "weight", "operation", "gathers", "gigabytes"),
    [
        (2.0, 0.0, "all_reduce", 0, 31.6),
        (4.0, 0.0, "all_reduce", 0, 63.2),
        (2.0, 2.0, "reduce_scatter", 2, 47.4),
        (4.0, 2.0, "reduce_scatter", 2, 63.2),
    ],
)
def test_traffic_of_llama_3_8b_on_64_ranks(
    gradient: float, weight: float, operation: Any, gathers: int, gigabytes: float
) -> None:
    sent = wire_bytes(gradient_traffic(LLAMA_8B, gradient), 64.0, operation=operation)
    sent = sent + gathers * wire_bytes(gradient_traffic(LLAMA_8B, weight), 64.0, operation="all_gather")
    assert sent / 1e9 == pytest.approx(gigabytes, abs=0.05)


def test_activations_of_a_70b_model_between_ranks() -> None:
    """One sequence of 8192 at h = 8192: 134 MB, 16.8 MB for each of 8 ranks; 80 layers of 4 all-reduces 75.2 GB."""
    message = activation_message(8192.0, 8192.0, 2.0)
    assert message == pytest.approx(134.2e6, rel=1e-3)
    assert message / 8 == pytest.approx(16.8e6, rel=2e-3)
    layer = 4 * wire_bytes(message, 8.0, operation="all_reduce")
    assert layer == pytest.approx(939.5e6, rel=1e-4)
    assert 80 * layer == pytest.approx(75.2e9, rel=1e-3)
    assert 80 * layer / 367e9 == pytest.approx(0.20, abs=0.006)
    parts = 6 * wire_bytes(message, 8.0, operation="all_gather")
    parts = parts + 4 * wire_bytes(message, 8.0, operation="reduce_scatter")
    assert parts == pytest.approx(1174.4e6, rel=1e-4)
