"""Overlap: DDP buckets, FSDP blocks, sends of a pipeline; and the limits."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.network.collectives import wire_bytes
from costmodel.equations.network.overlap import bucket_bytes, bucket_count, exposed_sends, exposed_time, sends_of_rank
from costmodel.equations.parallelism.pipeline import pipeline_time

LLAMA_8B, BLOCK = 8030261248.0, 218_112_000.0
MIB = 2.0**20
times = st.floats(1e-6, 1e3)


def test_ddp_of_llama_3_8b() -> None:
    """64 ranks at 40 GB/s: 0.790 s beside a backward of 0.937 s in 613 buckets leave 1.3 ms."""
    buckets = bucket_count(2 * LLAMA_8B, 25 * MIB)
    network = float(wire_bytes(2 * LLAMA_8B, 64.0, operation="all_reduce")) / 40e9
    assert buckets == 613
    assert network == pytest.approx(0.790, abs=1e-3)
    assert exposed_time(network, 0.937, 1.0, network / buckets) == pytest.approx(1.3e-3, abs=5e-5)


def test_fsdp_of_llama_3_8b() -> None:
    """A block gathers in 10.74 ms: hidden by 13.74 ms of forward, 3.86 ms shown beside 6.87 ms."""
    gather = float(wire_bytes(2 * BLOCK, 64.0, operation="all_gather")) / 40e9
    forward = {tokens: 2 * BLOCK * tokens / 600e12 for tokens in (8192, 16384)}
    assert gather == pytest.approx(10.74e-3, abs=5e-6)
    assert exposed_time(gather, 13.74e-3, 1.0, 0.0) == 0
    assert exposed_time(gather, 6.87e-3, 1.0, 0.0) == pytest.approx(3.86e-3, abs=1e-5)
    assert forward[8192] < gather < forward[8192] * 2


def test_fsdp_is_compute_bound_from_15_000_tokens() -> None:
    """Tokens at which the forward of a block takes as long as its gather: w P / 2 B, whatever the block's size."""
    for block in (1e8, 1e10):
        at = 2 * 600e12 / (2 * 40e9)
        forward, gather = 2 * block * at / 600e12, 2 * block / 40e9
        assert at == 15_000
        assert exposed_time(gather, forward * 1.001, 1.0, 0.0) == 0
        assert exposed_time(gather, forward * 0.9, 1.0, 0.0) == pytest.approx(0.1 * gather)


@settings(derandomize=True, database=None, max_examples=200)
@given(times, times, st.floats(0, 1), times)
def test_exposed_lies_between_nothing_and_all(communication: float, compute: float, share: float, tail: float) -> None:
    shown = exposed_time(communication, compute, share, tail)
    assert 0 <= shown <= communication
    assert shown >= min(tail, communication)
    assert shown >= (communication - compute) * (1 - 1e-12)


@pytest.mark.parametrize("communication", [0.1, 1.0, 3.0])
def test_limits_of_overlap(communication: float) -> None:
    assert exposed_time(communication, 2.0, 0.0, 0.0) == communication
    assert exposed_time(communication, 0.0, 1.0, 0.0) == communication
    assert exposed_time(communication, math.inf, 1.0, 0.0) == 0
    assert exposed_time(communication, 2.0, 1.0, 0.0) == max(0.0, communication - 2.0)
    assert exposed_time(communication, math.inf, 1.0, 10.0) == communication, "a tail is no longer than the whole"
    assert exposed_time(0.0, 2.0, 0.5, 1.0) == 0


def test_buckets_cover_the_message() -> None:
    for nbytes in (1.0, 25 * MIB, 25 * MIB + 1, 16e9):
        count = float(bucket_count(nbytes, 25 * MIB))
        assert count == max(1, math.ceil(nbytes / (25 * MIB)))
        assert nbytes / count <= 25 * MIB
    assert bucket_count(0.0, 25 * MIB) == 1


def test_megatrons_bucket_grows_with_the_group() -> None:
    """40 M elements at least, 1 M for each rank, in fp32."""
    assert [float(bucket_bytes(160e6, 4e6, ranks)) for ranks in (8.0, 40.0, 64.0)] == [160e6, 160e6, 256e6]


def test_sends_of_a_pipeline() -> None:
    """Filling and draining show 2 (p − 1) sends; without overlap each of the 2 m sends of a rank shows too."""
    assert exposed_sends(4.0, 128.0, 1.0, 1e-3, 1.0) == pytest.approx(2 * 3 * 1e-3)
    assert exposed_sends(4.0, 128.0, 1.0, 1e-3, 0.0) == pytest.approx(2 * (3 + 64) * 1e-3)
    assert exposed_sends(4.0, 640.0, 5.0, 1e-3, 1.0) == pytest.approx(5 * 2 * 3 * 1e-3)
    assert exposed_sends(1.0, 0.0, 1.0, 1e-3, 0.0) == 0
    steady = [exposed_sends(4.0, 2 * m, 1.0, 1e-3, 1.0) for m in (4.0, 400.0)]
    assert steady[0] == steady[1]


PLACES = {
    "looped": lambda ranks, chunks: [[stage % ranks for stage in range(ranks * chunks)]],
    "folded": lambda ranks, _: [[*range(ranks), *reversed(range(ranks))]],
    "both ways": lambda ranks, _: [[*range(ranks)], [*reversed(range(ranks))]],
}


@pytest.mark.parametrize(("lie", "chunks"), [("looped", 1), ("looped", 3), ("folded", 2), ("both ways", 1)])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_a_rank_sends_over_the_boundaries_it_has(lie: str, chunks: int, ranks: int) -> None:
    """Micro-batches walked through the stages and back, over each of the ways that stages lie on ranks."""
    ways, micro_batches, sent = PLACES[lie](ranks, chunks), 16, Counter[int]()
    for batch in range(micro_batches):
        way = ways[batch % len(ways)]
        for here, there in itertools.pairwise(way):
            if here != there:
                sent[here] += 1  # the activation
                sent[there] += 1  # its gradient
    found = sends_of_rank(float(ranks), float(micro_batches), float(chunks), 2.0 if lie == "folded" else 1.0)
    assert found == max(sent.values(), default=0)


def test_hidden_sends_add_what_a_longer_way_through_adds() -> None:
    """A send of τ after each of p − 1 stages, forward and back, lengthens a micro-batch's way by 2 (p − 1) τ."""
    p, forward, backward, send = 4, 1.0, 2.0, 0.1
    way = p * forward + (p - 1) * send + p * backward + (p - 1) * send
    ends = (forward, backward) * 3
    alone = pipeline_time(float(p), 1.0, 1.0, *ends, schedule="1f1b")
    assert way - alone == pytest.approx(exposed_sends(float(p), 2.0, 1.0, send, 1.0))


def test_a_table_is_its_rows() -> None:
    communication = np.array([0.1, 1.0, 3.0])
    table = np.asarray(exposed_time(communication, 2.0, 0.8, 0.05))
    np.testing.assert_array_equal(table, [exposed_time(value, 2.0, 0.8, 0.05) for value in communication])
