"""Reads and writes NeMo RL's YAML, and overriding words such as policy.precision=bfloat16."""

from __future__ import annotations

import re
from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.import_result import accelerators_of_nodes
from costmodel.exchange.option_rows import NOTHING, choice, lost, one_of, option, option_table, part, quiet, switch
from costmodel.exchange.rl.rl_format import (
    ADAPTERS,
    DEGREES,
    TYPES,
    UNEXPRESSED,
    Follows,
    RlFormat,
    RlJob,
    eager_option,
    fill_engine,
    lose_algorithm,
    not_stated,
    tokens_of_micro_batch,
    tool_options,
)
from costmodel.exchange.training.file_facts import Layer

_P, _D, _G = "policy", "policy.dtensor_cfg", "policy.megatron_cfg"
_V, _N = "policy.generation.vllm_cfg", "policy.generation.colocated"
_RECIPES = {"blockwise": "fp8-block", "tensorwise": "fp8-cs", "delayed": "fp8", "mxfp8": "mxfp8"}
_BY_MEGATRON, _BY_DTENSOR = (f"{_G}.enabled", True), (f"{_G}.enabled", False)
_IN_ENGINES = {"bfloat16": "bf16", "float16": "fp16"}
_AGE = "grpo.async_grpo.max_trajectory_age_steps"
_PACKED = ("sequence_packing", "dynamic_batching")

