"""Names that other tools and papers use for keys of a scenario, with the conversion if their units differ.

The hint of an unknown key and of an unknown choice comes from here, in YAML and on the command line alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from costmodel.ground.record import record

_NO_EFFECT = "no cost is counted for it; leave it out"
_ON_HOST = (
    "weights in memory of the host are not modelled; experts are: plan.host_experts: 90 % of the routed ones, or write "
    "a type of GGUF that fits, such as workload.weights: q4_k_m"
)
_HOSTED = "the share of the routed experts that the host keeps and computes, by SGLang with KTransformers"
_BATCHES = "global_batch is the sequences of a whole step, micro_batch those of one forward pass of one replica"
_ACCUMULATED = "micro_batch × dp × accumulation steps are the global batch"
_NODES = "nodes are the GPUs over those of a node: 32 GPUs are 4 nodes of 8"
_LORA = "write tuning: {method: lora, rank: 16}, or method: qlora"
_TOKENS = "tokens are steps × global_batch × sequence"


def _all(words: str, meaning: str) -> dict[str, str]:
    """The same meaning for each of several words."""
    return dict.fromkeys(words.split(), meaning)


@record
class Meant:
    """The scenario keys that another tool's key may stand for, best first, and a note on how to convert it."""

    keys: tuple[str, ...]
    note: str = ""


