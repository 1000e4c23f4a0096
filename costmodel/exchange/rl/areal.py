"""Reads AReaL's experiments: YAML, and overriding words such as actor.path=Qwen/Qwen3-8B."""

from __future__ import annotations

import re

from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.import_result import accelerators_of_nodes
from costmodel.exchange.option_rows import NOTHING, choice, lost, one_of, option, option_table, part, quiet, switch
from costmodel.exchange.rl.rl_format import (
    ADAPTERS,
    ENGINES,
    GRANULARITY,
    TYPES,
    Follows,
    RlFormat,
    not_stated,
    stated_if,
    tokens_of_micro_batch,
    tool_options,
)
from costmodel.exchange.training.file_facts import Layer

_TRAINERS = {"fsdp": "fsdp2", "megatron": "megatron-core", "archon": "fsdp2", "": "fsdp2"}
_AXES = {"d": "dp", "t": "tp", "p": "pp", "c": "cp", "e": "ep"}
_STRATEGY = re.compile(r"(?:([a-z]+)[.:])?((?:[dtpce]\d{1,6})+)")
_FOLDED = re.compile(r"(?:([a-z]+)[.:])?\(attn:((?:[dtpce]\d{1,6})+)\|ffn:((?:[dtpce]\d{1,6})+)\)")
_STRATEGIES = "plan.tp plan.pp plan.cp plan.cp_type plan.ep plan.etp"
_M = "actor.megatron"

