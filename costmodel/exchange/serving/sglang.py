"""Options of SGLang's server, read to a serving scenario and written from one."""

from __future__ import annotations

from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys
from costmodel.exchange.option_rows import Remarks, lost, option, option_table, part, quiet, switch, written
from costmodel.exchange.serving.benchmark import benchmark_comments, benchmark_words, pool_error_words
from costmodel.exchange.serving.command_options import Spelling
from costmodel.exchange.serving.engine_options import (
    BESIDE,
    GB,
    METHODS,
    PRODUCTS,
    RATIO,
    UNWRITTEN,
    EngineFormat,
    ServingJob,
    check_cache,
    check_types,
    command_words,
    draft_kind,
    fill_adapters,
    fill_copies,
    fill_draft,
    fill_size,
    fill_types,
    named_draft,
    wrapped_command,
)  # fmt: skip
from costmodel.exchange.training.file_facts import Layer, finished_layer, layer_of_rows

TITLE, VERSION = "command of SGLang 0.5", "SGLang 0.5.23"
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
_DRAFTS = {"eagle": "EAGLE3", "mtp": "NEXTN", "ngram": "NGRAM"}
_HOST, _DRAFT, _ADAPTERS = "stack.host_cache", "plan.speculation", "workload.adapters"
_THROUGH = ("write_through", "write_through_selective")

