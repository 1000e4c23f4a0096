"""Reinforcement learning: generation decoded token by token, longest answers drawn, and published weight updates."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.memory.offload import link_time
from costmodel.equations.run.reinforcement_learning import (
    expected_longest,
    generation_ranks,
    generation_time,
    refilled_generation_time,
)

from .run_simulation import decode_refilled, decode_together

FIXED, PER_SEQUENCE = 0.02, 1e-4


def lengths(count: int, seed: int = 3) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Lengths as answers have them: log-normal, cut at a limit."""
    drawn = np.exp(np.random.default_rng(seed).normal(8.3, 0.8, count))
    return np.minimum(28_000, drawn).astype(np.int64)


@pytest.mark.parametrize("count", [1, 8, 64, 512])
def test_a_batch_decoded_together(count: int) -> None:
    batch = lengths(count)
    played = decode_together(FIXED, PER_SEQUENCE, batch)
    found = generation_time(FIXED, PER_SEQUENCE, float(batch.max()), float(batch.sum()))
    assert found == pytest.approx(played, rel=1e-9)


def test_a_stream_that_is_refilled() -> None:
    """What a long stream takes, but for its end, where no answers are left to refill with."""
    stream = lengths(20_000)
    played = decode_refilled(FIXED, PER_SEQUENCE, stream, 64)
    found = float(refilled_generation_time(FIXED, PER_SEQUENCE, float(stream.sum()), 64.0))
    assert found < played < found + FIXED * 28_000
    assert found == pytest.approx(played, rel=0.01)


def test_the_tail_of_a_batch() -> None:
    """What waiting for the longest costs over refilling: t₀ (L_max − Σ L/c), four fifths of t₀ L_max here."""
    batch = lengths(64)
    longest, tokens = float(batch.max()), float(batch.sum())
    together = float(generation_time(FIXED, PER_SEQUENCE, longest, tokens))
    refilled = float(refilled_generation_time(FIXED, PER_SEQUENCE, tokens, 64.0))
    assert together - refilled == pytest.approx(FIXED * (longest - tokens / 64))
    assert (together - refilled) / (FIXED * longest) == pytest.approx(0.8, rel=0.25)


@pytest.mark.parametrize(
    ("mean", "spread", "count", "limit"),
    [(8000.0, 0.8, 64, 28000.0), (8000.0, 0.8, 1, 28000.0), (2000.0, 1.2, 64, 1e9), (3000.0, 0.4, 512, 20000.0)],
)
def test_longest_answers_drawn(mean: float, spread: float, count: int, limit: float) -> None:
    normal = np.random.default_rng(5).standard_normal((3_000_000 // count, count)).max(axis=1)
    drawn = np.minimum(limit, mean * np.exp(spread * normal - spread**2 / 2))
    error = 4 * drawn.std() / np.sqrt(drawn.size) + 1e-3 * drawn.mean()
    assert expected_longest(mean, spread, float(count), limit) == pytest.approx(drawn.mean(), abs=error)


def test_longest_answer_in_its_limits() -> None:
    assert expected_longest(8000.0, 0.8, 1.0, 1e12) == pytest.approx(8000, rel=1e-3)
    assert expected_longest(8000.0, 0.8, 1e6, 28000.0) == pytest.approx(28000)
    assert expected_longest(8000.0, 1e-9, 64.0, 28000.0) == pytest.approx(8000)


def test_ranks_with_which_neither_waits() -> None:
    """Then the iteration is as long as both one after the other on all ranks."""
    generation, training, ranks = 3000.0, 1000.0, 64.0
    split = float(generation_ranks(ranks, generation, training))
    assert split == 48
    assert generation / split == training / (ranks - split) == (generation + training) / ranks


@pytest.mark.parametrize(("gigabytes", "seconds"), [(212.0, 3.47), (470.0, 6.22), (671.0, 10.19), (1030.0, 14.36)])
def test_weight_updates_by_broadcast(gigabytes: float, seconds: float) -> None:
    """checkpoint-engine README: GLM-4.5-Air, Qwen3-235B, DeepSeek-V3.1, Kimi-K2; one rate, whatever the ranks."""
    assert link_time(gigabytes * 1e9, 66e9, 1.0) == pytest.approx(seconds, rel=0.16)
