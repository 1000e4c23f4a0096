"""Options of Megatron-LM: a shell script that starts its training program."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.exchange.exporters import megatron_model
from costmodel.exchange.exporters.job import Job, TrainingRemarks
from costmodel.exchange.exporters.target import NOWHERE, ExportTarget
from costmodel.exchange.importers.megatron.table import VERSION
from costmodel.exchange.importers.megatron.words import (
    DEGREES,
    EXCHANGES,
    MODULES,
    OPTIMIZERS,
    OVERLAPS,
    RECIPES,
    SHARDED,
    spelling,
)

_SPLITS = {
    "lighter-ends": ("--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"),
    "lighter-first": ("--account-for-embedding-in-pipeline-split",),
    "lighter-last": ("--account-for-loss-in-pipeline-split",),
}
_GRADIENTS = {
    ("bf16", "fp32"): ["--accumulate-allreduce-grads-in-fp32"],
    ("bf16", "bf16"): ["--grad-reduce-in-bf16"],
    ("fp16", "fp32"): ["--accumulate-allreduce-grads-in-fp32"],
    ("fp16", "fp16"): [],
}
_YOURS = "yours to add: --data-path, --tokenizer-type with --tokenizer-model, --lr and its schedule, --save"
_OF_EXPERTS = "--moe-router-load-balancing-type, --moe-router-topk-scaling-factor"


def write(job: Job, remarks: TrainingRemarks) -> str:
    """The script; what it cannot express is refused."""
    groups = {
        "model": megatron_model.model_options(job.model, remarks),
        "layout": [
            *_layout(job, remarks),
            *_sharding(job, remarks),
            *_recompute(job, remarks),
            *_offload(job, remarks),
        ],
        "workload": [*_workload(job, remarks), *_types(job, remarks)],
        "software": [*_software(job, remarks)],
    }
    remarks.note(_YOURS)
    for left in _of_model(job):
        remarks.note(f"yours to add, of the model: {left}")
    lines = ["OPTIONS=("]
    for name, options in groups.items():
        lines += [f"    # {name}", *(f"    {option}" for option in options)]
    launch = f"torchrun --nproc-per-node {job.per_node} --nnodes {job.nodes} pretrain_gpt.py"
    return "\n".join([*lines, ")", f'{launch} "${{OPTIONS[@]}}" "$@"', ""])


def _of_model(job: Job) -> Iterator[str]:
    """What neither time nor memory follows from, so that no model document states it, though a checkpoint needs it."""
    if job.model.positions == "rotary":
        yield "--rotary-base (10,000 without it), and any scaling, as --use-rope-scaling"
    yield "--norm-epsilon (1e-5 without it)"
    if job.model.has_experts:
        yield _OF_EXPERTS


def _layout(job: Job, remarks: TrainingRemarks) -> Iterator[str]:
    plan, experts = job.plan, job.model.has_experts
    for key, name in DEGREES.items():
        if key != "ep" or experts:
            yield f"--{name} {job.count(key)}"
    if experts:
        yield f"--expert-tensor-parallel-size {round(plan.etp or 1)}"
    if plan.cp > 1:
        yield f"--cp-comm-type {spelling(EXCHANGES, plan.cp_type or 'p2p')}"
    if plan.tp > 1 and plan.sequence_parallel:
        yield "--sequence-parallel"
    if plan.pp > 1:
        yield from _pipeline(job, remarks)
    if plan.order == "tp-cp-pp-dp":
        yield "--use-tp-pp-dp-mapping"
    elif plan.order != "tp-cp-dp-pp" and plan.cp > 1:
        remarks.refuse("plan.order", f"{plan.order} is no order of Megatron-LM")


def _pipeline(job: Job, remarks: TrainingRemarks) -> Iterator[str]:
    plan = job.plan
    if plan.schedule not in ("1f1b", "interleaved", None):
        remarks.refuse("plan.schedule", f"{plan.schedule} is no schedule of Megatron-LM", "1f1b, or interleaved")
    if plan.vpp > 1:
        yield f"--num-virtual-stages-per-pipeline-rank {job.count('vpp')}"
    if plan.first_stage_layers is not None:
        yield f"--decoder-first-pipeline-num-layers {plan.first_stage_layers:.0f}"
    if plan.last_stage_layers is not None:
        yield f"--decoder-last-pipeline-num-layers {plan.last_stage_layers:.0f}"
    if plan.split in ("spread", "full-chunks"):
        hint = "plan.first_stage_layers and plan.last_stage_layers can be written"
        remarks.refuse("plan.split", f"{plan.split} needs a layout string, which is not written", hint)
    yield from _SPLITS.get(plan.split or "even", ())


def _sharding(job: Job, remarks: TrainingRemarks) -> Iterator[str]:
    if job.plan.zero == 1:
        yield "--use-distributed-optimizer"
    elif job.plan.zero:
        yield "--use-megatron-fsdp"
        yield f"--data-parallel-sharding-strategy {spelling(SHARDED, job.plan.zero)}"
        yield "--ckpt-format fsdp_dtensor"
        if job.plan.order == "tp-cp-pp-dp" and job.plan.pp > 1:
            remarks.refuse("plan.order", "tp-cp-pp-dp does not go with Megatron-FSDP")
    if job.plan.dp_replicate > 1:
        yield f"--num-distributed-optimizer-instances {job.count('dp_replicate')}"


def _recompute(job: Job, remarks: TrainingRemarks) -> Iterator[str]:
    plan = job.plan
    if plan.recompute in ("selective", "full"):
        yield f"--recompute-granularity {plan.recompute}"
    if plan.recompute == "full":
        method, layers = (
            ("uniform", 1.0) if plan.recompute_layers is None else (plan.recompute_method, plan.recompute_layers)
        )
        yield f"--recompute-method {method}"
        yield f"--recompute-num-layers {layers:.0f}"
    elif plan.recompute == "selective" and plan.recompute_modules is not None:
        lost = [name for name in plan.recompute_modules if name not in MODULES.values()]
        if lost:
            remarks.refuse("plan.recompute_modules", f"no module of Megatron-LM is {', '.join(lost)}")
        names = [spelling(MODULES, name) for name in plan.recompute_modules if name in MODULES.values()]
        yield f"--recompute-modules {' '.join(names)}"


def _offload(job: Job, remarks: TrainingRemarks) -> Iterator[str]:
    plan = job.plan
    if "parameters" in plan.offload:
        remarks.refuse("plan.offload", "Megatron-LM does not offload parameters")
    if plan.offload and plan.offload_to != "cpu":
        remarks.refuse("plan.offload_to", "Megatron-LM offloads to the host's memory alone")
    if "optimizer" in plan.offload:
        yield "--optimizer-cpu-offload"
        yield "--use-precision-aware-optimizer"
    if "activations" in plan.offload:
        layers = sum(kind.count for kind in job.model.layers)
        wanted = layers if plan.offload_layers is None else plan.offload_layers
        if wanted >= layers:
            hint = f"--set plan.offload_layers={layers - 1:.0f}"
            remarks.refuse("plan.offload_layers", "Megatron-LM offloads fewer than all layers", hint)
        yield f"--cpu-offloading-num-layers {wanted:.0f}"


def _workload(job: Job, remarks: TrainingRemarks) -> Iterator[str]:
    workload = job.workload
    yield f"--seq-length {workload.sequence:.0f}"
    yield f"--micro-batch-size {job.count('micro_batch')}"
    yield f"--global-batch-size {workload.global_batch:.0f}"
    if workload.tokens is None:
        remarks.note("yours to add: --train-iters or --train-samples, since the scenario has no workload.tokens")
        return
    samples = round(workload.tokens / workload.sequence)
    yield f"--train-samples {samples}"


def _types(job: Job, remarks: TrainingRemarks) -> Iterator[str]:
    precision = job.workload.precision
    wide = "fp16" if precision == "fp16" else "bf16"
    yield f"--{wide}"
    if precision in RECIPES.values():
        yield "--fp8-format hybrid"
        yield f"--fp8-recipe {spelling(RECIPES, precision)}"
    elif precision == "nvfp4":
        yield "--fp4-format e2m1"
        yield "--fp4-recipe nvfp4"
    elif precision in ("fp32", "tf32"):
        remarks.refuse("workload.precision", f"{precision}: a script without --bf16 and --fp16 is not written")
    elif precision != wide:
        remarks.refuse("workload.precision", f"{precision} is no recipe of Megatron-LM")
    if (wide, job.gradients) not in _GRADIENTS:
        remarks.refuse("workload.gradients", f"{job.gradients} beside {wide} is no choice of Megatron-LM")
    yield from _GRADIENTS.get((wide, job.gradients), [])
    optimizer = "adamw" if job.optimizer == "adamw-bf16" else job.optimizer
    if optimizer not in OPTIMIZERS.values():
        remarks.refuse("workload.optimizer", f"{job.optimizer} is no optimizer of Megatron-LM")
    else:
        yield f"--optimizer {spelling(OPTIMIZERS, optimizer)}"
    if job.optimizer == "adamw-bf16":
        if "optimizer" not in job.plan.offload:
            yield "--use-precision-aware-optimizer"
        yield "--exp-avg-dtype bf16"
        yield "--exp-avg-sq-dtype bf16"


def _software(job: Job, remarks: TrainingRemarks) -> Iterator[str]:
    """Overlap and dispatch, which a stack has and single options switch on."""
    yield "--attention-dropout 0.0"
    yield "--hidden-dropout 0.0"
    if job.model.has_experts:
        yield f"--moe-token-dispatcher-type {'flex' if job.deduplicated else 'alltoall'}"
        if job.assume.experts.capacity is not None:
            yield f"--moe-expert-capacity-factor {job.assume.experts.capacity:g}"
    if job.stack != "megatron-core":
        return
    for name, key in OVERLAPS.items():
        if getattr(job.assume.overlap, key) == 0 or (key == "tp" and job.plan.tp == 1):
            continue
        if key == "weights" and not job.plan.zero:
            continue
        if key == "tp" and not job.plan.sequence_parallel:
            remarks.note("--tp-comm-overlap needs --sequence-parallel: assume.overlap.tp=0 states that nothing hides")
            continue
        yield f"--{name}"


TARGET = ExportTarget(
    name="megatron",
    title="a script",
    version=VERSION,
    suffix=".sh",
    stacks=("megatron-core", "megatron-lm"),
    options={
        **megatron_model.SAYS,
        **{f"plan.{key}": f"--{name}" for key, name in DEGREES.items()},
        "plan.dp": "--nproc-per-node and --nnodes of the launcher",
        "plan.etp": "--expert-tensor-parallel-size",
        "plan.vpp": "--num-virtual-stages-per-pipeline-rank",
        "plan.schedule": "1f1b, or interleaved with several chunks",
        "plan.split": "--account-for-embedding-in-pipeline-split, --account-for-loss-in-pipeline-split",
        "plan.first_stage_layers": "--decoder-first-pipeline-num-layers",
        "plan.last_stage_layers": "--decoder-last-pipeline-num-layers",
        "plan.micro_batch": "--micro-batch-size",
        "plan.cp_type": "--cp-comm-type",
        "plan.dp_replicate": "--num-distributed-optimizer-instances",
        "plan.zero": "--use-distributed-optimizer, --use-megatron-fsdp, --data-parallel-sharding-strategy",
        "plan.recompute": "--recompute-granularity",
        "plan.recompute_modules": "--recompute-modules",
        "plan.recompute_method": "--recompute-method",
        "plan.recompute_layers": "--recompute-num-layers",
        "plan.offload": "--optimizer-cpu-offload, --cpu-offloading-num-layers",
        "plan.offload_to": "the host's memory, always",
        "plan.offload_layers": "--cpu-offloading-num-layers",
        "plan.sequence_parallel": "--sequence-parallel",
        "plan.order": "--use-tp-pp-dp-mapping",
        "workload.kind": "a training program",
        "workload.sequence": "--seq-length",
        "workload.global_batch": "--global-batch-size",
        "workload.tokens": "--train-samples",
        "workload.precision": "--bf16, --fp16, --fp8-format, --fp8-recipe, --fp4-format",
        "workload.gradients": "--accumulate-allreduce-grads-in-fp32, --grad-reduce-in-bf16",
        "workload.optimizer": "--optimizer, --use-precision-aware-optimizer, --exp-avg-dtype",
    },
    elsewhere=dict.fromkeys(
        ("model.stored", "model.stored_experts", "model.stored_cache"), "training has types of its own"
    ),
    cannot={**NOWHERE, **megatron_model.CANNOT, "workload.tuning": "adapters are matters of Megatron-Bridge"},
    write=write,
)
