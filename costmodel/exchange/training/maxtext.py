"""Reads MaxText's YAML: meshes inside a slice and across slices, and a batch for each device."""

from __future__ import annotations

from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.import_result import OriginValue
from costmodel.exchange.option_rows import NOTHING, choice, lost, option, option_table, part, quiet
from costmodel.exchange.training.file_facts import Layer, finished_layer, layer_of_rows
from costmodel.exchange.training.job import TRAINS, WHOLE_LAYERS, TrainingFormat

VERSION = "MaxText"
TITLE = "YAML of MaxText"
# Axes of its meshes with our degrees; sequence and context parallelism both cut the sequence.
_AXES = {
    "data": "plan.dp_replicate", "fsdp": "plan.dp", "fsdp_transpose": "plan.dp", "sequence": "plan.cp",
    "context": "plan.cp", "tensor": "plan.tp", "tensor_transpose": "plan.tp", "tensor_sequence": "plan.tp",
    "expert": "plan.ep", "pipeline": "plan.pp", "autoregressive": "",
}  # fmt: skip
_OPEN = {"ici": "fsdp", "dcn": "data"}  # the axis that takes the rest where nothing states it
MODELS = {
    "llama2-7b": "llama-2-7b", "llama2-13b": "llama-2-13b", "llama2-70b": "llama-2-70b", "llama3-8b": "llama-3-8b",
    "llama3-70b": "llama-3-70b", "llama3.1-8b": "llama-3.1-8b", "llama3.1-70b": "llama-3.1-70b",
    "llama3.1-405b": "llama-3.1-405b", "llama3.3-70b": "llama-3.1-70b", "mistral-7b": "mistral-7b-v0.1",
    "mixtral-8x7b": "mixtral-8x7b", "mixtral-8x22b": "mixtral-8x22b", "deepseek3-671b": "deepseek-v3",
    "gemma2-2b": "gemma-2-2b", "gemma2-9b": "gemma-2-9b", "gemma2-27b": "gemma-2-27b", "gemma3-4b": "gemma-3-4b",
    "gemma3-12b": "gemma-3-12b", "gemma3-27b": "gemma-3-27b", "qwen3-0.6b": "qwen-3-0.6b", "qwen3-4b": "qwen-3-4b",
    "qwen3-8b": "qwen-3-8b", "qwen3-14b": "qwen-3-14b", "qwen3-32b": "qwen-3-32b", "gpt3-175b": "gpt-3-175b",
    "qwen3-30b-a3b": "qwen-3-30b-a3b", "qwen3-235b-a22b": "qwen-3-235b-a22b", "gpt-oss-20b": "gpt-oss-20b",
    "gpt-oss-120b": "gpt-oss-120b", "kimi-k2-1t": "kimi-k2", "llama4-17b-16e": "llama-4-scout",
    "llama4-17b-128e": "llama-4-maverick",
}  # fmt: skip
_RECOMPUTE = {"full": "full", "minimal": "selective", "none": "none"}
_QUANTISED = {"": NOTHING, "fp8": "fp8", "nanoo_fp8": "fp8", "fp8_full": "fp8", "te_fp8_delayedscaling": "fp8",
              "te_fp8_currentscaling": "fp8-cs", "te_mxfp8": "mxfp8", "te_nvfp4": "nvfp4"}  # fmt: skip
_OPTIMIZERS = {"adamw": "adamw", "adam_pax": "adamw", "muon": "muon", "sgd": "sgd-momentum"}

TABLE = option_table(
    part("model_name", "model", "word"),
    part("per_device_batch_size", "plan.micro_batch", "figure", 12.0),
    option("gradient_accumulation_steps", "accumulation", "count", 1),
    option("max_target_length", "workload.sequence", "count", 2048),
    part("steps", "steps", "whole"),
    part("remat_policy", "plan.recompute", "word", "full"),
    part("dtype", "workload.precision", choice({"bfloat16": "bf16"}, "no workload trains in it"), "bfloat16"),
    option("grad_dtype", "workload.gradients", choice({"float32": "fp32", "bfloat16": "bf16"}), "float32"),
    part("quantization", "workload.precision", choice(_QUANTISED, "no workload expresses it")),
    option("opt_type", "workload.optimizer", choice(_OPTIMIZERS), "adamw"),
    part("num_pipeline_microbatches", "plan.micro_batch", "whole"),
    [part(f"{mesh}_{axis}_parallelism", path, "whole", -1 if _OPEN[mesh] == axis else 1)
     for mesh in _OPEN for axis, path in _AXES.items()],
    lost("not expressible", "the model is changed", "base_emb_dim base_num_query_heads base_num_kv_heads "
         "base_mlp_dim base_num_decoder_layers head_dim base_moe_mlp_dim global_parameter_scale "
         "override_model_config decoder_block mlp_activations logits_via_embedding vocab_size num_experts "
         "num_experts_per_tok first_num_dense_layers", 1),
    lost("not expressible", "layers or states stay on the host", "optimizer_memory_host_offload "
         "parameter_memory_host_offload"),
    lost("approximated", "weights are kept in another type", "weight_dtype mu_dtype", "float32", ""),
    lost("approximated", "experts drop tokens or are multiplied another way", "capacity_factor "
         "sparse_matmul megablox", -1, -1.0, True),
    quiet("base_config run_name hardware base_output_directory dataset_type dataset_path tokenizer_path "
          "tokenizer_type attention use_iota_embed scan_layers enable_checkpointing async_checkpointing "
          "logits_dot_in_fp32 learning_rate warmup_steps_fraction enable_goodput_recording monitor_goodput profiler "
          "skip_first_n_steps_for_profiler profiler_steps load_parameters_path reuse_example_batch "
          "dump_hlo compile_topology compile_topology_num_slices num_slices sa_block_q sa_block_kv "
          "sa_block_kv_compute sa_block_q_dkv sa_block_kv_dkv sa_block_kv_dkv_compute sa_block_q_dq sa_block_kv_dq "
          "sa_use_fused_bwd_kernel dataset_name train_split eval_interval checkpoint_period log_period "
          "add_bos add_eos packing gcs_metrics save_config_to_gcs opt_state_path hf_access_token shardy"),
)  # fmt: skip


