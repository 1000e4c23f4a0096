"""Options of SGLang's server to keys of a serving scenario."""

from __future__ import annotations

from typing import Any

from costmodel.exchange.importers.launch.layer import Layer, layer_of
from costmodel.exchange.importers.serving.drafts import fill_copies, fill_sglang_draft
from costmodel.exchange.importers.serving.engine_names import OF_SGLANG
from costmodel.exchange.importers.serving.host_caches import fill_sglang_host_cache
from costmodel.exchange.importers.serving.option_words import Spelling
from costmodel.exchange.importers.serving.served_adapters import fill_sglang_adapters
from costmodel.exchange.importers.serving.served_types import fill_types, share_of
from costmodel.exchange.importers.serving.vllm_options import fill_halves, fill_switches
from costmodel.exchange.values.foreign_keys import ForeignKey, ForeignKeys, lost, quiet

VERSION = "SGLang 0.5.23"
TITLE = "command of SGLang"
SPELLING = Spelling(
    {
        "--tp": "tp-size", "--tensor-parallel-size": "tp-size", "--pp": "pp-size",
        "--pipeline-parallel-size": "pp-size",
        "--dp": "dp-size", "--data-parallel-size": "dp-size",
        "--ep": "ep-size", "--expert-parallel-size": "ep-size",
        "--attention-data-parallel-size": "attn-dp-size",
        "--decode-context-parallel-size": "dcp-size", "--model": "model-path",
    },
    shortened=True,
    negated=True,
)  # fmt: skip
_ALL_TO_ALL = ("deepep", "mooncake")  # exchanges that take every rank for experts

