"""Reads and writes TRL's GRPOConfig and RLOOConfig: YAML, options of trl grpo, or a call in Python."""

from __future__ import annotations

import re
from typing import Any

from costmodel.documents.text.yaml_tree import Mapping as PlacedMapping
from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.option_rows import NOTHING, choice, lost, option, option_table, part, quiet, switch
from costmodel.exchange.rl.rl_format import ADAPTERS, Follows, RlFormat, RlJob, not_stated, tool_options
from costmodel.exchange.serving.command_options import Spelling
from costmodel.exchange.training.file_facts import Layer
from costmodel.exchange.training.job import FLAT
from costmodel.exchange.training.transformers import TABLE as ARGUMENTS
from costmodel.exchange.training.transformers import read_training_arguments
from costmodel.ground.errors import Fault, Place

_OTHERS = ("max_length", "max_seq_length", "model_max_length", "block_size", "activation_checkpointing",
           "gradient_checkpointing", "per_device_train_batch_size", "gradient_accumulation_steps", "packing",
           "max_steps", "use_peft", "lora_r", "load_in_4bit", "bf16")  # fmt: skip

_SHARDS = ("deepspeed", "fsdp", "fsdp_config")

_TABLE = option_table(
    [row for name, row in ARGUMENTS.items() if name not in _OTHERS],
    part("program", "workload.algorithm", "word", "grpo"),
    part("per_device_train_batch_size", "rank_mini_batch plan.micro_batch", "count", 8),
    part("gradient_accumulation_steps", "rank_mini_batch", "count", 1),
    part("generation_batch_size", "workload.prompts", "count"),
    part("steps_per_generation", "rank_answers", "count"),
    option("num_generations", "workload.samples", "count", 8),
    option("num_iterations", "workload.epochs", "count", 1),
    option("max_completion_length", "workload.response.limit", "count", 512),
    part("max_prompt_length", "longest_prompt", "count"),
    part("max_steps", "workload.iterations", "whole", -1),
    part("beta", "workload.reference", "figure", 0.0),
    part("reward_model_name_or_path", "workload.reward", "word"),
    part("bf16", "workload.precision", "flag", True),
    option("gradient_checkpointing", "plan.recompute", switch("full", "none"), True),
    part("use_vllm", "stack.rollout", "flag", False),
    part("vllm_mode", "plan.rollout.colocated", choice({"colocate": True, "server": False}), "colocate"),
    option("vllm_tensor_parallel_size", "plan.rollout.tp", "count", 1),
    option("vllm_gpu_memory_utilization", "plan.rollout.memory", "share", 0.3),
    option("vllm_enable_sleep_mode", "stack.sharing.sleeps", switch(True, NOTHING), False),
    lost("not expressible", ADAPTERS, "use_peft lora_r load_in_4bit"),
    lost("approximated", "the reference follows the policy", "sync_ref_model"),
    tool_options("max_tool_calling_iterations environment_factory tools"),
    quiet("num_generations_eval shuffle_dataset pad_to_multiple_of temperature top_p top_k min_p "
          "generation_kwargs chat_template_kwargs repetition_penalty cache_implementation vllm_model_impl "
          "vllm_structured_outputs_regex vllm_guided_decoding_regex vllm_server_base_url vllm_server_host "
          "vllm_server_port vllm_server_timeout vllm_group_port vllm_max_model_length epsilon delta epsilon_high "
          "sapo_temperature_neg sapo_temperature_pos vespo_k_pos vespo_lambda_pos vespo_k_neg vespo_lambda_neg "
          "importance_sampling_level reward_weights multi_objective_aggregation scale_rewards loss_type "
          "mask_truncated_completions ref_model_mixup_alpha ref_model_sync_steps top_entropy_quantile entropy_coef "
          "use_adaptive_entropy entropy_coef_min entropy_coef_max entropy_coef_delta entropy_target "
          "vllm_importance_sampling_correction vllm_importance_sampling_mode vllm_importance_sampling_clip_max "
          "vllm_importance_sampling_clip_min vllm_importance_sampling_cap off_policy_mask_threshold "
          "use_bias_correction_kl log_completions log_multimodal num_completions_to_print log_unique_prompts "
          "log_completions_hub_repo model_init_kwargs router_aux_loss_coef disable_dropout cast_lm_head_to_fp32 "
          "reward_funcs dtype torch_dtype torch_empty_cache_steps dataset_num_proc"),
)  # fmt: skip


def _read_dependent_options(keys: ForeignKeys, layer: Layer) -> None:
    """Adds to `layer`, the facts of the file, what the table of options does not express: batches, types, engine."""
    _batches(keys, layer)
    if (keys["max_steps"].value or -1) > 0:
        layer.fill("workload.iterations", keys["max_steps"])
    half = keys["fp16"].value and not keys.given("bf16")
    on = keys["fp16"] if half else keys["bf16"]
    layer.fill("workload.precision", on._replace(value="fp16" if half else "bf16" if on.value else "fp32"))
    _sharding_facts(keys, layer)
    _read_engine(keys, layer)


