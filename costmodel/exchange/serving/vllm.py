"""Options of vllm serve, read to a serving scenario and written from one."""

from __future__ import annotations

import re
from typing import Any

from costmodel.documents.text.yaml_tree import Text
from costmodel.exchange.foreign_keys import ForeignKeys
from costmodel.exchange.option_rows import NOTHING, Remarks, lost, option, option_table, part, quiet, switch, written
from costmodel.exchange.serving.benchmark import benchmark_comments, benchmark_words, pool_error_words
from costmodel.exchange.serving.command_options import Spelling
from costmodel.exchange.serving.engine_options import (
    BESIDE,
    GIB,
    HOSTED,
    METHODS,
    PRODUCTS,
    UNWRITTEN,
    EngineFormat,
    ServingJob,
    check_cache,
    check_types,
    command_words,
    count_value,
    fill_adapters,
    fill_copies,
    fill_draft,
    fill_size,
    fill_types,
    host_cache_bytes,
    json_option,
    named_draft,
    wrapped_command,
)  # fmt: skip
from costmodel.exchange.training.file_facts import Layer, finished_layer, layer_of_rows

TITLE, VERSION = "command of vLLM 0.33", "vLLM 0.33"
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

_DRAFTS = {"eagle": "eagle3", "mtp": "mtp", "ngram": "ngram"}
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # that --max-lora-rank takes
_CONNECTOR = ("kv_connector", "kv_role", "kv_connector_extra_config")
_APART = "prompts and answers are computed apart, or another program keeps the cache"
_ADAPTERS = "workload.adapters"

# Names that its parser has beside those that follow: interfaces, logging, loading, kernels that the engine chooses.
_WITHOUT_COST = """
aggregate-engine-logging allow-credentials allow-deprecated-quantization allowed-headers allowed-media-domains
allowed-methods anthropic-disabled-thinking-effort aux-output-config chat-template-content-format cohere-format
cohere-is-reasoning-model cp-kv-cache-interleave-size cpu-distributed-timeout-seconds cudagraph-metrics
custom-histogram-buckets data-parallel-multi-port-external-lb data-parallel-supervisor-port dbo-decode-token-threshold
dbo-prefill-token-threshold dcp-kv-cache-interleave-size default-chat-template-kwargs
default-mm-loras diffusion-config disable-access-log-for-endpoints
distributed-timeout-seconds dp-supervisor-probe-failure-threshold dp-supervisor-probe-interval-s
dp-supervisor-probe-timeout-s dp-sync-interval ec-manager-config elastic-ep-max-dp-size enable-batch-sharded-sampling
enable-chunked-mm-input enable-cumem-allocator enable-elastic-ep enable-fastapi-docs enable-fault-tolerance
enable-flash-late-interaction enable-force-include-usage enable-hc-sp enable-layerwise-nvtx-tracing enable-log-deltas
enable-log-outputs enable-logging-iteration-details enable-mamba-cache-stochastic-rounding
enable-mamba-shared-prefix-checkpoint enable-mfu-metrics enable-mixed-moe-lora-format enable-mm-embeds
enable-moe-shared-loras enable-nccl-comm-suspend enable-nccl-for-dp-synchronization enable-offline-docs
enable-per-request-metrics enable-prompt-embeds enable-return-routed-experts enable-scale-out enable-shm-tensor-arena
enable-ssl-refresh enable-tokenizer-info-endpoint enable-tower-connector-lora enable-trace-replay engram-config
exclude-tools-when-tool-choice-none fail-on-environ-validation fault-tolerance-config fingerprint-mode
fingerprint-value grpc grpc-port h11-max-header-count h11-max-incomplete-event-size interleave-mm-strings
io-processor-plugin ir-op-priority jit-monitor-mode jit-monitor-verbose kda-decode-backend kda-prefill-backend
kv-cache-metrics kv-cache-metrics-sample log-config-file log-error-stack log-level logging-config
long-prefill-token-threshold-adaptive lora-target-modules mamba-backend mamba-block-size mamba-cache-philox-rounds
mamba-ssu-algorithm max-log-len max-lora-cls-labels max-num-queued-reqs max-num-queued-tokens media-io-kwargs
mm-device-do-normalize mm-encoder-attn-backend mm-encoder-attn-dtype mm-encoder-fp8-scale-path
mm-encoder-fp8-scale-save-margin mm-encoder-fp8-scale-save-path mm-encoder-only mm-hasher-algorithm
mm-ipc-gpu-memory-gb mm-processor-cache-type mm-processor-device mm-shm-cache-max-object-size-mb mm-tensor-ipc
model-class-overrides numa-bind-cpus numa-bind-nodes per-request-spec-decode-metrics pooler-config
prefix-cache-retention-interval prefix-match-unit pt-load-map-location reasoning-config reasoning-effort-map
reasoning-parser-plugin renderer-num-workers replayssm-buffer-len return-sampling-mask return-tokens-as-token-ids
safetensors-prefetch-block-size safetensors-prefetch-num-threads scheduler-reserve-full-isl shutdown-timeout
sleep-mode-backend sleep-mode-offload-cudagraph sleep-preserve-parameter-names sparse-indexer-topk-backend
specialize-active-lora sse-keep-alive-interval ssl-ca-certs ssl-cert-reqs ssl-ciphers swa-bounded-replay tokens-only
tool-parser-plugin tool-server tool-strict-level trust-request-chat-template trust-request-mm-kwargs uds
use-fp64-gumbel use-tqdm-on-load video-pruning-method video-pruning-rate watermark watermark-config
weight-transfer-config
"""

