"""A job as options of Megatron-LM: a shell script that starts its training program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from costmodel.exchange.foreign_keys import because
from costmodel.exchange.megatron.model import CANNOT, written_model
from costmodel.exchange.megatron.options import (
    MODULES,
    OF_LAYOUT,
    OF_MODEL,
    OF_SOFTWARE,
    OF_WORKLOAD,
    OPTIMIZERS,
    OVERLAPS,
    RECIPES,
    SHARDED,
    TABLE,
    VERSION,
    spelling,
)  # fmt: skip
from costmodel.exchange.option_rows import Table, written
from costmodel.exchange.training.job import NOWHERE, Job, TrainingFormat, TrainingRemarks

TITLE = "options of Megatron-LM"
_ENDS = ("account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split")
_NAME = "Megatron-LM"
_GRADIENTS = {
    ("bf16", "fp32"): ["accumulate-allreduce-grads-in-fp32"],
    ("bf16", "bf16"): ["grad-reduce-in-bf16"],
    ("fp16", "fp32"): ["accumulate-allreduce-grads-in-fp32"],
    ("fp16", "fp16"): [],
}
_YOURS = "yours to add: --data-path, --tokenizer-type with --tokenizer-model, --lr and its schedule, --save"
_OF_EXPERTS = "--moe-router-load-balancing-type, --moe-router-topk-scaling-factor"


def write_megatron(job: Job, remarks: TrainingRemarks) -> str:
    """The launch script for a job; keys that it cannot express are faults."""
    check_pipeline(job, remarks, _NAME)
    groups: tuple[tuple[str, Table, dict[str, Any]], ...] = (
        ("model", OF_MODEL, written_model(job.model, remarks)),
        (
            "layout",
            OF_LAYOUT,
            {**counted_ends(job, _ENDS), **_sharding_options(job), **_recompute_options(job, remarks)},
        ),
        ("workload", OF_WORKLOAD, {**_token_options(job, remarks), **_type_options(job, remarks)}),
        ("software", OF_SOFTWARE, _software(job, remarks)),
    )
    remarks.note(_YOURS)
    for left in _of_model(job):
        remarks.note(f"yours to add, of the model: {left}")
    lines = ["OPTIONS=("]
    for name, table, beside in groups:
        options = written(table, job, remarks.refuse, beside)
        lines += [f"    # {name}", *(f"    --{option}{_value_behind(value)}" for option, value in options.items())]
    launch = f"torchrun --nproc-per-node {job.per_node} --nnodes {job.nodes} pretrain_gpt.py"
    return "\n".join([*lines, ")", f'{launch} "${{OPTIONS[@]}}" "$@"', ""])


def _value_behind(value: Any) -> str:
    return "" if value is True else f" {value}"


def _of_model(job: Job) -> Iterator[str]:
    """Options that a checkpoint needs and a model document omits, because they affect neither time nor memory."""
    if job.model.positions == "rotary":
        yield "--rotary-base (10,000 without it), and any scaling, as --use-rope-scaling"
    yield "--norm-epsilon (1e-5 without it)"
    if job.model.has_experts:
        yield _OF_EXPERTS


def check_pipeline(job: Job, remarks: TrainingRemarks, software: str) -> None:
    """Records faults for pipeline schedules and splits that software based on Megatron-LM does not support."""
    plan = job.plan
    if plan.pp > 1 and plan.schedule not in ("1f1b", "interleaved", None):
        remarks.refuse("plan.schedule", f"{plan.schedule} is no schedule of {software}", "1f1b, or interleaved")
    if plan.pp > 1 and plan.split in ("spread", "full-chunks"):
        hint = "plan.first_stage_layers and plan.last_stage_layers can be written"
        remarks.refuse("plan.split", f"{plan.split} needs a layout string, which is not written", hint)
    if plan.zero in (2, 3) and plan.order == "tp-cp-pp-dp" and plan.pp > 1:
        remarks.refuse("plan.order", "tp-cp-pp-dp does not go with Megatron-FSDP")


def counted_ends(job: Job, ends: tuple[str, str]) -> dict[str, Any]:
    """Options that count embedding and loss as layers of the first and the last stage."""
    on = {"lighter-ends": ends, "lighter-first": ends[:1], "lighter-last": ends[1:]}
    return dict.fromkeys(on.get(job.plan.split or "even", ()) if job.plan.pp > 1 else (), True)


def recomputed_modules(job: Job, remarks: TrainingRemarks, software: str) -> list[str] | None:
    """The modules that are recomputed, if the plan states them."""
    plan = job.plan
    if plan.recompute != "selective" or plan.recompute_modules is None:
        return None
    lost = [name for name in plan.recompute_modules if name not in MODULES.values()]
    if lost:
        remarks.refuse("plan.recompute_modules", f"no module of {software} is {', '.join(lost)}")
    return [spelling(MODULES, name) for name in plan.recompute_modules if name in MODULES.values()]


def offloaded_layers(job: Job, remarks: TrainingRemarks, software: str) -> int | None:
    """The number of layers whose activations are offloaded to the host; faults for unsupported offloading."""
    plan = job.plan
    if "parameters" in plan.offload:
        remarks.refuse("plan.offload", f"{software} does not offload parameters")
    if plan.offload and plan.offload_to != "cpu":
        remarks.refuse("plan.offload_to", f"{software} offloads to the host's memory alone")
    if "activations" not in plan.offload:
        return None
    layers = sum(kind.count for kind in job.model.layers)
    wanted = layers if plan.offload_layers is None else plan.offload_layers
    if wanted >= layers:
        hint = f"--set plan.offload_layers={layers - 1:.0f}"
        remarks.refuse("plan.offload_layers", f"{software} offloads fewer than all layers", hint)
    return round(wanted)


def _sharding_options(job: Job) -> dict[str, Any]:
    """Megatron options for the ZeRO stage."""
    zero = job.plan.zero
    if not zero:
        return {}
    if zero == 1:
        return {"use-distributed-optimizer": True}
    strategy = spelling(SHARDED, zero)
    return {"use-megatron-fsdp": True, "data-parallel-sharding-strategy": strategy, "ckpt-format": "fsdp_dtensor"}


def _recompute_options(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    """Options for recomputed modules and for offloading to the host."""
    found: dict[str, Any] = {"optimizer-cpu-offload": True} if "optimizer" in job.plan.offload else {}
    modules, layers = recomputed_modules(job, remarks, _NAME), offloaded_layers(job, remarks, _NAME)
    if modules is not None:
        found["recompute-modules"] = " ".join(modules)
    return found | ({"cpu-offloading-num-layers": layers} if layers is not None else {})


def _token_options(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    tokens = job.workload.tokens
    if tokens is None:
        remarks.note("yours to add: --train-iters or --train-samples, since the scenario has no workload.tokens")
        return {}
    return {"train-samples": round(tokens / job.workload.sequence)}


def _type_options(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    """Megatron options for the precision."""
    precision = job.workload.precision
    wide = "fp16" if precision == "fp16" else "bf16"
    found: dict[str, Any] = {wide: True}
    if precision in RECIPES.values():
        found |= {"fp8-format": "hybrid", "fp8-recipe": spelling(RECIPES, precision)}
    elif precision == "nvfp4":
        found |= {"fp4-format": "e2m1", "fp4-recipe": "nvfp4"}
    elif precision in ("fp32", "tf32"):
        remarks.refuse("workload.precision", f"{precision}: a script without --bf16 and --fp16 is not written")
    elif precision != wide:
        remarks.refuse("workload.precision", f"{precision} is no recipe of Megatron-LM")
    if (wide, job.gradients) not in _GRADIENTS:
        remarks.refuse("workload.gradients", f"{job.gradients} beside {wide} is no choice of Megatron-LM")
    found |= dict.fromkeys(_GRADIENTS.get((wide, job.gradients), []), True)
    optimizer = "adamw" if job.optimizer == "adamw-bf16" else job.optimizer
    if optimizer not in OPTIMIZERS.values():
        remarks.refuse("workload.optimizer", f"{job.optimizer} is no optimizer of Megatron-LM")
    else:
        found["optimizer"] = spelling(OPTIMIZERS, optimizer)
    if job.optimizer == "adamw-bf16" or "optimizer" in job.plan.offload:
        found["use-precision-aware-optimizer"] = True
    if job.optimizer == "adamw-bf16":
        found |= {"exp-avg-dtype": "bf16", "exp-avg-sq-dtype": "bf16"}
    return found


def _software(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    """Options for dropout, token dispatch and communication overlap."""
    found: dict[str, Any] = {"attention-dropout": "0.0", "hidden-dropout": "0.0"}
    if job.model.has_experts:
        found["moe-token-dispatcher-type"] = "flex" if job.deduplicated else "alltoall"
        found |= {"moe-grouped-gemm": True} if job.grouped else {}
        if job.assume.experts.capacity is not None:
            found["moe-expert-capacity-factor"] = f"{job.assume.experts.capacity:g}"
    if job.stack != "megatron-core":
        return found
    for name, key in OVERLAPS.items():
        if getattr(job.assume.overlap, key) == 0 or (key == "tp" and job.plan.tp == 1):
            continue
        if key == "weights" and not job.plan.zero:
            continue
        if key == "tp" and not job.plan.sequence_parallel:
            remarks.note("--tp-comm-overlap needs --sequence-parallel: assume.overlap.tp=0 states that nothing hides")
            continue
        found[name] = True
    return found


FORMAT = TrainingFormat(
    name="megatron",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    elsewhere={
        "plan.dp": "--nproc-per-node and --nnodes of the launcher",
        "workload.kind": "a training program",
        **because("costmodel only", "schema source sources note check", "model"),
        **because("a name is for the reader of the file to give", "name title", "model"),
        **because("training has types of its own", "stored stored_experts stored_wide stored_cache", "model"),
        "model.published": "no parameters are counted in a script",
    },
    fixed={
        "plan.schedule": "1f1b, or interleaved with several chunks",
        "plan.offload_to": "the host is the only place",
        "model.prediction.layer": "the last layer once more",
        "model.prediction.depth": "--mtp-num-layers, with the layer",
        "model.layers.shared_output": "no model of Megatron-LM has one",
        "model.layers.state_space.conv": "4 in its code",
        "model.layers.state_space.chunk": "128 in its code",
        "model.layers.mlp": "a layer that has no experts",
        "model.layers.attention": "a layer that has no latent attention",
        "model.layers.experts.biases": "as those of the MLP, --disable-bias-linear",
        "model.layers.experts.shared.ffn_hidden": "--moe-shared-expert-intermediate-size, the whole width",
        "model.layers.experts.shared.gated": "as that of the experts",
        "model.layers.experts.shared.biases": "as those of the MLP",
    },
    cannot={**NOWHERE, **CANNOT, "workload.tuning": "adapters are matters of Megatron-Bridge"},
    kind="a script",
    mark="--",
    suffix=".sh",
    stacks=("megatron-core", "megatron-lm"),
    write=write_megatron,
)
