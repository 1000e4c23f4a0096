"""Batches that shrink, step by step."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.memory.kv_cache import reserved_waste
from costmodel.equations.run.economics import share
from costmodel.equations.serving.cache_pool import pool_of_total, pool_tokens
from costmodel.equations.serving.offline_batch import (
    CHAT_LENGTHS,
    CHAT_SPREAD,
    answer_of_share,
    ended_answer_tokens,
    longest_output,
    offline_time,
    refilled_steps,
    shortest_output,
    static_batch_use,
    tokens_until,
)

GIB = 2.0**30


def test_rollout_of_512_answers() -> None:
    """Mean 8,000 tokens, longest 32,000: 525 s, of which the fixed part of steps is 61 %."""
    whole = offline_time(10e-3, 32_000.0, 50e-6, 512 * 8000.0, 0.0, 0.0)
    assert whole == pytest.approx(524.8)
    assert share(10e-3 * 32_000, whole) == pytest.approx(0.61, abs=5e-4)


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(1, 200), st.floats(1e-3, 1e-2), st.floats(0, 1e-4), st.floats(0, 1e-4))
def test_a_batch_step_by_step(seed: int, count: int, alpha: float, beta: float, gamma: float) -> None:
    """Exact: each step costs α and β for each that still runs, prompts come before the first step."""
    random = np.random.default_rng(seed)
    answers, prompts = random.geometric(1 / 100, count), random.integers(1, 1000, count)
    live = [(answers > step).sum() for step in range(answers.max())]
    time = gamma * prompts.sum() + sum(alpha + beta * running for running in live)
    predicted = offline_time(alpha, float(answers.max()), beta, float(answers.sum()), gamma, float(prompts.sum()))
    assert predicted == pytest.approx(time, rel=1e-12)


def refilled(answers: np.ndarray, concurrency: int) -> int:
    """Last step, where each place takes the next answer when it is free."""
    places = [0] * concurrency
    for answer in answers:
        heapq.heapreplace(places, places[0] + int(answer))
    return max(places)


def test_equal_answers_run_in_waves() -> None:
    for requests, concurrency in ((64, 16), (65, 16), (1000, 412), (10, 16)):
        waves = refilled(np.full(requests, 100), concurrency)
        assert float(refilled_steps(float(requests), float(concurrency), 100.0, 100.0, 100.0)) == waves
    assert float(refilled_steps(10.0, 16.0, 100.0, 130.0, 100.0)) == 130  # all at once: the longest


def test_no_batch_ends_before_the_place_with_most_answers() -> None:
    lengths = np.random.default_rng(5).lognormal(*_law(200.0, 0.02), 1000)
    shortest = float(shortest_output(200.0, 0.02, 1000.0))
    assert shortest == pytest.approx(lengths.min(), rel=0.02)
    steps = float(refilled_steps(1000.0, 412.0, 200.0, float(longest_output(200.0, 0.02, 412.0)), shortest))
    assert steps == pytest.approx(refilled(np.round(lengths), 412), rel=0.1)


@pytest.mark.parametrize(("requests", "concurrency"), [(1024, 256), (2000, 64)])
def test_a_refilled_batch_of_exponential_answers(requests: int, concurrency: int) -> None:
    runs = [np.random.default_rng(seed).geometric(1 / 1000, requests) for seed in range(150)]
    seen = np.mean([refilled(run, concurrency) for run in runs])
    longest = 1000 * np.sum(1 / np.arange(1, concurrency + 1))  # of exponential answers, on average
    assert float(refilled_steps(float(requests), float(concurrency), 1000.0, longest, 0.0)) == pytest.approx(
        seen, rel=0.03
    )


@pytest.mark.parametrize("variation", [0.3, 1.0])
@pytest.mark.parametrize("count", [64, 512, 4096])
def test_longest_of_many(variation: float, count: int) -> None:
    random = np.random.default_rng(2)
    drawn = np.array([random.lognormal(*_law(8000.0, variation), count).max() for _ in range(400)])
    predicted = float(longest_output(8000.0, variation, float(count)))
    assert predicted == pytest.approx(np.exp(np.mean(np.log(drawn))), rel=0.05)
    assert 0.99 * predicted < np.mean(drawn) < 1.2 * predicted


def _law(mean: float, variation: float) -> tuple[float, float]:
    spread = np.sqrt(np.log1p(variation**2))
    return float(np.log(mean) - spread**2 / 2), float(spread)


def test_longest_of_equal_answers_is_one_of_them() -> None:
    assert float(longest_output(500.0, 0.0, 64.0)) == 500
    assert float(longest_output(500.0, 1.0, 1.0)) == 500


def test_a_law_of_chats_is_that_of_its_twentieths() -> None:
    """The mean of each twentieth; their spread lacks that inside the longest one."""
    assert CHAT_LENGTHS.mean() == pytest.approx(1.0, abs=1e-3)
    assert CHAT_LENGTHS.std() == pytest.approx(CHAT_SPREAD, rel=0.04)
    shares = np.linspace(0.001, 0.999, 99)
    lengths = answer_of_share(200.0, CHAT_SPREAD, shares, law="chat")
    assert np.all(np.diff(lengths) <= 0)
    assert lengths.mean() == pytest.approx(200.0, rel=0.03)
    assert float(tokens_until(200.0, CHAT_SPREAD, 1e6, law="chat")) == pytest.approx(200.0, rel=1e-3)


def test_answers_that_end_between_two_lengths() -> None:
    """Of any law: the mean of those drawn between them."""
    drawn = np.random.default_rng(4).lognormal(*_law(200.0, 1.0), 100_000)
    cuts = [(np.minimum(drawn, length).mean(), (drawn > length).mean(), length) for length in (80.0, 300.0)]
    (generated, left, past), (tokens, rest, until) = cuts
    ended = drawn[(drawn > past) & (drawn <= until)].mean()
    assert float(ended_answer_tokens(past, until, generated, tokens, left, rest)) == pytest.approx(ended)
    assert float(ended_answer_tokens(past, past, generated, generated, left, left)) == past


@pytest.mark.parametrize("batch", [1, 2, 8, 64])
def test_use_of_a_static_batch(batch: int) -> None:
    drawn = np.random.default_rng(3).exponential(250, (100_000, batch))
    seen = drawn.mean() / drawn.max(axis=1).mean()
    assert float(static_batch_use(float(batch))) == pytest.approx(seen, rel=0.015)


def test_what_24_times_compared() -> None:
    """LLaMA 13B on an A100 of 40 GiB: 6 sequences of 2,048 reserved tokens, 28 in pages; static batches waste 63 %."""
    pool = pool_of_total(40 * GIB, 0.9, 26e9, 1 * GIB, 0.0)
    tokens = float(pool_tokens(pool, 819_200.0, 16.0))
    assert tokens == pytest.approx(14_136, abs=90)
    reserved, paged = tokens // 2048, tokens / 508
    assert (reserved, round(paged)) == (6, 28)
    assert paged / reserved == pytest.approx(4.6, abs=0.05)
    assert float(reserved_waste(500.0, 2048.0)) == pytest.approx(0.756, abs=5e-4)
    assert float(static_batch_use(8.0)) == pytest.approx(0.37, abs=0.005)
    assert paged / reserved / float(static_batch_use(8.0)) == pytest.approx(12.6, abs=0.1)
