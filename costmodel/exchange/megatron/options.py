"""The table of Megatron-LM's options: those that state keys of a scenario, and those with or without another cost.

Names and defaults are those of megatron/training/arguments.py and of the configuration classes behind it, at VERSION.
The rows stand in the order in which a script states them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costmodel.exchange.option_rows import (
    ValueKind,
    choice,
    lost,
    one_of,
    option,
    option_table,
    part,
    quiet,
    renamed_before_2023,
    switch,
)
from costmodel.exchange.values import evaluate_expression

NAME, TITLE, VERSION = "Megatron-LM", "options of Megatron-LM", "Megatron-LM d98e8a64dd (2026-08-22)"

_MOST_LAYERS = 10_000


def several(words: Mapping[str, Any]) -> ValueKind:
    """A kind of value: several words, each with a meaning."""
    return ValueKind("words", "words", str.split, lambda ours: spelling(words, ours), words)


def _pattern(text: str) -> Any:
    """A layer frequency n, or a list with one entry per layer; None if the text is neither."""
    try:
        found = evaluate_expression(text)
    except ValueError:
        return None
    entries = found if isinstance(found, list) else [found]
    sound = 0 < len(entries) <= _MOST_LAYERS and all(isinstance(entry, int) for entry in entries)
    return found if sound and (isinstance(found, list) or found > 0) else None


PATTERN = ValueKind("pattern", "a whole number or a list such as [0]*3+[1]*58", _pattern)
WINDOW = ValueKind("window", "2 whole numbers", str.split)
RAMP = ValueKind("ramp", "3 whole numbers", str.split)
SHARDED = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
EXCHANGES = {"p2p": "p2p", "all_gather": "all-gather", "allgather": "all-gather", "a2a": "a2a"}
MODULES = {
    "core_attn": "attention",
    "layernorm": "norms",
    "mla_up_proj": "mla-up-projection",
    "mlp": "mlp",
    "moe": "moe",
    "moe_act": "moe-activation",
    "shared_experts": "shared-experts",
}
RECIPES = {"delayed": "fp8", "tensorwise": "fp8-cs", "blockwise": "fp8-block", "mxfp8": "mxfp8"}
OPTIMIZERS = {"adam": "adamw", "sgd": "sgd-momentum", "muon": "muon", "dist_muon": "muon", "lion": "lion"}
OVERLAPS = {"overlap-grad-reduce": "dp", "overlap-param-gather": "weights", "tp-comm-overlap": "tp"}
# What counts as a layer where stages are split: the embedding, the loss, or both.
ENDS = ("account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split")
SPLITS = {(True, True): "lighter-ends", (True, False): "lighter-first", (False, True): "lighter-last"}
_OTHER_MODULES = dict.fromkeys(("gdn_norm_out", "gdp_in_proj", "gdp_qkv", "mhc"), "")
_POSITIONS = one_of("learned_absolute", "rope", "yarn", "mrope", "relative", "none")
_MOMENTS = one_of("fp32", "fp16", "bf16", "fp8")
_LAYER = "model.layers"
_ATTENTION, _LATENT, _EXPERTS = f"{_LAYER}.attention", f"{_LAYER}.latent", f"{_LAYER}.experts"


def spelling(words: Mapping[str, object], ours: object) -> str:
    """The first spelling of a costmodel value.

    >>> spelling(EXCHANGES, "all-gather")
    'all_gather'
    """
    return next(name for name, value in words.items() if value == ours)


OF_MODEL = option_table(
    part("num-layers", f"{_LAYER}.count", "count"),
    option("hidden-size", "model.hidden", "count"),
    option("max-position-embeddings", "model.max_sequence", "count"),
    part("position-embedding-type", "model.positions", _POSITIONS, "learned_absolute"),
    option("normalization", "model.norm",
        choice({"LayerNorm": "layernorm", "RMSNorm": "rmsnorm"}), "LayerNorm", cannot="is no norm of Megatron-LM"),
    option("vocab-size", "model.vocab", "count"),
    option("untie-embeddings-and-output-weights", "model.tied", switch(False, True), False),
    part("swiglu", f"{_LAYER}.mlp.gated {_EXPERTS}.gated", "flag"),
    part("disable-bias-linear", f"{_ATTENTION}.biases {_ATTENTION}.output_bias {_LAYER}.mlp.biases", "flag"),
    part("add-qkv-bias", f"{_ATTENTION}.biases", "flag"),
    part("multi-latent-attention", _LATENT, "flag"),
    part("num-attention-heads", f"{_ATTENTION}.heads {_LATENT}.heads", "count"),
    part("group-query-attention", f"{_ATTENTION}.kv_heads", "flag"),
    part("num-query-groups", f"{_ATTENTION}.kv_heads", "count", 1),
    option("kv-channels", f"{_ATTENTION}.head_dim", "count"),
    option("qk-layernorm", f"{_ATTENTION}.qk_norm", "flag"),
    option("attention-output-gate", f"{_ATTENTION}.output_gate", "flag"),
    part("softmax-type", f"{_ATTENTION}.sinks", one_of("vanilla", "off-by-one", "learnable"), "vanilla"),
    option("q-lora-rank", f"{_LATENT}.query_rank", "count"),
    option("kv-lora-rank", f"{_LATENT}.kv_rank", "count", 32),
    option("qk-head-dim", f"{_LATENT}.nope_dim", "count", 128),
    option("qk-pos-emb-head-dim", f"{_LATENT}.rope_dim", "count", 64),
    option("v-head-dim", f"{_LATENT}.value_dim", "count", 128),
    part("window-size", f"{_ATTENTION}.window", WINDOW),
    part("window-attn-skip-freq", f"{_ATTENTION}.window", PATTERN),
    option("ffn-hidden-size", f"{_LAYER}.mlp.ffn_hidden", "count"),
    option("num-experts", f"{_EXPERTS}.count", "count"),
    option("moe-router-topk", f"{_EXPERTS}.top_k", "count", 2),
    option("moe-ffn-hidden-size", f"{_EXPERTS}.ffn_hidden", "count"),
    part("moe-layer-freq", f"{_LAYER}.experts {_LAYER}.leading", PATTERN, "1"),
    part("moe-shared-expert-intermediate-size", f"{_EXPERTS}.shared", "count"),
    option("moe-shared-expert-gate", f"{_EXPERTS}.shared_gate", "flag"),
    quiet("moe-router-score-function"),
    part("moe-router-enable-expert-bias", f"{_EXPERTS}.router_bias", "flag"),
    option("moe-router-num-groups", f"{_EXPERTS}.groups", "count"),
    option("moe-router-group-topk", f"{_EXPERTS}.group_limit", "count"),
    part("mtp-num-layers", "model.prediction", "count"),
    part("encoder-num-layers", f"{_LAYER}.count", "count"),
    part("squared-relu", f"{_LAYER}.mlp.gated {_EXPERTS}.gated", "flag"),
    part("quick-geglu", f"{_LAYER}.mlp.gated {_EXPERTS}.gated", "flag"),
    option("use-rotary-position-embeddings", "model.positions", "flag", old="--position-embedding-type rope"),
    option("no-position-embedding", "", "flag", old="--position-embedding-type"),
    part("padded-vocab-size", "model.vocab", "count"),
    part("no-pad-vocab-size", "model.vocab", "flag"),
    part("disable-pad-vocab-size", "model.vocab", "flag"),
    part("make-vocab-size-divisible-by", "model.vocab", "count", 128),
    part("hybrid-layer-pattern", f"{_LAYER}.state_space", "word"),
    option("hybrid-override-pattern", f"{_LAYER}.state_space", "word", old="--hybrid-layer-pattern"),
    option("mamba-state-dim", f"{_LAYER}.state_space.state", "count", 128, when="never"),
    option("mamba-head-dim", f"{_LAYER}.state_space.head_dim", "count", 64, when="never"),
    option("mamba-num-groups", f"{_LAYER}.state_space.groups", "count", 8, when="never"),
    option("mamba-num-heads", f"{_LAYER}.state_space.heads", "count", when="never"),
)  # fmt: skip
OF_LAYOUT = option_table(
    option("tensor-model-parallel-size", "plan.tp", "count", 1),
    option("pipeline-model-parallel-size", "plan.pp", "count", 1),
    option("context-parallel-size", "plan.cp", "count", 1),
    option("expert-model-parallel-size", "plan.ep", "count", 1, when="with experts"),
    option("expert-tensor-parallel-size", "plan.etp", "count", when="with experts"),
    option("cp-comm-type", "plan.cp_type", several(EXCHANGES | {"a2a+p2p": ""}), ("p2p",), when="where it counts"),
    option("sequence-parallel", "plan.sequence_parallel", "flag", when="where it counts"),
    option("num-virtual-stages-per-pipeline-rank", "plan.vpp", "count", when="where it counts"),
    option("decoder-first-pipeline-num-layers", "plan.first_stage_layers", "count", when="where it counts"),
    option("decoder-last-pipeline-num-layers", "plan.last_stage_layers", "count", when="where it counts"),
    [part(name, "plan.split", "flag") for name in ENDS],
    option("use-tp-pp-dp-mapping", "plan.order",
        switch("tp-cp-pp-dp", "tp-cp-dp-pp"), False, cannot="is no order of Megatron-LM", when="where it counts"),
    part("use-distributed-optimizer", "plan.zero", "flag"),
    part("use-megatron-fsdp", "plan.zero", "flag"),
    part("data-parallel-sharding-strategy", "plan.zero", one_of(*SHARDED), "optim_grads_params"),
    quiet("ckpt-format"),
    option("num-distributed-optimizer-instances", "plan.dp_replicate", "count", 1, when="where it counts"),
    option("recompute-granularity", "plan.recompute", one_of("full", "selective"), when="where it counts"),
    option("recompute-method", "plan.recompute_method", one_of("uniform", "block"), when="where it counts"),
    option("recompute-num-layers", "plan.recompute_layers", "count", when="where it counts"),
    part("recompute-modules", "plan.recompute_modules", several(MODULES | _OTHER_MODULES)),
    part("optimizer-cpu-offload", "plan.offload", "flag"),
    part("cpu-offloading-num-layers", "plan.offload plan.offload_layers", "count"),
    part("world-size", "", "count"),
    part("num-layers-per-virtual-pipeline-stage", "plan.vpp", "count"),
    part("virtual-pipeline-model-parallel-size", "plan.vpp", "count"),
    part("pipeline-model-parallel-layout", "plan.vpp plan.split", "word"),
    part("use-torch-fsdp2", "plan.zero stack", "flag"),
    part("torch-fsdp2-no-reshard-after-forward", "plan.zero", "flag"),
    part("recompute-activations", "plan.recompute", "flag"),
    renamed_before_2023(
        {
            "model-parallel-size": "--tensor-model-parallel-size",
            "batch-size": "--micro-batch-size",
            "checkpoint-activations": "--recompute-granularity and --recompute-method",
            "activations-checkpoint-method": "--recompute-method",
            "activations-checkpoint-num-layers": "--recompute-num-layers",
        }
    ),
    option("moe-layer-recompute", "plan.recompute_modules", "flag", old="--recompute-modules moe"),
    part("fine-grained-activation-offloading", "plan.offload", "flag"),
)  # fmt: skip
OF_WORKLOAD = option_table(
    option("seq-length", "workload.sequence", "count"),
    option("micro-batch-size", "plan.micro_batch", "count"),
    option("global-batch-size", "workload.global_batch", "count"),
    part("train-samples", "workload.tokens", "count"),
    part("bf16", "workload.precision", "flag"),
    part("fp16", "workload.precision", "flag"),
    part("fp8-format", "workload.precision", one_of("e4m3", "hybrid")),
    part("fp8-recipe", "workload.precision", one_of(*RECIPES, "custom"), "delayed"),
    part("fp4-format", "workload.precision", one_of("e2m1")),
    part("fp4-recipe", "workload.precision", one_of("nvfp4", "custom"), "nvfp4"),
    part("accumulate-allreduce-grads-in-fp32", "workload.gradients", "flag"),
    part("grad-reduce-in-bf16", "workload.gradients", "flag"),
    part("optimizer", "workload.optimizer", one_of(*OPTIMIZERS, "soap", "adaptive_muon"), "adam"),
    part("use-precision-aware-optimizer", "workload.optimizer", "flag"),
    part("exp-avg-dtype", "workload.optimizer", _MOMENTS, "fp32"),
    part("exp-avg-sq-dtype", "workload.optimizer", _MOMENTS, "fp32"),
    part("encoder-seq-length", "workload.sequence", "count"),
    part("rampup-batch-size", "", RAMP),
    part("step-batch-size-schedule", "", several({})),
    part("train-iters", "workload.tokens", "count"),
    part("main-grads-dtype", "workload.gradients", one_of("fp32", "bf16"), "fp32"),
)  # fmt: skip
OF_SOFTWARE = option_table(
    part("attention-dropout", "", "figure", "0.1"),
    part("hidden-dropout", "", "figure", "0.1"),
    part("moe-token-dispatcher-type", "assume.experts.deduplicated",
        one_of("allgather", "alltoall", "flex"), "allgather" ),
    part("moe-expert-capacity-factor", "assume.experts.capacity", "figure"),
    part("moe-flex-dispatcher-backend", "", one_of("deepep", "hybridep"), "deepep"),
    part("moe-grouped-gemm", "", "flag"),
    part("moe-permute-fusion", "", "flag"),
    part("moe-router-dtype", "", one_of("fp32", "fp64")),
    part("overlap-grad-reduce", "stack assume.overlap.dp", "flag"),
    part("overlap-param-gather", "stack assume.overlap.weights", "flag"),
    part("tp-comm-overlap", "stack assume.overlap.tp", "flag"),
)  # fmt: skip
_ALL = {**OF_MODEL, **OF_LAYOUT, **OF_WORKLOAD, **OF_SOFTWARE}
READ = {name: row for name, row in _ALL.items() if not row.costs_nothing}

_FUSED = "kernels that others fuse run apart"
_GRAPHS = "CUDA graphs spare the host's time: --set stack.launch.graphs=true if they hold all layers"
_BUCKETS = "the size of buckets is a matter of the stack: buckets"
_DTYPES = "the type of a copy of the weights, or of their gradients on the network: states of a stack"
_LAYERWISE = "the precision of single layers"

_COSTS = option_table(
    lost("not expressible", "weights are kept and gathered in the narrow type: low_precision.primary of a stack",
         "fp8-param-gather fp4-param-gather"),
    lost("not expressible", "how much of dispatch and combine hides: set assume.overlap.ep",
         "overlap-moe-expert-parallel-comm"),
    lost("not expressible", "how much hides behind shared experts: set assume.experts.shared_overlap",
         "moe-shared-expert-overlap"),
    lost("not expressible", "saved activations are spread over tensor-parallel ranks",
         "distribute-saved-activations"),
    lost("not expressible", "weights are sharded beyond tensor parallelism and gathered where they are used",
         "tensor-parallel-num-weight-shards expert-tensor-parallel-num-weight-shards", "1"),
    lost("not expressible", "context parallelism in two levels", "hierarchical-context-parallel-sizes"),
    lost("not expressible", "context parallelism that follows the length of each sequence",
         "hybrid-context-parallel max-seqlen-per-dp-cp-rank"),
    lost("not expressible", _DTYPES,
         "main-params-dtype megatron-fsdp-main-params-dtype megatron-fsdp-main-grads-dtype "
         "megatron-fsdp-grad-comm-dtype", "fp32", "auto"),
    lost("not expressible", "optimizer states are sharded over replicas too", "outer-dp-sharding-strategy",
         "no_shard"),
    lost("not expressible", "optimizer states are sharded over replicas too", "enable-full-sharding-in-hsdp"),
    lost("not expressible", "a part of the optimizer's states stays on the accelerator",
         "optimizer-offload-fraction", "1", "1.0"),
    lost("not expressible", "a part of the activations stays on the accelerator", "activation-offload-fraction",
         "1", "1.0"),
    lost("not expressible", "tokens of a whole rank's experts are bounded, not those of one expert",
         "moe-expert-rank-capacity-factor"),
    lost("not expressible", "activations of experts are stashed in pages", "moe-paged-stash"),
    lost("not expressible", "reinforcement learning: generation beside training", "perform-rl-step"),
    lost("not expressible", "weights that are frozen have no gradients", "freeze-all-layers"),
    lost("not expressible", "distillation: the logits of a teacher are kept or read",
         "logits-save-dir logits-load-dir"),
    lost("not expressible", "layers by another specification in code", "spec", "local"),
    lost("not expressible", "the modules of multi-token prediction share one layer", "mtp-use-repeated-layer"),
    lost("not expressible", "tokens are dispatched in a narrow type", "moe-dispatch-fwd-dtype moe-combine-bwd-dtype",
         "bf16"),
    lost("approximated", "attention in kernels that are not fused: kernels.attention of a stack",
         "attention-backend", "auto", "flash", "fused", "AttnBackend.auto", "AttnBackend.flash",
         "AttnBackend.fused"),
    lost("approximated", "layers of Megatron's own code, not of Transformer Engine", "transformer-impl",
         "transformer_engine"),
    lost("approximated", _GRAPHS, "cuda-graph-impl", "none"),
    lost("approximated", _GRAPHS, "enable-cuda-graph external-cuda-graph optimizer-cuda-graph"),
    lost("approximated", "the residual stream is kept in fp32", "fp32-residual-connection"),
    lost("approximated", _LAYERWISE,
         "first-last-layers-bf16 te-precision-config-file kitchen-config-file kitchen-recipe-number "
         "use-kitchen-attention no-fp8-wgrad disable-fp8-wgrad fp8-output-proj"),
    lost("approximated", "weight gradients are computed later, beside other work",
         "delay-wgrad-compute overlap-dispatch-backward-with-experts-wgrad defer-embedding-wgrad-compute"),
    lost("approximated", "weights are gathered beside the optimizer's step, chunk by chunk",
         "overlap-param-gather-with-optimizer-step"),
    lost("approximated", "memory of gathered weights", "reuse-grad-buf-for-mxfp8-param-ag keep-fp8-transpose-cache "
         "fsdp-double-buffer megatron-fsdp-max-pool-double-buffer use-nccl-ub"),
    lost("approximated", _BUCKETS, "ddp-num-buckets ddp-bucket-size suggested-communication-unit-size"),
    lost("approximated", "weight gradients are computed apart and then added", "no-gradient-accumulation-fusion"),
    lost("approximated", "sends between stages do not hide behind compute", "no-overlap-p2p-communication"),
    lost("approximated", "micro-batches go through the chunks in groups of another size",
         "microbatch-group-size-per-virtual-pipeline-stage"),
    lost("approximated", "the layer of multi-token prediction has a stage of its own", "mtp-standalone"),
    lost("approximated", "kernels that give the same result each time are slower", "deterministic-mode"),
    lost("approximated", _FUSED,
         "no-masked-softmax-fusion no-bias-gelu-fusion no-bias-swiglu-fusion no-bias-dropout-fusion no-rope-fusion "
         "no-persist-layer-norm"),
    lost("approximated", "queries and keys are normalised or clipped, whose time is not modelled",
         "qk-l2-norm qk-clip log-max-attention-logit"),
    lost("approximated", "reductions inside the switches", "use-sharp"),
    lost("approximated", "the loss keeps 16-bit logits and their gradient: --set stack.loss=fused",
         "cross-entropy-fusion-impl", "native"),
    lost("ignored", "the logits that it keeps are the same, but with --cross-entropy-fusion-impl te",
         "cross-entropy-loss-fusion"),
    lost("ignored", "state it as run.checkpoint.steps, for costmodel run", "save-interval"),
    lost("ignored", "of the model, and in no document: add it to what export writes",
         "rotary-base norm-epsilon use-rope-scaling rope-scaling-factor"),
    lost("approximated", "the MLP runs in chunks", "mlp-chunks-for-training"),
    lost("approximated", "sequences are packed or masked, so that attention does less",
         "dataloader-inter-document-masking reset-attention-mask sft"),
)  # fmt: skip

# Options that make a model which no costmodel document can express, with what they do.
REFUSED: dict[str, str] = {
    "moe-latent-size": "experts of a narrower stream",
    "experimental-attention-variant": "attention of another kind",
    "enable-mhc-connections": "several residual streams",
    "heterogeneous-layers-config-path": "layers of different shapes, from a file",
    "heterogeneous-layers-config-encoded-json": "layers of different shapes",
    "decoder-num-layers": "an encoder beside the decoder",
    "decoder-seq-length": "an encoder beside the decoder",
    "mtp-hybrid-override-pattern": "prediction modules of another pattern",
    "biencoder-projection-dim": "two encoders",
    "vision-pretraining": "a model of images",
}

# Training scripts of Megatron-LM whose model is not a decoder of text.
OTHER_MODELS: dict[str, str] = {
    "pretrain_bert.py": "BERT",
    "pretrain_t5.py": "T5, an encoder and a decoder",
    "pretrain_ict.py": "two encoders",
    "pretrain_retro.py": "RETRO, which looks texts up",
    "pretrain_vision_classify.py": "a model of images",
    "pretrain_vision_dino.py": "a model of images",
    "pretrain_vision_inpaint.py": "a model of images",
    "pretrain_vlm.py": "a model of images and text",
}

# Options that change neither time nor memory, or that count only beside others that are read.
_WITHOUT_COST = (
    # checkpoints
    """
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
replication-factor replication-jump save save-activations-interval save-dgrads-interval
save-params-interval save-retain-interval save-tokens-per-expert-interval save-wgrads-interval use-checkpoint-args
use-dist-ckpt use-mp-args-from-checkpoint-args use-persistent-ckpt-worker verify-integrity
    """,
    # data
    """
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
    """,
    # distributed
    """
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
    """,
    # inference
    """
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
    """,
    # layers
    """
