"""Options of trtllm-serve and the YAML of its LLM API, read to a serving scenario and written from one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys
from costmodel.exchange.option_rows import (
    Remarks,
    lost,
    nested_sections,
    option,
    option_table,
    part,
    quiet,
    switch,
    written,
)
from costmodel.exchange.serving.benchmark import benchmark_comments, benchmark_words, pool_error_words
from costmodel.exchange.serving.command_options import Spelling
from costmodel.exchange.serving.engine_options import (
    BESIDE,
    HOSTED,
    MADE,
    UNWRITTEN,
    EngineFormat,
    Quantised,
    ServingJob,
    check_cache,
    check_types,
    command_words,
    fill_draft,
    fill_size,
    fill_types,
    host_cache_bytes,
    named_draft,
    wrapped_command,
)  # fmt: skip
from costmodel.exchange.training.file_facts import Layer, finished_layer, layer_of_rows
from costmodel.exchange.write_yaml import document_text

TITLE, VERSION = "command of TensorRT-LLM", "TensorRT-LLM 1.2"
_CACHE = "kv_cache_config"
_SHARE = f"{_CACHE}.free_gpu_memory_fraction"
_HOST = f"{_CACHE}.host_cache_size"
SPELLING = Spelling(
    {
        "--tp_size": "tensor_parallel_size", "--pp_size": "pipeline_parallel_size",
        "--ep_size": "moe_expert_parallel_size", "--cp_size": "context_parallel_size",
        "--cluster_size": "moe_cluster_parallel_size", "--kv_cache_free_gpu_memory_fraction": _SHARE,
        "--free_gpu_memory_fraction": _SHARE, "--extra_llm_api_options": "config",
        "--kv_cache_dtype": "kv_cache_config.dtype",
    },
    between="_",
)  # fmt: skip

# Options that a command states; a file of options states the others.
_OF_COMMAND = {
    "tensor_parallel_size": "--tp_size", "pipeline_parallel_size": "--pp_size",
    "moe_expert_parallel_size": "--ep_size", _SHARE: "--kv_cache_free_gpu_memory_fraction",
    **{name: f"--{name}" for name in ("max_seq_len", "max_num_tokens", "max_batch_size")},
}  # fmt: skip
_FILE, _END = "trtllm-options.yaml", "END"
_BLOCK = 32  # tokens of a block, where none are stated
_LENGTHS = ("max_draft_len", "num_nextn_predict_layers")  # of a draft
_DRAFTS = {"eagle": "Eagle", "mtp": "MTP", "ngram": "NGram"}
_QUANTISED = {
    "FP8": MADE,
    "FP8_BLOCK_SCALES": Quantised("fp8-block"),
    "NVFP4": Quantised("nvfp4"),
    "W4A16_AWQ": Quantised(None, "int4-g128"),
    "W4A16_GPTQ": Quantised(None, "int4-g128"),
}

TABLE = option_table(
    option("model", "model", "word", when="never"),
    part("tensor_parallel_size", "tp_size", "count", 1),
    option("pipeline_parallel_size", "plan.pp", "count", 1, when="where it counts"),
    option("moe_expert_parallel_size", "plan.ep", "count", when="where it counts"),
    option("max_seq_len", "workload.context", "count"),
    option("max_num_tokens", "stack.budget", "count"),
    option("max_batch_size", "stack.sequences", "count"),
    option(_SHARE, "stack.memory.share", "share"),
    part("enable_attention_dp", "plan.dp_attention", "flag", False),
    part("quant_config.quant_algo", "workload.precision workload.weights", "word"),
    part("dtype", "workload.precision", "word"),
    option("enable_chunked_prefill", "stack.chunked", switch(True), False),
    part("speculative_config", "plan.speculation", "text"),
    part(f"{_CACHE}.dtype", "workload.cache", "word"),
    option(f"{_CACHE}.enable_block_reuse", "stack.prefix_cache", "flag", when="never"),
    option(f"{_CACHE}.tokens_per_block", "stack.block", "count", when="never"),
    part(_HOST, "stack.host_cache", "whole"),
    part("cuda_graph_config", "stack.graphs", "text"),
    lost("not expressible", "prompts and answers are computed apart", "cache_transceiver_config server_role "
         "disagg_cluster_uri"),
    lost("not expressible", "adapters beside the model", "lora_config"),
    lost("not expressible", "the sequence itself is cut", "context_parallel_size", 1),
    lost("not expressible", "experts are cut another way", "moe_cluster_parallel_size moe_tensor_parallel_size", 1),
    lost("not expressible", "the pool is of a stated size", "kv_cache_config.max_tokens"),
    lost("not expressible", "several answers are searched at once", "max_beam_width", 1),
    lost("approximated", "another backend: the costs are of that in PyTorch", "backend", "pytorch"),
    lost("approximated", "another exchange between experts, or their moves", "moe_config"),
    lost("approximated", "steps are not scheduled ahead", "disable_overlap_scheduler"),
    lost("approximated", "requests wait for full batches", "attention_dp_config batch_wait_timeout_ms"),
    lost("approximated", "kernels are compiled another way", "torch_compile_config"),
    quiet("host port tokenizer custom_tokenizer log_level gpus_per_node num_postprocess_workers trust_remote_code "
          "revision reasoning_parser tool_parser metadata_server_config_file otlp_traces_endpoint chat_template "
          "fail_fast_on_attention_window_too_large media_io_kwargs custom_module_dirs "
          "served_model_name stream_interval print_iter_log enable_iter_perf_stats attn_backend sampler_type "
          "scheduler_config allreduce_strategy nvfp4_gemm_config load_format num_executor_threads "
          "kv_cache_config.event_buffer_max_size kv_cache_config.enable_partial_reuse "
          "kv_cache_config.copy_on_partial_reuse kv_cache_config.mamba_ssm_cache_dtype "
          "iter_stats_max_iterations enable_autotuner guided_decoding_backend perf_metrics_max_requests "
          "return_perf_metrics grpc config"),
)  # fmt: skip


def read_trtllm(tree: Any, file: str) -> Layer:
    """The facts of a trtllm-serve command, or of its option file."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = layer_of_rows(keys, TITLE)
    layer.facts["stack"] = keys.derived("trt-llm", "the program", next(iter(keys.stated), ""))
    layer.fill("tp_size", keys["tensor_parallel_size"])
    if keys.given("enable_attention_dp"):
        layer.facts["attention_apart"] = keys["enable_attention_dp"]
    if "cuda_graph_config" in keys.stated and keys.stated["cuda_graph_config"][0] in (None, False):
        layer.facts["stack.graphs"] = keys.derived(False, "cuda_graph_config: null", "cuda_graph_config")
    if size := keys[_HOST].value:
        fill_size(keys, layer, _HOST, float(size), "host_cache_size, of each rank")
    drafted = keys["speculative_config"].value
    if isinstance(drafted, Mapping):
        for key in (key for key in drafted if key not in ("decoding_type", *_LENGTHS)):
            keys.unknown(str(key), "speculative_config")
        lengths = (drafted.get(key) for key in _LENGTHS)
        tokens = next((length for length in lengths if length is not None), None)
        fill_draft(keys, layer, "speculative_config", str(drafted.get("decoding_type", "")), tokens)
    fill_types(keys, layer, "dtype", "", f"{_CACHE}.dtype")
    stated = keys["quant_config.quant_algo"]
    types = _QUANTISED.get(str(stated.value).upper())
    if types is not None:
        layer.fill("workload.weights", stated._replace(value=types.weights))
        layer.fill("workload.precision", stated._replace(value=types.precision))
    elif stated.value is not None:
        keys.lose("not expressible", f"quant_algo {str(stated.value)[:60]}", "quant_config.quant_algo")
    return finished_layer(keys, layer)


