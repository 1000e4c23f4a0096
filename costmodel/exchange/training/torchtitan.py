"""Reads and writes torchtitan in its three generations: TOML, flags, and a Python recipe, which is never run."""

from __future__ import annotations

import math
import re
from typing import Any

from costmodel.documents.text.yaml_tree import Mapping
from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.import_result import OriginValue
from costmodel.exchange.option_rows import (
    KindName,
    choice,
    lost,
    one_of,
    option,
    option_table,
    part,
    quiet,
    switch,
    written,
)
from costmodel.exchange.training.file_facts import Layer, finished_layer, layer_of_rows
from costmodel.exchange.training.job import (
    NOWHERE,
    Job,
    TrainingFormat,
    TrainingRemarks,
    check_offload,
    check_whole_layers,
)
from costmodel.exchange.write_yaml import checkpoint_name, library_twins

TITLE, VERSION, _VERSION_OF_TOML = "configuration of torchtitan", "torchtitan 0.3.0", "torchtitan 0.2.0"
_GENERATIONS = {
    "toml": "TOML of torchtitan, until 2026-02-23 (9810191bb)",
    "flags": "flags of torchtitan 0.3.0",
    "recipe": "a recipe of torchtitan 0.3.0 in Python",
    "tokens": "a recipe of torchtitan in Python, since 2026-08-20 (73aed7f6c)",
}

_P, _T = "parallelism", "training"
_SCHEDULES = {
    "1F1B": "1f1b", "GPipe": "gpipe", "Interleaved1F1B": "interleaved", "LoopedBFS": "looped-bfs",
    "ZBVZeroBubble": "zb-v", "DualPipeV": "dualpipev",
}  # fmt: skip
_ONE_STAGE = ("1f1b", "gpipe")
_SPLITS = {(1, 1): "lighter-ends", (0, 0): "even", (1, 0): "lighter-first", (0, 1): "lighter-last"}
_NARROW = {"": "fp8-cs", "tensorwise": "fp8-cs", "rowwise": "fp8-row", "rowwise_with_gw_hp": "fp8-row"}
# Converters of torchtitan 0.3.0, by the type that they compute in.
_CONVERTERS = {
    "fp8-row": 'Float8LinearConverter.Config(recipe_name="rowwise", model_compile_enabled=True)',
    "mxfp8": "MXFP8LinearConverter.Config(model_compile_enabled=True)",
    "nvfp4": "NVFP4LinearConverter.Config(model_compile_enabled=True)",
}
_IN_TOKENS = (
    f"{_T}.num_tokens_per_microbatch_per_dp_rank", f"{_T}.num_tokens_per_train_step", f"{_T}.max_context_length",
    f"{_P}.num_pp_microbatches",
)  # fmt: skip
_IN_SEQUENCES = (
    f"{_T}.local_batch_size", f"{_T}.global_batch_size", f"{_T}.seq_len", f"{_T}.batch_size",
    f"{_P}.pipeline_parallel_microbatch_size",
)  # fmt: skip
_MODES = choice({"none": "none", "full": "full", "selective": "selective"}, "no plan has it", fold=True)
_FLAG = re.compile(r"--((?:[a-z_-]+(?:\.[a-z_0-9-]+)+)|config)(?:[ =]+(-?[^\s\\-][^\s\\]*))?(?=\s|\\|$)")
# Flavors of torchtitan 0.3.0, which an export writes, and older ones.
MODELS = {
    ("llama3", "1B"): "llama-3.2-1b", ("llama3", "3B"): "llama-3.2-3b", ("llama3", "8B"): "llama-3.1-8b",
    ("llama3", "70B"): "llama-3.1-70b", ("llama3", "405B"): "llama-3.1-405b",
    ("deepseek_v3", "16B"): "deepseek-v2-lite", ("deepseek_v3", "236B"): "deepseek-v2",
    ("deepseek_v3", "671B"): "deepseek-v3", ("qwen3", "0.6B"): "qwen-3-0.6b", ("qwen3", "1.7B"): "qwen-3-1.7b",
    ("qwen3", "4B"): "qwen-3-4b", ("qwen3", "8B"): "qwen-3-8b", ("qwen3", "14B"): "qwen-3-14b",
    ("qwen3", "32B"): "qwen-3-32b", ("qwen3", "30B-A3B"): "qwen-3-30b-a3b", ("qwen3", "235B-A22B"): "qwen-3-235b-a22b",
    ("gpt_oss", "20b"): "gpt-oss-20b", ("gpt_oss", "120b"): "gpt-oss-120b",
}  # fmt: skip
EVERY_MODEL = MODELS | {
    ("llama2", "7B"): "llama-2-7b", ("llama2", "13B"): "llama-2-13b", ("llama2", "70B"): "llama-2-70b",
    ("llama4", "17bx16e_irope"): "llama-4-scout", ("llama4", "17bx128e_irope"): "llama-4-maverick",
}  # fmt: skip
_BACKEND = "transformers_modeling_backend"  # which trains models of the hub that have no flavor

