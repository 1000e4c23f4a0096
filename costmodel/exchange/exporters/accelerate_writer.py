"""A configuration of accelerate: YAML with the layout, whose batch stands in TrainingArguments beside it."""

from __future__ import annotations

from typing import Any

from costmodel.exchange.exporters.job import Job, TrainingRemarks
from costmodel.exchange.exporters.target import NOWHERE, ExportTarget, check_whole_layers
from costmodel.exchange.importers.launch.accelerate import EXCHANGES, STRATEGIES, VERSION
from costmodel.exchange.writing.document_text import document_text

_NARROW = {"bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}
_ARGUMENTS = "TrainingArguments, which --to hf writes"
CANNOT = {
    "plan.pp": "neither has a pipeline",
    "plan.vpp": "neither has a pipeline",
    "plan.schedule": "neither has a pipeline",
    "plan.split": "neither has a pipeline",
    "plan.first_stage_layers": "neither has a pipeline",
    "plan.last_stage_layers": "neither has a pipeline",
    "plan.ep": "the model decides it",
    "plan.etp": "the model decides it",
    "plan.recompute_modules": "whole layers are recomputed",
    "plan.recompute_layers": "all layers are recomputed",
    "plan.offload_layers": "activations are not offloaded",
    "plan.order": "its mesh is tp, cp and dp, innermost first",
    "plan.sequence_parallel": "the model's plan of tensor parallelism decides it",
    "workload.tuning": "adapters are a matter of the program: PEFT",
}


def write(job: Job, remarks: TrainingRemarks) -> str:
    """The YAML; what it cannot express is refused."""
    check_whole_layers(remarks)
    precision = job.workload.precision
    if precision not in _NARROW:
        remarks.refuse("workload.precision", f"{precision}: of accelerate's types bf16, fp16 and fp8 are written")
    found: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "MULTI_GPU" if job.stack == "ddp" else "FSDP",
        "num_machines": job.nodes,
        "num_processes": job.accelerators,
        "machine_rank": 0,
        "mixed_precision": _NARROW.get(precision, "bf16"),
    }
    if job.stack == "ddp" and job.plan.dp_replicate > 1:
        remarks.refuse("plan.dp_replicate", "nothing is sharded: every rank is a replica")
    if job.stack != "ddp":
        found["fsdp_config"] = _sharded(job, remarks)
    if job.stack == "fsdp2":
        found["parallelism_config"] = _degrees(job, remarks)
    elif job.plan.tp > 1 or job.plan.cp > 1:
        remarks.refuse("plan.tp", "parallelism_config needs version 2 of FSDP", "--set stack=fsdp2")
    remarks.note(
        f"in the TrainingArguments beside it (--to hf): per_device_train_batch_size {job.count('micro_batch')}, "
        f"gradient_accumulation_steps {job.accumulation}"
    )
    return document_text(found, {})


def _sharded(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    plan = job.plan
    offloaded = sorted(plan.offload)
    if offloaded not in ([], ["optimizer", "parameters"]):
        hint = "--set 'plan.offload=[optimizer, parameters]'"
        remarks.refuse("plan.offload", f"[{', '.join(offloaded)}]: FSDP offloads a shard with its optimizer", hint)
    if offloaded and plan.offload_to != "cpu":
        remarks.refuse("plan.offload_to", "FSDP offloads to the host's memory alone")
    found: dict[str, Any] = {"fsdp_version": 2 if job.stack == "fsdp2" else 1}
    if job.stack == "fsdp2":
        if plan.zero not in (2, 3):
            remarks.refuse("plan.zero", f"{plan.zero}: FSDP 2 has 3, or 2")
        found["fsdp_reshard_after_forward"] = plan.zero == 3
    else:
        found["fsdp_sharding_strategy"] = _strategy(job, remarks)
    found |= {
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_offload_params": bool(offloaded),
        "fsdp_activation_checkpointing": plan.recompute == "full",
    }
    if plan.recompute == "selective":
        remarks.refuse("plan.recompute", "selective: whole layers are recomputed, or nothing")
    return found


def _strategy(job: Job, remarks: TrainingRemarks) -> str:
    plan = job.plan
    hybrid = plan.dp_replicate > 1
    if hybrid and plan.dp_replicate != job.nodes:
        remarks.refuse("plan.dp_replicate", f"{plan.dp_replicate:g}: FSDP 1 has a replica for each node, {job.nodes}")
    wanted = (plan.zero, hybrid)
    found = next((name for name, meant in STRATEGIES.items() if meant == wanted), None)
    if found is None:
        remarks.refuse("plan.zero", f"{plan.zero}: FSDP 1 has 3, 2 and 0")
    return found or "FULL_SHARD"


def _degrees(job: Job, remarks: TrainingRemarks) -> dict[str, int | str]:
    plan, name = job.plan, "parallelism_config_"
    found: dict[str, int | str] = {
        f"{name}dp_replicate_size": job.count("dp_replicate"),
        f"{name}dp_shard_size": round((plan.dp or 1) / plan.dp_replicate),
        f"{name}tp_size": job.count("tp"),
        f"{name}cp_size": job.count("cp"),
    }
    if plan.cp > 1:
        strategy = next((word for word, ours in EXCHANGES.items() if ours == plan.cp_type), None)
        if strategy is None:
            remarks.refuse("plan.cp_type", f"{plan.cp_type}: ring attention of PyTorch has all-gather and p2p")
        found[f"{name}cp_comm_strategy"] = strategy or "allgather"
    return found


TARGET = ExportTarget(
    name="accelerate",
    title="YAML",
    version=VERSION,
    suffix=".yaml",
    stacks=("fsdp2", "fsdp1", "transformers-fsdp", "ddp"),
    options={
        "plan.dp": "num_processes, parallelism_config_dp_shard_size",
        "plan.dp_replicate": "parallelism_config_dp_replicate_size, HYBRID_SHARD",
        "plan.tp": "parallelism_config_tp_size",
        "plan.cp": "parallelism_config_cp_size",
        "plan.cp_type": "parallelism_config_cp_comm_strategy",
        "plan.zero": "fsdp_sharding_strategy, fsdp_reshard_after_forward",
        "plan.recompute": "fsdp_activation_checkpointing",
        "plan.recompute_method": "uniform, one layer at a time",
        "plan.recompute_layers": "one layer at a time",
        "plan.offload": "fsdp_offload_params",
        "plan.offload_to": "the host's memory, always",
        "workload.precision": "mixed_precision",
    },
    elsewhere={
        "model": "the program",
        "plan.micro_batch": _ARGUMENTS,
        "workload.kind": "a training program",
        "workload.sequence": "the program, or max_length of an SFTConfig",
        "workload.global_batch": _ARGUMENTS,
        "workload.tokens": _ARGUMENTS,
        "workload.optimizer": _ARGUMENTS,
        "workload.gradients": "the engine: as of the stack",
    },
    cannot={**NOWHERE} | {key: reason for key, reason in CANNOT.items() if key != "plan.recompute_layers"},
    write=write,
)
