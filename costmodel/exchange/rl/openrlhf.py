"""Reads and writes options of OpenRLHF (openrlhf.cli.train_ppo_ray), in the spelling with points or underscores."""

from __future__ import annotations

import re
from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.option_rows import NOTHING, choice, lost, one_of, option, option_table, part, quiet, switch
from costmodel.exchange.rl.rl_format import (
    ADAPTERS,
    UNEXPRESSED,
    Follows,
    RlFormat,
    RlJob,
    eager_option,
    fill_algorithm,
    not_stated,
    stated_if,
    tokens_of_micro_batch,
    tool_options,
)
from costmodel.exchange.serving.command_options import Spelling
from costmodel.exchange.training.file_facts import Layer

_ALGORITHMS = {"gae": "ppo", "group_norm": "grpo", "dr_grpo": "grpo", "rloo": "rloo", "reinforce": "grpo",
               "reinforce_baseline": "grpo"}  # fmt: skip
_EXACT = ("gae", "group_norm", "dr_grpo", "rloo")
_PARTS = ("actor", "ref", "reward", "critic")
_BESIDE = {"ref": "plan.beside.reference", "reward": "plan.beside.reward", "critic": "plan.beside.critic"}

# Names before options had points, with today's.
_OLDER = {
    **{f"{part}_num_{what}": f"{part}.num_{what}" for part in _PARTS for what in ("nodes", "gpus_per_node")},
    "vllm_num_engines": "vllm.num_engines", "vllm_tensor_parallel_size": "vllm.tensor_parallel_size",
    "vllm_gpu_memory_utilization": "vllm.gpu_memory_utilization", "vllm_enable_sleep": "vllm.enable_sleep",
    "deepspeed_enable_sleep": "ds.enable_sleep", "colocate_all_models": "train.colocate_all",
    "colocate_actor_ref": "train.colocate_actor_ref", "colocate_critic_reward": "train.colocate_critic_reward",
    "pretrain": "actor.model_name_or_path", "reward_pretrain": "reward.model_name_or_path",
    "critic_pretrain": "critic.model_name_or_path", "remote_rm_url": "reward.remote_url",
    "micro_train_batch_size": "train.micro_batch_size", "train_batch_size": "train.batch_size",
    "rollout_batch_size": "rollout.batch_size", "n_samples_per_prompt": "rollout.n_samples_per_prompt",
    "max_epochs": "train.max_epochs", "zero_stage": "ds.zero_stage", "adam_offload": "ds.adam_offload",
    "gradient_checkpointing": "actor.gradient_checkpointing_enable", "init_kl_coef": "algo.kl.init_coef",
    "advantage_estimator": "algo.advantage.estimator", "dynamic_filtering": "algo.dynamic_filtering_enable",
    "use_dynamic_batch": "train.dynamic_batch_enable", "train_max_tokens_per_gpu": "train.max_tokens_per_gpu",
    "ring_attn_size": "ds.ring_attn_size", "ds_tensor_parallel_size": "ds.tensor_parallel_size",
    "async_train": "train.async_enable", "async_queue_size": "train.async_queue_size",
    "partial_rollout": "train.partial_rollout_enable", "agent_func_path": "train.agent_func_path",
    "lora_rank": "ds.lora.rank", "load_in_4bit": "ds.load_in_4bit", "packing_samples": "ds.packing_samples",
    "enforce_eager": "vllm.enforce_eager", "enable_prefix_caching": "vllm.enable_prefix_caching",
    "param_dtype": "ds.param_dtype", "ref_reward_offload": "ref.offload",
}  # fmt: skip

