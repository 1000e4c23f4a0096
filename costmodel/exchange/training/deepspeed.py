"""Reads and writes DeepSpeed's JSON: batch, sharding, offload and number types."""

from __future__ import annotations

import json
from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.option_rows import (
    choice,
    lost,
    nested_sections,
    one_of,
    option,
    option_table,
    part,
    quiet,
    renamed_before_2023,
    written,
)
from costmodel.exchange.training.file_facts import Layer, finished_layer, layer_of_rows
from costmodel.exchange.training.job import NOWHERE, Job, TrainingFormat, TrainingRemarks

TITLE, VERSION = "JSON of DeepSpeed 0.19", "DeepSpeed 0.19.8"

_Z = "zero_optimization"
_GRADIENTS = {"fp32": "fp32", "float32": "fp32", "bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16", "half": "fp16"}
OPTIMIZERS = {
    "AdamW": "adamw", "Adam": "adamw", "FusedAdam": "adamw", "CPUAdam": "adamw", "Lion": "lion", "Muon": "muon",
}  # fmt: skip
_PLACES = one_of("none", "cpu", "nvme")
_OF_PROGRAM = "of the program that calls deepspeed.initialize"

TABLE = option_table(
    option("train_batch_size", "workload.global_batch", "count"),
    option("train_micro_batch_size_per_gpu", "plan.micro_batch", "count"),
    option("gradient_accumulation_steps", "accumulation", "count"),
    part(f"{_Z}.stage", "plan.zero", "count", 0),
    part(f"{_Z}.overlap_comm", "assume.overlap.dp", "flag"),
    option(f"{_Z}.cpu_offload", "plan.offload", "flag", old="zero_optimization.offload_optimizer"),
    option(f"{_Z}.cpu_offload_params", "plan.offload", "flag", old="zero_optimization.offload_param"),
    part(f"{_Z}.offload_optimizer.device", "plan.offload plan.offload_to", _PLACES, "none"),
    part(f"{_Z}.offload_param.device", "plan.offload plan.offload_to", _PLACES, "none"),
    part(f"{_Z}.offload_optimizer.super_offload", "stack.offload.early", "flag", False, when="never"),
    part(f"{_Z}.zenflow.overlap_step", "stack.offload.early", "flag", False, when="never"),
    lost("approximated", "ZenFlow updates most parameters every few steps: here all in every step",
         f"{_Z}.zenflow.topk_ratio {_Z}.zenflow.select_strategy {_Z}.zenflow.select_interval "
         f"{_Z}.zenflow.update_interval {_Z}.zenflow.offload {_Z}.zenflow.auto_ratio "
         f"{_Z}.zenflow.full_warm_up_rounds {_Z}.zenflow.pt_reserved_cores_perc"),
    option(f"{_Z}.mics_shard_size", "plan.dp_replicate", "whole", -1, old="nothing, as MiCS was removed,"),
    part("bf16.enabled", "workload.precision", "flag", False),
    renamed_before_2023({"bfloat16.enabled": "bf16.enabled", _Z: f"{_Z}.stage"}),
    part("fp16.enabled", "workload.precision", "flag", False),
    option("data_types.grad_accum_dtype", "workload.gradients", choice(_GRADIENTS),
        cannot="is no type of gradients of DeepSpeed's"),
    option("optimizer.type", "workload.optimizer", choice(OPTIMIZERS, fold=True),
        cannot="is no optimizer of DeepSpeed's"),
    quiet("optimizer.params"),
    part(f"{_Z}.sub_group_size", "stack.states.sub_group", "whole", 1_000_000_000, when="never"),
    part(f"{_Z}.reduce_bucket_size", "stack.buckets.size", "whole", 500_000_000, when="never"),
    part(f"{_Z}.stage3_max_live_parameters", "stack.buckets.gathered", "whole", 1_000_000_000, when="never"),
    part(f"{_Z}.contiguous_gradients", "stack.buckets.live stack.buckets.live_sharded", "flag", True),
    lost("approximated", "weights are gathered in buckets as large as those of gradients",
         f"{_Z}.allgather_bucket_size", 500_000_000, 5e8),
    lost("approximated", "how far ahead weights are gathered: here as far as stage3_max_live_parameters allows",
         f"{_Z}.stage3_prefetch_bucket_size", 50_000_000, 5e7),
    lost("approximated", "how long weights stay gathered: here as far as stage3_max_live_parameters allows",
         f"{_Z}.stage3_max_reuse_distance", 1_000_000_000, 1e9),
    option("tensor_parallel.autotp_size", "plan.tp", "count", when="never"),
    part("sequence_parallel_size", "plan.cp plan.cp_type", "count"),
    lost("not expressible", "weights are kept a second time inside nodes", f"{_Z}.zero_hpz_partition_size", 1),
    lost("not expressible", "weights or gradients are sent in a narrow type",
           f"{_Z}.zero_quantized_weights {_Z}.zero_quantized_gradients {_Z}.zero_quantized_nontrainable_weights"),
    lost("not expressible", "a part of the optimizer's states stays on the accelerator",
           f"{_Z}.offload_optimizer.ratio {_Z}.offload_param.ratio", 1, 1.0),
    lost("not expressible", "another amount of work", "compression_training curriculum_learning data_efficiency "
         "sparse_attention elasticity progressive_layer_drop sparse_gradients"),
    lost("approximated", "gradients are sent in another type", "communication_data_type"),
    lost("approximated", "gradients are spread another way", f"{_Z}.round_robin_gradients"),
    lost("approximated", "settings of a call that the model makes: they do not state that it recomputes",
         "activation_checkpointing.partition_activations activation_checkpointing.cpu_checkpointing "
         "activation_checkpointing.number_checkpoints activation_checkpointing.contiguous_memory_optimization "
         "activation_checkpointing.synchronize_checkpoint_boundary"),
    lost("approximated", "kernels are captured as graphs or compiled", "compile deepcompile"),
    quiet("scheduler gradient_clipping steps_per_print wall_clock_breakdown dump_state seed "
          "prescale_gradients gradient_predivide_factor memory_breakdown comms_logger flops_profiler tensorboard "
          "wandb csv_monitor comet monitor_config checkpoint aio autotuning zero_allow_untested_optimizer "
          "zero_force_ds_cpu_optimizer disable_allgather use_data_before_expert_parallelism pipeline nebula "
          "activation_checkpointing.profile data_types.params_dtype hybrid_engine amp.opt_level "
          "timers optimizer.legacy_fusion"),
    quiet("loss_scale initial_scale_power loss_scale_window hysteresis min_loss_scale auto_cast consecutive_hysteresis",
          "fp16."),
    quiet("bf16.immediate_grad_update bf16.check_grad_overflow bf16.loss_scale"),
    lost("not expressible", "master weights, gradients or moments in 16 bits: here in 32",
         "bf16.bf16_master_weights_and_grads bf16.bf16_optimizer_states fp16.fp16_master_weights_and_grads"),
    lost("not expressible", "types by autocast: weights of 32 bits", "torch_autocast amp.enabled"),
    quiet("reduce_scatter allgather_partitions load_from_fp32_weights elastic_checkpoint ignore_unused_parameters "
          "legacy_stage1 stage3_param_persistence_threshold stage3_model_persistence_threshold "
          "stage3_gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save "
          "stage3_use_all_reduce_for_fetch_params max_live_parameters max_reuse_distance prefetch_bucket_size "
          "param_persistence_threshold model_persistence_threshold gather_16bit_weights_on_model_save "
          "memory_efficient_linear use_multi_rank_bucket_allreduce stage3_module_granularity_threshold "
          "mics_hierarchical_params_gather log_trace_cache_warnings zero_allow_untested_optimizer "
          "save_muon_momentum_buffer_in_memory cpu_offload_use_pin_memory offload_optimizer.pin_memory "
          "offload_optimizer.nvme_path offload_optimizer.buffer_count offload_optimizer.pipeline_read "
          "offload_optimizer.pipeline_write offload_optimizer.fast_init "
          "offload_optimizer.cpuadam_cores_perc offload_param.pin_memory offload_param.nvme_path "
          "offload_param.buffer_count offload_param.buffer_size offload_param.max_in_cpu", f"{_Z}."),
)  # fmt: skip


