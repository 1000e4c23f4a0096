"""Stragglers, slow links and ways not to wait for them: by hand, by simulation, and where nobody waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel.estimate.training.stage_time import straggler_slowdown
from costmodel.estimate.training.training_inputs import TrainingInputs
from estimate.cases import ask, costs, free_links, inputs, instant_host, model, one, written_out

COMPUTE = ("matmul", "attention", "memory_bound")


def asked_of(nodes: int = 8, batch: int = 512, stack: str = "ddp", **stragglers: Any) -> TrainingInputs:
    """Data parallelism where compute is nearly all of a step."""
    assume = {"variation": 0, "stragglers": stragglers}
    found = inputs(model(), nodes=nodes, global_batch=batch, stack=stack, assume=assume)
    return instant_host(free_links(found))


def compute(asked: TrainingInputs, **plan: Any) -> float:
    found = costs(asked, **plan)
    return sum(found[name] for name in COMPUTE) + found["bubble"]


def slowdown(asked: TrainingInputs, **plan: Any) -> float:
    return compute(asked, **plan) / compute(
        asked_of(nodes=8), **{key: value for key, value in plan.items() if key != "sync"}
    )


def test_jitter_averages_out_and_a_spread_stays() -> None:
    """EQUATIONS R8: 3 % of 512 ranks and 64 micro-batches is 1.1 %; the same that stays is 9.1 %."""
    for stragglers, wanted in (
        ({"jitter": 0.03}, 1.0114),
        ({"jitter": 0.03, "each": "step"}, 1.0913),
        ({"spread": 0.03}, 1.0913),
    ):
        many = asked_of(64, 512 * 64, **stragglers)
        plain = asked_of(64, 512 * 64)
        assert compute(many) / compute(plain) == pytest.approx(wanted, rel=2e-4)


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("micro_batches", [1, 8])
def test_jitter_as_played_out(tp: int, micro_batches: int) -> None:
    """Ranks of a replica wait in each micro-batch, replicas at the end of a step.

    The largest of two ranks is taken as normal, which for a single micro-batch leaves 0.3 %.
    """
    dp, jitter = 64 // tp, 0.05
    asked = asked_of(8, dp * micro_batches, stack="megatron-core", jitter=jitter)
    found = straggler_slowdown(asked, ask(asked, tp=tp, zero=1).evaluation.block, np.float64(micro_batches))
    assert found is not None
    times = 1 + jitter * np.random.default_rng(1).standard_normal((4000, dp, micro_batches, tp))
    played = times.max(axis=3).mean(axis=2).max(axis=1).mean()
    assert one(found.ranks) == pytest.approx(played, rel=4e-3)


def test_replicas_that_share_layer_by_layer_wait_in_each_micro_batch() -> None:
    sharded = asked_of(stack="fsdp2", jitter=0.05)
    assert one(
        straggler_slowdown(sharded, ask(sharded, zero=3).evaluation.block, np.float64(8.0)).ranks
    ) == pytest.approx(1 + 0.05 * 2.344, rel=1e-3)


def test_one_part_at_half_speed() -> None:
    """All wait for it; of 64 that do not wait, a step in 64 takes twice as long; the first 63 leave it out."""
    slow = asked_of(slow_part=0.5)
    assert slowdown(slow) == pytest.approx(2.0)
    assert slowdown(slow, sync="stale 4") == pytest.approx(2.0)
    assert slowdown(slow, sync="async") == pytest.approx(64 / 63.5)
    assert slowdown(slow, sync="first 63") == pytest.approx(1.0)


def test_a_slow_part_of_a_pipeline_sets_the_pace_of_its_stage_alone() -> None:
    """Filling and draining pass the other stages at their own speed."""
    slow, plain = (asked_of(stack="megatron-core", **more) for more in ({"slow_part": 0.5}, {}))
    ratio = compute(slow, pp=4, zero=0) / compute(plain, pp=4, zero=0)
    assert 1.7 < ratio < 2.0


def test_waiting_for_60_of_64_at_ten_percent() -> None:
    """EQUATIONS R8: only 1 % more samples a second of compute."""
    jittery = asked_of(batch=64, jitter=0.1, each="step")
    first, everyone = (compute(jittery, sync=sync) for sync in ("first 60", "parameter-server"))
    assert everyone / first * 60 / 64 == pytest.approx(1.010, abs=1e-3)
    found = costs(jittery, sync="first 60")
    assert found["tokens_per_s"] * found["step_time"] == pytest.approx(60 * 4096)


def test_asynchronous_replicas_pay_no_jitter() -> None:
    """EQUATIONS R12: 20 % of 64 workers is 1.47 times."""
    jittery = asked_of(batch=64, jitter=0.2, each="step")
    assert slowdown(jittery) / slowdown(jittery, sync="async") == pytest.approx(1.469, rel=2e-3)


def test_a_slow_link_slows_what_crosses_nodes_alone() -> None:
    for nodes, differs in ((1, False), (4, True)):
        times = [
            costs(inputs(model(), nodes=nodes, stack="ddp", assume={"stragglers": more}))["step_time"]
            for more in ({}, {"slow_link": 0.25})
        ]
        assert (times[1] > times[0]) == differs
    share, slow = (
        inputs(model(), nodes=4, assume=more)
        for more in ({"network_share": 0.2}, {"network_share": 0.4, "stragglers": {"slow_link": 0.5}})
    )
    assert costs(share, tp=8)["step_time"] == pytest.approx(costs(slow, tp=8)["step_time"])


def test_servers_halve_what_an_interface_sends() -> None:
    """R11: as many further machines as workers; without any it is an all-reduce."""
    asked = inputs(model(hidden=2048), nodes=8, stack="ddp")
    whole = costs(asked)
    none, all_ = (costs(asked, sync=f"parameter-server {count}") for count in (0, 8))
    assert none["dp_volume"] == pytest.approx(whole["dp_volume"])
    assert all_["dp_volume"] == pytest.approx(whole["dp_volume"] / (2 * 63 / 64))
    assert all_["dp_exposed"] < none["dp_exposed"]


def test_nobody_waits_alone() -> None:
    node = written_out("node", "dgx-h100", name="one", accelerators=1)
    waiting, plain = (
        inputs(model(), node=node, stack="ddp", assume={"stragglers": more})
        for more in ({"jitter": 0.2, "spread": 0.2}, {})
    )
    assert costs(waiting)["step_time"] == pytest.approx(costs(plain)["step_time"], rel=1e-9)


def test_answers_say_what_waiting_costs(run: Any) -> None:
    name = "ddp-llama-3.2-1b-32"
    slow = run("estimate", name, "--set", "assume.stragglers.slow_part=50 %")
    assert "stragglers slow_part 50.0 %: costs" in slow.out
    gone = run("comm", name, "--set", "plan.sync=async", "--set", "assume.stragglers.slow_part=50 %").out
    assert "sync async: saves" in gone
    assert "gradients are 31 updates old" in gone
    assert "N032" in gone
    assert run("estimate", name, "--set", "plan.sync=sometimes").code == 2