_TABLE = option_table(
    [option(old, old=today) for old, today in _OLDER.items()],
    option("actor.model_name_or_path", "model", "word"),
    option("rollout.batch_size", "workload.prompts", "count", 1024),
    option("rollout.n_samples_per_prompt", "workload.samples", "count", 1),
    option("train.batch_size", "workload.mini_batch", "count", 128),
    option("train.max_epochs", "workload.epochs", "count", 1),
    part("algo.advantage.estimator", "workload.algorithm", choice(_ALGORITHMS, UNEXPRESSED), "gae"),
    part("algo.dynamic_filtering_enable", "workload.algorithm", "flag", False),
    part("algo.kl.init_coef", "workload.reference", "figure", 0.01),
    part("reward.model_name_or_path", "workload.reward", "word"),
    part("reward.remote_url", "workload.reward", "word"),
    part("data.max_len", "longest", "count", 2048),
    part("max_len", "longest", "count"),
    option("prompt_max_len", "longest_prompt", "count"),
    part("rollout.max_new_tokens", "workload.response.limit", "count"),
    part("generate_max_len", "workload.response.limit", "count"),
    part("train.async_enable", "workload.staleness", "flag", False),
    option("train.async_queue_size", "workload.staleness", "count", 1, beside=("train.async_enable", True)),
    part("train.partial_rollout_enable", "workload.rollouts", "flag", False),
    part("train.micro_batch_size", "plan.micro_batch", "count", 1),
    part("train.dynamic_batch_enable", "plan.micro_batch", "flag", False),
    part("train.max_tokens_per_gpu", "plan.micro_batch", "count", 16192),
    [part(f"{each}.num_{what}", _BESIDE.get(each, key), "count", default) for each in _PARTS for what, key, default in (
        ("nodes", "nodes", 1), ("gpus_per_node", "accelerators", 8))],
    part("vllm.num_engines", "engines", "count"),
    option("vllm.tensor_parallel_size", "plan.rollout.tp", "count", 1),
    part("train.colocate_all", "plan.rollout.colocated", "flag", False),
    option("vllm.gpu_memory_utilization", "plan.rollout.memory", "share", 0.95),
    part("vllm.enable_sleep", "stack.sharing.sleeps", "flag", False),
    part("ds.enable_sleep", "plan.rollout.offload", "flag", False),
    option("ds.zero_stage", "plan.zero", "count", 2),
    option("ds.tensor_parallel_size", "plan.tp", "count", 1),
    option("ds.ring_attn_size", "plan.cp", "count", 1),
    option("actor.gradient_checkpointing_enable", "plan.recompute", switch("full", "none"), False),
    option("ds.adam_offload", "plan.offload", switch(["optimizer"], NOTHING), False),
    option("ds.param_dtype", "workload.precision", one_of("bf16", "fp16"), "bf16"),
    part("bf16", "workload.precision", "flag", False),
    option("actor.optim", "workload.optimizer", choice({"adam": "adamw"}), "adam"),
    eager_option("vllm.enforce_eager"),
    part("train.colocate_actor_ref", "plan.beside.reference", "flag", False),
    part("train.colocate_critic_reward", "plan.beside.reward", "flag", False),
    lost("not expressible", ADAPTERS, "ds.lora.rank ds.load_in_4bit", 0, "0"),
    lost("not expressible", "a part of the model is frozen", "actor.freeze_visual_encoder"),
    lost("approximated", "prompts of several steps under way", "rollout.vllm_generate_batch_size"),
    part("ref.offload", "stack.sharing.reference_on_host", "flag", False),
    lost("approximated", "the reward model is on the host between passes: here it stays", "reward.offload"),
    lost("approximated", "weights averaged over steps, one more copy", "train.enable_ema enable_ema"),
    lost("approximated", "kernels are replaced or compiled", "ds.use_liger_kernel use_liger_kernel ds.deepcompile"),
    lost("not expressible", "shards over a part of the ranks", "ds.zpg zpg", 1, "1"),
    part("ds.packing_samples", "stack.sharing.padded", "flag", False),
    tool_options("train.agent_func_path"),
    quiet("data.* eval.* ckpt.* logger.* vllm.sync_backend vllm.sync_with_ray vllm.enable_prefix_caching "
          "train.ema_beta train.num_episodes train.seed train.full_determinism_enable "
          "rollout.micro_batch_size rollout.top_p rollout.temperature rollout.max_tokens_per_gpu ds.use_universal_ckpt "
          "ds.attn_implementation ds.experts_implementation ds.grad_accum_dtype ds.overlap_comm ds.lora.* "
          "ds.ring_attn_head_stride ds.value_head_prefix local_rank use_ms algo.advantage.* algo.kl.* "
          "algo.dynamic_filtering_range actor.gradient_checkpointing_reentrant actor.eps_clip actor.eps_clip_low_high "
          "actor.dual_clip actor.policy_loss_type actor.aux_loss_coef actor.entropy_coef critic.value_clip "
          "critic.freezing_steps critic.save_value_network critic.model_name_or_path reward.normalize_enable "
          "reward.clip_range reward.overlong_buffer_len reward.overlong_penalty_factor "
          "reward.stop_properly_penalty_coef"),
    [row for name in ("actor", "critic") for row in quiet(
        "optim adam.* muon.* lr_scheduler lr_warmup_ratio min_lr_ratio max_norm", f"{name}.")
     if row.option != "actor.optim"],
    quiet("save_path ckpt_path save_hf_ckpt disable_ds_ckpt max_ckpt_num max_ckpt_mem load_checkpoint save_steps "
          "logging_steps eval_steps eval_dataset micro_rollout_batch_size num_episodes max_samples prompt_data "
          "prompt_data_probs prompt_split input_key label_key input_template apply_chat_template normalize_reward "
          "actor_learning_rate critic_learning_rate lr_warmup_ratio l2 max_norm adam_betas eps_clip eps_clip_low_high "
          "dual_clip value_clip lambd gamma seed temperature top_p kl_target kl_horizon kl_estimator use_kl_loss "
          "use_kl_estimator_k3 entropy_loss_coef aux_loss_coef reward_clip_range freezing_actor_steps "
          "save_value_network flash_attn "
          "attn_implementation grad_accum_dtype overlap_comm gradient_checkpointing_use_reentrant vllm_sync_backend "
          "vllm_sync_with_ray vllm_generate_batch_size rollout_max_tokens_per_gpu ring_head_stride lora_alpha "
          "lora_dropout target_modules dynamic_filtering_reward_range enable_vllm_is_correction "
          "vllm_is_truncated_threshold no_advantage_std_norm overlong_buffer_len overlong_penalty_factor use_wandb "
          "wandb_org wandb_group wandb_project wandb_run_name use_tensorboard ema_beta disable_fast_tokenizer "
          "full_determinism use_ds_universal_ckpt policy_loss_type lr_scheduler perf value_head_prefix"),
)  # fmt: skip


