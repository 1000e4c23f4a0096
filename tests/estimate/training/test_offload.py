"""Offload: what leaves the device is on the host, link and host take their time, small hosts refuse."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from costmodel.equations.memory.offload import host_update_time, host_update_traffic, link_time, offload_efficiency
from costmodel.equations.memory.states import gradient_traffic
from estimate.cases import FASTEST, ask, costs, inputs, line, model, without_network, written_out

SMALL = inputs(model(), stack="deepspeed")
STATES = {"zero": 3, "offload": ["optimizer", "parameters"]}
HALF = {"offload": ["activations"], "offload_layers": 8}


def test_the_worked_example() -> None:
    """8B on 8 GPUs: 2.01 GB each way, 36.5 ms at 55 GB/s, and 0.80 s of Adam at 300 GB/s."""
    shard = 8.03e9 / 8
    nbytes = gradient_traffic(shard, 2.0)
    assert nbytes == pytest.approx(2.01e9, rel=2e-3)
    assert link_time(nbytes, 55e9, 1.0) == pytest.approx(36.5e-3, rel=1e-3)
    traffic = host_update_traffic(shard, 4.0, 12.0, 2.0)
    assert host_update_time(traffic, 8.0, 300e9, 1.0, shard, 1e9, 1e-9) == pytest.approx(0.80, abs=5e-3)
    assert host_update_time(traffic, 8.0, 300e9, 1.0, shard, 8.03, 1e-9) == pytest.approx(1.0)
    assert offload_efficiency(1024.0, 68.4e9, 70e12) == pytest.approx(0.5, abs=1e-3)


def test_what_leaves_the_device_is_on_the_host() -> None:
    kept, moved = ask(SMALL, zero=3), ask(SMALL, **STATES)
    assert line(moved, "optimizer") == line(moved, "weights") == 0
    copies = 2 * line(kept, "gradients")  # in fp32, of sums of 16 bits
    buffers = line(kept, "weights") + line(kept, "gradients") + copies
    rank = line(kept, "optimizer") + buffers / math.log(2)  # in blocks of powers of two
    assert moved.evaluation.costs.row()["host_memory"] == pytest.approx(8 * rank)
    assert kept.evaluation.costs.row()["host_memory"] == kept.evaluation.costs.row()["offload_exposed"] == 0


def test_a_link_and_a_host_of_any_rate_take_no_time() -> None:
    host = replace(SMALL.host, link=FASTEST, bandwidth=FASTEST, read=FASTEST, write=FASTEST, cores=FASTEST)
    fast = replace(SMALL, host=host)
    for where in ("cpu", "nvme"):
        found = costs(fast, **STATES, offload_to=where)
        assert found["offload_exposed"] == pytest.approx(0, abs=1e-9)
        assert found["optimizer"] == pytest.approx(0, abs=1e-9)
        assert found["step_time"] < costs(SMALL, zero=3)["step_time"]


def test_a_slower_link_shows_more() -> None:
    times = [
        costs(replace(SMALL, host=replace(SMALL.host, link=rate)), **STATES)["offload_exposed"]
        for rate in (2e9, 5e9, 60e9)
    ]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[1] > 0


def test_drives_are_slower_than_memory_and_take_other_room() -> None:
    memory, drives = (costs(SMALL, **STATES, offload_to=where) for where in ("cpu", "nvme"))
    assert drives["step_time"] > memory["step_time"]
    assert drives["host_memory"] == memory["host_memory"]
    assert drives["host_share"] == pytest.approx(drives["host_memory"] / 30e12)


def test_offloaded_layers_leave_a_window() -> None:
    """Of all layers two stay, one in use and one in flight; of half of them the one in flight, as far as no loss is."""
    asked = inputs(model(layers=16, vocab=1024))
    kept, half, all_of_them = (
        ask(asked, recompute="none", **plan) for plan in ({}, HALF, {"offload": ["activations"]})
    )
    assert line(all_of_them, "activations") == pytest.approx(line(kept, "activations") * 2 / 16)
    layer = line(kept, "activations") / 16
    assert 0 < line(half, "logits") < layer
    assert line(half, "activations") == pytest.approx(9 * layer - line(half, "logits"))
    large = inputs(model(layers=16, vocab=131072))
    assert line(ask(large, recompute="none", **HALF), "activations") == pytest.approx(8 * layer)
    times = [given.evaluation.costs.row()["offload_exposed"] for given in (kept, half, all_of_them)]
    assert times[0] == 0 < times[1] < times[2]


@pytest.mark.parametrize(("gradients", "width"), [("fp32", 4), ("bf16", 2)])
def test_gradients_that_wait_for_the_last_micro_batch_stay_on_the_device(gradients: str, width: float) -> None:
    """DeepSpeed reduces under zero 1 at the end of accumulation: till then every rank has all of them, once."""
    asked = inputs("llama-3-8b", stack="deepspeed", workload={"gradients": gradients})
    one, two = (ask(asked, zero=zero, offload=["optimizer"]) for zero in (1, 2))
    assert line(one, "gradients") == pytest.approx(width * 8030261248)
    assert line(two, "gradients") == 2 * 1e9, "two buckets"
    assert one.evaluation.costs.row()["host_memory"] == two.evaluation.costs.row()["host_memory"]


def test_gradients_that_wait_cross_the_link_once() -> None:
    """With nothing hidden of 8 micro-batches, seven crossings of a shard fewer than zero 2, no network in the way."""
    stack = written_out("stack", "deepspeed", offload={"overlap": 0})
    asked = without_network(inputs("llama-3-8b", stack=stack))
    one, two = (costs(asked, zero=zero, offload=["optimizer"])["offload_exposed"] for zero in (1, 2))
    each = link_time(gradient_traffic(8030261248 / 8, 2.0), asked.host.link, asked.host.link_share)
    assert two - one == pytest.approx(7 * each)


@pytest.mark.parametrize("pp", [1, 2])
def test_gradients_of_fsdp_wait_in_a_pipeline(pp: int) -> None:
    given, on_device = (
        ask(inputs(model(), stack="fsdp2"), pp=pp, zero=3, offload=what) for what in (["optimizer"], [])
    )
    assert (line(given, "gradients") == line(on_device, "gradients")) == (pp == 2)


def test_a_host_too_small_is_refused() -> None:
    node = written_out("node", "dgx-h100", memory={"capacity": "4 GB"}, name="small")
    given = ask(inputs("llama-3-8b", node=node, stack="deepspeed"), **STATES)
    assert given.refused == ()
    assert "M003" in given.broken
    assert "M003" not in ask(inputs("llama-3-8b", stack="deepspeed"), **STATES).broken


def test_what_was_assumed_of_the_link_is_said_where_it_is_used() -> None:
    paths = {assumed.path for assumed in ask(inputs(plan={"offload": ["optimizer"]}), offload=["optimizer"]).assumed}
    assert {"assume.host_share", "assume.host_update"} <= paths
    assert "assume.host_share" not in {assumed.path for assumed in ask(inputs()).assumed}


def test_a_host_has_a_chance_as_the_device_has() -> None:
    """The chance to fit falls with the room of the host, and is at risk before it is too small."""
    chances, words = [], []
    for room in (4000, 800, 600):
        node = written_out("node", "dgx-a100", memory={"capacity": f"{room} GB"}, name="mine")
        asked = inputs("llama-33b", node=node, sequence=2048, global_batch=8, stack="transformers-deepspeed")
        given = ask(asked, zero=3, micro_batch=1, recompute="full", offload=["optimizer", "parameters"])
        chances.append(given.evaluation.costs.row()["fit_chance"])
        words.append(("N023" in given.remarked, "M003" in given.broken))
    assert chances[0] > 0.99 > 0.9 > chances[1] > 0.5 > chances[2]
    assert words == [(False, False), (True, False), (True, True)]
