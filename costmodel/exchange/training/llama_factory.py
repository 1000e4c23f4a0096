"""Reads LLaMA-Factory's YAML: a fine-tuning with DeepSpeed, or with options of Megatron-LM."""

from __future__ import annotations

from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.option_rows import choice, lost, one_of, option, option_table, part, quiet, switch
from costmodel.exchange.training.file_facts import Layer, finished_layer, layer_of_rows
from costmodel.exchange.training.job import NOWHERE, TrainingFormat
from costmodel.exchange.training.transformers import TABLE as ARGUMENTS

VERSION = "LLaMA-Factory 0.9.5"
TITLE = "YAML of LLaMA-Factory 0.9.5"

_MEGATRON = {
    "tensor_model_parallel_size": "plan.tp",
    "pipeline_model_parallel_size": "plan.pp",
    "context_parallel_size": "plan.cp",
    "expert_model_parallel_size": "plan.ep",
    "expert_tensor_parallel_size": "plan.etp",
    "virtual_pipeline_model_parallel_size": "plan.vpp",
}
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
    "model_name_or_path",
    "deepspeed",
)
_ALONE = ("pt", "sft")  # kinds of training with one model that answers for itself
_DISPATCHERS = choice({"alltoall": False, "flex": True, "allgather": False})

TABLE = option_table(
    [row for name, row in ARGUMENTS.items() if name not in _NOT_ITS],
    option("model_name_or_path", "model", "word"),
    option("cutoff_len", "workload.sequence", "count", 2048),
    part("finetuning_type", "workload.tuning", one_of("full", "lora", "freeze"), "lora"),
    part("lora_rank", "workload.tuning", "count", 8),
    part("quantization_bit", "workload.tuning", "count"),
    part("stage", "workload.kind", "word", "sft"),
    part("pure_bf16", "workload.precision stack.weights", "flag", False),
    part("fp8", "workload.precision", "flag", False),
    part("use_galore", "workload.optimizer", "flag", False),
    part("recompute_method", "plan.recompute_method", one_of("uniform", "block")),
    part("recompute_num_layers", "plan.recompute_layers", "count"),
    part("disable_gradient_checkpointing", "plan.recompute", switch("none", "full"), False),
    part("deepspeed", "plan.zero", "word"),
    [part(name, key, "count") for name, key in _MEGATRON.items()],
    part("sequence_parallel", "plan.sequence_parallel", "flag", False),
    part("use_distributed_optimizer", "plan.zero", switch(1, 0), False),
    [part(name, f"assume.overlap.{key}", "flag", False) for name, key in _OVERLAPS.items()],
    part("recompute_granularity", "plan.recompute",
         choice({"full": "full", "selective": "selective", "null": "none"}), "null"),
    part("moe_token_dispatcher_type", "assume.experts.deduplicated", _DISPATCHERS),
    lost("approximated", "adapters on these modules only; here on all", "lora_target", "all"),
    lost("not expressible", "a part of the layers is trained", "freeze_trainable_layers freeze_trainable_modules"),
    option("enable_liger_kernel", "stack.loss", switch("fused"), False, when="never"),
    lost("approximated", "kernels are replaced", "use_unsloth"),
    lost("not expressible", "an optimizer of its own", "use_apollo use_badam use_adam_mini use_muon"),
    lost("approximated", "adapters of another kind: here LoRA", "use_dora pissa_init loraplus_lr_ratio"),
    quiet("template dataset eval_dataset max_samples "
          "upcast_layernorm use_rslora lora_target_parameters galore_rank galore_target galore_update_interval "
          "galore_scale rope_scaling quantization_method double_quantization resize_vocab shift_attn "
          "mask_history mixture_of_tokens neat_packing overwrite_cache plot_loss "
          "flash_attn val_size media_dir moe_grouped_gemm bias_activation_fusion "
          "apply_rope_fusion use_mca additional_target dataset_dir image_max_pixels video_max_pixels "
          "freeze_vision_tower freeze_multi_modal_projector"),
)  # fmt: skip


