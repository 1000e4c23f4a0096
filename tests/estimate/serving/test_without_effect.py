"""Keys without effect: no figure differs, and the remark is there exactly then."""

from __future__ import annotations

import functools
import math

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.ground.errors import CostModelError

LOAD = "workload={{kind: serving, prompt: 900, output: 300, {}}}"
CASES = {
    "dense": ["limits={}"],
    "one": [LOAD.format("turns: 4, users: 90, think_time: 20 s"), "limits={}", "cluster.nodes=1"],
    "chat": [LOAD.format("turns: 4, users: 300, think_time: 20 s, shared_prefix: 90"), "limits={}"],
    "burst": [LOAD.format("concurrency: 64, traffic: burst"), "limits={}", "plan.tp=4"],
    "offline": [LOAD.format("requests: 5000"), "limits={}"],
    "held": [LOAD.format("turns: 4, rate: 8 /s, think_time: 60 s"), "limits={}", "stack.host_cache.size=64 GB"],
    "turns": [LOAD.format("turns: 4, concurrency: 64, think_time: 20 s"), "limits={}"],
    "anew": [LOAD.format("turns: 4, rate: 6 /s"), "limits={}", "stack.prefix_cache=false"],
    "stated": ["stack.budget=4096", "stack.sequences=128", "limits={}"],
    "of_free": ["stack.memory.definition=share-of-free-before", "limits={}"],
    "of_rule": ["stack={like: sglang, thumb_rule: {large: 90 GiB}}", "limits={}"],
    "of_total": ["stack={like: sglang, memory: {definition: share-of-total}}", "limits={}"],
    "apart": ["plan={prefill: {tp: 4, replicas: 2}, decode: {tp: 8}}", "limits={}"],
    "stages": ["plan={tp: 8, pp: 2}", "limits={}"],
    "nodes": ["plan={tp: 16}", "limits={}"],
    "small": ["model=llama-3.1-8b", "plan={tp: 1}", "stack=sglang", "limits={}"],
    "experts": ["model=qwen-3-30b-a3b", "plan={tp: 4}", "limits={}"],
    "spread": ["model=qwen-3-30b-a3b", "plan={dp_attention: 4, ep: 4}", "assume.experts.imbalance=1.1", "limits={}"],
    "wide": ["model=deepseek-v3", "cluster.node=dgx-h200", "plan={dp_attention: 16, ep: 16}", "limits={}"],
}
KEYS = {
    "stack.prompt_wait": "4", "stack.host_cache.size": "64 GB", "stack.host_cache.keeps": "evicted",
    "stack.host_cache.loads": "layer", "stack.prefix_cache": "false", "stack.executors.ray": "1 ms",
    "stack.launch.operation": "90 us", "stack.thumb_rule.base": "5 GiB", "stack.dispatch.two_batches": "true",
    "stack.dispatch.element": "bf16", "stack.dispatch.low_latency.start": "90 us",
    "stack.decode_context.merged": "8 B", "stack.burst.front": "1 s", "stack.burst.share": "90 %",
    "stack.memory.context": "3 GiB", "stack.memory.group_context": "5 GiB", "stack.kernels.attention": "flash-2",
    "stack.kernels.own_all_reduce": "0 B", "stack.spread.experts": "50 %", "stack.spread.tpot": "50 %",
    "assume.experts.imbalance": "1.5", "assume.routing": "least-loaded", "assume.network_share": "40 %",
    "assume.cache_transfer": "layer", "stack.memory.logit": "99 B", "stack.memory.layer": "3 GiB",
    "stack.thumb_rule.graph_size": "90 MiB", "stack.thumb_rule.graph_sizes": "90", "stack.thumb_rule.least": "30 GiB",
    "stack.defaults.0.budget": "512", "stack.defaults.0.sequences": "16", "stack.defaults.0.captured": "32",
    "stack.defaults.1.budget": "512", "stack.defaults.1.sequences": "16", "stack.defaults.1.captured": "32",
    "workload.shared_prefix": "100", "workload.think_time": "2000 s",
}  # fmt: skip
SHARE = 4  # of so many keys one is changed in each case unless --whole asks for all, in the next case the next ones
NAMED = {"assume.experts.imbalance": "N008"}  # remarked by a code of its own where the model has no experts


@functools.cache
def answered(*keys: str, bands: bool = False) -> ServingAnswer:
    return predict(serving(load_any("serve-llama-3.1-70b", list(keys))), bands=bands)


def same(one: dict[str, float], other: dict[str, float]) -> bool:
    """Whether every figure of an answer is in another one; a cache on the host adds figures of itself."""
    return all(other[key] == value for key, value in one.items() if not math.isnan(value))


@pytest.mark.parametrize("name", CASES)
def test_a_stated_key_is_remarked_where_it_changes_no_figure(name: str, request: pytest.FixtureRequest) -> None:
    """Each key is changed and all figures are compared: the remark is found in another way than by its rules.

    A share of the keys, unless --whole asks for all.
    """
    wrong = []
    first, step = (0, 1) if request.config.getoption("--whole") else ([*CASES].index(name) % SHARE, SHARE)
    for key, value in [*KEYS.items()][first::step]:
        if f"{key}={value}" in CASES[name]:
            continue
        bands = "spread" in key
        try:
            before, after = answered(*CASES[name], bands=bands), answered(*CASES[name], f"{key}={value}", bands=bands)
        except CostModelError:
            continue  # the key belongs to another engine or load, and is refused with the reason
        assert "N051" not in before.remarked
        stated = [item.path for item in after.assumed if item.value == "without effect"]
        named = key in stated or NAMED.get(key) in after.remarked
        assert ("N051" in after.remarked) is bool(stated)
        if named is not same(before.costs, after.costs):
            wrong.append((key, "remarked" if named else "silent"))
    assert wrong == []


def test_a_document_that_the_scenario_names_states_no_key_itself() -> None:
    """Only what the user writes counts: every engine's document has keys that a dense model does not use."""
    for stack in ("vllm", "sglang", "trt-llm", "{like: vllm, block: 32}"):
        assert "N051" not in answered(f"stack={stack}").remarked


def test_routing_counts_where_a_rate_needs_more_than_the_one_replica() -> None:
    """How many replicas a rate needs depends on what turns find on several, though there is one."""
    load = LOAD.format("turns: 4, think_time: 20 s, rate: 60 /s"), "limits={}", "cluster.nodes=1"
    before, after = answered(*load), answered(*load, "assume.routing=cache-aware")
    assert after.costs["replicas_needed"] < before.costs["replicas_needed"]
    assert "N051" not in after.remarked


def test_limits_on_what_one_token_does_not_have_are_named() -> None:
    single = answered("workload.output=1")
    assert [item.path for item in single.assumed if item.value == "without effect"] == ["limits.tpot.at_most"]
    assert "N051" in single.remarked


def test_a_shared_beginning_needs_an_engine_that_keeps_it() -> None:
    """Neither of the two keys counts without the other."""
    off = "stack.prefix_cache=false", "limits={}"
    before, after = answered(*off), answered(*off, "workload.shared_prefix=90")
    assert same(before.costs, after.costs)
    paths = [[item.path for item in each.assumed if item.value == "without effect"] for each in (before, after)]
    assert paths == [["stack.prefix_cache"], ["workload.shared_prefix"]]