# Names that its parser has beside those that follow: interfaces, logging, loading, kernels that the engine chooses.
_WITHOUT_COST = """
abort-on-priority-when-disabled admin-api-key allow-auto-truncate allowed-media-domains asr-max-buffer-seconds
asr-max-concurrent-sessions batch-notify-size bf16-gemm-backend boundary-reduction bucket-e2e-request-latency
bucket-inter-token-latency bucket-time-to-first-token c128-page-size checkpoint-engine-wait-weights-before-ready
constrained-json-disable-any-whitespace constrained-json-max-whitespace-cnt context-bucket cp-strategy
crash-dump-folder cuda-graph-bs-prefill cuda-graph-config cuda-graph-max-bs-prefill cuda-graph-max-seq-len-prefill
cuda-graph-prefill-max-context custom-weight-loader debug-cuda-graph
debug-tensor-dump-input-file debug-tensor-dump-layers debug-tensor-dump-output-folder decoupled-spec-bind-endpoint
decoupled-spec-connect-endpoints decoupled-spec-rank decoupled-spec-role decrypted-config-file
decrypted-draft-config-file deepep-dispatcher-output-dtype deepep-v2-mode default-chat-template-kwargs
default-priority-value delete-ckpt-after-loading detokenizer-worker-num disable-aiter-allreduce-fusion-in-decode
disable-aiter-allreduce-fusion-in-prefill disable-attn-tp-gather disable-chunked-prefix-cache
disable-decode-cuda-graph disable-fast-image-processor disable-flashinfer-autotune
disable-flashinfer-cutlass-moe-fp4-allgather disable-hybrid-swa-memory disable-prefill-cuda-graph
disable-priority-preemption disable-tokenizer-batch-decode disaggregation-decode-allocation-policy
disaggregation-decode-enable-offload-kvcache disaggregation-decode-enable-radix-cache
disaggregation-decode-extra-slots disaggregation-decode-host-receive-threshold disaggregation-decode-polling-interval
disaggregation-decode-retraction-backup disaggregation-enable-kv-checksum dllm-algorithm-config dllm-fdfo
dsa-decode-backend dsa-paged-mqa-logits-backend dsa-prefill-backend dsa-topk-backend dsa-triton-union
dsv4-attn-backend dsv4-prefill-backend dynamic-batch-tokenizer-batch-size dynamic-batch-tokenizer-batch-timeout
elastic-ep-backend elastic-ep-initial-size elastic-ep-join-mode elastic-ep-join-rank-offset elastic-ep-scale-timeout
enable-adaptive-dispatch-to-encoder enable-aiter-allreduce-fusion enable-amd-monokernel enable-attn-tp-input-scattered
enable-broadcast-mm-inputs-process enable-cp-decode-attn-tp enable-cudagraph-gc enable-custom-logit-processor
enable-decoder-swa-bounded-replay enable-deepseek-v4-fp4-indexer enable-dense-mlp-attn-tp
enable-deterministic-inference enable-dp-attention-local-control-broadcast enable-draft-weights-cpu-backup
enable-dsa-cache-layer-split enable-dsa-fused-indexer enable-dynamic-batch-tokenizer enable-dynamic-chunking
enable-elastic-expert-backup enable-encoder-swa-bounded-replay enable-forward-pass-metrics enable-fp32-lm-head
enable-fused-moe-sum-all-reduce enable-fused-qk-norm-rope enable-hisparse enable-http-worker-reuseport enable-http2
enable-int8-mamba-checkpoint enable-kv-cache-sharding enable-layernorm-sp enable-layerwise-nvtx-marker
enable-lean-attention enable-linear-replayssm enable-linear-replayssm-spec enable-linker-mla-dedup
enable-lora-overlap-loading enable-mamba-cache-stochastic-rounding enable-megamoe-for-layernorm-sp
enable-metrics-for-all-schedulers enable-mfu-metrics enable-mm-global-cache enable-multi-layer-eagle
enable-nvidia-megakernel enable-page-major-kv-layout enable-pd-role-switch enable-precise-embedding-interpolation
enable-prefix-mm-cache enable-priority-scheduling enable-profile-cuda-graph enable-quant-communications
enable-request-time-stats-logging enable-response-store enable-return-aux-hidden-states enable-return-hidden-states
enable-return-indexer-topk enable-return-routed-experts enable-scattered-sconv enable-session-radix-cache
enable-shared-experts-attn-tp enable-ssl-refresh enable-streaming-session enable-strict-thinking enable-tf32-matmul
enable-tokenizer-batch-encode enable-torch-compile-debug-mode enable-torch-symm-mem enable-tp-lm-head-all-to-all
enable-trace enable-unified-cache-external-linker enable-unified-memory enable-waterfill enable-watermark
enable-weights-cpu-backup encoder-bootstrap-port encoder-register-urls encoder-transfer-backend encoder-urls
enforce-disable-flashinfer-allreduce-fusion enforce-shared-experts-fusion engine-info-bootstrap-port
eplb-min-rebalancing-utilization-threshold eplb-rebalance-layers-per-chunk eplb-rebalance-num-iterations
expert-balancedness-report-mode expert-distribution-recorder-buffer-size expert-distribution-recorder-mode
experts-shared-outer-loras export-metrics-to-file export-metrics-to-file-dir extra-metric-labels fastapi-root-path
flashinfer-a2a-dispatch-type flashinfer-allreduce-fusion-backend flashinfer-autotune-skip-ops
flashinfer-mla-disable-ragged flashinfer-mxfp4-moe-precision flexkv-config-file forward-hooks
forward-pass-metrics-ipc-name forward-pass-metrics-worker-id fp4-gemm-backend fuseep-mode gated-launch-port
gc-threshold gc-warning-threshold-secs generation-tokens-buckets grpc-http-sidecar-port grpc-mode grpc-port
grpc-response-timeout-secs hf-chat-template-name hicache-host-memory-fraction hicache-host-memory-mode
hicache-io-backend hicache-mem-layout hicache-storage-backend-extra-config
hicache-storage-prefetch-policy hicache-storage-prefetch-retry-max-attempts
hicache-storage-prefetch-retry-poll-interval hierarchical-sparse-attention-extra-config hisparse-config
http2-initial-connection-window-size http2-max-concurrent-streams image-processor-backend incremental-streaming-output
int8-mamba-ckpt-size kt-cpuinfer kt-max-deferred-experts-per-token kt-method kt-threadpool-count kv-canary
kv-canary-real-data kv-canary-sweep-interval kv-events-config limit-mm-data-per-request linear-attn-backend
linear-attn-decode-backend linear-attn-prefill-backend linear-attn-verify-backend linear-replayssm-cache-len
lmcache-config-file load-publish-endpoint load-snapshot-publish-interval log-requests-format log-requests-target
lora-drain-wait-threshold lora-eviction-policy lora-strict-loading lora-use-virtual-experts mamba-backend
mamba-cache-philox-rounds mamba-full-memory-ratio mamba-max-states-per-path mamba-radix-cache-strategy
mamba-track-interval max-ep-size max-loaded-loras max-lora-chunk-size max-mamba-cache-size media-url-max-file-size-mb
min-free-slots-delay mlx-enable-sampling mm-attention-backend mm-enable-dp-encoder mm-feature-transport
mm-global-cache-backend mm-io-worker-num mm-preprocess-cache-size-mb mm-process-config mm-processor-worker-num
model-checksum model-config-parser model-loader-extra-config modelexpress-config modelopt-checkpoint-restore-path
modelopt-checkpoint-save-path modelopt-export-path monokernel-backend mooncake-ib-device msprobe-dump-config
nccl-init-addr num-reserved-decode-tokens numa-node optimistic-prefill-attempts otlp-service-name otlp-traces-endpoint
pdmux-config-path ple-offload-backend ple-offload-dir pp-async-batch-depth pre-warm-nccl prefill-decode-interval
prefill-decode-interval-min-bs prefill-delayer-forward-passes-buckets prefill-delayer-max-delay-ms
prefill-delayer-max-delay-passes prefill-delayer-queue-min-ratio prefill-delayer-token-usage-low-watermark
prefill-delayer-wait-seconds-buckets prefill-kv-cache-dequant-dtype prefill-only-disable-kv-cache
priority-scheduling-preemption-threshold prompt-tokens-buckets qsa-indexer-dtype radix-cache-backend
radix-eviction-policy-config remote-instance-weight-loader-backend remote-instance-weight-loader-seed-instance-ip
remote-instance-weight-loader-seed-instance-service-port remote-instance-weight-loader-send-weights-group-ports
remote-instance-weight-loader-start-seed-via-transfer-engine retraction-policy return-aux-hidden-state-layer-ids
return-hidden-states-mode return-input-ids return-output-ids rl-on-policy-target sampling-defaults
sampling-mask-max-tokens schedule-low-priority-values-first scheduler-recv-interval sidecar sidecar-args sm-group-num
smg-grpc-mode smg-http-sidecar-port soft-watchdog-timeout spec-trace-dir speculative-accept-threshold-acc
speculative-accept-threshold-single speculative-adaptive speculative-adaptive-config speculative-dflash-block-size
speculative-domino-candidate-pool-size speculative-draft-attention-backend speculative-draft-kv-cache-dtype
speculative-draft-load-format speculative-draft-model speculative-draft-model-quantization
speculative-draft-model-revision speculative-draft-sink-size speculative-draft-window-size
speculative-dsa-topk-backend speculative-dspark-align-verify-tokens-to-graph-tier speculative-dspark-block-size
speculative-dspark-confidence-sts-path speculative-dspark-sps-table-path speculative-enable-w4a4-mxfp4-megamoe
speculative-moe-a2a-backend speculative-moe-runner-backend speculative-ngram-capacity
speculative-ngram-external-corpus-max-tokens speculative-ngram-external-corpus-path
speculative-ngram-external-sam-budget speculative-ngram-match-type speculative-ngram-max-bfs-breadth
speculative-ngram-max-trie-depth speculative-ngram-min-bfs-breadth speculative-token-map
speculative-use-block-verification speculative-use-rejection-sampling ssl-ca-certs ssl-certfile ssl-keyfile
ssl-keyfile-password startup-weight-load-mode stream-response-default-include-usage strip-thinking-cache
swa-prefix-tails tbo-token-distribution-threshold tokenizer-backend tokenizer-metrics-allowed-custom-labels
tokenizer-metrics-custom-labels-header tool-server trace-modules triton-attention-reduce-in-fp32
triton-attention-split-tile-size trust-mm-content-hashes trust-request-chat-template
unified-cache-external-linker-backend unified-cache-external-linker-config uno-lora-path use-ray
uvicorn-access-log-exclude-prefixes watermark-config weight-cache-mode weight-cache-socket weight-cache-timeout
weight-loader-drop-cache-after-load weight-loader-prefetch-checkpoints weight-loader-prefetch-num-threads
weight-version
"""