def read_maxtext(tree: Any, file: str) -> Layer:
    """The facts that a configuration of MaxText states, and the model that it names."""
    keys = ForeignKeys(tree, TABLE, file, VERSION, open_numbers=False)
    layer = layer_of_rows(keys, TITLE)
    layer.facts["stack"] = keys.derived("maxtext", "MaxText", next(iter(keys.stated), ""))
    name = keys["model_name"]
    if name.value in MODELS:
        layer.facts["model"] = name._replace(value=MODELS[name.value])
    elif name.value not in (None, "default"):
        keys.lose("not expressible", f"the model {str(name.value)[:60]}: name it with --set model=NAME", "model_name")
    degrees = _read_mesh(keys, layer)
    _read_batch(keys, layer, degrees)
    steps = keys["steps"]
    if steps.value is not None and steps.value > 0:
        layer.fill("steps", steps)
    for kind in (keys["dtype"], keys["quantization"]):
        layer.fill("workload.precision", kind)
    policy = keys["remat_policy"]
    mode = _RECOMPUTE.get(str(policy.value), "selective")
    layer.facts["plan.recompute"] = policy._replace(value=mode)
    if mode == "selective":
        keys.lose("approximated", f"remat_policy {str(policy.value)[:60]}: selective is the nearest", "remat_policy")
    return finished_layer(keys, layer)


def _read_mesh(keys: ForeignKeys, layer: Layer) -> dict[str, int]:
    """The degrees over both meshes (ICI and DCN); an axis of -1 takes the remaining devices."""
    degrees, open_axes = dict[str, int](), set[str]()
    where = dict[str, OriginValue]()
    for mesh in _OPEN:
        for axis, path in _AXES.items():
            value = keys[f"{mesh}_{axis}_parallelism"]
            size = int(value.value if value.value is not None else 1)
            if size == -1:
                if path == "plan.dp_replicate":
                    layer.facts["open_replicas"] = value  # as many as there are slices
                elif keys.given(f"{mesh}_{axis}_parallelism") or mesh == "ici":
                    open_axes.add(path)
                continue
            if size < 1:
                keys.refuse("X005", f"{mesh}_{axis}_parallelism is {size}", f"{mesh}_{axis}_parallelism")
                continue
            degrees[path] = degrees.get(path, 1) * size
            if size > 1:
                where[path] = value
    for path in ("plan.tp", "plan.pp", "plan.cp", "plan.ep"):
        if degrees.get(path, 1) > 1:
            layer.facts[path] = where[path]._replace(value=degrees[path])
    if degrees.get("plan.cp", 1) > 1:
        layer.facts["plan.cp_type"] = where["plan.cp"]._replace(value="all-gather")
    experts = degrees.get("plan.ep", 1)  # a mesh axis of its own, which holds other tokens: a part of dp
    shards = degrees.get("plan.dp", 1) * experts
    copies = degrees.get("plan.dp_replicate", 1)
    layer.facts["plan.zero"] = keys.derived(3, "fsdp: weights are sharded", "ici_fsdp_parallelism")
    if copies > 1:
        layer.facts["plan.dp_replicate"] = where["plan.dp_replicate"]._replace(value=copies)
    if open_axes and "open_replicas" in layer.facts:
        del layer.facts["open_replicas"]
        keys.lose("approximated", "slices are counted nowhere: one is read, without copies", "ici_fsdp_parallelism")
    if not open_axes:
        stated = where.get("plan.dp") or keys.derived(1, "no axis of fsdp")
        layer.facts["shards"] = stated._replace(value=shards)
    return degrees


def _read_batch(keys: ForeignKeys, layer: Layer, degrees: dict[str, int]) -> None:
    """Fills the micro-batch: per_device_batch_size × the devices that share one replica."""
    each = keys["per_device_batch_size"]
    inner = 1
    for path in ("plan.tp", "plan.pp", "plan.cp"):
        inner *= degrees.get(path, 1)
    size = float(each.value) * inner
    if size < 1 or size != int(size):
        sentence = f"per_device_batch_size {each.value:g} over {inner} devices of a replica is no whole batch"
        keys.refuse("X005", sentence, "per_device_batch_size")
        return
    if inner == 1:
        layer.facts["plan.micro_batch"] = each._replace(value=int(size))
    else:
        text = f"per_device_batch_size × {inner} devices of a replica"
        layer.facts["plan.micro_batch"] = keys.derived(int(size), text, "per_device_batch_size")


FORMAT = TrainingFormat(
    name="maxtext",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    cannot={
        **TRAINS,
        **WHOLE_LAYERS,
        **because("stages hold as many layers", "split first_stage_layers last_stage_layers"),
        **because("nothing is offloaded", "offload offload_to offload_layers"),
        **because("stages run in rounds of its own", "schedule vpp"),
        **because("fsdp, always", "zero"),
        **because("experts are whole on their ranks", "etp"),
        **because("XLA splits as it finds", "sequence_parallel"),
        "workload.tuning": "full training alone",
    },
)