_TABLE = option_table(
    option(f"{_P}.model_name", "model", "word", "Qwen/Qwen2.5-1.5B"),
    option("grpo.num_prompts_per_step", "workload.prompts", "count", 32),
    option("grpo.num_generations_per_prompt", "workload.samples", "count", 16),
    option("grpo.max_num_steps", "workload.iterations", "count"),
    part("grpo.adv_estimator.name", "workload.algorithm", "word", "grpo"),
    part("grpo.use_leave_one_out_baseline", "workload.algorithm", "flag", True),
    part("grpo.use_dynamic_sampling", "workload.algorithm", "flag", False),
    part("grpo.batch_multiplier", "workload.wave", "figure", 1),
    part("grpo.async_grpo.enabled", "workload.staleness", "flag", False),
    part(_AGE, "workload.staleness workload.rollouts", "count", 1),
    part("grpo.skip_reference_policy_logprobs_calculation", "workload.reference", "flag", False),
    part("loss_fn.reference_policy_kl_penalty", "workload.reference", "figure", 0.01),
    option(f"{_P}.train_global_batch_size", "workload.mini_batch", "count", 512),
    part(f"{_P}.train_micro_batch_size", "plan.micro_batch", "count", 4),
    [part(f"{_P}.{name}.enabled", "plan.micro_batch", "flag", name == _PACKED[0]) for name in _PACKED],
    [part(f"{_P}.{name}.train_mb_tokens", "plan.micro_batch", "count") for name in _PACKED],
    option(f"{_P}.max_total_sequence_length", "longest", "count", 512),
    option("policy.generation.max_new_tokens", "workload.response.limit", "count"),
    part(f"{_P}.precision", "workload.precision", TYPES, "bfloat16"),
    part(f"{_G}.enabled", "stack.trainer", "flag", False),
    part(f"{_D}.enabled", "stack.trainer", "flag", True),
    option(f"{_D}.tensor_parallel_size", "plan.tp", "count", 1, beside=_BY_DTENSOR),
    option(f"{_D}.context_parallel_size", "plan.cp", "count", 1, beside=_BY_DTENSOR),
    option(f"{_D}.expert_parallel_size", "plan.ep", "count", 1, beside=_BY_DTENSOR),
    part(f"{_D}.sequence_parallel", "plan.sequence_parallel", "flag", False),
    option(f"{_D}.activation_checkpointing", "plan.recompute", switch("full", "none"), False, beside=_BY_DTENSOR),
    option(f"{_D}.cpu_offload", "plan.offload", switch(["optimizer", "parameters"], NOTHING), False,
           beside=_BY_DTENSOR),
    [option(f"{_G}.{name}", key, "count", 1, beside=_BY_MEGATRON) for name, key in DEGREES.items()],
    [option(f"{_G}.num_layers_in_{end}_pipeline_stage", f"plan.{end}_stage_layers", "count", beside=_BY_MEGATRON)
     for end in ("first", "last")],
    part(f"{_G}.sequence_parallel", "plan.sequence_parallel", "flag", False),
    part(f"{_G}.activation_checkpointing", "plan.recompute", "flag", False),
    part(f"{_G}.recompute_granularity", "plan.recompute", one_of("full", "selective"), "full"),
    option(f"{_G}.optimizer.use_distributed_optimizer", "plan.zero", switch(1, 0), True, beside=_BY_MEGATRON),
    part(f"{_G}.fp8_cfg.enabled", "workload.precision", "flag", False),
    part(f"{_G}.fp8_cfg.fp8_recipe", "workload.precision", choice(_RECIPES, UNEXPRESSED), "blockwise"),
    part("policy.generation.backend", "stack.rollout", "word", "vllm"),
    option(f"{_V}.tensor_parallel_size", "plan.rollout.tp", "count", 1),
    option(f"{_V}.expert_parallel_size", "plan.rollout.ep", "count", 1),
    option(f"{_V}.gpu_memory_utilization", "plan.rollout.memory", "share", 0.6),
    part(f"{_V}.precision", "workload.rollout_precision", "word"),
    part(f"{_V}.is_mx", "workload.rollout_precision", "flag", False),
    part(f"{_N}.enabled", "plan.rollout.colocated", "flag", True),
    part(f"{_N}.resources.num_nodes", "rollout_ranks", "count"),
    part(f"{_N}.resources.gpus_per_node", "rollout_ranks", "count"),
    part("cluster.num_nodes", "nodes", "count", 1),
    part("cluster.gpus_per_node", "accelerators", "count", 1),
    eager_option(f"{_V}.enforce_eager"),
    lost("not expressible", "engines of several stages", f"{_V}.pipeline_parallel_size", 1, "1"),
    lost("not expressible", "types by layer in engines",
         f"{_V}.num_last_layers_in_bf16 {_V}.num_first_layers_in_bf16 {_V}.quantization_ignored_layer_kws", 0, "0", []),
    lost("not expressible", ADAPTERS, f"{_D}.lora_cfg.enabled {_G}.peft.enabled"),
    lost("not expressible", "layers that predict further tokens are trained", f"{_G}.mtp_num_layers", 0, "0"),
    lost("not expressible", "a model that drafts", f"{_P}.draft.enabled"),
    lost("not expressible", "saved activations live on the host", f"{_G}.fine_grained_activation_offloading"),
    lost("not expressible", "optimizer states stay on the host", f"{_G}.optimizer.optimizer_cpu_offload"),
    lost("approximated", "modules that are recomputed by name: here the attention", f"{_G}.recompute_modules", []),
    lost("approximated", "shards of Megatron's FSDP: here its optimizer states",
         f"{_G}.distributed_data_parallel_config.use_custom_fsdp"),
    lost("not expressible", "weights are distilled from another model", "on_policy_distillation"),
    lost("approximated", "a recipe of Megatron Bridge: here the defaults of the rows", "policy.megatron_recipe"),
    tool_options("grpo.max_rollout_turns", 1, "1"),
    quiet("grpo.* loss_fn.* reward_penalties.* checkpointing.* data.* env.* logger.* cluster.master_port_range_low "
          "cluster.master_port_range_high cluster.segment_size data_plane.* policy.tokenizer.* policy.scheduler.* "
          "policy.scheduler policy.optimizer policy.optimizer.* policy.hf_config_overrides.* policy.logprob_batch_size "
          "policy.logprob_chunk_size policy.generation_batch_size policy.offload_optimizer_for_logprob "
          "policy.make_sequence_length_divisible_by policy.max_grad_norm policy.draft.* policy.env_vars "
          "policy.refit_buffer_size_gb policy.router_replay.* "
          "policy.generation.vllm_kwargs.*"),
    [row for name in _PACKED for row in quiet("logprob_mb_tokens algorithm microbatch_order sequence_length_round "
                                              "fuse_loss", f"{_P}.{name}.")],
    quiet("_v2 custom_parallel_plan automodel_kwargs.* lora_cfg.* env_vars clear_cache_every_n_steps "
          "data_parallel_size defer_fsdp_grad_sync", f"{_D}."),
    quiet("model_overrides.* checkpoint.* use_fused_linear_logprobs fused_linear_logprobs_chunk_size "
          "force_reconvert_from_hf empty_unused_memory_level cuda_graph_impl cuda_graph_modules "
          "cuda_graph_warmup_steps offload_modules pipeline_dtype freeze_moe_router moe_router_dtype "
          "moe_router_load_balancing_type moe_router_bias_update_rate moe_permute_fusion apply_rope_fusion "
          "bias_activation_fusion defer_fp32_logits moe_per_layer_logging moe_enable_deepep "
          "moe_token_dispatcher_type moe_shared_expert_overlap use_gloo_process_groups mtp_loss_scaling_factor "
          "mtp_use_repeated_layer mtp_detach_heads gradient_accumulation_fusion use_fused_weighted_squared_relu peft.* "
          "optimizer.* scheduler.* distributed_data_parallel_config.* fp8_cfg.fp8 fp8_cfg.fp8_param env_vars "
          "env_vars.* moe_grouped_gemm moe_flex_dispatcher_backend moe_hybridep_num_sms converter_type "
          "layernorm_epsilon train_iters", f"{_G}."),
    quiet("port_range_low port_range_high temperature top_p top_k val_temperature val_top_p val_top_k stop_token_ids "
          "stop_strings refit_transport real_quant_export_cpu_offload refit_cfg.* mcore_generation_config.* "
          "pad_token_id", "policy.generation."),
    quiet("async_engine kv_cache_dtype logprobs_mode max_model_len use_tqdm use_deep_gemm enable_vllm_metrics_logger "
          "vllm_metrics_logger_interval http_refit_api_key_env_var reset_encoder_cache_after_weight_update "
          "http_refit_server_port zmq_refit_server_port load_format skip_tokenizer_init expose_http_server "
          "enable_expert_parallel", f"{_V}."),
)  # fmt: skip