# Words that mean the same, the keys they stand for, and a conversion where they do not count alike.
_WORDS: tuple[tuple[str, str, str], ...] = (
    ("batch_size batch bs bsz", "workload.global_batch plan.micro_batch", _BATCHES),
    ("gbs global_batch_size train_batch_size total_batch_size effective_batch_size", "workload.global_batch", ""),
    (
        "mbs micro_batch_size microbatch microbatch_size per_device_train_batch_size per_device_batch_size "
        "train_micro_batch_size_per_gpu micro_batch_size_per_gpu local_batch_size device_batch_size",
        "plan.micro_batch",
        "",
    ),
    (
        "gradient_accumulation_steps gradient_accumulation grad_accum grad_accumulation gas accumulate_grad_batches "
        "num_microbatches micro_batches",
        "workload.global_batch",
        _ACCUMULATED,
    ),
    (
        "seq_len seq_length seqlen seq sequence_length max_seq_len max_seq_length max_length model_max_length "
        "context_length context_len context ctx_len block_size cutoff_len n_ctx",
        "workload.sequence",
        "",
    ),
    ("gpus gpu_count num_gpus n_gpus ngpus world_size devices num_devices ranks", "cluster.nodes", _NODES),
    ("num_nodes nnodes n_nodes node_count num_hosts node.count nodes.count num_machines", "cluster.nodes", ""),
    (
        "gpus_per_node nproc_per_node num_gpus_per_node devices_per_node accelerators_per_node",
        "cluster.node.accelerators",
        "",
    ),
    (
        "gpu gpu_type device device_type hardware instance instance_type machine machine_type",
        "cluster.node cluster.accelerator",
        "costmodel list hardware shows them",
    ),
    ("network interconnect network_bandwidth inter_node_bandwidth", "cluster.fabric.bandwidth", ""),
    ("nvlink nvlink_bandwidth intra_node_bandwidth", "cluster.node.scale_up.fabric.bandwidth", ""),
    ("gpu_memory vram gpu_mem hbm", "cluster.accelerator.memory.usable", ""),
    ("fsdp sharding_strategy fully_shard full_shard", "plan.zero", "FSDP is stack: fsdp2, which shards as zero: 3"),
    ("zero_stage zero_optimization stage zero3 zero_3 zero2 zero1 deepspeed_stage", "plan.zero", ""),
    ("distributed_optimizer use_distributed_optimizer", "plan.zero", "the distributed optimizer is zero: 1"),
    (
        "tensor_parallel tensor_parallel_size tensor_parallel_degree tensor_model_parallel_size tp_size tp_degree mp "
        "model_parallel model_parallel_size",
        "plan.tp",
        "",
    ),
    (
        "pipeline_parallel pipeline_parallel_size pipeline_parallel_degree pipeline_model_parallel_size pp_size "
        "pp_degree pipeline_stages num_stages",
        "plan.pp",
        "",
    ),
    (
        "data_parallel data_parallel_size data_parallel_degree dp_size dp_degree data_parallel_shard_degree",
        "plan.dp",
        "left out, dp follows from the rest",
    ),
    ("data_parallel_replicate_degree hsdp", "plan.dp_replicate", ""),
    (
        "context_parallel context_parallel_size context_parallel_degree cp_size cp_degree ring_attention ulysses "
        "sequence_parallel_size sp_size",
        "plan.cp plan.cp_type",
        "",
    ),
    ("sp", "plan.sequence_parallel", ""),
    ("expert_parallel expert_parallel_size expert_model_parallel_size expert_parallel_degree ep_size", "plan.ep", ""),
    ("expert_tensor_parallel_size etp_size", "plan.etp", ""),
    ("virtual_pipeline_model_parallel_size virtual_pipeline_parallel_size interleave vp vp_size", "plan.vpp", ""),
    (
        "num_layers_per_virtual_pipeline_stage layers_per_virtual_stage",
        "plan.vpp",
        "vpp is the layers over pp and over the layers of a chunk",
    ),
    (
        "activation_checkpointing gradient_checkpointing activation_checkpoint checkpointing recompute_granularity "
        "recompute_activations activation_recompute remat",
        "plan.recompute",
        "its choices are none, selective and full",
    ),
    ("cpu_offload offload_optimizer offload_param optimizer_offload", "plan.offload", "write offload: [optimizer]"),
    ("pipeline_schedule pipeline_parallel_schedule", "plan.schedule", ""),
    ("dtype torch_dtype mixed_precision amp bf16 fp16 fp8 compute_dtype", "workload.precision", ""),
    ("grad_dtype reduce_dtype grad_reduce_in_bf16 gradient_dtype", "workload.gradients", ""),
    ("optim optimizer_name optimiser", "workload.optimizer", ""),
    ("train_tokens num_tokens total_tokens token_budget tokens_total", "workload.tokens", ""),
    ("max_steps train_iters train_steps steps num_steps total_steps iterations", "workload.tokens", _TOKENS),
    ("num_train_epochs num_epochs epochs", "workload.tokens", "tokens are epochs × the tokens of the data"),
    ("model_name model_id model_name_or_path pretrained_model_name_or_path base_model hf_model llm", "model", ""),
    ("parallelism parallel strategy parallelization layout distributed", "plan", "its keys are tp, pp, dp, cp, ep"),
    ("training train trainer job task", "workload", ""),
    ("lora qlora peft adapter adapters lora_rank lora_r lora_config load_in_4bit", "workload.tuning", _LORA),
    ("framework software engine backend library", "stack", "costmodel list stacks shows them"),
    ("price_per_hour hourly_price cost_per_hour hourly_cost usd_per_hour gpu_price", "assume.price", ""),
    ("mfu hfu", "limits.mfu", "the MFU is predicted; limits bound it, and assume.sustained slows the tensor cores"),
    ("budget time_limit deadline", "limits.run_time", ""),
    ("fits fit oom memory_chance chance_to_fit fit_probability probability_to_fit", "limits.fit_chance", ""),
    ("hidden_size d_model n_embd embed_dim dim model_dim", "model.hidden", ""),
    (
        "num_layers num_hidden_layers n_layer n_layers depth",
        "model.layers.0.count",
        "layers is a list of kinds, each with its count",
    ),
    ("num_attention_heads num_heads n_head n_heads", "model.layers.0.attention.heads", ""),
    (
        "num_key_value_heads num_kv_heads n_kv_heads num_query_groups kv_head_num",
        "model.layers.0.attention.kv_heads",
        "",
    ),
    ("head_size head_width kv_channels dim_head", "model.layers.0.attention.head_dim", ""),
    ("sliding_window window_size", "model.layers.0.attention.window", ""),
    ("intermediate_size ffn_hidden_size ffn_dim d_ff n_inner mlp_hidden_size", "model.layers.0.mlp.ffn_hidden", ""),
    ("moe_intermediate_size moe_ffn_hidden_size", "model.layers.0.experts.ffn_hidden", ""),
    ("num_experts num_local_experts n_routed_experts moe_num_experts", "model.layers.0.experts.count", ""),
    ("num_experts_per_tok num_experts_per_token moe_top_k topk moe_router_topk", "model.layers.0.experts.top_k", ""),
    ("vocab_size vocabulary vocabulary_size n_vocab padded_vocab_size", "model.vocab", ""),
    ("max_position_embeddings n_positions", "model.max_sequence", ""),
    ("tie_word_embeddings tie_embeddings tied_embeddings", "model.tied", ""),
    ("normalization norm_type", "model.norm", ""),
    ("position_embedding_type pos_emb rope", "model.positions", ""),
    ("max_num_seqs max_running_requests max_sequences", "stack.sequences", ""),
    ("max_num_batched_tokens chunked_prefill_size max_num_tokens", "stack.budget", ""),
    ("gpu_memory_utilization mem_fraction_static", "stack.memory.share", ""),
    ("kv_cache_dtype kv_dtype kv_cache", "workload.cache", ""),
    ("weight_dtype", "workload.weights", ""),
    ("max_model_len", "workload.context", ""),
    ("quantization", "workload.precision workload.weights", ""),
    ("gguf gguf_type ftype", "workload.weights", "its types of GGUF are q2_k to q6_k, q3_k_m, q4_k_m, q5_k_m and q8_0"),
    (
        "n_cpu_moe cpu_moe kt_num_gpu_experts kt_gpu_experts_ratio kt_cpuinfer override_tensor experts_on_host "
        "cpu_experts offload_experts",
        "plan.host_experts",
        _HOSTED,
    ),
    ("page_size tokens_per_block", "stack.block", ""),
    ("save_interval save_steps checkpoint_interval ckpt_interval", "run.checkpoint.steps", ""),
    ("isl input input_len input_tokens random_input_len prompt_tokens", "workload.prompt", ""),
    ("osl output_len output_tokens random_output_len answer_tokens max_tokens", "workload.output", ""),
    ("prefix prefix_len random_prefix_len", "workload.shared_prefix", ""),
    ("coefficient_of_variation arrival_cv cv arrivals", "workload.arrival_spread", ""),
    ("best_of num_return_sequences num_samples", "workload.samples", ""),
    ("num_speculative_tokens speculative_num_draft_tokens max_draft_len", "plan.speculation.tokens", ""),
    ("speculative_num_steps", "plan.speculation.depth", ""),
    ("speculative_eagle_topk eagle_topk topk_drafts", "plan.speculation.width", ""),
    ("qps rps request_rate", "workload.rate", ""),
    ("max_concurrency", "workload.concurrency", ""),
    ("num_requests num_prompts", "workload.requests", ""),
    ("itl", "limits.tpot.at_most", ""),
    ("e2e e2e_latency", "limits.latency.at_most", ""),
)
# Words that a scenario has no key for, each with the reason.
_WITHOUT = {
    **_all(
        (
            "lr learning_rate min_lr max_lr weight_decay warmup warmup_steps lr_scheduler lr_scheduler_type "
            "scheduler betas adam_beta1 adam_beta2 seed clip_grad max_grad_norm gradient_clipping "
            "lora_alpha loss_scale beta1 beta2 epsilon eps momentum"
        ),
        _NO_EFFECT,
    ),
    **_all(
        "dataset data_path tokenizer data train_data",
        "costmodel reads no data; it takes the sequence, the batch and the tokens of the workload",
    ),
    **_all(
        "params parameters num_params n_params model_size",
        "parameters follow from the shape of the model; costmodel memory MODEL counts them",
    ),
    **_all(
        "cpu_offload_gb n_gpu_layers ngl",
        _ON_HOST,
    ),
    "flash_attention": "the stack names the attention kernel: stack.kernels.attention",
    "use_flash_attn": "the stack names the attention kernel: stack.kernels.attention",
    "attn_implementation": "the stack names the attention kernel: stack.kernels.attention",
}
KEYS = {word: Meant(tuple(keys.split()), note) for words, keys, note in _WORDS for word in words.split()} | {
    word: Meant((), note) for word, note in _WITHOUT.items()
}