def _batches(keys: ForeignKeys, layer: Layer) -> None:
    """Answers per rank: in one optimizer step, and between two generations."""
    each, often = keys["per_device_train_batch_size"], keys["gradient_accumulation_steps"]
    layer.fill("plan.micro_batch", each)
    name = "gradient_accumulation_steps" if keys.given("gradient_accumulation_steps") else "per_device_train_batch_size"
    mini = each.value * often.value
    layer.facts["rank_mini_batch"] = keys.derived(mini, "batch of a device × accumulation", name)
    whole, steps = keys["generation_batch_size"], keys["steps_per_generation"]
    if whole.value:
        layer.fill("answers", whole)
        return
    answers = each.value * (steps.value or often.value)
    at = "steps_per_generation" if steps.value else name
    layer.facts["rank_answers"] = keys.derived(answers, "batch of a device × steps of a generation", at)


def _sharding_facts(keys: ForeignKeys, layer: Layer) -> None:
    """Sharding facts in TrainingArguments, read by the reader for transformers."""
    own = PlacedMapping({key: value for key, value in keys.tree.items() if str(key) in _SHARDS})
    own.place = getattr(keys.tree, "place", Place(keys.file))
    inner = read_training_arguments(own, keys.file)
    for facts, found in ((layer.facts, inner.facts), (layer.weak, inner.weak)):
        for path in ("stack", "plan.zero", "plan.offload"):
            if path in found:
                facts["stack.trainer" if path == "stack" else path] = found[path]
    layer.named += inner.named
    layer.faults += inner.faults
    for name in _SHARDS:
        keys[name]


def _read_engine(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the vLLM engine to `layer`, the facts of the file; a fault if Transformers generates."""
    on = keys["use_vllm"]
    if not on.value:
        place = on.place or (keys.stated[next(iter(keys.stated))][1] if keys.stated else None)
        sentence = "use_vllm is false: Transformers generates, which no document describes"
        layer.unless.append(("stack.rollout", Fault("X003", sentence, place, "--set stack.rollout=vllm counts vLLM")))
        return
    layer.fill("stack.rollout", on._replace(value="vllm-0.20"))
    if keys["vllm_mode"].value is False:
        layer.facts["engines_elsewhere"] = keys.derived(True, "vllm_mode: server", "vllm_mode")


def _combined_options(job: RlJob) -> dict[str, Any]:
    """Options that each combine several keys."""
    workload, ways = job.workload, job.ranks[0]
    each = job.count("plan.micro_batch")
    often, answers = job.mini_batch / (each * ways), workload.answers
    return {
        "program": None,
        "per_device_train_batch_size": each,
        "gradient_accumulation_steps": round(often) if often.is_integer() else None,
        "generation_batch_size": round(answers),
        "max_prompt_length": round(workload.prompt),
        "max_steps": round(workload.iterations) if workload.iterations else None,
        "beta": 0.04 if workload.refers else 0,
        "reward_model_name_or_path": job.checkpoint if workload.judged_by_model else None,
        "bf16": True if workload.precision == "bf16" else None,
        "steps_per_generation": None,
        "use_vllm": True,
        "vllm_mode": "server" if job.ranks[1] else "colocate",
        "vllm_tensor_parallel_size": job.count("plan.rollout.tp"),
    }


def _program(job: RlJob) -> str:
    """The accelerate launcher command, which states the sharding."""
    name = "rloo" if job.workload.algorithm == "rloo" else "grpo"
    shards = {"transformers-deepspeed": f" --use_deepspeed --zero_stage {job.count('plan.zero')}",
              "transformers-fsdp": " --use_fsdp"}  # fmt: skip
    started = f"--num_processes {job.ranks[0]} --num_machines {job.nodes_of(job.ranks[0])[0]}"
    return f"accelerate launch {started}{shards.get(job.trainer, '')} -m trl.scripts.{name}"


FORMAT = RlFormat(
    name="trl",
    title="GRPOConfig of TRL",
    version="TRL 1.4",
    table=_TABLE,
    mark="--",
    marks=re.compile(r"\btrl[ \t]+(?:grpo|rloo)\b|\b(?:GRPO|RLOO)Config\(|\bmax_completion_length\b"
                     r"|\bscripts/grpo\w*\.py\b|\bnum_generations\b"),
    program=re.compile(r"^(?:grpo|rloo)$|\b(?:grpo|rloo)\w*\.py$|\btrl\.scripts\.(?:grpo|rloo)\b"),
    spelling=Spelling(between="_", negated=True),
    follows=(
        Follows("workload.algorithm", "program", lambda name: "rloo" if "rloo" in (name or "") else "grpo"),
        Follows("workload.reference", "beta", bool),
        Follows("workload.reward", "reward_model_name_or_path", lambda model: "model" if model else "rule"),
    ),
    beyond=_read_dependent_options,
    kind="Command",
    program_of=_program,
    several=_combined_options,
    cannot=not_stated(_TABLE, {
        **FLAT,
        **because("it cuts no sequence and no matrix", "tp cp cp_type ep etp sequence_parallel"),
        **because("as many as are launched", "dp"),
        **because("engines have one degree", "rollout.ep rollout.dp_attention"),
        **because("a program outside of it serves them", "rollout.ranks"),
        **because("states of training stay", "rollout.offload"),
        **because("whole layers are recomputed, or none", "recompute_method recompute_layers recompute_modules"),
        **because("a configuration of accelerate states it", "offload offload_to offload_layers dp_replicate"),
        **because("training and generation take turns", "staleness rollouts", "workload"),
        "workload.wave": "no prompt is drawn again",
        "workload.gradients": "the stack has one type of sums",
    }),
)  # fmt: skip
