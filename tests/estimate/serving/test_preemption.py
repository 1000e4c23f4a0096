"""Requests that lose their cache to older ones: where the cache is full and others wait, and in engines that do so."""

from __future__ import annotations

import pytest

from .cases import costs

FULL = "workload={kind: serving, prompt: 500, output: 4000, concurrency: 4000}"
KEPT = "stack.memory.preempts=false"


def test_a_full_cache_slows_users_where_requests_begin_with_room_for_their_prompt_alone() -> None:
    """Nearly all tokens of long answers are computed twice, a quarter to a half of the time of a step."""
    full, kept = costs(FULL, "limits={}"), costs(FULL, "limits={}", KEPT)
    assert 0.5 < full["requests_per_s"] / kept["requests_per_s"] < 0.9
    assert full["tpot"] > 1.1 * kept["tpot"]


def test_a_batch_computes_again_while_others_wait() -> None:
    batch = "workload={kind: serving, prompt: 500, output: 4000, requests: 4000}"
    assert costs(batch, "limits={}")["makespan"] > 1.05 * costs(batch, "limits={}", KEPT)["makespan"]


@pytest.mark.parametrize("load", ["concurrency: 64", "requests: 64", "rate: 2 /s"])
def test_nothing_is_computed_again_where_the_cache_has_room(load: str) -> None:
    few = f"workload={{kind: serving, prompt: 500, output: 400, {load}}}"
    assert costs(few, "limits={}")["tpot"] == costs(few, "limits={}", KEPT)["tpot"]


def test_long_prompts_leave_room_for_answers() -> None:
    """What is left over of a place of 8,000 tokens holds the growth of answers of 400."""
    long = "workload={kind: serving, prompt: 8000, output: 400, concurrency: 4000}"
    full, kept = costs(long, "limits={}")["requests_per_s"], costs(long, "limits={}", KEPT)["requests_per_s"]
    assert 0.99 * kept < full <= kept
