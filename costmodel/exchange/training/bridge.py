"""Reads and writes overrides of Megatron-Bridge: words such as model.seq_length=4096 after a recipe."""

from __future__ import annotations

import re
from typing import Any

from costmodel.documents.text.yaml_tree import Mapping, put_at
from costmodel.exchange.foreign_keys import ForeignKeys
from costmodel.exchange.import_result import accelerators_of_nodes
from costmodel.exchange.megatron.options import EXCHANGES, MODULES, OPTIMIZERS, SHARDED, SPLITS, spelling
from costmodel.exchange.megatron.plan import check_pipeline, counted_end_options, offloaded_layers, recomputed_modules
from costmodel.exchange.option_rows import NOTHING, choice, one_of, option, option_table, part, quiet, switch, written
from costmodel.exchange.training.file_facts import Layer, finished_layer, layer_of_rows
from costmodel.exchange.training.job import NOWHERE, Job, TrainingFormat, TrainingRemarks
from costmodel.exchange.values import Lines

TITLE, VERSION = "overrides of Megatron-Bridge", "Megatron-Bridge 0.3.1"

_PRECISIONS = {
    "bf16_mixed": "bf16",
    "fp16_mixed": "fp16",
    "bf16_with_fp8_delayed_scaling_mixed": "fp8",
    "bf16_with_fp8_current_scaling_mixed": "fp8-cs",
    "bf16_with_fp8_subchannel_scaling_mixed": "fp8-block",
    "bf16_with_mxfp8_mixed": "mxfp8",
    "bf16_with_nvfp4_mixed": "nvfp4",
}
_ENDS = ("model.account_for_embedding_in_pipeline_split", "model.account_for_loss_in_pipeline_split")
_OVERLAPS = {"dp": "ddp.overlap_grad_reduce", "weights": "ddp.overlap_param_gather", "tp": "model.tp_comm_overlap"}
_NAME = "Megatron-Bridge"
_WORD = re.compile(
    r"(?:^|[\s'\"])\+{0,2}((?:model|trainer|train|data|ddp|dist|optimizer|comm_overlap|mixed_precision|dataset|scheduler|"
    r"checkpoint|logger|tokenizer|rng|profiling|exp_manager|optim)(?:\.[a-z_0-9]+)*)=(\[[^\]\n]*\]|[^\s'\"]+)"
)

_SIZES = (
    option("model.tensor_model_parallel_size", "plan.tp", "count"),
    option("model.pipeline_model_parallel_size", "plan.pp", "count"),
    option("model.context_parallel_size", "plan.cp", "count"),
    option("model.expert_model_parallel_size", "plan.ep", "count", when="with experts"),
    option("model.expert_tensor_parallel_size", "plan.etp", "count", when="with experts"),
    option("model.virtual_pipeline_model_parallel_size", "plan.vpp", "count", when="where it counts"),
    option("model.num_layers_in_first_pipeline_stage", "plan.first_stage_layers", "count", when="where it counts"),
    option("model.num_layers_in_last_pipeline_stage", "plan.last_stage_layers", "count", when="where it counts"),
)

# Names of NeMo, before Megatron-Bridge took its place, with today's.
_OF_NEMO = {
    **{f"trainer.strategy.{row.option.removeprefix('model.')}": row.option for row in _SIZES},
    **{f"{section}.{name}_batch_size": f"train.{name}_batch_size" for section in ("model", "data")
       for name in ("micro", "global")},
    "model.encoder_seq_length": "model.seq_length",
    "data.seq_length": "model.seq_length",
    "trainer.max_steps": "train.train_iters",
    "model.activations_checkpoint_num_layers": "model.recompute_num_layers",
}  # fmt: skip
_NEMO_PRECISIONS = {"bf16": "bf16", "bf16-mixed": "bf16", "16": "fp16", "16-mixed": "fp16", "fp16": "fp16"}
_SHARDED_BY_NEMO = ("distributed_fused_adam", "mcore_distributed_optim")

