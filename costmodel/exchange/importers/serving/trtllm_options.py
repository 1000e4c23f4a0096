"""Options of trtllm-serve, and the YAML of the LLM API beside them, to keys of a serving scenario."""

from __future__ import annotations

from typing import Any

from costmodel.exchange.importers.launch.layer import Layer, layer_of
from costmodel.exchange.importers.serving.drafts import fill_trtllm_draft
from costmodel.exchange.importers.serving.host_caches import fill_trtllm_host_cache
from costmodel.exchange.importers.serving.option_words import Spelling
from costmodel.exchange.importers.serving.served_types import fill_types, share_of
from costmodel.exchange.values.foreign_keys import ForeignKey, ForeignKeys, lost, quiet

VERSION = "TensorRT-LLM 1.2"
TITLE = "command of TensorRT-LLM"
SHARE = "kv_cache_config.free_gpu_memory_fraction"
SPELLING = Spelling(
    {
        "--tp_size": "tensor_parallel_size", "--pp_size": "pipeline_parallel_size",
        "--ep_size": "moe_expert_parallel_size", "--cp_size": "context_parallel_size",
        "--cluster_size": "moe_cluster_parallel_size", "--kv_cache_free_gpu_memory_fraction": SHARE,
        "--free_gpu_memory_fraction": SHARE, "--extra_llm_api_options": "config",
        "--kv_cache_dtype": "kv_cache_config.dtype",
    },
    between="_",
)  # fmt: skip

TABLE: dict[str, ForeignKey] = {
    "model": ForeignKey("word", "model"),
    "tensor_parallel_size": ForeignKey("count", "plan.tp", 1),
    "pipeline_parallel_size": ForeignKey("count", "plan.pp", 1),
    "moe_expert_parallel_size": ForeignKey("count", "plan.ep"),
    "enable_attention_dp": ForeignKey("flag", "plan.dp_attention", False),
    "max_seq_len": ForeignKey("count", "workload.context"),
    "max_num_tokens": ForeignKey("count", "stack.budget"),
    "max_batch_size": ForeignKey("count", "stack.sequences"),
    SHARE: ForeignKey("figure", "stack.memory"),
    "kv_cache_config.dtype": ForeignKey("word", "workload.cache"),
    "kv_cache_config.enable_block_reuse": ForeignKey("flag", "stack.prefix_cache"),
    "kv_cache_config.tokens_per_block": ForeignKey("count", "stack.block"),
    "cuda_graph_config": ForeignKey("text", "stack.graphs"),
    "dtype": ForeignKey("word", "workload.precision"),
    "speculative_config": ForeignKey("text", "plan.speculation"),
    "quant_config.quant_algo": ForeignKey("word", "workload.precision workload.weights"),
    **lost("not expressible", "prompts and answers are computed apart", "cache_transceiver_config server_role "
           "disagg_cluster_uri"),
    **lost("not expressible", "adapters beside the model", "lora_config"),
    **lost("not expressible", "the sequence itself is cut", "context_parallel_size", 1),
    **lost("not expressible", "experts are cut another way", "moe_cluster_parallel_size moe_tensor_parallel_size", 1),
    "enable_chunked_prefill": ForeignKey("flag", "stack.chunked", False),
    "kv_cache_config.host_cache_size": ForeignKey("whole", "stack.host_cache"),
    **lost("not expressible", "the pool is of a stated size", "kv_cache_config.max_tokens"),
    **lost("not expressible", "several answers are searched at once", "max_beam_width", 1),
    **lost("approximated", "another backend: the costs are of that in PyTorch", "backend", "pytorch"),
    **lost("approximated", "another exchange between experts, or their moves", "moe_config"),
    **lost("approximated", "steps are not scheduled ahead", "disable_overlap_scheduler"),
    **lost("approximated", "requests wait for full batches", "attention_dp_config batch_wait_timeout_ms"),
    **lost("approximated", "kernels are compiled another way", "torch_compile_config"),
    **quiet("host port tokenizer custom_tokenizer log_level gpus_per_node num_postprocess_workers trust_remote_code "
            "revision reasoning_parser tool_parser metadata_server_config_file otlp_traces_endpoint chat_template "
            "fail_fast_on_attention_window_too_large media_io_kwargs custom_module_dirs "
            "served_model_name stream_interval print_iter_log enable_iter_perf_stats attn_backend sampler_type "
            "scheduler_config allreduce_strategy nvfp4_gemm_config load_format num_executor_threads "
            "kv_cache_config.event_buffer_max_size kv_cache_config.enable_partial_reuse "
            "kv_cache_config.copy_on_partial_reuse kv_cache_config.mamba_ssm_cache_dtype "
            "iter_stats_max_iterations enable_autotuner guided_decoding_backend perf_metrics_max_requests "
            "return_perf_metrics grpc config"),
}  # fmt: skip
_ALGORITHMS = {
    "FP8": "fp8",
    "NVFP4": "nvfp4",
    "W4A16_AWQ": "awq",
    "W4A16_GPTQ": "gptq",
    "FP8_BLOCK_SCALES": "fp8-block",
}


def read_trtllm(tree: Any, file: str) -> Layer:
    """What a command of trtllm-serve, or a file of its options, states: with attention data parallelism every rank
    attends alone.
    """
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = Layer(TITLE)
    layer.facts["stack"] = keys.derived("trt-llm", "the program", next(iter(keys.stated), ""))
    layer.fill("model", keys["model"])
    for name, path in (("tensor_parallel_size", "tp_size"), ("pipeline_parallel_size", "plan.pp")):
        layer.fill(path, keys[name])
    if keys.given("enable_attention_dp"):
        layer.facts["attention_apart"] = keys["enable_attention_dp"]
    layer.fill("plan.ep", keys["moe_expert_parallel_size"])
    layer.fill("workload.context", keys["max_seq_len"])
    for name in ("max_num_tokens", "max_batch_size", "kv_cache_config.tokens_per_block"):
        layer.fill(TABLE[name].fills, keys[name])
    share = keys[SHARE]
    if share.value is not None:
        layer.facts["stack.memory.share"] = share_of(share)
    layer.fill("stack.prefix_cache", keys["kv_cache_config.enable_block_reuse"])
    if keys["enable_chunked_prefill"].value:
        layer.facts["stack.chunked"] = keys["enable_chunked_prefill"]
    if "cuda_graph_config" in keys.stated and keys.stated["cuda_graph_config"][0] in (None, False):
        layer.facts["stack.graphs"] = keys.derived(False, "cuda_graph_config: null", "cuda_graph_config")
    fill_trtllm_host_cache(keys, layer)
    fill_trtllm_draft(keys, layer)
    _types(keys, layer)
    return layer_of(keys, TITLE, layer)


def _types(keys: ForeignKeys, layer: Layer) -> None:
    fill_types(keys, layer, "dtype", "", "kv_cache_config.dtype")
    stated = keys["quant_config.quant_algo"]
    method = _ALGORITHMS.get(str(stated.value).upper(), "") if stated.value is not None else ""
    if method in ("awq", "gptq"):
        layer.facts["workload.weights"] = stated._replace(value="int4-g128")
    elif method:
        layer.facts["workload.precision"] = stated._replace(value=method)
    elif stated.value is not None:
        keys.lose("not expressible", f"quant_algo {str(stated.value)[:60]}", "quant_config.quant_algo")
