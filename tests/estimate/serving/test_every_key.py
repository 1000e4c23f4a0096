"""Every key of a service: another value changes a figure, or there is a remark or a refusal."""

from __future__ import annotations

import functools
import math

import pytest

from costmodel.documents.keys.key_list import all_keys
from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.ground.errors import CostModelError

LOAD = "workload={{kind: serving, prompt: 900, output: 300, {}}}"
RULE = ("graph_size=9 MiB", "graph_sizes=9", "least=20 GiB")
CASES = {
    "rate": ["limits={}"],
    "one": ["model=llama-3.1-8b", "plan={tp: 1}", "limits={}"],
    "turns": [LOAD.format("turns: 4, users: 300, think_time: 20 s, shared_prefix: 90"), "limits={}"],
    "loop": [LOAD.format("concurrency: 64"), "limits={}"],
    "burst": [LOAD.format("concurrency: 64, traffic: burst"), "limits={}"],
    "batch": [LOAD.format("requests: 5000"), "limits={}"],
    "chats": [LOAD.format("requests: 900").replace("300", "{mean: 300, spread: 1}"), "limits={}"],
    "full": ["workload={kind: serving, prompt: 500, output: 4000, concurrency: 4000}", "limits={}"],
    "host": [LOAD.format("turns: 8, rate: 8 /s, think_time: 100 s"), "limits={}", "stack.host_cache.size=64 GB"],
    "apart": ["plan={prefill: {tp: 4, replicas: 1}, decode: {tp: 4, replicas: 1}}", "limits={}"],
    "experts": ["model=qwen-3-30b-a3b", "plan={tp: 4}", "limits={}"],
    "spread": ["model=qwen-3-30b-a3b", "plan={dp_attention: 4, ep: 4}", "assume.experts.imbalance=1.1", "limits={}"],
    "wide": ["model=deepseek-v3", "cluster.node=dgx-h200", "plan={dp_attention: 16, ep: 16}", "limits={}"],
    "one sided": [
        "model=deepseek-v3",
        "stack=trt-llm",
        "plan={dp_attention: 8, ep: 8}",
        "limits={}",
        "cluster.node=dgx-h200",
    ],
    "printed": ["plan={tp: 8, speculation: {tokens: 3, acceptance: 50 %, draft: eagle}}", "limits={}"],
    "length": ["plan={tp: 8, speculation: {tokens: 3, length: 2.5, draft: eagle}}", "limits={}"],
    "draft": ["plan={tp: 8, speculation: {tokens: 3, chance: 80 %, draft: eagle}}", "limits={}"],
    "tree": ["plan={tp: 8, speculation: {tokens: 9, depth: 3, width: 3, chance: 50 %, draft: eagle}}", "limits={}"],
    "bursts": ["workload.arrival_spread=2", "limits={}"],
    "shape": ["workload.burstiness=0.5", "limits={}"],
    "documents": ["workload.beginnings=[{tokens: 500, share: 50 %, count: 900}]", "limits={}"],
    "spaced": ["workload.beginnings=[{tokens: 500, spacing: 900}]", "limits={}"],
    "images": ["model=qwen-3-vl-32b", "plan={tp: 4}", "limits={}", "workload.images={count: 1, tokens: 90}"],
    "adapters": ["workload.adapters={count: 4, rank: 16}", "limits={}"],
    "launches": ["stack.graphs=false", "limits={}"],
    "short": ["workload={kind: serving, prompt: 90, output: 300, rate: 2 /s}", "limits={}"],
    "routed": ["model=deepseek-v3", "cluster.node=dgx-h200", "plan={tp: 8}", "limits={}"],
    "looks": ["stack=sglang", "limits={}"],
    "large": ["model=qwen-3-30b-a3b", "plan={tp: 4}", "stack=sglang", LOAD.format("concurrency: 500"), "limits={}"],
    "large few": ["model=qwen-3-30b-a3b", "plan={tp: 2}", "stack=sglang", LOAD.format("concurrency: 200"), "limits={}"],
    "hosted": ["model=qwen-3-30b-a3b", "plan={tp: 4, host_experts: 50 %}", "stack=sglang", "limits={}"],
    "ray": ["stack.executor=ray", "limits={}"],
    "rule": ["stack=sglang", "limits={}", *(f"stack.thumb_rule.{key}" for key in RULE)],
    "narrow": ["workload.weights=int4-g128", "limits={}"],
    "eight": ["workload.precision=fp8", "limits={}"],
    "context": ["model=deepseek-v3", "cluster.node=dgx-h200", "plan={tp: 8, dcp: 8}", "limits={}"],
    "fleet": ["workload.rate=90 /s", "limits={}", "assume={growth: {rate: 9 /s, time: 60 s, start: 60 s}}"],
    "spares": ["workload.rate=90 /s", "limits={}", "assume={availability: 95 %, enough_up: 99 %}"],
}
VALUES = {
    "rate": {
        "workload.prompt.mean": "2100", "workload.prompt.spread": "50 %", "workload.output.mean": "500",
        "workload.output.spread": "50 %", "workload.rate": "7", "workload.samples": "2", "workload.context": "9000",
        "workload.precision": "fp8", "workload.weights": "fp8", "workload.cache": "fp8",
        "stack": "sglang", "stack.makers": "[Intel]", "stack.runs_on": "[AMD]", "stack.name": "sglang",
        "stack.kind": "training", "stack.like": "sglang", "stack.precisions": "[fp8]",
        "stack.caches": "[fp8]", "stack.memory.definition": "share-of-free-before", "stack.memory.share": "80 %",
        "stack.memory.no_eviction": "true", "stack.memory.driver": "1 GiB", "stack.memory.logit": "99 B",
        "stack.memory.layer": "9 GiB", "stack.memory.group_context": "5 GiB", "stack.memory.graphs": "1 GiB",
        "stack.defaults.0.memory": "999 GiB", "stack.defaults.0.except_families": "[hopper]",
        "stack.defaults.0.budget": "512", "stack.defaults.0.sequences": "16", "stack.budget": "512",
        "stack.sequences": "16", "stack.block": "256", "stack.chunked": "false", "stack.graphs": "false",
        "stack.vocab_multiple": "50000", "stack.kernels.attention": "flash-2", "stack.kernels.operation": "9 us",
        "stack.kernels.own_all_reduce": "0 B", "stack.host.step": "9 ms", "stack.host.sequence": "90 us",
        "stack.executor": "ray", "stack.spread.tpot": "50 %", "stack.spread.ttft": "90 %", "stack.spread.pool": "30 %",
        "plan.tp": "4", "plan.pp": "2", "plan.dp_attention": "2", "plan.replicas": "1", "assume.price": "9 USD/GPU/h",
        "assume.power": "300 W",
    },
    "one": {"stack.start.fixed": "90 s", "stack.start.read": "1 GB/s", "stack.start.layer": "2 s",
            "stack.start.graph": "9 ms", "stack.memory.context": "3 GiB", "stack.memory.graph.dense": "90 MiB"},
    "hosted": {"plan.host_experts": "90 %", "stack.host_experts.rate": "1 TFLOP/s"},
    "narrow": {"stack.weights": "[fp8]"},
    "eight": {"stack.checkpoint_caches": "{fp8: fp8}"},
    "turns": {
        "workload.users": "200", "workload.think_time": "90 s", "workload.turns": "5", "workload.shared_prefix": "500",
        "stack.prefix_cache": "false", "stack.host_cache.ratio": "2", "assume.routing": "least-loaded",
    },
    "loop": {"workload.concurrency": "65", "workload.traffic": "burst"},
    "burst": {"stack.burst.front": "1 s", "stack.burst.share": "90 %"},
    "batch": {"workload.requests": "5001"},
    "chats": {"workload.output.law": "chat"},
    "full": {"stack.memory.preempts": "false"},
    "host": {f"stack.host_cache.{key}": to for key, to in
             {"size": "90 GB", "on": "drives", "rate": "1 GB/s", "keeps": "evicted", "loads": "layer"}.items()},
    "apart": {
        "plan.prefill.tp": "8", "plan.prefill.ep": "2", "plan.prefill.dp_attention": "2", "plan.prefill.dcp": "2",
        "plan.prefill.replicas": "2", "plan.decode.tp": "8", "plan.decode.ep": "2", "plan.decode.dp_attention": "2",
        "plan.decode.dcp": "2", "plan.decode.replicas": "2", "assume.cache_transfer": "layer",
    },
    "experts": {"workload.expert_precision": "fp8", "workload.expert_weights": "fp8", "stack.spread.experts": "50 %",
                "stack.memory.graph.experts": "90 MiB"},
    "spread": {"plan.ep": "2", "plan.redundant_experts": "16", "stack.prompt_wait": "4",
               "assume.experts.imbalance": "1.5"},
    "wide": {
        "stack.dispatch.from_domains": "3", "stack.dispatch.element": "bf16", "stack.dispatch.two_batches": "true",
        **{f"stack.dispatch.{form}.{key}": to for form in ("low_latency", "normal") for key, to in
           {"start": "90 us", "inside_share": "30 %", "across_share": "30 %"}.items()},
        "assume.network_share": "40 %",
    },
    "one sided": {"stack.dispatch.one_sided.start": "90 us", "stack.dispatch.one_sided.inside_share": "30 %"},
    "draft": {f"plan.speculation.{key}": to for key, to in
              {"tokens": "2", "chance": "70 %", "draft": "ngram"}.items()},
    "printed": {"plan.speculation.acceptance": "30 %"},
    "tree": {"plan.speculation.depth": "4", "plan.speculation.width": "2"},
    "bursts": {"workload.arrival_spread": "3"},
    "shape": {"workload.burstiness": "0.2"},
    "documents": {f"workload.beginnings.0.{key}": to for key, to in
                  {"tokens": "600", "share": "40 %", "count": "90"}.items()},
    "spaced": {"workload.beginnings.0.spacing": "90"},
    "length": {"plan.speculation.length": "1.5"},
    "images": {"workload.images.count": "2", "workload.images.tokens": "200"},
    "adapters": {"workload.adapters.count": "9", "workload.adapters.rank": "64"},
    "launches": {"stack.launch.operation": "90 us", "stack.launch.operations": "90"},
    "short": {"stack.launch.prompts.layer": "9 ms", "stack.mixed": "false", "stack.poll": "30"},
    "routed": {"stack.launch.prompts.experts": "9 ms", "stack.launch.prompts.latent": "9 ms"},
    "looks": {"stack.host.look": "9 ms"},
    "large": {"stack.captured": "100"},
    "large few": {"stack.defaults.1.captured_of_few": "100"},
    "ray": {"stack.executors.ray": "9 ms"},
    "rule": {
        **{f"stack.thumb_rule.{key}": to for key, to in {
            "base": "9 GiB", "chunk_token": "3 MiB", "rank": "1 GiB", "sequence": "20 MiB", "graph_size": "1 GiB",
            "graph_sizes": "900", "large": "90 GiB", "least": "30 GiB"}.items()},
        "stack.defaults.1.captured": "9000",
    },
    "context": {"plan.dcp": "4", "stack.decode_context.caches": "[attention]", "stack.decode_context.merged": "8 B"},
    "fleet": {"assume.headroom": "60 %", "assume.growth.rate": "90 /s", "assume.growth.time": "6 s",
              "assume.growth.start": "600 s"},
    "spares": {"assume.availability": "60 %", "assume.enough_up": "99.9999 %"},
}  # fmt: skip
REFUSED = {
    "stack.runs_on": "D016", "stack.name": "C033", "stack.kind": "D010", "stack.precisions": "D016",
    "stack.caches": "D016", "stack.weights": "D016",
}  # fmt: skip
EXCEPT = {
    "workload.kind": "which questions there are",
    "workload.trace": "stands for other keys",
    "stack.title": "describes the document",
    **dict.fromkeys(
        ("plan.prefill.node", "plan.decode.node"), "of nodes of several kinds, as test_mixed_fleet has them"
    ),
    "stack.as_of.version": "describes the document",
    "stack.as_of.date": "describes the document",
    "stack.as_of.timed": "describes the document; an assumption states it",
    **dict.fromkeys(("stack.as_of.releases.0.version", "stack.as_of.releases.0.date"), "describe the document"),
    "stack.memory.logged": "what a start-up log prints of models with windows",
    "stack.memory.graph.compressed": "of models with compressed attention, as tests of the cache have them",
    "stack.expert_ranks": "what plans are valid, and it never speaks against a valid one",
    "stack.defaults.0.captured": "in the row of this device, which is another one of SGLang",
    "stack.defaults.0.captured_of_few": "likewise",
}


