"""YAML of LLaMA-Factory: a fine-tuning, sharded by DeepSpeed or laid out by options of Megatron-LM."""

from __future__ import annotations

from typing import Any

from costmodel.exchange.importers.launch.layer import Layer, layer_of
from costmodel.exchange.importers.launch.training_arguments import OPTIMIZERS
from costmodel.exchange.importers.launch.training_arguments import TABLE as ARGUMENTS
from costmodel.exchange.values.foreign_keys import ForeignKey, ForeignKeys, lost, quiet

VERSION = "LLaMA-Factory 0.9.5"
TITLE = "YAML of LLaMA-Factory"

_MEGATRON = {
    "tensor_model_parallel_size": "plan.tp",
    "pipeline_model_parallel_size": "plan.pp",
    "context_parallel_size": "plan.cp",
    "expert_model_parallel_size": "plan.ep",
    "expert_tensor_parallel_size": "plan.etp",
    "virtual_pipeline_model_parallel_size": "plan.vpp",
}
_FLAGS = {"sequence_parallel": "plan.sequence_parallel", "use_distributed_optimizer": "plan.zero"}
_OVERLAPS = {"overlap_grad_reduce": "dp", "overlap_param_gather": "weights", "tp_comm_overlap": "tp"}

_NOT_ITS = (
    "max_length",
    "max_seq_length",
    "model_max_length",
    "block_size",
    "fsdp",
    "fsdp_config",
    "use_peft",
    "lora_r",
)
_ALONE = ("pt", "sft")  # kinds of training with one model that answers for itself
_DISPATCHERS = ("alltoall", "flex", "allgather")

TABLE: dict[str, ForeignKey] = {
    **{name: key for name, key in ARGUMENTS.items() if name not in _NOT_ITS},
    "model_name_or_path": ForeignKey("word", "model"),
    "cutoff_len": ForeignKey("count", "workload.sequence", 2048),
    "finetuning_type": ForeignKey("word", "workload.tuning", "lora", ("full", "lora", "freeze")),
    "lora_rank": ForeignKey("count", "workload.tuning", 8),
    "quantization_bit": ForeignKey("count", "workload.tuning"),
    "stage": ForeignKey("word", "workload.kind", "sft"),
    "pure_bf16": ForeignKey("flag", "workload.precision", False),
    "fp8": ForeignKey("flag", "workload.precision", False),
    "use_galore": ForeignKey("flag", "workload.optimizer", False),
    "recompute_method": ForeignKey("word", "plan.recompute_method", None, ("uniform", "block")),
    "recompute_num_layers": ForeignKey("count", "plan.recompute_layers"),
    "disable_gradient_checkpointing": ForeignKey("flag", "plan.recompute", False),
    "deepspeed": ForeignKey("word", "plan.zero"),
    **{name: ForeignKey("count", fills) for name, fills in _MEGATRON.items()},
    **{name: ForeignKey("flag", fills, False) for name, fills in _FLAGS.items()},
    **{name: ForeignKey("flag", "assume.overlap", False) for name in _OVERLAPS},
    "recompute_granularity": ForeignKey("word", "plan.recompute", None, ("full", "selective")),
    "moe_token_dispatcher_type": ForeignKey("word", "assume.experts.deduplicated", None, _DISPATCHERS),
    **lost("approximated", "adapters stand beside these modules alone: here all", "lora_target", "all"),
    **lost("not expressible", "a part of the layers is trained", "freeze_trainable_layers freeze_trainable_modules"),
    **lost("approximated", "kernels are replaced", "enable_liger_kernel use_unsloth"),
    **lost("not expressible", "an optimizer of its own", "use_apollo use_badam use_adam_mini use_muon"),
    **lost("approximated", "adapters of another kind: here LoRA", "use_dora pissa_init loraplus_lr_ratio"),
    **lost("approximated", "sequences are padded: fewer of their tokens are real", "packing", True),
    **quiet("do_train do_eval template dataset eval_dataset max_samples preprocessing_num_workers "
            "upcast_layernorm use_rslora lora_target_parameters galore_rank galore_target galore_update_interval "
            "galore_scale rope_scaling quantization_method double_quantization resize_vocab shift_attn "
            "mask_history mixture_of_tokens ddp_timeout neat_packing overwrite_cache plot_loss lora_alpha "
            "lora_dropout flash_attn trust_remote_code val_size media_dir moe_grouped_gemm bias_activation_fusion "
            "apply_rope_fusion use_mca additional_target dataset_dir image_max_pixels video_max_pixels "
            "freeze_vision_tower freeze_multi_modal_projector"),
}  # fmt: skip