_TABLE = option_table(
    option("actor.path", "model", "word"),
    part("actor.backend", _STRATEGIES, "word"),
    part("rollout.backend", "rollout_ranks plan.rollout.tp plan.rollout.colocated", "word"),
    part("allocation_mode", _STRATEGIES, "word"),
    part("cluster.n_nodes", "nodes", "count", 1),
    part("cluster.n_gpus_per_node", "accelerators", "count", 8),
    option("train_dataset.batch_size", "workload.prompts", "count", 1),
    option("train_dataset.max_length", "longest_prompt", "count"),
    option("gconfig.n_samples", "workload.samples", "count", 1),
    option("gconfig.max_new_tokens", "workload.response.limit", "count", 16384),
    option("total_train_steps", "workload.iterations", "count"),
    option("actor.ppo_n_minibatches", "mini_batches", "count", 4),
    part("rollout.max_head_offpolicyness", "workload.staleness workload.rollouts", "count", 0),
    part("actor.recompute_logprob", "workload.old_log_probabilities", "flag", False),
    part("actor.use_decoupled_loss", "workload.old_log_probabilities", "flag", False),
    part("actor.prox_logp_method", "workload.old_log_probabilities", "word", "recompute"),
    part("actor.kl_ctl", "workload.reference", "figure", 0.1),
    part("ref.path", "workload.reference", "word"),
    part("critic.path", "workload.algorithm", "word"),
    part("dynamic_bs", "workload.algorithm", "flag", False),
    part("actor.mb_spec.max_tokens_per_mb", "plan.micro_batch", "count"),
    option("actor.dtype", "workload.precision", TYPES, "bfloat16"),
    option("actor.gradient_checkpointing", "plan.recompute", switch("full", "none"), False),
    option("actor.fsdp.offload_params", "plan.offload", switch(["optimizer", "parameters"], NOTHING), False),
    option("actor.optimizer.type", "workload.optimizer", choice({"adam": "adamw", "adamw": "adamw", "sgd": "sgd"}),
           "adam"),
    part("actor.megatron.recompute_granularity", "plan.recompute", GRANULARITY, "full"),
    part("actor.megatron.recompute_method", "plan.recompute_method", one_of("uniform", "block"), "uniform"),
    part("actor.megatron.recompute_num_layers", "plan.recompute_layers", "count", 1),
    part("actor.megatron.virtual_pipeline_parallel_size", "plan.vpp", "count", 1),
    part("actor.megatron.ddp.use_distributed_optimizer", "plan.zero", switch(1, 0), True),
    part("enable_offload", "plan.rollout.offload", "flag", False),
    part("actor.offload", "plan.rollout.offload", "flag", False),
    part("sglang.mem_fraction_static", "plan.rollout.memory", "share", 0.9),
    part("vllm.gpu_memory_utilization", "plan.rollout.memory", "share", 0.9),
    part("sglang.max_running_requests", "stack.rollout.sequences", "count"),
    part("vllm.max_num_seqs", "stack.rollout.sequences", "count"),
    part("sglang.disable_radix_cache", "stack.rollout.prefix_cache", "flag", True),
    part("vllm.no_enable_prefix_caching", "stack.rollout.prefix_cache", "flag", True),
    lost("not expressible", ADAPTERS, "actor.use_lora rollout.use_lora"),
    lost("approximated", "engines without graphs: here with them", "sglang.disable_cuda_graph vllm.enforce_eager"),
    lost("approximated", "answers that begin alike are computed once", "actor.enable_tree_training"),
    lost("not expressible", "a layer's experts in eight bits", f"{_M}.fp8_config.mode actor.archon.fp8.mode"),
    lost("not expressible", "a teacher beside the policy", "teacher.path"),
    tool_options("workflow.max_turns env_service agent_run_args max_turns", 1, "1"),
    lost("approximated", "weights of another type in engines",
         "sglang.kv_cache_dtype sglang.torchao_config vllm.kv_cache_dtype", "auto", ""),
    lost("not expressible", "weights of engines on the host",
         "sglang.cpu_offload_gb vllm.cpu_offload_gb", 0, "0"),
    lost("approximated", "the shape of the batch in engines", "sglang.dp_size sglang.ep_size", 1, "1"),
    quiet("experiment_name trial_name seed total_train_epochs total_train_n_seqs tokenizer_path cluster.* scheduler.* "
          "eval_gconfig.* ref.* critic.* teacher.* train_dataset.* valid_dataset.* saver.* recover.* evaluator.* "
          "stats_logger.* perf_tracer.* memory_profiler.* launcher.* async_training reward_fn workflow workflow.* "
          "eval_workflow actor.scheduling_spec actor.scheduling_spec.* rollout.scheduling_spec rollout.agent.*"),
    quiet("experiment_name trial_name attn_impl use_kernels init_from_scratch is_critic temperature mb_spec.* "
          "pad_to_maximum disable_dropout grad_reduce_dtype optimizer.* weight_update_mode fsdp.* archon.* lora_rank "
          "lora_alpha target_modules peft_type _version admin_api_key log_level request_timeout setup_timeout "
          "scheduling_strategy.* eps_clip eps_clip_higher c_clip m2_threshold reward_norm.* reward_scaling reward_bias "
          "reward_clip overlong_reward_penalty overlong_tokens overlong_penalty_factor mask_no_eos_with_zero discount "
          "gae_lambda adv_norm.* kl_estimator use_sapo_loss sapo_tau_pos sapo_tau_neg rejection_sampling.* "
          "importance_sampling_level log_agent_stats log_agent_stats_keys max_new_tokens group_size "
          "group_reward_norm behav_imp_weight_cap behave_imp_weight_cap", "actor."),
    quiet("wrap_with_ddp use_torch_fsdp2 use_custom_fsdp ddp.* overlap_param_gather_with_optimizer_step "
          "use_precision_aware_optimizer main_grads_dtype main_params_dtype exp_avg_dtype exp_avg_sq_dtype async_save "
          "use_checkpoint_opt_param_scheduler use_deterministic_algorithms distribute_saved_activations "
          "recompute_modules moe_router_dtype moe_shared_expert_overlap moe_enable_deepep moe_token_dispatcher_type "
          "moe_permute_fusion fp8_config.* bridge_type use_mbridge_save", f"{_M}."),
    quiet("experiment_name trial_name fileroot max_concurrent_rollouts queue_size consumer_batch_size "
          "enable_rollout_tracing check_trajectory_format tokenizer_path dump_to_file setup_timeout request_timeout "
          "request_retries pause_grace_period scheduling_strategy.* return_routed_experts _version model "
          "routing_strategy poll_interval admin_api_key api_url provider_api_key schedule_policy", "rollout."),
    quiet("min_new_tokens max_tokens greedy top_p top_k temperature stop_token_ids ignore_eos skip_special_tokens stop "
          "frequency_penalty lora_name use_beam_search", "gconfig."),
    quiet("model seed skip_tokenizer_init dtype distributed_executor_backend block_size disable_sliding_window "
          "max_model_len no_enable_chunked_prefill worker_extension_cls enable_sleep_mode uvicorn_log_level "
          "enable_lora max_lora_rank max_loras lora_modules", "vllm."),
    quiet("model_path random_seed skip_tokenizer_init disable_cuda_graph_padding enable_nccl_nvls "
          "disable_outlines_disk_cache disable_custom_all_reduce disable_overlap_schedule enable_mixed_chunk "
          "enable_dp_attention enable_ep_moe enable_torch_compile torch_compile_max_bs cuda_graph_max_bs cuda_graph_bs "
          "enable_nan_detection enable_p2p_check triton_attention_reduce_in_fp32 triton_attention_num_kv_splits "
          "num_continuous_decode_steps enable_memory_saver allow_auto_truncate attention_backend enable_multimodal "
          "sampling_backend context_length chunked_prefill_size max_prefill_tokens schedule_policy "
          "schedule_conservativeness dtype enable_lora max_lora_rank max_loaded_loras lora_paths lora_backend "
          "log_level log_level_http log_requests log_requests_level show_time_cost enable_metrics decode_log_interval "
          "enable_multithread_load enable_return_routed_experts", "sglang."),
)  # fmt: skip


