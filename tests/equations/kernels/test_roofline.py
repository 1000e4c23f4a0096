"""Roofline: worked examples on H100, the two roofs as limits, attention, streams, the host."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.memory_traffic import matmul_bytes, optimizer_traffic
from costmodel.equations.kernels.roofline import (
    attention_backward_time,
    attention_forward_time,
    attention_rate,
    host_bound_time,
    matmul_time,
    stream_time,
)

PEAK, BANDWIDTH = 989.4e12, 3.35e12
SHARP = 1e3  # an exponent at which the corner is a corner


def ideal(flop: float, nbytes: float, *, exponent: float = SHARP, sustained: float = 1.0) -> float:
    return float(matmul_time(flop, nbytes, PEAK, BANDWIDTH, 1.0, 1.0, 0.0, exponent, sustained))


def test_a_square_matmul_on_h100() -> None:
    """4096³ in bf16: 1365 FLOP a byte, 173.7 µs at 80 %."""
    flop, nbytes = matmul_flop(4096.0, 4096.0, 4096.0), matmul_bytes(4096.0, 4096.0, 4096.0, 2.0, 2.0)
    assert flop / nbytes == pytest.approx(1365, abs=0.5)
    time = matmul_time(flop, nbytes, PEAK, BANDWIDTH, 0.8, 0.8, 0.0, SHARP, 1.0)
    assert time == pytest.approx(173.7e-6, rel=1e-3)


def test_intensity_of_a_matmul() -> None:
    """M N K / (M K + K N + M N) in bf16."""
    m, n, k = 8192.0, 14336.0, 4096.0
    assert matmul_flop(m, n, k) / matmul_bytes(m, n, k, 2.0, 2.0) == pytest.approx(m * n * k / (m * k + k * n + m * n))


def test_the_two_roofs() -> None:
    ridge = PEAK / BANDWIDTH
    assert ridge == pytest.approx(295, abs=0.5)
    assert ideal(1e12, 1e12 / (100 * ridge)) == pytest.approx(1e12 / PEAK)
    assert ideal(1e12, 1e12 / (ridge / 100)) == pytest.approx(100 * 1e12 / PEAK)
    assert ideal(1e12, 1e12 / ridge) == pytest.approx(1e12 / PEAK, rel=1e-3)
    assert ideal(1e12, 0.0) == pytest.approx(1e12 / PEAK)
    assert ideal(0.0, 1e9) == pytest.approx(1e9 / BANDWIDTH)


@pytest.mark.parametrize("exponent", [1.0, 1.6, 3.2])
def test_a_round_corner_costs_most_at_the_ridge(exponent: float) -> None:
    at = {share: ideal(1e12, share * 1e12 * BANDWIDTH / PEAK, exponent=exponent) * PEAK / 1e12 for share in (0.1, 1.0)}
    assert at[1.0] == pytest.approx(2 ** (1 / exponent))
    assert 1 < at[0.1] < at[1.0]
    assert ideal(1e12, 1e9, exponent=exponent) <= 1e12 / PEAK + 1e9 / BANDWIDTH


def test_shares_start_and_clocks() -> None:
    plain = ideal(1e12, 0.0)
    assert matmul_time(1e12, 0.0, PEAK, BANDWIDTH, 0.5, 1.0, 0.0, SHARP, 1.0) == pytest.approx(2 * plain)
    assert matmul_time(1e12, 0.0, PEAK, BANDWIDTH, 1.0, 1.0, 3e-6, SHARP, 1.0) == pytest.approx(plain + 3e-6)
    assert ideal(1e12, 0.0, sustained=1.39) == pytest.approx(1.39 * plain)
    assert ideal(0.0, 1e9, sustained=1.39) == pytest.approx(ideal(0.0, 1e9)), "clocks slow the tensor cores only"


def test_attention_reaches_half_its_rate_at_the_half_sequence() -> None:
    full = attention_rate(PEAK, 0.6, math.exp(50), 256.0, 128.0, 0.9, 0.8)
    assert full == pytest.approx(0.6 * PEAK)
    assert attention_rate(PEAK, 0.6, 256.0, 256.0, 128.0, 0.9, 0.8) == pytest.approx(full / 2)


@pytest.mark.parametrize(("head_dim", "share"), [(32.0, 0.9), (64.0, 0.9), (80.0, 1.0), (128.0, 1.0), (192.0, 0.8)])
def test_narrow_and_wide_heads_reach_their_shares_of_the_rate(head_dim: float, share: float) -> None:
    usual = attention_rate(PEAK, 0.6, 8192.0, 256.0, 128.0, 0.9, 0.8)
    assert attention_rate(PEAK, 0.6, 8192.0, 256.0, head_dim, 0.9, 0.8) == pytest.approx(share * usual)


def test_attention_backward_runs_five_products_for_two() -> None:
    forward = attention_forward_time(4e11, 5e14, 1.0)
    assert forward == pytest.approx(0.8e-3)
    assert attention_backward_time(4e11, 5e14, 1.0, 1.0) == pytest.approx(5 / 2 * forward)
    assert attention_backward_time(4e11, 5e14, 0.8, 1.39) == pytest.approx(5 / 2 * forward / 0.8 * 1.39)


def test_adam_on_h100() -> None:
    """30 bytes a parameter, of 8.03 B on 64 ranks at 80 % of the bandwidth: 1.40 ms."""
    shard = 8.03e9 / 64
    assert optimizer_traffic(shard, 0.0, 8.0, 4.0) == pytest.approx(30 * shard)
    assert stream_time(optimizer_traffic(shard, 0.0, 8.0, 4.0), BANDWIDTH, 0.8) == pytest.approx(1.40e-3, abs=5e-6)


def test_weights_of_llama_3_8b_streamed_once() -> None:
    """The ceiling of decoding: 4.79 ms for 16.06 GB."""
    assert stream_time(2 * 8.03e9, BANDWIDTH, 1.0) == pytest.approx(4.79e-3, abs=5e-6)


def test_the_longer_of_host_and_device() -> None:
    assert host_bound_time(1.0, 0.0) == 1
    assert host_bound_time(1.0, 0.01) == pytest.approx(1.0, abs=1e-6)
    assert host_bound_time(0.01, 1.0) == pytest.approx(1.0, abs=1e-6)
    assert host_bound_time(1.0, 1.0) == pytest.approx(2 ** (1 / 3))
    grid = np.linspace(0.01, 3, 50)
    both = np.asarray(host_bound_time(grid, 1.0))
    assert np.all(both >= np.maximum(grid, 1.0))
    assert np.all(both <= grid + 1.0)
