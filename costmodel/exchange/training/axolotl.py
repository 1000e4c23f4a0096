"""Reads axolotl's YAML: a fine-tuning with its model, adapters and layout."""

from __future__ import annotations

import re
from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.option_rows import KindName, choice, lost, one_of, option, option_table, part, quiet, switch
from costmodel.exchange.training.accelerate import STRATEGIES
from costmodel.exchange.training.file_facts import Layer, finished_layer, layer_of_rows
from costmodel.exchange.training.job import FLAT, ON_HOST_ALONE, TRAINS, WHOLE_LAYERS, TrainingFormat
from costmodel.exchange.training.transformers import OPTIMIZERS, fill_unfused_attention

VERSION = "axolotl 0.19.0"
TITLE = "YAML of axolotl 0.19"

_F = "fsdp_config"
_PRODUCT = "gradient_accumulation_steps, times micro_batch_size,"
_IN_16 = "weights, gradients and moments in 16 bits: here the states of the stack"
_PREFIXES = ("", "fsdp_")  # keys of fsdp_config stand with and without it
_SHARDING: tuple[tuple[str, str, KindName], ...] = (
    ("version", "stack", "count"), ("reshard_after_forward", "plan.zero", "flag"),
    ("offload_params", "plan.offload", "flag"), ("activation_checkpointing", "plan.recompute", "flag"),
    ("sharding_strategy", "plan.zero", "word"),
)  # fmt: skip

TABLE = option_table(
    option("base_model", "model", "word"),
    option("sequence_len", "workload.sequence", "count", 512),
    option("micro_batch_size", "plan.micro_batch", "count", 1),
    part("gradient_accumulation_steps", "accumulation", "count", 1),
    option("batch_size", "workload.global_batch", "count", old=_PRODUCT),
    part("load_in_4bit", "workload.tuning", "flag", False),
    option("max_steps", "steps", "count"),
    part("dp_shard_size", "shards", "count"),
    option("dp_replicate_size", "plan.dp_replicate", "count"),
    option("tensor_parallel_size", "plan.tp", "count"),
    part("context_parallel_size", "plan.cp", "count"),
    option("sequence_parallel_degree", "plan.cp", "count", old="context_parallel_size"),
    option("expert_parallel_size", "plan.ep", "count"),
    part("fsdp", "plan.zero", "text"),
    part("fsdp_version", "stack", "count", 1),
    [part(f"{_F}.{before}{name}", key, kind) for before in _PREFIXES for name, key, kind in _SHARDING],
    part("deepspeed", "plan.zero", "word"),
    part("adapter", "workload.tuning", one_of("lora", "qlora")),
    part("lora_r", "workload.tuning", "count", 8),
    part("lora_target_linear", "workload.tuning", "flag", False),
    part("gradient_checkpointing", "plan.recompute", "text", False),
    part("fp8", "workload.precision", "flag", False),
    part("bfloat16", "workload.precision", "flag", False),
    part("float16", "workload.precision", "flag", False),
    part("float32", "workload.precision", "flag", False),
    part("activation_offloading", "", "text", loss=("not expressible", "activations are offloaded another way")),
    option("optimizer", "workload.optimizer", choice(OPTIMIZERS), "adamw_torch_fused"),
    part("bf16", "workload.precision", "text"),
    part("fp16", "workload.precision", "flag", False),
    lost("approximated", "sequences are padded: fewer of their tokens are real", "sample_packing", True),
    lost("approximated", "adapters on these modules only; here on all", "lora_target_modules"),
    lost("not expressible", "another kind of training", "rl reward_model process_reward_model"),
    lost("not expressible", "weights of the base in 8 bits", "load_in_8bit"),
    lost("not expressible", "a part of the weights is trained", "unfrozen_parameters relora_steps lisa_n_layers"),
    lost("approximated", "adapters of another kind: here LoRA",
         "peft_use_dora loraplus_lr_ratio peft_layers_to_transform lora_modules_to_save "
         "peft_trainable_token_indices"),
    lost("not expressible", "weights of another type, or trained as if",
         "gptq quantization qat quantize_moe_experts"),
    lost("not expressible", "weights or activations live on the host another way",
         "layer_offloading ple_cpu_offload"),
    lost("not expressible", "an optimizer in a subspace or by layers",
         "optim_target_modules relora lisa_step_interval"),
    lost("approximated", "a part of the layers is recomputed", "selective_checkpointing recompute_layer_types"),
    option("chunked_cross_entropy", "stack.loss", switch("chunked"), False, when="never"),
    lost("approximated", "the MLP in pieces, or another loss", "tiled_mlp flash_attn_cross_entropy"),
    part("eager_attention", "stack", "flag", False),
    part("attn_implementation", "stack", "word"),
    lost("approximated", "kernels are replaced or compiled", "torch_compile liger_kernel"),
    quiet("lora_alpha lora_dropout datasets test_datasets dataset_prepared_path "
          "val_set_size output_dir model_type tokenizer_type tokenizer_config special_tokens chat_template "
          "pad_to_sequence_len num_epochs learning_rate lr_scheduler warmup_steps warmup_ratio weight_decay "
          "logging_steps saves_per_epoch evals_per_epoch save_steps eval_steps flash_attention "
          "xformers_attention wandb_project wandb_entity wandb_watch wandb_name "
          "wandb_log_model tf32 strict resume_from_checkpoint train_on_inputs group_by_length "
          "early_stopping_patience local_rank debug eval_sample_packing plugins gradient_checkpointing_kwargs "
          "trust_remote_code hub_model_id seed shuffle_merged_datasets save_total_limit remove_unused_columns "
          "ring_attn_func heads_k_stride lora_mlp_kernel lora_qkv_kernel lora_o_kernel adam_beta1 adam_beta2 "
          "adam_epsilon batch_flattening bos_token eos_token pad_token unk_token dataloader_num_workers "
          "dataloader_pin_memory dataloader_prefetch_factor dataset_processes ddp_timeout ddp_bucket_cap_mb "
          "ddp_broadcast_buffers ddp_find_unused_parameters eval_batch_size eval_strategy flex_attention "
          "sdp_attention sage_attention fsdp_final_state_dict_type gc_steps include_tkps lora_model_dir lr_groups "
          "lora_fan_in_fan_out max_grad_norm mlflow_experiment_name mlflow_run_name mlflow_tracking_uri "
          "neftune_noise_alpha optim_args peft_init_lora_weights peft_use_rslora pretraining_dataset profiler_steps "
          "sample_packing_bin_size sample_packing_eff_est sample_packing_group_size save_first_step save_only_model "
          "save_safetensors save_strategy skip_prepare_dataset streaming tokenizer_use_fast use_mlflow use_wandb "
          "use_tensorboard use_ray ray_num_workers wandb_mode wandb_run_id cosine_min_lr_ratio "
          "loss_watchdog_patience loss_watchdog_threshold lr_scheduler_kwargs "
          "use_kernels experts_implementation load_best_model_at_end"),
    quiet(" ".join(f"{_F}.{before}{name}" for before in _PREFIXES for name in (
        "use_orig_params", "cpu_ram_efficient_loading", "auto_wrap_policy", "transformer_layer_cls_to_wrap",
        "state_dict_type", "sync_module_states", "limit_all_gathers", "final_state_dict_type", "backward_prefetch",
        "forward_prefetch"))),
)  # fmt: skip