TABLE: dict[str, ForeignKey] = {
    **quiet(OF_SGLANG),
    **lost("not expressible", "degrees that no plan states",
           "attention-context-parallel-size moe-data-parallel-size shared-experts-tp-size enable-prefill-cp"),
    **lost("not expressible", "weights, experts or the cache partly on the host",
           "offload-mode offload-group-size offload-num-in-group offload-prefetch-step "
           "enable-hicache enable-lmcache enable-flexkv kt-weight-path kt-num-gpu-experts "
           "enable-paged-experts paged-experts-num-resident ple-offload-embedding"),
    **lost("not expressible", "weights in another type",
           "modelopt-quant quantize-and-serve rl-quant-profile enable-w4a4-mxfp4-megamoe"),
    **lost("not expressible", "steps are filled another way",
           "prefill-max-requests enable-prefill-delayer enable-pdmux pp-max-micro-batch-size "
           "enable-mis"),
    **lost("not expressible", "a part of the model alone", "encoder-only language-only language-model-only"),
    **lost("not expressible", "tokens of a block are proposed together", "dllm-algorithm"),
    "model-path": ForeignKey("word", "model"),
    "tp-size": ForeignKey("count", "plan.tp", 1),
    "pp-size": ForeignKey("count", "plan.pp", 1),
    "dp-size": ForeignKey("count", "plan.replicas", 1),
    "attn-dp-size": ForeignKey("count", "plan.dp_attention", 1),
    "enable-dp-attention": ForeignKey("flag", "plan.dp_attention", False),
    "ep-size": ForeignKey("count", "plan.ep", 1),
    "moe-a2a-backend": ForeignKey("word", "plan.ep", "none"),
    "enable-ep-moe": ForeignKey("flag", "plan.ep", False, old="ep-size"),
    "enable-deepep-moe": ForeignKey("flag", "plan.ep", False, old="moe-a2a-backend deepep"),
    "mem-fraction-static": ForeignKey("figure", "stack.memory"),
    "context-length": ForeignKey("count", "workload.context"),
    "max-running-requests": ForeignKey("count", "stack.sequences"),
    "chunked-prefill-size": ForeignKey("whole", "stack.budget"),
    "page-size": ForeignKey("count", "stack.block"),
    "kv-cache-dtype": ForeignKey("word", "workload.cache"),
    "disable-radix-cache": ForeignKey("flag", "stack.prefix_cache", False),
    "disable-cuda-graph": ForeignKey("flag", "stack.graphs", False),
    "disable-custom-all-reduce": ForeignKey("flag", "stack.kernels", False),
    "dtype": ForeignKey("word", "workload.precision"),
    "speculative-algorithm": ForeignKey("word", "plan.speculation"),
    "speculative-draft-model-path": ForeignKey("word", "plan.speculation"),
    "speculative-num-steps": ForeignKey("count", "plan.speculation"),
    "speculative-num-draft-tokens": ForeignKey("count", "plan.speculation"),
    "speculative-eagle-topk": ForeignKey("count", "plan.speculation"),
    "quantization": ForeignKey("word", "workload.precision workload.weights"),
    **lost("not expressible", "prompts and answers are computed apart", "disaggregation-mode", "null"),
    "enable-lora": ForeignKey("flag", "workload.adapters", False),
    "max-loras-per-batch": ForeignKey("count", "workload.adapters", 8),
    "max-lora-rank": ForeignKey("count", "workload.adapters"),
    "dcp-size": ForeignKey("count", "plan.dcp", 1),
    **lost("approximated", "another exchange between the ranks of dcp",
           "dcp-comm-backend dcp-replicate-q-proj", "ag_rs"),
    **lost("not expressible", "the prompt itself is cut", "attn-cp-size", 1),
    **lost("not expressible", "experts are cut another way", "moe-dp-size dwdp-size", 1),
    **lost("not expressible", "weights or the cache partly on the host",
           "cpu-offload-gb", 0),
    "enable-hierarchical-cache": ForeignKey("flag", "stack.host_cache", False),
    "hicache-size": ForeignKey("figure", "stack.host_cache"),
    "hicache-ratio": ForeignKey("figure", "stack.host_cache", 2.0),
    "hicache-write-policy": ForeignKey("word", "stack.host_cache", "write_through"),
    **lost("not expressible", "a store behind the host keeps the cache too", "hicache-storage-backend"),
    **lost("not expressible", "the pool is of a stated size", "max-total-tokens"),
    **lost("not expressible", "the model's configuration is changed", "json-model-override-args", "{}"),
    "enable-two-batch-overlap": ForeignKey("flag", "stack.dispatch", False),
    **lost("approximated", "experts of one batch hide its own communication", "enable-single-batch-overlap"),
    **lost("approximated", "experts are moved while it runs", "enable-eplb"),
    "ep-num-redundant-experts": ForeignKey("count", "plan.redundant_experts", 0),
    **lost("approximated", "how much of prompts a step takes at most", "max-prefill-tokens enable-mixed-chunk"),
    **lost("approximated", "steps are not scheduled ahead", "disable-overlap-schedule"),
    **lost("approximated", "kernels are compiled or captured another way", "enable-torch-compile cuda-graph-max-bs "
           "cuda-graph-bs cuda-graph-max-bs-decode cuda-graph-bs-decode disable-cuda-graph-padding "
           "torch-compile-max-bs "
           "cuda-graph-backend-decode cuda-graph-backend-prefill"),
    **lost("approximated", "dense layers or the head are cut another way", "moe-dense-tp-size enable-dp-lm-head"),
    **quiet("host port tokenizer-path tokenizer-mode trust-remote-code revision load-format download-dir device "
            "served-model-name chat-template api-key log-level log-level-http log-requests log-requests-level "
            "enable-metrics show-time-cost decode-log-interval nnodes node-rank dist-init-addr dist-timeout nccl-port "
            "base-gpu-id gpu-id-step random-seed stream-interval watchdog-timeout schedule-policy "
            "schedule-conservativeness load-balance-method attention-backend prefill-attention-backend "
            "decode-attention-backend sampling-backend grammar-backend moe-runner-backend deepep-mode deepep-config "
            "tool-call-parser reasoning-parser skip-server-warmup warmups skip-tokenizer-init is-embedding "
            "enable-multimodal enable-cache-report enable-p2p-check enable-nccl-nvls enable-mscclpp enable-symm-mem "
            "lora-paths lora-backend lora-target-modules "
            "speculative-attention-mode "
            "disaggregation-transfer-backend disaggregation-bootstrap-port disaggregation-ib-device "
            "constrained-json-whitespace-pattern "
            "num-continuous-decode-steps sleep-on-idle tokenizer-worker-num model-impl enable-memory-saver "
            "disable-shared-experts-fusion enable-flashinfer-allreduce-fusion fp8-gemm-backend "
            "init-expert-location eplb-algorithm ep-dispatch-algorithm triton-attention-num-kv-splits "
            "quantization-param-path weight-loader-disable-mmap max-queued-requests preferred-sampling-params "
            "file-storage-path completion-template config mamba-ssm-dtype swa-full-tokens-ratio radix-eviction-policy"),
    **{name: ForeignKey(old=today) for name, today in {
        "enable-flashinfer": "--attention-backend flashinfer", "disable-mla": "nothing",
        "enable-flashinfer-mla": "--attention-backend flashinfer", "disable-outlines-disk-cache": "nothing",
        "enable-flashmla": "--attention-backend flashmla", "enable-overlap-schedule": "nothing",
        "disable-flashinfer": "--attention-backend triton", "stream-output": "--incremental-streaming-output",
    }.items()},
}  # fmt: skip


