"""Reads nanotron's YAML: its model, layout and batch."""

from __future__ import annotations

import json
from typing import Any

from costmodel.documents.text.yaml_tree import Mapping
from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.huggingface import read_config
from costmodel.exchange.import_result import Imported
from costmodel.exchange.option_rows import choice, lost, option, option_table, part, quiet, switch
from costmodel.exchange.training.deepspeed import OPTIMIZERS
from costmodel.exchange.training.file_facts import Layer, finished_layer, layer_of_rows
from costmodel.exchange.training.job import TRAINS, WHOLE_LAYERS, TrainingFormat

VERSION = "nanotron 0.4"
TITLE = "YAML of nanotron 0.4"
_SCHEDULES = choice({"1f1b": "1f1b", "afab": "gpipe"}, fold=True)
_SPLIT_NORMS = choice({"ALL_REDUCE": False, "REDUCE_SCATTER": True}, fold=True)
_TYPES = choice({"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"})
CLASSES = {
    "is_llama_config": ("LlamaForCausalLM", "llama"),
    "is_qwen2_config": ("Qwen2ForCausalLM", "qwen2"),
    "is_starcoder2_config": ("Starcoder2ForCausalLM", "starcoder2"),
}
_OWN = {"is_llama_config", "is_qwen2_config", "is_starcoder2_config", "_attn_implementation", "_fused_rms_norm",
        "_fused_rotary_emb", "_use_doc_masking", "_use_qkv_packed", "ring_attn_heads_k_stride", "z_loss_enabled",
        "z_loss_coefficient", "no_rope_layer", "flex_attention_mask", "pad_token_id", "bos_token_id", "eos_token_id",
        "rope_interleaved", "initializer_range", "use_cache", "pretraining_tp", "sliding_window_size"}  # fmt: skip

TABLE = option_table(
    part("model.model_config", "model", "text"),
    option("model.dtype", "workload.precision", _TYPES, "bfloat16"),
    part("model.make_vocab_size_divisible_by", "model", "count", 1),
    option("optimizer.zero_stage", "plan.zero", "count", 0),
    option("optimizer.accumulate_grad_in_fp32", "workload.gradients", switch("fp32", "bf16"), True),
    option("optimizer.optimizer_factory.name", "workload.optimizer", choice(OPTIMIZERS, fold=True), "adamW"),
    option("parallelism.dp", "shards", "count", 1),
    option("parallelism.pp", "plan.pp", "count", 1),
    option("parallelism.tp", "plan.tp", "count", 1),
    part("parallelism.context_parallel_size", "plan.cp", "count", 1),
    part("parallelism.expert_parallel_size", "plan.ep", "count", 1),
    part("parallelism.pp_engine", "plan.schedule", _SCHEDULES, "afab"),
    option("parallelism.tp_mode", "plan.sequence_parallel", _SPLIT_NORMS, "ALL_REDUCE"),
    option("parallelism.recompute_layer", "plan.recompute", switch("full", "none"), False),
    option("tokens.micro_batch_size", "plan.micro_batch", "count"),
    option("tokens.batch_accumulation_per_replica", "accumulation", "count", 1),
    option("tokens.sequence_length", "workload.sequence", "count"),
    option("tokens.train_steps", "steps", "count"),
    lost("approximated", "products and their communication overlap, or not",
         "parallelism.tp_linear_async_communication parallelism.tp_recompute_allgather", True),
    quiet("general checkpoints data_stages logging profiler tokenizer s3_upload lighteval metrics_logging "
          "model.ddp_bucket_cap_mb model.init_method optimizer.clip_grad optimizer.learning_rate_scheduler "
          "optimizer.weight_decay optimizer.weight_decay_exclude_named_params optimizer.lr_scheduler "
          "optimizer.optimizer_factory.adam_beta1 optimizer.optimizer_factory.adam_beta2 "
          "optimizer.optimizer_factory.adam_eps optimizer.optimizer_factory.torch_adam_is_fused "
          "tokens.val_check_interval tokens.limit_val_batches tokens.limit_test_batches"),
)  # fmt: skip


def read_nanotron(tree: Any, file: str) -> Layer:
    """The facts that a configuration of nanotron states, including its model."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = layer_of_rows(keys, TITLE)
    anchor = next(iter(keys.stated), "")
    layer.weak["stack"] = keys.assumed("megatron-lm", "nanotron has no document: the nearest of its kind")
    keys.lose("approximated", "times are of Megatron-LM, whose layout is alike", anchor)
    layer.written = _read_model(keys, file)
    for key, path in (("context_parallel_size", "plan.cp"), ("expert_parallel_size", "plan.ep")):
        degree = keys[f"parallelism.{key}"]
        if (degree.value or 1) > 1:
            layer.facts[path] = degree
    if "plan.cp" in layer.facts:
        layer.facts["plan.cp_type"] = keys.derived("p2p", "ring attention", "parallelism.context_parallel_size")
    layer.fill("plan.schedule", keys["parallelism.pp_engine"])
    if keys["model.dtype"].value == "fp32":
        keys.refuse("X003", "model.dtype float32: no workload trains in it", "model.dtype")
    return finished_layer(keys, layer)


def _read_model(keys: ForeignKeys, file: str) -> Imported | None:
    """The model of the configuration, read as a config.json with the same line numbers."""
    stated = keys["model.model_config"].value
    if not isinstance(stated, Mapping):
        return None
    if stated.get("moe_config") is not None:
        keys.refuse("X003", "moe_config: experts of nanotron are not read", "model.model_config")
    own = next((key for key in stated if str(key) in CLASSES and str(stated[key]).lower() == "true"), None)
    architecture, kind = CLASSES[str(own)] if own is not None else CLASSES["is_llama_config"]
    entries = [(0, f'"architectures": ["{architecture}"], "model_type": "{kind}"')]
    for key, value in stated.items():
        if str(key) not in _OWN and not isinstance(value, Mapping | list):
            entries.append((key.place.line, f"{json.dumps(str(key))}: {_json_text(value)}"))
    text, line = "{", 1
    for index, (at, entry) in enumerate(sorted(entries, key=lambda entry: entry[0])):
        text += ("," if index else "") + "\n" * max(0, at - line) + entry
        line = max(line, at)
    return read_config(f"{text}}}", file, "nanotron")


def _json_text(value: Any) -> str:
    """A value as JSON text."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return json.dumps(
        int(value) if isinstance(value, int) else float(value) if isinstance(value, float) else str(value)
    )


_OTHER_MODELS = {
    **because("none of its models has it", "position_rows token_types embedding_norm layer_embedding "
         "head_transform head_bias layers.parallel layers.latent layers.compressed layers.shared_output "
         "layers.state_space layers.linear layers.selective_scan residual_streams stream_rule "
         "layers.side_rank meta_tokens prediction vision", "model"),
    **because("none of its models has it", "qk_norm qk_norm_whole sinks output_gate keys_as_values "
         "value_norm value_dim bidirectional shared_kv", "model.layers.attention"),
    "model.layers.experts": "moe_config is refused",
}  # fmt: skip

FORMAT = TrainingFormat(
    name="nanotron",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    cannot={
        **_OTHER_MODELS,
        **TRAINS,
        **WHOLE_LAYERS,
        **because("stages hold as many layers", "split first_stage_layers last_stage_layers"),
        **because("nothing is offloaded", "offload offload_to offload_layers"),
        **because("one chunk on each rank", "vpp"),
        **because("replicas alone", "dp_replicate"),
        **because("experts are whole on their ranks", "etp"),
        "workload.tuning": "full training alone",
    },
)