def read_deepspeed(tree: Any, file: str) -> Layer:
    """The facts that a DeepSpeed configuration states; "auto" leaves a value to another file."""
    table = TABLE if isinstance(tree.get(_Z), bool) else {name: row for name, row in TABLE.items() if name != _Z}
    keys = ForeignKeys(tree, table, file, VERSION)
    layer = layer_of_rows(keys, TITLE)
    layer.facts["stack"] = keys.derived("deepspeed", "a DeepSpeed configuration", _first_stated(keys))
    stage = keys[f"{_Z}.stage"]
    if stage.value not in range(4):
        keys.refuse("X005", f"{_Z}.stage is {stage.value}, not 0 to 3", f"{_Z}.stage")
        stage = stage._replace(value=0)
    layer.fill("plan.zero", stage)
    _read_offload(keys, layer, int(stage.value))
    _read_overlap(keys, layer, int(stage.value))
    _read_bucket_sizes(keys, layer)
    wide = {name: keys[f"{name}.enabled"] for name in ("bf16", "fp16")}
    on = [name for name, value in wide.items() if value.value]
    if "fp16" in on and len(on) > 1:
        keys.refuse("X005", "bf16 and fp16 exclude each other", "fp16.enabled")
    if on:
        layer.facts["workload.precision"] = wide[on[0]]._replace(value="fp16" if on[0] == "fp16" else "bf16")
    if not keys.given("optimizer.type"):
        layer.weak["workload.optimizer"] = keys.assumed("adamw", "the program's own optimizer")
    ulysses, mics = keys["sequence_parallel_size"], keys[f"{_Z}.mics_shard_size"]
    if ulysses.value and ulysses.value > 1:
        layer.fill("plan.cp", ulysses)
        layer.facts["plan.cp_type"] = ulysses._replace(value="a2a")
    if mics.value and mics.value > 0:
        layer.facts["mics"] = mics
        keys.lose("approximated", "MiCS: replicas of the shards, as HSDP", f"{_Z}.mics_shard_size")
    layer.weak["plan.recompute"] = keys.assumed("none", "a call in the model decides it, not this file")
    return finished_layer(keys, layer)