def _read_dependent_options(keys: ForeignKeys, layer: Layer) -> None:
    """Adds to `layer`, the facts of the file, what the table of options does not express: staleness, batches."""
    refers = (keys["actor.kl_ctl"].value or 0) > 0 and keys.under("ref")
    stated_if(keys, layer, "workload.reference", refers, "actor.kl_ctl", "ref.path")
    age = keys["rollout.max_head_offpolicyness"]
    if age.value:
        layer.fill("workload.staleness", age)
        text = "answers continue with new weights"
        layer.facts["workload.rollouts"] = keys.derived("partial", text, "rollout.max_head_offpolicyness")
    trained, engine = _allocation(keys, layer)
    if keys["actor.mb_spec.max_tokens_per_mb"].value:
        layer.fill(
            "plan.micro_batch", tokens_of_micro_batch(keys["actor.mb_spec.max_tokens_per_mb"], trained.get("cp", 1))
        )
    if layer.facts["stack.trainer"].value == "megatron-core":
        _read_megatron(keys, layer)
    _read_engine(keys, layer, engine)
    if "rollout_ranks" in layer.facts:
        for facts in (layer.facts, layer.weak):
            facts.pop("plan.rollout.offload", None)


def _allocation(keys: ForeignKeys, layer: Layer) -> tuple[dict[str, int], str]:
    """The trainer's degrees and the engine, from one key each or from the older combined key."""
    older = str(keys["allocation_mode"].value or "")
    texts = [str(keys[f"{part}.backend"].value or "") for part in ("rollout", "actor")]
    names = ["rollout.backend", "actor.backend"]
    if older and not any(texts):
        texts = [*older.partition("+")[::2]] if "+" in older else ["", older.partition("|")[0]]
        texts = [*reversed(older.split("|")[:2])] if "|" in older and "(" not in older else texts
        names = ["allocation_mode", "allocation_mode"]
    (engine, made), (trainer, trained) = (_degrees(keys, text, name) for text, name in zip(texts, names, strict=True))
    layer.facts["stack.trainer"] = keys.derived(_TRAINERS.get(trainer, "fsdp2"), trainer or "FSDP", names[1])
    if trainer == "archon":
        keys.lose("approximated", "Archon, another trainer over FSDP 2", names[1])
    for axis in ("tp", "pp", "cp", "ep", "etp"):
        if trained.get(axis, 1) > 1 or axis == "tp":
            layer.facts[f"plan.{axis}"] = keys.derived(trained.get(axis, 1), texts[1] or "left out", names[1])
    if trained.get("cp", 1) > 1 and _TRAINERS.get(trainer) == "fsdp2":
        layer.facts["plan.cp_type"] = keys.derived("a2a", "Ulysses", names[1])
    if made.get("pp", 1) > 1:
        keys.lose("not expressible", "engines of several stages", names[0])
    layer.facts["plan.rollout.tp"] = keys.derived(made.get("tp", 1), texts[0] or "left out", names[0])
    ranks = [part.get("dp", 1) * part.get("tp", 1) * part.get("pp", 1) * part.get("cp", 1) for part in (trained, made)]
    whole = accelerators_of_nodes(keys["cluster.n_gpus_per_node"], keys["cluster.n_nodes"], "cluster")
    if trained and made and "|" not in older:
        if keys.given("cluster.n_nodes") and whole["accelerators"].value != sum(ranks):
            sentence = f"{whole['accelerators'].value} accelerators, of which the strategies have {sum(ranks)}"
            keys.lose("approximated", sentence, "cluster.n_nodes")
        layer.facts["trainer_ranks"] = keys.derived(ranks[0], texts[1], names[1])
        layer.facts["rollout_ranks"] = keys.derived(ranks[1], texts[0], names[0])
    else:
        for path, value in whole.items():
            layer.fill(path, value)
    return trained, engine