# Degrees before 2025-02, when they moved to a section of their own.
_OLDER: dict[str, dict[str, KindName]] = {
    _T: {
        "tensor_parallel_degree": "count", "data_parallel_shard_degree": "whole",
        "data_parallel_replicate_degree": "count",
    },
    "experimental": {
        "pipeline_parallel_degree": "count", "pipeline_parallel_schedule": "word",
        "pipeline_parallel_microbatches": "count", "context_parallel_degree": "count",
    },
}  # fmt: skip

TABLE = option_table(
    part("config", "model", "word"),
    part("hf_model", "model", "word"),
    part("model.name", "model", "word"),
    part("model.flavor", "model", "word"),
    part("model.converters", "workload.precision", "text"),
    option("optimizer.name", "workload.optimizer", choice({"AdamW": "adamw", "Adam": "adamw"}), "AdamW",
        cannot="is no optimizer of torchtitan's"),
    part("compile.enable", "stack", "flag"),
    part(f"{_T}.local_batch_size", "plan.micro_batch", "count", 8),
    part(f"{_T}.global_batch_size", "workload.global_batch", "whole", -1),
    part(f"{_T}.seq_len", "workload.sequence", "count", 2048),
    option(f"{_T}.enable_cpu_offload", "plan.offload", switch(["optimizer", "parameters"]), False),
    option(f"{_T}.steps", "steps", "count", 10000),
    option(f"{_P}.data_parallel_replicate_degree", "plan.dp_replicate", "count", 1),
    part(f"{_P}.data_parallel_shard_degree", "plan.dp", "whole", -1),
    part(f"{_P}.fsdp_reshard_after_forward", "plan.zero", one_of("default", "always", "never"), "default"),
    option(f"{_P}.tensor_parallel_degree", "plan.tp", "count", 1),
    option(f"{_P}.pipeline_parallel_degree", "plan.pp", "count", 1),
    option(f"{_P}.context_parallel_degree", "plan.cp", "count", 1),
    option(f"{_P}.context_parallel_rotate_method", "plan.cp_type",
        choice({"allgather": "all-gather", "alltoall": "p2p"}), "allgather",
        cannot="ring attention of PyTorch has all-gather and p2p", when="where it counts"),
    part(f"{_P}.expert_parallel_degree", "plan.ep", "count", 1),
    part(f"{_P}.expert_tensor_parallel_degree", "plan.etp", "count", 1),
    option(f"{_P}.pipeline_parallel_schedule", "plan.schedule", choice(_SCHEDULES, "no plan has it", fold=True), "1F1B",
        cannot="is no schedule of torchtitan's", when="where it counts"),
    part(f"{_P}.pipeline_parallel_microbatch_size", "plan.micro_batch", "count", 1),
    part(f"{_P}.pipeline_parallel_first_stage_less_layers", "plan.split", "count", 1),
    part(f"{_P}.pipeline_parallel_last_stage_less_layers", "plan.split", "count", 1),
    part(f"{_P}.pipeline_parallel_layers_per_stage", "layers_per_stage", "count"),
    part("activation_checkpoint.mode", "plan.recompute", _MODES, "selective"),
    part("activation_checkpoint.selective_ac_option", "plan.recompute", "word", "op"),
    part("quantize.linear.float8.recipe_name", "workload.precision", "word"),
    part("activation_checkpoint", "plan.recompute", "text", "SelectiveAC"),
    part(f"{_T}.max_context_length", "workload.sequence", "count", 2048),
    part(f"{_T}.num_tokens_per_microbatch_per_dp_rank", "plan.micro_batch", "count", 16384),
    part(f"{_T}.num_tokens_per_train_step", "workload.global_batch", "whole", -1),
    part(f"{_T}.dtype", "workload.precision", one_of("float32", "bfloat16"), "float32"),
    part(f"{_T}.mixed_precision_param", "workload.precision", choice({"bfloat16": "bf16", "float32": "fp32"}),
         "bfloat16"),
    option(f"{_T}.mixed_precision_reduce", "workload.gradients", choice({"float32": "fp32"}), "float32", when="never"),
    part(f"{_P}.enable_sequence_parallel", "plan.sequence_parallel", "flag", True),
    part(f"{_P}.num_pp_microbatches", "plan.micro_batch", "count", 1),
    part(f"{_P}.pipeline_parallel_microbatches", "plan.micro_batch", "count"),
    part(f"{_T}.data_parallel_type", "plan.zero", one_of("fsdp", "ddp"), "fsdp"),
    option(f"{_T}.data_parallel_degree", "plan.dp", "whole", old=f"{_P}.data_parallel_shard_degree"),
    option(f"{_T}.batch_size", "plan.micro_batch", "count", old="training.local_batch_size"),
    option("float8.recipe_name", "workload.precision", "word", old="quantize.linear.float8.recipe_name"),
    option("float8.enable_float8_linear", "workload.precision", "flag", old="model.converters"),
    option(f"{_T}.enable_float8_linear", "workload.precision", "flag", old="model.converters"),
    option(f"{_T}.fp8_linear", "workload.precision", "text", old="model.converters"),
    [option(f"{section}.{name}", kind=kind, old=f"{_P}.{name}")
     for section, names in _OLDER.items() for name, kind in names.items()],
    lost("approximated", "products write what tensor parallelism exchanges: --set stack.kernels.copied=false",
           f"{_P}.enable_async_tensor_parallel experimental.enable_async_tensor_parallel "
         "compile.enable_async_tensor_parallel"),
    lost("not expressible", "stages by the names of their modules", f"{_P}.module_fqns_per_model_part "
           f"{_P}.pipeline_parallel_split_points experimental.pipeline_parallel_split_points "
           f"{_P}.pipeline_parallel_schedule_csv", "", []),
    lost("not expressible", "gradients are freed step by step in backward", "optimizer.early_step_in_backward"),
    lost("not expressible", "experts in a narrow type", "quantize.grouped_mm"),
    lost("approximated", "compiled in parts or not", "compile.components"),
    quiet("job profiling metrics lr_scheduler checkpoint comm fault_tolerance validation validator debug "
          "memory_estimation tokenizer hf_assets_path dataloader loss trainer model_spec model.hf_assets_path "
          "model.tokenizer_path model.print_after_conversion model.vocab_size_multiple_of "
          "compile.model_backend_override compile.backend profiler override model.attn_backend "
          "quantize.linear.float8.enable_fsdp_float8_all_gather quantize.linear.float8.filter_fqns "
          "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp quantize.linear.float8.emulate "
          "quantize.linear.mx mx optimizer.lr optimizer.eps optimizer.beta1 optimizer.beta2 "
          "optimizer.weight_decay optimizer.implementation optimizer.fused optimizer.foreach model.norm_type "
          "float8.enable_fsdp_float8_all_gather float8.precompute_float8_dynamic_scale_for_fsdp float8.filter_fqns "
          "float8.force_recompute_fp8_weight_in_bwd float8.emulate float8.scaling_type_input "
          "float8.scaling_type_weight float8.scaling_type_grad_output experimental.custom_import "
          "experimental.custom_args_module experimental.custom_extensions experimental.enable_compiled_autograd"),
    quiet("max_norm gc_freq gc_debug dataset dataset_path seed deterministic disable_cuda_graphs "
          "debug_moe_force_load_balance compile warmup_steps enable_fsdp_float8_all_gather "
          "precompute_float8_dynamic_scale_for_fsdp", f"{_T}."),
    quiet("context_parallel_load_balancer enable_compiled_autograd disable_loss_parallel spmd_backend "
          "enable_fsdp_symm_mem context_parallel_ptrr_mask_key expert_parallel_comm_backend "
          "pipeline_parallel_expert_parallel_overlap", f"{_P}."),
    quiet("per_op_sac_force_recompute_mm_shapes_by_fqns early_stop preserve_rng_state determinism_check debug "
          "memory_budget visualize_memory_budget_pareto", "activation_checkpoint."),
)  # fmt: skip

