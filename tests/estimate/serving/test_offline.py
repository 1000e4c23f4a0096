"""Offline batches: bounds, known cases, and a replica simulated answer by answer."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from costmodel.ground.errors import CostModelError
from estimate.serving.cases import costs, one, predicted


def batch(requests: int, spread: float = 0.0, output: int = 512) -> str:
    """So many requests, offline."""
    lengths = f"prompt: 2048, output: {{mean: {output}, spread: {spread}}}"
    return f"workload={{kind: serving, {lengths}, requests: {requests}, precision: bf16}}"


ALONE = ("plan={tp: 8, replicas: 1}", "limits={}")


def test_equal_answers_fill_the_engine_to_the_end() -> None:
    found = costs(*ALONE, batch(50_000))
    assert found["tail_share"] == pytest.approx(0, abs=1e-12)
    assert found["requests_per_s"] == pytest.approx(50_000 / found["makespan"])
    assert found["requests_per_s"] == pytest.approx(found["saturation_per_s"], rel=0.01)
    assert found["output_tokens_per_s"] == pytest.approx(512 * found["requests_per_s"])


@pytest.mark.parametrize(("requests", "spread"), [(300, 1.0), (3000, 0.6), (10_000, 1.0)])
def test_a_replica_simulated_answer_by_answer(requests: int, spread: float) -> None:
    """Steps of α + β b + γ of the prompts in them, places refilled as answers end; the mean of twenty batches."""
    answer = predicted(*ALONE, batch(requests, spread))
    point, found = answer.evaluation.point, answer.costs  # type: ignore[union-attr]
    alpha, beta, gamma, most = map(one, (point.alpha, point.beta, point.gamma, point.concurrency))
    draws, sigma = np.random.default_rng(7), np.sqrt(np.log1p(spread**2))
    spans = []
    for _ in range(20):
        lengths = np.maximum(1, np.round(512 * np.exp(sigma * draws.standard_normal(requests) - sigma**2 / 2)))
        running: list[float] = []
        for place, length in enumerate(lengths):  # the step at which each answer ends
            start = heapq.heappop(running) if place >= int(most) else 0.0
            heapq.heappush(running, start + length)
        spans.append(alpha * max(running) + beta * lengths.sum() + gamma * 2048 * requests)
    assert found["makespan"] == pytest.approx(np.mean(spans), rel=0.12)
    assert 0 < found["tail_share"] < 0.7


def test_the_tail_weighs_less_in_larger_batches_and_more_with_spread() -> None:
    shares = [costs(*ALONE, batch(*size))["tail_share"] for size in ((1000, 1.0), (10_000, 1.0), (10_000, 0.3))]
    assert shares == sorted(shares, reverse=True)
    capped = costs(*ALONE, batch(1000, 1.0).replace("requests", "context: 4096, requests"))
    assert capped["tail_share"] < shares[0]


def test_twice_the_replicas_take_half_the_time_but_for_the_tail() -> None:
    one_replica, two = costs(*ALONE, batch(40_000)), costs("plan={tp: 8, replicas: 2}", "limits={}", batch(40_000))
    assert two["makespan"] == pytest.approx(one_replica["makespan"] / 2, rel=0.02)


def test_what_a_batch_does_not_go_with_is_a_fault() -> None:
    with pytest.raises(CostModelError, match="requests are given"):
        costs(batch(100), "workload.rate=1 /s")
    with pytest.raises(CostModelError, match="offline batch is not modelled with prefill and decode apart"):
        costs("plan={prefill: {tp: 8}, decode: {tp: 8}}", batch(100))
