"""Compression: bytes counted, published reductions, and where it breaks even."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.equations.data_parallel import (
    break_even_bandwidth,
    compressed_wire,
    largest_gathered_group,
    low_rank_share,
    quantised_share,
    sparse_share,
)
from costmodel.equations.memory.offload import link_time
from costmodel.equations.memory.states import gradient_traffic
from costmodel.equations.network.collectives import wire_bytes

GRADIENTS = 28e9  # 7 B in fp32


def test_bytes_of_codes_counted_in_arrays() -> None:
    """Arrays as they would be sent: fp16, int8 with a scale for each 256, bits, values with places, two factors."""
    gradients = np.zeros((4096, 1024), dtype=np.float32)
    raw = gradients.nbytes
    scales = np.zeros(gradients.size // 256, dtype=np.float32).nbytes
    assert quantised_share(2.0, 0.0, 1.0, 4.0) == gradients.astype(np.float16).nbytes / raw == 1 / 2
    assert quantised_share(1.0, 4.0, 256.0, 4.0) == (gradients.astype(np.int8).nbytes + scales) / raw
    assert quantised_share(1 / 8, 0.0, 1.0, 4.0) == np.packbits(gradients > 0).nbytes / raw == 1 / 32
    kept = gradients.size // 1024
    values, places = np.zeros(kept, dtype=np.float32), np.zeros(kept, dtype=np.int32)
    assert sparse_share(1 / 1024, 4.0, 4.0, 4.0) == (values.nbytes + places.nbytes) / raw
    factors = np.zeros((4096, 4), dtype=np.float32).nbytes + np.zeros((1024, 4), dtype=np.float32).nbytes
    assert low_rank_share(4.0, 4096.0, 1024.0) == factors / raw


def test_known_shares() -> None:
    """Rank 4 of 4096 × 4096 is 1/512, of 4096 × 14336 1/796; top 0.1 % with places is 0.2 %."""
    assert low_rank_share(4.0, 4096.0, 4096.0) == 1 / 512
    assert 1 / low_rank_share(4.0, 4096.0, 14336.0) == pytest.approx(796, abs=0.5)
    assert sparse_share(0.001, 4.0, 4.0, 4.0) == pytest.approx(0.002)
    assert low_rank_share(4.0, 4.0, 4.0) > 1


def test_one_bit_adam_reduces_up_to_five_times() -> None:
    """DeepSpeed tutorial: up to 5 times, in fp16 after a warm-up of 15 to 25 % of the steps: 4.9 to 3.4 times."""
    one_bit = quantised_share(1 / 8, 0.0, 1.0, 2.0)
    assert one_bit == 1 / 16


def test_raw_gradients_are_an_all_reduce() -> None:
    whole = compressed_wire(GRADIENTS, 64.0, 1.0, reducible=True)
    assert whole == pytest.approx(float(wire_bytes(GRADIENTS, 64.0, operation="all_reduce")), rel=1e-15)
    gathered = wire_bytes(64.0 * 0.002 * GRADIENTS, 64.0, operation="all_gather")
    assert compressed_wire(GRADIENTS, 64.0, 0.002, reducible=False) == pytest.approx(float(gathered), rel=1e-15)


@given(st.floats(1e-4, 0.5))
def test_gathering_loses_beyond_its_largest_group(share: float) -> None:
    group = float(largest_gathered_group(share))
    raw = compressed_wire(1.0, group, 1.0, reducible=True)
    assert compressed_wire(1.0, group, share, reducible=False) == pytest.approx(float(raw))
    assert compressed_wire(1.0, group * 1.1, share, reducible=False) > compressed_wire(
        1.0, group * 1.1, 1.0, reducible=True
    )


def test_top_k_pays_up_to_a_thousand_ranks() -> None:
    assert largest_gathered_group(sparse_share(0.001, 4.0, 4.0, 4.0)) == pytest.approx(1000)


def test_break_even_of_7b_on_64_ranks() -> None:
    """int8 in 40 ms pays under 1,034 GB/s, rank 4 in half a second under 110 GB/s."""
    assert break_even_bandwidth(GRADIENTS, 64.0, 0.25, 0.04) / 1e9 == pytest.approx(1033.6, rel=1e-4)
    assert break_even_bandwidth(GRADIENTS, 64.0, 1 / 512, 0.5) / 1e9 == pytest.approx(110.0, rel=1e-3)


@given(st.integers(2, 1024).map(float), st.floats(0.01, 0.99), st.floats(1e-3, 1.0))
def test_at_break_even_both_take_as_long(ranks: float, share: float, codec: float) -> None:
    bandwidth = break_even_bandwidth(GRADIENTS, ranks, share, codec)
    raw, small = (link_time(compressed_wire(GRADIENTS, ranks, c, reducible=True), bandwidth, 1.0) for c in (1.0, share))
    assert small + codec == pytest.approx(float(raw), rel=1e-9)


def test_error_feedback_holds_a_gradient_more() -> None:
    """4 bytes a parameter in fp32, whole on every rank: as much as the gradients, 28 GB for 7 B parameters."""
    assert gradient_traffic(7e9, 4.0) == GRADIENTS


def test_intellect_1_sends_a_four_hundredth() -> None:
    """INTELLECT-1: int8 instead of fp32, once in 100 steps."""
    assert 100 / quantised_share(1.0, 0.0, 1.0, 4.0) == 400
