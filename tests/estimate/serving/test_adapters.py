"""LoRA adapters in an engine: the memory of their slots, and launches that slow a small model down."""

from __future__ import annotations

import pytest

from estimate.serving.cases import costs


def test_slots_of_a_70b_take_13_gb_from_the_cache() -> None:
    """Eight at rank 64: 40,448 tokens lost if the halves were cut by tp; each rank keeps the whole thin halves."""
    before, after = costs(), costs("workload.adapters={count: 8, rank: 64}")
    lost = before["cache_pool_tokens"] - after["cache_pool_tokens"]
    assert 40_448 < lost < 4 * 40_448
    alone = costs("model=llama-3.1-8b", "plan.tp=1", "plan.replicas=1")
    adapted = costs("model=llama-3.1-8b", "plan.tp=1", "plan.replicas=1", "workload.adapters={count: 1, rank: 16}")
    assert alone["cache_pool"] - adapted["cache_pool"] == pytest.approx(83.9e6, rel=0.01)


def test_adapters_cost_launches_and_hardly_work() -> None:
    """One user of an 8B: as long for rank 8 as for 64; two launches for each map of a layer."""
    one = ("model=llama-3.1-8b", "plan.tp=1", "plan.replicas=1", "limits={}")
    load = "workload={kind: serving, prompt: 100, output: 100, concurrency: 1"
    plain = costs(*one, f"{load}}}")["tpot"]
    small, large = (costs(*one, f"{load}, adapters: {{count: 1, rank: {rank}}}}}")["tpot"] for rank in (8, 64))
    assert 1.1 < small / plain < 2
    assert large / small < 1.1


@pytest.mark.parametrize(("node", "added"), [("dgx-a100", 8.8), ("dgx-h100", 5.0)])
def test_an_adapter_of_a_7b_takes_less_than_lorax_in_2024(node: str, added: float) -> None:
    """lorax issue 333: 63 us a map, which halves its tokens. Here it is two captured launches."""
    machine = ("model=llama-2-7b", f"cluster={{node: {node}, nodes: 1}}", "plan={tp: 1, replicas: 1}", "limits={}")
    load = "workload={kind: serving, prompt: 100, output: 100, concurrency: 1"
    plain, adapted = (costs(*machine, f"{load}{more}}}")["tpot"] for more in ("", ", adapters: {count: 1, rank: 16}"))
    assert (adapted - plain) / 32 / 7 * 1e6 == pytest.approx(added, abs=0.1)


def test_the_draft_of_speculation_is_not_adapted_twice() -> None:
    adapters = "workload.adapters={count: 4, rank: 16}"
    eagle = "plan.speculation={tokens: 2, chance: 70 %, draft: eagle}"
    assert costs(adapters, eagle)["tpot"] > costs(eagle)["tpot"]