BANDED = "stack.spread."  # keys that change ends of bands alone


@functools.cache
def answered(case: str, change: str = "", *, bands: bool = False) -> ServingAnswer:
    changes = [*CASES[case], *([change] if change else [])]
    return predict(serving(load_any("serve-llama-3.1-70b", changes)), bands=bands)


@pytest.mark.parametrize("case", CASES)
def test_no_key_is_silent(case: str) -> None:
    assert (answered(case).refused, "N051" in answered(case).remarked) == ((), False)
    shown = {key: _shown(case, key, to) for key, to in VALUES[case].items()}
    assert [key for key, said in shown.items() if not said] == []
    assert {key: said for key, said in shown.items() if said in REFUSED.values() or key in REFUSED} == {
        key: code for key, code in REFUSED.items() if key in VALUES[case]
    }


def _shown(case: str, key: str, to: str) -> str:
    """How another value shows: the code of a fault, of a refusal or of a remark, or a figure that differs."""
    bands = key.startswith(BANDED)
    before = answered(case, bands=bands)
    try:
        after = answered(case, f"{key}={to}", bands=bands)
    except CostModelError as error:
        return error.faults[0].code
    codes = [*after.refused, *(code for code in after.remarked if code not in before.remarked)]
    differs = (name for name, cost in after.costs.items() if not _equal(cost, before.costs.get(name, math.nan)))
    return next(iter((*codes, *differs)), "")


def _equal(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def test_every_key_is_changed_once() -> None:
    sections = ("workload", "plan", "stack", "assume")
    known = {key.path for key in all_keys() if key.of in ("", "serving") and key.path.split(".")[0] in sections}
    known = {key for key in known if not key.startswith("plan.groups.")}  # the plan's own, see test_mixed_fleet
    changed = [key for values in VALUES.values() for key in values]
    assert {*changed, *EXCEPT} - {"stack.defaults.1.captured", "stack.defaults.1.captured_of_few"} == known
    assert len(set(changed)) == len(changed)
    assert not set(changed) & set(EXCEPT)
