"""Reads and writes verl: words of Hydra after its trainers, and the YAML that these override."""

from __future__ import annotations

import re
from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.import_result import accelerators_of_nodes
from costmodel.exchange.option_rows import NOTHING, choice, lost, one_of, option, option_table, part, quiet, switch
from costmodel.exchange.rl.rl_format import (
    ADAPTERS,
    DEGREES,
    GRANULARITY,
    UNEXPRESSED,
    Follows,
    RlFormat,
    RlJob,
    eager_option,
    fill_algorithm,
    fill_engine,
    not_stated,
    stated_if,
    tokens_of_micro_batch,
    tool_options,
)
from costmodel.exchange.training.file_facts import Layer

_M, _A, _R, _F = (f"actor_rollout_ref.{name}" for name in ("model", "actor", "rollout", "ref"))
_T, _O = f"{_A}.megatron.override_transformer_config", f"{_A}.optim.override_optimizer_config"
_ALGORITHMS = {
    "gae": "ppo", "grpo": "grpo", "rloo": "rloo",
    **dict.fromkeys(("grpo_vectorized", "grpo_passk", "rloo_vectorized", "reinforce_plus_plus", "opo", "remax", "gpg",
                     "reinforce_plus_plus_baseline"), "grpo"),
}  # fmt: skip
_EXACT = ("gae", "grpo", "rloo")
_TRAINERS = {"fsdp": "verl-fsdp", "fsdp2": "verl-fsdp", "megatron": "megatron-core"}
_DEGREES = {**DEGREES, "virtual_pipeline_model_parallel_size": "plan.vpp"}
_BY_MEGATRON, _BY_FSDP = ((f"{_A}.strategy", name) for name in ("megatron-core", "verl-fsdp"))
_ON_HOST = switch(["optimizer"], NOTHING)
_TYPES = choice({"bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "fp16": "fp16", "float32": "fp32"})
_OWN_LAYOUT = "a separate layout: here that of the trainer"
_OTHER_MODEL = "a model of another size is possible: here that of the policy"
_STAYS = "it is moved to the host between passes: here it stays"
_MEGATRON = {f"{_A}.strategy": "megatron"}  # what its own configurations state beyond the defaults of the rows
_APART = {
    "rollout.nnodes": "1", "rollout.n_gpus_per_node": "8", "async_training.staleness_threshold": "0.1",
    "async_training.trigger_parameter_sync_step": "4",
}  # fmt: skip
_ASYNC = ("async_training.trigger_parameter_sync_step", "async_training.require_batches")

_TABLE = option_table(
    option(f"{_M}.path", "model", "word"),
    part("algorithm.adv_estimator", "workload.algorithm", choice(_ALGORITHMS, UNEXPRESSED), "gae"),
    part("algorithm.filter_groups.enable", "workload.algorithm", "flag", False),
    option("data.gen_batch_size", "workload.wave", "count", beside=("algorithm.filter_groups.enable", True)),
    part("data.train_batch_size", "workload.prompts", "count", 1024),
    option("data.max_prompt_length", "longest_prompt", "count", 512),
    option("data.max_response_length", "workload.response.limit", "count", 512),
    option(f"{_R}.n", "workload.samples", "count", 1),
    option(f"{_A}.ppo_mini_batch_size", "mini_prompts", "count", 256),
    option(f"{_A}.ppo_epochs", "workload.epochs", "count", 1),
    part(f"{_A}.ppo_micro_batch_size_per_gpu", "plan.micro_batch", "count"),
    part(f"{_A}.ppo_micro_batch_size", "plan.micro_batch", "count"),
    part(f"{_A}.use_dynamic_bsz", "plan.micro_batch", "flag", False),
    part(f"{_A}.ppo_max_token_len_per_gpu", "plan.micro_batch", "count", 16384),
    part(f"{_A}.use_kl_loss", "workload.reference", "flag", False),
    part("algorithm.use_kl_in_reward", "workload.reference", "flag", False),
    option("reward_model.enable", "workload.reward", switch("model", "rule"), False),
    option("trainer.total_training_steps", "workload.iterations", "count"),
    part("trainer.nnodes", "nodes", "count", 1),
    part("trainer.n_gpus_per_node", "accelerators", "count", 8),
    option(f"{_A}.strategy", "stack.trainer", choice(_TRAINERS, "no document describes this trainer"), "fsdp"),
    part(f"{_A}.ulysses_sequence_parallel_size", "plan.cp", "count", 1),
    part(f"{_A}.fsdp_config.ulysses_sequence_parallel_size", "plan.cp", "count", 1),
    part(f"{_A}.fsdp_config.fsdp_size", "plan.dp_replicate", "whole", -1),
    option(f"{_A}.fsdp_config.reshard_after_forward", "plan.zero", switch(3, 2), True, beside=_BY_FSDP),
    option(f"{_A}.fsdp_config.offload_policy", "plan.offload", switch(["optimizer", "parameters"], NOTHING), False,
           beside=_BY_FSDP),
    option(f"{_A}.fsdp_config.dtype", "workload.precision", _TYPES, "bfloat16", beside=_BY_FSDP),
    option(f"{_A}.megatron.dtype", "workload.precision", _TYPES, "bfloat16", beside=_BY_MEGATRON),
    [part(f"{_A}.{engine}.{name}_offload", "plan.rollout.offload", "flag", False)
     for engine in ("fsdp_config", "megatron") for name in ("param", "optimizer")],
    [option(f"{_A}.megatron.{name}", key, "count", beside=_BY_MEGATRON) for name, key in _DEGREES.items()],
    option(f"{_A}.megatron.sequence_parallel", "plan.sequence_parallel", "flag", True, beside=_BY_MEGATRON),
    option(f"{_A}.megatron.use_distributed_optimizer", "plan.zero", switch(1, 0), True, beside=_BY_MEGATRON),
    option(f"{_T}.recompute_granularity", "plan.recompute", GRANULARITY, "null", beside=_BY_MEGATRON),
    option(f"{_T}.recompute_method", "plan.recompute_method", one_of("uniform", "block"), beside=_BY_MEGATRON),
    option(f"{_T}.recompute_num_layers", "plan.recompute_layers", "count", beside=_BY_MEGATRON),
    [option(f"{_T}.num_layers_in_{end}_pipeline_stage", f"plan.{end}_stage_layers", "count", beside=_BY_MEGATRON)
     for end in ("first", "last")],
    option(f"{_M}.enable_gradient_checkpointing", "plan.recompute", switch("full", "none"), True, beside=_BY_FSDP),
    option(f"{_A}.optim.optimizer", "workload.optimizer",
           choice({"AdamW": "adamw", "Adam": "adamw", "adam": "adamw", "adamw": "adamw", "sgd": "sgd"}), "AdamW"),
    part(f"{_R}.name", "stack.rollout", "word"),
    option(f"{_R}.tensor_model_parallel_size", "plan.rollout.tp", "count", 2),
    option(f"{_R}.expert_parallel_size", "plan.rollout.ep", "count", 1),
    option(f"{_R}.data_parallel_size", "plan.rollout.dp_attention", "count", 1),
    option(f"{_R}.gpu_memory_utilization", "plan.rollout.memory", "share", 0.5),
    option(f"{_R}.free_cache_engine", "stack.sharing.sleeps", switch(NOTHING, False), True),
    option(f"{_R}.max_num_seqs", "stack.rollout.sequences", "count"),
    option(f"{_R}.max_num_batched_tokens", "stack.rollout.budget", "count"),
    option(f"{_R}.enable_prefix_caching", "stack.rollout.prefix_cache", switch(NOTHING, False), True),
    part(f"{_R}.quantization", "workload.rollout_precision", "word"),
    part("rollout.nnodes", "rollout_ranks plan.rollout.colocated", "count"),
    part("rollout.n_gpus_per_node", "rollout_ranks", "count"),
    option("rollout.n", kind="count", old=f"{_R}.n"),
    part("async_training.staleness_threshold", "workload.staleness", "figure"),
    part("async_training.partial_rollout", "workload.rollouts", "flag", True),
    part("async_training.use_rollout_log_probs", "workload.old_log_probabilities", "flag", True),
    part("async_training.compute_prox_log_prob", "workload.old_log_probabilities", "flag", False),
    [part(name, "workload.prompts", "count", 1) for name in _ASYNC],
    [part(f"{_F}.megatron.{name}", key, "count") for name, key in _DEGREES.items()],
    part(f"{_F}.ulysses_sequence_parallel_size", "plan.cp", "count"),
    eager_option(f"{_R}.enforce_eager"),
    lost("not expressible", "engines of several stages", f"{_R}.pipeline_model_parallel_size", 1, "1"),
    lost("approximated", _OTHER_MODEL, "critic.model.path reward_model.model.path"),
    [part(f"{_F}.{engine}.param_offload", "stack.sharing.reference_on_host", "flag", False)
     for engine in ("fsdp_config", "megatron")],
    lost("approximated", f"the critic: {_STAYS}",
         "critic.model.fsdp_config.param_offload critic.model.fsdp_config.optimizer_offload "
         "critic.megatron.param_offload critic.megatron.optimizer_offload critic.megatron.grad_offload"),
    lost("approximated", f"the critic: {_OWN_LAYOUT}",
         f"critic.ulysses_sequence_parallel_size {' '.join(f'critic.megatron.{name}' for name in _DEGREES)}", 1, "1"),
    lost("not expressible", ADAPTERS, f"{_M}.lora_rank {_M}.lora.rank critic.model.lora_rank", 0, "0"),
    lost("not expressible", "saved activations live on the host", f"{_M}.enable_activation_offload"),
    lost("not expressible", "a part of the model is frozen", f"{_A}.freeze_vision_tower"),
    lost("not expressible", "layers that predict further tokens are trained or draft", f"{_M}.mtp.enable"),
    lost("not expressible", "the best of more answers are kept",
         f"algorithm.use_pf_ppo {_R}.over_sample_rate", 0, "0", "0.0"),
    option(f"{_O}.optimizer_cpu_offload", "plan.offload", _ON_HOST, False, beside=_BY_MEGATRON),
    part(f"{_O}.optimizer_offload_fraction", "plan.offload", "figure", 0.0),
    lost("not expressible", "separate accelerators for the reward model", "reward_model.enable_resource_pool"),
    lost("approximated", "weights of another type than the stack's",
         f"{_A}.fsdp_config.model_dtype {_A}.fsdp_config.mixed_precision", "fp32", "float32"),
    lost("approximated", "sequences are padded: fewer of their tokens are real", f"{_M}.use_remove_padding", True),
    lost("approximated", "kernels are replaced",
         f"{_M}.use_liger {_M}.use_fused_kernels {_A}.use_fused_kernels {_M}.tiled_mlp.enabled"),
    lost("approximated", "prompts of a group are computed once", f"{_A}.use_prefix_grouper"),
    tool_options(f"{_R}.multi_turn.enable"),
    quiet("trainer.* algorithm.filter_groups.* algorithm.gamma algorithm.lam algorithm.norm_adv_by_std_in_grpo "
          "algorithm.kl_penalty algorithm.kl_ctrl.* algorithm.pf_ppo.* algorithm.rollout_correction.* "
          "algorithm.rollout_is algorithm._target_ custom_reward_function.* reward_manager.* global_profiler.* "
          "transfer_queue.* ray_kwargs.* ray_init.* hydra.* rollout.total_rollout_steps rollout.total_epochs "
          "rollout.test_freq async_training.use_trainer_do_validate async_training.checkpoint_engine.* "
          "actor_rollout_ref.hybrid_engine actor_rollout_ref.nccl_timeout actor_rollout_ref.checkpoint_engine.* "
          "critic.* reward_model.* data.*"),
    quiet("optim.* clip_ratio clip_ratio_low clip_ratio_high clip_ratio_c tau_pos tau_neg policy_loss.* "
          "loss_agg_mode loss_scale_factor entropy_coeff calculate_entropy use_torch_compile kl_loss_coef "
          "kl_loss_type shuffle data_loader_seed checkpoint.* profiler.* router_replay.* grad_clip "
          "entropy_from_logits_with_chunking entropy_checkpointing use_remove_padding load_weight "
          "calculate_sum_pi_squared sum_pi_squared_checkpointing rollout_n _target_ use_rollout_log_probs "
          "fsdp_config._target_ fsdp_config.wrap_policy.* fsdp_config.forward_prefetch fsdp_config.use_orig_params "
          "fsdp_config.seed fsdp_config.full_determinism fsdp_config.entropy_from_logits_with_chunking "
          "fsdp_config.use_torch_compile fsdp_config.entropy_checkpointing fsdp_config.forward_only "
          "fsdp_config.strategy megatron._target_ megatron.grad_offload megatron.use_dist_checkpointing "
          "megatron.dist_checkpointing_path megatron.dist_checkpointing_prefix megatron.seed "
          "megatron.override_ddp_config.* megatron.override_mcore_model_config.* megatron.use_mbridge "
          "megatron.vanilla_mbridge megatron.use_remove_padding megatron.forward_only", f"{_A}."),
    quiet("attention_backend recompute_modules apply_rope_fusion masked_softmax_fusion bias_activation_fusion "
          "bias_dropout_fusion gradient_accumulation_fusion deallocate_pipeline_outputs persist_layer_norm "
          "moe_grouped_gemm moe_permute_fusion moe_token_dispatcher_type moe_router_dtype moe_enable_deepep "
          "moe_shared_expert_overlap moe_aux_loss_coeff moe_z_loss_coeff moe_router_load_balancing_type "
          "account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split", f"{_T}."),
    quiet("mode temperature top_k top_p prompt_length response_length dtype ignore_eos cudagraph_capture_sizes "
          "max_model_len enable_chunked_prefill logprobs_mode scheduling_policy load_format "
          "log_prob_micro_batch_size log_prob_micro_batch_size_per_gpu log_prob_use_dynamic_bsz "
          "log_prob_max_token_len_per_gpu disable_log_stats do_sample multi_stage_wake_up engine_kwargs.* val_kwargs.* "
          "multi_turn.* calculate_log_probs agent.* checkpoint_engine.* trace.* skip_rollout skip_dump_dir "
          "skip_tokenizer_init enable_rollout_routing_replay profiler.* prometheus.* quantization_config_file mtp.* "
          "layered_summon layer_name_map.* _target_ update_weights_bucket_megabytes", f"{_R}."),
    quiet("_target_ hf_config_path tokenizer_path use_shm trust_remote_code custom_chat_template external_lib "
          "override_config.* lora_alpha target_modules exclude_modules lora_adapter_path fused_kernel_options.* "
          "tiled_mlp.num_shards lora.* mtp.*", f"{_M}."),
    quiet("rollout_n strategy use_torch_compile log_prob_micro_batch_size log_prob_micro_batch_size_per_gpu "
          "log_prob_use_dynamic_bsz log_prob_max_token_len_per_gpu profiler.* router_replay.* fsdp_config.* _target_ "
          "entropy_from_logits_with_chunking entropy_checkpointing megatron.* load_weight", f"{_F}."),
)  # fmt: skip


def _read_dependent_options(keys: ForeignKeys, layer: Layer) -> None:
    """Adds to `layer`, the facts of the file, what the table of options does not express: batches, engine."""
    fill_algorithm(keys, layer, "algorithm.adv_estimator", _EXACT, "algorithm.filter_groups.enable")
    _read_batches(keys, layer)
    _read_accelerators(keys, layer)
    if keys[f"{_A}.strategy"].value == "megatron-core":
        _read_megatron(keys, layer)
    else:
        _read_fsdp(keys, layer)
    fill_engine(keys, f"{_R}.name", layer)
    kind = keys[f"{_R}.quantization"]
    if kind.value == "fp8":
        layer.fill("workload.rollout_precision", kind._replace(value="fp8-block"))
    elif kind.value:
        keys.lose("not expressible", f"engines in {str(kind.value)[:40]}", f"{_R}.quantization")


def _read_batches(keys: ForeignKeys, layer: Layer) -> None:
    """Batch sizes in prompts; for the asynchronous trainer, the prompts between two weight updates of the engines."""
    stale = keys["async_training.staleness_threshold"]
    if not keys.under("async_training"):
        layer.fill("workload.prompts", keys["data.train_batch_size"])
        return
    often = [keys[name] for name in _ASYNC]
    each = often[0].value * often[1].value * keys[f"{_A}.ppo_mini_batch_size"].value
    layer.facts["workload.prompts"] = keys.derived(each, "mini-batches between two sets of weights", _ASYNC[0])
    ahead = stale.value or 0
    layer.fill("workload.staleness", stale._replace(value=ahead))
    if ahead > 0:
        cut = keys["async_training.partial_rollout"]
        layer.fill("workload.rollouts", cut._replace(value="partial" if cut.value else "continuous"))
    engines = keys["async_training.use_rollout_log_probs"]
    again = keys["async_training.compute_prox_log_prob"]
    who = "engine" if engines.value and not again.value else "trainer"
    layer.fill("workload.old_log_probabilities", engines._replace(value=who))


def _read_accelerators(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the numbers of GPUs for training and generation to `layer`, the facts of the file."""
    own, each = keys["rollout.nnodes"], keys["rollout.n_gpus_per_node"]
    counts = accelerators_of_nodes(keys["trainer.n_gpus_per_node"], keys["trainer.nnodes"], "trainer")
    if own.value and each.value:
        layer.fill("trainer_ranks", counts["accelerators"])
        layer.facts["rollout_ranks"] = keys.derived(own.value * each.value, "nodes × GPUs of each", "rollout.nnodes")
        return
    for path, value in counts.items():
        layer.fill(path, value)


def _read_micro_batch(keys: ForeignKeys, layer: Layer, ranks: int) -> None:
    """Adds the micro-batch of a rank to `layer`, the facts of the file; dynamic batches count tokens."""
    each, whole = keys[f"{_A}.ppo_micro_batch_size_per_gpu"], keys[f"{_A}.ppo_micro_batch_size"]
    if keys[f"{_A}.use_dynamic_bsz"].value:
        keys.without_effect(f"{_A}.ppo_micro_batch_size_per_gpu", "use_dynamic_bsz: tokens are counted")
        layer.fill("plan.micro_batch", tokens_of_micro_batch(keys[f"{_A}.ppo_max_token_len_per_gpu"], ranks))
    elif each.value:
        layer.fill("plan.micro_batch", each)
    else:
        layer.fill("micro_batch_of_all", whole)


def _read_fsdp(keys: ForeignKeys, layer: Layer) -> None:
    """Adds Ulysses degree, shards and offload of the FSDP trainer to `layer`, the facts of the file."""
    names = (f"{_A}.ulysses_sequence_parallel_size", f"{_A}.fsdp_config.ulysses_sequence_parallel_size")
    cp = next((keys[name] for name in names if (keys[name].value or 1) > 1), keys[names[0]])
    layer.fill("plan.cp", cp)
    if (cp.value or 1) > 1:
        layer.facts["plan.cp_type"] = keys.derived("a2a", "Ulysses", names[0])
    shards = keys[f"{_A}.fsdp_config.fsdp_size"]
    if (shards.value or -1) > 0:
        layer.fill("shards", shards)
    _read_offload(keys, layer, "fsdp_config")
    _read_micro_batch(keys, layer, cp.value or 1)
    _check_reference(keys, f"{_F}.ulysses_sequence_parallel_size", cp.value)


def _read_megatron(keys: ForeignKeys, layer: Layer) -> None:
    """Adds offload and micro-batch of the Megatron trainer to `layer`, the facts of the file."""
    for name in _DEGREES:
        _check_reference(keys, f"{_F}.megatron.{name}", keys[f"{_A}.megatron.{name}"].value)
    keys.without_effect(f"{_M}.enable_gradient_checkpointing", "Megatron Core has recompute_granularity")
    away, part_of = keys[f"{_O}.optimizer_cpu_offload"], keys[f"{_O}.optimizer_offload_fraction"]
    if away.value and keys.given(f"{_O}.optimizer_offload_fraction") and part_of.value != 1:
        keys.lose("approximated", "a part of the optimizer is on the host: here all", away.origin.text)
    _read_offload(keys, layer, "megatron")
    _read_micro_batch(keys, layer, keys[f"{_A}.megatron.context_parallel_size"].value or 1)


def _read_offload(keys: ForeignKeys, layer: Layer, engine: str) -> None:
    """Fills whether training states are offloaded while answers are generated."""
    names = [f"{_A}.{engine}.{name}_offload" for name in ("optimizer", "param")]
    moved = [bool(keys[name].value) for name in names]
    if moved[0] != moved[1]:
        keys.lose("approximated", "of weights and optimizer states one leaves: here both do, or none", names[0])
    stated_if(keys, layer, "plan.rollout.offload", moved[0], *names)
    if keys[f"{_F}.{engine}.param_offload"].value:
        stated_if(keys, layer, "stack.sharing.reference_on_host", True, f"{_F}.{engine}.param_offload")


def _check_reference(keys: ForeignKeys, name: str, own: object) -> None:
    """Records a loss if the reference model has another degree than the trainer."""
    if (keys[name].value or 1) != (own or 1) and keys.given(name):
        keys.lose("approximated", f"the reference: {_OWN_LAYOUT}", name)


def _combined_options(job: RlJob) -> dict[str, Any]:
    """Options that each combine several keys."""
    workload, (nodes, each) = job.workload, job.nodes_of(job.ranks[0])
    by_megatron, cp = job.trainer == "megatron-core", job.count("plan.cp")
    engine = "megatron" if by_megatron else "fsdp_config"
    shards = job.ranks[0] // (cp * job.count("plan.dp_replicate"))
    found: dict[str, Any] = {
        "algorithm.adv_estimator": {"ppo": "gae", "dapo": "grpo"}.get(workload.algorithm, workload.algorithm),
        "algorithm.filter_groups.enable": workload.algorithm == "dapo" or None,
        "data.train_batch_size": round(workload.prompts),
        f"{_A}.use_kl_loss": workload.refers or None,
        "trainer.nnodes": nodes,
        "trainer.n_gpus_per_node": each,
        f"{_R}.name": job.value("stack.rollout"),
        f"{_R}.quantization": "fp8" if workload.rollout_precision == "fp8-block" else None,
        f"{_A}.use_dynamic_bsz": True if job.tokens else None,
        f"{_A}.ppo_max_token_len_per_gpu": job.tokens or None,
        f"{_A}.ppo_micro_batch_size_per_gpu": None if job.tokens else job.count("plan.micro_batch"),
        **dict.fromkeys(
            (f"{_A}.{engine}.param_offload", f"{_A}.{engine}.optimizer_offload"), job.rollout.offload or None
        ),
        f"{_F}.{engine}.param_offload": job.stack.sharing.reference_on_host or None,
    }
    if not by_megatron:
        found[f"{_A}.ulysses_sequence_parallel_size"] = cp if cp > 1 else None
        found[f"{_A}.fsdp_config.fsdp_size"] = shards if job.count("plan.dp_replicate") > 1 else None
    return found | (_asynchronous_options(job) if job.ranks[1] else {})


def _asynchronous_options(job: RlJob) -> dict[str, Any]:
    """Options of the asynchronous trainer, whose engines run on separate accelerators."""
    workload, (nodes, each) = job.workload, job.nodes_of(job.ranks[1])
    batches = workload.answers / job.mini_batch
    return {
        "data.train_batch_size": None,
        "rollout.nnodes": nodes,
        "rollout.n_gpus_per_node": each,
        _ASYNC[0]: round(batches),
        "async_training.staleness_threshold": f"{workload.staleness:g}",
        "async_training.partial_rollout": workload.rollouts == "partial",
        "async_training.use_rollout_log_probs": not job.scored_by_trainer,
        f"{_R}.free_cache_engine": None,
    }


def _program(job: RlJob) -> str:
    """The start of the command that trains a job."""
    config = " --config-name ppo_megatron_trainer" if job.trainer == "megatron-core" else ""
    if job.ranks[1]:
        config = config.replace("ppo", "fully_async_ppo")
        return f"python3 -m verl.experimental.fully_async_policy.fully_async_main{config}"
    return f"python3 -m verl.trainer.main_ppo{config}"


FORMAT = RlFormat(
    name="verl",
    title="configuration of verl",
    version="verl 0.8",
    table=_TABLE,
    marks=re.compile(r"\bactor_rollout_ref\b|\bverl\.(?:trainer|experimental|recipe)\b"),
    program=re.compile(r"\bverl\.\S*main\w*|\bmain_(?:ppo|dapo)\b|\brecipe\.\S*main\w*|\bfully_async_main\b"),
    built_in={
        **{name: {} for name in ("ppo_trainer", "_generated_ppo_trainer", "dapo_trainer")},
        **dict.fromkeys(
            ("ppo_megatron_trainer", "_generated_ppo_megatron_trainer", "dapo_megatron_trainer"), _MEGATRON
        ),
        "fully_async_ppo_trainer": _APART,
        "fully_async_ppo_megatron_trainer": {**_APART, **_MEGATRON},
    },
    follows=(
        Follows("workload.reference", f"{_A}.use_kl_loss algorithm.use_kl_in_reward", lambda *where: any(where)),
    ),
    beyond=_read_dependent_options,
    kind="Command",
    program_of=_program,
    several=_combined_options,
    cannot=not_stated(_TABLE, {
        **because("all stages have the same number of layers", "split"),
        **because("as the trainer's pipeline does it", "schedule recompute_modules"),
    }),
)  # fmt: skip
