"""Options of Megatron-LM that change neither time nor memory, or that count only beside others that are read."""

from __future__ import annotations

_CHECKPOINTS = """
async-ckpt-cpu-priority async-ckpt-io-priority async-ckpt-use-cpu-shm async-save async-strategy
auto-detect-ckpt-format ckpt-assume-constant-structure ckpt-convert-format ckpt-convert-save
ckpt-convert-update-legacy-dist-opt-format ckpt-drop-redundant-extra-state ckpt-format ckpt-fully-parallel-load
ckpt-fully-parallel-load-exchange-algo ckpt-fully-parallel-load-per-rank-objects
ckpt-fully-parallel-load-process-group ckpt-fully-parallel-save ckpt-fully-parallel-save-process-group
ckpt-pg-tensors-cache-create ckpt-pg-tensors-cache-path ckpt-step disable-ckpt-load-validate-sharding-integrity
disable-save-tokenizer-assets disable-strict-fsdp-dtensor-load disable-use-tokenizer-model-from-checkpoint-args
dist-ckpt-format dist-ckpt-optim-fully-reshardable dist-ckpt-save-pre-mcore-014 dist-ckpt-strictness dist-ckpt-workers
distrib-optim-fully-reshardable-mem-efficient exit-on-missing-checkpoint finetune load load-main-params-from-ckpt
no-ckpt-fully-parallel-save no-ckpt-load-validate-sharding-integrity no-load-optim no-load-rng no-save-optim
no-save-rng no-save-tokenizer-assets no-strict-fsdp-dtensor-load no-use-tokenizer-model-from-checkpoint-args
non-persistent-ckpt-type non-persistent-global-ckpt-dir non-persistent-local-ckpt-algo non-persistent-local-ckpt-dir
non-persistent-save-interval override-ckpt-iteration persistent-save-interval pretrained-checkpoint replication
replication-factor replication-jump save save-activations-interval save-dgrads-interval save-interval
save-params-interval save-retain-interval save-tokens-per-expert-interval save-wgrads-interval use-checkpoint-args
use-dist-ckpt use-mp-args-from-checkpoint-args use-persistent-ckpt-worker verify-integrity
"""
_DATA = """
allow-ambiguous-pad-tokens chat-template data-args-path data-cache-path data-path dataloader-defer-npy-index-mmap
dataloader-fast-cache-load disable-tokenizer-sentencepiece-ignore-extra-whitespaces eod-mask-loss fim-data
fim-eod-token fim-fragment-rate fim-middle-token fim-no-prefix fim-pad-token fim-prefix-token fim-rate
fim-split-sample fim-spm-rate fim-suffix-token mask-prob merge-file mid-level-dataset-surplus mock-data
no-create-attention-mask-in-dataloader no-mmap-bin-files no-tokenizer-sentencepiece-ignore-extra-whitespaces
null-tokenizer-eod-id null-tokenizer-pad-id num-dataset-builder-threads num-workers object-storage-cache-path
per-dataset-sequences-path per-split-data-args-path phase-transition-iterations reset-position-ids sample-rate
short-seq-prob split test-data-path tiktoken-num-special-tokens tiktoken-pattern
tokenizer-hf-no-include-special-tokens tokenizer-hf-no-use-fast tokenizer-metadata tokenizer-model
tokenizer-sentencepiece-legacy tokenizer-special-tokens tokenizer-type train-data-path trust-remote-code use-gigatoken
valid-data-path vocab-extra-ids vocab-file
"""
_DISTRIBUTED = """
create-all-gather-group ddp-average-in-collective ddp-pad-buckets-for-high-nccl-busbw
ddp-param-name-patterns-for-fp32-local-accumulation ddp-reduce-scatter-with-fp32-accumulation
disable-align-grad-reduce disable-flight-recorder-dump-on-timeout disable-flight-recorder-extra-dump-on-exec
disable-flight-recorder-include-only-active disable-gloo-process-groups disable-jit-fuser
disable-symmetric-registration distributed-backend distributed-timeout-minutes distributed-timeout-seconds-after-init
fake-process-group flight-recorder-dump-path flight-recorder-include-stack-trace flight-recorder-trace-buffer-size
fsdp-manual-registration gtp-expert-remat-nccl-ub gtp-remat-nccl-ub gtp-remat-reduce-scatter-with-fp32-accumulation
high-priority-stream-groups lazy-mpu-init local-rank megatron-fsdp-version nccl-communicator-config-path
no-align-grad-reduce no-align-param-gather no-flight-recorder-dump-on-timeout no-flight-recorder-extra-dump-on-exec
no-flight-recorder-include-only-active no-gradient-reduce-div-fusion no-use-layer-wise-param-layout
sharp-enabled-group
"""
_INFERENCE = """
bert-embedder-type cuda-graph-modules cuda-graph-scope decode-only-cuda-graphs enable-chunked-prefill
inference-batch-times-seqlen-threshold inference-coordinator-port inference-cuda-graph-all-prefills
inference-cuda-graph-max-tokens inference-disable-ep-consensus inference-dynamic-batching
inference-dynamic-batching-async-sched-mode inference-dynamic-batching-block-size
inference-dynamic-batching-buffer-size-gb inference-dynamic-batching-cuda-graph-mixed-prefill-count
inference-dynamic-batching-cuda-graph-sizing-distribution inference-dynamic-batching-logprobs-mode
inference-dynamic-batching-mamba-memory-ratio inference-dynamic-batching-max-requests
inference-dynamic-batching-max-tokens inference-dynamic-batching-num-cuda-graphs
inference-dynamic-batching-paused-buffer-size-gb inference-dynamic-batching-prefix-caching
inference-dynamic-batching-prefix-caching-coordinator-policy inference-dynamic-batching-prefix-caching-eviction-policy
inference-dynamic-batching-prefix-caching-mamba-gb inference-dynamic-batching-prefix-caching-routing-alpha
inference-dynamic-batching-sampling-backend inference-dynamic-batching-track-generated-token-events
inference-dynamic-batching-track-paused-request-events inference-dynamic-batching-unified-memory-level
inference-logging-step-interval inference-max-requests inference-max-seq-length inference-shards
inference-text-gen-server-logging inference-use-synchronous-zmq-collectives inference-wandb-logging
mamba-inference-conv-states-dtype mamba-inference-ssm-states-dtype max-tokens-to-oom no-inference-disable-ep-consensus
no-inference-dynamic-batching-prefix-caching no-inference-text-gen-server-logging
no-inference-use-synchronous-zmq-collectives no-inference-wandb-logging num-speculative-tokens output-bert-embeddings
use-legacy-static-engine use-same-sampling-seed-across-dp-ranks
"""
_LAYERS = """
activation-func-clamp-value apply-layernorm-1p apply-query-key-layer-scaling apply-residual-connection-post-layernorm
batch-invariant-backend batch-invariant-mode bert-no-binary-head cache-mla-latents calculate-per-token-loss
config-logger-dir cpu-offloading-retain-pinned-cpu-buffers cross-entropy-fusion-impl cross-entropy-loss-fusion
cuda-graph-warmup-steps delay-offload-until-cuda-graph delta-offload-bytes-across-pp-ranks
disable-bf16-reduced-precision-matmul disable-clone-scatter-output-in-embedding disable-dsa-indexer-rotate-activation
disable-dsa-indexer-scoring-relu disable-mamba-mem-eff-path disable-tp-comm-bulk-dgrad disable-tp-comm-bulk-wgrad
disable-tp-comm-overlap-ag disable-tp-comm-overlap-rs disable-tp-comm-split-ag disable-tp-comm-split-rs
dsa-indexer-head-dim dsa-indexer-k-norm-epsilon dsa-indexer-k-norm-fp32 dsa-indexer-loss-coeff dsa-indexer-n-heads
dsa-indexer-rope-interleaved dsa-indexer-skip-topk-offset dsa-indexer-topk dsa-indexer-topk-freq
dsa-indexer-use-sparse-loss dsa-kernel-backend embedding-init-method-std enable-experimental
ep-overlap-early-attn-memory-release fine-grained-offloading-max-inflight-offloads flash-attention-version
flash-decode fp4-quantizer-factory fp8-amax-compute-algo fp8-amax-history-len fp8-interval fp8-margin
fp8-quantizer-factory fsdp-db-use-persist-buf-on-alloc-fail fused-residual-rmsnorm gdp-cutedsl-kernel
gdp-num-chunk-states-to-recompute gdp-num-householder glu-linear-offset gtp-remat-opt-in-modules
high-priority-a2a-comm-stream inference-cuda-graph-scope inference-disable-triton-nvls-kernels
inference-fuse-tp-communication inference-grouped-gemm-backend inference-moe-disable-fused-quant-kernels
inference-moe-token-dispatcher-type init-method-std init-model-with-meta-device is-hybrid-model
kitchen-attention-backend linear-conv-kernel-dim linear-key-head-dim linear-num-key-heads linear-num-value-heads
linear-value-head-dim megatron-fsdp-enable-fine-grained-param-gather mhc-init-gating-factor mhc-num-residual-streams
mhc-recompute-layer-num mhc-sinkhorn-iterations min-offloaded-tensor-size mla-down-proj-fusion mlp-chunks-for-prefill
moe-apply-probs-on-input moe-aux-loss-coeff moe-deepep-num-sms moe-enable-deepep moe-enable-routing-replay
moe-flex-dispatcher-backend moe-flex-dispatcher-num-sms moe-grouped-gemm moe-hybridep-num-blocks-permute
moe-hybridep-num-blocks-unpermute moe-hybridep-num-sms moe-hybridep-num-sms-preprocessing
moe-hybridep-pad-uneven-dispatch-inputs moe-input-jitter-eps moe-mlp-glu-interleave-size moe-ncclep-zero-copy
moe-pad-expert-input-to-capacity moe-pad-experts-for-cuda-graph-inference moe-paged-stash-buffer-size-factor-cpu
moe-paged-stash-buffer-size-factor-cuda moe-paged-stash-page-size moe-per-layer-logging moe-permute-fusion
moe-permute-fusion-into-hybridep moe-router-bias-update-rate moe-router-dtype moe-router-force-biased
moe-router-force-load-balancing moe-router-fusion moe-router-load-balancing-type moe-router-padding-for-fp8
moe-router-padding-for-quantization moe-router-pre-softmax moe-router-quantile-balancing-ema moe-router-score-function
moe-router-topk-scaling-factor moe-shared-expert-glu-interleave-size moe-single-grouped-bias moe-single-grouped-weight
moe-token-drop-policy moe-upcycling-granularity moe-use-grouped-tensor moe-use-upcycling moe-z-loss-coeff
mrope-section mscale mscale-all-dim mtp-detach-heads mtp-hsm mtp-loss-scaling-factor mup-attn-scale-power
mup-base-head-dim mup-base-hidden-size mup-embedding-mult mup-output-mult mup-width-mult nccl-all-reduce-for-prefill
no-clone-scatter-output-in-embedding no-dsa-indexer-rotate-activation no-dsa-indexer-scoring-relu no-initialization
no-rope-freq no-tp-comm-bulk-dgrad no-tp-comm-bulk-wgrad no-tp-comm-overlap-ag no-tp-comm-overlap-rs
no-tp-comm-split-ag no-tp-comm-split-rs no-yarn-correction-range-round-to-int norm-epsilon num-layers-at-end-in-bf16
num-layers-at-start-in-bf16 offload-modules onnx-safe openai-gelu overlap-p2p-communication-warmup-flush
pipeline-model-parallel-comm-backend qk-clip-alpha qk-clip-threshold relative-attention-max-distance
relative-attention-num-buckets rope-scaling-factor rotary-base rotary-interleaved rotary-percent rotary-scaling-factor
rotary-seq-len-interpolation-factor symmetric-ar-type tp-comm-bootstrap-backend tp-comm-overlap-rs-dgrad
use-cpu-initialization use-fused-weighted-squared-relu use-grouped-gemm-for-dense-mlp
use-grouped-gemm-for-shared-expert use-mup use-ring-exchange-p2p use-rope-scaling use-te-activation-func
use-transformer-engine-op-fuser wgrad-deferral-limit yaml-cfg yarn-beta-fast yarn-beta-slow
yarn-correction-range-round-to-int yarn-original-max-position-embeddings
"""
_LOGS = """
app-tag-run-name app-tag-run-version disable-log-loss-scale-to-tensorboard disable-straggler-on-startup
log-device-memory-used log-energy log-interval log-memory-interval log-memory-to-tensorboard log-num-zeros-in-grad
log-params-norm log-progress log-straggler log-throughput log-timers-to-tensorboard log-validation-ppl-to-tensorboard
log-world-size-to-tensorboard logging-level memory-snapshot-path moe-routing-trace-capture-hidden-states
moe-routing-trace-capture-logits moe-routing-trace-dump-weights moe-routing-trace-max-training-iters
moe-routing-trace-path no-barrier-with-level-1-timing no-log-loss-scale-to-tensorboard no-one-logger nvtx-ranges
one-logger-async one-logger-project one-logger-run-name otel-enabled otel-service-name otel-span-groups profile
profile-ranks profile-step-end profile-step-start pytorch-profiler-collect-callstack pytorch-profiler-collect-chakra
pytorch-profiler-collect-shapes record-memory-history record-shapes straggler-ctrlr-port straggler-minmax-count
tensorboard-dir tensorboard-log-interval tensorboard-queue-size timing-log-level timing-log-option
use-pytorch-profiler wandb-entity wandb-exp-name wandb-project wandb-save-dir
"""
_NUMERICS = """
attention-softmax-in-fp32 fp16-lm-cross-entropy hysteresis initial-loss-scale loss-scale loss-scale-window
mamba-training-ssm-states-dtype min-loss-scale output-logit-dtype
"""
_OPTIMIZATION = """
adam-beta1 adam-beta2 adam-eps apply-wd-to-qk-layernorm clip-grad decoupled-lr decoupled-min-lr end-weight-decay
lion-beta1 lion-beta2 lr lr-decay-iters lr-decay-samples lr-decay-style lr-warmup-fraction lr-warmup-init
lr-warmup-iters lr-warmup-samples lr-wsd-decay-iters lr-wsd-decay-samples lr-wsd-decay-style min-lr
muon-coefficient-type muon-extra-scale-factor muon-fp32-matmul-prec muon-momentum muon-nesterov muon-no-split-qkv
muon-num-ns-steps muon-scalar-optimizer muon-scale-mode muon-tp-mode muon-use-syrk no-weight-decay-cond-type
override-opt-param-scheduler override-opt_param-scheduler sgd-momentum start-weight-decay
use-checkpoint-opt-param-scheduler use-checkpoint-opt_param-scheduler warmup weight-decay weight-decay-incr-style
"""
_OTHER_MODELS = """
bert-load biencoder-shared-query-context-model block-data-path classes-fraction data-per-class-fraction
dino-bottleneck-size dino-freeze-last-layer dino-head-hidden-size dino-local-crops-number dino-local-img-size
dino-norm-last-layer dino-teacher-temp dino-warmup-teacher-temp dino-warmup-teacher-temp-epochs embedding-path
evidence-data-path head-lr-mult ict-head-size ict-load img-h img-w indexer-batch-size indexer-log-interval
iter-per-epoch logits-load-decode-threads logits-load-ignore-errors logits-load-kd-loss-alpha
logits-load-msc-prefetch-depth logits-load-prefetch-factor logits-save-dtype logits-save-top-k logits-save-top-p
logits-save-top-p-min-k mask-factor mask-type no-data-sharding num-channels num-classes patch-dim query-in-block-prob
retriever-report-topk-accuracies retriever-score-scaling swin-backbone-type titles-data-path use-one-sent-docs
vision-backbone-type vision-pretraining-type
"""
_REINFORCEMENT = """
grpo-clamp-eps-lower grpo-clamp-eps-upper grpo-entropy-term-weight grpo-filter-groups-with-same-reward grpo-group-size
grpo-iterations grpo-kl-beta grpo-prompts-per-step langrl-env-config no-rl-inference-logprobs-is-correction
no-rl-offload-inference-model-weights-when-idle no-rl-partial-rollouts no-rl-persist-cuda-graphs no-rl-skip-bos-token
no-rl-training-cuda-graphs no-rl-use-sequence-packing no-rl-verify-model-weights-swap refit-method
rl-consumption-granularity rl-default-temperature rl-default-top-k rl-default-top-p rl-durable-rollout-bank
rl-generation-lag rl-importance-sampling-truncation-coef rl-inference-expert-model-parallel-size
rl-inference-expert-tensor-model-parallel-size rl-inference-logprobs-is-correction
rl-inference-model-unified-memory-level rl-inference-parsers rl-inference-pipeline-model-parallel-size
rl-inference-tensor-model-parallel-size rl-kv-cache-management-mode rl-max-inflight-requests
rl-offload-inference-model-weights-when-idle rl-offload-optimizer-during-inference rl-partial-rollouts
rl-persist-cuda-graphs rl-profile rl-profile-dir rl-prompts-per-eval rl-rollout-bank-dir rl-rollout-bank-max-bytes
rl-sequence-packing-algo rl-sequence-packing-max-sequences-per-bin rl-skip-bos-token rl-submission-granularity
rl-training-cuda-graphs rl-use-sequence-packing rl-verify-model-weights-swap
"""
_RUNNING = """
adlr-autoresume adlr-autoresume-interval calc-ft-timeouts check-for-spiky-loss data-parallel-random-init disable-msc
enable-ft-package enable-msc error-injection-rate error-injection-type fault-injector-delay-start-iteration
fault-injector-fault-delay fault-injector-fault-probabilities fault-injector-fault-types fault-injector-mtti-seconds
fault-injector-num-ranks fault-injector-offset-seconds fault-injector-ranks fault-injector-seed ft-num-warmup-iters
inference-rng-tracker init-method-xavier-uniform inprocess-active-world-size inprocess-barrier-timeout
inprocess-completion-timeout inprocess-empty-cuda-cache inprocess-granularity inprocess-hard-timeout
inprocess-heartbeat-interval inprocess-heartbeat-timeout inprocess-last-call-wait inprocess-max-iterations
inprocess-monitor-process-interval inprocess-monitor-thread-interval inprocess-progress-watchdog-interval
inprocess-restart inprocess-soft-timeout inprocess-termination-grace-time linear-attention-freq rerun-mode
run-workload-inspector-server seed sft-tokenizer-prompt-format te-rng-tracker
"""
_TRAINING = """
check-for-large-grads check-weight-hash-across-dp-replicas-interval dataloader-type decrease-batch-size-if-needed
disable-manual-gc-eval dump-param-to-param-group-map empty-unused-memory-level eval-global-batch-size eval-interval
eval-iters eval-micro-batch-size exit-duration-in-mins exit-interval exit-signal exit-signal-handler
exit-signal-handler-for-dataloader exit-signal-handler-for-training full-validation gpu-sniff-test-interval
iterations-to-skip manual-gc manual-gc-interval multiple-validation-sets no-check-for-nan-in-loss-and-grad
no-manual-gc-eval no-pin-cpu-grads no-pin-cpu-params overlap-cpu-optimizer-d2h-h2d result-rejected-tracker-filename
rope-type skip-train start-eval-at-iter test-mode tp-comm-overlap-cfg train-sync-interval use-flash-attn
use-mcore-models use-torch-optimizer-for-cpu-offload validation-set-names
"""

_ALL = (
    _CHECKPOINTS,
    _DATA,
    _DISTRIBUTED,
    _INFERENCE,
    _LAYERS,
    _LOGS,
    _NUMERICS,
    _OPTIMIZATION,
    _OTHER_MODELS,
    _REINFORCEMENT,
    _RUNNING,
    _TRAINING,
)
WITHOUT_COST = frozenset(" ".join(_ALL).split())
