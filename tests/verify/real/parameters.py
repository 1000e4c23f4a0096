"""Parameters of Hugging Face models built on the meta device from the shapes that are shipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from costmodel.documents.reader.library import names, read
from costmodel.documents.schemas.model import Layers, Model

from . import dense, mixtures

Build = Callable[[Model, Layers], Any]
ROUTED = "experts."  # what a model calls the module of its routed experts
BALANCE = "e_score_correction_bias"  # set by rule rather than by gradient: a buffer here, a tensor of the checkpoint


def counted() -> dict[str, dict[str, int]]:
    """Parameters of every shipped model that transformers can build, by name: in all, and that a token meets."""
    found = {}
    for name in names("model"):
        model = read("model", name)
        build = builder(name, model)
        if build is not None:
            found[name] = parameters(build(model, model.layers[0]))
    return found


def builder(name: str, model: Model) -> Build | None:
    """What turns a shape into the configuration of its family."""
    mixed = any(kind.experts is not None or kind.state_space is not None for kind in model.layers)
    families = MIXTURES if mixed else DENSE
    return next((build for family, build in families.items() if name.startswith(family)), None)


def parameters(config: Any) -> dict[str, int]:
    """Numbers of a model that holds no memory; a shared table counts once, of routed experts a token meets its few."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    weights = {id(weight): (name, weight.numel()) for name, weight in model.named_parameters()}
    held = list(weights.values())
    held += [(name, buffer.numel()) for name, buffer in model.named_buffers() if name.endswith(BALANCE)]
    total, routed = sum(count for _, count in held), sum(count for name, count in held if _routed(name))
    if not routed:
        return {"total": total}
    every, few = _experts(config)
    return {"total": total, "active": total - routed + routed * few // every}


def _routed(name: str) -> bool:
    return f".{ROUTED}" in name


def _experts(config: Any) -> tuple[int, int]:
    """How many routed experts a layer has, and how many of them a token goes to."""
    if hasattr(config, "ffn_config"):
        return config.ffn_config.moe_num_experts, config.ffn_config.moe_top_k
    every = next(getattr(config, name) for name in EXPERTS if getattr(config, name, None))
    return every, config.num_experts_per_tok


EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
DENSE: dict[str, Build] = {
    "llama": dense.llama,
    "mistral-7b": dense.mistral,
    "mistral-7b-v0.1": dense.mistral,
    "qwen-2.5": dense.qwen2,
    "qwen-3-": dense.qwen3,
    "gemma-2": dense.gemma2,
    "gemma-3": dense.gemma3,
    "nemotron-4": dense.nemotron,
    "gpt-neox": dense.neox,
    "gpt": dense.gpt2,
    "megatron": dense.gpt2,
    "opt": dense.opt,
    "bloom": dense.bloom,
    "pythia": dense.neox,
    "mpt": dense.mpt,
    "falcon": dense.falcon,
}
MIXTURES: dict[str, Build] = {
    "mixtral": mixtures.mixtral,
    "qwen-2-57b": mixtures.qwen2,
    "qwen-3-": mixtures.qwen3,
    "olmoe": mixtures.olmoe,
    "gpt-oss": mixtures.gpt_oss,
    "dbrx": mixtures.dbrx,
    "deepseek-v2": mixtures.deepseek_v2,
    "deepseek-v3": mixtures.deepseek_v3,
    "kimi-k2": mixtures.deepseek_v3,  # as released: DeepSeek-V3's code with its own sizes
    "llama-4": mixtures.llama_4,
    "nemotron-h": mixtures.nemotron_h,
}
