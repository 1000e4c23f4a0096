"""What recipes and launch scripts switch on, read in their sources, for runs whose table does not say.

Megatron-Bridge: scripts/performance of 0.1.0 to 0.5.1, perf_recipes of 0.6.0.
NeMo: nemo/collections/llm/recipes/deepseek_v3.py, scripts/performance/llm/pretrain_deepseek_v3.py of 7a8f1cc; on
Blackwell its Transformer Engine, before 2.5, trains heads of more than 128 without fused attention.
dgxc-benchmarking: maxtext/configure.sh and paxml/paxml_mod_configs.py of v24.11.1 and v25.02.02,
deepseek_v3/pretraining/launch.sh of v25.05.05.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from costmodel.documents.spelling import squeezed

RECIPES = ("NeMo", "Megatron-Bridge")
_RELEASE = re.compile(r"Megatron-Bridge (\d\d\.\d\d(?:\.\d\d)?)")
_ALWAYS = ("", "~")  # before and behind any
_PROJECTIONS_KEPT = "selective:core_attn+layernorm+mlp"
_PLAIN, _HYBRID, _DEEP = "moe_dispatcher=alltoall", "moe_dispatcher=hybridep", "moe_dispatcher=deepep"
_DROPPED = f"moe_token_drop;{_PLAIN}"
_BESIDE = "moe_a2a_overlap;"
_WHOLE = f"cuda_graph=full_iteration;{_BESIDE}{_HYBRID}"
_RACKS = ("gb200", "gb300")
_BLACKWELL = ("b200-sxm", "b300-sxm", *_RACKS)


class Recipe(NamedTuple):
    """What is so for a model whose name begins thus, on these accelerators or any, in releases from and to."""

    software: str
    model: str
    accelerators: tuple[str, ...]
    releases: tuple[str, str]
    says: str
    precision: str = ""


def _bridge(model: str, accelerators: tuple[str, ...], first: str, last: str, says: str, precision: str = "") -> Recipe:
    return Recipe("Megatron-Bridge", model, accelerators, (first, last), says, precision)


# The first that fits is taken; a release stands for its patches too, unless one has an entry of its own before it.
FEATURES = (
    Recipe("NeMo (dgxc-benchmarking v25.05", "DeepSeek-V3", _BLACKWELL, _ALWAYS, f"{_DROPPED};no flash attention"),
    Recipe("NeMo (dgxc-benchmarking", "DeepSeek-V3", (), _ALWAYS, _DROPPED),
    _bridge("Qwen3-30B", ("b200-sxm", "gb200"), "25.09", "25.09", f"cuda_graph=local;{_PLAIN}"),
    _bridge("DeepSeek-V3", ("b300-sxm",), "26.06.01", "~", _WHOLE, "mxfp8"),
    _bridge("DeepSeek-V3", _RACKS, "26.06", "~", _WHOLE, "mxfp8"),
    _bridge("DeepSeek-V3", ("b200-sxm",), "26.06", "~", f"{_BESIDE}{_DEEP}", "mxfp8"),
    _bridge("DeepSeek-V3", ("b200-sxm",), "26.06", "~", f"{_BESIDE}{_DEEP}", "nvfp4"),
    _bridge("DeepSeek-V3", ("h100-sxm",), "25.09", "25.11", f"{_BESIDE}{_DEEP}"),
    _bridge("DeepSeek-V3", ("b200-sxm",), "25.11", "25.11", _PLAIN),
    _bridge("DeepSeek-V3", (), "25.11", "~", _HYBRID),
    _bridge("Qwen3-30B", ("b200-sxm",), "26.06.01", "~", _WHOLE, "mxfp8"),
    _bridge("Qwen3-30B", ("b300-sxm", *_RACKS), "26.06", "~", _WHOLE, "mxfp8"),
    _bridge("Qwen3-30B", (), "26.02.01", "~", _HYBRID),
    _bridge("Qwen3-30B", ("b300-sxm", *_RACKS), "25.11", "~", _HYBRID),
    _bridge("Qwen3-30B", ("h100-sxm",), "26.02", "26.02", f"{_BESIDE}{_DEEP}"),
    _bridge("Qwen3-30B", ("h100-sxm",), "25.11", "25.11", f"{_BESIDE}{_PLAIN}"),
    _bridge("Qwen3-30B", ("b200-sxm",), "25.11", "26.02", _PLAIN),
    _bridge("Qwen3-235B", ("b200-sxm", "b300-sxm"), "26.06.01", "~", _WHOLE, "mxfp8"),
    _bridge("Qwen3-235B", _RACKS, "26.06", "~", _WHOLE, "mxfp8"),
    _bridge("Qwen3-235B", _RACKS, "25.11", "~", _HYBRID),
    _bridge("Qwen3-235B", ("h100-sxm",), "26.02.01", "26.02.01", f"{_BESIDE}{_DEEP}"),
    _bridge("Qwen3-235B", ("h100-sxm",), "25.11", "~", f"{_BESIDE}{_PLAIN}"),
    _bridge("Qwen3-235B", ("b200-sxm", "b300-sxm"), "26.02.01", "26.02.01", _DEEP),
    _bridge("Qwen3-235B", ("b200-sxm",), "25.11", "25.11", f"{_BESIDE}{_PLAIN}"),
    _bridge("Qwen3-235B", ("b300-sxm",), "26.02", "26.02", f"{_BESIDE}{_PLAIN}"),
    _bridge("Qwen3-235B", ("b300-sxm",), "26.06", "~", _HYBRID),
    _bridge("Qwen3-235B", (), "25.11", "~", _PLAIN),
    _bridge("Qwen3-Next", _RACKS, "26.04", "~", _HYBRID),
    _bridge("Qwen3-Next", ("b200-sxm", "b300-sxm"), "26.04", "~", _DEEP),
    _bridge("GPT-OSS-120B", _RACKS, "26.06", "~", _WHOLE, "mxfp8"),
    _bridge("GPT-OSS-120B", ("gb200",), "26.06", "~", f"{_BESIDE}{_PLAIN}"),
    _bridge("GPT-OSS-120B", ("gb200",), "26.04", "26.04", f"{_BESIDE}{_HYBRID}"),
    _bridge("GPT-OSS-120B", ("b200-sxm",), "26.04", "26.04", _HYBRID),
    _bridge("GPT-OSS-120B", ("b300-sxm",), "26.04", "~", _HYBRID),
    _bridge("GPT-OSS-120B", (), "25.11", "~", _PLAIN),
    _bridge("Kimi-K2", _RACKS, "26.02.01", "~", _HYBRID),
)
RECOMPUTE = (
    Recipe("Megatron-Bridge", "DeepSeek-V3", ("h100-sxm",), _ALWAYS, "selective:mla_up_proj+mlp"),
    Recipe("Megatron-Bridge", "DeepSeek-V3", (), _ALWAYS, "selective:mla_up_proj"),
    Recipe("NeMo (dgxc-benchmarking", "DeepSeek-V3", ("gb200",), _ALWAYS, "selective:core_attn"),
    Recipe("NeMo (dgxc-benchmarking", "DeepSeek-V3", (), _ALWAYS, "selective:mla_up_proj"),
    Recipe("NeMo", "DeepSeek-V3", (), _ALWAYS, "selective:mla_up_proj+layernorm+mlp+moe"),
    Recipe("MaxText (dgxc-benchmarking", "", (), _ALWAYS, _PROJECTIONS_KEPT),  # save_dot_except_mlp, save_qkv_proj
    Recipe("Paxml (dgxc-benchmarking", "GPT3-175B", (), _ALWAYS, _PROJECTIONS_KEPT),  # SAVE_QKV_OUT_PROJ
    Recipe("Paxml (dgxc-benchmarking", "", (), _ALWAYS, "selective:core_attn+layernorm"),  # SAVE_DOT_ONLY
)


def recipe_says(recipes: tuple[Recipe, ...], software: str, model: str, accelerator: str, precision: str) -> str:
    """What the first recipe that fits says; nothing where none does."""
    named = _RELEASE.search(software)
    release = named[1] if named else _ALWAYS[0]
    for recipe in recipes:
        first, last = recipe.releases
        placed = not recipe.accelerators or accelerator in recipe.accelerators
        of = recipe.software in software and squeezed(model).startswith(squeezed(recipe.model))
        if of and placed and first <= release and release[: len(last)] <= last and recipe.precision in ("", precision):
            return recipe.says
    return ""
