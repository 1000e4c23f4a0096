"""NeMo RL: a YAML that stands over others, and words such as policy.precision=bfloat16 behind its programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys
from costmodel.exchange.format import because
from costmodel.exchange.given_size import counted_by_node
from costmodel.exchange.rl.rl_format import ADAPTERS, AS_GRPO, NOWHERE, RlFormat, engine_of, stated_if, tokens_of, tools
from costmodel.exchange.rows import NOTHING, choice, known, lost, option, part, quiet, switch
from costmodel.exchange.training.layer import Layer, layer_of_rows, with_remarks

TITLE, VERSION = "configuration of NeMo RL", "NeMo RL 0.6"

_P, _D, _G = "policy", "policy.dtensor_cfg", "policy.megatron_cfg"
_V, _N = "policy.generation.vllm_cfg", "policy.generation.colocated"
_DEGREES = {
    "tensor_model_parallel_size": "plan.tp",
    "pipeline_model_parallel_size": "plan.pp",
    "context_parallel_size": "plan.cp",
    "expert_model_parallel_size": "plan.ep",
    "expert_tensor_parallel_size": "plan.etp",
}
_TYPES = choice({"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"})
_RECIPES = {"blockwise": "fp8-block", "tensorwise": "fp8-cs", "delayed": "fp8", "mxfp8": "mxfp8"}
_ENDS = ("first", "last")
_AGE = "grpo.async_grpo.max_trajectory_age_steps"
_PACKED = ("sequence_packing", "dynamic_batching")

TABLE = known(
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
    part(f"{_P}.max_total_sequence_length", "longest", "count", 512),
    part("policy.generation.max_new_tokens", "workload.response.limit", "count"),
    part(f"{_P}.precision", "workload.precision", _TYPES, "bfloat16"),
    part(f"{_G}.enabled", "stack.trainer", "flag", False),
    part(f"{_D}.enabled", "stack.trainer", "flag", True),
    part(f"{_D}.tensor_parallel_size", "plan.tp", "count", 1),
    part(f"{_D}.context_parallel_size", "plan.cp", "count", 1),
    part(f"{_D}.expert_parallel_size", "plan.ep", "count", 1),
    part(f"{_D}.sequence_parallel", "plan.sequence_parallel", "flag", False),
    part(f"{_D}.activation_checkpointing", "plan.recompute", switch("full", "none"), False),
    part(f"{_D}.cpu_offload", "plan.offload", "flag", False),
    [part(f"{_G}.{name}", key, "count", 1) for name, key in _DEGREES.items()],
    [part(f"{_G}.num_layers_in_{end}_pipeline_stage", f"plan.{end}_stage_layers", "count") for end in _ENDS],
    part(f"{_G}.sequence_parallel", "plan.sequence_parallel", "flag", False),
    part(f"{_G}.activation_checkpointing", "plan.recompute", "flag", False),
    part(f"{_G}.recompute_granularity", "plan.recompute", choice({"full": "full", "selective": "selective"}), "full"),
    part(f"{_G}.optimizer.use_distributed_optimizer", "plan.zero", switch(1, 0), True),
    part(f"{_G}.fp8_cfg.enabled", "workload.precision", "flag", False),
    part(f"{_G}.fp8_cfg.fp8_recipe", "workload.precision", choice(_RECIPES, "no workload expresses it"), "blockwise"),
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
    part(f"{_V}.enforce_eager", "", "flag", False, loss=("approximated", "engines without graphs: here with them")),
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
    tools("grpo.max_rollout_turns", 1, "1"),
    quiet("grpo.* loss_fn.* reward_penalties.* checkpointing.* data.* env.* logger.* cluster.master_port_range_low "
          "cluster.master_port_range_high cluster.segment_size data_plane.* policy.tokenizer.* policy.scheduler.* "
          "policy.scheduler policy.optimizer.* policy.hf_config_overrides.* policy.logprob_batch_size "
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
          "vllm_kwargs.* pad_token_id", "policy.generation."),
    quiet("async_engine kv_cache_dtype logprobs_mode max_model_len use_tqdm use_deep_gemm enable_vllm_metrics_logger "
          "vllm_metrics_logger_interval http_refit_api_key_env_var reset_encoder_cache_after_weight_update "
          "http_refit_server_port zmq_refit_server_port load_format skip_tokenizer_init expose_http_server "
          "enable_expert_parallel", f"{_V}."),
)  # fmt: skip


def read_nemo_rl(tree: Mapping[Any, Any], file: str) -> Layer:
    """What a configuration of NeMo RL states, with those beneath it."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = layer_of_rows(keys, TITLE)
    layer.facts["stack"] = keys.derived("nemo-rl", "NeMo RL", next(iter(keys.stated), ""))
    _algorithm(keys, layer)
    _micro_batch(keys, layer)
    for path, name in (("longest", f"{_P}.max_total_sequence_length"),
                       ("workload.response.limit", "policy.generation.max_new_tokens")):  # fmt: skip
        layer.fill(path, keys[name])
    whole, limit = keys[f"{_P}.max_total_sequence_length"], keys["policy.generation.max_new_tokens"]
    if whole.value == limit.value:  # a bound of both together
        for facts in (layer.facts, layer.weak):
            facts.pop("workload.response.limit", None)
    if keys[f"{_G}.enabled"].value:
        _megatron(keys, layer)
    else:
        _dtensor(keys, layer)
    _types(keys, layer)
    engine_of(keys, "policy.generation.backend", layer)
    _accelerators(keys, layer)
    return with_remarks(keys, layer)


