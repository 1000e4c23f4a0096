"""Reads and writes TrainingArguments of transformers, as YAML or JSON: batch, types, recompute and optimizer."""

from __future__ import annotations

import re
from typing import Any

from costmodel.documents.text.yaml_tree import Mapping
from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.import_result import OriginValue
from costmodel.exchange.option_rows import (
    choice,
    lost,
    option,
    option_table,
    part,
    quiet,
    renamed_before_2023,
    switch,
    written,
)
from costmodel.exchange.training import accelerate
from costmodel.exchange.training.accelerate import STRATEGIES, ArgumentText, write_accelerate
from costmodel.exchange.training.deepspeed import read_deepspeed
from costmodel.exchange.training.file_facts import Layer, finished_layer, layer_of_rows
from costmodel.exchange.training.job import Job, TrainingFormat, TrainingRemarks
from costmodel.exchange.write_yaml import document_text
from costmodel.ground.errors import Fault

TITLE, VERSION = "TrainingArguments of transformers", "transformers 5.24.0"
_SETTINGS = {  # of fsdp_config, with those that cost nothing
    "version", "reshard_after_forward", "cpu_offload", "activation_checkpointing", "transformer_layer_cls_to_wrap",
    "auto_wrap_policy", "min_num_params", "backward_prefetch", "forward_prefetch", "limit_all_gathers",
    "use_orig_params", "sync_module_states", "cpu_ram_efficient_loading", "state_dict_type",
}  # fmt: skip
_LENGTHS = ("max_length", "model_max_length", "block_size")

OPTIMIZERS = {
    "adamw_torch_fused": "adamw", "adamw_torch": "adamw", "adamw_hf": "adamw", "adamw_apex_fused": "adamw",
    "adamw_torch_8bit": "adam-8bit", "adamw_8bit": "adam-8bit", "adamw_bnb_8bit": "adam-8bit",
    "paged_adamw_8bit": "paged-adam-8bit", "paged_adamw_32bit": "paged-adamw", "paged_adamw": "paged-adamw",
    "adafactor": "adafactor", "lion_32bit": "lion", "lion": "lion",
    "galore_adamw": "galore-adamw", "galore_adamw_8bit": "galore-adamw-8bit",
}  # fmt: skip

TABLE = option_table(
    quiet("output_dir"),
    option("per_device_train_batch_size", "plan.micro_batch", "count", 8),
    renamed_before_2023({"per_gpu_train_batch_size": "per_device_train_batch_size"}),
    option("model_name_or_path", "model", "word", when="never"),
    option("gradient_accumulation_steps", "accumulation", "count", 1),
    option("optim", "workload.optimizer", choice(OPTIMIZERS), "adamw_torch_fused",
        cannot="is no optimizer of transformers"),
    part("bf16", "workload.precision", "flag", False),
    part("fp16", "workload.precision", "flag", False),
    part("activation_checkpointing", "plan.recompute", switch("full"), False),
    part("gradient_checkpointing", "plan.recompute", switch("full"), False),
    part("max_steps", "steps", "whole", -1),
    part("use_peft", "workload.tuning", "flag", False),
    part("lora_r", "workload.tuning", "count", 16),
    part("load_in_4bit", "workload.tuning", "flag", False),
    part("max_length", "workload.sequence", "count"),
    option("max_seq_length", "workload.sequence", "count", old="max_length"),
    part("model_max_length", "workload.sequence", "count"),
    part("block_size", "workload.sequence", "count"),
    part("attn_implementation", "stack", "word"),
    part("deepspeed", "plan.zero", "text"),
    part("fsdp", "plan.zero", "text"),
    part("fsdp_config", "plan.zero", "text"),
    lost("not expressible", "the batch is found by trying", "auto_find_batch_size"),
    lost("not expressible", "an optimizer's states are projected or layers trained in turn", "optim_target_modules"),
    option("use_liger_kernel", "stack.loss", switch("fused"), False, when="never"),
    lost("approximated", "kernels are compiled", "torch_compile"),
    lost("approximated", "recompute with settings of its own", "gradient_checkpointing_kwargs "
         "activation_checkpointing_kwargs", {}),
    lost("not expressible", "weights of the base in 8 bits", "load_in_8bit"),
    lost("approximated", "adapters on these modules only; here on all", "lora_target_modules", "all-linear"),
    lost("not expressible", "shards of an older library", "sharded_ddp"),
    lost("not expressible", "degrees of a call in the program", "parallelism_config tp_size"),
    lost("approximated", "sequences are padded: fewer of their tokens are real", "packing", True),
    quiet("overwrite_output_dir do_train do_eval do_predict num_train_epochs learning_rate weight_decay "
          "adam_beta1 adam_beta2 adam_epsilon max_grad_norm lr_scheduler_type lr_scheduler_kwargs warmup_ratio "
          "warmup_steps logging_steps logging_dir logging_strategy logging_first_step save_steps save_strategy "
          "save_total_limit save_safetensors save_on_each_node eval_steps eval_strategy evaluation_strategy "
          "per_device_eval_batch_size eval_accumulation_steps seed data_seed report_to run_name push_to_hub "
          "hub_model_id hub_strategy remove_unused_columns dataloader_num_workers dataloader_drop_last "
          "dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor group_by_length "
          "length_column_name ddp_find_unused_parameters ddp_bucket_cap_mb ddp_timeout ddp_backend "
          "ddp_broadcast_buffers disable_tqdm load_best_model_at_end metric_for_best_model greater_is_better tf32 "
          "label_smoothing_factor resume_from_checkpoint optim_args dataset_text_field completion_only_loss "
          "include_tokens_per_second include_num_input_tokens_seen average_tokens_across_devices log_level "
          "neftune_noise_alpha accelerator_config bf16_full_eval "
          "fp16_full_eval fp16_opt_level fp16_backend half_precision_backend fsdp_min_num_params "
          "fsdp_transformer_layer_cls_to_wrap model_revision trust_remote_code "
          "dataset_name dataset_config dataset_train_split dataset_test_split dataset_config_name lora_alpha "
          "lora_dropout lora_task_type train_file validation_file data_path cache_dir tokenizer_name "
          "use_fast_tokenizer preprocessing_num_workers torchdynamo no_cuda use_cpu local_rank ignore_data_skip "
          "prediction_loss_only full_determinism skip_memory_metrics hub_token hub_private_repo config_name "
          "streaming validation_split_percentage lazy_preprocess eos_token pad_token chat_template_path"),
)  # fmt: skip


