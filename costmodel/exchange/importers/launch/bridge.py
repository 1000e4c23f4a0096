"""Overrides of Megatron-Bridge: words such as model.seq_length=4096 behind a recipe, which is not read."""

from __future__ import annotations

import re
from typing import Any

from costmodel.documents.text.yaml_tree import Mapping, key_at
from costmodel.exchange.importers.launch.layer import Layer, layer_of
from costmodel.exchange.importers.megatron.words import EXCHANGES, MODULES, OPTIMIZERS, SHARDED
from costmodel.exchange.values.foreign_keys import ForeignKey, ForeignKeys, quiet
from costmodel.exchange.values.places import Lines

VERSION = "Megatron-Bridge 0.3.1"
TITLE = "overrides of Megatron-Bridge"

DEGREES = {
    "plan.tp": "model.tensor_model_parallel_size",
    "plan.pp": "model.pipeline_model_parallel_size",
    "plan.vpp": "model.virtual_pipeline_model_parallel_size",
    "plan.cp": "model.context_parallel_size",
    "plan.ep": "model.expert_model_parallel_size",
    "plan.etp": "model.expert_tensor_parallel_size",
    "plan.first_stage_layers": "model.num_layers_in_first_pipeline_stage",
    "plan.last_stage_layers": "model.num_layers_in_last_pipeline_stage",
    "plan.dp_replicate": "ddp.num_distributed_optimizer_instances",
    "plan.micro_batch": "train.micro_batch_size",
    "workload.global_batch": "train.global_batch_size",
    "workload.sequence": "model.seq_length",
    "steps": "train.train_iters",
}
PRECISIONS = {
    "bf16_mixed": "bf16",
    "fp16_mixed": "fp16",
    "bf16_with_fp8_delayed_scaling_mixed": "fp8",
    "bf16_with_fp8_current_scaling_mixed": "fp8-cs",
    "bf16_with_fp8_subchannel_scaling_mixed": "fp8-block",
    "bf16_with_mxfp8_mixed": "mxfp8",
    "bf16_with_nvfp4_mixed": "nvfp4",
}
ENDS = ("model.account_for_embedding_in_pipeline_split", "model.account_for_loss_in_pipeline_split")
SPLITS = {(True, True): "lighter-ends", (True, False): "lighter-first", (False, True): "lighter-last"}
OVERLAPS = {"dp": "ddp.overlap_grad_reduce", "weights": "ddp.overlap_param_gather", "tp": "model.tp_comm_overlap"}
_WORD = re.compile(
    r"(?:^|[\s'\"])\+{0,2}((?:model|trainer|train|data|ddp|dist|optimizer|comm_overlap|mixed_precision|dataset|scheduler|"
    r"checkpoint|logger|tokenizer|rng|profiling|exp_manager|optim)(?:\.[a-z_0-9]+)*)=(\[[^\]\n]*\]|[^\s'\"]+)"
)

# Names of NeMo, before Megatron-Bridge took its place, with today's.
OF_NEMO = {
    **{f"trainer.strategy.{name.removeprefix('model.')}": name for path, name in DEGREES.items()
       if name.startswith("model.") and path.startswith("plan.")},
    **{f"{section}.{name}_batch_size": f"train.{name}_batch_size" for section in ("model", "data")
       for name in ("micro", "global")},
    "model.encoder_seq_length": "model.seq_length",
    "data.seq_length": "model.seq_length",
    "trainer.max_steps": "train.train_iters",
    "trainer.strategy.sequence_parallel": "model.sequence_parallel",
    "model.activations_checkpoint_granularity": "model.recompute_granularity",
    "model.activations_checkpoint_method": "model.recompute_method",
    "model.activations_checkpoint_num_layers": "model.recompute_num_layers",
}  # fmt: skip
_NEMO_PRECISIONS = {"bf16": "bf16", "bf16-mixed": "bf16", "16": "fp16", "16-mixed": "fp16", "fp16": "fp16"}
_SHARDED_BY_NEMO = ("distributed_fused_adam", "mcore_distributed_optim")

