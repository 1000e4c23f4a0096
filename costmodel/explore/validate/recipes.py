"""What recipes and launch scripts switch on, read in their sources, for runs whose table does not say.

Megatron-Bridge: scripts/performance of 0.1.0 to 0.5.0. NeMo: nemo/collections/llm/recipes/deepseek_v3.py.
dgxc-benchmarking: maxtext/configure.sh and paxml/paxml_mod_configs.py of v24.11.1 and v25.02.02,
deepseek_v3/pretraining/launch.sh of v25.05.05.
"""

from __future__ import annotations

import re
from typing import NamedTuple

RECIPES = ("NeMo", "Megatron-Bridge")
_RELEASE = re.compile(r"Megatron-Bridge (\d\d\.\d\d)")
_ALWAYS = ("", "~")  # before and behind any
_PROJECTIONS_KEPT = "selective:core_attn+layernorm+mlp"
_BESIDE = "moe_a2a_overlap;moe_dispatcher="


class Recipe(NamedTuple):
    """What is so for a model whose name begins thus, on these accelerators or any, in releases from and to."""

    software: str
    model: str
    accelerators: tuple[str, ...]
    releases: tuple[str, str]
    says: str


FEATURES = (
    Recipe(
        "Megatron-Bridge",
        "",
        ("b200-sxm", "b300-sxm", "gb200", "gb300"),
        ("26.06", "~"),
        f"cuda_graph=full_iteration;{_BESIDE}hybridep",
    ),
    Recipe("Megatron-Bridge", "DeepSeek-V3", ("h100-sxm",), ("25.09", "25.11"), f"{_BESIDE}deepep"),
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


def recipe_says(recipes: tuple[Recipe, ...], software: str, model: str, accelerator: str) -> str:
    """What the first recipe that fits says; nothing where none does."""
    named = _RELEASE.search(software)
    release = named[1] if named else _ALWAYS[0]
    for recipe in recipes:
        placed = not recipe.accelerators or accelerator in recipe.accelerators
        first, last = recipe.releases
        if recipe.software in software and model.startswith(recipe.model) and placed and first <= release <= last:
            return recipe.says
    return ""
