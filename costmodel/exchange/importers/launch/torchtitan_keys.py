"""Keys of torchtitan in its three generations, and its models by the names of the library."""

from __future__ import annotations

from costmodel.exchange.values.foreign_keys import ForeignKey, KeyKind, lost, quiet

VERSION = "torchtitan 0.3.0"
VERSION_OF_TOML = "torchtitan 0.2.0"
GENERATIONS = {
    "toml": "TOML of torchtitan, until 2026-02-23 (9810191bb)",
    "flags": "flags of torchtitan 0.3.0",
    "recipe": "a recipe of torchtitan 0.3.0 in Python",
    "tokens": "a recipe of torchtitan in Python, since 2026-08-20 (73aed7f6c)",
}

_P, _T = "parallelism", "training"
SCHEDULES = {
    "1f1b": "1f1b", "gpipe": "gpipe", "interleaved1f1b": "interleaved", "loopedbfs": "looped-bfs",
    "zbvzerobubble": "zb-v", "dualpipev": "dualpipev",
}  # fmt: skip
EXCHANGES = {"allgather": "all-gather", "alltoall": "p2p"}
SEVERAL_STAGES = ("interleaved", "looped-bfs", "zb-v", "dualpipev")
# Flavors of torchtitan 0.2.0, which an export writes, and those that came or went around it.
MODELS = {
    ("llama3", "8B"): "llama-3.1-8b", ("llama3", "70B"): "llama-3.1-70b", ("llama3", "405B"): "llama-3.1-405b",
    ("deepseek_v3", "671B"): "deepseek-v3", ("qwen3", "0.6B"): "qwen-3-0.6b", ("qwen3", "1.7B"): "qwen-3-1.7b",
    ("qwen3", "4B"): "qwen-3-4b", ("qwen3", "8B"): "qwen-3-8b", ("qwen3", "14B"): "qwen-3-14b",
    ("qwen3", "32B"): "qwen-3-32b", ("qwen3", "30B-A3B"): "qwen-3-30b-a3b", ("qwen3", "235B-A22B"): "qwen-3-235b-a22b",
}  # fmt: skip
EVERY_MODEL = MODELS | {
    ("llama2", "7B"): "llama-2-7b", ("llama2", "13B"): "llama-2-13b", ("llama2", "70B"): "llama-2-70b",
    ("llama3", "1B"): "llama-3.2-1b", ("llama3", "3B"): "llama-3.2-3b",
    ("gpt_oss", "20b"): "gpt-oss-20b", ("gpt_oss", "120b"): "gpt-oss-120b",
    ("llama4", "17bx16e_irope"): "llama-4-scout", ("llama4", "17bx128e_irope"): "llama-4-maverick",
}  # fmt: skip

# Degrees before 2025-02, when they moved to a section of their own.
OLDER = {
    _T: ("tensor_parallel_degree", "data_parallel_shard_degree", "data_parallel_replicate_degree"),
    "experimental": (
        "pipeline_parallel_degree", "pipeline_parallel_schedule", "pipeline_parallel_microbatches",
        "context_parallel_degree",
    ),
}  # fmt: skip
TODAYS: dict[str, tuple[KeyKind, str]] = {
    "tensor_parallel_degree": ("count", "plan.tp"),
    "data_parallel_shard_degree": ("whole", "plan.dp"),
    "data_parallel_replicate_degree": ("count", "plan.dp_replicate"),
    "pipeline_parallel_degree": ("count", "plan.pp"),
    "pipeline_parallel_schedule": ("word", "plan.schedule"),
    "pipeline_parallel_microbatches": ("count", "plan.micro_batch"),
    "context_parallel_degree": ("count", "plan.cp"),
}