def _degrees(keys: ForeignKeys, text: str, name: str) -> tuple[str, dict[str, int]]:
    """The software and the degrees of a strategy such as fsdp:d4t2, which may give experts their own degrees."""
    if not text:
        return "", {}
    if folded := _FOLDED.fullmatch(text):
        dense, experts = (_degrees_of_text(part) for part in folded.groups()[1:])
        return folded[1] or "", {**dense, "ep": experts.get("ep", 1), "etp": experts.get("tp", 1)}
    if plain := _STRATEGY.fullmatch(text):
        return plain[1] or "", _degrees_of_text(plain[2])
    keys.refuse("X005", f"{name} {text[:60]} is no strategy such as fsdp:d4p1t2", name)
    return "", {}


def _degrees_of_text(text: str) -> dict[str, int]:
    """The degrees in a text such as d4t2, by name."""
    return {_AXES[letter]: int(number) for letter, number in re.findall(r"([dtpce])(\d+)", text)}


def _read_megatron(keys: ForeignKeys, layer: Layer) -> None:
    """Adds recompute, sharding and pipeline chunks of the Megatron trainer to `layer`, the facts of the file."""
    mode = keys["actor.megatron.recompute_granularity"]
    on = keys["actor.gradient_checkpointing"].value == "full"
    layer.fill("plan.recompute", mode if on else mode._replace(value="none"))
    if on and mode.value == "full":
        layer.fill("plan.recompute_method", keys["actor.megatron.recompute_method"])
        layer.fill("plan.recompute_layers", keys["actor.megatron.recompute_num_layers"])
    layer.fill("plan.zero", keys["actor.megatron.ddp.use_distributed_optimizer"])
    if (keys["actor.megatron.virtual_pipeline_parallel_size"].value or 1) > 1:
        layer.fill("plan.vpp", keys["actor.megatron.virtual_pipeline_parallel_size"])


def _read_engine(keys: ForeignKeys, layer: Layer, engine: str) -> None:
    """Adds the rollout engine with its memory share and batch limit to `layer`, the facts of the file."""
    name = engine if engine in ENGINES else "sglang"
    if engine and engine not in ENGINES:
        keys.refuse("X003", f"rollout.backend {engine[:40]}: no document describes it", "rollout.backend")
    layer.facts["stack.rollout"] = keys.derived(ENGINES[name], engine or "left out", "rollout.backend")
    memory, many, cache = {
        "sglang": ("mem_fraction_static", "max_running_requests", "disable_radix_cache"),
        "vllm": ("gpu_memory_utilization", "max_num_seqs", "no_enable_prefix_caching"),
    }[name]
    layer.fill("plan.rollout.memory", keys[f"{name}.{memory}"])
    if keys.given(f"{name}.{many}"):
        layer.fill("stack.rollout.sequences", keys[f"{name}.{many}"])
    off = keys[f"{name}.{cache}"]
    if off.value:
        layer.fill("stack.rollout.prefix_cache", off._replace(value=False))


FORMAT = RlFormat(
    name="areal",
    title="configuration of AReaL",
    version="AReaL 1.0",
    table=_TABLE,
    marks=re.compile(r"\bmax_head_offpolicyness\b|\bgconfig[:.]|\bareal\.\w*launcher\b"),
    program=re.compile(r"\bareal\.\S*launcher\S*|\bexamples/\S*_(?:grpo|rl|ppo)\.py\b|\bgsm8k_rl\.py\b"),
    follows=(
        Follows("workload.algorithm", "critic.path dynamic_bs",
                lambda critic, dropped: "ppo" if critic else "dapo" if dropped else "grpo"),
        Follows("workload.old_log_probabilities",
                "actor.recompute_logprob actor.use_decoupled_loss actor.prox_logp_method",
                lambda computed, decoupled, method: "trainer" if (computed or decoupled) and method != "loglinear"
                else "engine"),
        Follows("plan.rollout.offload", "enable_offload actor.offload", lambda *where: any(where)),
    ),
    beyond=_read_dependent_options,
    cannot=not_stated(_TABLE, {
        **because("engines spread experts as they serve", "rollout.ep rollout.dp_attention"),
        **because("all stages have the same number of layers", "split first_stage_layers last_stage_layers"),
        **because("as its trainers do it", "schedule recompute_modules sequence_parallel dp_replicate"),
        "workload.wave": "prompts follow one another",
        "workload.gradients": "the stack has one type of sums",
    }),
)  # fmt: skip