def _read_dependent_options(keys: ForeignKeys, layer: Layer) -> None:
    """Adds to `layer`, the facts of the file, what the table of options does not express: limits, batches, types."""
    _read_algorithm(keys, layer)
    _micro_batch(keys, layer)
    whole, limit = keys[f"{_P}.max_total_sequence_length"], keys["policy.generation.max_new_tokens"]
    if whole.value == limit.value:  # a bound of both together
        for facts in (layer.facts, layer.weak):
            facts.pop("workload.response.limit", None)
    by_megatron = keys[f"{_G}.enabled"].value
    section, degree = (_G, "tensor_model_parallel_size") if by_megatron else (_D, "tensor_parallel_size")
    if keys[f"{section}.{degree}"].value != 1:
        layer.fill("plan.sequence_parallel", keys[f"{section}.sequence_parallel"])
    if by_megatron:
        again, how = keys[f"{_G}.activation_checkpointing"], keys[f"{_G}.recompute_granularity"]
        layer.fill("plan.recompute", again._replace(value=how.value if again.value else "none"))
    else:
        layer.facts["stack.trainer"] = keys.derived("fsdp2", "DTensor, over FSDP 2", f"{_D}.enabled")
    _read_types(keys, layer)
    fill_engine(keys, "policy.generation.backend", layer)
    _read_accelerators(keys, layer)


