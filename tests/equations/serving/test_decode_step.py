"""What a step of decoding reads and computes, against draws, tables of others and bounds."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.kernels.flop import FLOP_PER_MAC, matmul_flop
from costmodel.equations.kernels.roofline import stream_time
from costmodel.equations.memory.kv_cache import attention_cache_bytes, latent_cache_bytes
from costmodel.equations.run.economics import work_time
from costmodel.equations.serving.engine_step import (
    absorbed_attention_flop,
    compute_bound_batch,
    expert_layer_bytes,
    expert_read_probability,
    experts_read,
    fastest_user_rate,
)

H100 = (989.4e12, 3.35e12)


@pytest.mark.parametrize(("tokens", "read"), [(1, 8), (2, 15.75), (8, 57.4), (32, 163.3), (64, 222.4), (128, 251.6)])
def test_experts_of_deepseek_v3_that_a_step_reads(tokens: int, read: float) -> None:
    assert float(experts_read(float(tokens), 8.0, 256.0)) == pytest.approx(read, abs=0.05)


@pytest.mark.parametrize("tokens", [1, 4, 16])
def test_experts_read_by_draws(tokens: int) -> None:
    random = np.random.default_rng(tokens)
    drawn = random.random((4000, tokens, 32)).argsort(axis=2)[:, :, :4]
    met = np.mean([len(np.unique(step)) for step in drawn])
    assert float(experts_read(float(tokens), 4.0, 32.0)) == pytest.approx(met, rel=0.01)


def test_uneven_routing_reads_fewer() -> None:
    """Probabilities that fall as 1/rank, 8 of 256, none over 1: 97 experts at 32 tokens instead of 163."""
    falling = 1 / np.arange(1, 257)
    probabilities = np.minimum(8 * falling / falling.sum(), 1)
    uneven = float(np.sum(expert_read_probability(32.0, probabilities)))
    assert uneven == pytest.approx(96.9, abs=0.05)
    even = np.full(256, 8 / 256)
    assert np.sum(expert_read_probability(32.0, even)) == pytest.approx(float(experts_read(32.0, 8.0, 256.0)))


def test_weights_of_a_routed_layer_at_32_tokens() -> None:
    """DeepSeek-V3 in fp8: 163 experts of three matrices of 7,168 by 2,048."""
    weights = expert_layer_bytes(experts_read(32.0, 8.0, 256.0), 0.0, 7168.0, 2048.0, 1.0, 2.0)
    assert weights / 1e9 == pytest.approx(7.19, abs=0.005)
    rows = expert_layer_bytes(0.0, 32 * 8.0, 7168.0, 2048.0, 1.0, 2.0)
    assert rows == 2 * 2 * 256 * (7168 + 2048)
    assert rows / weights < 0.002


def test_absorbed_attention_is_near_the_ridge_of_an_h100() -> None:
    """Scores over 576 numbers and values over 512, 128 heads, for the 1,152 bytes of a cached token."""
    work = absorbed_attention_flop(1.0, 1.0, 128.0, 512.0, 64.0)
    assert work == 2 * 128 * (576 + 512) == 278_528
    intensity = work / latent_cache_bytes(1.0, 512.0, 64.0, 2.0, 2.0)
    ridge = H100[0] / H100[1]
    assert intensity == pytest.approx(241.8, abs=0.05)
    assert intensity < ridge < 2 * intensity
    two = absorbed_attention_flop(1.0, 2.0, 128.0, 512.0, 64.0) / latent_cache_bytes(1.0, 512.0, 64.0, 2.0, 2.0)
    assert two == pytest.approx(483.6, abs=0.05)


def test_grouped_queries_make_8_flop_a_byte() -> None:
    scores_and_values = 2 * FLOP_PER_MAC * 64 * 128
    assert scores_and_values / attention_cache_bytes(1.0, 8.0, 128.0, 2.0) == 8


def test_compute_bound_batch_is_where_the_roofs_meet() -> None:
    assert compute_bound_batch(2.0, *H100) == pytest.approx(295.3, abs=0.05)
    assert compute_bound_batch(0.51953125, *H100) == pytest.approx(76.7, abs=0.05)
    batch = compute_bound_batch(2.0, *H100)
    assert FLOP_PER_MAC * batch * 1e6 / H100[0] == pytest.approx(2 * 1e6 / H100[1])


def test_weights_of_an_8b_at_the_memorys_rate() -> None:
    assert stream_time(2 * 8.03e9, H100[1], 1.0) * 1e3 == pytest.approx(4.79, abs=0.005)


@pytest.mark.parametrize(("batch", "milliseconds"), [(4, 2.57), (256, 21.05)])
def test_30b_int8_on_16_v5e(batch: int, milliseconds: float) -> None:
    """ "How to Scale Your Model", chapter 7: 8,192 tokens of 100 kB, products at the peak where they are longer."""
    cache = stream_time(batch * 819.2e6, 16 * 8.1e11, 1.0)
    dense = np.maximum(stream_time(30e9, 16 * 8.1e11, 1.0), work_time(matmul_flop(batch, 30e9, 1.0), 1.97e14, 16.0))
    assert (cache + dense) * 1e3 == pytest.approx(milliseconds, rel=2e-3)
    assert (batch > compute_bound_batch(1.0, 1.97e14, 8.1e11)) == (batch == 256)


@pytest.mark.parametrize(("batch", "milliseconds"), [(1, 4.98), (16, 20.30), (240, 249.09)])
def test_llama_2_13b_on_8_v5e(batch: int, milliseconds: float) -> None:
    """The book's table: 6.7 GB of cache a sequence, 26 GB of weights, all read in a step."""
    cache = 40 * attention_cache_bytes(8192.0, 40.0, 128.0, 2.0)
    assert cache / 1e9 == pytest.approx(6.7, abs=0.02)
    assert stream_time(batch * 6.7e9 + 26e9, 8 * 8.2e11, 1.0) * 1e3 == pytest.approx(milliseconds, rel=2e-3)
    assert (batch * cache + 26e9 <= 8 * 16 * 2**30) == (batch <= 16)


def test_no_user_beats_the_memory() -> None:
    """A claim of 120 tokens a second for one user of a 70B in fp8 on one H100 is over the bound of 47.5."""
    assert fastest_user_rate(70.55e9, 1.0, 3.35e12) == pytest.approx(47.5, abs=0.05)
    palm = 1e3 / fastest_user_rate(540e9, 64.0, 1.228e12)  # Pope et al.: PaLM 540B in int8 on 64 TPU v4
    assert palm == pytest.approx(6.87, abs=0.005)
    assert 29 / palm == pytest.approx(4.22, abs=0.005)
