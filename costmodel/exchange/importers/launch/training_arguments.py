"""TrainingArguments of transformers, as YAML or JSON: batch, types, recompute and optimizer."""

from __future__ import annotations

from typing import Any

from costmodel.documents.text.yaml_tree import Mapping
from costmodel.exchange.importers.launch.deepspeed import read_deepspeed
from costmodel.exchange.importers.launch.layer import Layer, layer_of
from costmodel.exchange.values.foreign_keys import ForeignKey, ForeignKeys, lost, quiet

VERSION = "transformers 5.24.0"
TITLE = "TrainingArguments of transformers"

OPTIMIZERS = {
    "adamw_torch_fused": "adamw", "adamw_torch": "adamw", "adamw_hf": "adamw", "adamw_apex_fused": "adamw",
    "adamw_torch_8bit": "adam-8bit", "adamw_8bit": "adam-8bit", "adamw_bnb_8bit": "adam-8bit",
    "paged_adamw_8bit": "paged-adam-8bit", "adafactor": "adafactor", "lion_32bit": "lion", "lion": "lion",
    "galore_adamw": "galore-adamw", "galore_adamw_8bit": "galore-adamw-8bit",
}  # fmt: skip

TABLE: dict[str, ForeignKey] = {
    "per_device_train_batch_size": ForeignKey("count", "plan.micro_batch", 8),
    "gradient_accumulation_steps": ForeignKey("count", "workload.global_batch", 1),
    "activation_checkpointing": ForeignKey("flag", "plan.recompute", False),
    "gradient_checkpointing": ForeignKey("flag", "plan.recompute", False),
    "optim": ForeignKey("word", "workload.optimizer", "adamw_torch_fused"),
    "bf16": ForeignKey("flag", "workload.precision", False),
    "fp16": ForeignKey("flag", "workload.precision", False),
    "max_steps": ForeignKey("whole", "workload.tokens", -1),
    "max_length": ForeignKey("count", "workload.sequence"),
    "max_seq_length": ForeignKey("count", "workload.sequence", old="max_length"),
    "deepspeed": ForeignKey("text", "plan.zero"),
    "fsdp": ForeignKey("text", "plan.zero"),
    "fsdp_config": ForeignKey("text", "plan.zero"),
    **lost("not expressible", "the batch is found by trying", "auto_find_batch_size"),
    **lost("not expressible", "an optimizer's states are projected or layers trained in turn", "optim_target_modules"),
    **lost("approximated", "kernels are compiled or replaced", "torch_compile use_liger_kernel"),
    **lost("approximated", "recompute with settings of its own", "gradient_checkpointing_kwargs "
           "activation_checkpointing_kwargs", {}),
    **lost("not expressible", "the weights themselves are of another type", "bf16_full_eval fp16_full_eval"),
    **quiet("output_dir overwrite_output_dir do_train do_eval do_predict num_train_epochs learning_rate weight_decay "
            "adam_beta1 adam_beta2 adam_epsilon max_grad_norm lr_scheduler_type lr_scheduler_kwargs warmup_ratio "
            "warmup_steps logging_steps logging_dir logging_strategy logging_first_step save_steps save_strategy "
            "save_total_limit save_safetensors save_on_each_node eval_steps eval_strategy evaluation_strategy "
            "per_device_eval_batch_size eval_accumulation_steps seed data_seed report_to run_name push_to_hub "
            "hub_model_id hub_strategy remove_unused_columns dataloader_num_workers dataloader_drop_last "
            "dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor group_by_length "
            "length_column_name ddp_find_unused_parameters ddp_bucket_cap_mb ddp_timeout ddp_backend "
            "ddp_broadcast_buffers disable_tqdm load_best_model_at_end metric_for_best_model greater_is_better tf32 "
            "label_smoothing_factor resume_from_checkpoint optim_args packing dataset_text_field completion_only_loss "
            "include_tokens_per_second include_num_input_tokens_seen average_tokens_across_devices log_level "
            "neftune_noise_alpha accelerator_config"),
}  # fmt: skip


