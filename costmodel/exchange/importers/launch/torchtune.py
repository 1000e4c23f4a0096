"""YAML of torchtune: a fine-tuning by the names of its builders."""

from __future__ import annotations

import re
from typing import Any

from costmodel.exchange.importers.launch.layer import Layer, layer_of
from costmodel.exchange.values.foreign_keys import ForeignKey, ForeignKeys, lost, quiet

VERSION = "torchtune 0.6.1"
TITLE = "YAML of torchtune"
_OPTIMIZERS = {
    "adamw": "adamw", "adam": "adamw", "pagedadamw8bit": "paged-adam-8bit", "adamw8bit": "adam-8bit",
    "adam8bit": "adam-8bit", "pagedadamw": "paged-adamw", "sgd": "sgd-momentum", "adafactor": "adafactor",
}  # fmt: skip
_FAMILIES = {
    "llama2": "llama-2", "llama3": "llama-3", "llama3_1": "llama-3.1", "llama3_2": "llama-3.2", "qwen2_5": "qwen-2.5",
    "qwen3": "qwen-3", "gemma2": "gemma-2", "mistral": "mistral", "phi4": "phi-4",
}  # fmt: skip
_BUILDER = re.compile(r"(?P<method>qlora_|lora_)?(?P<family>[a-z]+\d?(?:_\d(?=_))?)_(?P<size>\d+(?:_\d+)?b)")

TABLE: dict[str, ForeignKey] = {
    "model._component_": ForeignKey("word", "model workload.tuning"),
    "model.lora_rank": ForeignKey("count", "workload.tuning", 8),
    "batch_size": ForeignKey("count", "plan.micro_batch"),
    "gradient_accumulation_steps": ForeignKey("count", "workload.global_batch", 1),
    "max_steps_per_epoch": ForeignKey("count", "workload.tokens"),
    "tokenizer.max_seq_len": ForeignKey("count", "workload.sequence"),
    "optimizer._component_": ForeignKey("word", "workload.optimizer"),
    "enable_activation_checkpointing": ForeignKey("flag", "plan.recompute", False),
    "fsdp_cpu_offload": ForeignKey("flag", "plan.offload", False),
    "fsdp_reshard_after_forward": ForeignKey("flag", "plan.zero", True),
    "tensor_parallel_dim": ForeignKey("count", "plan.tp", 1),
    "data_parallel_shard_dim": ForeignKey("whole", "plan.dp", -1),
    "data_parallel_replicate_dim": ForeignKey("count", "plan.dp_replicate", 1),
    "context_parallel_dim": ForeignKey("count", "plan.cp", 1),
    "dtype": ForeignKey("word", "workload.precision"),
    **lost("not expressible", "gradients are freed step by step in backward", "optimizer_in_bwd"),
    **lost("not expressible", "activations are offloaded another way", "enable_activation_offloading"),
    **lost("not expressible", "another kind of training", "ref_checkpointer teacher teacher_checkpointer"),
    **lost("approximated", "sequences are padded: fewer of their tokens are real", "dataset.packed", True),
    **lost("approximated", "modules are sharded apart", "custom_sharded_layers", []),
    **lost("approximated", "kernels are compiled", "compile"),
    **lost("approximated", "adapters stand beside these modules alone: here all", "model.lora_attn_modules "
           "model.apply_lora_to_mlp model.apply_lora_to_output", True),
    **quiet("output_dir checkpointer metric_logger profiler lr_scheduler loss epochs seed shuffle device "
            "log_every_n_steps log_peak_memory_stats log_level resume_from_checkpoint clip_grad_norm "
            "save_adapter_weights_only tokenizer._component_ tokenizer.path tokenizer.prompt_template "
            "tokenizer.merges_file dataset._component_ dataset.source dataset.split dataset.column_map "
            "dataset_val run_val_every_n_steps batch_size_val model.lora_alpha model.lora_dropout model.quantize_base "
            "optimizer.lr optimizer.fused optimizer.weight_decay optimizer.betas optimizer.eps "
            "enable_async_checkpointing keep_last_n_checkpoints dataset.train_on_input tensor_parallel_plan "
            "cudnn_deterministic_mode name"),
}  # fmt: skip


def read_torchtune(tree: Any, file: str) -> Layer:
    """What a configuration of torchtune states: FSDP 2 of everything in one type."""
    keys = ForeignKeys(_plain(tree), TABLE, file, VERSION)
    layer = Layer(TITLE)
    _model(keys, layer)
    whole = "workload.tuning.method" not in layer.facts
    text = "weights, gradients and moments in bf16" if whole else "torchtune shards by FSDP 2"
    layer.facts["stack"] = keys.derived("torchtune" if whole else "fsdp2", text, next(iter(keys.stated), ""))
    layer.fill("plan.micro_batch", keys["batch_size"])
    layer.fill("accumulation", keys["gradient_accumulation_steps"])
    layer.fill("steps", keys["max_steps_per_epoch"])
    sequence = keys["tokenizer.max_seq_len"]
    layer.fill("workload.sequence", sequence)
    kept = keys["fsdp_reshard_after_forward"]
    layer.facts["plan.zero"] = kept._replace(value=3 if kept.value else 2)
    again = keys["enable_activation_checkpointing"]
    layer.facts["plan.recompute"] = again._replace(value="full" if again.value else "none")
    if keys["fsdp_cpu_offload"].value:
        layer.facts["plan.offload"] = keys["fsdp_cpu_offload"]._replace(value=["optimizer", "parameters"])
    for name, path in (("tensor_parallel_dim", "plan.tp"), ("context_parallel_dim", "plan.cp"),
                       ("data_parallel_replicate_dim", "plan.dp_replicate")):  # fmt: skip
        layer.fill(path, keys[name])
    if (keys["data_parallel_shard_dim"].value or -1) > 0:
        layer.facts["shards"] = keys["data_parallel_shard_dim"]
    _types(keys, layer)
    return layer_of(keys, TITLE, layer)


def _plain(tree: Any) -> Any:
    """The tree without values that other keys fill: ${output_dir}."""
    for key in [key for key, value in tree.items() if isinstance(value, str) and "${" in value]:
        tree[key] = None
    return tree


def _model(keys: ForeignKeys, layer: Layer) -> None:
    """The model that a builder such as lora_llama3_1_8b stands for."""
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


def _types(keys: ForeignKeys, layer: Layer) -> None:
    kind = keys["dtype"]
    if kind.value == "bf16":
        layer.facts["workload.precision"] = kind
    elif kind.value is not None:
        keys.refuse("X003", f"dtype {str(kind.value)[:60]}: no workload trains in it", "dtype")
    name = keys["optimizer._component_"]
    last = str(name.value or "").rpartition(".")[2].lower()
    if last in _OPTIMIZERS:
        layer.facts["workload.optimizer"] = name._replace(value=_OPTIMIZERS[last])
    elif name.value:
        keys.no_optimizer(name.value, "optimizer._component_")