activation-func-clamp-value apply-layernorm-1p apply-query-key-layer-scaling apply-residual-connection-post-layernorm
batch-invariant-backend batch-invariant-mode bert-no-binary-head cache-mla-latents calculate-per-token-loss
config-logger-dir cpu-offloading-retain-pinned-cpu-buffers
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
moe-flex-dispatcher-num-sms moe-hybridep-num-blocks-permute
moe-hybridep-num-blocks-unpermute moe-hybridep-num-sms moe-hybridep-num-sms-preprocessing
moe-hybridep-pad-uneven-dispatch-inputs moe-input-jitter-eps moe-mlp-glu-interleave-size moe-ncclep-zero-copy
moe-pad-expert-input-to-capacity moe-pad-experts-for-cuda-graph-inference moe-paged-stash-buffer-size-factor-cpu
moe-paged-stash-buffer-size-factor-cuda moe-paged-stash-page-size moe-per-layer-logging
moe-permute-fusion-into-hybridep moe-router-bias-update-rate moe-router-force-biased
moe-router-force-load-balancing moe-router-fusion moe-router-load-balancing-type moe-router-padding-for-fp8
moe-router-padding-for-quantization moe-router-pre-softmax moe-router-quantile-balancing-ema moe-router-score-function
moe-router-topk-scaling-factor moe-shared-expert-glu-interleave-size moe-single-grouped-bias moe-single-grouped-weight
moe-token-drop-policy moe-upcycling-granularity moe-use-grouped-tensor moe-use-upcycling moe-z-loss-coeff
mrope-section mscale mscale-all-dim mtp-detach-heads mtp-hsm mtp-loss-scaling-factor mup-attn-scale-power
mup-base-head-dim mup-base-hidden-size mup-embedding-mult mup-output-mult mup-width-mult nccl-all-reduce-for-prefill
no-clone-scatter-output-in-embedding no-dsa-indexer-rotate-activation no-dsa-indexer-scoring-relu no-initialization
no-rope-freq no-tp-comm-bulk-dgrad no-tp-comm-bulk-wgrad no-tp-comm-overlap-ag no-tp-comm-overlap-rs
no-tp-comm-split-ag no-tp-comm-split-rs no-yarn-correction-range-round-to-int num-layers-at-end-in-bf16
num-layers-at-start-in-bf16 offload-modules onnx-safe openai-gelu overlap-p2p-communication-warmup-flush
pipeline-model-parallel-comm-backend qk-clip-alpha qk-clip-threshold relative-attention-max-distance
relative-attention-num-buckets rotary-interleaved rotary-percent rotary-scaling-factor
rotary-seq-len-interpolation-factor symmetric-ar-type tp-comm-bootstrap-backend tp-comm-overlap-rs-dgrad
use-cpu-initialization use-fused-weighted-squared-relu use-grouped-gemm-for-dense-mlp
use-grouped-gemm-for-shared-expert use-mup use-ring-exchange-p2p use-te-activation-func
use-transformer-engine-op-fuser wgrad-deferral-limit yaml-cfg yarn-beta-fast yarn-beta-slow
yarn-correction-range-round-to-int yarn-original-max-position-embeddings
    """,
    # logs
    """
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
    """,
    # numerics
    """
