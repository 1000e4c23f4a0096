"""Values of Megatron-LM options and of costmodel, to read and to write: the first of several is the one written."""

from __future__ import annotations

from collections.abc import Mapping

DEGREES = {
    "tp": "tensor-model-parallel-size",
    "pp": "pipeline-model-parallel-size",
    "cp": "context-parallel-size",
    "ep": "expert-model-parallel-size",
}
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


def spelling(words: Mapping[str, object], ours: object) -> str:
    """The first spelling of a value of costmodel.

    >>> spelling(EXCHANGES, "all-gather")
    'all_gather'
    """
    return next(name for name, value in words.items() if value == ours)
