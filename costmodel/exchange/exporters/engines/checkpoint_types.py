"""Types that a command cannot give a checkpoint: those in its files, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from costmodel.exchange.exporters.engines.serving_job import ServingJob
from costmodel.exchange.exporters.job import Remarks
from costmodel.exchange.importers.serving.served_types import Quantised, types_of_checkpoint

MADE = Quantised("fp8")  # what engines make of a checkpoint in 16 bits while they load it
METHODS = {
    MADE: "fp8",
    Quantised("nvfp4"): "modelopt_fp4",
    Quantised(None, "int4-g128"): "awq",
    Quantised(None, "mxfp4"): "mxfp4",
}


def check_types(job: ServingJob, remarks: Remarks, methods: Mapping[Quantised, str]) -> str:
    """The method of quantisation that the command names, empty for none; types that neither it nor the checkpoint
    states are refused. `methods` are those that the engine has a name for.
    """
    workload, held = job.workload, types_of_checkpoint(job.model, job.shipped, job.checkpoint)
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
    """Whether products in 16 bits read narrow weights, as engines do where the device lacks others."""
    return job.widens and held.precision is not None and job.workload.weights == held.precision


def _refuse_types(job: ServingJob, remarks: Remarks, held: Quantised) -> None:
    """The fault for types of the layers that neither the checkpoint nor an option gives."""
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
    """Faults for types of routed experts that are not those of the checkpoint: no option changes them."""
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
    """The type of the cache where it is narrower than 16 bits."""
    cache = job.workload.cache
    if cache not in ("fp8", job.half):
        remarks.refuse("workload.cache", f"{cache}: a cache in 16 bits is in {job.half}, as the rest")
    return "fp8" if cache == "fp8" else ""