def _read_dependent_options(keys: ForeignKeys, layer: Layer) -> None:
    """Adds to `layer`, the facts of the file, what the table of options does not express: batches, engines."""
    fill_algorithm(keys, layer, "algo.advantage.estimator", _EXACT, "algo.dynamic_filtering_enable")
    if keys["train.async_enable"].value and keys["train.partial_rollout_enable"].value:
        layer.fill("workload.rollouts", keys["train.partial_rollout_enable"]._replace(value="partial"))
    for path, first, second in (("workload.response.limit", "rollout.max_new_tokens", "generate_max_len"),
                                ("longest", "max_len", "data.max_len")):  # fmt: skip
        layer.fill(path, keys[first if keys[first].value else second])
    cp, dynamic = keys["ds.ring_attn_size"].value or 1, keys["train.dynamic_batch_enable"].value
    if cp > 1:
        keys.lose("approximated", "ring attention: here by Ulysses", "ds.ring_attn_size")
    stated = tokens_of_micro_batch(keys["train.max_tokens_per_gpu"], cp) if dynamic else keys["train.micro_batch_size"]
    layer.fill("plan.micro_batch", stated)
    if not dynamic and not keys["ds.packing_samples"].value:
        stated_if(keys, layer, "stack.sharing.padded", True, "ds.packing_samples")
    if keys["ref.offload"].value:
        stated_if(keys, layer, "stack.sharing.reference_on_host", True, "ref.offload")
    _read_accelerators(keys, layer)


def _read_accelerators(keys: ForeignKeys, layer: Layer) -> None:
    """The accelerators of the trainer and of the engines."""
    names = [f"actor.num_{what}" for what in ("nodes", "gpus_per_node")]
    nodes, each = (keys[name] for name in names)
    trainer = keys.derived(nodes.value * each.value, "nodes × GPUs of the actor", names[1])
    engines, together = keys["vllm.num_engines"], keys["train.colocate_all"]
    if not engines.value:
        keys.refuse("X003", "vllm.num_engines is not stated: Transformers generates, which no document describes",
                    "vllm.num_engines", "--set plan.rollout.ranks=8, for example")  # fmt: skip
        return
    _read_judges(keys, layer, together=bool(together.value))
    if not together.value or keys["train.async_enable"].value:
        ranks = engines.value * (keys["vllm.tensor_parallel_size"].value or 1)
        layer.fill("trainer_ranks", trainer)
        layer.facts["rollout_ranks"] = keys.derived(ranks, "engines × tp", "vllm.num_engines")
        return
    layer.fill("accelerators", trainer)
    layer.fill("nodes", nodes)
    if not keys["vllm.enable_sleep"].value:
        layer.facts["stack.sharing.sleeps"] = keys.derived(False, "vllm.enable_sleep: left out", "train.colocate_all")
    stated_if(keys, layer, "plan.rollout.offload", bool(keys["ds.enable_sleep"].value), "ds.enable_sleep")


