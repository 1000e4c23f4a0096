"""A serving plan as the command of TensorRT-LLM, with the YAML of what has no option."""

from __future__ import annotations

from typing import Any

from costmodel.exchange.exporters.engines.benchmark_lines import benchmark, commented, pool_words
from costmodel.exchange.exporters.engines.checkpoint_types import MADE, check_cache, check_types
from costmodel.exchange.exporters.engines.draft_options import trtllm_draft
from costmodel.exchange.exporters.engines.host_cache_options import host_bytes
from costmodel.exchange.exporters.engines.serving_job import BESIDE, UNWRITTEN, EngineTarget, ServingJob, lines_of
from costmodel.exchange.exporters.job import Remarks
from costmodel.exchange.importers.serving.served_types import Quantised
from costmodel.exchange.importers.serving.trtllm_options import VERSION
from costmodel.exchange.writing.document_text import document_text

_FILE = "trtllm-options.yaml"
_BLOCK = 32  # tokens of a block, where none are stated
_END = "END"
_METHODS = {
    MADE: "FP8",
    Quantised("fp8-block"): "FP8_BLOCK_SCALES",
    Quantised("nvfp4"): "NVFP4",
    Quantised(None, "int4-g128"): "W4A16_AWQ",
}
_ADAPTERS = "lora_config names maps and adapters one by one, with paths that no scenario holds"
_COPIES = "its load balancer has a file of slots, which this export does not write"

_CONTEXT = "its cp_config adds ranks beside those of tp, where dcp divides the cache among these"
_IN_PARTS = "--set stack=trt-llm --set stack.chunked=true"


def write(job: ServingJob, remarks: Remarks) -> str:
    """The YAML where it is needed, the command, the line to expect in its log, and the benchmark."""
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
    words = ["trtllm-serve", job.checkpoint, f"--tp_size {job.count('tp') * groups}"]
    if job.count("pp") > 1:
        words.append(f"--pp_size {job.count('pp')}")
    if job.count("ep") > 1:
        words.append(f"--ep_size {job.count('ep')}")
    words += [
        f"--max_seq_len {job.context}",
        f"--max_num_tokens {job.budget}",
        f"--max_batch_size {job.sequences}",
        f"--kv_cache_free_gpu_memory_fraction {job.figures}",
    ]
    if not job.engine.chunked and job.budget < job.context:
        remarks.note(f"prompts over {job.budget:,} tokens would be refused; {_IN_PARTS} admits them")
    options = _options(job, remarks)
    text = ""
    if options:
        text = f"cat > {_FILE} <<'{_END}'\n{document_text(options, {})}{_END}\n"
        words.append(f"--extra_llm_api_options {_FILE}")
    client = "python3 -m tensorrt_llm.serve.scripts.benchmark_serving --backend openai"
    asked = benchmark(job, remarks, client, f"--model {job.checkpoint}")
    held = f"expect in its log: max tokens in paged KV cache near {job.pool:.0f} {pool_words(job)}"
    return text + lines_of(words) + commented(job, [held], asked)


def _options(job: ServingJob, remarks: Remarks) -> dict[str, Any]:
    """What trtllm-serve takes from a file alone."""
    engine, found = job.engine, dict[str, Any]()
    if job.count("dp_attention") > 1:
        found["enable_attention_dp"] = True
    if method := check_types(job, remarks, _METHODS):
        found["quant_config"] = {"quant_algo": method}
    if job.half == "fp16":
        found["dtype"] = "float16"
    cache: dict[str, Any] = {"dtype": "fp8"} if check_cache(job, remarks) else {}
    if not engine.prefix_cache:
        cache["enable_block_reuse"] = False
    if round(engine.block) != _BLOCK:
        cache["tokens_per_block"] = round(engine.block)
    if host := host_bytes(job, remarks, "host_cache_size"):
        cache["host_cache_size"] = round(host)
    if engine.chunked:
        found["enable_chunked_prefill"] = True
    found |= trtllm_draft(job, remarks)
    if cache:
        found["kv_cache_config"] = cache
    if not engine.graphs:
        found["cuda_graph_config"] = None
    return found


TARGET = EngineTarget(
    name="trt-llm",
    title="Command",
    version=VERSION,
    stack="trt-llm",
    options={
        "model": "the name behind trtllm-serve",
        "plan.tp": "--tp_size",
        "plan.pp": "--pp_size",
        "plan.dp_attention": "enable_attention_dp, every rank by itself",
        "plan.ep": "--ep_size",
        "plan.speculation": "speculative_config",
        "workload.context": "--max_seq_len",
        "workload.precision": "dtype, quant_config.quant_algo",
        "workload.weights": "quant_config.quant_algo",
        "workload.cache": "kv_cache_config.dtype",
        "stack.budget": "--max_num_tokens",
        "stack.sequences": "--max_batch_size",
        "stack.memory.share": "--kv_cache_free_gpu_memory_fraction",
        "stack.chunked": "enable_chunked_prefill",
        "stack.block": "kv_cache_config.tokens_per_block",
        "stack.prefix_cache": "kv_cache_config.enable_block_reuse",
        "stack.host_cache": "kv_cache_config.host_cache_size",
        "stack.graphs": "cuda_graph_config",
    },
    elsewhere=BESIDE,
    cannot={
        "stack.dispatch.two_batches": "no option of it runs half batches",
        "stack.kernels.own_all_reduce": "it chooses its all-reduce itself",
        "plan.dcp": _CONTEXT,
        "plan.redundant_experts": _COPIES,
        "stack.executor": "it starts its processes itself",
        **UNWRITTEN,
        "workload.adapters": _ADAPTERS,
    },
    write=write,
)