_FP64 = "training does not multiply in fp64; the widest type is 'fp32'"
# Words for values, by the key they stand at: what to write, or why not.
VALUES: dict[str, dict[str, str]] = {
    "attention": {
        **_all("eager math naive", "'unfused'"),
        **_all("flash flash-attention flash_attention_2 fa2 xformers", "'flash-2'"),
        **_all("fa3 flash_attention_3 cudnn te", "'flash-3'"),
    },
    "loss": {
        **_all("liger fused-linear linear chunked-ce cce cut-cross-entropy", "'chunked'"),
        **_all("eager cross-entropy torch", "'plain'"),
    },
    "compile": {**_all("off no false eager", "'none'"), **_all("on yes true layers block", "'blocks'")},
    "precision": {
        **_all("float32 float single full 32 torch.float32", "'fp32'"),
        **_all("tensorfloat32 tensorfloat-32", "'tf32'"),
        **_all("fp64 float64 double", _FP64),
        **_all("bfloat16 bf16-mixed mixed amp bfloat auto bf16_mixed torch.bfloat16", "'bf16'"),
        **_all("float16 half fp16-mixed 16 16-mixed torch.float16", "'fp16'"),
        **_all("float8 e4m3 fp8-e4m3 fp8_e4m3 fp8-delayed fp8-hybrid hybrid", "'fp8'"),
        **_all("tensorwise fp8-tensorwise", "'fp8-cs'"),
        **_all("rowwise fp8-rowwise", "'fp8-row'"),
        **_all("blockwise fp8-blockwise deepseek-fp8", "'fp8-block'"),
        **_all("fp4 nvfp4-mixed", "'nvfp4'"),
        **_all(
            "int4 nf4 4bit 8bit",
            "training does not multiply in that type; weights in 4 bits are workload.tuning: {method: qlora}",
        ),
    },
    "gradients": {
        **_all("float32 float 32", "'fp32'"),
        **_all("bfloat16 torch.bfloat16", "'bf16'"),
        **_all("float16 half 16", "'fp16'"),
    },
    "recompute": {
        **_all("true yes on all layer block uniform always checkpoint checkpointing 1", "'full'"),
        **_all("false no off never disabled 0", "'none'"),
        **_all("attention core core_attn core-attention op", "'selective'"),
    },
    "zero": {
        **_all("fsdp full_shard zero3 zero-3 stage3 stage_3 hybrid_shard", "3"),
        **_all("shard_grad_op zero2 zero-2 stage2 stage_2", "2"),
        **_all("zero1 zero-1 stage1 stage_1 distributed_optimizer true", "1"),
        **_all("no_shard ddp none false off", "0"),
    },
    "schedule": {
        **_all("pipedream onefoneb one_f_one_b pipedream-flush", "'1f1b'"),
        **_all("interleaved1f1b interleaved_1f1b interleaved-1f1b virtual vpp", "'interleaved'"),
        **_all("zb zbh1 zb1p zero-bubble zero_bubble zerobubble", "'zb-h1'"),
        **_all("zbh2 zb2p", "'zb-h2'"),
        **_all("zbv", "'zb-v'"),
        **_all("afab allfwdallbwd", "'gpipe'"),
    },
    "kind": {
        **_all(
            "finetune finetuning fine-tuning sft pretrain pretraining pre-training train",
            "'training'; adapters are workload.tuning: {method: lora}",
        ),
        **_all("inference generate", "'serving', with lengths and a rate"),
        **_all("lora qlora peft", "'training'; adapters are workload.tuning: {method: lora}"),
        **_all("rlhf ppo grpo dpo", "'rl', with algorithm: ppo, grpo or dpo"),
        **_all("a3c a2c impala dqn", "older forms are explained, not modelled: costmodel explain a3c"),
    },
    "objective": {
        **_all("time fastest speed latency duration step", "'step_time'"),
        **_all("throughput tokens tokens_per_s tokens_per_second mfu", "'tokens_per_s_per_gpu'"),
        **_all("cost cheapest price money usd", "'cost_per_mtoken'"),
    },
    "tuning": {
        **_all("peft adapters", "{method: lora}"),
        **_all("none pretrain sft all", "'full'"),
    },
}

