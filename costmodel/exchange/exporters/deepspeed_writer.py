"""A configuration of DeepSpeed: JSON with all three keys of the batch, nothing left to auto."""

from __future__ import annotations

import json
from typing import Any

from costmodel.exchange.exporters.job import Job, TrainingRemarks
from costmodel.exchange.exporters.target import NOWHERE, ExportTarget
from costmodel.exchange.importers.launch.deepspeed import GRADIENTS, OPTIMIZERS, VERSION

_NAMES = {"adamw": "AdamW", "lion": "Lion", "muon": "Muon"}
_OF_PROGRAM = "of the program that calls deepspeed.initialize"


def write(job: Job, remarks: TrainingRemarks) -> str:
    """The JSON; what it cannot express is refused."""
    return json.dumps(configuration(job, remarks), indent=2) + "\n"


def configuration(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    """The keys of a job."""
    plan, precision = job.plan, job.workload.precision
    found: dict[str, Any] = {
        "train_batch_size": round(job.workload.global_batch),
        "train_micro_batch_size_per_gpu": job.count("micro_batch"),
        "gradient_accumulation_steps": job.accumulation,
        "zero_optimization": _sharding(job),
    }
    if precision not in ("bf16", "fp16"):
        remarks.refuse("workload.precision", f"{precision} is no type of DeepSpeed's")
    found["fp16" if precision == "fp16" else "bf16"] = {"enabled": True}
    if job.gradients not in GRADIENTS.values():
        remarks.refuse("workload.gradients", f"{job.gradients} is no type of gradients of DeepSpeed's")
    found["data_types"] = {"grad_accum_dtype": job.gradients}
    if job.optimizer not in OPTIMIZERS.values():
        remarks.refuse("workload.optimizer", f"{job.optimizer} is no optimizer of DeepSpeed's")
    found["optimizer"] = {"type": _NAMES.get(job.optimizer, "AdamW"), "params": {"lr": 1e-4}}
    remarks.note("yours to change: optimizer.params, with the learning rate")
    if plan.cp > 1 and plan.cp_type == "a2a":
        found["sequence_parallel_size"] = job.count("cp")
    elif plan.cp > 1:
        remarks.refuse("plan.cp_type", f"{plan.cp_type}: DeepSpeed has a2a alone", "--set plan.cp_type=a2a")
    return found


def _sharding(job: Job) -> dict[str, Any]:
    plan = job.plan
    found: dict[str, Any] = {"stage": plan.zero or 0, "overlap_comm": job.assume.overlap.dp != 0}
    device = {"device": plan.offload_to}
    if "optimizer" in plan.offload:
        found["offload_optimizer"] = device
    if "parameters" in plan.offload:
        found["offload_param"] = device
    return found


TARGET = ExportTarget(
    name="deepspeed",
    title="JSON",
    version=VERSION,
    suffix=".json",
    stacks=("deepspeed", "transformers-deepspeed"),
    options={
        "plan.micro_batch": "train_micro_batch_size_per_gpu",
        "plan.zero": "zero_optimization.stage",
        "plan.offload": "zero_optimization.offload_optimizer, zero_optimization.offload_param",
        "plan.offload_to": "zero_optimization.offload_optimizer.device, zero_optimization.offload_param.device",
        "plan.cp": "sequence_parallel_size",
        "plan.cp_type": "sequence_parallel_size, always a2a",
        "workload.global_batch": "train_batch_size, gradient_accumulation_steps",
        "workload.precision": "bf16.enabled, fp16.enabled",
        "workload.gradients": "data_types.grad_accum_dtype",
        "workload.optimizer": "optimizer.type",
    },
    elsewhere={
        "model": f"the model {_OF_PROGRAM}",
        "plan.dp": "the launcher: deepspeed --num_nodes --num_gpus",
        "workload.kind": "a training program",
        "workload.sequence": f"the data {_OF_PROGRAM}",
        "workload.tokens": f"the steps {_OF_PROGRAM}",
    },
    cannot={
        **NOWHERE,
        "plan.tp": "the model cuts itself",
        "plan.dp_replicate": "MiCS, its replicas of shards, was removed",
        "plan.pp": "the model is a PipelineModule with its stages",
        "plan.vpp": "its pipeline has one chunk a rank",
        "plan.ep": "layers of experts state it themselves",
        "plan.etp": "layers of experts state it themselves",
        "plan.recompute": "a call in the model, such as gradient_checkpointing_enable(), decides it",
        "plan.recompute_modules": "a call in the model decides it",
        "plan.recompute_layers": "a call in the model decides it",
        "plan.recompute_method": "a call in the model decides it",
        "plan.offload_layers": "it offloads no activations",
        "plan.schedule": "its pipeline has one schedule",
        "plan.sequence_parallel": "the model cuts itself",
        "plan.order": "the program lays out its groups",
        "plan.split": "the model is a PipelineModule with its stages",
        "plan.first_stage_layers": "the model is a PipelineModule with its stages",
        "plan.last_stage_layers": "the model is a PipelineModule with its stages",
        "workload.tuning": "adapters are a matter of the model",
    },
    write=write,
    comment="",
)