TABLE: dict[str, ForeignKey] = {
    "config": ForeignKey("word", "model"),
    "model.name": ForeignKey("word", "model"),
    "model.flavor": ForeignKey("word", "model"),
    "model.converters": ForeignKey("text", "workload.precision"),
    f"{_T}.seq_len": ForeignKey("count", "workload.sequence", 2048),
    f"{_T}.max_context_length": ForeignKey("count", "workload.sequence", 2048),
    f"{_T}.data_parallel_degree": ForeignKey("whole", "plan.dp", old=f"{_P}.data_parallel_shard_degree"),
    f"{_T}.batch_size": ForeignKey("count", "plan.micro_batch", old="training.local_batch_size"),
    f"{_T}.local_batch_size": ForeignKey("count", "plan.micro_batch", 8),
    f"{_T}.global_batch_size": ForeignKey("whole", "workload.global_batch", -1),
    f"{_T}.num_tokens_per_microbatch_per_dp_rank": ForeignKey("count", "plan.micro_batch", 16384),
    f"{_T}.num_tokens_per_train_step": ForeignKey("whole", "workload.global_batch", -1),
    f"{_T}.steps": ForeignKey("count", "workload.tokens", 10000),
    f"{_T}.enable_cpu_offload": ForeignKey("flag", "plan.offload", False),
    f"{_T}.dtype": ForeignKey("word", "workload.precision", "float32", ("float32", "bfloat16")),
    f"{_T}.mixed_precision_param": ForeignKey("word", "workload.precision", "bfloat16", ("bfloat16", "float32")),
    f"{_T}.mixed_precision_reduce": ForeignKey("word", "workload.gradients", "float32", ("float32",)),
    f"{_P}.data_parallel_replicate_degree": ForeignKey("count", "plan.dp_replicate", 1),
    f"{_P}.data_parallel_shard_degree": ForeignKey("whole", "plan.dp", -1),
    f"{_P}.fsdp_reshard_after_forward": ForeignKey("word", "plan.zero", "default", ("default", "always", "never")),
    f"{_P}.tensor_parallel_degree": ForeignKey("count", "plan.tp", 1),
    f"{_P}.enable_sequence_parallel": ForeignKey("flag", "plan.sequence_parallel", True),
    f"{_P}.pipeline_parallel_degree": ForeignKey("count", "plan.pp", 1),
    f"{_P}.pipeline_parallel_schedule": ForeignKey("word", "plan.schedule", "1F1B"),
    f"{_P}.pipeline_parallel_layers_per_stage": ForeignKey("count", "plan.vpp"),
    f"{_P}.pipeline_parallel_first_stage_less_layers": ForeignKey("count", "plan.split", 1),
    f"{_P}.pipeline_parallel_last_stage_less_layers": ForeignKey("count", "plan.split", 1),
    f"{_P}.pipeline_parallel_microbatch_size": ForeignKey("count", "plan.micro_batch", 1),
    f"{_P}.num_pp_microbatches": ForeignKey("count", "plan.micro_batch", 1),
    f"{_P}.context_parallel_degree": ForeignKey("count", "plan.cp", 1),
    f"{_P}.context_parallel_rotate_method": ForeignKey("word", "plan.cp_type", "allgather", tuple(EXCHANGES)),
    f"{_P}.expert_parallel_degree": ForeignKey("count", "plan.ep", 1),
    f"{_P}.expert_tensor_parallel_degree": ForeignKey("count", "plan.etp", 1),
    f"{_P}.pipeline_parallel_microbatches": ForeignKey("count", "plan.micro_batch"),
    f"{_T}.data_parallel_type": ForeignKey("word", "plan.zero", "fsdp", ("fsdp", "ddp")),
    "activation_checkpoint": ForeignKey("text", "plan.recompute", "SelectiveAC"),
    "activation_checkpoint.mode": ForeignKey("word", "plan.recompute", "selective"),
    "activation_checkpoint.selective_ac_option": ForeignKey("word", "plan.recompute", "op"),
    "optimizer.name": ForeignKey("word", "workload.optimizer", "AdamW", ("AdamW", "Adam")),
    "quantize.linear.float8.recipe_name": ForeignKey("word", "workload.precision"),
    "float8.recipe_name": ForeignKey("word", "workload.precision", old="quantize.linear.float8.recipe_name"),
    "float8.enable_float8_linear": ForeignKey("flag", "workload.precision", old="model.converters"),
    f"{_T}.enable_float8_linear": ForeignKey("flag", "workload.precision", old="model.converters"),
    f"{_T}.fp8_linear": ForeignKey("text", "workload.precision", old="model.converters"),
    **{f"{old}.{name}": ForeignKey(*TODAYS[name], old=f"{_P}.{name}")
       for old, names in OLDER.items() for name in names},
    **lost("approximated", "tensor parallelism hides behind matmuls: assume.overlap.tp states how much",
           f"{_P}.enable_async_tensor_parallel experimental.enable_async_tensor_parallel "
           "compile.enable_async_tensor_parallel"),
    **lost("not expressible", "stages by the names of their modules", f"{_P}.module_fqns_per_model_part "
           f"{_P}.pipeline_parallel_split_points experimental.pipeline_parallel_split_points "
           f"{_P}.pipeline_parallel_schedule_csv", "", []),
    **lost("not expressible", "gradients are freed step by step in backward", "optimizer.early_step_in_backward"),
    **lost("not expressible", "experts in a narrow type", "quantize.grouped_mm"),
    "compile.enable": ForeignKey("flag", "stack"),
    **lost("approximated", "compiled in parts or not", "compile.components"),
    **quiet("job profiling metrics lr_scheduler checkpoint comm fault_tolerance validation validator debug "
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
    **quiet(" ".join(f"{_T}.{name}" for name in ("max_norm", "gc_freq", "gc_debug", "dataset", "dataset_path", "seed",
            "deterministic", "disable_cuda_graphs", "debug_moe_force_load_balance", "compile", "warmup_steps",
            "enable_fsdp_float8_all_gather", "precompute_float8_dynamic_scale_for_fsdp"))),
    **quiet(" ".join(f"{_P}.{name}" for name in ("context_parallel_load_balancer", "enable_compiled_autograd",
            "disable_loss_parallel", "spmd_backend", "enable_fsdp_symm_mem", "context_parallel_ptrr_mask_key",
            "expert_parallel_comm_backend", "pipeline_parallel_expert_parallel_overlap"))),
    **quiet(" ".join(f"activation_checkpoint.{name}" for name in ("per_op_sac_force_recompute_mm_shapes_by_fqns",
            "early_stop", "preserve_rng_state", "determinism_check", "debug", "memory_budget",
            "visualize_memory_budget_pareto"))),
}  # fmt: skip

# What stood for other values in the TOML: half of the layers were recomputed, where nothing else was stated.
OF_TOML: dict[str, ForeignKey] = {
    "activation_checkpoint.selective_ac_option": ForeignKey("word", "plan.recompute", "2"),
}