def _read_algorithm(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the algorithm, dynamic sampling and staleness to `layer`, the facts of the file."""
    name, dropped = keys["grpo.adv_estimator.name"], keys["grpo.use_dynamic_sampling"]
    if name.value not in ("grpo", "reinforce_plus_plus"):
        lose_algorithm(keys, name.value, "grpo.adv_estimator.name")
    more = keys["grpo.batch_multiplier"]
    if dropped.value and (more.value or 1) > 1:
        wave = round(more.value * keys["grpo.num_prompts_per_step"].value)
        layer.facts["workload.wave"] = keys.derived(wave, "batch_multiplier × prompts", "grpo.batch_multiplier")
    if keys["grpo.async_grpo.enabled"].value:
        age = keys[_AGE]
        layer.facts["workload.staleness"] = keys.derived(age.value, "steps that answers may be old", _AGE)
        if age.value > 1:  # a step ahead waits for its longest answer, as 21 published iterations do
            layer.facts["workload.rollouts"] = keys.derived("continuous", "prompts of several steps under way", _AGE)


def _micro_batch(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the micro-batch to `layer`, the facts of the file; packed sequences count tokens."""
    each = keys[f"{_P}.train_micro_batch_size"]
    packed = next((name for name in _PACKED if keys[f"{_P}.{name}.enabled"].value), "")
    if packed:
        tokens, longest = keys[f"{_P}.{packed}.train_mb_tokens"], keys[f"{_P}.max_total_sequence_length"]
        each = tokens_of_micro_batch(tokens if tokens.value else each._replace(value=each.value * longest.value), 1)
    layer.fill("plan.micro_batch", each)


def _read_types(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the precision of trainer and engines to `layer`, the facts of the file."""
    narrow, plain = keys[f"{_G}.fp8_cfg.enabled"], keys[f"{_P}.precision"]
    trained = keys[f"{_G}.fp8_cfg.fp8_recipe"].value if narrow.value and keys[f"{_G}.enabled"].value else plain.value
    layer.fill("workload.precision", (narrow if narrow.value else plain)._replace(value=trained))
    engine = keys[f"{_V}.precision"]
    if engine.value in ("fp8", *_IN_ENGINES):
        narrower = "mxfp8" if keys[f"{_V}.is_mx"].value else "fp8-block"
        kind = narrower if engine.value == "fp8" else _IN_ENGINES[engine.value]
        if kind != trained:
            layer.fill("workload.rollout_precision", engine._replace(value=kind))
    elif engine.value:
        keys.lose("not expressible", f"engines in {str(engine.value)[:40]}", f"{_V}.precision")


def _read_accelerators(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the numbers of nodes and GPUs for training and generation to `layer`, the facts of the file."""
    counts = accelerators_of_nodes(keys["cluster.gpus_per_node"], keys["cluster.num_nodes"], "cluster")
    for path, value in counts.items():
        layer.fill(path, value)
    if keys[f"{_N}.enabled"].value:
        return
    nodes, each = keys[f"{_N}.resources.num_nodes"], keys[f"{_N}.resources.gpus_per_node"]
    of_node = each.value or keys["cluster.gpus_per_node"].value
    own = (nodes.value or 1) * of_node
    layer.facts["rollout_ranks"] = keys.derived(own, "nodes × GPUs of generation", f"{_N}.resources.num_nodes")


def _combined_options(job: RlJob) -> dict[str, Any]:
    """Options that each combine several keys."""
    workload, (nodes, each) = job.workload, job.nodes_of(sum(job.ranks))
    by_megatron, packed = job.trainer == "megatron-core", f"{_P}.{_PACKED[0]}"
    section, again = (_G if by_megatron else _D), str(job.plan.recompute)
    narrow = next((name for name, kind in _RECIPES.items() if kind == workload.precision), None)
    apart = job.nodes_of(job.ranks[1]) if job.ranks[1] else (None, None)
    return {
        "grpo.use_dynamic_sampling": workload.algorithm == "dapo" or None,
        "loss_fn.reference_policy_kl_penalty": 0.01 if workload.refers else 0,
        "grpo.async_grpo.enabled": bool(workload.staleness) or None,
        _AGE: round(workload.staleness) or None,
        f"{packed}.enabled": bool(job.tokens),
        f"{packed}.train_mb_tokens": job.tokens or None,
        f"{_P}.train_micro_batch_size": None if job.tokens else job.count("plan.micro_batch"),
        f"{_P}.precision": "float16" if workload.precision == "fp16" else "bfloat16",
        f"{_G}.fp8_cfg.enabled": True if narrow else None,
        f"{_G}.fp8_cfg.fp8_recipe": narrow,
        f"{_G}.enabled": by_megatron,
        f"{_D}.enabled": not by_megatron,
        f"{section}.sequence_parallel": bool(job.plan.sequence_parallel) if job.count("plan.tp") > 1 else None,
        f"{_G}.activation_checkpointing": again != "none" if by_megatron else None,
        f"{_G}.recompute_granularity": again if by_megatron and again != "none" else None,
        f"{_V}.precision": "fp8" if workload.rollout_precision in ("fp8-block", "mxfp8") else None,
        f"{_V}.is_mx": workload.rollout_precision == "mxfp8" or None,
        f"{_N}.enabled": not job.ranks[1],
        f"{_N}.resources.num_nodes": apart[0],
        f"{_N}.resources.gpus_per_node": apart[1],
        "cluster.num_nodes": nodes,
        "cluster.gpus_per_node": each,
        "policy.generation.backend": job.value("stack.rollout"),
    }


FORMAT = RlFormat(
    name="nemo-rl",
    title="configuration of NeMo RL",
    version="NeMo RL 0.6",
    table=_TABLE,
    marks=re.compile(r"\bexamples/run_grpo\w*\.py|\bnum_generations_per_prompt\b|\bnum_prompts_per_step\b"
                     r"|\b(?:vllm|dtensor)_cfg\b"),
    program=re.compile(r"\brun_grpo\w*\.py\b"),
    base="grpo_math_1B.yaml",
    follows=(
        Follows("workload.algorithm", "grpo.use_dynamic_sampling grpo.adv_estimator.name",
                lambda dropped, name: "dapo" if dropped else "grpo"),
        Follows("workload.reference",
                "loss_fn.reference_policy_kl_penalty grpo.skip_reference_policy_logprobs_calculation",
                lambda penalty, skipped: (penalty or 0) > 0 and not skipped),
    ),
    beyond=_read_dependent_options,
    kind="YAML",
    several=_combined_options,
    fixed={
        "plan.rollout.dp_attention": "ranks of the experts over tp",
        "plan.rollout.offload": "states leave while answers are generated",
    },
    cannot=not_stated(_TABLE, {
        **because("shards reach over all ranks", "dp_replicate"),
        **because("the first and the last stage alone may differ", "split"),
        **because("as its trainers do it", "schedule vpp recompute_method recompute_layers recompute_modules"),
        "workload.optimizer": "its recipes take AdamW",
    }),
)  # fmt: skip