_FOUR_BITS = "no product is in that type; weights in 4 bits are workload.weights: int4-g128, or nvfp4 or mxfp4"
_AT_RANDOM = "requests of a rate come at random: leave traffic out, and write rate for concurrency"
# The same for scenarios of another workload than training, where they differ.
VALUES_OF: dict[str, dict[str, dict[str, str]]] = {
    "serving": {
        "precision": _all("int4 nf4 4bit awq gptq w4a16", _FOUR_BITS) | _all("8bit w8a8", "'int8'"),
        "weights": _all("int4 nf4 4bit awq gptq w4a16", "'int4-g128'"),
        "traffic": {
            **_all("offline batch", "an offline batch is requests: 10 k in place of concurrency"),
            **_all("poisson random open open-loop", _AT_RANDOM),
        },
        "objective": {
            **_all("cost cheapest price money usd", "'cost_within_limits'; that of an offline batch is cost_of_batch"),
            "cost_per_mtoken": "'cost_within_limits'; plans are compared at the highest rate within the limits",
            **_all(
                "throughput tokens tokens_per_s tokens_per_second tokens_per_s_per_gpu output_tokens_per_s",
                "'tokens_per_gpu_within_limits'; the time of an offline batch is makespan",
            ),
            **_all("rate rate_within_slo goodput requests_per_s qps", "'rate_within_slo_per_s'"),
            **_all("time fastest speed", "'tpot'; the time to the first token is ttft"),
            **_all("gpus fewest replicas_needed", "'gpus_needed'"),
        },
    },
}


