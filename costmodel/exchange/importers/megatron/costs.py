"""Options of Megatron-LM that change the cost without a costmodel key, or that make another model or another job."""

from __future__ import annotations

from typing import NamedTuple

from costmodel.exchange.imported import LossKind

_FUSED = "kernels that others fuse run apart"
_GRAPHS = "CUDA graphs spare the host's time: launch of a stack"
_BUCKETS = "the size of buckets is a matter of the stack: buckets"
_DTYPES = "the type of a copy of the weights, or of their gradients on the network: states of a stack"
_LAYERWISE = "the precision of single layers"


class Cost(NamedTuple):
    """What is lost by leaving an option out, and the values with which nothing is."""

    kind: LossKind
    sentence: str
    harmless: tuple[str, ...] = ()


def _same(kind: LossKind, sentence: str, names: str, *harmless: str) -> dict[str, Cost]:
    return dict.fromkeys(names.split(), Cost(kind, sentence, harmless))


COSTS: dict[str, Cost] = {
    **_same("not expressible", "weights are kept and gathered in the narrow type: low_precision.primary of a stack",
            "fp8-param-gather fp4-param-gather"),
    **_same("not expressible", "how much of dispatch and combine hides: set assume.overlap.ep",
            "overlap-moe-expert-parallel-comm"),
    **_same("not expressible", "how much hides behind shared experts: set assume.experts.shared_overlap",
            "moe-shared-expert-overlap"),
    **_same("not expressible", "saved activations are spread over tensor-parallel ranks",
            "distribute-saved-activations"),
    **_same("not expressible", "weights are sharded beyond tensor parallelism and gathered where they are used",
            "tensor-parallel-num-weight-shards expert-tensor-parallel-num-weight-shards", "1"),
    **_same("not expressible", "context parallelism in two levels", "hierarchical-context-parallel-sizes"),
    **_same("not expressible", "context parallelism that follows the length of each sequence",
            "hybrid-context-parallel max-seqlen-per-dp-cp-rank"),
    **_same("not expressible", _DTYPES,
            "main-params-dtype megatron-fsdp-main-params-dtype megatron-fsdp-main-grads-dtype "
            "megatron-fsdp-grad-comm-dtype", "fp32", "auto"),
    **_same("not expressible", "optimizer states are sharded over replicas too", "outer-dp-sharding-strategy",
            "no_shard"),
    **_same("not expressible", "optimizer states are sharded over replicas too", "enable-full-sharding-in-hsdp"),
    **_same("not expressible", "a part of the optimizer's states stays on the accelerator",
            "optimizer-offload-fraction", "1", "1.0"),
    **_same("not expressible", "a part of the activations stays on the accelerator", "activation-offload-fraction",
            "1", "1.0"),
    **_same("not expressible", "tokens of a whole rank's experts are bounded, not those of one expert",
            "moe-expert-rank-capacity-factor"),
    **_same("not expressible", "activations of experts are stashed in pages", "moe-paged-stash"),
    **_same("not expressible", "reinforcement learning: generation beside training", "perform-rl-step"),
    **_same("not expressible", "weights that are frozen have no gradients", "freeze-all-layers"),
    **_same("not expressible", "distillation: the logits of a teacher are kept or read",
            "logits-save-dir logits-load-dir"),
    **_same("not expressible", "layers by another specification in code", "spec", "local"),
    **_same("not expressible", "the modules of multi-token prediction share one layer", "mtp-use-repeated-layer"),
    **_same("not expressible", "tokens are dispatched in a narrow type", "moe-dispatch-fwd-dtype moe-combine-bwd-dtype",
            "bf16"),
    **_same("approximated", "attention in kernels that are not fused: kernels.attention of a stack",
            "attention-backend", "auto", "flash", "fused", "AttnBackend.auto", "AttnBackend.flash",
            "AttnBackend.fused"),
    **_same("approximated", "layers of Megatron's own code, not of Transformer Engine", "transformer-impl",
            "transformer_engine"),
    **_same("approximated", _GRAPHS, "cuda-graph-impl", "none"),
    **_same("approximated", _GRAPHS, "enable-cuda-graph external-cuda-graph optimizer-cuda-graph"),
    **_same("approximated", "the residual stream is kept in fp32", "fp32-residual-connection"),
    **_same("approximated", _LAYERWISE,
            "first-last-layers-bf16 te-precision-config-file kitchen-config-file kitchen-recipe-number "
            "use-kitchen-attention no-fp8-wgrad disable-fp8-wgrad fp8-output-proj"),
    **_same("approximated", "weight gradients are computed later, beside other work",
            "delay-wgrad-compute overlap-dispatch-backward-with-experts-wgrad defer-embedding-wgrad-compute"),
    **_same("approximated", "weights are gathered beside the optimizer's step, chunk by chunk",
            "overlap-param-gather-with-optimizer-step"),
    **_same("approximated", "memory of gathered weights", "reuse-grad-buf-for-mxfp8-param-ag keep-fp8-transpose-cache "
            "fsdp-double-buffer megatron-fsdp-max-pool-double-buffer use-nccl-ub"),
    **_same("approximated", _BUCKETS, "ddp-num-buckets ddp-bucket-size suggested-communication-unit-size"),
    **_same("approximated", "weight gradients are computed apart and then added", "no-gradient-accumulation-fusion"),
    **_same("approximated", "sends between stages do not hide behind compute", "no-overlap-p2p-communication"),
    **_same("approximated", "micro-batches go through the chunks in groups of another size",
            "microbatch-group-size-per-virtual-pipeline-stage"),
    **_same("approximated", "the layer of multi-token prediction has a stage of its own", "mtp-standalone"),
    **_same("approximated", "kernels that give the same result each time are slower", "deterministic-mode"),
    **_same("approximated", _FUSED,
            "no-masked-softmax-fusion no-bias-gelu-fusion no-bias-swiglu-fusion no-bias-dropout-fusion no-rope-fusion "
            "no-persist-layer-norm"),
    **_same("approximated", "queries and keys are normalised or clipped, whose time is not modelled",
            "qk-l2-norm qk-clip log-max-attention-logit"),
    **_same("approximated", "reductions inside the switches", "use-sharp"),
    **_same("approximated", "the MLP runs in chunks", "mlp-chunks-for-training"),
    **_same("approximated", "sequences are packed or masked, so that attention does less",
            "dataloader-inter-document-masking reset-attention-mask sft"),
}  # fmt: skip

# Options that make a model which no costmodel document can express, with what they do.
REFUSED: dict[str, str] = {
    "moe-latent-size": "experts of a narrower stream",
    "attention-output-gate": "attention with a gate on its output",
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