TABLE: dict[str, ForeignKey] = {
    **{old: ForeignKey("count", old=today) for old, today in OF_NEMO.items()},
    "trainer.strategy.sequence_parallel": ForeignKey("flag", old="model.sequence_parallel"),
    **{old: ForeignKey("word", old=OF_NEMO[old]) for old in OF_NEMO if old.endswith(("granularity", "method"))},
    "trainer.num_nodes": ForeignKey("count", "plan.dp", 1),
    "trainer.devices": ForeignKey("count", "plan.dp"),
    "trainer.precision": ForeignKey("word", "workload.precision", old="mixed_precision, by another name,"),
    "model.optim.name": ForeignKey("word", "plan.zero", old="ddp.use_distributed_optimizer, by another name,"),
    **{name: ForeignKey("count", path) for path, name in DEGREES.items()},
    "model.sequence_parallel": ForeignKey("flag", "plan.sequence_parallel", False),
    "model.cp_comm_type": ForeignKey("word", "plan.cp_type", "p2p", tuple(EXCHANGES)),
    **{name: ForeignKey("flag", "plan.split", False) for name in ENDS},
    "model.recompute_granularity": ForeignKey("word", "plan.recompute", None, ("full", "selective")),
    "model.recompute_method": ForeignKey("word", "plan.recompute_method", None, ("uniform", "block")),
    "model.recompute_num_layers": ForeignKey("count", "plan.recompute_layers"),
    "model.recompute_modules": ForeignKey("word", "plan.recompute_modules"),
    "model.cpu_offloading": ForeignKey("flag", "plan.offload", False),
    "model.cpu_offloading_num_layers": ForeignKey("count", "plan.offload_layers"),
    "optimizer.optimizer_cpu_offload": ForeignKey("flag", "plan.offload", False),
    "ddp.use_distributed_optimizer": ForeignKey("flag", "plan.zero", False),
    "ddp.use_megatron_fsdp": ForeignKey("flag", "plan.zero", False),
    "dist.use_megatron_fsdp": ForeignKey("flag", "plan.zero", False),
    "ddp.data_parallel_sharding_strategy": ForeignKey("word", "plan.zero", "no_shard", tuple(SHARDED)),
    "dist.use_tp_pp_dp_mapping": ForeignKey("flag", "plan.order", False),
    "mixed_precision": ForeignKey("word", "workload.precision workload.gradients"),
    "optimizer.optimizer": ForeignKey("word", "workload.optimizer", "adam", tuple(OPTIMIZERS)),
    **{name: ForeignKey("flag", "assume.overlap") for name in OVERLAPS.values()},
    "model.moe_token_dispatcher_type": ForeignKey("word", "assume.experts.deduplicated", None, ("alltoall", "flex")),
    **quiet("optimizer.lr optimizer.min_lr optimizer.weight_decay scheduler dataset checkpoint logger tokenizer rng "
            "profiling train.eval_iters train.eval_interval optimizer.use_precision_aware_optimizer "
            "optimizer.use_distributed_optimizer model.vocab_size exp_manager model.optim.lr model.optim.sched "
            "model.data trainer.val_check_interval trainer.log_every_n_steps trainer.max_epochs trainer.accelerator "
            "trainer.limit_val_batches trainer.gradient_clip_val model.mcore_gpt model.transformer_engine"),
}  # fmt: skip


def overrides_tree(text: str, file: str) -> Mapping:
    """The overrides of a text as the tree that they stand for, each at its place."""
    lines, tree = Lines(text, file), Mapping()
    tree.place = lines.place(0)
    for found in _WORD.finditer(text):
        *above, last = found.group(1).split(".")
        place, here = lines.place(found.start(1), found.group(1), len(found.group(1))), tree
        for part in above:
            inner = here.get(part)
            if not isinstance(inner, Mapping):
                inner = Mapping()
                inner.place = place
                here[key_at(part, place, place)] = inner
            here = inner
        here.pop(last, None)
        here[key_at(last, place, place)] = None if found.group(2).lower() in ("null", "none") else found.group(2)
    return tree