def _first_stated(keys: ForeignKeys) -> str:
    sharded = f"{_Z}.stage"
    return sharded if sharded in keys.stated else next(iter(keys.stated), "")


def _read_offload(keys: ForeignKeys, layer: Layer, stage: int) -> None:
    """Adds what is offloaded, and where to, to `layer`, the facts of the file."""
    optimizer, weights = keys[f"{_Z}.offload_optimizer.device"], keys[f"{_Z}.offload_param.device"]
    old = {name: keys[f"{_Z}.{name}"] for name in ("cpu_offload", "cpu_offload_params")}
    if old["cpu_offload"].value and optimizer.value == "none":
        optimizer = old["cpu_offload"]._replace(value="cpu")
    if old["cpu_offload_params"].value and weights.value == "none":
        weights = old["cpu_offload_params"]._replace(value="cpu")
    parts = {"optimizer": optimizer, "parameters": weights}
    on = {name: value for name, value in parts.items() if value.value != "none"}
    if "parameters" in on and stage < 3:
        keys.refuse("X005", "offload_param needs stage 3", f"{_Z}.offload_param.device")
    if not on:
        return
    places = {value.value for value in on.values()}
    if len(places) > 1:
        keys.lose("not expressible", "optimizer and parameters live in different places: here both on the drive")
    first = next(iter(on.values()))
    layer.facts["plan.offload"] = first._replace(value=list(on))
    if "nvme" in places:
        layer.facts["plan.offload_to"] = first._replace(value="nvme")
    for name in ("offload_optimizer.super_offload", "zenflow.overlap_step"):
        if keys[f"{_Z}.{name}"].value and "optimizer" in on:
            layer.facts["stack.offload.early"] = keys[f"{_Z}.{name}"]


