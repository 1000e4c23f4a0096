"""Overrides of Megatron-Bridge: one word a key, behind a recipe that states the model."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.exchange.exporters.job import Job, TrainingRemarks
from costmodel.exchange.exporters.target import NOWHERE, ExportTarget
from costmodel.exchange.importers.launch.bridge import DEGREES, ENDS, OVERLAPS, PRECISIONS, SPLITS, VERSION
from costmodel.exchange.importers.megatron.words import EXCHANGES, MODULES, OPTIMIZERS, SHARDED, spelling


def write(job: Job, remarks: TrainingRemarks) -> str:
    """The overrides, one a line; what they cannot express is refused."""
    words = [*_layout(job, remarks), *_sharding(job, remarks), *_recompute(job, remarks), *_workload(job, remarks)]
    remarks.note("the model is that of the recipe; yours to add: data, tokenizer and learning rate")
    return "".join(f"{word}\n" for word in words)


def _layout(job: Job, remarks: TrainingRemarks) -> Iterator[str]:
    plan, experts = job.plan, job.model.has_experts
    for key in ("tp", "pp", "cp", *(("ep",) if experts else ())):
        yield f"{DEGREES[f'plan.{key}']}={job.count(key)}"
    if experts:
        yield f"{DEGREES['plan.etp']}={round(plan.etp or 1)}"
        yield f"model.moe_token_dispatcher_type={'flex' if job.deduplicated else 'alltoall'}"
    yield f"model.sequence_parallel={str(bool(plan.sequence_parallel) and plan.tp > 1).lower()}"
    if plan.cp > 1:
        yield f"model.cp_comm_type={spelling(EXCHANGES, plan.cp_type or 'p2p')}"
    if plan.order == "tp-cp-pp-dp":
        yield "dist.use_tp_pp_dp_mapping=true"
    elif plan.order != "tp-cp-dp-pp" and plan.cp > 1:
        remarks.refuse("plan.order", f"{plan.order} is no order of Megatron-Bridge")
    if plan.pp > 1:
        yield from _pipeline(job, remarks)


def _pipeline(job: Job, remarks: TrainingRemarks) -> Iterator[str]:
    plan = job.plan
    if plan.schedule not in ("1f1b", "interleaved", None):
        remarks.refuse("plan.schedule", f"{plan.schedule} is no schedule of Megatron-Bridge", "1f1b, or interleaved")
    if plan.vpp > 1:
        yield f"{DEGREES['plan.vpp']}={job.count('vpp')}"
    for key in ("first_stage_layers", "last_stage_layers"):
        layers = getattr(plan, key)
        if layers is not None:
            yield f"{DEGREES[f'plan.{key}']}={layers:.0f}"
    if plan.split in ("spread", "full-chunks"):
        remarks.refuse("plan.split", f"{plan.split} needs a layout string, which is not written")
    ends = next((ends for ends, split in SPLITS.items() if split == plan.split), (False, False))
    yield from (f"{name}=true" for name, on in zip(ENDS, ends, strict=True) if on)


def _sharding(job: Job, remarks: TrainingRemarks) -> Iterator[str]:
    plan = job.plan
    yield f"ddp.use_distributed_optimizer={str(bool(plan.zero)).lower()}"
    if plan.zero in (2, 3):
        yield "dist.use_megatron_fsdp=true"
        yield f"ddp.data_parallel_sharding_strategy={spelling(SHARDED, plan.zero)}"
        if plan.order == "tp-cp-pp-dp" and plan.pp > 1:
            remarks.refuse("plan.order", "tp-cp-pp-dp does not go with Megatron-FSDP")
    if plan.dp_replicate > 1:
        yield f"{DEGREES['plan.dp_replicate']}={job.count('dp_replicate')}"
    if "parameters" in plan.offload or (plan.offload and plan.offload_to != "cpu"):
        remarks.refuse(
            "plan.offload", "optimizer and activations are offloaded to the host's memory, parameters are not"
        )
    if "optimizer" in plan.offload:
        yield "optimizer.optimizer_cpu_offload=true"
    if "activations" in plan.offload:
        layers = sum(kind.count for kind in job.model.layers)
        wanted = layers if plan.offload_layers is None else plan.offload_layers
        if wanted >= layers:
            remarks.refuse("plan.offload_layers", "fewer than all layers are offloaded")
        yield "model.cpu_offloading=true"
        yield f"model.cpu_offloading_num_layers={wanted:.0f}"


def _recompute(job: Job, remarks: TrainingRemarks) -> Iterator[str]:
    plan = job.plan
    if plan.recompute == "none":
        yield "model.recompute_granularity=null"
        return
    yield f"model.recompute_granularity={plan.recompute}"
    if plan.recompute == "full":
        every = plan.recompute_layers is None
        yield f"model.recompute_method={'uniform' if every else plan.recompute_method}"
        yield f"model.recompute_num_layers={1 if every else round(plan.recompute_layers or 1)}"
    elif plan.recompute_modules is not None:
        lost = [name for name in plan.recompute_modules if name not in MODULES.values()]
        if lost:
            remarks.refuse("plan.recompute_modules", f"no module of Megatron-Bridge is {', '.join(lost)}")
        names = [spelling(MODULES, name) for name in plan.recompute_modules if name in MODULES.values()]
        yield f"model.recompute_modules=[{','.join(names)}]"


def _workload(job: Job, remarks: TrainingRemarks) -> Iterator[str]:
    workload = job.workload
    yield f"model.seq_length={workload.sequence:.0f}"
    yield f"train.micro_batch_size={job.count('micro_batch')}"
    yield f"train.global_batch_size={workload.global_batch:.0f}"
    if workload.tokens is not None:
        yield f"train.train_iters={max(1, round(workload.tokens / workload.sequence / workload.global_batch))}"
    if workload.precision not in PRECISIONS.values():
        remarks.refuse("workload.precision", f"{workload.precision} is no recipe of Megatron-Bridge")
    else:
        yield f"mixed_precision={spelling(PRECISIONS, workload.precision)}"
    usual = "fp16" if workload.precision == "fp16" else "fp32"
    if job.gradients != usual:
        remarks.refuse("workload.gradients", f"{job.gradients}: the recipe of {workload.precision} has {usual}")
    if job.optimizer not in OPTIMIZERS.values():
        remarks.refuse("workload.optimizer", f"{job.optimizer} is no optimizer of Megatron-Bridge")
    else:
        yield f"optimizer.optimizer={spelling(OPTIMIZERS, job.optimizer)}"
    for key, name in OVERLAPS.items():
        if key == "tp" and (job.plan.tp == 1 or not job.plan.sequence_parallel):
            continue
        if key == "weights" and not job.plan.zero:
            continue
        yield f"{name}={str(getattr(job.assume.overlap, key) != 0).lower()}"


TARGET = ExportTarget(
    name="bridge",
    title="overrides",
    version=VERSION,
    suffix=".txt",
    stacks=("megatron-core",),
    options={
        **{path: name for path, name in DEGREES.items() if path != "steps"},
        "plan.schedule": "1f1b, or interleaved with several chunks",
        "plan.split": " and ".join(ENDS),
        "plan.cp_type": "model.cp_comm_type",
        "plan.zero": "ddp.use_distributed_optimizer, dist.use_megatron_fsdp, ddp.data_parallel_sharding_strategy",
        "plan.recompute": "model.recompute_granularity",
        "plan.recompute_modules": "model.recompute_modules",
        "plan.recompute_method": "model.recompute_method",
        "plan.recompute_layers": "model.recompute_num_layers",
        "plan.offload": "optimizer.optimizer_cpu_offload, model.cpu_offloading",
        "plan.offload_to": "the host's memory, always",
        "plan.offload_layers": "model.cpu_offloading_num_layers",
        "plan.sequence_parallel": "model.sequence_parallel",
        "plan.order": "dist.use_tp_pp_dp_mapping",
        "workload.tokens": "train.train_iters",
        "workload.precision": "mixed_precision",
        "workload.gradients": "mixed_precision, whose recipes reduce in fp32",
        "workload.optimizer": "optimizer.optimizer",
    },
    elsewhere={"model": "the recipe", "plan.dp": "the launcher", "workload.kind": "a training program"},
    cannot={**NOWHERE, "workload.tuning": "the recipe has the adapters"},
    write=write,
)