TABLE = option_table(
    quiet(_WITHOUT_COST),
    option("model", "model", "word", when="never"),
    option("tensor-parallel-size", "plan.tp", "count", 1),
    option("pipeline-parallel-size", "plan.pp", "count", 1, when="where it counts"),
    part("data-parallel-size", "data_parallel", "count", 1),
    option("decode-context-parallel-size", "plan.dcp", "count", 1, when="where it counts"),
    part("enable-expert-parallel", "plan.ep", "flag", False),
    part("max-model-len", "workload.context", "whole"),
    option("max-num-batched-tokens", "stack.budget", "count"),
    option("max-num-seqs", "stack.sequences", "count"),
    option("gpu-memory-utilization", "stack.memory.share", "share"),
    option("block-size", "stack.block", "count"),
    option("enable-prefix-caching", "stack.prefix_cache", "flag"),
    part("dtype", "workload.precision", "word"),
    part("quantization", "workload.precision workload.weights", "word"),
    part("kv-cache-dtype", "workload.cache", "word"),
    part("speculative-config", "plan.speculation", "text"),
    part("kv-offloading-size", "stack.host_cache", "figure"),
    part("kv-offloading-backend", "stack.host_cache", "word", "native", harmless=(None, "native"),
         loss=("approximated", "the cache on the host is of another program")),
    part("kv-transfer-config", "stack.host_cache", "text"),
    lost("approximated", "experts are moved while it runs", "enable-eplb"),
    part("eplb-config", "plan.redundant_experts", "text"),
    lost("approximated", "another exchange between experts", "all2all-backend"),
    option("enable-dbo", "stack.dispatch.two_batches", switch(True), False),
    part("enable-lora", _ADAPTERS, "flag", False),
    part("max-loras", _ADAPTERS, "count", 1),
    part("max-lora-rank", _ADAPTERS, "count", 16),
    part("distributed-executor-backend", "stack.executor", "word"),
    option("enable-chunked-prefill", "stack.chunked", switch(NOTHING, False), True),
    option("enforce-eager", "stack.graphs", switch(False), False),
    option("disable-custom-all-reduce", "stack.kernels.own_all_reduce", switch("0 B"), False),
    lost("not expressible", "weights in another type", "quantization-config"),
    lost("not expressible", "weights or the cache partly on the host",
         "offload-backend offload-group-size offload-num-in-group offload-params "
         "offload-prefetch-step cpu-offload-params"),
    lost("not expressible", "steps are filled another way",
         "max-num-active-seqs max-num-scheduled-tokens prefill-schedule-interval "
         "kv-sharing-fast-prefill"),
    lost("approximated", "kernels or half-batches of another kind",
         "ubatch-size monokernel use-replayssm gdn-prefill-backend"),
    lost("not expressible", "a draft proposes tokens", "spec-method spec-model spec-tokens"),
    lost("not expressible", "prompts and answers are computed apart",
         "ec-transfer-config is-prefill-worker is-decode-worker disaggregation-mode"),
    quiet("connector migration-limit request-plane event-plane store-kv endpoint-types backend"),
    lost("not expressible", "the prompt itself is cut", "prefill-context-parallel-size", 1),
    lost("approximated", "another exchange between the ranks of dcp", "dcp-comm-backend dcp-q-replicate", "ag_rs"),
    lost("not expressible", "weights or the cache partly on the host", "cpu-offload-gb swap-space", 0),
    lost("not expressible", "the pool is of a stated size", "kv-cache-memory-bytes num-gpu-blocks-override"),
    lost("not expressible", "the model's configuration is changed", "hf-overrides", "{}"),
    lost("approximated", "steps are scheduled before the last one ends, or not", "async-scheduling", True),
    lost("approximated", "kernels are compiled or captured another way",
         "compilation-config cudagraph-capture-sizes "
         "max-cudagraph-capture-size optimization-level performance-mode"),
    quiet("host port uvicorn-log-level api-key ssl-keyfile ssl-certfile chat-template served-model-name tokenizer "
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
    [option(name, old=today) for name, today in {
        "disable-log-requests": "--no-enable-log-requests", "use-v2-block-manager": "nothing", "device": "nothing",
        "worker-use-ray": "--distributed-executor-backend ray", "task": "--runner", "rope-scaling": "--hf-overrides",
        "guided-decoding-backend": "--structured-outputs-config", "num-scheduler-steps": "--async-scheduling",
        "max-seq-len-to-capture": "--max-cudagraph-capture-size", "engine-use-ray": "nothing",
        "max-context-len-to-capture": "--max-cudagraph-capture-size", "enable-reasoning": "--reasoning-parser",
    }.items()],
)  # fmt: skip


def read_vllm(tree: Any, file: str) -> Layer:
    """The facts that a vLLM command states."""
    for name in _SIZES:
        _expand_size(tree, name)
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = layer_of_rows(keys, TITLE)
    layer.facts["stack"] = keys.derived("vllm", "the program", next(iter(keys.stated), ""))
    layer.facts["data_parallel"] = keys["data-parallel-size"]
    layer.facts["expert_parallel"] = keys["enable-expert-parallel"]
    context = keys["max-model-len"]
    if context.value is not None and context.value > 0:
        layer.fill("workload.context", context)
    if keys["distributed-executor-backend"].value in ("mp", "ray"):  # others run one process, or are not of vLLM
        layer.fill("stack.executor", keys["distributed-executor-backend"])
    if keys["kv-cache-dtype"].value == "fp8_inc":
        keys.refuse("X003", "kv-cache-dtype fp8_inc is of another accelerator", "kv-cache-dtype")
    drafted = json_option(keys, "speculative-config", "method", "model", "num_speculative_tokens")
    if drafted is not None:
        method = drafted.get("method") or ("eagle" if "eagle" in str(drafted.get("model", "")).lower() else "")
        fill_draft(keys, layer, "speculative-config", str(method), drafted.get("num_speculative_tokens"))
    fill_copies(
        keys,
        layer,
        "eplb-config",
        (json_option(keys, "eplb-config", "num_redundant_experts") or {}).get("num_redundant_experts"),
    )
    _fill_host_cache(keys, layer)
    fill_adapters(keys, layer, "max-loras", on=bool(keys["enable-lora"].value))
    fill_types(keys, layer, "dtype", "quantization", "kv-cache-dtype")
    return finished_layer(keys, layer)


def _fill_host_cache(keys: ForeignKeys, layer: Layer) -> None:
    """Fills the host cache: GiB for all ranks of an engine, or the bytes in the connector's JSON option."""
    whole, name = keys["kv-offloading-size"].value, "kv-offloading-size"
    if whole is not None:
        whole = float(whole) * GIB
    elif (found := json_option(keys, "kv-transfer-config", *_CONNECTOR)) is not None:
        name = "kv-transfer-config"
        extra = found.get("kv_connector_extra_config")
        whole = count_value(extra.get("cpu_bytes_to_use")) if isinstance(extra, dict) else None
        if found.get("kv_connector") != "OffloadingConnector" or whole is None:
            keys.lose("not expressible", _APART, name)
            return
    ranks = (keys["tensor-parallel-size"].value or 1) * (keys["pipeline-parallel-size"].value or 1)
    if whole:
        fill_size(keys, layer, name, whole / max(ranks, 1), f"{name} over {ranks} ranks")


def _expand_size(tree: Any, name: str) -> None:
    """Replaces a size such as 8k or 8K by its number: k is 1,000 and K is 1,024."""
    key = next((key for key in tree if key == name), None)
    found = _SUFFIXED.match(str(tree.get(name, "")))
    if key is not None and found is not None:
        size = Text(f"{float(found.group(1)) * _UNITS[found.group(2)]:.0f}")
        tree[key] = size


def written_options(job: ServingJob, remarks: Remarks) -> dict[str, Any]:
    """The options of a command with their values."""
    engine, groups = job.engine, job.count("dp_attention")
    beside: dict[str, Any] = {"max-model-len": job.context, "dtype": PRODUCTS.write(job.half)}
    if groups > 1:
        beside["data-parallel-size"] = groups
    if _spreads_experts(job, remarks):
        beside["enable-expert-parallel"] = True
    if method := check_types(job, remarks, METHODS):
        beside["quantization"] = method
    if cache := check_cache(job, remarks):
        beside["kv-cache-dtype"] = cache
    if draft := named_draft(job, remarks, _DRAFTS):
        beside["speculative-config"] = {"method": draft[0], "num_speculative_tokens": draft[1]}
    if host := host_cache_bytes(job, remarks, "--kv-offloading-size"):
        beside["kv-offloading-size"] = f"{job.count('tp') * job.count('pp') * host / GIB:.10g}"
    if job.copies:
        beside |= {"enable-eplb": True, "eplb-config": {"num_redundant_experts": job.copies}}
    if job.dispatched:  # one form of DeepEP for all steps
        remarks.note("steps with prompts are predicted as with deepep_high_throughput")
        beside["all2all-backend"] = "deepep_low_latency"
    beside |= _written_adapters(job, remarks)
    if engine.executor:
        beside["distributed-executor-backend"] = engine.executor
    if not engine.chunked and job.context > job.budget:  # then vLLM starts only where a step holds its longest request
        sentence = f"false: a step of {job.budget:,} tokens is shorter than the longest request, {job.context:,}"
        remarks.refuse("stack.chunked", sentence, f"--set stack.budget={job.context}, or stack.chunked=true")
    return written(TABLE, job, remarks.refuse, beside)


def write_vllm(job: ServingJob, remarks: Remarks) -> str:
    """The command, the expected log line and the benchmark."""
    words = ["vllm serve", job.checkpoint, *command_words(written_options(job, remarks))]
    asked = benchmark_words(job, remarks, "vllm bench serve", f"--model {job.checkpoint}")
    held = f"expect in its log: GPU KV cache size near {job.pool:,.0f} tokens {pool_error_words(job)}"
    most = f"and Maximum concurrency for {job.context:,} tokens per request near {job.requests:.1f}x"
    return wrapped_command(words) + benchmark_comments(job, [held, most], asked)


def _spreads_experts(job: ServingJob, remarks: Remarks) -> bool:
    """Whether the ranks of a stage hold whole experts (expert parallelism) instead of slices of all experts."""
    ep, ranks = job.count("ep"), job.count("tp") * job.count("dp_attention")
    if ep not in (1, ranks):
        hint = f"--set plan.ep=1, or {ranks}"
        remarks.refuse("plan.ep", f"{ep}: --enable-expert-parallel takes all {ranks} ranks of a stage", hint)
    return ep > 1


def _written_adapters(job: ServingJob, remarks: Remarks) -> dict[str, Any]:
    """Options for LoRA adapter slots and rank; a note asks the reader to name each adapter."""
    stated = job.workload.adapters
    if stated is None:
        return {}
    count, rank = round(stated.count), round(stated.rank)
    if rank not in _RANKS:
        wider = next((each for each in _RANKS if each > rank), _RANKS[-1])
        sentence = f"rank {rank}: --max-lora-rank takes {', '.join(map(str, _RANKS))}"
        remarks.refuse(_ADAPTERS, sentence, f"--set {_ADAPTERS}.rank={wider}")
    remarks.note(f"name the {count} adapters: --lora-modules NAME=PATH …")
    return {"enable-lora": True, "max-loras": count, "max-lora-rank": rank}


FORMAT = EngineFormat(
    name="vllm",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    elsewhere=BESIDE,
    cannot=UNWRITTEN | HOSTED,
    kind="Command",
    mark="--",
    stack="vllm",
    write=write_vllm,
    step_holds_request=True,
)