TABLE = option_table(
    quiet(_WITHOUT_COST),
    option("model-path", "model", "word", when="never"),
    part("tp-size", "plan.tp", "count", 1),
    option("pp-size", "plan.pp", "count", 1, when="where it counts"),
    part("dp-size", "plan.replicas", "count", 1),
    part("attn-dp-size", "plan.dp_attention", "count", 1),
    part("enable-dp-attention", "plan.dp_attention", "flag", False),
    option("dcp-size", "plan.dcp", "count", 1, when="where it counts"),
    part("ep-size", "plan.ep", "count", 1),
    part("moe-a2a-backend", "plan.ep", "word", "none"),
    option("enable-two-batch-overlap", "stack.dispatch.two_batches", switch(True), False),
    lost("approximated", "experts are moved while it runs", "enable-eplb"),
    part("kt-gpu-experts-ratio", "plan.host_experts", "figure"),
    part("kt-num-gpu-experts", "plan.host_experts", "count"),
    quiet("kt-weight-path"),
    part("ep-num-redundant-experts", "plan.redundant_experts", "count", 0),
    option("context-length", "workload.context", "count"),
    part("chunked-prefill-size", "stack.budget", "whole"),
    part("max-running-requests", "stack.sequences", "count"),
    option("mem-fraction-static", "stack.memory.share", "share"),
    option("page-size", "stack.block", "count"),
    part("dtype", "workload.precision", "word"),
    part("quantization", "workload.precision workload.weights", "word"),
    part("kv-cache-dtype", "workload.cache", "word"),
    part("speculative-algorithm", _DRAFT, "word"),
    part("speculative-draft-model-path", _DRAFT, "word"),
    part("speculative-num-steps", _DRAFT, "count"),
    part("speculative-eagle-topk", _DRAFT, "count"),
    part("speculative-num-draft-tokens", _DRAFT, "count"),
    part("enable-hierarchical-cache", _HOST, "flag", False),
    part("hicache-size", _HOST, "figure"),
    part("hicache-ratio", _HOST, "figure", 2.0),
    part("hicache-write-policy", _HOST, "word", "write_through"),
    part("enable-lora", _ADAPTERS, "flag", False),
    part("max-loras-per-batch", _ADAPTERS, "count", 8),
    part("max-lora-rank", _ADAPTERS, "count"),
    quiet("lora-target-modules"),
    option("disable-radix-cache", "stack.prefix_cache", switch(False), False),
    option("disable-cuda-graph", "stack.graphs", switch(False), False),
    option("disable-custom-all-reduce", "stack.kernels.own_all_reduce", switch("0 B"), False),
    lost("not expressible", "degrees that no plan states",
         "attention-context-parallel-size moe-data-parallel-size shared-experts-tp-size enable-prefill-cp"),
    lost("not expressible", "weights, experts or the cache partly on the host",
         "offload-mode offload-group-size offload-num-in-group offload-prefetch-step "
         "enable-hicache enable-lmcache enable-flexkv "
         "enable-paged-experts paged-experts-num-resident ple-offload-embedding"),
    lost("not expressible", "weights in another type",
         "modelopt-quant quantize-and-serve rl-quant-profile enable-w4a4-mxfp4-megamoe"),
    lost("not expressible", "steps are filled another way",
         "prefill-max-requests enable-prefill-delayer enable-pdmux pp-max-micro-batch-size "
         "enable-mis"),
    lost("not expressible", "a part of the model alone", "encoder-only language-only language-model-only"),
    lost("not expressible", "tokens of a block are proposed together", "dllm-algorithm"),
    option("enable-ep-moe", "plan.ep", "flag", False, old="ep-size"),
    option("enable-deepep-moe", "plan.ep", "flag", False, old="moe-a2a-backend deepep"),
    lost("not expressible", "prompts and answers are computed apart", "disaggregation-mode", "null"),
    lost("approximated", "another exchange between the ranks of dcp",
         "dcp-comm-backend dcp-replicate-q-proj", "ag_rs"),
    lost("not expressible", "the prompt itself is cut", "attn-cp-size", 1),
    lost("not expressible", "experts are cut another way", "moe-dp-size dwdp-size", 1),
    lost("not expressible", "weights or the cache partly on the host",
         "cpu-offload-gb", 0),
    lost("not expressible", "a store behind the host keeps the cache too", "hicache-storage-backend"),
    lost("not expressible", "the pool is of a stated size", "max-total-tokens"),
    lost("not expressible", "the model's configuration is changed", "json-model-override-args", "{}"),
    lost("approximated", "experts of one batch hide its own communication", "enable-single-batch-overlap"),
    lost("approximated", "how much of prompts a step takes at most", "max-prefill-tokens enable-mixed-chunk"),
    lost("approximated", "steps are not scheduled ahead", "disable-overlap-schedule"),
    lost("approximated", "kernels are compiled or captured another way", "enable-torch-compile cuda-graph-max-bs "
         "cuda-graph-bs cuda-graph-max-bs-decode cuda-graph-bs-decode disable-cuda-graph-padding "
         "torch-compile-max-bs "
         "cuda-graph-backend-decode cuda-graph-backend-prefill"),
    lost("approximated", "dense layers or the head are cut another way", "moe-dense-tp-size enable-dp-lm-head"),
    quiet("host port tokenizer-path tokenizer-mode trust-remote-code revision load-format download-dir device "
          "served-model-name chat-template api-key log-level log-level-http log-requests log-requests-level "
          "enable-metrics show-time-cost decode-log-interval nnodes node-rank dist-init-addr dist-timeout nccl-port "
          "base-gpu-id gpu-id-step random-seed stream-interval watchdog-timeout schedule-policy "
          "schedule-conservativeness load-balance-method attention-backend prefill-attention-backend "
          "decode-attention-backend sampling-backend grammar-backend moe-runner-backend deepep-mode deepep-config "
          "tool-call-parser reasoning-parser skip-server-warmup warmups skip-tokenizer-init is-embedding "
          "enable-multimodal enable-cache-report enable-p2p-check enable-nccl-nvls enable-mscclpp enable-symm-mem "
          "lora-paths lora-backend "
          "speculative-attention-mode "
          "disaggregation-transfer-backend disaggregation-bootstrap-port disaggregation-ib-device "
          "constrained-json-whitespace-pattern "
          "num-continuous-decode-steps sleep-on-idle tokenizer-worker-num model-impl enable-memory-saver "
          "disable-shared-experts-fusion enable-flashinfer-allreduce-fusion fp8-gemm-backend "
          "init-expert-location eplb-algorithm ep-dispatch-algorithm triton-attention-num-kv-splits "
          "quantization-param-path weight-loader-disable-mmap max-queued-requests preferred-sampling-params "
          "file-storage-path completion-template config mamba-ssm-dtype swa-full-tokens-ratio radix-eviction-policy"),
    [option(name, old=today) for name, today in {
        "enable-flashinfer": "--attention-backend flashinfer", "disable-mla": "nothing",
        "enable-flashinfer-mla": "--attention-backend flashinfer", "disable-outlines-disk-cache": "nothing",
        "enable-flashmla": "--attention-backend flashmla", "enable-overlap-schedule": "nothing",
        "disable-flashinfer": "--attention-backend triton", "stream-output": "--incremental-streaming-output",
    }.items()],
)  # fmt: skip


