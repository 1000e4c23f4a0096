"""The share of memory that a plan needs: one meaning for engines that define their pool in different ways."""

from __future__ import annotations

import pytest

from .cases import costs, one, predicted

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


def test_a_cold_start_as_measured() -> None:
    """Llama 2 7B under vLLM 0.10.1 on an A100: 46.1 s with 67 batch sizes, 43.6 with 7; here 51 and 7 sizes."""
    one = ("model=llama-2-7b", "cluster={node: dgx-a100, nodes: 1}", "plan={tp: 1, replicas: 1}", "limits={}")
    whole, few = (costs(*one, *more)["start_time"] for more in ((), ("stack.sequences=16",)))
    assert whole == pytest.approx(46.1 - 16 * 32 * 1.2e-3, rel=0.03)
    assert few == pytest.approx(43.55, rel=0.03)


def test_what_a_start_waits_for() -> None:
    """Weights of a rank at its rate or its share of the drives; the graphs of all layers, none without them."""
    whole, half = (costs(f"plan={{tp: {tp}}}", "limits={}") for tp in (8, 16))
    gone = whole["start_time"] - half["start_time"]
    weights = [predicted(f"plan={{tp: {tp}}}", "limits={}").evaluation.memory.weights for tp in (8, 16)]
    assert gone == pytest.approx((one(weights[0]) - one(weights[1])) / 1.8e9)
    eager = costs("plan={tp: 8}", "limits={}", "stack.graphs=false")
    assert whole["start_time"] - eager["start_time"] == pytest.approx(51 * 80 * 1.2e-3)
    slow = costs("plan={tp: 8}", "limits={}", "cluster.node.drives.read=8 GB/s")
    read = one(weights[0])
    assert slow["start_time"] - whole["start_time"] == pytest.approx(read / 1e9 - read / 1.8e9)
    assert costs("stack=sglang", "limits={}")["start_time"] != costs("stack=sglang", "limits={}")["start_time"]
