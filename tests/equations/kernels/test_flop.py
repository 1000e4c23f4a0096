"""FLOP: counted one by one, from first principles, and under each convention's own numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from costmodel.equations.kernels.flop import (
    attention_flop,
    korthikanti_recompute_flop,
    matmul_flop,
    megatron_flop,
    palm_flop,
    six_n_flop,
    training_flop,
    windowed_attention_flop,
)


class Gpt(NamedTuple):
    """A GPT of the Megatron papers; heads of 128."""

    layers: float
    hidden: float
    vocab: float = 51200.0
    sequence: float = 2048.0


GPT_3 = Gpt(96.0, 12288.0)
PAPER = {"22B": Gpt(48.0, 6144.0), "175B": GPT_3, "530B": Gpt(105.0, 20480.0), "1T": Gpt(128.0, 25600.0)}


def llama_8b_forward(sequence: float, *, causal: bool) -> tuple[float, float]:
    """All of the forward pass of one sequence, and of it the attention core."""
    hidden, heads, kv_heads, head_dim, ffn_hidden, vocab, layers = 4096.0, 32.0, 8.0, 128.0, 14336.0, 128256.0, 32.0
    widths = [(heads * head_dim, hidden), *2 * [(kv_heads * head_dim, hidden)], (hidden, heads * head_dim)]
    widths += [*2 * [(ffn_hidden, hidden)], (hidden, ffn_hidden)]
    linear = sum(matmul_flop(sequence, n, k) for n, k in widths)
    core = layers * attention_flop(1.0, sequence, heads, head_dim, causal=causal)
    return float(layers * linear + core + matmul_flop(sequence, vocab, hidden)), float(core)


def gpt_forward(gpt: Gpt, batch: float) -> tuple[float, float, float]:
    """Forward work of one layer's products and attention core, and of the head."""
    tokens, hidden = batch * gpt.sequence, gpt.hidden
    widths = [*4 * [(hidden, hidden)], (4 * hidden, hidden), (hidden, 4 * hidden)]
    linear = sum(matmul_flop(tokens, n, k) for n, k in widths)
    core = attention_flop(batch, gpt.sequence, hidden / 128, 128.0, causal=False)
    return float(linear), float(core), float(matmul_flop(tokens, gpt.vocab, hidden))


def test_a_matmul_counted_one_multiply_add_at_a_time() -> None:
    counted = 0
    for _row in range(3):
        for _column in range(4):
            for _inner in range(5):
                counted += 2
    assert matmul_flop(3.0, 4.0, 5.0) == counted


@pytest.mark.parametrize("sequence", [1, 2, 7])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_counted_one_key_at_a_time(sequence: int, causal: bool) -> None:
    batch, heads, head_dim, counted = 2, 3, 4, 0
    for query in range(sequence):
        for key in range(sequence):
            if key <= query or not causal:
                counted += batch * heads * 2 * 2 * head_dim  # a dot product, and adding a weighted value
    assert attention_flop(float(batch), float(sequence), heads, head_dim, causal=causal) == counted


@pytest.mark.parametrize("sequence", [1, 2, 7])
@pytest.mark.parametrize("window", [1, 3, 7, 9])
def test_windowed_attention_counted_one_key_at_a_time(sequence: int, window: int) -> None:
    batch, heads, head_dim, counted = 2, 3, 4, 0
    for query in range(sequence):
        for key in range(sequence):
            if query - window < key <= query:
                counted += batch * heads * 2 * 2 * head_dim
    sizes = (float(batch), float(sequence), heads, head_dim)
    assert windowed_attention_flop(*sizes, float(window), causal=True) == counted
    if window >= sequence:
        for causal in (True, False):
            whole = attention_flop(*sizes, causal=causal)
            assert windowed_attention_flop(*sizes, float(window), causal=causal) == whole


def test_causal_is_half_of_full_for_long_sequences() -> None:
    half = attention_flop(1.0, 1e6, 1.0, 1.0, causal=True) / attention_flop(1.0, 1e6, 1.0, 1.0, causal=False)
    assert half == pytest.approx(0.5, rel=2e-6)
    assert half > 0.5


@pytest.mark.parametrize(
    ("causal", "forward", "training"), [(True, 1.40551e14, 4.21652e14), (False, 1.58141e14, 4.74422e14)]
)
def test_llama_3_8b_of_one_sequence_of_8192(causal: bool, forward: float, training: float) -> None:
    flop, _ = llama_8b_forward(8192.0, causal=causal)
    assert flop == pytest.approx(forward, rel=5e-6)
    assert training_flop(flop) == pytest.approx(training, rel=5e-6)