_ADAPTERS = "lora_config names maps and adapters one by one, with paths that no scenario holds"
_COPIES = "its load balancer has a file of slots, which this export does not write"
_CONTEXT = "its cp_config adds ranks beside those of tp, where dcp divides the cache among these"
_IN_PARTS = "--set stack=trt-llm --set stack.chunked=true"


def write_trtllm(job: ServingJob, remarks: Remarks) -> str:
    """The option file (if needed), the command, the expected log line and the benchmark."""
    groups = job.count("dp_attention")
    _check_expressible(job, remarks)
    if not job.engine.chunked and job.budget < job.context:
        remarks.note(f"prompts over {job.budget:,} tokens would be refused; {_IN_PARTS} admits them")
    beside = {"tensor_parallel_size": job.count("tp") * groups, **_file_options(job, remarks)}
    options = written(TABLE, job, remarks.refuse, beside)
    own = {name: value for name, value in options.items() if name in _OF_COMMAND}
    words, text = ["trtllm-serve", job.checkpoint, *command_words(own, _OF_COMMAND)], ""
    if more := nested_sections({name: value for name, value in options.items() if name not in own}):
        text = f"cat > {_FILE} <<'{_END}'\n{document_text(more, {})}{_END}\n"
        words.append(f"--extra_llm_api_options {_FILE}")
    client = "python3 -m tensorrt_llm.serve.scripts.benchmark_serving --backend openai"
    asked = benchmark_words(job, remarks, client, f"--model {job.checkpoint}")
    held = f"expect in its log: max tokens in paged KV cache near {job.pool:.0f} {pool_error_words(job)}"
    return text + wrapped_command(words) + benchmark_comments(job, [held], asked)


