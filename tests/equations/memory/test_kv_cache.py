"""Bytes of caches: published models, engines' logs, and a cache that is counted token by token."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.layers.attention import compressed_query_parameters, latent_attention_parameters
from costmodel.equations.memory.kv_cache import (
    admitted_window_tokens,
    attention_cache_bytes,
    block_tokens,
    block_waste,
    latent_cache_bytes,
    mean_context,
    reserved_waste,
    state_cache_bytes,
    window_tokens,
)
from costmodel.equations.parallelism.counts import kv_heads_per_rank
from costmodel.equations.serving.engine_step import scaled_element_bytes

GIB = 2.0**30


@pytest.mark.parametrize(
    ("layers", "kv_heads", "head_dim", "element", "nbytes"),
    [
        (40, 40, 128, 2, 819_200),  # Llama 2 13B
        (32, 8, 128, 2, 131_072),  # Llama 3.1 8B
        (80, 8, 128, 2, 327_680),  # Llama 3.1 70B
        (126, 8, 128, 2, 516_096),  # Llama 3.1 405B
        (4, 8, 128, 2, 16_384),  # Nemotron-H 8B, its attention layers
        (80, 8, 128, 1, 163_840),  # 70B with an int8 cache, "How to Scale Your Model" chapter 8
        (28, 4, 128, 2, 57_344),  # Qwen 2.5 7B
    ],
)
def test_bytes_of_a_token(layers: int, kv_heads: int, head_dim: int, element: int, nbytes: int) -> None:
    assert layers * attention_cache_bytes(1.0, float(kv_heads), float(head_dim), float(element)) == nbytes


def test_a_sequence_of_2048_tokens_on_llama_13b_takes_1_7_gb() -> None:
    """vLLM blog of June 2023: "up to 1.7 GB for a single sequence"."""
    assert 40 * attention_cache_bytes(2048.0, 40.0, 128.0, 2.0) / 1e9 == pytest.approx(1.7, rel=0.02)


def test_sglang_logs_as_many_bytes_of_keys() -> None:
    """vllm issue 21348: Qwen3-235B on tp 4, 367,404 tokens, "K size: 8.23 GB" in GiB; one of four heads on a rank."""
    heads = kv_heads_per_rank(4.0, 4.0)
    assert 94 * attention_cache_bytes(1.0, heads, 128.0, 2.0) == 48_128
    assert 94 * attention_cache_bytes(367_404.0, heads, 128.0, 2.0) / 2 / GIB == pytest.approx(8.23, abs=0.005)


def test_a_32k_sequence_of_a_70b_in_int8_takes_5_3_gb() -> None:
    """ "How to Scale Your Model", chapter 8; a full v5e of 16 GB is read in 19 ms."""
    assert 80 * attention_cache_bytes(32_768.0, 8.0, 128.0, 1.0) / 1e9 == pytest.approx(5.3, rel=0.02)


@pytest.mark.parametrize("tp", [8.0, 16.0])
def test_heads_repeat_beyond_their_number(tp: float) -> None:
    assert 80 * attention_cache_bytes(1.0, kv_heads_per_rank(8.0, tp), 128.0, 2.0) == 40_960


def test_latent_cache_of_deepseek_v3() -> None:
    """576 numbers a layer; in fp8_ds_mla 512 bytes, four fp32 scales, and 64 numbers of 16 bits with positions."""
    packed = scaled_element_bytes(1.0, 4.0, 128.0)
    assert 61 * latent_cache_bytes(1.0, 512.0, 64.0, 2.0, 2.0) == 70_272
    assert latent_cache_bytes(1.0, 512.0, 64.0, packed, 2.0) == 512 + 4 * 4 + 64 * 2
    assert 61 * latent_cache_bytes(1.0, 512.0, 64.0, packed, 2.0) == 40_016
    assert 8 * 61 * latent_cache_bytes(1.0, 512.0, 64.0, 2.0, 2.0) == 562_176  # eight ranks hold eight copies
    assert latent_cache_bytes(1.0, 128.0, 0.0, packed, 2.0) == 128 + 4  # an indexer's key


def test_data_parallel_attention_holds_6_times_the_tokens_of_deepseek_v3() -> None:
    """fp8 on 8 H200: a copy of the cache on each rank, or a cache of its own beside a copy of attention's weights."""
    attention = compressed_query_parameters(7168.0, 128.0, 192.0, 1536.0) + latent_attention_parameters(
        7168.0, 128.0, 512.0, 128.0, 64.0, 128.0
    )
    assert attention / 1e6 == pytest.approx(187.1, abs=0.05)
    per_token, whole, copied = 61 * latent_cache_bytes(1.0, 512.0, 64.0, 2.0, 2.0), 671.026e9, 61 * attention
    free = (0.92 * 139.8 - 4.5) * GIB
    split = (free - whole / 8) / per_token
    apart = 8 * (free - (whole - copied) / 8 - copied) / per_token
    assert split / 1e3 == pytest.approx(703, abs=1)
    assert apart / 1e3 == pytest.approx(4486, abs=1)
    assert apart / split == pytest.approx(6.4, rel=0.05)