def read_sglang(tree: Any, file: str) -> Layer:
    """The facts that an SGLang command states; attention groups divide its tensor-parallel ranks."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = layer_of_rows(keys, TITLE)
    layer.facts["stack"] = keys.derived("sglang", "the program", next(iter(keys.stated), ""))
    _divide_by_groups(keys, layer, _fill_degrees(keys, layer))
    _fill_draft(keys, layer)
    fill_copies(keys, layer, "ep-num-redundant-experts", keys["ep-num-redundant-experts"].value)
    _fill_host_cache(keys, layer)
    _fill_host_experts(keys, layer)
    with_adapters = bool(keys["enable-lora"].value) or keys.given("lora-paths")
    fill_adapters(keys, layer, "max-loras-per-batch", on=with_adapters)
    fill_types(keys, layer, "dtype", "quantization", "kv-cache-dtype")
    return finished_layer(keys, layer)


def _fill_degrees(keys: ForeignKeys, layer: Layer) -> int:
    """Fills the degrees of the plan; returns the number of data-parallel attention groups."""
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
    if (copies.value or 1) > 1:
        layer.facts["plan.replicas"] = copies
    exchange = keys["moe-a2a-backend"]
    everywhere = exchange.value in _ALL_TO_ALL or keys["enable-deepep-moe"].value or keys["enable-ep-moe"].value
    experts = keys["ep-size"]
    if everywhere and (experts.value or 1) == 1:
        experts = keys.derived(ranks.value, "as many as tp-size, of the exchange", "moe-a2a-backend")
    layer.facts["plan.ep"] = experts
    return groups


def _divide_by_groups(keys: ForeignKeys, layer: Layer, groups: int) -> None:
    """Fills sizes that SGLang states for all attention groups together, divided by their number."""
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


def _fill_draft(keys: ForeignKeys, layer: Layer) -> None:
    """Fills speculative decoding with a chain or a tree of draft tokens.

    EAGLE without a separate draft model, or with the model itself, means the model's own prediction layer (also:
    NEXTN).
    """
    name = "speculative-algorithm"
    method, steps = keys[name].value, keys["speculative-num-steps"].value
    if method is None:
        return
    drafted = keys["speculative-num-draft-tokens"].value
    if steps is None and drafted is not None:
        steps = drafted - 1 if draft_kind(str(method)) != "ngram" else drafted
    wide, depth = keys["speculative-eagle-topk"].value or 1, keys["speculative-num-steps"].value
    if wide > 1:
        if drafted is None or depth is None or depth >= drafted:
            sentence = "a tree of drafts states its steps and its tokens, which are more than the steps"
            keys.refuse("X005", sentence, "speculative-eagle-topk")
            return
        steps = drafted - 1
        layer.facts[f"{_DRAFT}.depth"] = keys["speculative-num-steps"]
        layer.facts[f"{_DRAFT}.width"] = keys["speculative-eagle-topk"]
    own = keys["speculative-draft-model-path"].value in (None, keys["model-path"].value)
    fill_draft(keys, layer, name, str(method), steps, "mtp" if str(method).upper() == "EAGLE" and own else "")


def _fill_host_cache(keys: ForeignKeys, layer: Layer) -> None:
    """Fills the host cache: GB per rank, or a multiple of the device's pool; only if it is switched on."""
    if not keys["enable-hierarchical-cache"].value:
        return
    policy = keys["hicache-write-policy"].value
    if policy not in _THROUGH:
        keys.lose("approximated", f"{policy}: what leaves the device is written to the host", "hicache-write-policy")
    size, ratio = keys["hicache-size"].value, keys["hicache-ratio"]
    if size:
        fill_size(keys, layer, "hicache-size", float(size) * GB, "hicache-size, of each rank")
    elif ratio.value > 0:
        layer.facts[RATIO] = ratio
    else:
        sentence = f"hicache-ratio is {ratio.value:g} and no hicache-size is stated"
        keys.refuse("X005", sentence, "hicache-ratio")