def read_llama_factory(tree: Any, file: str) -> Layer:
    """What a configuration of LLaMA-Factory states."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = Layer(TITLE)
    layer.fill("model", keys["model_name_or_path"])
    layer.fill("workload.sequence", keys["cutoff_len"])
    layer.fill("plan.micro_batch", keys["per_device_train_batch_size"])
    layer.fill("accumulation", keys["gradient_accumulation_steps"])
    if (keys["max_steps"].value or -1) > 0:
        layer.fill("steps", keys["max_steps"])
    _types(keys, layer)
    _tuning(keys, layer)
    if any(keys.given(name) for name in (*_MEGATRON, "use_distributed_optimizer")):
        _megatron(keys, layer)
    else:
        _plain(keys, layer)
    return layer_of(keys, TITLE, layer)


def _types(keys: ForeignKeys, layer: Layer) -> None:
    on = next((name for name in ("bf16", "fp16", "pure_bf16") if keys[name].value), None)
    if on is not None:
        layer.facts["workload.precision"] = keys[on]._replace(value=on.removeprefix("pure_"))
    if on == "pure_bf16":
        keys.lose("not expressible", "weights, gradients and moments in bf16: here the states of the stack", on)
    if keys["fp8"].value:
        layer.facts["workload.precision"] = keys["fp8"]._replace(value="fp8-cs")
    kind = keys["optim"]
    if keys["use_galore"].value:
        kind = keys["use_galore"]._replace(value="galore_adamw_8bit" if "8bit" in str(kind.value) else "galore_adamw")
    if kind.value in OPTIMIZERS:
        layer.fill("workload.optimizer", kind._replace(value=OPTIMIZERS[kind.value]))
    else:
        keys.no_optimizer(kind.value, "optim")


def _tuning(keys: ForeignKeys, layer: Layer) -> None:
    kind, narrow = keys["finetuning_type"], keys["quantization_bit"]
    if kind.value == "freeze":
        keys.refuse("X003", "finetuning_type freeze: no workload trains a part of the layers", "finetuning_type")
    if keys["stage"].value not in _ALONE:
        sentence = f"stage {str(keys['stage'].value)[:20]}: a second model, or pairs of answers"
        keys.lose("not expressible", sentence, "stage")
    if narrow.value not in (None, 4, 16, 32) and kind.value == "lora":
        keys.lose("not expressible", f"weights of the base in {narrow.value} bits: here in 16", "quantization_bit")
    if kind.value == "lora":
        layer.facts["workload.tuning.method"] = kind._replace(value="qlora" if narrow.value == 4 else "lora")
        layer.fill("workload.tuning.rank", keys["lora_rank"])


def _megatron(keys: ForeignKeys, layer: Layer) -> None:
    """The layout in options of Megatron-LM, which an adapter runs."""
    first = next(name for name in (*_MEGATRON, "use_distributed_optimizer") if keys.given(name))
    layer.facts["stack"] = keys.derived("megatron-core", "options of Megatron-LM", first)
    for name, path in _MEGATRON.items():
        layer.fill(path, keys[name])
    layer.fill("plan.sequence_parallel", keys["sequence_parallel"])
    sharded = keys["use_distributed_optimizer"]
    layer.fill("plan.zero", sharded._replace(value=int(bool(sharded.value))))
    mode = keys["recompute_granularity"]
    layer.fill("plan.recompute", mode._replace(value=mode.value or "none"))
    if mode.value == "full":
        layer.fill("plan.recompute_method", keys["recompute_method"])
        layer.fill("plan.recompute_layers", keys["recompute_num_layers"])
    for name, key in _OVERLAPS.items():
        if not keys[name].value and not (key == "tp" and (keys["tensor_model_parallel_size"].value or 1) < 2):
            layer.fill(f"assume.overlap.{key}", keys[name]._replace(value=0))
    dispatcher = keys["moe_token_dispatcher_type"]
    if dispatcher.value:
        layer.fill("assume.experts.deduplicated", dispatcher._replace(value=dispatcher.value == "flex"))


def _plain(keys: ForeignKeys, layer: Layer) -> None:
    """Recompute is on unless it is switched off; DeepSpeed stands in a file of its own."""
    off, engine = keys["disable_gradient_checkpointing"], keys["deepspeed"]
    layer.facts["plan.recompute"] = off._replace(value="none" if off.value else "full")
    if engine.value and engine.place is not None:
        layer.named.append((engine.value, engine.place))
        return
    layer.weak["stack"] = keys.assumed("ddp", "no deepspeed is stated")
    layer.weak["plan.zero"] = keys.assumed(0, "no deepspeed is stated")