def test_llama_3_8b_attention_is_an_eighth() -> None:
    flop, core = llama_8b_forward(8192.0, causal=True)
    assert core / flop == pytest.approx(0.125, abs=5e-4)


def test_backward_is_two_forwards() -> None:
    """Input and weight gradients of a product are products of the same three sizes."""
    m, n, k = 5.0, 7.0, 11.0
    backward = matmul_flop(m, k, n) + matmul_flop(n, k, m)
    assert training_flop(matmul_flop(m, n, k)) == matmul_flop(m, n, k) + backward


def test_palm_convention() -> None:
    assert palm_flop(8030261248.0, 1.0, 32.0, 32.0, 128.0, 8192.0) == pytest.approx(6.1066e10, rel=1e-5)
    assert palm_flop(1e9, 1e6, 0.0, 1.0, 1.0, 1.0) == six_n_flop(1e9, 1e6)
    scores = 3 * attention_flop(1.0, 8192.0, 32.0, 128.0, causal=False) * 32 / 8192
    assert palm_flop(8030261248.0, 1.0, 32.0, 32.0, 128.0, 8192.0) == pytest.approx(6 * 8030261248.0 + scores)


def test_six_n() -> None:
    assert six_n_flop(405.85e9, 15.6e12) == pytest.approx(3.80e25, rel=1e-3)
    assert six_n_flop(37.55e9, 14.8e12) == pytest.approx(3.33e24, rel=2e-3)
    assert six_n_flop(8.03e9, 1.0) / six_n_flop(7.505e9, 1.0) == pytest.approx(1.07, abs=1e-3)


def test_megatron_forms_of_gpt_3() -> None:
    form = {again: megatron_flop(1536.0, 2048.0, 96.0, 12288.0, 51200.0, recomputed=again) for again in (False, True)}
    assert form[False] == pytest.approx(3.38620e18, rel=2e-6)
    assert form[True] == pytest.approx(4.51097e18, rel=2e-6)


@pytest.mark.parametrize("name", PAPER)
def test_megatron_forms_are_first_principles(name: str) -> None:
    gpt = PAPER[name]
    linear, core, head = gpt_forward(gpt, 4.0)
    once, again = 3 * (gpt.layers * (linear + core) + head), gpt.layers * (linear + core)
    arguments = (4.0, gpt.sequence, gpt.layers, gpt.hidden, gpt.vocab)
    assert megatron_flop(*arguments, recomputed=False) == pytest.approx(once, rel=1e-9)
    assert megatron_flop(*arguments, recomputed=True) == pytest.approx(once + again, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "published", "paper_form", "one_forward"),
    [
        ("22B", 43.7 / 41.5, 1.0526, 1.0175),
        ("175B", 52.8 / 51.4, 1.0270, 1.0090),
        ("530B", 57.0 / 56.0, 1.0164, 1.0055),
        ("1T", 57.0 / 56.3, 1.0132, 1.0044),
    ],
)
def test_published_hfu_counts_the_core_three_times(
    name: str, published: float, paper_form: float, one_forward: float
) -> None:
    """The paper's HFU of selective recompute counts three forwards of the core; one is what is recomputed."""
    gpt = PAPER[name]
    _, core, _ = gpt_forward(gpt, 1.0)
    layers_alone = megatron_flop(1.0, gpt.sequence, gpt.layers, gpt.hidden, 0.0, recomputed=False)
    again = korthikanti_recompute_flop(1.0, gpt.sequence, gpt.layers, gpt.hidden)
    assert again == pytest.approx(3 * gpt.layers * core)
    assert 1 + again / layers_alone == pytest.approx(paper_form, abs=6e-5)
    assert 1 + again / 3 / layers_alone == pytest.approx(one_forward, abs=6e-5)
    assert abs(1 + again / layers_alone - published) < abs(1 + again / 3 / layers_alone - published)


def test_the_wrap_of_whole_numbers_is_no_concern() -> None:
    """6 · 405e9 · 15.6e12 overflows 64-bit integers; equations see floats."""
    assert six_n_flop(np.array([405e9]), np.array([15.6e12]))[0] == pytest.approx(3.7908e25)  # type: ignore[index]