def _fill_host_experts(keys: ForeignKeys, layer: Layer) -> None:
    """Fills the share of experts in host memory, or the number of experts per layer on the devices."""
    ratio, count = keys["kt-gpu-experts-ratio"], keys["kt-num-gpu-experts"]
    if keys.given("kt-gpu-experts-ratio"):
        share = 1.0 - float(ratio.value)
        if not 0 <= share <= 1:
            keys.refuse("X005", f"kt-gpu-experts-ratio is {ratio.value:g}", "kt-gpu-experts-ratio")
        layer.facts["plan.host_experts"] = keys.derived(share, "1 − kt-gpu-experts-ratio", "kt-gpu-experts-ratio")
    elif keys.given("kt-num-gpu-experts"):
        layer.facts["device_experts"] = count


def write_sglang(job: ServingJob, remarks: Remarks) -> str:
    """The command, the expected log line and the benchmark; tp-size covers all attention groups."""
    groups = job.count("dp_attention")
    beside: dict[str, Any] = {
        "tp-size": job.count("tp") * groups,
        "chunked-prefill-size": job.budget * groups,
        "max-running-requests": job.sequences * groups,
        "dtype": PRODUCTS.write(job.half),
    }
    if groups > 1:
        beside |= {"dp-size": groups, "enable-dp-attention": True}
    if job.count("ep") > 1:
        beside["ep-size"] = job.count("ep")
    if job.dispatched:
        beside["moe-a2a-backend"] = "deepep"
    if job.plan.host_experts:
        remarks.note("name the experts for the host's processors: --kt-weight-path … --kt-method …")
        beside["kt-gpu-experts-ratio"] = f"{1 - job.plan.host_experts:.10g}"
    if job.copies:
        beside |= {"enable-eplb": True, "ep-num-redundant-experts": job.copies}
    if method := check_types(job, remarks, METHODS):
        beside["quantization"] = method
    if check_cache(job, remarks):
        beside["kv-cache-dtype"] = "fp8_e4m3"
    beside |= _written_draft(job, remarks) | _written_host_cache(job, remarks)
    if (stated := job.workload.adapters) is not None:  # every linear map is a target, as costmodel counts them
        count = round(stated.count)
        remarks.note(f"name the {count} adapters: --lora-paths NAME=PATH …")
        beside |= {"enable-lora": True, "max-loras-per-batch": count, "max-lora-rank": round(stated.rank)}
        beside["lora-target-modules"] = "all"
    options = command_words(written(TABLE, job, remarks.refuse, beside))
    words = ["python3 -m sglang.launch_server", f"--model-path {job.checkpoint}", *options]
    client = "python3 -m sglang.bench_serving --backend sglang"
    asked = benchmark_words(job, remarks, client, f"--model {job.checkpoint}", of_sglang=True)
    held = f"expect in its log: max_total_num_tokens near {job.pool:.0f} {pool_error_words(job)}"
    return wrapped_command(words) + benchmark_comments(job, [held], asked)