def read_training_arguments(tree: Any, file: str) -> Layer:
    """The facts that TrainingArguments state; sharding is usually in another file that they name."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = layer_of_rows(keys, TITLE)
    if keys["use_peft"].value:
        method = "qlora" if keys["load_in_4bit"].value else "lora"
        layer.fill("workload.tuning.method", keys["use_peft"]._replace(value=method))
        layer.facts["workload.tuning.rank"] = keys["lora_r"]
    longest = next((keys[name] for name in _LENGTHS if keys[name].value), None)
    if longest is not None:
        layer.fill("workload.sequence", longest)
    steps = keys["max_steps"]
    if steps.value and steps.value > 0:
        layer.fill("steps", steps)
    on = [name for name in ("bf16", "fp16") if keys[name].value]
    if len(on) > 1:
        keys.refuse("X005", "bf16 and fp16 exclude each other", "fp16")
    if on:
        layer.facts["workload.precision"] = keys[on[0]]._replace(value=on[0])
    new = keys["activation_checkpointing"]
    layer.fill(
        "plan.recompute",
        new if new.value or not keys.given("gradient_checkpointing") else keys["gradient_checkpointing"],
    )
    _read_sharding(keys, layer)
    fill_unfused_attention(layer, keys["attn_implementation"])
    return finished_layer(keys, layer)


def fill_unfused_attention(layer: Layer, *keys: OriginValue) -> None:
    """Fills unfused attention if a key asks for it; otherwise attention is fused as in the stack."""
    eager = next((key for key in keys if key.value in ("eager", True)), None)
    if eager is not None:
        layer.facts["stack.kernels.attention"] = eager._replace(value="unfused")


def with_launcher(layer: Layer, found: ArgumentText) -> Layer:
    """The layer with the accelerators of the launcher and the configuration files that it names."""
    for path, value in found.launched.items():
        layer.fill(path, value)
    layer.faults += found.faults
    layer.named += found.named
    for ahead in found.ahead:
        layer.join(ahead)
    return layer


def _read_sharding(keys: ForeignKeys, layer: Layer) -> None:
    """Adds DeepSpeed or FSDP settings to `layer`, the facts of the file."""
    engine, sharded = keys["deepspeed"], keys["fsdp"]
    if isinstance(engine.value, Mapping):
        inner = read_deepspeed(engine.value, keys.file)
        inner.keys = [key._replace(name=f"deepspeed.{key.name}") for key in inner.keys]
        layer.join(inner)
    elif isinstance(engine.value, str) and engine.place is not None:
        layer.named.append((str(engine.value), engine.place))
    elif sharded.value not in (None, False, "", []):
        _read_fsdp(keys, layer)
    else:
        layer.weak["stack"] = keys.assumed("ddp", "neither deepspeed nor fsdp is stated")
        layer.weak["plan.zero"] = keys.assumed(0, "neither deepspeed nor fsdp is stated")
        layer.weak["plan.recompute"] = keys["activation_checkpointing"]._replace(value="none")


def _read_fsdp(keys: ForeignKeys, layer: Layer) -> None:
    """Fills FSDP from `fsdp: true` with fsdp_config (version 5), or from older words such as full_shard."""
    sharded, more = keys["fsdp"], keys["fsdp_config"].value
    words = str(sharded.value).lower() if not isinstance(sharded.value, bool) else ""
    inside = more if isinstance(more, Mapping) else {}
    settings = {str(key).removeprefix("fsdp_"): value for key, value in inside.items()}
    for name in (name for name in settings if name not in _SETTINGS):
        keys.unknown(name, "fsdp_config")
    if isinstance(more, str):
        keys.refuse("X002", f"fsdp_config names {more[:80]}, which is not read", "fsdp_config", "write its keys here")
    strategy = next((word for word in re.findall(r"\w+", words.upper()) if word in STRATEGIES), "")
    hybrid = STRATEGIES.get(strategy, (3, False))[1]
    first = str(settings.get("version", 1 if hybrid or strategy == "NO_SHARD" else 2)) == "1"
    if strategy and "version" not in settings:
        sentence = f"fsdp {strategy.lower()} is a word of transformers before 5, whose default was FSDP 1"
        hint = f"FSDP {1 if first else 2} is read; version in fsdp_config states it"
        layer.warnings.append(Fault("X006", sentence, sharded.place, hint))
    again = str(settings.get("reshard_after_forward", "true")).upper()
    kept = 2 if again in ("FALSE", "SHARD_GRAD_OP") else STRATEGIES.get(strategy or again, (3, False))[0]
    layer.facts["stack"] = sharded._replace(value="fsdp1" if first else "fsdp2")
    layer.facts["plan.zero"] = sharded._replace(value=kept)
    if hybrid:
        keys.lose("not expressible", "replicas of the shards: as many as there are nodes", "fsdp")
    if "offload" in words or str(settings.get("cpu_offload", "false")).lower() == "true":
        layer.facts["plan.offload"] = sharded._replace(value=["optimizer", "parameters"])
    if str(settings.get("activation_checkpointing", "false")).lower() == "true":
        layer.facts["plan.recompute"] = sharded._replace(value="full")
    else:
        layer.weak["plan.recompute"] = keys["activation_checkpointing"]._replace(value="none")


def write_training_arguments(job: Job, remarks: TrainingRemarks) -> str:
    """The YAML of TrainingArguments; keys that neither it nor accelerate can express are faults."""
    write_accelerate(job, TrainingRemarks(job, remarks.faults))
    workload = job.workload
    beside: dict[str, Any] = {"output_dir": "out"}
    if workload.precision in ("bf16", "fp16"):
        beside[workload.precision] = True
    elif workload.precision in ("fp32", "tf32"):
        remarks.refuse("workload.precision", f"{workload.precision}: arguments without bf16 and fp16 are not written")
    if job.stack == "ddp":
        beside["activation_checkpointing"] = job.plan.recompute == "full"
        if job.plan.recompute == "selective":
            remarks.refuse("plan.recompute", "selective: whole layers are recomputed, or nothing")
    if (steps := job.value("steps")) is not None:
        beside["max_steps"] = steps
    remarks.note(f"tokens of a sequence are your program's: {workload.sequence:,.0f}; learning rate and data too")
    return document_text(written(TABLE, job, remarks.refuse, beside), {})


_LAYOUT = "the configuration of accelerate, which --to accelerate writes"

FORMAT = TrainingFormat(
    name="hf",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    elsewhere={
        "model": "the program",
        **because(_LAYOUT, "dp dp_replicate tp cp cp_type zero offload offload_to"),
        "workload.kind": "a training program",
        "workload.sequence": "the program, or max_length of an SFTConfig",
        "workload.gradients": "the engine: as of the stack",
    },
    fixed=accelerate.WHOLE_LAYERS,
    cannot=accelerate.CANNOT,
    kind="TrainingArguments",
    stacks=accelerate.FORMAT.stacks,
    write=write_training_arguments,
)