def _algorithm(keys: ForeignKeys, layer: Layer) -> None:
    name, dropped = keys["grpo.adv_estimator.name"], keys["grpo.use_dynamic_sampling"]
    if name.value not in ("grpo", "reinforce_plus_plus"):
        keys.lose("approximated", f"{str(name.value)[:40]} {AS_GRPO}", "grpo.adv_estimator.name")
    kind = "dapo" if dropped.value else "grpo"
    stated_if(keys, layer, "workload.algorithm", kind, "grpo.use_dynamic_sampling", "grpo.adv_estimator.name")
    more = keys["grpo.batch_multiplier"]
    if dropped.value and (more.value or 1) > 1:
        wave = round(more.value * keys["grpo.num_prompts_per_step"].value)
        layer.facts["workload.wave"] = keys.derived(wave, "batch_multiplier × prompts", "grpo.batch_multiplier")
    names = ("loss_fn.reference_policy_kl_penalty", "grpo.skip_reference_policy_logprobs_calculation")
    refers = (keys[names[0]].value or 0) > 0 and not keys[names[1]].value
    stated_if(keys, layer, "workload.reference", refers, *names)
    if keys["grpo.async_grpo.enabled"].value:
        age = keys[_AGE]
        layer.facts["workload.staleness"] = keys.derived(age.value, "steps that answers may be old", _AGE)
        if age.value > 1:  # a step ahead waits for its longest answer, as 21 published iterations do
            layer.facts["workload.rollouts"] = keys.derived("continuous", "prompts of several steps under way", _AGE)


def _micro_batch(keys: ForeignKeys, layer: Layer) -> None:
    packed = next((name for name in _PACKED if keys[f"{_P}.{name}.enabled"].value), "")
    tokens = keys[f"{_P}.{packed}.train_mb_tokens"] if packed else None
    if tokens is not None and tokens.value:
        layer.fill("plan.micro_batch", tokens_of(tokens, 1))
    elif packed:
        each, longest = keys[f"{_P}.train_micro_batch_size"], keys[f"{_P}.max_total_sequence_length"]
        value = each._replace(value=each.value * longest.value)
        layer.fill("plan.micro_batch", tokens_of(value, 1))
    else:
        layer.fill("plan.micro_batch", keys[f"{_P}.train_micro_batch_size"])


def _dtensor(keys: ForeignKeys, layer: Layer) -> None:
    layer.facts["stack.trainer"] = keys.derived("fsdp2", "DTensor, over FSDP 2", f"{_D}.enabled")
    for name in ("tensor_parallel_size", "context_parallel_size", "expert_parallel_size", "sequence_parallel",
                 "activation_checkpointing"):  # fmt: skip
        layer.fill(TABLE[f"{_D}.{name}"].key, keys[f"{_D}.{name}"])
    if keys[f"{_D}.tensor_parallel_size"].value == 1:
        for facts in (layer.facts, layer.weak):
            facts.pop("plan.sequence_parallel", None)
    away = keys[f"{_D}.cpu_offload"]
    layer.fill("plan.offload", away._replace(value=["optimizer", "parameters"] if away.value else NOTHING))


