"""TrainingArguments of transformers: YAML with batch, types and optimizer, whose layout stands in accelerate's."""

from __future__ import annotations

from typing import Any

from costmodel.exchange.exporters import accelerate_writer
from costmodel.exchange.exporters.job import Job, TrainingRemarks
from costmodel.exchange.exporters.target import ExportTarget
from costmodel.exchange.importers.launch.training_arguments import OPTIMIZERS, VERSION
from costmodel.exchange.writing.document_text import document_text

_LAYOUT = "the configuration of accelerate, which --to accelerate writes"


def write(job: Job, remarks: TrainingRemarks) -> str:
    """The YAML; what neither it nor accelerate's can express is refused."""
    accelerate_writer.write(job, TrainingRemarks(job, remarks.faults))
    workload = job.workload
    optimizer = next((name for name, ours in OPTIMIZERS.items() if ours == job.optimizer), None)
    if optimizer is None:
        remarks.refuse("workload.optimizer", f"{job.optimizer} is no optimizer of transformers")
    found: dict[str, Any] = {
        "output_dir": "out",
        "per_device_train_batch_size": job.count("micro_batch"),
        "gradient_accumulation_steps": job.accumulation,
        "optim": optimizer or "adamw_torch_fused",
    }
    if workload.precision in ("bf16", "fp16"):
        found[workload.precision] = True
    elif workload.precision in ("fp32", "tf32"):
        remarks.refuse("workload.precision", f"{workload.precision}: arguments without bf16 and fp16 are not written")
    if job.stack == "ddp":
        found["activation_checkpointing"] = job.plan.recompute == "full"
        if job.plan.recompute == "selective":
            remarks.refuse("plan.recompute", "selective: whole layers are recomputed, or nothing")
    if workload.tokens is not None:
        found["max_steps"] = max(1, round(workload.tokens / workload.sequence / workload.global_batch))
    remarks.note(f"tokens of a sequence are your program's: {workload.sequence:,.0f}; learning rate and data too")
    return document_text(found, {})


TARGET = ExportTarget(
    name="hf",
    title="TrainingArguments",
    version=VERSION,
    suffix=".yaml",
    stacks=accelerate_writer.TARGET.stacks,
    options={
        "plan.micro_batch": "per_device_train_batch_size",
        "plan.recompute": "activation_checkpointing",
        "plan.recompute_method": "uniform, one layer at a time",
        "plan.recompute_layers": "one layer at a time",
        "workload.global_batch": "gradient_accumulation_steps",
        "workload.tokens": "max_steps",
        "workload.precision": "bf16, fp16",
        "workload.optimizer": "optim",
    },
    elsewhere={
        "model": "the program",
        **dict.fromkeys(
            ("plan.dp", "plan.dp_replicate", "plan.tp", "plan.cp", "plan.cp_type", "plan.zero", "plan.offload",
             "plan.offload_to"),
            _LAYOUT,
        ),
        "workload.kind": "a training program",
        "workload.sequence": "the program, or max_length of an SFTConfig",
        "workload.gradients": "the engine: as of the stack",
    },
    cannot=accelerate_writer.TARGET.cannot,
    write=write,
)  # fmt: skip
