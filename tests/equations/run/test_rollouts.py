"""Answers generated together: against the closed form of a linear engine, and against drawn lengths."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.run.reinforcement_learning import (
    DEVIATIONS,
    SHORTER,
    any_running,
    decoding_time,
    expected_longest,
    generation_time,
    length_at,
    length_variation,
    mean_square_length,
    running_answers,
    stream_left,
    token_weighted_length,
    uneven_share,
)
from costmodel.equations.unequal import expected_maximum

MEAN, SIGMA, LIMIT = 4000.0, 0.8, 28000.0


def drawn(count: int, seed: int = 7) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    normal = np.random.default_rng(seed).standard_normal(count)
    return np.minimum(LIMIT, MEAN * np.exp(SIGMA * normal - SIGMA**2 / 2))


@pytest.mark.parametrize("count", [1.0, 64.0, 1024.0])
def test_steps_that_are_linear_take_the_closed_form(count: float) -> None:
    """Σ P t₀ + t₁ n over all lengths is t₀ E[L_max] + t₁ b E[L]."""
    lengths = length_at(MEAN, SIGMA, DEVIATIONS, LIMIT)
    chance, running = any_running(count, SHORTER), count * (1 - SHORTER)
    steps = 0.02 + 1e-4 * running / np.maximum(chance, 1e-12)
    longest, mean = (expected_longest(MEAN, SIGMA, many, LIMIT) for many in (count, 1.0))
    times = np.asarray(steps * chance)
    found = lengths[0] * times[0] + np.sum(decoding_time(lengths[:-1], lengths[1:], times[:-1], times[1:]))
    closed = generation_time(0.02, 1e-4, longest, count * mean)
    assert found == pytest.approx(closed, rel=5e-3)
    assert np.all(running_answers(count, SHORTER) >= 1)


def test_moments_of_drawn_lengths() -> None:
    lengths = drawn(400_000)
    square = mean_square_length(MEAN, SIGMA, LIMIT)
    assert square == pytest.approx(np.mean(lengths**2), rel=0.01)
    both = 1000.0 + lengths
    weighted = token_weighted_length(1000.0, lengths.mean(), np.mean(lengths**2))
    assert weighted == pytest.approx(np.sum(both**2) / np.sum(both))
    variation = length_variation(1000.0, lengths.mean(), np.mean(lengths**2))
    assert variation == pytest.approx(both.std() / both.mean(), rel=1e-6)


def test_what_is_left_of_answers_in_a_steady_stream() -> None:
    """A token chosen at random lies in a long answer, anywhere in it."""
    lengths = drawn(200_000)
    chosen = np.random.default_rng(1).choice(lengths, 200_000, p=lengths / lengths.sum())
    left = np.random.default_rng(2).random(chosen.size) * chosen
    grid = np.asarray(length_at(MEAN, SIGMA, DEVIATIONS, LIMIT))
    found = expected_longest(MEAN, SIGMA, 1.0, grid) / expected_longest(MEAN, SIGMA, 1.0, LIMIT)
    for place in (30, 45, 60, 70):
        assert found[place] == pytest.approx(np.mean(left < grid[place]), abs=0.01)
    expected = stream_left(lengths.mean(), np.mean(lengths**2)) * lengths.mean()
    assert left.mean() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("ranks", "each"), [(8, 64), (32, 16)])
def test_the_fullest_rank_of_answers_dealt_at_random(ranks: int, each: int) -> None:
    """Sums of a few answers are not quite normal: within 5 %."""
    lengths = 200 + drawn(400 * ranks * each).reshape(400, ranks, each)
    played = np.mean(lengths.sum(axis=2).max(axis=1)) / (each * lengths.mean())
    found = uneven_share(lengths.std() / lengths.mean(), float(each), expected_maximum(float(ranks)))
    assert found == pytest.approx(played, rel=0.05)
