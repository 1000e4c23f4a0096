"""A configuration of torchtitan: TOML, the last generation that a file of its own states."""

from __future__ import annotations

import math
from typing import Any

from costmodel.exchange.exporters.job import Job, TrainingRemarks
from costmodel.exchange.exporters.target import NOWHERE, ExportTarget, check_whole_layers
from costmodel.exchange.importers.launch.torchtitan_keys import EXCHANGES, MODELS
from costmodel.exchange.writing.equal_model import twins_of

_SCHEDULES = {
    "1f1b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B", "looped-bfs": "LoopedBFS",
    "zb-v": "ZBVZeroBubble", "dualpipev": "DualPipeV",
}  # fmt: skip
_ONE_STAGE = ("1f1b", "gpipe")
_SPLITS = {"lighter-ends": (1, 1), "even": (0, 0), "lighter-first": (1, 0), "lighter-last": (0, 1)}
_RECIPES = {"fp8-cs": "tensorwise", "fp8-row": "rowwise"}


def write(job: Job, remarks: TrainingRemarks) -> str:
    """The TOML; what it cannot express is refused."""
    check_whole_layers(remarks)
    sections: dict[str, dict[str, Any]] = {
        "model": _model(job, remarks),
        "optimizer": {"name": "AdamW"},
        "compile": {"enable": True},
        "training": _training(job, remarks),
        "parallelism": _parallelism(job, remarks),
        "activation_checkpoint": {"mode": job.plan.recompute or "none", "selective_ac_option": "op"},
    }
    if job.workload.precision in _RECIPES:
        sections["model"]["converters"] = ["float8"]
        sections["quantize.linear.float8"] = {"recipe_name": _RECIPES[job.workload.precision]}
    elif job.workload.precision != "bf16":
        remarks.refuse("workload.precision", f"{job.workload.precision} is no converter of torchtitan's")
    if job.optimizer != "adamw":
        remarks.refuse("workload.optimizer", f"{job.optimizer} is no optimizer of torchtitan's")
    if job.gradients != "fp32":
        remarks.refuse("workload.gradients", f"{job.gradients}: torchtitan reduces gradients in fp32")
    remarks.note("yours to add: learning rate, data and the tokenizer")
    parts = [
        f"[{name}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in entries.items())
        for name, entries in sections.items()
    ]
    return "\n".join(parts)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


