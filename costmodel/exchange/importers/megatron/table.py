"""Options of Megatron-LM that map to keys of a scenario: kind, default, and the costmodel keys they fill.

Names and defaults are those of megatron/training/arguments.py and of the configuration classes behind it, at VERSION.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

VERSION = "Megatron-LM d98e8a64dd (2026-08-22)"

Kind = Literal["flag", "count", "figure", "word", "words", "pattern", "window", "ramp"]


class MegatronOption(NamedTuple):
    """One option.

    fills: costmodel keys, as paths between blanks. default: the value where it is left out; a flag is off.
    old: what states it today, for an option that Megatron-LM has no more, or calls old.
    """

    kind: Kind
    fills: str = ""
    default: Any = None
    choices: tuple[str, ...] = ()
    old: str = ""


_LAYER = "model.layers"
_ATTENTION = "model.layers.attention"
_LATENT = "model.layers.latent"
_EXPERTS = "model.layers.experts"

_MODEL = {
    "num-layers": MegatronOption("count", f"{_LAYER}.count"),
    "encoder-num-layers": MegatronOption("count", f"{_LAYER}.count"),
    "hidden-size": MegatronOption("count", "model.hidden"),
    "ffn-hidden-size": MegatronOption("count", f"{_LAYER}.mlp.ffn_hidden"),
    "num-attention-heads": MegatronOption("count", f"{_ATTENTION}.heads {_LATENT}.heads"),
    "kv-channels": MegatronOption("count", f"{_ATTENTION}.head_dim"),
    "group-query-attention": MegatronOption("flag", f"{_ATTENTION}.kv_heads"),
    "num-query-groups": MegatronOption("count", f"{_ATTENTION}.kv_heads", 1),
    "multi-latent-attention": MegatronOption("flag", _LATENT),
    "q-lora-rank": MegatronOption("count", f"{_LATENT}.query_rank"),
    "kv-lora-rank": MegatronOption("count", f"{_LATENT}.kv_rank", 32),
    "qk-head-dim": MegatronOption("count", f"{_LATENT}.nope_dim", 128),
    "qk-pos-emb-head-dim": MegatronOption("count", f"{_LATENT}.rope_dim", 64),
    "v-head-dim": MegatronOption("count", f"{_LATENT}.value_dim", 128),
    "qk-layernorm": MegatronOption("flag", f"{_ATTENTION}.qk_norm"),
    "softmax-type": MegatronOption("word", f"{_ATTENTION}.sinks", "vanilla", ("vanilla", "off-by-one", "learnable")),
    "window-size": MegatronOption("window", f"{_ATTENTION}.window"),
    "window-attn-skip-freq": MegatronOption("pattern", f"{_ATTENTION}.window"),
    "disable-bias-linear": MegatronOption("flag", f"{_ATTENTION}.biases {_ATTENTION}.output_bias {_LAYER}.mlp.biases"),
    "add-qkv-bias": MegatronOption("flag", f"{_ATTENTION}.biases"),
    "swiglu": MegatronOption("flag", f"{_LAYER}.mlp.gated {_EXPERTS}.gated"),
    "squared-relu": MegatronOption("flag", f"{_LAYER}.mlp.gated {_EXPERTS}.gated"),
    "quick-geglu": MegatronOption("flag", f"{_LAYER}.mlp.gated {_EXPERTS}.gated"),
    "normalization": MegatronOption("word", "model.norm", "LayerNorm", ("LayerNorm", "RMSNorm")),
    "position-embedding-type": MegatronOption(
        "word", "model.positions", "learned_absolute", ("learned_absolute", "rope", "yarn", "mrope", "relative", "none")
    ),
    "use-rotary-position-embeddings": MegatronOption("flag", "model.positions", old="--position-embedding-type rope"),
    "no-position-embedding": MegatronOption("flag", old="--position-embedding-type"),
    "max-position-embeddings": MegatronOption("count", "model.max_sequence"),
    "untie-embeddings-and-output-weights": MegatronOption("flag", "model.tied"),
    "vocab-size": MegatronOption("count", "model.vocab"),
    "padded-vocab-size": MegatronOption("count", "model.vocab"),
    "no-pad-vocab-size": MegatronOption("flag", "model.vocab"),
    "disable-pad-vocab-size": MegatronOption("flag", "model.vocab"),
    "make-vocab-size-divisible-by": MegatronOption("count", "model.vocab", 128),
    "num-experts": MegatronOption("count", f"{_EXPERTS}.count"),
    "moe-router-topk": MegatronOption("count", f"{_EXPERTS}.top_k", 2),
    "moe-ffn-hidden-size": MegatronOption("count", f"{_EXPERTS}.ffn_hidden"),
    "moe-shared-expert-intermediate-size": MegatronOption("count", f"{_EXPERTS}.shared"),
    "moe-shared-expert-gate": MegatronOption("flag", f"{_EXPERTS}.shared_gate"),
    "moe-layer-freq": MegatronOption("pattern", f"{_LAYER}.experts {_LAYER}.leading", "1"),
    "moe-router-num-groups": MegatronOption("count", f"{_EXPERTS}.groups"),
    "moe-router-group-topk": MegatronOption("count", f"{_EXPERTS}.group_limit"),
    "moe-router-enable-expert-bias": MegatronOption("flag", f"{_EXPERTS}.router_bias"),
    "mtp-num-layers": MegatronOption("count", "model.prediction"),
    "hybrid-layer-pattern": MegatronOption("word", f"{_LAYER}.state_space"),
    "hybrid-override-pattern": MegatronOption("word", f"{_LAYER}.state_space", old="--hybrid-layer-pattern"),
    "mamba-state-dim": MegatronOption("count", f"{_LAYER}.state_space.state", 128),
    "mamba-head-dim": MegatronOption("count", f"{_LAYER}.state_space.head_dim", 64),
    "mamba-num-groups": MegatronOption("count", f"{_LAYER}.state_space.groups", 8),
    "mamba-num-heads": MegatronOption("count", f"{_LAYER}.state_space.heads"),
}

_MODULES = ("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts")
_MORE_MODULES = ("gdn_norm_out", "gdp_in_proj", "gdp_qkv", "mhc")
_STRATEGIES = ("no_shard", "optim", "optim_grads", "optim_grads_params")

_PLAN = {
    "tensor-model-parallel-size": MegatronOption("count", "plan.tp", 1),
    "model-parallel-size": MegatronOption("count", "plan.tp", old="--tensor-model-parallel-size"),
    "pipeline-model-parallel-size": MegatronOption("count", "plan.pp", 1),
    "context-parallel-size": MegatronOption("count", "plan.cp", 1),
    "expert-model-parallel-size": MegatronOption("count", "plan.ep", 1),
    "expert-tensor-parallel-size": MegatronOption("count", "plan.etp"),
    "world-size": MegatronOption("count"),
    "num-layers-per-virtual-pipeline-stage": MegatronOption("count", "plan.vpp plan.schedule"),
    "num-virtual-stages-per-pipeline-rank": MegatronOption("count", "plan.vpp plan.schedule"),
    "virtual-pipeline-model-parallel-size": MegatronOption("count", "plan.vpp plan.schedule"),
    "pipeline-model-parallel-layout": MegatronOption("word", "plan.vpp plan.split"),
    "decoder-first-pipeline-num-layers": MegatronOption("count", "plan.first_stage_layers"),
    "decoder-last-pipeline-num-layers": MegatronOption("count", "plan.last_stage_layers"),
    "account-for-embedding-in-pipeline-split": MegatronOption("flag", "plan.split"),
    "account-for-loss-in-pipeline-split": MegatronOption("flag", "plan.split"),
    "sequence-parallel": MegatronOption("flag", "plan.sequence_parallel"),
    "cp-comm-type": MegatronOption(
        "words", "plan.cp_type", ("p2p",), ("p2p", "all_gather", "allgather", "a2a", "a2a+p2p")
    ),
    "use-tp-pp-dp-mapping": MegatronOption("flag", "plan.order"),
    "micro-batch-size": MegatronOption("count", "plan.micro_batch"),
    "batch-size": MegatronOption("count", "plan.micro_batch", old="--micro-batch-size"),
    "use-distributed-optimizer": MegatronOption("flag", "plan.zero"),
    "use-megatron-fsdp": MegatronOption("flag", "plan.zero"),
    "data-parallel-sharding-strategy": MegatronOption("word", "plan.zero", "optim_grads_params", _STRATEGIES),
    "use-torch-fsdp2": MegatronOption("flag", "plan.zero stack"),
    "torch-fsdp2-no-reshard-after-forward": MegatronOption("flag", "plan.zero"),
    "num-distributed-optimizer-instances": MegatronOption("count", "plan.dp_replicate", 1),
    "recompute-granularity": MegatronOption("word", "plan.recompute", None, ("full", "selective")),
    "recompute-activations": MegatronOption("flag", "plan.recompute"),
    "checkpoint-activations": MegatronOption(
        "flag", "plan.recompute", old="--recompute-granularity and --recompute-method"
    ),
    "activations-checkpoint-method": MegatronOption(
        "word", "plan.recompute plan.recompute_method", None, ("uniform", "block"), old="--recompute-method"
    ),
    "activations-checkpoint-num-layers": MegatronOption("count", "plan.recompute_layers", old="--recompute-num-layers"),
    "moe-layer-recompute": MegatronOption("flag", "plan.recompute_modules", old="--recompute-modules moe"),
    "recompute-method": MegatronOption("word", "plan.recompute_method", None, ("uniform", "block")),
    "recompute-num-layers": MegatronOption("count", "plan.recompute_layers"),
    "recompute-modules": MegatronOption("words", "plan.recompute_modules", None, _MODULES + _MORE_MODULES),
    "optimizer-cpu-offload": MegatronOption("flag", "plan.offload plan.offload_to"),
    "cpu-offloading-num-layers": MegatronOption("count", "plan.offload plan.offload_layers"),
    "fine-grained-activation-offloading": MegatronOption("flag", "plan.offload"),
}

_NARROW = ("tensorwise", "delayed", "mxfp8", "blockwise", "custom")
_OPTIMIZERS = ("adam", "sgd", "muon", "dist_muon", "lion", "soap", "adaptive_muon")
_MOMENTS = ("fp32", "fp16", "bf16", "fp8")

_WORKLOAD = {
    "seq-length": MegatronOption("count", "workload.sequence"),
    "encoder-seq-length": MegatronOption("count", "workload.sequence"),
    "global-batch-size": MegatronOption("count", "workload.global_batch"),
    "rampup-batch-size": MegatronOption("ramp"),
    "step-batch-size-schedule": MegatronOption("words"),
    "train-iters": MegatronOption("count", "workload.tokens"),
    "train-samples": MegatronOption("count", "workload.tokens"),
    "bf16": MegatronOption("flag", "workload.precision"),
    "fp16": MegatronOption("flag", "workload.precision"),
    "fp8-format": MegatronOption("word", "workload.precision", None, ("e4m3", "hybrid")),
    "fp8-recipe": MegatronOption("word", "workload.precision", "delayed", _NARROW),
    "fp4-format": MegatronOption("word", "workload.precision", None, ("e2m1",)),
    "fp4-recipe": MegatronOption("word", "workload.precision", "nvfp4", ("nvfp4", "custom")),
    "grad-reduce-in-bf16": MegatronOption("flag", "workload.gradients"),
    "accumulate-allreduce-grads-in-fp32": MegatronOption("flag", "workload.gradients"),
    "optimizer": MegatronOption("word", "workload.optimizer", "adam", _OPTIMIZERS),
    "use-precision-aware-optimizer": MegatronOption("flag", "workload.optimizer"),
    "main-grads-dtype": MegatronOption("word", "workload.gradients", "fp32", ("fp32", "bf16")),
    "exp-avg-dtype": MegatronOption("word", "workload.optimizer", "fp32", _MOMENTS),
    "exp-avg-sq-dtype": MegatronOption("word", "workload.optimizer", "fp32", _MOMENTS),
}

_STACK = {
    "overlap-grad-reduce": MegatronOption("flag", "stack assume.overlap.dp"),
    "overlap-param-gather": MegatronOption("flag", "stack assume.overlap.weights"),
    "tp-comm-overlap": MegatronOption("flag", "stack assume.overlap.tp"),
    "moe-token-dispatcher-type": MegatronOption(
        "word", "assume.experts.deduplicated", "allgather", ("allgather", "alltoall", "flex")
    ),
    "moe-expert-capacity-factor": MegatronOption("figure", "assume.experts.capacity"),
    "hidden-dropout": MegatronOption("figure", "", "0.1"),
    "attention-dropout": MegatronOption("figure", "", "0.1"),
}

OPTIONS: dict[str, MegatronOption] = _MODEL | _PLAN | _WORKLOAD | _STACK

# Costmodel keys that no option fills, with the reason.
UNFILLED_KEYS = {
    "plan.dp": "it follows from the accelerators, which the launcher states",
    "plan.compression": "Megatron-LM compresses no gradients",
    "plan.shares": "all replicas take equal shares",
    "plan.sites": "its replicas agree at every step",
    "plan.sync": "its replicas agree at every step",
    "workload.images": "a property of the data, which no option states",
    "workload.critical_batch": "a property of the loss, which no option states",
    "workload.learning_rate": "options state it without the batch it is good for",
    "model.schema": "costmodel only",
    "model.name": "a name is for the reader of the file to give",
    "model.title": "as the name",
    "model.source": "costmodel only",
    "model.sources": "costmodel only",
    "model.note": "costmodel only",
    "model.check": "costmodel only",
    "model.published": "no parameters are counted in a script",
    "model.embedding_norm": "no model of Megatron-LM has one",
    **dict.fromkeys(
        ("model.token_types", "model.head_transform", "model.head_bias"), "BERT has a script of its own in Megatron-LM"
    ),
    **dict.fromkeys(("model.layer_embedding", "model.meta_tokens"), "no model of Megatron-LM has one"),
    "model.layers.side_rank": "no model of Megatron-LM has one",
    "model.layers.shared_output": "no model of Megatron-LM has one",
    **dict.fromkeys(
        ("model.residual_streams", "model.stream_rule", "model.layers.compressed", "model.layers.experts.hashed"),
        "a model of the kind of DeepSeek-V4 is read from its config.json",
    ),
    "model.layers.selective_scan": "no model of Megatron-LM that is read has such a layer",
    "model.vision": "a vision model has a script of its own in Megatron-LM",
    "model.stored": "training has types of its own",
    "model.stored_experts": "training has types of its own",
    "model.stored_cache": "training has types of its own",
    "model.position_rows": "as many as --max-position-embeddings",
    "model.prediction.layer": "the last layer once more",
    "model.prediction.depth": "--mtp-num-layers, with the layer",
    "model.layers.norms": "two in every layer, one where only one half is there",
    "model.layers.parallel": "no model of Megatron-LM has parallel halves",
    "model.layers.attention.qk_norm_whole": "--qk-layernorm normalises head by head",
    "model.layers.state_space.conv": "4 in its code",
    "model.layers.state_space.chunk": "128 in its code",
    "model.layers.linear": "no model of Megatron-LM that is read has such a layer",
    "model.layers.mlp": "a layer that has no experts",
    "model.layers.attention": "a layer that has no latent attention",
    "model.layers.experts.biases": "as those of the MLP, --disable-bias-linear",
    "model.layers.experts.shared.ffn_hidden": "--moe-shared-expert-intermediate-size, the whole width",
    "model.layers.experts.shared.gated": "as that of the experts",
    "model.layers.experts.shared.biases": "as those of the MLP",
    "plan.offload_to": "the host is the only place",
    "workload.kind": "costmodel only",
    "workload.tuning": "adapters are matters of Megatron-Bridge",
}
