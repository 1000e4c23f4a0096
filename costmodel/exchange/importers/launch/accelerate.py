"""Accelerate's YAML: how many processes, which engine shards, and the degrees of its parallelism."""

from __future__ import annotations

from typing import Any

from costmodel.exchange.importers.launch.layer import Layer, layer_of
from costmodel.exchange.values.foreign_keys import ForeignKey, ForeignKeys, lost, quiet

VERSION = "accelerate 1.15.0"
TITLE = "YAML of accelerate"

_F, _P, _D = "fsdp_config", "parallelism_config", "deepspeed_config"
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
    f"{_F}.fsdp_sharding_strategy": ForeignKey("word", "plan.zero plan.dp_replicate", "FULL_SHARD", tuple(STRATEGIES)),
    f"{_F}.fsdp_reshard_after_forward": ForeignKey("text", "plan.zero", True),
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
    "fp8_config": ForeignKey(loss=("approximated", "fp8 by the engine named there: here scales of one step ago")),
    **lost("not expressible", "runs on another machine than your own nodes", "sagemaker_inputs_file"),
    **lost("not expressible", "no accelerator is used", "use_cpu"),
    **lost("approximated", "kernels are compiled", "dynamo_config", {}),
    **quiet("compute_environment debug machine_rank main_training_function rdzv_backend same_network downcast_bf16 "
            "tpu_env tpu_use_cluster tpu_use_sudo tpu_name tpu_zone command_file commands tpu_vm gpu_ids "
            "main_process_ip main_process_port enable_cpu_affinity ipex_config mpirun_config tp_config fp16"),
    **quiet(" ".join(f"{_F}.fsdp_{name}" for name in (
        "auto_wrap_policy", "transformer_layer_cls_to_wrap", "state_dict_type", "cpu_ram_efficient_loading",
        "sync_module_states", "use_orig_params", "min_num_params", "backward_prefetch", "backward_prefetch_policy",
        "forward_prefetch", "cpu_offload_ram", "use_orig_params"))),
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
        layer.say("accelerators", processes)
    layer.say("nodes", keys["num_machines"])
    _precision(keys, layer)
    if engine == "FSDP":
        _sharded(keys, layer)
    elif engine in ("NO", "MULTI_GPU"):
        layer.facts["stack"] = keys["distributed_type"]._replace(value="ddp")
        layer.facts["plan.zero"] = keys.derived(0, "nothing is sharded", "distributed_type")
    elif engine == "DEEPSPEED":
        _deepspeed(keys, layer)
    else:
        sentence = f"distributed_type {engine}: read are {', '.join(ENGINES[:-1])}"
        hint = "give its options as Megatron-LM's own" if engine == "MEGATRON_LM" else "nothing was written"
        keys.refuse("X003", sentence, "distributed_type", hint)
    _degrees(keys, layer)
    return layer_of(keys, TITLE, layer)


def _precision(keys: ForeignKeys, layer: Layer) -> None:
    kind = keys["mixed_precision"]
    if kind.value != "no":
        layer.say("workload.precision", kind)


def _sharded(keys: ForeignKeys, layer: Layer) -> None:
    version = keys[f"{_F}.fsdp_version"]
    if version.value not in (1, 2):
        keys.refuse("X005", f"fsdp_version is {version.value}, not 1 or 2", f"{_F}.fsdp_version")
    at = keys["distributed_type"] if version.place is None else version
    layer.facts["stack"] = at._replace(value="fsdp2" if version.value == 2 else "fsdp1")
    if version.value == 2:
        reshard = keys[f"{_F}.fsdp_reshard_after_forward"]
        layer.say("plan.zero", reshard._replace(value=2 if str(reshard.value).lower() == "false" else 3))
    else:
        strategy = keys[f"{_F}.fsdp_sharding_strategy"]
        stage, hybrid = STRATEGIES[strategy.value]
        layer.say("plan.zero", strategy._replace(value=stage))
        if hybrid:
            layer.facts["plan.dp_replicate"] = keys["num_machines"]._replace(origin=strategy.origin)
    if keys[f"{_F}.fsdp_offload_params"].value:
        layer.say("plan.offload", keys[f"{_F}.fsdp_offload_params"]._replace(value=["optimizer", "parameters"]))
    again = keys[f"{_F}.fsdp_activation_checkpointing"]
    if again.value:
        layer.facts["plan.recompute"] = again._replace(value="full")
    else:
        layer.weak["plan.recompute"] = again._replace(value="none")


def _deepspeed(keys: ForeignKeys, layer: Layer) -> None:
    named = keys[f"{_D}.deepspeed_config_file"]
    layer.facts["stack"] = keys["distributed_type"]._replace(value="deepspeed")
    layer.weak["plan.recompute"] = keys.assumed("none", "a call in the model decides it, not this file")
    if named.value:
        place = named.place
        assert place is not None
        layer.named.append((named.value, place))
        return
    layer.say("plan.zero", keys[f"{_D}.zero_stage"])
    layer.say("accumulation", keys[f"{_D}.gradient_accumulation_steps"])
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
    layer.say("plan.dp_replicate", keys[f"{name}dp_replicate_size"])
    layer.say("plan.tp", keys[f"{name}tp_size"])
    context, ulysses = keys[f"{name}cp_size"], keys[f"{name}sp_size"]
    if context.value and context.value > 1 and ulysses.value and ulysses.value > 1:
        keys.refuse("X005", "cp_size and sp_size exclude each other", f"{name}sp_size")
    elif context.value and context.value > 1:
        layer.say("plan.cp", context)
        exchange = keys[f"{name}cp_comm_strategy"]
        layer.say("plan.cp_type", exchange._replace(value=EXCHANGES[exchange.value]))
    elif ulysses.value and ulysses.value > 1:
        layer.say("plan.cp", ulysses)
        layer.facts["plan.cp_type"] = ulysses._replace(value="a2a")
    layer.say("shards", keys[f"{name}dp_shard_size"])
    if keys["distributed_type"].value == "FSDP" and keys[f"{_F}.fsdp_version"].value != 2:
        keys.refuse("X005", "parallelism_config needs fsdp_version 2", f"{name}dp_shard_size")
