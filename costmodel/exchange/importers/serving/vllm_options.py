"""Options of vllm serve to keys of a serving scenario."""

from __future__ import annotations

import re
from typing import Any

from costmodel.documents.text.yaml_tree import Text
from costmodel.exchange.importers.launch.layer import Layer, layer_of
from costmodel.exchange.importers.serving.drafts import fill_copies, fill_vllm_draft, json_option
from costmodel.exchange.importers.serving.engine_names import OF_VLLM
from costmodel.exchange.importers.serving.host_caches import fill_vllm_host_cache
from costmodel.exchange.importers.serving.option_words import Spelling
from costmodel.exchange.importers.serving.served_adapters import fill_vllm_adapters
from costmodel.exchange.importers.serving.served_types import fill_types, share_of
from costmodel.exchange.values.foreign_keys import ForeignKey, ForeignKeys, lost, quiet

VERSION = "vLLM 0.33"
TITLE = "command of vLLM"
SPELLING = Spelling(
    {
        "-tp": "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-dp": "data-parallel-size",
        "-dpl": "data-parallel-size-local", "-ep": "enable-expert-parallel", "-q": "quantization",
        "-dcp": "decode-context-parallel-size", "-pcp": "prefill-context-parallel-size", "-sc": "speculative-config",
        "-cc": "compilation-config", "-ac": "attention-config", "-n": "nnodes", "-r": "node-rank",
        "-asc": "api-server-count", "-dpn": "data-parallel-rank", "-dpr": "data-parallel-start-rank",
        "-dpa": "data-parallel-address", "-dpp": "data-parallel-rpc-port", "-dpb": "data-parallel-backend",
        "-dph": "data-parallel-hybrid-lb", "-dpe": "data-parallel-external-lb",
        "-dpm": "data-parallel-multi-port-external-lb", "-dc": "diffusion-config",
        "-O": "optimization-level",
        **{f"-O{level}": "optimization-level" for level in range(4)},
        "--device-memory-utilization": "gpu-memory-utilization",
    },
    negated=True,
)  # fmt: skip
_SIZES = ("max-model-len", "max-num-batched-tokens", "max-num-seqs")
_SUFFIXED = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG])\Z")
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}

