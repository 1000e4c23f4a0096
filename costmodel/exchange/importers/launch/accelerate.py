"""Accelerate's YAML: how many processes, which engine shards, and the degrees of its parallelism."""

from __future__ import annotations

from typing import Any

from costmodel.exchange.importers.launch.layer import Layer, layer_of
from costmodel.exchange.values.foreign_keys import ForeignKey, ForeignKeys, lost, quiet
from costmodel.ground.errors import Fault

VERSION = "accelerate 1.15.0"
TITLE = "YAML of accelerate"

_F, _P, _D, _M = "fsdp_config", "parallelism_config", "deepspeed_config", "megatron_lm_config"
STRATEGIES = {
    "FULL_SHARD": (3, False), "SHARD_GRAD_OP": (2, False), "NO_SHARD": (0, False),
    "HYBRID_SHARD": (3, True), "HYBRID_SHARD_ZERO2": (2, True),
    "1": (3, False), "2": (2, False), "3": (0, False), "4": (3, True), "5": (2, True),
}  # fmt: skip
EXCHANGES = {"allgather": "all-gather", "alltoall": "p2p"}  # the second passes shards round, as a ring does
ENGINES = ("NO", "MULTI_GPU", "FSDP", "DEEPSPEED", "MEGATRON_LM")

TABLE: dict[str, ForeignKey] = {
    "distributed_type": ForeignKey("word", "stack", "NO"),
    "num_processes": ForeignKey("whole", "plan.dp"),
    "num_machines": ForeignKey("count", "plan.dp", 1),
    "mixed_precision": ForeignKey("word", "workload.precision", "no", ("no", "fp16", "bf16", "fp8")),
    f"{_F}.fsdp_version": ForeignKey("count", "stack", 1),
    f"{_F}.fsdp_sharding_strategy": ForeignKey("word", "plan.zero plan.dp_replicate", "FULL_SHARD"),
    f"{_F}.fsdp_reshard_after_forward": ForeignKey("text", "plan.zero", True),
    f"{_F}.sharding_strategy": ForeignKey("word", "plan.zero", old=f"{_F}.fsdp_sharding_strategy"),
    f"{_F}.offload_params": ForeignKey("flag", "plan.offload", old=f"{_F}.fsdp_offload_params"),
    f"{_F}.fsdp_offload_params": ForeignKey("flag", "plan.offload", False),
    f"{_F}.fsdp_activation_checkpointing": ForeignKey("flag", "plan.recompute", False),
    f"{_P}.parallelism_config_dp_replicate_size": ForeignKey("count", "plan.dp_replicate", 1),
    f"{_P}.parallelism_config_dp_shard_size": ForeignKey("count", "plan.dp", 1),
    f"{_P}.parallelism_config_tp_size": ForeignKey("count", "plan.tp", 1),
    f"{_P}.parallelism_config_cp_size": ForeignKey("count", "plan.cp", 1),
    f"{_P}.parallelism_config_cp_comm_strategy": ForeignKey("word", "plan.cp_type", "allgather", tuple(EXCHANGES)),
    f"{_P}.parallelism_config_sp_size": ForeignKey("count", "plan.cp plan.cp_type", 1),
    f"{_D}.zero_stage": ForeignKey("count", "plan.zero", 2),
    f"{_D}.gradient_accumulation_steps": ForeignKey("count", "workload.global_batch"),
    f"{_D}.offload_optimizer_device": ForeignKey("word", "plan.offload", "none", ("none", "cpu", "nvme")),
    f"{_D}.offload_param_device": ForeignKey("word", "plan.offload", "none", ("none", "cpu", "nvme")),
    f"{_D}.deepspeed_config_file": ForeignKey("word", "plan.zero"),
    f"{_M}.megatron_lm_tp_degree": ForeignKey("count", "plan.tp", 1),
    f"{_M}.megatron_lm_pp_degree": ForeignKey("count", "plan.pp", 1),
    f"{_M}.megatron_lm_num_micro_batches": ForeignKey("count", "workload.global_batch", 1),
    f"{_M}.megatron_lm_sequence_parallelism": ForeignKey("flag", "plan.sequence_parallel", False),
    f"{_M}.megatron_lm_recompute_activations": ForeignKey("flag", "plan.recompute", False),
    f"{_M}.megatron_lm_use_distributed_optimizer": ForeignKey("flag", "plan.zero", False),
    "fp16": ForeignKey("flag", "workload.precision", old="mixed_precision: fp16"),
    "fp8_config": ForeignKey(loss=("approximated", "fp8 by the engine named there: here scales of one step ago")),
    **lost("not expressible", "runs on another machine than your own nodes", "sagemaker_inputs_file"),
    **lost("not expressible", "no accelerator is used", "use_cpu"),
    **lost("approximated", "kernels are compiled", "dynamo_config", {}),
    **lost("not expressible", "saved activations live on the host", f"{_F}.fsdp_activation_checkpointing_offload "
           f"{_F}.fsdp_activation_cpu_offload"),
    **quiet("compute_environment debug machine_rank main_training_function rdzv_backend same_network downcast_bf16 "
            "tpu_env tpu_use_cluster tpu_use_sudo tpu_name tpu_zone command_file commands tpu_vm gpu_ids "
            "main_process_ip main_process_port enable_cpu_affinity ipex_config mpirun_config tp_config "
            f"{_M}.megatron_lm_gradient_clipping"),
    **quiet(" ".join(f"{_F}.fsdp_{name}" for name in (
        "auto_wrap_policy", "transformer_layer_cls_to_wrap", "state_dict_type", "cpu_ram_efficient_loading",
        "sync_module_states", "use_orig_params", "min_num_params", "backward_prefetch", "backward_prefetch_policy",
        "forward_prefetch", "cpu_offload_ram", "use_orig_params"))),
    **quiet(f"{_F}.min_num_params {_F}.transformer_layer_cls_to_wrap {_F}.backward_prefetch_policy"),
    **quiet(" ".join(f"{_P}.parallelism_config_{name}" for name in (
        "cp_backend", "sp_backend", "sp_seq_length", "sp_seq_length_is_variable", "sp_attn_implementation"))),
    **quiet(" ".join(f"{_D}.{name}" for name in (
        "zero3_init_flag", "zero3_save_16bit_model", "gradient_clipping", "deepspeed_multinode_launcher",
        "deepspeed_hostfile", "offload_optimizer_nvme_path", "offload_param_nvme_path", "deepspeed_moe_layer_cls_names",
        "deepspeed_exclusion_filter", "deepspeed_inclusion_filter"))),
}  # fmt: skip