def _model(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    """The flavor that has the model's shape."""
    twins = twins_of(job.model)
    for (name, flavor), ours in MODELS.items():
        if ours in twins:
            return {"name": name, "flavor": flavor}
    remarks.note("model.name and model.flavor are yours to add: no flavor of torchtitan has this shape")
    return {}


def _training(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    plan, workload = job.plan, job.workload
    offloaded = sorted(plan.offload)
    if offloaded not in ([], ["optimizer", "parameters"]):
        remarks.refuse("plan.offload", f"[{', '.join(offloaded)}]: FSDP offloads a shard with its optimizer")
    if offloaded and plan.offload_to != "cpu":
        remarks.refuse("plan.offload_to", "FSDP offloads to the host's memory alone")
    local = job.count("micro_batch") * (job.accumulation if plan.pp > 1 else 1)
    found = {
        "local_batch_size": local,
        "global_batch_size": round(workload.global_batch),
        "seq_len": round(workload.sequence),
        "enable_cpu_offload": bool(offloaded),
    }
    if workload.tokens is not None:
        found["steps"] = max(1, round(workload.tokens / workload.sequence / workload.global_batch))
    return found


def _parallelism(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    plan = job.plan
    if plan.zero not in (2, 3):
        remarks.refuse("plan.zero", f"{plan.zero}: FSDP 2 has 3, or 2")
    elif plan.dp == plan.dp_replicate > 1 and plan.cp == 1:
        for key in ("plan.zero", "stack"):
            remarks.refuse(key, f"as many replicas as dp, {plan.dp:g}: torchtitan shards nothing then, and runs DDP")
    found: dict[str, Any] = {
        "data_parallel_replicate_degree": job.count("dp_replicate"),
        "data_parallel_shard_degree": round((plan.dp or 1) / plan.dp_replicate),
        "fsdp_reshard_after_forward": "never" if plan.zero == 2 else "always",
        "tensor_parallel_degree": job.count("tp"),
        "pipeline_parallel_degree": job.count("pp"),
        "context_parallel_degree": job.count("cp"),
    }
    if plan.tp > 1 and not plan.sequence_parallel:
        hint = "--set plan.sequence_parallel=true"
        remarks.refuse("plan.sequence_parallel", "false: its tensor parallelism cuts the sequence too", hint)
    if plan.cp > 1:
        method = next((word for word, ours in EXCHANGES.items() if ours == plan.cp_type), None)
        if method is None:
            remarks.refuse("plan.cp_type", f"{plan.cp_type}: ring attention of PyTorch has all-gather and p2p")
        found["context_parallel_rotate_method"] = method or "allgather"
    if job.model.has_experts and (plan.ep > 1 or (plan.etp or 1) > 1):
        found["expert_parallel_degree"] = job.count("ep")
        found["expert_tensor_parallel_degree"] = round(plan.etp or 1)
    return found | (_pipeline(job, remarks) if plan.pp > 1 else {})


def _pipeline(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    plan = job.plan
    schedule = plan.schedule or "1f1b"
    if schedule not in _SCHEDULES:
        remarks.refuse("plan.schedule", f"{schedule} is no schedule of torchtitan's", f"{', '.join(_SCHEDULES)}")
    if plan.vpp > 1 and schedule in _ONE_STAGE:
        remarks.refuse("plan.vpp", f"{plan.vpp:g} chunks: {schedule} has one stage a rank")
    found: dict[str, Any] = {
        "pipeline_parallel_schedule": _SCHEDULES.get(schedule, "1F1B"),
        "pipeline_parallel_microbatch_size": job.count("micro_batch"),
    }
    if plan.first_stage_layers is not None or plan.last_stage_layers is not None or plan.split not in _SPLITS:
        remarks.refuse("plan.split", "stages other than even ones, with one layer fewer at the ends or not")
    first, last = _SPLITS.get(plan.split or "even", (0, 0))
    found["pipeline_parallel_first_stage_less_layers"] = first
    found["pipeline_parallel_last_stage_less_layers"] = last
    if schedule not in _ONE_STAGE:
        layers = sum(kind.count for kind in job.model.layers) + first + last
        found["pipeline_parallel_layers_per_stage"] = math.ceil(layers / (plan.pp * plan.vpp))
    return found


TARGET = ExportTarget(
    name="torchtitan",
    title="TOML",
    version="torchtitan until 2026-02-23 (9810191bb)",
    suffix=".toml",
    stacks=("fsdp2",),
    options={
        "model": "model.name, model.flavor",
        "plan.dp": "data_parallel_shard_degree, data_parallel_replicate_degree",
        "plan.dp_replicate": "data_parallel_replicate_degree",
        "plan.tp": "tensor_parallel_degree",
        "plan.pp": "pipeline_parallel_degree",
        "plan.vpp": "pipeline_parallel_layers_per_stage",
        "plan.cp": "context_parallel_degree",
        "plan.cp_type": "context_parallel_rotate_method",
        "plan.ep": "expert_parallel_degree",
        "plan.etp": "expert_tensor_parallel_degree",
        "plan.micro_batch": "local_batch_size, pipeline_parallel_microbatch_size",
        "plan.zero": "fsdp_reshard_after_forward",
        "plan.recompute": "activation_checkpoint.mode",
        "plan.recompute_method": "uniform, one layer at a time",
        "plan.recompute_layers": "one layer at a time",
        "plan.offload": "enable_cpu_offload",
        "plan.offload_to": "the host's memory, always",
        "plan.schedule": "pipeline_parallel_schedule",
        "plan.split": "pipeline_parallel_first_stage_less_layers, pipeline_parallel_last_stage_less_layers",
        "plan.sequence_parallel": "tensor_parallel_degree, which cuts the sequence too",
        "workload.sequence": "seq_len",
        "workload.global_batch": "global_batch_size",
        "workload.tokens": "steps",
        "workload.precision": "model.converters, quantize.linear.float8.recipe_name",
        "workload.gradients": "mixed_precision_reduce, always fp32",
        "workload.optimizer": "optimizer.name",
    },
    elsewhere={"workload.kind": "a training program"},
    cannot={
        **NOWHERE,
        "plan.recompute_modules": "single operations are recomputed, not modules",
        "plan.offload_layers": "activations are not offloaded",
        "plan.first_stage_layers": "one layer fewer at an end, or none",
        "plan.last_stage_layers": "one layer fewer at an end, or none",
        "plan.order": "its mesh is tp, cp, dp and pp, innermost first",
        "workload.tuning": "adapters are no matter of this generation",
    },
    write=write,
)