TABLE: dict[str, ForeignKey] = {
    **quiet(OF_VLLM),
    **lost("not expressible", "weights in another type", "quantization-config"),
    **lost("not expressible", "weights or the cache partly on the host",
           "offload-backend offload-group-size offload-num-in-group offload-params "
           "offload-prefetch-step cpu-offload-params"),
    **lost("not expressible", "steps are filled another way",
           "max-num-active-seqs max-num-scheduled-tokens prefill-schedule-interval "
           "kv-sharing-fast-prefill"),
    **lost("approximated", "kernels or half-batches of another kind",
           "ubatch-size monokernel use-replayssm gdn-prefill-backend"),
    "model": ForeignKey("word", "model"),
    "tensor-parallel-size": ForeignKey("count", "plan.tp", 1),
    "pipeline-parallel-size": ForeignKey("count", "plan.pp", 1),
    "data-parallel-size": ForeignKey("count", "plan.dp_attention plan.replicas", 1),
    "enable-expert-parallel": ForeignKey("flag", "plan.ep", False),
    "gpu-memory-utilization": ForeignKey("figure", "stack.memory"),
    "max-model-len": ForeignKey("whole", "workload.context"),
    "max-num-batched-tokens": ForeignKey("count", "stack.budget"),
    "max-num-seqs": ForeignKey("count", "stack.sequences"),
    "block-size": ForeignKey("count", "stack.block"),
    "kv-cache-dtype": ForeignKey("word", "workload.cache"),
    "enable-prefix-caching": ForeignKey("flag", "stack.prefix_cache"),
    "distributed-executor-backend": ForeignKey("word", "stack.executor"),
    "enforce-eager": ForeignKey("flag", "stack.graphs", False),
    "disable-custom-all-reduce": ForeignKey("flag", "stack.kernels", False),
    "dtype": ForeignKey("word", "workload.precision"),
    "speculative-config": ForeignKey("text", "plan.speculation"),
    "quantization": ForeignKey("word", "workload.precision workload.weights"),
    **lost("not expressible", "a draft proposes tokens", "spec-method spec-model spec-tokens"),
    **lost("not expressible", "prompts and answers are computed apart", "ec-transfer-config"),
    "enable-lora": ForeignKey("flag", "workload.adapters", False),
    "max-loras": ForeignKey("count", "workload.adapters", 1),
    "max-lora-rank": ForeignKey("count", "workload.adapters", 16),
    "decode-context-parallel-size": ForeignKey("count", "plan.dcp", 1),
    **lost("not expressible", "the prompt itself is cut", "prefill-context-parallel-size", 1),
    **lost("approximated", "another exchange between the ranks of dcp", "dcp-comm-backend dcp-q-replicate", "ag_rs"),
    **lost("not expressible", "weights or the cache partly on the host", "cpu-offload-gb swap-space", 0),
    "kv-offloading-size": ForeignKey("figure", "stack.host_cache"),
    "kv-offloading-backend": ForeignKey(
        "word", "stack.host_cache", "native", loss=("approximated", "the cache on the host is of another program"),
        harmless=(None, "native")),
    "kv-transfer-config": ForeignKey("text", "stack.host_cache"),
    **lost("not expressible", "the pool is of a stated size", "kv-cache-memory-bytes num-gpu-blocks-override"),
    **lost("not expressible", "the model's configuration is changed", "hf-overrides", "{}"),
    "enable-chunked-prefill": ForeignKey("flag", "stack.chunked", True),
    "enable-dbo": ForeignKey("flag", "stack.dispatch", False),
    **lost("approximated", "experts are moved while it runs", "enable-eplb"),
    "eplb-config": ForeignKey("text", "plan.redundant_experts"),
    **lost("approximated", "another exchange between experts", "all2all-backend"),
    **lost("approximated", "steps are scheduled before the last one ends, or not", "async-scheduling", True),
    **lost("approximated", "kernels are compiled or captured another way",
           "compilation-config cudagraph-capture-sizes "
           "max-cudagraph-capture-size optimization-level performance-mode"),
    **quiet("host port uvicorn-log-level api-key ssl-keyfile ssl-certfile chat-template served-model-name tokenizer "
            "tokenizer-mode trust-remote-code revision code-revision tokenizer-revision seed hf-config-path hf-token "
            "load-format download-dir config-format generation-config override-generation-config max-logprobs "
            "lora-modules lora-dtype max-cpu-loras fully-sharded-loras runner convert "
            "enable-auto-tool-choice tool-call-parser reasoning-parser structured-outputs-config "
            "limit-mm-per-prompt mm-processor-kwargs mm-processor-cache-gb mm-encoder-tp-mode allowed-local-media-path "
            "language-model-only skip-mm-profiling disable-log-stats enable-log-requests no-enable-log-requests "
            "disable-uvicorn-access-log enable-metrics otlp-traces-endpoint collect-detailed-traces "
            "show-hidden-metrics-for-version nnodes node-rank master-addr master-port "
            "data-parallel-size-local data-parallel-address data-parallel-rpc-port data-parallel-backend "
            "data-parallel-rank data-parallel-start-rank data-parallel-hybrid-lb data-parallel-external-lb "
            "api-server-count headless max-parallel-loading-workers ray-workers-use-nsight scheduling-policy "
            "scheduler-cls long-prefill-token-threshold stream-interval prefix-caching-hash-algo attention-backend "
            "moe-backend linear-backend model-impl logits-processors worker-cls worker-extension-cls "
            "disable-sliding-window disable-cascade-attn disable-hybrid-kv-cache-manager enable-sleep-mode "
            "skip-tokenizer-init model-loader-extra-config safetensors-load-strategy ignore-patterns "
            "additional-config profiler-config attention-config kernel-config kv-events-config "
            "enable-prompt-tokens-details enable-server-load-tracking enable-request-id-headers "
            "response-role middleware allowed-origins root-path numa-bind device-ids enable-flashinfer-autotune "
            "mamba-cache-dtype mamba-ssm-cache-dtype mamba-cache-mode kv-cache-dtype-skip-layers watchdog-config "
            "expert-placement-strategy enable-ep-weight-filter logprobs-mode config"),
    **{name: ForeignKey(old=today) for name, today in {
        "disable-log-requests": "--no-enable-log-requests", "use-v2-block-manager": "nothing", "device": "nothing",
        "worker-use-ray": "--distributed-executor-backend ray", "task": "--runner", "rope-scaling": "--hf-overrides",
        "guided-decoding-backend": "--structured-outputs-config", "num-scheduler-steps": "--async-scheduling",
        "max-seq-len-to-capture": "--max-cudagraph-capture-size", "engine-use-ray": "nothing",
        "max-context-len-to-capture": "--max-cudagraph-capture-size", "enable-reasoning": "--reasoning-parser",
    }.items()},
}  # fmt: skip


