"""Options of serving engines that cost nothing here: interfaces, logging, loading, and kernels that the engine chooses.

They are the names that the parsers of vLLM 0.33.0 and SGLang 0.5.23 have beside those of the tables.
"""

from __future__ import annotations

OF_VLLM = """
aggregate-engine-logging allow-credentials allow-deprecated-quantization allowed-headers allowed-media-domains
allowed-methods anthropic-disabled-thinking-effort aux-output-config chat-template-content-format cohere-format
cohere-is-reasoning-model cp-kv-cache-interleave-size cpu-distributed-timeout-seconds cudagraph-metrics
custom-histogram-buckets data-parallel-multi-port-external-lb data-parallel-supervisor-port dbo-decode-token-threshold
dbo-prefill-token-threshold dcp-comm-backend dcp-kv-cache-interleave-size dcp-q-replicate default-chat-template-kwargs
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
OF_SGLANG = """
abort-on-priority-when-disabled admin-api-key allow-auto-truncate allowed-media-domains asr-max-buffer-seconds
asr-max-concurrent-sessions batch-notify-size bf16-gemm-backend boundary-reduction bucket-e2e-request-latency
bucket-inter-token-latency bucket-time-to-first-token c128-page-size checkpoint-engine-wait-weights-before-ready
constrained-json-disable-any-whitespace constrained-json-max-whitespace-cnt context-bucket cp-strategy
crash-dump-folder cuda-graph-bs-prefill cuda-graph-config cuda-graph-max-bs-prefill cuda-graph-max-seq-len-prefill
cuda-graph-prefill-max-context custom-weight-loader dcp-comm-backend dcp-replicate-q-proj debug-cuda-graph
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
hicache-io-backend hicache-mem-layout hicache-storage-backend hicache-storage-backend-extra-config
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