def read_training_arguments(tree: Any, file: str) -> Layer:
    """What TrainingArguments state; how it is sharded stands in another file, unless they name or hold it."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = Layer(TITLE)
    layer.say("plan.micro_batch", keys["per_device_train_batch_size"])
    layer.say("accumulation", keys["gradient_accumulation_steps"])
    layer.say("workload.sequence", keys["max_length"] if keys["max_length"].value else keys["max_seq_length"])
    steps = keys["max_steps"]
    if steps.value and steps.value > 0:
        layer.say("steps", steps)
    _types(keys, layer)
    new = keys["activation_checkpointing"]
    again = new if new.value or not keys.given("gradient_checkpointing") else keys["gradient_checkpointing"]
    if again.value:
        layer.facts["plan.recompute"] = again._replace(value="full")
    _sharding(keys, layer)
    return layer_of(keys, TITLE, layer)


def _types(keys: ForeignKeys, layer: Layer) -> None:
    on = [name for name in ("bf16", "fp16") if keys[name].value]
    if len(on) > 1:
        keys.refuse("X005", "bf16 and fp16 exclude each other", "fp16")
    if on:
        layer.facts["workload.precision"] = keys[on[0]]._replace(value=on[0])
    kind = keys["optim"]
    if kind.value in OPTIMIZERS:
        layer.say("workload.optimizer", kind._replace(value=OPTIMIZERS[kind.value]))
    else:
        keys.refuse("X003", f"optim {str(kind.value)[:80]}: no optimizer document has its states", "optim")


def _sharding(keys: ForeignKeys, layer: Layer) -> None:
    engine, sharded = keys["deepspeed"], keys["fsdp"]
    if isinstance(engine.value, Mapping):
        inner = read_deepspeed(engine.value, keys.file)
        layer.facts |= inner.facts
        layer.weak |= inner.weak
        layer.losses += inner.losses
        layer.warnings += inner.warnings
        layer.faults += inner.faults
    elif isinstance(engine.value, str) and engine.place is not None:
        layer.named.append((str(engine.value), engine.place))
    elif sharded.value not in (None, False, "", []):
        _fsdp(keys, layer)
    else:
        layer.weak["stack"] = keys.assumed("ddp", "neither deepspeed nor fsdp stands here")
        layer.weak["plan.zero"] = keys.assumed(0, "neither deepspeed nor fsdp stands here")
        layer.weak["plan.recompute"] = keys["activation_checkpointing"]._replace(value="none")


def _fsdp(keys: ForeignKeys, layer: Layer) -> None:
    """fsdp: true with fsdp_config, as version 5 has it; older words such as full_shard too."""
    sharded, more = keys["fsdp"], keys["fsdp_config"].value
    words = str(sharded.value).lower() if not isinstance(sharded.value, bool) else ""
    settings = (
        {str(key).removeprefix("fsdp_"): value for key, value in more.items()} if isinstance(more, Mapping) else {}
    )
    if isinstance(more, str):
        keys.refuse("X002", f"fsdp_config names {more[:80]}, which is not read", "fsdp_config", "write its keys here")
    first = str(settings.get("version", 2)) == "1"
    kept = str(settings.get("reshard_after_forward", "true")).lower() in ("false", "shard_grad_op")
    layer.facts["stack"] = sharded._replace(value="fsdp1" if first else "fsdp2")
    layer.facts["plan.zero"] = sharded._replace(value=2 if kept or "shard_grad_op" in words else 3)
    if "hybrid" in words:
        keys.lose("not expressible", "replicas of the shards: as many as there are nodes", "fsdp")
    if "offload" in words or str(settings.get("cpu_offload", "false")).lower() == "true":
        layer.facts["plan.offload"] = sharded._replace(value=["optimizer", "parameters"])
    if str(settings.get("activation_checkpointing", "false")).lower() == "true":
        layer.facts["plan.recompute"] = sharded._replace(value="full")
    else:
        layer.weak["plan.recompute"] = keys["activation_checkpointing"]._replace(value="none")