def read_sglang(tree: Any, file: str) -> Layer:
    """What a command of SGLang states: groups of attention lie inside its tensor-parallel ranks."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = Layer(TITLE)
    layer.facts["stack"] = keys.derived("sglang", "the program", next(iter(keys.stated), ""))
    layer.fill("model", keys["model-path"])
    groups = _degrees(keys, layer)
    layer.fill("workload.context", keys["context-length"])
    _divided(keys, layer, groups)
    share = keys["mem-fraction-static"]
    if share.value is not None:
        layer.facts["stack.memory.share"] = share_of(share)
    layer.fill("stack.block", keys["page-size"])
    radix = keys["disable-radix-cache"]
    if radix.value:
        layer.facts["stack.prefix_cache"] = radix._replace(value=False)
    fill_switches(keys, layer, eager="disable-cuda-graph", plain_reduce="disable-custom-all-reduce")
    fill_halves(keys, layer, "enable-two-batch-overlap")
    fill_sglang_draft(keys, layer)
    fill_copies(keys, layer, "ep-num-redundant-experts", keys["ep-num-redundant-experts"].value)
    fill_sglang_host_cache(keys, layer)
    fill_sglang_adapters(keys, layer)
    fill_types(keys, layer, "dtype", "quantization", "kv-cache-dtype")
    return layer_of(keys, TITLE, layer)


def _degrees(keys: ForeignKeys, layer: Layer) -> int:
    """Degrees of the plan; how many groups attend apart."""
    ranks, copies, apart = keys["tp-size"], keys["dp-size"], keys["attn-dp-size"]
    if keys["enable-dp-attention"].value and (apart.value or 1) == 1:
        apart, copies = copies, copies._replace(value=1)
    groups = max(1, int(apart.value or 1))
    if int(ranks.value or 1) % groups:
        keys.refuse("X005", f"{groups} groups of attention do not divide tp-size {ranks.value}", "tp-size")
        groups = 1
    if groups > 1:
        layer.facts["plan.tp"] = keys.derived(ranks.value // groups, f"tp-size over {groups} groups", "tp-size")
        layer.facts["plan.dp_attention"] = apart._replace(value=groups)
    else:
        layer.facts["plan.tp"] = ranks
    layer.facts["plan.pp"] = keys["pp-size"]
    layer.facts["plan.dcp"] = keys["dcp-size"]
    if (copies.value or 1) > 1:
        layer.facts["plan.replicas"] = copies
    exchange = keys["moe-a2a-backend"]
    everywhere = exchange.value in _ALL_TO_ALL or keys["enable-deepep-moe"].value or keys["enable-ep-moe"].value
    experts = keys["ep-size"]
    if everywhere and (experts.value or 1) == 1:
        experts = keys.derived(ranks.value, "as many as tp-size, of the exchange", "moe-a2a-backend")
    layer.facts["plan.ep"] = experts
    return groups


def _divided(keys: ForeignKeys, layer: Layer, groups: int) -> None:
    """Sizes of all groups together, each of which has its share."""
    for name, path in (("max-running-requests", "stack.sequences"), ("chunked-prefill-size", "stack.budget")):
        whole = keys[name]
        if whole.value is None:
            continue
        if whole.value < 1:
            keys.lose("not expressible", f"{name} {whole.value}: prompts are not cut", name)
        elif groups == 1:
            layer.facts[path] = whole
        else:
            origin = f"{name} over {groups} groups of attention"
            layer.facts[path] = keys.derived(max(1, int(whole.value) // groups), origin, name)
