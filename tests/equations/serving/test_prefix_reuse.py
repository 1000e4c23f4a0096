"""Prefixes: whole blocks by hand, conversations turn by turn, and a cache that forgets what is oldest."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.memory.offload import link_time
from costmodel.equations.serving.cache_pool import hit_tokens, residency_time, scattered_hit


@settings(max_examples=100)
@given(st.integers(1, 3000), st.integers(0, 3000), st.sampled_from([1, 16, 32, 64]))
def test_hits_are_whole_blocks_and_leave_the_last_token(prompt: int, shared: int, block: int) -> None:
    shared = min(shared, prompt)
    wanted = max(hit for hit in range(0, prompt, block) if hit <= shared)
    assert float(hit_tokens(float(shared), float(prompt), float(block))) == wanted


def test_worked_hits() -> None:
    assert float(hit_tokens(1000.0, 4000.0, 16.0)) == 992
    assert 4000 - float(hit_tokens(4000.0, 4000.0, 16.0)) == 16  # a prompt that was all seen computes a block


@pytest.mark.parametrize(("turn", "logged"), [(1, 0.4999), (2, 0.6666), (3, 0.7499)])
def test_hits_of_conversations_as_mooncake_logs_them(turn: int, logged: float) -> None:
    """Mooncake issue 3317: rounds that each add as much find n of n + 1 parts; a block at the end of each is lost."""
    found = float(hit_tokens(turn * 10_000.0, (turn + 1) * 10_000.0, 16.0)) / ((turn + 1) * 10_000.0)
    assert found == pytest.approx(turn / (turn + 1))
    assert found == pytest.approx(logged, rel=1e-3)


def test_residency() -> None:
    assert residency_time(476_016.0, 4.0, 1280.0) == pytest.approx(92.97, abs=0.005)


@pytest.mark.parametrize(("gap", "found"), [(0.8, True), (1.25, False)])
def test_a_prefix_is_gone_after_its_residency(gap: float, found: bool) -> None:
    """A cache of 1,000 tokens, 10 a request and a request a second, that forgets what was used longest ago."""
    cache: OrderedDict[str, None] = OrderedDict(prefix=None)
    for second in range(int(gap * residency_time(1000.0, 1.0, 10.0))):
        cache[f"request {second}"] = None
        if len(cache) > 100:
            cache.popitem(last=False)
    assert ("prefix" in cache) == found


def test_random_routing_divides_hits() -> None:
    random = np.random.default_rng(1)
    before, now = random.integers(0, 4, 100_000), random.integers(0, 4, 100_000)
    assert scattered_hit(0.75, 4.0) == pytest.approx(0.75 * np.mean(before == now), rel=0.02)
    assert scattered_hit(0.75, 1.0) == 0.75


def test_loading_a_prefix_from_the_host_beats_computing_it() -> None:
    """70B on tp 8: 8,192 tokens are 336 MB a rank, 6 ms at 55 GB/s, where prefill takes 390 ms."""
    assert link_time(8192 * 40_960.0, 55e9, 1.0) * 1e3 == pytest.approx(6.1, abs=0.05)
