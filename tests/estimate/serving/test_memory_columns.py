"""The share of memory that a plan needs: one meaning for engines that define their pool in different ways."""

from __future__ import annotations

import pytest

from .cases import one, predicted

STACKS = ("vllm", "sglang", "trt-llm")


@pytest.mark.parametrize("stack", STACKS)
def test_the_share_holds_the_weights_of_every_engine(stack: str) -> None:
    """70.6 G parameters of 2 bytes over 8 GPUs are 22 % of 80 GB before anything else; the pool is in no share."""
    found = predicted(f"stack={stack}")
    share, memory = found.costs["memory_share"], found.evaluation.memory
    assert 0.22 < share < 0.45
    assert share == pytest.approx(1 - (one(memory.pool) - one(memory.one_request)) / one(memory.allowed), rel=1e-12)
    assert one(memory.allowed) <= one(memory.total) * (1 + 1e-12)
    assert predicted(f"stack={stack}", "limits.memory.at_most=20 %").broken == ("M002",)
    assert predicted(f"stack={stack}", "limits.memory.at_most=45 %").broken == ()


@pytest.mark.parametrize("stack", STACKS)
def test_a_plan_fits_where_its_pool_holds_a_request(stack: str) -> None:
    """The longest context that fits is the pool; a token more does not. Weights over the memory never fit."""
    pool = predicted(f"stack={stack}", "plan.tp=4").costs["cache_pool_tokens"]
    shares = []
    for tokens in (pool * 0.999, pool * 1.01):
        found = predicted(f"stack={stack}", "plan.tp=4", "model.max_sequence=4000000", f"workload.context={tokens:.0f}")
        shares.append(found.costs["memory_share"])
        assert ("M001" in found.broken) == (shares[-1] > 1)
    assert shares[0] < 1 < shares[1]
    assert predicted(f"stack={stack}", "plan.tp=1").costs["memory_share"] > 1.5