def _read_bucket_sizes(keys: ForeignKeys, layer: Layer) -> None:
    """Fills the bucket sizes for updates, reductions and gathers that the file states."""
    for name, path, nbytes in _SIZES:
        stated = keys[f"{_Z}.{name}"]
        if not keys.given(f"{_Z}.{name}") or not isinstance(stated.value, int):
            continue
        least = 1 if nbytes else 0  # of parameters, 0 is one tensor at a time, as 1 is
        if stated.value < least:
            keys.refuse("X005", f"{_Z}.{name} is {stated.value}, not a number from {least}", f"{_Z}.{name}")
        stated = stated._replace(value=max(1, stated.value))
        layer.facts[path] = stated._replace(
            value=f"{nbytes * stated.value} B" if nbytes else f"{stated.value} parameters"
        )
    flat = keys[f"{_Z}.contiguous_gradients"]
    if flat.value is False:
        layer.facts |= {
            "stack.buckets.live": flat._replace(value=1),
            "stack.buckets.live_sharded": flat._replace(value=0),
        }


_GRADIENT = 2  # bytes of a gradient in a bucket: DeepSpeed reduces them in the 16 bits that it trains in
# Sizes in elements, the keys that have them, and the bytes of an element where the key is in bytes.
_SIZES = (
    ("sub_group_size", "stack.states.sub_group", 0),
    ("reduce_bucket_size", "stack.buckets.size", _GRADIENT),
    ("stage3_max_live_parameters", "stack.buckets.gathered", 0),
)


def _read_overlap(keys: ForeignKeys, layer: Layer, stage: int) -> None:
    overlap = keys[f"{_Z}.overlap_comm"]
    hidden = stage == 3 if overlap.value is None else bool(overlap.value)
    if not hidden and stage:
        layer.fill("assume.overlap.dp", overlap._replace(value=0))


def write_deepspeed(job: Job, remarks: TrainingRemarks) -> str:
    """The JSON configuration with explicit batch keys; keys that it cannot express are faults."""
    plan, precision = job.plan, job.workload.precision
    beside: dict[str, Any] = {
        f"{_Z}.stage": plan.zero or 0,
        f"{_Z}.overlap_comm": job.assume.overlap.dp != 0,
        f"{'fp16' if precision == 'fp16' else 'bf16'}.enabled": True,
        "optimizer.params": {"lr": 1e-4},
    }
    for what, name in (("optimizer", "offload_optimizer"), ("parameters", "offload_param")):
        if what in plan.offload:
            beside[f"{_Z}.{name}.device"] = plan.offload_to
    if precision not in ("bf16", "fp16"):
        remarks.refuse("workload.precision", f"{precision} is no type of DeepSpeed's")
    if plan.cp > 1 and plan.cp_type == "a2a":
        beside["sequence_parallel_size"] = job.count("cp")
    elif plan.cp > 1:
        remarks.refuse("plan.cp_type", f"{plan.cp_type}: DeepSpeed has a2a alone", "--set plan.cp_type=a2a")
    remarks.note("yours to change: optimizer.params, with the learning rate")
    return json.dumps(nested_sections(written(TABLE, job, remarks.refuse, beside)), indent=2) + "\n"


_CALLS = {
    **because(
        "a call in the model, gradient_checkpointing_enable() for full",
        "recompute recompute_method recompute_layers recompute_modules",
    ),
    **because("PipelineModule with num_stages", "pp split first_stage_layers last_stage_layers"),
    **because("MoE layers with ep_size", "ep etp"),
    **because("deepspeed.tp_model_init, or a model that cuts itself", "tp sequence_parallel"),
}

FORMAT = TrainingFormat(
    name="deepspeed",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    elsewhere={
        "model": f"the model {_OF_PROGRAM}",
        "plan.dp": "the launcher: deepspeed --num_nodes --num_gpus",
        "workload.kind": "a training program",
        "workload.sequence": f"the data {_OF_PROGRAM}",
        "workload.tokens": f"the steps {_OF_PROGRAM}",
        **_CALLS,
    },
    fixed={"plan.schedule": "1F1B"},
    calls=_CALLS,
    cannot={
        **NOWHERE,
        "plan.dp_replicate": "MiCS, its replicas of shards, was removed",
        "plan.vpp": "its pipeline has one chunk a rank",
        "plan.offload_layers": "it offloads no activations",
        "plan.order": "the program lays out its groups",
        "workload.tuning": "adapters are a matter of the model",
    },
    kind="JSON",
    stacks=("deepspeed", "transformers-deepspeed"),
    write=write_deepspeed,
    comment="",
)
