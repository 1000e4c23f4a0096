"""Turns that find their conversation on the host: when they do, what the load adds, and when the link is full."""

from __future__ import annotations

import numpy as np
import pytest
from equations.serving.engine_simulation import Engine, serve_after_loads

from costmodel.estimate.serving.evaluate_layouts import ServingEvaluation
from costmodel.ground.errors import CostModelError
from estimate.serving.cases import UNLAUNCHED, costs, inputs, one, predicted

CHAT = ("workload.turns=4", "workload.prompt=500", "assume.routing=cache-aware", "limits={}")
LATE = (*CHAT, "workload.think_time=600 s")  # the device keeps a conversation for 5 minutes
HOST = "stack.host_cache.size=128 GiB"
# Keys of every head, 800 KiB a token, over links of 25 GB/s.
WIDE = ("model=llama-2-13b", "cluster.node=dgx-a100", "plan={tp: 1, replicas: 16}", "workload.think_time=60 s",
        "workload.turns=4", "workload.prompt=500", "workload.output=32", "workload.context=4096",
        "assume.routing=cache-aware", "limits={}", "stack.host_cache.size=200 GiB")  # fmt: skip


def test_a_turn_finds_its_conversation_on_the_device_then_on_the_host_then_nowhere() -> None:
    """By the time that passes: 20 s, 10 minutes, an hour; the host keeps 3,355,443 tokens, the device 1,374,384."""
    soon, late, never = (costs(*CHAT, f"workload.think_time={time} s", HOST) for time in (20, 600, 3600))
    assert [found["prefix_hit"] for found in (soon, late, never)] == pytest.approx([1504 / 2018, 1504 / 2018, 0])
    assert [found["host_hit"] for found in (soon, late, never)] == pytest.approx([0, 1504 / 2018, 0])
    assert late["host_cache_tokens"] == pytest.approx(128 * 2**30 / 40_960, rel=1e-4)
    ratio = late["host_cache_tokens"] / late["cache_pool_tokens"]
    assert late["host_residency"] / late["prefix_residency"] == pytest.approx(ratio)
    assert soon["ttft"] < late["ttft"] < never["ttft"]
    assert costs(*LATE)["prefix_hit"] == 0


def test_the_load_of_a_turn_is_its_bytes_over_the_link() -> None:
    """1,504 tokens of 40,960 B over 55.1 GB/s: 1.12 ms; of a quarter of requests nothing, and the wait is short."""
    late, never = costs(*LATE, HOST, *UNLAUNCHED), costs(*LATE, *UNLAUNCHED)
    assert late["host_load_exposed"] == pytest.approx(1504 * 40_960 / 55.1e9, rel=0.01)
    assert late["host_link_utilisation"] == pytest.approx(4 * 1504 * 40_960 / 55.1e9)
    assert late["ttft"] + 0.03 < never["ttft"]
    assert late["host_load_gain"] == pytest.approx(59, abs=2)


def test_an_engine_that_loads_by_layer_waits_for_one_layer() -> None:
    """The rest of its load hides behind the prompt, of 26 ms."""
    whole, layers = costs(*LATE, HOST), costs(*LATE, HOST, "stack.host_cache.loads=layer")
    assert layers["host_load_exposed"] == pytest.approx(whole["host_load_exposed"] / 80, rel=0.3)


def test_what_is_evicted_adds_to_the_device_and_copies_do_not() -> None:
    few = "stack.host_cache.ratio=0.5"
    copies, evicted = costs(*LATE, few), costs(*LATE, few, "stack.host_cache.keeps=evicted")
    assert copies["host_residency"] == copies["prefix_residency"]
    assert evicted["host_residency"] == pytest.approx(1.5 * evicted["prefix_residency"], rel=1e-3)


@pytest.mark.parametrize("rate", [40, 90])
def test_the_closed_form_is_that_of_an_engine_behind_a_link(rate: int) -> None:
    """Step by step: a queue before the link, then the engine's own; here a load takes as long as two prompts."""
    found = predicted(*WIDE, f"workload.rate={rate} /s")
    assert isinstance(found.evaluation, ServingEvaluation)
    point, load = found.evaluation.point, inputs(*WIDE).load
    assert found.costs["host_hit"] > 0.6
    computed = load.prompt - found.costs["prefix_hit"] * load.prompt
    engine = Engine(one(point.alpha), one(point.beta), one(point.gamma), computed, load.output, 2048.0, rate / 16)
    seen = serve_after_loads(engine, one(point.host.time) / 1.5, 4, 6000)
    assert found.costs["ttft"] == pytest.approx(seen.ttft, rel=0.18)
    assert found.costs["ttft_p99"] == pytest.approx(seen.ttft_p99, rel=0.26)


def test_a_slow_link_bounds_the_rate_and_loses_against_computing() -> None:
    """At 3 GB/s each of 16 GPUs passes 4.7 loads of 642 MB a second; computing the tokens is three times faster."""
    slow = (*WIDE, "cluster.node.host.copies=3 GB/s")
    found = predicted(*slow, "workload.rate=40 /s")
    assert isinstance(found.evaluation, ServingEvaluation)
    assert found.binding == "host link"
    assert found.costs["saturation_per_s"] == pytest.approx(16 / one(found.evaluation.point.host.busy), rel=1e-3)
    assert found.costs["host_load_gain"] < 0.5
    assert found.costs["ttft"] > costs(*slow[:-2], slow[-1], "workload.rate=40 /s")["ttft"]  # keeping nothing there


def test_random_routing_scatters_conversations_over_hosts_too() -> None:
    scattered = costs(*CHAT, "workload.think_time=300 s", HOST, "assume.routing=random")
    assert scattered["host_hit"] == pytest.approx(1504 / 2018 / 2, rel=0.02)


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        (("stack.host_cache.ratio=2",), "D006", "both state"),
        (("plan={prefill: {tp: 8}, decode: {tp: 8}}",), "D016", "apart"),
        (("stack.prefix_cache=false",), "D016", "reuses no cache"),
    ],
)
def test_what_has_no_effect_is_refused(settings: tuple[str, ...], code: str, words: str) -> None:
    with pytest.raises(CostModelError, match=words) as caught:
        costs(*LATE, HOST, *settings)
    assert caught.value.faults[0].code == code


def test_a_host_has_so_much_memory() -> None:
    assert predicted(*LATE, "stack.host_cache.size=300 GiB").refused == ("L061",)
    assert not predicted(*LATE, "stack.host_cache.size=230 GiB").refused


def test_one_turn_finds_nothing_there_and_is_told_so() -> None:
    found = predicted(HOST)
    assert found.costs["host_hit"] == 0
    assert np.isnan(found.costs["host_load_gain"])
    assert any(each.path == "stack.host_cache" for each in found.assumed)