def test_context_parallel_decode_divides_tokens() -> None:
    whole = attention_cache_bytes(131_072.0, 8.0, 128.0, 2.0)
    assert attention_cache_bytes(131_072.0 / 4.0, 8.0, 128.0, 2.0) == whole / 4


def test_windows_of_gemma_3_27b() -> None:
    """Ten layers see all, 52 a window of 1,024; 16 key heads of 128."""
    each = attention_cache_bytes(1.0, 16.0, 128.0, 2.0)
    steady = each * (10 * 8192 + 52 * window_tokens(8192.0, 1024.0))
    assert steady / 1e9 == pytest.approx(1.1073, rel=1e-4)
    assert 62 * 8192 * each / 1e9 == pytest.approx(4.1607, rel=1e-4)
    assert 62 * 8192 * each / steady == pytest.approx(3.7576, rel=1e-4)


def test_windows_of_gpt_oss() -> None:
    """hf-mem issue 70: 32 sequences of 8,192 on 24 layers, every second with a window of 128; 12 GiB are admitted."""
    steady = attention_cache_bytes(12 * 8192 + 12 * window_tokens(8192.0, 128.0), 8.0, 64.0, 2.0)
    admitted = attention_cache_bytes(
        12 * block_tokens(8192.0, 16.0) + 12 * admitted_window_tokens(8192.0, 128.0, 8192.0, 16.0), 8.0, 64.0, 2.0
    )
    assert 32 * steady / GIB == pytest.approx(6.09, abs=0.005)
    assert 32 * admitted / GIB == pytest.approx(12.0, rel=2e-3)
    deep = attention_cache_bytes(18 * 131_072 + 18 * window_tokens(131_072.0, 128.0), 8.0, 64.0, 2.0)
    assert deep / 1e9 == pytest.approx(4.836, rel=1e-3)


@pytest.mark.parametrize("budget", [64, 512, 8192])
@pytest.mark.parametrize("window", [1, 100, 1024])
def test_admission_covers_every_place_of_a_window_while_a_prompt_arrives(window: int, budget: int) -> None:
    """What is live while chunks arrive: the last window − 1 tokens and the chunk, from any place in a block."""
    longest, block = 5000, 16
    done = np.arange(0, longest, budget)
    first = np.maximum(done - (window - 1), 0)
    last = np.minimum(done + budget, longest) - 1
    live = int(np.max(last // block - first // block + 1)) * block
    admitted = float(admitted_window_tokens(float(longest), float(window), float(budget), float(block)))
    assert live <= admitted <= live + 2 * block


def test_state_of_nemotron_h() -> None:
    """24 Mamba-2 layers of 128 heads: a state as large as the keys and values of 3,072 tokens."""
    shape = (128.0, 64.0, 8.0, 128.0)
    state = 24 * state_cache_bytes(*shape, 1.0, 2.0, 2.0)
    assert state / 1e6 == pytest.approx(50.33, abs=0.005)
    assert state / (4 * attention_cache_bytes(1.0, 8.0, 128.0, 2.0)) == 3072
    assert (24 * state_cache_bytes(*shape, 4.0, 2.0, 2.0) - state) / 1e6 == pytest.approx(1.4746, abs=5e-5)


def test_waste_of_blocks() -> None:
    lengths = np.arange(1, 1601, dtype=np.float64)
    assert np.mean(block_tokens(lengths, 16.0) - lengths) == block_waste(16.0) == 7.5
    assert block_waste(16.0) / (500 + block_waste(16.0)) == pytest.approx(0.01478, rel=1e-3)


def test_reserving_2048_for_500_wastes_three_quarters() -> None:
    assert float(reserved_waste(500.0, 2048.0)) == pytest.approx(0.756, abs=5e-4)
    assert float(reserved_waste(3000.0, 2048.0)) == 0


def test_mean_context_of_equal_answers_is_half_an_answer() -> None:
    assert mean_context(4000.0, 500.0, 0.0) == 4250


@settings(max_examples=10)
@given(st.floats(0.2, 1.5), st.integers(0, 1000))
def test_mean_context_is_what_is_found_at_a_random_step(variation: float, seed: int) -> None:
    """Every step of every answer counted once: long answers are met more often."""
    spread = np.sqrt(np.log1p(variation**2))
    drawn = np.random.default_rng(seed).lognormal(np.log(400) - spread**2 / 2, spread, 40_000)
    met = 1000 + np.sum(drawn**2) / 2 / np.sum(drawn)
    found = float(np.std(drawn) / np.mean(drawn))
    assert mean_context(1000.0, float(np.mean(drawn)), found) == pytest.approx(met, rel=1e-9)
