"""Context parallelism: the ring by replaying its events, the causal mask by counting, volumes another way."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.network.collectives import wire_bytes
from costmodel.equations.parallelism.context_parallel import (
    exchange_buffer,
    heads_message,
    merge_traffic,
    ring_exposed_time,
)


def replayed(send: float, compute: float, cp: int) -> float:
    """Seconds a rank waits: a block of keys is worked on while the next travels; a step starts with both done."""
    now = arrived = 0.0
    for step in range(cp):
        now = max(now, arrived)
        if step < cp - 1:
            arrived = now + send
        now += compute / cp
    return now - compute


@pytest.mark.parametrize("cp", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("send", [0.0, 0.1, 0.5, 1.0, 4.0])
def test_a_ring_waits_as_its_replayed_events_do(send: float, cp: int) -> None:
    assert float(ring_exposed_time(send, 4.0, float(cp), 1.0)) == pytest.approx(replayed(send, 4.0, cp), abs=1e-12)


def test_without_overlap_a_ring_shows_every_step() -> None:
    assert float(ring_exposed_time(0.25, 100.0, 8.0, 0.0)) == 7 * 0.25


def scores(cp: int, chunks: list[list[int]], width: int) -> list[list[int]]:
    """Causal scores that each rank computes in each step of a ring, counted one by one."""
    tokens = [[chunk * width + place for chunk in mine for place in range(width)] for mine in chunks]
    return [
        [sum(key <= query for query in tokens[rank] for key in tokens[(rank - step) % cp]) for step in range(cp)]
        for rank in range(cp)
    ]


@pytest.mark.parametrize("cp", [2, 3, 4])
def test_chunks_dealt_early_with_late_are_even(cp: int) -> None:
    """Every rank does the same, and every step too up to the diagonal's half tokens."""
    width = 6
    counted = scores(cp, [[rank, 2 * cp - 1 - rank] for rank in range(cp)], width)
    assert len({sum(steps) for steps in counted}) == 1
    assert {steps[0] - width for steps in counted} == {each for steps in counted for each in steps[1:]}


@pytest.mark.parametrize("cp", [2, 4, 8])
def test_chunks_dealt_in_order_leave_the_last_rank_nearly_twice_the_share(cp: int) -> None:
    counted = [sum(steps) for steps in scores(cp, [[2 * rank, 2 * rank + 1] for rank in range(cp)], 16)]
    assert max(counted) / np.mean(counted) == pytest.approx(2 - 1 / cp, rel=0.01)


def test_ring_and_heads_in_the_known_case() -> None:
    """A 70B layer, 131,072 tokens over eight ranks: 470 MB around the ring, 528 MB by all-to-all."""
    tokens = 131072.0 / 8
    ring = 7 * 2 * heads_message(tokens, 8.0, 128.0, 2.0)
    heads = sum(
        wire_bytes(2 * heads_message(tokens, count, 128.0, 2.0), 8.0, operation="all_to_all") for count in (64.0, 8.0)
    )
    assert ring / 1e6 == pytest.approx(470, rel=0.001)
    assert heads / 1e6 == pytest.approx(528, rel=0.001)


def test_a_gather_carries_what_a_ring_carries() -> None:
    gathered = 2 * wire_bytes(heads_message(131072.0, 8.0, 128.0, 2.0), 8.0, operation="all_gather")
    assert gathered == pytest.approx(7 * 2 * heads_message(131072.0 / 8, 8.0, 128.0, 2.0))


def test_buffers_and_merge() -> None:
    assert merge_traffic(4096.0, 32.0, 128.0, 2.0, 1.0) == 0
    whole = exchange_buffer(8 * 4096.0, 32.0, 8.0, 128.0, 2.0, cp_type="all-gather")
    assert whole == 4 * exchange_buffer(4096.0, 32.0, 8.0, 128.0, 2.0, cp_type="p2p")