def read_accelerate(tree: Any, file: str) -> Layer:
    """What a configuration of accelerate states."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = Layer(TITLE)
    engine = keys["distributed_type"].value
    processes = keys["num_processes"]
    if processes.value and processes.value > 0:
        layer.fill("accelerators", processes)
    layer.fill("nodes", keys["num_machines"])
    _precision(keys, layer)
    if engine == "FSDP":
        _sharded(keys, layer)
    elif engine in ("NO", "MULTI_GPU"):
        layer.facts["stack"] = keys["distributed_type"]._replace(value="ddp")
        layer.facts["plan.zero"] = keys.derived(0, "nothing is sharded", "distributed_type")
    elif engine == "DEEPSPEED":
        _deepspeed(keys, layer)
    elif engine == "MEGATRON_LM":
        _megatron(keys, layer)
    else:
        keys.refuse("X003", f"distributed_type {engine}: read are {', '.join(ENGINES)}", "distributed_type")
    _degrees(keys, layer)
    return layer_of(keys, TITLE, layer)


def _precision(keys: ForeignKeys, layer: Layer) -> None:
    kind = keys["mixed_precision"]
    if keys.given("fp16"):
        layer.facts["workload.precision"] = keys["fp16"]._replace(value="fp16" if keys["fp16"].value else "fp32")
    elif kind.value != "no":
        layer.fill("workload.precision", kind)
    elif keys["distributed_type"].value != "DEEPSPEED":  # whose own file states it
        layer.weak["workload.precision"] = kind._replace(value="fp32")


def _sharded(keys: ForeignKeys, layer: Layer) -> None:
    version = keys[f"{_F}.fsdp_version"]
    if version.value not in (1, 2):
        keys.refuse("X005", f"fsdp_version is {version.value}, not 1 or 2", f"{_F}.fsdp_version")
    at = keys["distributed_type"] if version.place is None else version
    layer.facts["stack"] = at._replace(value="fsdp2" if version.value == 2 else "fsdp1")
    if version.value == 2:
        reshard = keys[f"{_F}.fsdp_reshard_after_forward"]
        layer.fill("plan.zero", reshard._replace(value=2 if str(reshard.value).lower() == "false" else 3))
        _without_effect(
            keys, layer, "sharding_strategy", "fsdp_version 1 alone has it: fsdp_reshard_after_forward counts"
        )
    else:
        strategy = keys[f"{_F}.fsdp_sharding_strategy"]
        if str(strategy.value).upper() not in STRATEGIES:
            known = ", ".join(STRATEGIES)
            sentence = f"fsdp_sharding_strategy {str(strategy.value)[:60]} is none of {known}"
            keys.refuse("X005", sentence, f"{_F}.fsdp_sharding_strategy")
        stage, hybrid = STRATEGIES.get(str(strategy.value).upper(), (3, False))
        layer.fill("plan.zero", strategy._replace(value=stage))
        if stage != STRATEGIES.get(str(keys[f"{_F}.fsdp_reshard_after_forward"].value).upper(), (stage,))[0]:
            taken = f"in fsdp_version 1 fsdp_sharding_strategy counts, here {strategy.value}"
            _without_effect(keys, layer, "reshard_after_forward", taken)
        if hybrid and not keys.given("num_machines"):
            sentence = f"{strategy.value} has as many replicas as machines, which num_machines does not state"
            keys.refuse("X002", sentence, f"{_F}.fsdp_sharding_strategy", "write num_machines into the file")
        elif hybrid:
            layer.facts["plan.dp_replicate"] = keys["num_machines"]._replace(origin=strategy.origin)
    if keys[f"{_F}.fsdp_offload_params"].value:
        layer.fill("plan.offload", keys[f"{_F}.fsdp_offload_params"]._replace(value=["optimizer", "parameters"]))
    again = keys[f"{_F}.fsdp_activation_checkpointing"]
    if again.value:
        layer.facts["plan.recompute"] = again._replace(value="full")
    else:
        layer.weak["plan.recompute"] = again._replace(value="none")


def _without_effect(keys: ForeignKeys, layer: Layer, name: str, reason: str) -> None:
    """A warning for a key of the other version of FSDP, which accelerate passes over."""
    full = f"{_F}.fsdp_{name}"
    if keys.given(full):
        layer.warnings.append(Fault("X006", f"{full} has no effect", keys[full].place, reason))


def _megatron(keys: ForeignKeys, layer: Layer) -> None:
    """Degrees of Megatron-LM, which accelerate starts."""
    layer.facts["stack"] = keys["distributed_type"]._replace(value="megatron-lm")
    layer.fill("plan.tp", keys[f"{_M}.megatron_lm_tp_degree"])
    layer.fill("plan.pp", keys[f"{_M}.megatron_lm_pp_degree"])
    layer.fill("accumulation", keys[f"{_M}.megatron_lm_num_micro_batches"])
    layer.fill("plan.sequence_parallel", keys[f"{_M}.megatron_lm_sequence_parallelism"])
    again, sharded = (
        keys[f"{_M}.megatron_lm_{name}"] for name in ("recompute_activations", "use_distributed_optimizer")
    )
    layer.fill("plan.recompute", again._replace(value="selective" if again.value else "none"))
    layer.fill("plan.zero", sharded._replace(value=int(bool(sharded.value))))


def _deepspeed(keys: ForeignKeys, layer: Layer) -> None:
    named = keys[f"{_D}.deepspeed_config_file"]
    layer.facts["stack"] = keys["distributed_type"]._replace(value="deepspeed")
    layer.weak["plan.recompute"] = keys.assumed("none", "a call in the model decides it, not this file")
    if named.value:
        place = named.place
        assert place is not None
        layer.named.append((named.value, place))
        return
    layer.fill("plan.zero", keys[f"{_D}.zero_stage"])
    layer.fill("accumulation", keys[f"{_D}.gradient_accumulation_steps"])
    parts = {"optimizer": keys[f"{_D}.offload_optimizer_device"], "parameters": keys[f"{_D}.offload_param_device"]}
    on = {name: value for name, value in parts.items() if value.value != "none"}
    if on:
        first = next(iter(on.values()))
        layer.facts["plan.offload"] = first._replace(value=list(on))
        if any(value.value == "nvme" for value in on.values()):
            layer.facts["plan.offload_to"] = first._replace(value="nvme")


def _degrees(keys: ForeignKeys, layer: Layer) -> None:
    if not keys.under(_P):
        return
    name = f"{_P}.parallelism_config_"
    layer.fill("plan.dp_replicate", keys[f"{name}dp_replicate_size"])
    layer.fill("plan.tp", keys[f"{name}tp_size"])
    context, ulysses = keys[f"{name}cp_size"], keys[f"{name}sp_size"]
    if context.value and context.value > 1 and ulysses.value and ulysses.value > 1:
        keys.refuse("X005", "cp_size and sp_size exclude each other", f"{name}sp_size")
    elif context.value and context.value > 1:
        layer.fill("plan.cp", context)
        exchange = keys[f"{name}cp_comm_strategy"]
        layer.fill("plan.cp_type", exchange._replace(value=EXCHANGES[exchange.value]))
    elif ulysses.value and ulysses.value > 1:
        layer.fill("plan.cp", ulysses)
        layer.facts["plan.cp_type"] = ulysses._replace(value="a2a")
    layer.fill("shards", keys[f"{name}dp_shard_size"])
    if keys["distributed_type"].value == "FSDP" and keys[f"{_F}.fsdp_version"].value != 2:
        keys.refuse("X005", "parallelism_config needs fsdp_version 2", f"{name}dp_shard_size")