def _megatron(keys: ForeignKeys, layer: Layer) -> None:
    for name, path in _DEGREES.items():
        layer.fill(path, keys[f"{_G}.{name}"])
    for end in _ENDS:
        layer.fill(f"plan.{end}_stage_layers", keys[f"{_G}.num_layers_in_{end}_pipeline_stage"])
    layer.fill("plan.zero", keys[f"{_G}.optimizer.use_distributed_optimizer"])
    if keys[f"{_G}.tensor_model_parallel_size"].value > 1:
        layer.fill("plan.sequence_parallel", keys[f"{_G}.sequence_parallel"])
    again, how = keys[f"{_G}.activation_checkpointing"], keys[f"{_G}.recompute_granularity"]
    layer.fill("plan.recompute", again._replace(value=how.value if again.value else "none"))


def _types(keys: ForeignKeys, layer: Layer) -> None:
    narrow, plain = keys[f"{_G}.fp8_cfg.enabled"], keys[f"{_P}.precision"]
    trained = keys[f"{_G}.fp8_cfg.fp8_recipe"].value if narrow.value and keys[f"{_G}.enabled"].value else plain.value
    layer.fill("workload.precision", (narrow if narrow.value else plain)._replace(value=trained))
    engine = keys[f"{_V}.precision"]
    if engine.value in ("fp8", "bfloat16", "float16"):
        narrower = "mxfp8" if keys[f"{_V}.is_mx"].value else "fp8-block"
        kind = narrower if engine.value == "fp8" else {"bfloat16": "bf16", "float16": "fp16"}[engine.value]
        if kind != trained:
            layer.fill("workload.rollout_precision", engine._replace(value=kind))
    elif engine.value:
        keys.lose("not expressible", f"engines in {str(engine.value)[:40]}", f"{_V}.precision")


def _accelerators(keys: ForeignKeys, layer: Layer) -> None:
    counts = counted_by_node(keys["cluster.gpus_per_node"], keys["cluster.num_nodes"], "cluster")
    for path, value in counts.items():
        layer.fill(path, value)
    if keys[f"{_N}.enabled"].value:
        return
    nodes, each = keys[f"{_N}.resources.num_nodes"], keys[f"{_N}.resources.gpus_per_node"]
    of_node = each.value or keys["cluster.gpus_per_node"].value
    own = (nodes.value or 1) * of_node
    layer.facts["rollout_ranks"] = keys.derived(own, "nodes × GPUs of generation", f"{_N}.resources.num_nodes")


FORMAT = RlFormat(
    name="nemo-rl",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    marks=re.compile(r"\bexamples/run_grpo\w*\.py|\bnum_generations_per_prompt\b|\bnum_prompts_per_step\b"
                     r"|\b(?:vllm|dtensor)_cfg\b"),
    program=re.compile(r"\brun_grpo\w*\.py\b"),
    base="grpo_math_1B.yaml",
    read=read_nemo_rl,
    fixed={
        "plan.rollout.dp_attention": "ranks of the experts over tp",
        "plan.rollout.offload": "states leave while answers are generated",
    },
    cannot={
        **because("shards reach over all ranks", "dp_replicate"),
        **because("its trainer computes them", "old_log_probabilities", "workload"),
        **because("a program gives it", "reward", "workload"),
        **{key: reason for key, reason in NOWHERE.items() if key != "stack.trainer"},
        **because("it has one exchange for the context", "cp_type"),
        **because("ranks lie in its own order", "order"),
        **because("the first and the last stage alone may differ", "split"),
        **because("as its trainers do it", "schedule vpp recompute_method recompute_layers recompute_modules"),
        **because("the host is the only place", "offload_to offload_layers"),
        "workload.epochs": "each answer is trained on once",
        "workload.gradients": "the trainer has one type of sums",
        "workload.optimizer": "its recipes take AdamW",
    },
)  # fmt: skip
