"""Prompts in chunks and behind prefixes, counted query by query."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.kernels.flop import attention_flop, matmul_flop
from costmodel.equations.kernels.roofline import stream_time
from costmodel.equations.run.economics import work_time
from costmodel.equations.serving.engine_step import appended_attention_flop, chunk_count, reread_tokens


@pytest.mark.parametrize(
    ("chunk", "tokens", "milliseconds"), [(8192, 49_152, 2.25), (2048, 245_760, 11.26), (512, 1_032_192, 47.29)]
)
def test_small_chunks_read_little_again(chunk: int, tokens: int, milliseconds: float) -> None:
    """Llama 3 8B, 32,768 tokens: chunk k reads the k chunks before it."""
    before = sum(chunk * k for k in range(32_768 // chunk))
    again = float(reread_tokens(32_768.0, float(chunk)))
    assert again == before == tokens
    assert stream_time(again * 131_072, 3.35e12, 0.854) * 1e3 == pytest.approx(milliseconds, abs=0.005)


def test_a_whole_prompt_reads_nothing_again() -> None:
    assert float(chunk_count(2048.0, 8192.0)) == 1
    assert float(reread_tokens(2048.0, 8192.0)) == 0


@settings(max_examples=50)
@given(st.integers(1, 400), st.integers(0, 400))
def test_attention_of_new_tokens_counts_every_key_they_see(new: int, cached: int) -> None:
    seen = sum(cached + position + 1 for position in range(new))
    assert appended_attention_flop(float(new), float(cached), 4.0, 16.0) == pytest.approx(2 * 2 * 4 * 16 * seen)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 3000), min_size=1, max_size=6))
def test_chunks_do_the_work_of_the_whole(chunks: list[int]) -> None:
    starts = np.cumsum([0, *chunks[:-1]])
    parts = appended_attention_flop(np.array(chunks, float), starts.astype(float), 32.0, 128.0)
    assert np.sum(parts) == pytest.approx(float(attention_flop(1.0, float(sum(chunks)), 32.0, 128.0, causal=True)))


@pytest.mark.parametrize("hit", [0.25, 0.5, 0.9])
def test_a_prefix_spares_its_square_of_attention(hit: float) -> None:
    tokens = 1e6
    rest = appended_attention_flop(tokens * (1 - hit), tokens * hit, 1.0, 1.0)
    assert 1 - rest / appended_attention_flop(tokens, 0.0, 1.0, 1.0) == pytest.approx(hit**2, abs=1e-5)


def test_prefill_of_8192_tokens_on_llama_3_8b() -> None:
    """Weights of all layers, causal attention, and a head for one row only: 1.319e14 FLOP, 222 ms at 60 %."""
    widths = ((4096, 4096), (4096, 4096), (4096, 1024), (4096, 1024), (4096, 14_336), (4096, 14_336), (14_336, 4096))
    layer = sum(matmul_flop(8192.0, float(n), float(k)) for k, n in widths)
    work = 32 * (layer + attention_flop(1.0, 8192.0, 32.0, 128.0, causal=True)) + matmul_flop(1.0, 128_256.0, 4096.0)
    assert work == pytest.approx(1.319e14, rel=1e-3)
    assert work_time(work, 0.6 * 989.4e12, 1.0) == pytest.approx(0.222, abs=5e-4)
    assert matmul_flop(8192.0, 128_256.0, 4096.0) / work == pytest.approx(0.065, abs=0.002)  # logits of all, not made