def read_vllm(tree: Any, file: str) -> Layer:
    """What a command of vLLM states."""
    for name in _SIZES:
        _expand(tree, name)
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = Layer(TITLE)
    layer.facts["stack"] = keys.derived("vllm", "the program", next(iter(keys.stated), ""))
    layer.fill("model", keys["model"])
    for name, path in (("tensor-parallel-size", "plan.tp"), ("pipeline-parallel-size", "plan.pp"),
                       ("decode-context-parallel-size", "plan.dcp")):  # fmt: skip
        layer.facts[path] = keys[name]
    layer.facts["data_parallel"] = keys["data-parallel-size"]
    layer.facts["expert_parallel"] = keys["enable-expert-parallel"]
    share = keys["gpu-memory-utilization"]
    if share.value is not None:
        layer.facts["stack.memory.share"] = share_of(share)
    context = keys["max-model-len"]
    if context.value is not None and context.value > 0:
        layer.fill("workload.context", context)
    for name in ("max-num-batched-tokens", "max-num-seqs", "block-size"):
        layer.fill(TABLE[name].fills, keys[name])
    layer.fill("stack.prefix_cache", keys["enable-prefix-caching"])
    if keys["distributed-executor-backend"].value in ("mp", "ray"):  # others run one process, or are not of vLLM
        layer.fill("stack.executor", keys["distributed-executor-backend"])
    if keys["enable-chunked-prefill"].value is False:
        layer.facts["stack.chunked"] = keys["enable-chunked-prefill"]
    fill_switches(keys, layer, eager="enforce-eager", plain_reduce="disable-custom-all-reduce")
    fill_halves(keys, layer, "enable-dbo")
    automatic = keys["kv-cache-dtype"]
    if automatic.value == "fp8_inc":
        keys.refuse("X003", "kv-cache-dtype fp8_inc is of another accelerator", "kv-cache-dtype")
    fill_vllm_draft(keys, layer)
    copies = (json_option(keys, "eplb-config") or {}).get("num_redundant_experts")
    fill_copies(keys, layer, "eplb-config", copies)
    fill_vllm_host_cache(keys, layer)
    fill_vllm_adapters(keys, layer)
    fill_types(keys, layer, "dtype", "quantization", "kv-cache-dtype")
    return layer_of(keys, TITLE, layer)


def fill_switches(keys: ForeignKeys, layer: Layer, *, eager: str, plain_reduce: str) -> None:
    """Graphs and the engine's own all-reduce, where flags switch them off."""
    if keys[eager].value:
        layer.facts["stack.graphs"] = keys[eager]._replace(value=False)
    if keys[plain_reduce].value:
        layer.facts["stack.kernels.own_all_reduce"] = keys[plain_reduce]._replace(value="0 B")


def fill_halves(keys: ForeignKeys, layer: Layer, name: str) -> None:
    """Half batches, one of which computes while the tokens of the other travel."""
    if keys[name].value:
        layer.facts["stack.dispatch.two_batches"] = keys[name]._replace(value=True)


def _expand(tree: Any, name: str) -> None:
    """A size such as 8k or 8K as its number: k is 1,000 and K 1,024."""
    key = next((key for key in tree if key == name), None)
    found = _SUFFIXED.match(str(tree.get(name, "")))
    if key is not None and found is not None:
        size = Text(f"{float(found.group(1)) * _UNITS[found.group(2)]:.0f}")
        tree[key] = size