TABLE = option_table(
    [option(old, kind="count", old=today) for old, today in _OF_NEMO.items()],
    option("trainer.strategy.sequence_parallel", kind="flag", old="model.sequence_parallel"),
    [option(f"model.activations_checkpoint_{name}", kind="word", old=f"model.recompute_{name}")
     for name in ("granularity", "method")],
    part("trainer.num_nodes", "plan.dp", "count", 1),
    part("trainer.devices", "plan.dp", "count"),
    option("trainer.precision", "workload.precision", "word", old="mixed_precision, by another name,"),
    option("model.optim.name", "plan.zero", "word", old="ddp.use_distributed_optimizer, by another name,"),
    _SIZES,
    option("model.moe_token_dispatcher_type", "assume.experts.deduplicated", choice({"alltoall": False, "flex": True}),
        when="with experts"),
    option("model.sequence_parallel", "plan.sequence_parallel", "flag", False),
    option("model.cp_comm_type", "plan.cp_type", choice(EXCHANGES), "p2p", when="where it counts"),
    option("dist.use_tp_pp_dp_mapping", "plan.order", switch("tp-cp-pp-dp", "tp-cp-dp-pp"), False,
        cannot="is no order of Megatron-Bridge", when="where it counts"),
    [part(name, "plan.split", "flag", False) for name in _ENDS],
    [part(f"{section}.{name}", "plan.zero", "flag", False) for section, name in (
        ("ddp", "use_distributed_optimizer"), ("dist", "use_megatron_fsdp"), ("ddp", "use_megatron_fsdp"))],
    part("ddp.data_parallel_sharding_strategy", "plan.zero", choice(SHARDED), "no_shard"),
    option("ddp.num_distributed_optimizer_instances", "plan.dp_replicate", "count", when="where it counts"),
    part("optimizer.optimizer_cpu_offload", "plan.offload", "flag", False),
    part("model.cpu_offloading", "plan.offload", "flag", False),
    part("model.cpu_offloading_num_layers", "plan.offload_layers", "count"),
    option("model.recompute_granularity", "plan.recompute",
        choice({"full": "full", "selective": "selective", "null": "none"}), "null"),
    option("model.recompute_method", "plan.recompute_method", one_of("uniform", "block"), when="where it counts"),
    option("model.recompute_num_layers", "plan.recompute_layers", "count", when="where it counts"),
    part("model.recompute_modules", "plan.recompute_modules", "word"),
    option("model.seq_length", "workload.sequence", "count"),
    option("train.micro_batch_size", "plan.micro_batch", "count"),
    option("train.global_batch_size", "workload.global_batch", "count"),
    option("train.train_iters", "steps", "count"),
    option("mixed_precision", "workload.precision", choice(_PRECISIONS, "no workload expresses it"),
        cannot="is no recipe of Megatron-Bridge"),
    option("optimizer.optimizer", "workload.optimizer", choice(OPTIMIZERS), "adam",
        cannot=f"is no optimizer of {_NAME}"),
    [option(name, f"assume.overlap.{key}", switch(NOTHING, 0), when="never") for key, name in _OVERLAPS.items()],
    quiet("optimizer.lr optimizer.min_lr optimizer.weight_decay scheduler dataset checkpoint logger tokenizer rng "
          "profiling train.eval_iters train.eval_interval optimizer.use_precision_aware_optimizer "
          "optimizer.use_distributed_optimizer model.vocab_size exp_manager model.optim.lr model.optim.sched "
          "model.data trainer.val_check_interval trainer.log_every_n_steps trainer.max_epochs trainer.accelerator "
          "trainer.limit_val_batches trainer.gradient_clip_val model.mcore_gpt model.transformer_engine"),
)  # fmt: skip


def overrides_tree(text: str, file: str) -> Mapping:
    """The overrides in a text as a tree of keys with places."""
    lines, tree = Lines(text, file), Mapping()
    tree.place = lines.place(0)
    for found in _WORD.finditer(text):
        path, value = found.groups()
        place = lines.place(found.start(1), path, len(path))
        put_at(tree, path, None if value.lower() in ("null", "none") else value, place)
    return tree