def _check_expressible(job: ServingJob, remarks: Remarks) -> None:
    """Records faults for keys that TensorRT-LLM's options cannot express."""
    groups = job.count("dp_attention")
    if groups > 1 and job.count("tp") > 1:
        sentence = f"tp {job.count('tp')} with {groups} groups: with enable_attention_dp each rank attends alone"
        remarks.refuse("plan.dp_attention", sentence, f"--set plan.tp=1 --set plan.dp_attention={job.ranks}")
    if job.count("dcp") > 1:
        remarks.refuse("plan.dcp", _CONTEXT, "--set plan.dcp=1")
    if job.copies:
        hint = "leave plan.redundant_experts out, and state slots of experts to the engine yourself"
        remarks.refuse("plan.redundant_experts", _COPIES, hint)
    if job.workload.adapters is not None:
        hint = "leave workload.adapters out, and state lora_config to the engine yourself"
        remarks.refuse("workload.adapters", _ADAPTERS, hint)


def _file_options(job: ServingJob, remarks: Remarks) -> dict[str, Any]:
    """Options that trtllm-serve reads only from a file."""
    engine, found = job.engine, dict[str, Any]()
    if job.count("dp_attention") > 1:
        found["enable_attention_dp"] = True
    methods = {types: name for name, types in reversed(_QUANTISED.items())}
    if method := check_types(job, remarks, methods):
        found["quant_config.quant_algo"] = method
    if job.half == "fp16":
        found["dtype"] = "float16"
    if draft := named_draft(job, remarks, _DRAFTS):
        length = "num_nextn_predict_layers" if draft[0] == "MTP" else "max_draft_len"
        found["speculative_config"] = {"decoding_type": draft[0], length: draft[1]}
    if check_cache(job, remarks):
        found[f"{_CACHE}.dtype"] = "fp8"
    if not engine.prefix_cache:
        found[f"{_CACHE}.enable_block_reuse"] = False
    if round(engine.block) != _BLOCK:
        found[f"{_CACHE}.tokens_per_block"] = round(engine.block)
    if host := host_cache_bytes(job, remarks, "host_cache_size"):
        found[_HOST] = round(host)
    if not engine.graphs:
        found["cuda_graph_config"] = None
    return found


FORMAT = EngineFormat(
    name="trt-llm",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    elsewhere=BESIDE,
    cannot={
        "stack.dispatch.two_batches": "no option of it runs half batches",
        "stack.kernels.own_all_reduce": "it chooses its all-reduce itself",
        "plan.dcp": _CONTEXT,
        "plan.redundant_experts": _COPIES,
        "stack.executor": "it starts its processes itself",
        **UNWRITTEN,
        **HOSTED,
        "workload.adapters": _ADAPTERS,
    },
    kind="Command",
    stack="trt-llm",
    write=write_trtllm,
)