def read_bridge(tree: Any, file: str) -> Layer:
    """What overrides state; the recipe in front of them is Python, and its values stand in no override."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = Layer(TITLE)
    anchor = next(iter(keys.stated), "")
    layer.facts["stack"] = keys.derived("megatron-core", "Megatron-Bridge", anchor)
    keys.lose("not expressible", "what the recipe states and no override repeats: print its configuration")
    for path, name in DEGREES.items():
        layer.fill(path, keys[name])
    layer.fill("plan.sequence_parallel", keys["model.sequence_parallel"])
    if (keys["model.context_parallel_size"].value or 1) > 1:
        exchange = keys["model.cp_comm_type"]
        layer.fill("plan.cp_type", exchange._replace(value=EXCHANGES[exchange.value]))
    _launched(keys, layer)
    _stages(keys, layer)
    _sharding(keys, layer)
    _recompute(keys, layer)
    _types(keys, layer)
    return layer_of(keys, TITLE, layer)


def _launched(keys: ForeignKeys, layer: Layer) -> None:
    """Accelerators, which the trainer of NeMo states."""
    each, nodes = keys["trainer.devices"], keys["trainer.num_nodes"]
    if each.value:
        layer.facts["accelerators"] = each._replace(value=each.value * nodes.value)
        layer.fill("nodes", nodes)


def _stages(keys: ForeignKeys, layer: Layer) -> None:
    split = SPLITS.get((bool(keys[ENDS[0]].value), bool(keys[ENDS[1]].value)))
    if split is not None:
        layer.facts["plan.split"] = keys.derived(split, "embedding and loss count as layers", ENDS[0])
    mapping = keys["dist.use_tp_pp_dp_mapping"]
    layer.fill("plan.order", mapping._replace(value="tp-cp-pp-dp" if mapping.value else "tp-cp-dp-pp"))


def _sharding(keys: ForeignKeys, layer: Layer) -> None:
    fsdp = next((name for name in ("dist.use_megatron_fsdp", "ddp.use_megatron_fsdp") if keys[name].value), "")
    strategy, plain = keys["ddp.data_parallel_sharding_strategy"], keys["ddp.use_distributed_optimizer"]
    if fsdp:
        layer.fill("plan.zero", strategy._replace(value=SHARDED[strategy.value]))
    elif keys["model.optim.name"].value:
        name = keys["model.optim.name"]
        layer.fill("plan.zero", name._replace(value=int(name.value in _SHARDED_BY_NEMO)))
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


def _recompute(keys: ForeignKeys, layer: Layer) -> None:
    mode = keys["model.recompute_granularity"]
    layer.fill("plan.recompute", mode._replace(value=mode.value or "none"))
    if mode.value == "full":
        layer.fill("plan.recompute_method", keys["model.recompute_method"])
        layer.fill("plan.recompute_layers", keys["model.recompute_num_layers"])
    modules = keys["model.recompute_modules"]
    names = re.findall(r"[a-z_]+", str(modules.value or ""))
    lost = [name for name in names if name not in MODULES]
    if lost:
        keys.lose("not expressible", f"recompute of {', '.join(lost)[:80]}", "model.recompute_modules")
    if mode.value == "selective" and names:
        layer.fill(
            "plan.recompute_modules", modules._replace(value=[MODULES[name] for name in names if name in MODULES])
        )


def _types(keys: ForeignKeys, layer: Layer) -> None:
    recipe = keys["mixed_precision"]
    if recipe.value in PRECISIONS:
        layer.fill("workload.precision", recipe._replace(value=PRECISIONS[recipe.value]))
        summed = "fp16" if recipe.value == "fp16_mixed" else "fp32"
        layer.fill("workload.gradients", recipe._replace(value=summed))
    elif recipe.value:
        keys.refuse("X003", f"mixed_precision {recipe.value[:80]}: no workload expresses it", "mixed_precision")
    older = keys["trainer.precision"]
    if older.value in _NEMO_PRECISIONS:
        layer.fill("workload.precision", older._replace(value=_NEMO_PRECISIONS[older.value]))
    elif older.value:
        keys.refuse("X003", f"trainer.precision {older.value[:40]}: no recipe has it", "trainer.precision")
    kind = keys["optimizer.optimizer"]
    layer.fill("workload.optimizer", kind._replace(value=OPTIMIZERS[kind.value]))
    for key, name in OVERLAPS.items():
        if keys[name].value is False:
            layer.facts[f"assume.overlap.{key}"] = keys[name]._replace(value=0)
    dispatcher = keys["model.moe_token_dispatcher_type"]
    if dispatcher.value:
        layer.fill("assume.experts.deduplicated", dispatcher._replace(value=dispatcher.value == "flex"))