# Names of software, and which shipped documents describe it.
# Names that mean one stack: it is used, and the answer reports it.
STACK_ALIASES = {
    **_all("torchtitan", "fsdp2"),
    **_all("nemo mcore megatron-bridge megatron_core", "megatron-core"),
    **_all("transformers huggingface hf accelerate axolotl", "transformers-fsdp"),
    **_all("llama-factory llamafactory ms-swift swift", "transformers-deepspeed"),
    **_all("megatron-swift", "megatron-core"),
    **_all("composer mosaicml mosaic llmfoundry", "llm-foundry"),
    **_all("prime-rl prime_rl", "fsdp2"),
    **_all("nanogpt", "nanochat"),
    **_all("jax flax t5x levanter", "maxtext"),
}
# Software that shards nothing on one accelerator, unless a file of DeepSpeed or of FSDP stands beside its own.
OF_ONE = _all(
    "transformers huggingface hf accelerate axolotl llama-factory llamafactory ms-swift swift trl", "transformers-ddp"
)
# Software for reinforcement learning whose trainer also trains by itself.
TRAINERS = {
    "trl": "transformers-fsdp",
    "openrlhf": "transformers-deepspeed",
    "verl": "verl-fsdp",
    **_all("nemo-rl slime", "megatron-core"),
    "areal": "fsdp2",
}
_NANOTRON = "'megatron-lm', which cuts and shards as nanotron does and fuses more of its kernels"
_OLMO = "'fsdp2' with --set stack.compile=none, or blocks where OLMo-core compiles them"
STACKS = {
    "megatron": "'megatron-core' (the usual one: overlap switched on) or 'megatron-lm' (the defaults of its flags)",
    **_all("pytorch torch", "'fsdp2' or 'ddp'"),
    **_all(
        "lightning pytorch-lightning pytorch_lightning litgpt trainer",
        "'ddp', 'fsdp2' or 'deepspeed', as its strategy is",
    ),
    **_all("peft llama-recipes llama-cookbook", "'transformers-ddp' on one GPU, or 'transformers-fsdp'"),
    **_all("autotrain h2o-llmstudio ludwig", "'transformers-ddp' on one GPU, or 'transformers-deepspeed'"),
    **_all("nemo-automodel automodel veomni torchforge forge", "'fsdp2', whose fully_shard it uses"),
    **_all("torchao", "the software that calls it, as 'torchtune' or 'fsdp2'"),
    **_all("mindspeed paddlenlp", "'megatron-core', whose layouts it has; no accelerator of Huawei is shipped"),
    **_all("easydel", "'maxtext', which trains in JAX too"),
    **_all("fairseq metaseq", "'fsdp1', or 'megatron-2021' with tensor parallelism"),
    **_all("roll", "'verl', which alternates training and generation too"),
    **_all("nanotron picotron", _NANOTRON),
    **_all("olmo-core olmo", _OLMO),
    **_all("xtuner", "'transformers-deepspeed' for its first generation, 'fsdp2' for the second"),
    **_all("colossalai colossal-ai", "'deepspeed', whose zero stages it has; its tensor parallelism is Megatron's"),
    "ddp-compiled": "'ddp' with --set stack.compile=model",
    "ddp-fused-loss": "'ddp' with --set stack.loss=fused",
    "ddp-bf16": "'ddp' with --set stack.weights=bf16",
    "transformers-fsdp-bf16": "'transformers-fsdp' with --set stack.weights=bf16",
}


