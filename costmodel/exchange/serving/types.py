"""Types of weights, products and cache, as engines name them, and those of checkpoints that are not in 16 bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.precision import RECIPES, STORED, STORED_EXPERTS
from costmodel.exchange.foreign_keys import ForeignKeys
from costmodel.exchange.remarks import Remarks
from costmodel.exchange.rows import choice
from costmodel.exchange.serving.serving_job import ServingJob
from costmodel.exchange.training.layer import Layer


class Quantised(NamedTuple):
    """The types that a quantisation method implies; None means as the rest of the model."""

    precision: str | None = None
    weights: str | None = None


PRODUCTS = choice({"bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "half": "fp16", "fp16": "fp16"})
CACHES = {
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "half": "fp16",
}
QUANTISED = {
    "fp8": Quantised("fp8"),
    "w8a8_fp8": Quantised("fp8"),
    "fbgemm_fp8": Quantised("fp8"),
    "modelopt": Quantised("fp8"),
    "modelopt_fp8": Quantised("fp8"),
    "deepspeedfp": Quantised(None, "fp8"),
    "modelopt_fp4": Quantised("nvfp4"),
    "nvfp4": Quantised("nvfp4"),
    "awq": Quantised(None, "int4-g128"),
    "awq_marlin": Quantised(None, "int4-g128"),
    "gptq": Quantised(None, "int4-g128"),
    "gptq_marlin": Quantised(None, "int4-g128"),
    "auto-round": Quantised(None, "int4-g128"),
    "blockwise_int8": Quantised(None, "int8"),
    "experts_int8": Quantised(None, "int8"),
    "w8a8_int8": Quantised("int8"),
    "mxfp4": Quantised(None, "mxfp4"),
}


def fill_types(keys: ForeignKeys, layer: Layer, products: str, method: str, cache: str) -> None:
    """Fills the types that the options with these names state."""
    kind = keys[products] if products else None
    if kind is not None and kind.value in PRODUCTS.words:
        layer.facts["workload.precision"] = kind._replace(value=PRODUCTS.read(kind.value))
    elif kind is not None and kind.value not in (None, "auto"):
        keys.refuse("X003", f"{products} {str(kind.value)[:60]}: no engine document multiplies in it", products)
    fill_method(keys, layer, method)
    kept = keys[cache]
    if kept.value in CACHES:
        layer.facts["workload.cache"] = kept._replace(value=CACHES[kept.value])
    elif kept.value is not None:
        keys.refuse("X003", f"{cache} {str(kept.value)[:60]}: no workload has a cache of that type", cache)


def fill_method(keys: ForeignKeys, layer: Layer, method: str) -> None:
    """Fills the types that a quantisation method implies."""
    stated = keys[method] if method else None
    if stated is None or stated.value is None:
        return
    found = QUANTISED.get(str(stated.value).lower())
    if found is None:
        keys.lose("not expressible", f"{method} {str(stated.value)[:60]}: weights as the rest of the model", method)
        return
    if found.precision is not None:
        layer.facts["workload.precision"] = stated._replace(value=found.precision)
    if found.weights is not None:
        layer.facts["workload.weights"] = stated._replace(value=found.weights)


def types_of_checkpoint(model: Model | None, shipped: str) -> Quantised:
    """The types of a checkpoint: as its model document states, else as the shipped model states.

    >>> types_of_checkpoint(None, "deepseek-v3").precision
    'fp8-block'
    """
    kept = (model.stored if model is not None else None) or STORED.get(shipped)
    if kept is None or kept == "bf16":
        return Quantised()
    return Quantised(kept) if kept in RECIPES else Quantised(None, kept)


def cache_of_checkpoint(model: Model | None, precision: str) -> tuple[str, str]:
    """The KV-cache type that an engine chooses by default, and the reason."""
    if model is not None and model.stored_cache is not None:
        return model.stored_cache, "auto: as the checkpoint has scales for"
    return "fp16" if precision == "fp16" else "bf16", "auto: as the rest, in 16 bits"


def experts_of_checkpoint(model: Model | None, shipped: str) -> str | None:
    """The type of routed experts in a checkpoint, if it differs from that of the other weights.

    >>> experts_of_checkpoint(None, "gpt-oss-120b")
    'mxfp4'
    """
    return (model.stored_experts if model is not None else None) or STORED_EXPERTS.get(shipped)


# --- types that a command cannot give a checkpoint: those in its files, by its name

MADE = Quantised("fp8")  # what engines make of a checkpoint in 16 bits while they load it
METHODS = {
    MADE: "fp8",
    Quantised("nvfp4"): "modelopt_fp4",
    Quantised(None, "int4-g128"): "awq",
    Quantised(None, "mxfp4"): "mxfp4",
}


def check_types(job: ServingJob, remarks: Remarks, methods: Mapping[Quantised, str]) -> str:
    """The quantisation method for the command, or an empty text; a fault for types that neither the command nor the
    checkpoint provides. `methods` are those for which the engine has a name.
    """
    workload, held = job.workload, types_of_checkpoint(job.model, job.shipped)
    precision = workload.precision
    weights = None if workload.weights == precision else workload.weights
    _check_experts(job, remarks)
    if (held.precision or job.half, held.weights) == (precision, weights) or _widened(job, held):
        return ""
    asked = Quantised(None if precision == job.half else precision, weights)
    if held == Quantised() and not job.narrow_experts and asked in methods:
        if asked != MADE:
            remarks.note(f"yours to name: a checkpoint of {job.checkpoint} in {weights or precision}, in its place")
        return methods[asked]
    _refuse_types(job, remarks, held)
    return ""


def _widened(job: ServingJob, held: Quantised) -> bool:
    """Whether quantised weights are multiplied in 16 bits, because the device lacks their type."""
    return job.widens and held.precision is not None and job.workload.weights == held.precision


def _refuse_types(job: ServingJob, remarks: Remarks, held: Quantised) -> None:
    """Records a fault for layer types that neither the checkpoint nor an option provides."""
    workload = job.workload
    key, stated = "workload.precision", f"products in {workload.precision}"
    if workload.weights not in (None, workload.precision, held.precision):
        key, stated = "workload.weights", f"weights in {workload.weights}"
    theirs = held.precision or held.weights or "16 bits"
    own = held.weights if key == "workload.weights" else held.precision
    hint = f"--set {key}={own} is what it has" if own else "name a checkpoint of those types as model"
    if held == Quantised() and job.narrow_experts:
        hint = f"--set {key}={job.half} is what it has beside its experts"
    remarks.refuse(key, f"{stated} need another checkpoint: {job.checkpoint} is in {theirs}", hint)


def _check_experts(job: ServingJob, remarks: Remarks) -> None:
    """Records faults for types of routed experts that differ from the checkpoint; no option changes them."""
    workload, held = job.workload, job.narrow_experts
    others = workload.weights or workload.precision
    if workload.expert_precision not in (None, workload.precision):
        sentence = f"no option makes products of experts alone in {workload.expert_precision}"
        remarks.refuse("workload.expert_precision", sentence, "leave it out")
    stated = workload.expert_weights or others
    if not job.model.has_experts or stated == (held or others):
        return
    theirs = held or "the type of its other weights"
    hint = f"--set workload.expert_weights={held} is what it has" if held else "leave it out"
    sentence = f"experts in {stated} need another checkpoint: {job.checkpoint} has them in {theirs}"
    remarks.refuse("workload.expert_weights", sentence, hint)


def check_cache(job: ServingJob, remarks: Remarks) -> str:
    """The KV-cache type if it is fp8; empty for 16 bits; a fault for any other type."""
    cache = job.workload.cache
    if cache not in ("fp8", job.half):
        remarks.refuse("workload.cache", f"{cache}: a cache in 16 bits is in {job.half}, as the rest")
    return "fp8" if cache == "fp8" else ""