# What stood for other values in the TOML: half of the layers were recomputed, where nothing else was stated.
_OF_TOML = option_table(part("activation_checkpoint.selective_ac_option", "plan.recompute", "word", "2"))


def read_torchtitan(tree: Mapping, file: str, generation: str) -> Layer:
    """The facts that a configuration of torchtitan states."""
    named = generation == "recipe" and not isinstance(tree.get("activation_checkpoint"), dict)
    table = {key: rule for key, rule in TABLE.items() if named or key != "activation_checkpoint"}
    if generation == "toml":
        table |= _OF_TOML
    keys = ForeignKeys(tree, table, file, _VERSION_OF_TOML if generation == "toml" else VERSION, open_numbers=False)
    if generation == "recipe" and not any(keys.given(name) for name in _IN_SEQUENCES):
        generation = "tokens"
    if generation != "tokens" and any(keys.given(name) for name in _IN_TOKENS):
        _refuse_mixed_generations(keys)
    layer = layer_of_rows(keys, _GENERATIONS[generation])
    anchor = next((name for name in keys.stated if name.startswith((_P, _T))), "")
    layer.facts["stack"] = keys.derived("fsdp2", "torchtitan", anchor)
    _read_model(keys, layer)
    _read_degrees(keys, layer)
    _read_pipeline(keys, layer)
    _read_batch(keys, layer, recipe=generation == "tokens")
    _read_recompute(keys, layer)
    _read_types(keys, layer)
    _read_compile(keys, layer)
    if generation == "flags":
        _drop_recipe_defaults(keys, layer)
    return finished_layer(keys, layer)


