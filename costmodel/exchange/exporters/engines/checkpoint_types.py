"""Types that a command cannot give a checkpoint: those in its files, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from costmodel.exchange.exporters.engines.serving_job import ServingJob
from costmodel.exchange.exporters.job import Remarks
from costmodel.exchange.importers.serving.served_types import CHECKPOINTS, OF_EXPERTS, Quantised, of_checkpoint

MADE = Quantised("fp8")  # what engines make of a checkpoint in 16 bits while they load it
METHODS = {
    MADE: "fp8",
    Quantised("nvfp4"): "modelopt_fp4",
    Quantised(None, "int4-g128"): "awq",
    Quantised(None, "mxfp4"): "mxfp4",
}


def checkpoint_of(job: ServingJob) -> Quantised:
    """The types that the checkpoint is in, by its name and by its model."""
    named = of_checkpoint(job.checkpoint)
    return CHECKPOINTS.get(job.shipped, named) if named == Quantised() else named


def check_types(job: ServingJob, remarks: Remarks, methods: Mapping[Quantised, str]) -> str:
    """The method of quantisation that the command names, empty for none; types that neither it nor the checkpoint
    states are refused. `methods` are those that the engine has a name for.
    """
    workload, held = job.workload, checkpoint_of(job)
    precision = workload.precision
    weights = None if workload.weights == precision else workload.weights
    _check_experts(job, remarks)
    if (held.precision or job.half, held.weights) == (precision, weights):
        return ""
    asked = Quantised(None if precision == job.half else precision, weights)
    if held == Quantised() and asked in methods:
        if asked != MADE:
            remarks.note(f"yours to name: a checkpoint of {job.checkpoint} in {weights or precision}, in its place")
        return methods[asked]
    stated = f"{precision} products" + (f" of {weights} weights" if weights else "")
    theirs = held.precision or held.weights or "16 bits"
    key = "workload.weights" if weights else "workload.precision"
    own = held.weights if weights else held.precision
    hint = f"--set {key}={own} is what it has" if own else ""
    remarks.refuse(key, f"{stated}: the checkpoint {job.checkpoint} is in {theirs}", hint)
    return ""


def _check_experts(job: ServingJob, remarks: Remarks) -> None:
    workload, held = job.workload, OF_EXPERTS.get(job.shipped)
    if workload.expert_precision not in (None, workload.precision):
        remarks.refuse("workload.expert_precision", f"{workload.expert_precision}: no option states it")
    if workload.expert_weights != held and job.model.has_experts:
        theirs = held or "the type of the other weights"
        stated = workload.expert_weights or "the type of the other weights"
        remarks.refuse("workload.expert_weights", f"{stated}: experts of {job.checkpoint} are in {theirs}")


def check_cache(job: ServingJob, remarks: Remarks) -> str:
    """The type of the cache where it is narrower than 16 bits."""
    cache = job.workload.cache
    if cache not in ("fp8", job.half):
        remarks.refuse("workload.cache", f"{cache}: a cache in 16 bits is in {job.half}, as the rest")
    return "fp8" if cache == "fp8" else ""