def _read_judges(keys: ForeignKeys, layer: Layer, *, together: bool) -> None:
    """Accelerators of the reference, critic and reward models, unless they share the trainer's or each other's."""
    for name in _PARTS[1:]:
        own = [f"{name}.num_{what}" for what in ("nodes", "gpus_per_node")]
        at = next((key for key in own if keys.given(key)), "")
        if not at or together or (name == "ref" and keys["train.colocate_actor_ref"].value):
            continue
        ranks = keys[own[0]].value * keys[own[1]].value
        if name == "reward" and keys["train.colocate_critic_reward"].value:
            keys.lose("approximated", "on the accelerators of the critic: here on those of the trainer", at)
        elif ranks:
            layer.facts[_BESIDE[name]] = keys.derived(ranks, f"nodes × GPUs of {name}", at)


def _combined_options(job: RlJob) -> dict[str, Any]:
    """Options that each combine several keys."""
    workload, (nodes, each), shared = job.workload, job.nodes_of(job.ranks[0]), not job.ranks[1]
    kinds = {"ppo": "gae", "grpo": "group_norm", "dapo": "group_norm", "rloo": "rloo"}
    engines = (job.ranks[1] or job.ranks[0]) // job.count("plan.rollout.tp")
    judged = workload.judged_by_model
    own = {name: job.nodes_of(round(ranks)) for name, path in _BESIDE.items() if (ranks := job.value(path))}
    return {
        **dict.fromkeys((*_OLDER, "data.max_len", "max_len", "prompt_max_len")),
        "algo.advantage.estimator": kinds.get(workload.algorithm),
        "algo.dynamic_filtering_enable": workload.algorithm == "dapo" or None,
        "algo.kl.init_coef": 0.01 if workload.refers else 0,
        "reward.model_name_or_path": job.checkpoint if judged else None,
        "reward.remote_url": None if judged else "reward.py",
        "rollout.max_new_tokens": round(workload.response.limit),
        "train.async_enable": True if workload.staleness else None,
        "train.partial_rollout_enable": True if workload.rollouts == "partial" else None,
        "train.dynamic_batch_enable": True if job.tokens else None,
        "train.max_tokens_per_gpu": job.tokens or None,
        "train.micro_batch_size": None if job.tokens else job.count("plan.micro_batch"),
        "ref.offload": job.stack.sharing.reference_on_host or None,
        "ds.packing_samples": None if job.stack.sharing.padded else True,
        "actor.num_nodes": nodes,
        "actor.num_gpus_per_node": each,
        **{f"{name}.num_nodes": count for name, (count, _) in own.items()},
        **{f"{name}.num_gpus_per_node": every for name, (_, every) in own.items()},
        "vllm.num_engines": engines,
        "train.colocate_all": shared or None,
        "vllm.enable_sleep": True if shared and job.stack.sharing.sleeps else None,
        "ds.enable_sleep": True if shared and job.rollout.offload else None,
    }


FORMAT = RlFormat(
    name="openrlhf",
    title="options of OpenRLHF",
    version="OpenRLHF 0.10",
    table=_TABLE,
    mark="--",
    marks=re.compile(r"\bopenrlhf\.cli\.train_ppo"),
    program=re.compile(r"\bopenrlhf\.cli\.train_ppo\w*"),
    configured=(),
    spelling=Spelling(between="_"),
    follows=(
        Follows("workload.reference", "algo.kl.init_coef", lambda coefficient: (coefficient or 0) > 0),
        Follows("workload.reward", "reward.model_name_or_path reward.remote_url",
                lambda model, remote: "model" if model and not remote else "rule"),
    ),
    beyond=_read_dependent_options,
    kind="Command",
    program_of=lambda job: "python3 -m openrlhf.cli.train_ppo_ray",
    several=_combined_options,
    cannot=not_stated(_TABLE, {
        **because("it has no stages of layers", "pp vpp schedule split first_stage_layers last_stage_layers"),
        **because("experts are whole on their ranks", "ep etp rollout.ep rollout.dp_attention"),
        **because("whole layers are recomputed, or none", "recompute_method recompute_layers recompute_modules"),
        **because("an engine's defaults", "sequence_parallel"),
        "plan.dp_replicate": "shards reach over all ranks",
        "workload.iterations": "its episodes follow from the data",
        "workload.wave": "as many as an iteration has",
        "stack.rollout": "vLLM generates",
    }),
)  # fmt: skip