attention-softmax-in-fp32 fp16-lm-cross-entropy hysteresis initial-loss-scale loss-scale loss-scale-window
mamba-training-ssm-states-dtype min-loss-scale output-logit-dtype
    """,
    # optimization
    """
adam-beta1 adam-beta2 adam-eps apply-wd-to-qk-layernorm clip-grad decoupled-lr decoupled-min-lr end-weight-decay
lion-beta1 lion-beta2 lr lr-decay-iters lr-decay-samples lr-decay-style lr-warmup-fraction lr-warmup-init
lr-warmup-iters lr-warmup-samples lr-wsd-decay-iters lr-wsd-decay-samples lr-wsd-decay-style min-lr
muon-coefficient-type muon-extra-scale-factor muon-fp32-matmul-prec muon-momentum muon-nesterov muon-no-split-qkv
muon-num-ns-steps muon-scalar-optimizer muon-scale-mode muon-tp-mode muon-use-syrk no-weight-decay-cond-type
override-opt-param-scheduler override-opt_param-scheduler sgd-momentum start-weight-decay
use-checkpoint-opt-param-scheduler use-checkpoint-opt_param-scheduler warmup weight-decay weight-decay-incr-style
    """,
    # other models
    """
bert-load biencoder-shared-query-context-model block-data-path classes-fraction data-per-class-fraction
dino-bottleneck-size dino-freeze-last-layer dino-head-hidden-size dino-local-crops-number dino-local-img-size
dino-norm-last-layer dino-teacher-temp dino-warmup-teacher-temp dino-warmup-teacher-temp-epochs embedding-path
evidence-data-path head-lr-mult ict-head-size ict-load img-h img-w indexer-batch-size indexer-log-interval
iter-per-epoch logits-load-decode-threads logits-load-ignore-errors logits-load-kd-loss-alpha
logits-load-msc-prefetch-depth logits-load-prefetch-factor logits-save-dtype logits-save-top-k logits-save-top-p
logits-save-top-p-min-k mask-factor mask-type no-data-sharding num-channels num-classes patch-dim query-in-block-prob
retriever-report-topk-accuracies retriever-score-scaling swin-backbone-type titles-data-path use-one-sent-docs
vision-backbone-type vision-pretraining-type
    """,
    # reinforcement
    """
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
    """,
    # running
    """
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
    """,
    # training
    """
check-for-large-grads check-weight-hash-across-dp-replicas-interval dataloader-type decrease-batch-size-if-needed
disable-manual-gc-eval dump-param-to-param-group-map empty-unused-memory-level eval-global-batch-size eval-interval
eval-iters eval-micro-batch-size exit-duration-in-mins exit-interval exit-signal exit-signal-handler
exit-signal-handler-for-dataloader exit-signal-handler-for-training full-validation gpu-sniff-test-interval
iterations-to-skip manual-gc manual-gc-interval multiple-validation-sets no-check-for-nan-in-loss-and-grad
no-manual-gc-eval no-pin-cpu-grads no-pin-cpu-params overlap-cpu-optimizer-d2h-h2d result-rejected-tracker-filename
rope-type skip-train start-eval-at-iter test-mode tp-comm-overlap-cfg train-sync-interval use-flash-attn
use-mcore-models use-torch-optimizer-for-cpu-offload validation-set-names
    """,
)

TABLE = {
    **option_table(quiet(" ".join(_WITHOUT_COST))),
    **_COSTS,
    **option_table(option(name, loss=("not expressible", what), harmless=("0",)) for name, what in REFUSED.items()),
    **READ,
}
