"""Reads the recompute and offload cells of a measured run, and whether they are filled at all."""

from __future__ import annotations

import re
from typing import Any

from costmodel.documents.schemas.stack import Stack
from costmodel.evidence.validate.spelling import Recompute
from costmodel.exchange.tables.csv_cells import CsvRow

OFFLOAD = re.compile(r"cpu_activation_offload_layers=(\d+)")
_NO_OFFLOAD = re.compile(
    r"\b(?:no|without)[\s_-]+(?:\w+[\s_-]+)?offload\w*|\w*offload\w*=(?:false|no|none|off|0)(?![\w.])"
)
MODULES = {  # names of Megatron, MaxText and costmodel
    "core_attn": "attention",
    "out_proj": "attention-output",
    "layernorm": "norms",
    "mla_up_proj": "mla-up-projection",
    "mlp": "mlp",
    "mlp_act": "mlp-activation",
    "moe_act": "moe-activation",
    "moe": "moe",
    "shared_experts": "shared-experts",
}
# Rematerialisation policies of MaxText, and what backward computes again under them.
POLICIES = {
    "save_dot_with_context_except_mlp": ["norms", "mlp"],
    "save_dot_except_mlp": ["attention", "norms", "mlp"],
    "save_dot_except_mlpwi": ["attention", "norms", "mlp"],
    "save_qkv_proj": ["attention", "attention-output", "norms", "mlp"],
}
_POLICY = re.compile(r"\bremat (\w+)")


def offloads_more(row: CsvRow) -> bool:
    """Whether a row offloads more than the activations of some layers."""
    return "offload" in _NO_OFFLOAD.sub("", OFFLOAD.sub("", row.text("features").lower()))


def states_recompute(row: CsvRow) -> bool:
    """Whether a row states the micro-batch and the recompute of its run.

    A selection of which no size is stated is not known; what stands in parentheses beside another run has that one's
    micro-batch.
    """
    notes = row.text("notes")
    unsized = row.text("recompute") == "selective" and "fraction not stated" in notes
    beside = "value in parentheses" in notes
    return row.number("micro_batch") is not None and bool(row.text("recompute")) and not (unsized or beside)


def choices_of(row: CsvRow, stack: Stack, recompute: Recompute) -> dict[str, Any]:
    """Recomputed modules or layers, and layers with offloaded activations, as far as the row states them."""
    chosen: dict[str, Any] = {} if recompute.layers is None else {"recompute_layers": recompute.layers}
    policy = _POLICY.search(row.text("notes"))
    modules = [MODULES[name] for name in recompute.names if name in MODULES]
    modules = modules or POLICIES.get(policy[1] if policy else "", [])
    if recompute.mode == "selective" and modules and set(modules) <= set(stack.recompute_modules):
        chosen["recompute_modules"] = modules
    if offloaded := OFFLOAD.search(row.text("features")):
        chosen |= {"offload": ["activations"], "offload_layers": float(offloaded[1])}
    return chosen