def _read_compile(keys: ForeignKeys, layer: Layer) -> None:
    """Fills whether blocks are compiled; a loss if the file does not state it."""
    compiled = keys["compile.enable"]
    if compiled.value is None:
        keys.lose(
            "approximated", "blocks are compiled here, as in fsdp2; compile.enable is left out, and its default is off"
        )
    if compiled.value is False and layer.facts["stack"].value == "fsdp2":
        layer.facts["stack.compile"] = compiled._replace(value="none")


def _refuse_mixed_generations(keys: ForeignKeys) -> None:
    """Records a fault for a batch in tokens (new keys) in a file with keys that count sequences (older keys)."""
    new = next(name for name in _IN_TOKENS if keys.given(name))
    old = next((name for name in _IN_SEQUENCES if keys.given(name)), "")
    beside = f" beside {old}" if old else ""
    keys.refuse("X005", f"{new}{beside} is a key of another generation of torchtitan", new, "keep one of the two")


def _drop_recipe_defaults(keys: ForeignKeys, layer: Layer) -> None:
    """Drops the default sizes, because flags change a recipe that is not part of the text."""
    recipe = keys["config"].value
    if not recipe:
        return
    for path in ("workload.sequence", "plan.micro_batch", "accumulation", "steps"):
        layer.weak.pop(path, None)
    sentence = f"what the recipe {str(recipe)[:60]} states and no flag repeats: print its configuration"
    keys.lose("not expressible", sentence, "config")