def read_llama_factory(tree: Any, file: str) -> Layer:
    """The facts that a configuration of LLaMA-Factory states."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = layer_of_rows(keys, TITLE)
    if (keys["max_steps"].value or -1) > 0:
        layer.fill("steps", keys["max_steps"])
    _read_types(keys, layer)
    _read_tuning(keys, layer)
    if any(keys.given(name) for name in (*_MEGATRON, "use_distributed_optimizer")):
        _read_megatron(keys, layer)
    else:
        _fill_defaults(keys, layer)
    return finished_layer(keys, layer)


def _read_types(keys: ForeignKeys, layer: Layer) -> None:
    """Adds precision and GaLore to `layer`, the facts of the file."""
    on = next((name for name in ("bf16", "fp16", "pure_bf16") if keys[name].value), None)
    if on is not None:
        layer.facts["workload.precision"] = keys[on]._replace(value=on.removeprefix("pure_"))
    if on == "pure_bf16":
        layer.facts["stack.weights"] = keys[on]._replace(value="bf16")
    if keys["fp8"].value:
        layer.facts["workload.precision"] = keys["fp8"]._replace(value="fp8-cs")
    if keys["use_galore"].value:
        narrow = "8bit" in str(keys.stated.get("optim", ("",))[0])
        galore = keys["use_galore"]._replace(value="galore-adamw-8bit" if narrow else "galore-adamw")
        layer.facts["workload.optimizer"] = galore


def _read_tuning(keys: ForeignKeys, layer: Layer) -> None:
    """Adds LoRA or QLoRA to `layer`, the facts of the file."""
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


def _read_megatron(keys: ForeignKeys, layer: Layer) -> None:
    """Fills the layout from Megatron-LM options, which LLaMA-Factory's Megatron adapter runs."""
    first = next(name for name in (*_MEGATRON, "use_distributed_optimizer") if keys.given(name))
    layer.facts["stack"] = keys.derived("megatron-core", "options of Megatron-LM", first)
    for name, path in _MEGATRON.items():
        layer.fill(path, keys[name])
    layer.fill("plan.sequence_parallel", keys["sequence_parallel"])
    layer.fill("plan.zero", keys["use_distributed_optimizer"])
    mode = keys["recompute_granularity"]
    layer.fill("plan.recompute", mode)
    if mode.value == "full":
        layer.fill("plan.recompute_method", keys["recompute_method"])
        layer.fill("plan.recompute_layers", keys["recompute_num_layers"])
    for name, key in _OVERLAPS.items():
        if not keys[name].value and not (key == "tp" and (keys["tensor_model_parallel_size"].value or 1) < 2):
            layer.fill(f"assume.overlap.{key}", keys[name]._replace(value=0))
    layer.fill("assume.experts.deduplicated", keys["moe_token_dispatcher_type"])


def _fill_defaults(keys: ForeignKeys, layer: Layer) -> None:
    """Fills recompute, which is on by default, and the DeepSpeed file or plain DDP."""
    engine = keys["deepspeed"]
    layer.facts["plan.recompute"] = keys["disable_gradient_checkpointing"]
    if engine.value and engine.place is not None:
        layer.named.append((engine.value, engine.place))
        return
    layer.weak["stack"] = keys.assumed("ddp", "no deepspeed is stated")
    layer.weak["plan.zero"] = keys.assumed(0, "no deepspeed is stated")


FORMAT = TrainingFormat(
    name="llama-factory",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    cannot={
        **NOWHERE,
        **because("all stages have the same number of layers", "split first_stage_layers last_stage_layers"),
        **because("what the other degrees leave of the accelerators", "dp"),
        **because("it has one exchange for the context", "cp_type"),
        **because("ranks lie in its own order", "order"),
        **because("with whole layers, or the attention", "recompute_modules"),
        **because("1F1B, with chunks interleaved", "schedule"),
        **because("a configuration of accelerate states it", "dp_replicate offload offload_to offload_layers"),
        "workload.gradients": "the stack has one type of sums",
    },
)