def _written_draft(job: ServingJob, remarks: Remarks) -> dict[str, Any]:
    """Options for a chain or tree of draft tokens; the token that the model itself adds is included."""
    draft, stated = named_draft(job, remarks, _DRAFTS, trees=True), job.plan.speculation
    if draft is None or stated is None:
        return {}
    method, tokens = draft
    if method == "NGRAM":
        return {"speculative-algorithm": method, "speculative-num-draft-tokens": tokens}
    levels, wide = round(stated.levels), round(stated.width)
    chain = {"speculative-num-steps": levels, "speculative-eagle-topk": wide}
    chain["speculative-num-draft-tokens"] = tokens + 1
    return {"speculative-algorithm": method, **chain}


def _written_host_cache(job: ServingJob, remarks: Remarks) -> dict[str, Any]:
    """Options for the host cache: the switch, and its size in whole GB or its ratio."""
    stated = job.engine.host_cache
    if stated is None or not stated.kept:
        return {}
    if stated.size is None:
        return {"enable-hierarchical-cache": True, "hicache-ratio": f"{stated.ratio:g}"}
    if stated.size % GB:
        least = int(stated.size // GB)
        hint = f"--set {_HOST}.size='{least} GB', or '{least + 1} GB'"
        remarks.refuse(_HOST, "--hicache-size takes whole GB of each rank", hint)
    return {"enable-hierarchical-cache": True, "hicache-size": round(stated.size / GB)}


FORMAT = EngineFormat(
    name="sglang",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    elsewhere=BESIDE,
    cannot={
        "stack.executor": "it starts its processes itself",
        "stack.chunked": "a budget of steps cuts prompts; without one it is the whole prompt",
        **UNWRITTEN,
    },
    kind="Command",
    mark="--",
    stack="sglang",
    write=write_sglang,
)