def _read_model(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the model, from its name and flavor or from the recipe, to `layer`, the facts of the file."""
    name, flavor, hub = keys["model.name"], keys["model.flavor"], keys["hf_model"]
    if hub.value:
        layer.facts["model"] = hub
        return
    recipe = str(keys["config"].value or "")
    if recipe:
        sizes = {re.sub("[.-]", "_", "_".join(pair).lower()): pair for pair in EVERY_MODEL}
        meant = max((prefix for prefix in sizes if recipe.startswith(prefix)), key=len, default="")
        name, flavor = (keys["config"]._replace(value=part) for part in sizes.get(meant, (recipe, "")))
    found = EVERY_MODEL.get((str(name.value), str(flavor.value)))
    if found is not None:
        at = "model.flavor" if keys.given("model.flavor") else "config"
        layer.facts["model"] = keys.derived(found, f"{name.value} {flavor.value}", at)
    elif flavor.value:
        keys.lose(
            "not expressible", f"{name.value} {str(flavor.value)[:80]} is no model of the library", "model.flavor"
        )


def _read_degrees(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the data-parallel degrees and the ZeRO stage to `layer`, the facts of the file."""
    shard, copies = keys[f"{_P}.data_parallel_shard_degree"], keys[f"{_P}.data_parallel_replicate_degree"]
    if shard.value != -1:
        layer.facts["shards"] = shard
    whole = keys[f"{_P}.context_parallel_degree"].value == 1  # cp shards too
    replicated = whole and shard.value == 1 and (copies.value or 1) > 1
    pipelined = (keys[f"{_P}.pipeline_parallel_degree"].value or 1) > 1
    reshard = keys[f"{_P}.fsdp_reshard_after_forward"]
    stage = 2 if reshard.value == "never" or (reshard.value == "default" and pipelined) else 3
    old = keys[f"{_T}.data_parallel_type"]
    if old.value == "ddp" or replicated:
        layer.facts["plan.zero"] = (old if old.value == "ddp" else shard)._replace(value=0)
        layer.facts["stack"] = layer.facts["plan.zero"]._replace(value="ddp")
    else:
        layer.fill("plan.zero", reshard._replace(value=stage))
    tp = keys[f"{_P}.tensor_parallel_degree"]
    if tp.value > 1 or not keys.given(f"{_P}.tensor_parallel_degree"):
        sharded = keys[f"{_P}.enable_sequence_parallel"]
        layer.fill("plan.sequence_parallel", sharded if tp.value > 1 else sharded._replace(value=False))
    else:
        layer.fill("plan.sequence_parallel", keys.derived(False, "tp is 1", f"{_P}.tensor_parallel_degree"))
    if keys[f"{_P}.expert_parallel_degree"].value > 1:
        layer.fill("plan.ep", keys[f"{_P}.expert_parallel_degree"])
        layer.fill("plan.etp", keys[f"{_P}.expert_tensor_parallel_degree"])


def _read_pipeline(keys: ForeignKeys, layer: Layer) -> None:
    """Adds schedule, chunks and split of the pipeline to `layer`, the facts of the file."""
    if keys[f"{_P}.pipeline_parallel_degree"].value < 2:
        return
    name = keys[f"{_P}.pipeline_parallel_schedule"]
    each = keys[f"{_P}.pipeline_parallel_layers_per_stage"]
    if each.value:
        layer.facts["layers_per_stage"] = each
    elif name.value not in _ONE_STAGE:
        layer.facts["plan.vpp"] = keys.derived(2, f"two stages a rank under {name.value}", name.origin.text)
    less = [keys[f"{_P}.pipeline_parallel_{end}_stage_less_layers"] for end in ("first", "last")]
    split = _SPLITS.get((less[0].value, less[1].value))
    if split is None:
        sentence = f"{less[0].value} and {less[1].value} fewer layers at the ends: here as many everywhere"
        keys.lose("not expressible", sentence, f"{_P}.pipeline_parallel_first_stage_less_layers")
    else:
        layer.fill("plan.split", less[0]._replace(value=split))


def _read_batch(keys: ForeignKeys, layer: Layer, *, recipe: bool) -> None:
    """Adds sequence length, global batch and micro-batch to `layer`, the facts of the file."""
    sequence = keys[f"{_T}.max_context_length" if recipe else f"{_T}.seq_len"]
    layer.fill("workload.sequence", sequence)
    local, total = _recipe_batch(keys, sequence) if recipe else _older_batch(keys)
    if total.value != -1:
        layer.facts["workload.global_batch"] = total
    piped = (keys[f"{_P}.pipeline_parallel_degree"].value or 1) > 1
    if not piped:
        layer.fill("plan.micro_batch", local)
        return
    old = keys[f"{_P}.pipeline_parallel_microbatches"]
    if recipe:
        layer.fill("plan.micro_batch", local)
        if total.value == -1:
            layer.fill("accumulation", keys[f"{_P}.num_pp_microbatches"])
        return
    if old.value:
        micro = old._replace(value=max(1, local.value // max(1, old.value)))
    else:
        micro = keys[f"{_P}.pipeline_parallel_microbatch_size"]
    if not micro.value or local.value % micro.value:
        sentence = f"the local batch {local.value} is no multiple of the pipeline's micro-batch {micro.value}"
        keys.refuse("X005", sentence, f"{_P}.pipeline_parallel_microbatch_size")
        return
    layer.fill("plan.micro_batch", micro)
    if total.value == -1:
        layer.fill("accumulation", local._replace(value=local.value // micro.value))


def _older_batch(keys: ForeignKeys) -> tuple[OriginValue, OriginValue]:
    """The micro-batch and global batch, from the older keys, which count sequences."""
    return keys[f"{_T}.local_batch_size"], keys[f"{_T}.global_batch_size"]


def _recipe_batch(keys: ForeignKeys, sequence: OriginValue) -> tuple[OriginValue, OriginValue]:
    """The micro-batch and global batch in sequences, from the newest keys, which count tokens."""
    found = []
    for name in ("num_tokens_per_microbatch_per_dp_rank", "num_tokens_per_train_step"):
        tokens = keys[f"{_T}.{name}"]
        if tokens.value > 0:
            if not sequence.value or tokens.value % sequence.value:
                sentence = f"{name} {tokens.value} is no multiple of {sequence.value} tokens of a sequence"
                keys.refuse("X005", sentence, f"{_T}.{name}")
            tokens = tokens._replace(value=max(1, tokens.value // max(1, sequence.value)))
        found.append(tokens)
    return found[0], found[1]


def _read_recompute(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the recompute mode to `layer`, the facts of the file."""
    mode = keys["activation_checkpoint.mode"]
    if "activation_checkpoint" in keys.table:
        mode = keys["activation_checkpoint"]
        word = re.sub(r"(\.Config)?(\(.*)?$", "", str(mode.value or "none")).lower().removesuffix("ac")
        found = _MODES.read(word)
        if found is None:
            keys.refuse("X003", f"activation_checkpoint {word[:80]}: {_MODES.unknown}", "activation_checkpoint")
        mode = mode._replace(value=found)
    layer.fill("plan.recompute", mode)
    if "activation_checkpoint" not in keys.table and mode.value == "selective":
        option = keys["activation_checkpoint.selective_ac_option"]
        if option.value != "op":
            sentence = f"one in {str(option.value)[:20]} layers is recomputed: here single operations of all"
            keys.lose("approximated", sentence, "activation_checkpoint.selective_ac_option")


def _read_types(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the precision, with fp8 or nvfp4 converters, to `layer`, the facts of the file."""
    if keys[f"{_T}.dtype"].value == "bfloat16":
        sentence = "weights, gradients and moments in bf16: here fp32 states"
        keys.lose("not expressible", sentence, f"{_T}.dtype")
    wide = keys[f"{_T}.mixed_precision_param"]
    layer.fill("workload.precision", wide)
    converters = str(keys["model.converters"].value or "").lower()
    converters = "float8" if converters in ("true", "dynamic", "delayed") else converters
    if "lora" in converters:
        keys.lose("not expressible", "adapters, by a converter: set workload.tuning", "model.converters")
    if "nvfp4" in converters:
        layer.facts["workload.precision"] = keys.derived("nvfp4", "a converter to NVFP4", "model.converters")
    elif "mx" in converters:
        layer.facts["workload.precision"] = keys.derived("mxfp8", "a converter to MX", "model.converters")
    elif "float8" in converters:
        recipe = str(keys["quantize.linear.float8.recipe_name"].value or "")
        if recipe not in _NARROW:
            keys.refuse("X003", f"recipe {recipe[:80]} of float8", "quantize.linear.float8.recipe_name")
        found = keys.derived(_NARROW.get(recipe, "fp8-cs"), f"float8, {recipe or 'tensorwise'}", "model.converters")
        layer.facts["workload.precision"] = found


def flags_tree(text: str) -> dict[str, Any]:
    """The flags of a torchtitan command as a tree of keys."""
    tree: dict[str, Any] = {}
    for found in _FLAG.finditer(text):
        *above, last = found.group(1).replace("-", "_").split(".")
        off = last.startswith("no_")
        here = tree
        for section in above:
            inner = here.setdefault(section, {})
            here = inner if isinstance(inner, dict) else {}
        here[last.removeprefix("no_") if off else last] = found.group(2) if found.group(2) is not None else not off
    return tree


# Options of other generations than 0.3.0.
_OF_OTHERS = ("optimizer.name", f"{_P}.context_parallel_rotate_method", "activation_checkpoint.mode")
_CLASSES = {"training": "TrainingConfig", "parallelism": "ParallelismConfig", "compile": "CompileConfig"}
_POLICIES = {"none": "None", "full": "FullAC.Config()", "selective": "SelectiveAC.Config()"}


def write_torchtitan(job: Job, remarks: TrainingRemarks) -> str:
    """A Python recipe for --module and --config; keys that it cannot express are faults."""
    check_whole_layers(remarks)
    plan, workload = job.plan, job.workload
    beside: dict[str, Any] = {
        "compile.enable": True,
        f"{_T}.local_batch_size": job.count("micro_batch") * (job.accumulation if plan.pp > 1 else 1),
        f"{_T}.global_batch_size": round(workload.global_batch),
        f"{_T}.seq_len": round(workload.sequence),
        f"{_T}.enable_cpu_offload": check_offload(remarks),
        f"{_T}.disable_cuda_graphs": True,  # which fsdp2 does not have, nor a pipeline of torchtitan
        f"{_P}.data_parallel_shard_degree": job.shards,
        f"{_P}.fsdp_reshard_after_forward": "never" if plan.zero == 2 else "always",
        "activation_checkpoint.mode": plan.recompute or "none",
    }
    if workload.precision not in ("bf16", *_CONVERTERS):
        hint = "--set workload.precision=fp8-row"
        remarks.refuse("workload.precision", f"{workload.precision} is no converter of torchtitan's", hint)
    if job.gradients != "fp32":
        remarks.refuse("workload.gradients", f"{job.gradients}: torchtitan reduces gradients in fp32")
    if plan.cp > 1 and plan.cp_type not in (None, "all-gather"):
        remarks.refuse("plan.cp_type", f"{plan.cp_type}: torchtitan 0.3.0 has all-gather alone")
    if job.model.has_experts and (plan.ep > 1 or (plan.etp or 1) > 1):
        beside[f"{_P}.expert_parallel_degree"] = job.count("ep")
        if (plan.etp or 1) > 1:
            remarks.refuse("plan.etp", f"{plan.etp:g}: torchtitan 0.3.0 cuts no expert")
    _check_shards(job, remarks)
    if plan.pp > 1:
        beside |= _written_pipeline(job, remarks)
    remarks.note("yours to add: learning rate, loss, data and the tokenizer")
    return _recipe_text(job, remarks, written(TABLE, job, remarks.refuse, beside))


def _recipe_text(job: Job, remarks: TrainingRemarks, options: dict[str, Any]) -> str:
    """The Python module with the recipe and its imports."""
    family, flavor, hub = _written_model(job, remarks)
    policy = _POLICIES[job.plan.recompute or "none"]
    converter = _CONVERTERS.get(job.workload.precision, "")
    config = "TransformersBackendConfig" if hub else "Trainer.Config"
    imported = ["torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig"]
    if converter:
        imported.append(f"torchtitan.components.quantization import {converter.partition('.')[0]}")
    if policy != "None":
        imported.append(f"torchtitan.distributed.activation_checkpoint import {policy.partition('.')[0]}")
    if hub:
        imported += [f"torchtitan.experiments.{_BACKEND} import model_registry",
                     f"torchtitan.experiments.{_BACKEND}.configs import {config}"]  # fmt: skip
    else:
        imported += [
            f"torchtitan.models.{family or 'llama3'} import model_registry",
            "torchtitan.trainer import Trainer",
        ]
    sections: dict[str, list[str]] = {name: [] for name in _CLASSES}
    for name, value in options.items():
        section, _, key = name.rpartition(".")
        if name not in _OF_OTHERS:
            sections[section].append(f"            {key}={_python_text(value)},\n")
    spec = ", ".join([f'"{flavor}"', *([f"converters=[{converter}]"] if converter else [])])
    words = [f'        hf_model="{hub}",\n'] if hub else []
    words += [f"        model_spec=model_registry({spec}),\n"] if flavor else []
    words += [f"        {name}={_CLASSES[name]}(\n{''.join(lines)}        ),\n" for name, lines in sections.items()]
    head = "".join(f"from {each}\n" for each in sorted(imported))
    named = re.sub(r"\W", "_", f"{family}_{flavor}".lower()).strip("_") or "exported"
    body = f"    return {config}(\n{''.join(words)}        activation_checkpoint={policy},\n    )\n"
    return f"{head}\n\ndef {named}() -> {config}:\n{body}"


def _python_text(value: Any) -> str:
    """A value as Python writes it."""
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _written_model(job: Job, remarks: TrainingRemarks) -> tuple[str, str, str]:
    """The family and flavor with the model's shape, else the transformers backend with a name on the hub."""
    twins = library_twins(job.model)
    for (name, flavor), ours in MODELS.items():
        if ours in twins:
            return name, flavor, ""
    hub = next(filter(None, (checkpoint_name(twin, []) for twin in twins)), "")
    if hub:
        remarks.note(f"no flavor of torchtitan has this shape: {_BACKEND}, an experiment of it, trains it from the hub")
        return _BACKEND, "full_moe" if job.model.has_experts else "full", hub
    remarks.note("model_spec is yours to add: no flavor of torchtitan has this shape")
    return "", "", ""


def _check_shards(job: Job, remarks: TrainingRemarks) -> None:
    """Records a refusal for sharding that torchtitan does not offer."""
    plan = job.plan
    if plan.zero not in (2, 3):
        remarks.refuse("plan.zero", f"{plan.zero}: FSDP 2 has 3, or 2")
    elif plan.dp == plan.dp_replicate > 1 and plan.cp == 1:
        for key in ("plan.zero", "stack"):
            remarks.refuse(key, f"as many replicas as dp, {plan.dp:g}: torchtitan shards nothing then, and runs DDP")
    if plan.tp > 1 and not plan.sequence_parallel:
        hint = "--set plan.sequence_parallel=true"
        remarks.refuse("plan.sequence_parallel", "false: its tensor parallelism cuts the sequence too", hint)


def _written_pipeline(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    """Settings of torchtitan's pipeline; a refusal for what it cannot express."""
    plan = job.plan
    schedule = plan.schedule or "1f1b"
    if plan.vpp > 1 and schedule in _ONE_STAGE:
        remarks.refuse("plan.vpp", f"{plan.vpp:g} chunks: {schedule} has one stage a rank")
    fewer = {split: ends for ends, split in _SPLITS.items()}
    if plan.first_stage_layers is not None or plan.last_stage_layers is not None or plan.split not in fewer:
        remarks.refuse("plan.split", "stages other than even ones, with one layer fewer at the ends or not")
    first, last = fewer.get(plan.split or "even", (0, 0))
    found = {
        f"{_P}.pipeline_parallel_microbatch_size": job.count("micro_batch"),
        f"{_P}.pipeline_parallel_first_stage_less_layers": first,
        f"{_P}.pipeline_parallel_last_stage_less_layers": last,
    }
    if schedule not in _ONE_STAGE:
        layers = sum(kind.count for kind in job.model.layers) + first + last
        found[f"{_P}.pipeline_parallel_layers_per_stage"] = math.ceil(layers / (plan.pp * plan.vpp))
    return found


FORMAT = TrainingFormat(
    name="torchtitan",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    elsewhere={"workload.kind": "a training program"},
    fixed={
        **because("uniform, one layer at a time", "recompute_method recompute_layers"),
        "plan.offload_to": "the host's memory, always",
    },
    cannot={
        **NOWHERE,
        **because("one layer fewer at an end, or none", "first_stage_layers last_stage_layers"),
        "plan.recompute_modules": "single operations are recomputed, not modules",
        "plan.offload_layers": "activations are not offloaded",
        "plan.order": "its mesh is tp, cp, dp and pp, innermost first",
        "workload.tuning": "adapters are no matter of this generation",
    },
    kind="recipe",
    stacks=("fsdp2",),
    write=write_torchtitan,
)
