"""Reads torchtune's YAML: a fine-tuning by the names of its builders."""

from __future__ import annotations

import re
from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.option_rows import choice, lost, option, option_table, part, quiet, switch
from costmodel.exchange.training.file_facts import Layer, finished_layer, layer_of_rows
from costmodel.exchange.training.job import FLAT, ON_HOST_ALONE, TRAINS, WHOLE_LAYERS, TrainingFormat

VERSION = "torchtune 0.6.1"
TITLE = "YAML of torchtune 0.6"
_OPTIMIZERS = {
    "adamw": "adamw", "adam": "adamw", "pagedadamw8bit": "paged-adam-8bit", "adamw8bit": "adam-8bit",
    "adam8bit": "adam-8bit", "pagedadamw": "paged-adamw", "sgd": "sgd-momentum", "adafactor": "adafactor",
}  # fmt: skip
_FAMILIES = {
    "llama2": "llama-2", "llama3": "llama-3", "llama3_1": "llama-3.1", "llama3_2": "llama-3.2", "qwen2_5": "qwen-2.5",
    "qwen3": "qwen-3", "gemma2": "gemma-2", "mistral": "mistral", "phi4": "phi-4",
}  # fmt: skip
_BUILDER = re.compile(r"(?P<method>qlora_|lora_)?(?P<family>[a-z]+\d?(?:_\d(?=_))?)_(?P<size>\d+(?:_\d+)?b)")

TABLE = option_table(
    part("model._component_", "model workload.tuning", "word"),
    part("model.lora_rank", "workload.tuning", "count", 8),
    option("batch_size", "plan.micro_batch", "count"),
    option("gradient_accumulation_steps", "accumulation", "count", 1),
    option("max_steps_per_epoch", "steps", "count"),
    option("tokenizer.max_seq_len", "workload.sequence", "count"),
    part("optimizer._component_", "workload.optimizer", "word"),
    option("enable_activation_checkpointing", "plan.recompute", switch("full", "none"), False),
    option("fsdp_cpu_offload", "plan.offload", switch(["optimizer", "parameters"]), False),
    option("fsdp_reshard_after_forward", "plan.zero", switch(3, 2), True),
    option("tensor_parallel_dim", "plan.tp", "count", 1),
    part("data_parallel_shard_dim", "shards", "whole", -1),
    option("data_parallel_replicate_dim", "plan.dp_replicate", "count", 1),
    option("context_parallel_dim", "plan.cp", "count", 1),
    option("dtype", "workload.precision", choice({"bf16": "bf16"}, "no workload trains in it")),
    lost("not expressible", "gradients are freed step by step in backward", "optimizer_in_bwd"),
    lost("not expressible", "activations are offloaded another way", "enable_activation_offloading"),
    lost("not expressible", "another kind of training", "ref_checkpointer teacher teacher_checkpointer"),
    lost("approximated", "sequences are padded: fewer of their tokens are real", "dataset.packed", True),
    lost("approximated", "modules are sharded apart", "custom_sharded_layers", []),
    lost("approximated", "kernels are compiled", "compile"),
    lost("approximated", "adapters on these modules only; here on all", "model.lora_attn_modules "
         "model.apply_lora_to_mlp model.apply_lora_to_output", True),
    quiet("output_dir checkpointer metric_logger profiler lr_scheduler loss epochs seed shuffle device "
          "log_every_n_steps log_peak_memory_stats log_level resume_from_checkpoint clip_grad_norm "
          "save_adapter_weights_only tokenizer._component_ tokenizer.path tokenizer.prompt_template "
          "tokenizer.merges_file dataset._component_ dataset.source dataset.split dataset.column_map "
          "dataset_val run_val_every_n_steps batch_size_val model.lora_alpha model.lora_dropout model.quantize_base "
          "optimizer.lr optimizer.fused optimizer.weight_decay optimizer.betas optimizer.eps "
          "enable_async_checkpointing keep_last_n_checkpoints dataset.train_on_input tensor_parallel_plan "
          "cudnn_deterministic_mode name"),
)  # fmt: skip


def read_torchtune(tree: Any, file: str) -> Layer:
    """The facts that a configuration of torchtune states; it trains with FSDP 2, all in one type."""
    keys = ForeignKeys(_without_references(tree), TABLE, file, VERSION)
    layer = layer_of_rows(keys, TITLE)
    _fill_model(keys, layer)
    whole = "workload.tuning.method" not in layer.facts
    text = "weights, gradients and moments in bf16" if whole else "torchtune shards by FSDP 2"
    layer.facts["stack"] = keys.derived("torchtune" if whole else "fsdp2", text, next(iter(keys.stated), ""))
    if (keys["data_parallel_shard_dim"].value or -1) > 0:
        layer.facts["shards"] = keys["data_parallel_shard_dim"]
    _read_optimizer(keys, layer)
    return finished_layer(keys, layer)


def _without_references(tree: Any) -> Any:
    """The tree with references to other keys, such as ${output_dir}, set to None."""
    for key in [key for key, value in tree.items() if isinstance(value, str) and "${" in value]:
        tree[key] = None
    return tree


def _fill_model(keys: ForeignKeys, layer: Layer) -> None:
    """Fills the model that a builder such as lora_llama3_1_8b names."""
    builder = keys["model._component_"]
    last = str(builder.value or "").rpartition(".")[2]
    found = _BUILDER.fullmatch(last)
    if found is None or found["family"] not in _FAMILIES:
        if builder.value:
            keys.lose(
                "not expressible", f"the model of {last[:60]}: name it with --set model=NAME", "model._component_"
            )
        return
    name = f"{_FAMILIES[found['family']]}-{found['size'].replace('_', '.')}"
    layer.facts["model"] = keys.derived(name, last, "model._component_")
    if found["method"]:
        layer.facts["workload.tuning.method"] = keys.derived(found["method"][:-1], last, "model._component_")
        layer.facts["workload.tuning.rank"] = keys["model.lora_rank"]


def _read_optimizer(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the optimizer to `layer`, the facts of the file."""
    name = keys["optimizer._component_"]
    last = str(name.value or "").rpartition(".")[2].lower()
    if last in _OPTIMIZERS:
        layer.facts["workload.optimizer"] = name._replace(value=_OPTIMIZERS[last])
    elif name.value:
        keys.no_optimizer(name.value, "optimizer._component_")


FORMAT = TrainingFormat(
    name="torchtune",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    cannot={
        **TRAINS,
        **FLAT,
        **WHOLE_LAYERS,
        **ON_HOST_ALONE,
        **because("experts are not spread over ranks", "ep etp"),
        **because("a plan of modules in code", "sequence_parallel"),
        "workload.gradients": "the stack has one type of sums",
    },
)
