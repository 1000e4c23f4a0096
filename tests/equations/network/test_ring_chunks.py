"""The table of a ring all-reduce, carried out."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.network.collectives import ring_chunk, ring_steps, wire_bytes


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_every_rank_ends_with_the_sum(ranks: int) -> None:
    """Chunks of numbers are added and passed on as the table says, in 2 (n − 1) steps of an n-th of the buffer."""
    buffers = np.random.default_rng(1).integers(0, 1000, (ranks, ranks))
    expected = buffers.sum(axis=0)
    members = np.arange(ranks, dtype=np.float64)
    steps = 0
    for half in ("scatter", "gather"):
        for step in range(ranks - 1):
            chunk = np.asarray(ring_chunk(members, float(step), float(ranks), half=half)).astype(int)  # type: ignore[arg-type]
            assert sorted(chunk) == list(range(ranks))
            arriving = buffers[np.arange(ranks), chunk]
            nearest = (np.arange(ranks) + 1) % ranks
            buffers[nearest, chunk] = buffers[nearest, chunk] + arriving if half == "scatter" else arriving
            steps += 1
    np.testing.assert_array_equal(buffers, np.tile(expected, (ranks, 1)))
    assert steps == ring_steps(float(ranks), operation="all_reduce")
    assert steps / ranks == pytest.approx(float(wire_bytes(1.0, float(ranks), operation="all_reduce")))
