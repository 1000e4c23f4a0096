"""YAML of nanotron: its model in the words of transformers, its layout, its batch."""

from __future__ import annotations

import json
from typing import Any

from costmodel.documents.text.yaml_tree import Mapping
from costmodel.exchange.imported import Imported
from costmodel.exchange.importers.huggingface import read_config
from costmodel.exchange.importers.launch.deepspeed import OPTIMIZERS
from costmodel.exchange.importers.launch.layer import Layer, layer_of
from costmodel.exchange.values.foreign_keys import ForeignKey, ForeignKeys, lost, quiet

VERSION = "nanotron 0.4"
TITLE = "YAML of nanotron"
_SCHEDULES = {"1f1b": "1f1b", "afab": "gpipe"}
CLASSES = {
    "is_llama_config": ("LlamaForCausalLM", "llama"),
    "is_qwen2_config": ("Qwen2ForCausalLM", "qwen2"),
    "is_starcoder2_config": ("Starcoder2ForCausalLM", "starcoder2"),
}
_OWN = {"is_llama_config", "is_qwen2_config", "is_starcoder2_config", "_attn_implementation", "_fused_rms_norm",
        "_fused_rotary_emb", "_use_doc_masking", "_use_qkv_packed", "ring_attn_heads_k_stride", "z_loss_enabled",
        "z_loss_coefficient", "no_rope_layer", "flex_attention_mask", "pad_token_id", "bos_token_id", "eos_token_id",
        "rope_interleaved", "initializer_range", "use_cache", "pretraining_tp", "sliding_window_size"}  # fmt: skip

TABLE: dict[str, ForeignKey] = {
    "model.model_config": ForeignKey("text", "model"),
    "model.dtype": ForeignKey("word", "workload.precision", "bfloat16", ("bfloat16", "float16", "float32")),
    "model.make_vocab_size_divisible_by": ForeignKey("count", "model", 1),
    "optimizer.zero_stage": ForeignKey("count", "plan.zero", 0),
    "optimizer.accumulate_grad_in_fp32": ForeignKey("flag", "workload.gradients", True),
    "optimizer.optimizer_factory.name": ForeignKey("word", "workload.optimizer", "adamW"),
    "parallelism.dp": ForeignKey("count", "plan.dp", 1),
    "parallelism.pp": ForeignKey("count", "plan.pp", 1),
    "parallelism.tp": ForeignKey("count", "plan.tp", 1),
    "parallelism.context_parallel_size": ForeignKey("count", "plan.cp", 1),
    "parallelism.expert_parallel_size": ForeignKey("count", "plan.ep", 1),
    "parallelism.pp_engine": ForeignKey("word", "plan.schedule", "afab", ("1f1b", "afab", "AFAB", "1F1B")),
    "parallelism.tp_mode": ForeignKey("word", "plan.sequence_parallel", "ALL_REDUCE",
                                      ("ALL_REDUCE", "REDUCE_SCATTER", "all_reduce", "reduce_scatter")),
    "parallelism.recompute_layer": ForeignKey("flag", "plan.recompute", False),
    "tokens.micro_batch_size": ForeignKey("count", "plan.micro_batch"),
    "tokens.batch_accumulation_per_replica": ForeignKey("count", "workload.global_batch", 1),
    "tokens.sequence_length": ForeignKey("count", "workload.sequence"),
    "tokens.train_steps": ForeignKey("count", "workload.tokens"),
    **lost("approximated", "products and their communication overlap, or not",
           "parallelism.tp_linear_async_communication parallelism.tp_recompute_allgather", True),
    **quiet("general checkpoints data_stages logging profiler tokenizer s3_upload lighteval metrics_logging "
            "model.ddp_bucket_cap_mb model.init_method optimizer.clip_grad optimizer.learning_rate_scheduler "
            "optimizer.weight_decay optimizer.weight_decay_exclude_named_params optimizer.lr_scheduler "
            "optimizer.optimizer_factory.adam_beta1 optimizer.optimizer_factory.adam_beta2 "
            "optimizer.optimizer_factory.adam_eps optimizer.optimizer_factory.torch_adam_is_fused "
            "tokens.val_check_interval tokens.limit_val_batches tokens.limit_test_batches"),
}  # fmt: skip


def read_nanotron(tree: Any, file: str) -> Layer:
    """What a configuration of nanotron states, its model included."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = Layer(TITLE)
    anchor = next(iter(keys.stated), "")
    layer.weak["stack"] = keys.assumed("megatron-lm", "nanotron has no document: the nearest of its kind")
    keys.lose("approximated", "times are of Megatron-LM, whose layout is alike", anchor)
    layer.written = _model(keys, file)
    layer.facts["shards"] = keys["parallelism.dp"]
    for key, path in (("tp", "plan.tp"), ("pp", "plan.pp"), ("context_parallel_size", "plan.cp"),
                      ("expert_parallel_size", "plan.ep")):  # fmt: skip
        degree = keys[f"parallelism.{key}"]
        if key in ("tp", "pp") or (degree.value or 1) > 1:
            layer.facts[path] = degree
    if "plan.cp" in layer.facts:
        layer.facts["plan.cp_type"] = keys.derived("p2p", "ring attention", "parallelism.context_parallel_size")
    engine = keys["parallelism.pp_engine"]
    layer.facts["plan.schedule"] = engine._replace(value=_SCHEDULES[engine.value.lower()])
    mode = keys["parallelism.tp_mode"]
    layer.facts["plan.sequence_parallel"] = mode._replace(value=mode.value.lower() == "reduce_scatter")
    again = keys["parallelism.recompute_layer"]
    layer.facts["plan.recompute"] = again._replace(value="full" if again.value else "none")
    layer.facts["plan.zero"] = keys["optimizer.zero_stage"]
    layer.fill("plan.micro_batch", keys["tokens.micro_batch_size"])
    layer.fill("accumulation", keys["tokens.batch_accumulation_per_replica"])
    layer.fill("workload.sequence", keys["tokens.sequence_length"])
    layer.fill("steps", keys["tokens.train_steps"])
    _types(keys, layer)
    return layer_of(keys, TITLE, layer)


def _types(keys: ForeignKeys, layer: Layer) -> None:
    kind = keys["model.dtype"]
    if kind.value == "float32":
        keys.refuse("X003", "model.dtype float32: no workload trains in it", "model.dtype")
    else:
        layer.facts["workload.precision"] = kind._replace(value="fp16" if kind.value == "float16" else "bf16")
    wide = keys["optimizer.accumulate_grad_in_fp32"]
    layer.facts["workload.gradients"] = wide._replace(value="fp32" if wide.value else "bf16")
    name = keys["optimizer.optimizer_factory.name"]
    if str(name.value).lower() in OPTIMIZERS:
        layer.facts["workload.optimizer"] = name._replace(value=OPTIMIZERS[str(name.value).lower()])
    else:
        keys.no_optimizer(name.value, "optimizer.optimizer_factory.name")  # fmt: skip


def _model(keys: ForeignKeys, file: str) -> Imported | None:
    """The model, read as a config.json whose keys stand on the lines that they have here."""
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
            entries.append((key.place.line, f"{json.dumps(str(key))}: {_json(value)}"))
    text, line = "{", 1
    for index, (at, entry) in enumerate(sorted(entries, key=lambda entry: entry[0])):
        text += ("," if index else "") + "\n" * max(0, at - line) + entry
        line = max(line, at)
    return read_config(f"{text}}}", file, "nanotron")


def _json(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return json.dumps(
        int(value) if isinstance(value, int) else float(value) if isinstance(value, float) else str(value)
    )