def read_bridge(tree: Any, file: str) -> Layer:
    """The facts that the overrides state; values in the Python recipe before them are not read."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = layer_of_rows(keys, TITLE)
    layer.facts["stack"] = keys.derived("megatron-core", "Megatron-Bridge", next(iter(keys.stated), ""))
    keys.lose("not expressible", "what the recipe states and no override repeats: print its configuration")
    each, nodes = keys["trainer.devices"], keys["trainer.num_nodes"]
    if each.value:
        for path, value in accelerators_of_nodes(each, nodes, "trainer").items():
            layer.fill(path, value)
    split = SPLITS.get((bool(keys[_ENDS[0]].value), bool(keys[_ENDS[1]].value)))
    if split is not None:
        layer.facts["plan.split"] = keys.derived(split, "embedding and loss count as layers", _ENDS[0])
    _read_sharding(keys, layer)
    _read_modules(keys, layer)
    recipe, older = keys["mixed_precision"], keys["trainer.precision"]
    if recipe.value:
        layer.fill("workload.gradients", recipe._replace(value="fp16" if recipe.value == "fp16" else "fp32"))
    if older.value in _NEMO_PRECISIONS:
        layer.fill("workload.precision", older._replace(value=_NEMO_PRECISIONS[older.value]))
    elif older.value:
        keys.refuse("X003", f"trainer.precision {older.value[:40]}: no recipe has it", "trainer.precision")
    return finished_layer(keys, layer)


def _read_sharding(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the ZeRO stage to `layer`, the facts of the file."""
    fsdp = next((name for name in ("dist.use_megatron_fsdp", "ddp.use_megatron_fsdp") if keys[name].value), "")
    strategy, plain, older = (
        keys[name]
        for name in ("ddp.data_parallel_sharding_strategy", "ddp.use_distributed_optimizer", "model.optim.name")
    )
    if fsdp:
        layer.fill("plan.zero", strategy)
    elif older.value:
        layer.fill("plan.zero", older._replace(value=int(older.value in _SHARDED_BY_NEMO)))
    else:
        layer.fill("plan.zero", plain._replace(value=int(bool(plain.value))))
    parts = []
    if keys["optimizer.optimizer_cpu_offload"].value:
        parts.append("optimizer")
    if keys["model.cpu_offloading"].value:
        parts.append("activations")
        layer.fill("plan.offload_layers", keys["model.cpu_offloading_num_layers"])
    if parts:
        layer.facts["plan.offload"] = keys.derived(parts, "what lives on the host", "model.cpu_offloading")


def _read_modules(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the modules of selective recompute to `layer`, the facts of the file."""
    modules = keys["model.recompute_modules"]
    names = re.findall(r"[a-z_]+", str(modules.value or ""))
    lost = [name for name in names if name not in MODULES]
    if lost:
        keys.lose("not expressible", f"recompute of {', '.join(lost)[:80]}", "model.recompute_modules")
    if keys["model.recompute_granularity"].value == "selective" and names:
        kept = [MODULES[name] for name in names if name in MODULES]
        layer.fill("plan.recompute_modules", modules._replace(value=kept))


def write_bridge(job: Job, remarks: TrainingRemarks) -> str:
    """The overrides, one on each line; keys that they cannot express are faults."""
    plan = job.plan
    check_pipeline(job, remarks, _NAME)
    beside: dict[str, Any] = {"ddp.use_distributed_optimizer": bool(plan.zero), **counted_end_options(job, _ENDS)}
    if plan.zero in (2, 3):
        beside["dist.use_megatron_fsdp"] = True
        beside["ddp.data_parallel_sharding_strategy"] = spelling(SHARDED, plan.zero)
    if "optimizer" in plan.offload:
        beside["optimizer.optimizer_cpu_offload"] = True
    modules, layers = recomputed_modules(job, remarks, _NAME), offloaded_layers(job, remarks, _NAME)
    if modules is not None:
        beside["model.recompute_modules"] = f"[{','.join(modules)}]"
    if layers is not None:
        beside |= {"model.cpu_offloading": True, "model.cpu_offloading_num_layers": layers}
    usual = "fp16" if job.workload.precision == "fp16" else "fp32"
    if job.gradients != usual:
        sentence = f"{job.gradients}: the recipe of {job.workload.precision} has {usual}"
        remarks.refuse("workload.gradients", sentence)
    for key, name in _OVERLAPS.items():
        counts = plan.zero if key == "weights" else plan.tp > 1 and plan.sequence_parallel if key == "tp" else True
        if counts:
            beside[name] = getattr(job.assume.overlap, key) != 0
    remarks.note("the model is that of the recipe; yours to add: data, tokenizer and learning rate")
    options = written(TABLE, job, remarks.refuse, beside)
    words = {name: str(value).lower() if isinstance(value, bool) else value for name, value in options.items()}
    return "".join(f"{name}={word}\n" for name, word in words.items())


FORMAT = TrainingFormat(
    name="bridge",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    elsewhere={"model": "the recipe", "workload.kind": "a training program"},
    fixed={
        "plan.schedule": "1F1B, with chunks interleaved",
        "plan.offload_to": "the host is the only place",
        "workload.gradients": "the recipes reduce in fp32, that of fp16 in fp16",
    },
    cannot={**NOWHERE, "workload.tuning": "the recipe has the adapters"},
    kind="overrides",
    stacks=("megatron-core",),
    write=write_bridge,
)