def _plain(word: str) -> str:
    return word.strip().lstrip("-").lower().replace("-", "_")


def meant_by(word: str) -> Meant | None:
    """The costmodel keys for another tool's key; None if the key is unknown.

    >>> meant_by("seq-length").keys, meant_by("node.count").keys, meant_by("bandwith")
    (('workload.sequence',), ('cluster.nodes',), None)
    """
    return KEYS.get(_plain(word))


def key_hint(word: str, section: str, prefix: str = "", instead: Callable[[str], tuple[str, ...]] | None = None) -> str:
    """The hint for another tool's key in a section of a scenario, or in a document that the scenario names at `prefix`.

    instead: gives the keys that replace a training key in scenarios of the current workload.

    >>> key_hint("mbs", "plan"), key_hint("mbs", "workload"), key_hint("hidden_size", "", "model")
    ("did you mean 'micro_batch'?", "did you mean 'plan.micro_batch'?", "did you mean 'hidden'?")
    """
    meant = meant_by(word)
    if meant is None:
        return ""
    if not meant.keys:
        return meant.note
    inside = [key.removeprefix(f"{prefix}.") for key in meant.keys if not prefix or key.startswith(f"{prefix}.")]
    if instead is not None:
        there = tuple(other for key in inside for other in instead(key))
        meant, inside = (meant, inside) if there == (*inside,) else (Meant(there), [*there])
    section = re.sub(r"\.\d+(?=\.|$)", ".0", section)
    hint = " or ".join(f"'{key.removeprefix(f'{section}.')}'" for key in inside)
    return " ".join(filter(None, (f"did you mean {hint}?" if hint else "", meant.note if hint else "")))


def value_meant(key: str, value: str, workload: str = "training") -> str:
    """The hint for another tool's value of a key; empty for an unknown value.

    >>> value_meant("precision", "bfloat16"), value_meant("zero", "full_shard"), value_meant("precision", "fpx")
    ("did you mean 'bf16'?", 'did you mean 3?', '')
    """
    word, own = "-".join(value.lower().split()), VALUES_OF.get(workload, {}).get(key, {})
    meant = own.get(word, "") or VALUES.get(key, {}).get(word, "")
    exact, _, note = meant.partition("; ")
    short = " " not in exact or exact.startswith("{")
    return meant if not meant or not short else f"did you mean {exact}?" + (f" {note}" if note else "")