def read_axolotl(tree: Any, file: str) -> Layer:
    """The facts that a configuration of axolotl states."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = layer_of_rows(keys, TITLE)
    layer.fill("accumulation", _accumulation(keys))
    _read_degrees(keys, layer)
    _read_sharding(keys, layer)
    fill_unfused_attention(layer, keys["attn_implementation"], keys["eager_attention"])
    _read_types(keys, layer)
    kind = keys["adapter"]
    if kind.value:
        narrow = kind.value == "lora" and bool(keys["load_in_4bit"].value)
        layer.fill("workload.tuning.method", kind._replace(value="qlora") if narrow else kind)
        layer.fill("workload.tuning.rank", keys["lora_r"])
    return finished_layer(keys, layer)


def _accumulation(keys: ForeignKeys) -> Any:
    """Micro-batches per step; older files state a batch per rank, which is divided by the micro-batch."""
    batch, micro = keys["batch_size"], keys["micro_batch_size"]
    if keys.given("gradient_accumulation_steps") or not batch.value or not micro.value:
        return keys["gradient_accumulation_steps"]
    return batch._replace(value=max(1, batch.value // micro.value))


def _read_degrees(keys: ForeignKeys, layer: Layer) -> None:
    """Fills the degrees; axolotl's expert and shard degrees multiply to costmodel's dp."""
    context = keys["context_parallel_size"]
    context = context if context.value else keys["sequence_parallel_degree"]
    if (context.value or 1) > 1:
        layer.fill("plan.cp", context)
        layer.facts["plan.cp_type"] = keys.derived("p2p", "ring attention", "context_parallel_size")
    shard, experts = keys["dp_shard_size"], keys["expert_parallel_size"]
    if shard.value:
        layer.facts["shards"] = shard._replace(value=shard.value * (experts.value or 1))


def _fsdp_key(keys: ForeignKeys, name: str) -> Any:
    """A key of fsdp_config under either of its spellings."""
    found = [keys[f"{_F}.{before}{name}"] for before in _PREFIXES]
    return found[0] if found[0].value is not None else found[1]


def _read_sharding(keys: ForeignKeys, layer: Layer) -> None:
    """Adds recompute, DeepSpeed or FSDP settings to `layer`, the facts of the file."""
    again = keys["gradient_checkpointing"]
    engine = keys["deepspeed"]
    word = str(again.value).lower()
    if word not in ("true", "false", "offload", "offload_disk", "unsloth"):
        keys.refuse("X005", f"gradient_checkpointing {word[:40]} is no way of it", "gradient_checkpointing")
    elif word.startswith("offload") or word == "unsloth":
        keys.lose("not expressible", "saved activations live on the host or the drive", "gradient_checkpointing")
    mode = again if word != "false" else _fsdp_key(keys, "activation_checkpointing")
    on = mode.value not in (None, False, "false", "False")
    layer.fill("plan.recompute", mode._replace(value="full" if on else "none"))
    if engine.value and engine.place is not None:
        layer.named.append((engine.value, engine.place))
        return
    if not (keys.given("fsdp") or keys.under(_F)):
        layer.weak["stack"] = keys.assumed("ddp", "neither deepspeed nor fsdp is stated")
        layer.weak["plan.zero"] = keys.assumed(0, "neither deepspeed nor fsdp is stated")
        return
    version = keys["fsdp_version"] if keys.given("fsdp_version") else _fsdp_key(keys, "version")
    second = version.value == 2
    at = "fsdp" if keys.given("fsdp") else "fsdp_version"
    layer.facts["stack"] = keys.derived("fsdp2" if second else "fsdp1", f"FSDP {2 if second else 1}", at)
    words = f"{keys['fsdp'].value} {_fsdp_key(keys, 'sharding_strategy').value}".lower()
    reshard = _fsdp_key(keys, "reshard_after_forward")
    strategy = next((word for word in re.findall(r"\w+", words.upper()) if word in STRATEGIES), "FULL_SHARD")
    stage, hybrid = STRATEGIES[strategy]
    if second:
        stage, hybrid = (2 if reshard.value is False else 3), False
    layer.facts["plan.zero"] = keys.derived(stage, "reshard_after_forward" if second else strategy.lower(), at)
    if hybrid:
        keys.lose("not expressible", "replicas of the shards: as many as there are nodes", at)
    offloaded = _fsdp_key(keys, "offload_params")
    if offloaded.value:
        layer.fill("plan.offload", offloaded._replace(value=["optimizer", "parameters"]))


def _read_types(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the precision to `layer`, the facts of the file."""
    wide, half = keys["bf16"], keys["fp16"]
    for name in ("bfloat16", "float16"):
        if keys[name].value:
            layer.facts["workload.precision"] = keys[name]._replace(value="bf16" if name == "bfloat16" else "fp16")
            keys.lose("not expressible", _IN_16, name)
    if keys["float32"].value:
        layer.facts["workload.precision"] = keys["float32"]._replace(value="fp32")
    auto = keys.is_open("bf16")
    if auto or str(keys.stated.get("bf16", ("",))[0]).lower() in ("true", "full"):
        layer.facts["workload.precision"] = keys.derived("bf16", "bf16: auto" if auto else "bf16", "bf16")
    elif half.value:
        layer.fill("workload.precision", half._replace(value="fp16"))
    if wide.value == "full":
        keys.lose("not expressible", "weights, gradients and moments in bf16: here the states of the stack", "bf16")
    if keys["fp8"].value:
        layer.facts["workload.precision"] = keys["fp8"]._replace(value="fp8-cs")


FORMAT = TrainingFormat(
    name="axolotl",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    cannot={
        **TRAINS,
        **FLAT,
        **WHOLE_LAYERS,
        **ON_HOST_ALONE,
        **because("experts are whole on their ranks", "etp"),
        **because("it has no tensor parallelism whose norms it could split", "sequence_parallel"),
        "workload.gradients": "the stack has one type of sums",
    },
)
