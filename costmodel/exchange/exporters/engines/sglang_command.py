"""A serving plan as the command of SGLang."""

from __future__ import annotations

from costmodel.exchange.exporters.engines.adapter_options import sglang_adapters
from costmodel.exchange.exporters.engines.benchmark_lines import benchmark, commented, pool_words
from costmodel.exchange.exporters.engines.checkpoint_types import METHODS, check_cache, check_types
from costmodel.exchange.exporters.engines.draft_options import sglang_draft
from costmodel.exchange.exporters.engines.exchange_options import sglang_exchange
from costmodel.exchange.exporters.engines.host_cache_options import sglang_host_cache
from costmodel.exchange.exporters.engines.serving_job import BESIDE, UNWRITTEN, EngineTarget, ServingJob, lines_of
from costmodel.exchange.exporters.job import Remarks
from costmodel.exchange.importers.serving.sglang_options import VERSION


def write(job: ServingJob, remarks: Remarks) -> str:
    """The command, the line to expect in its log, and the benchmark; groups of attention lie inside its tp-size."""
    engine, groups = job.engine, job.count("dp_attention")
    words = ["python3 -m sglang.launch_server", f"--model-path {job.checkpoint}"]
    words.append(f"--tp-size {job.count('tp') * groups}")
    if job.count("pp") > 1:
        words.append(f"--pp-size {job.count('pp')}")
    if groups > 1:
        words.append(f"--dp-size {groups} --enable-dp-attention")
    words += [f"--dcp-size {job.count('dcp')}"] if job.count("dcp") > 1 else []
    if job.count("ep") > 1:
        words.append(f"--ep-size {job.count('ep')}")
    words += sglang_exchange(job)
    if copies := job.copies:
        words.append(f"--enable-eplb --ep-num-redundant-experts {copies}")
    words += [
        f"--context-length {job.context}",
        f"--chunked-prefill-size {job.budget * groups}",
        f"--max-running-requests {job.sequences * groups}",
        f"--mem-fraction-static {job.figures}",
        f"--page-size {engine.block:g}",
        f"--dtype {'float16' if job.half == 'fp16' else 'bfloat16'}",
    ]
    if method := check_types(job, remarks, METHODS):
        words.append(f"--quantization {method}")
    if check_cache(job, remarks):
        words.append("--kv-cache-dtype fp8_e4m3")
    words += sglang_draft(job, remarks)
    words += sglang_host_cache(job, remarks)
    words += sglang_adapters(job, remarks)
    words += ["--disable-radix-cache"] if not engine.prefix_cache else []
    words += ["--disable-cuda-graph"] if not engine.graphs else []
    words += ["--disable-custom-all-reduce"] if not engine.kernels.own_all_reduce else []
    client = "python3 -m sglang.bench_serving --backend sglang"
    asked = benchmark(job, remarks, client, f"--model {job.checkpoint}", of_sglang=True)
    held = f"expect in its log: max_total_num_tokens near {job.pool:.0f} {pool_words(job)}"
    return lines_of(words) + commented(job, [held], asked)


TARGET = EngineTarget(
    name="sglang",
    title="Command",
    version=VERSION,
    stack="sglang",
    options={
        "model": "--model-path",
        "plan.tp": "--tp-size, over the groups of attention",
        "plan.pp": "--pp-size",
        "plan.dp_attention": "--dp-size with --enable-dp-attention",
        "plan.dcp": "--dcp-size",
        "plan.ep": "--ep-size",
        "plan.speculation": "--speculative-algorithm, --speculative-num-steps",
        "plan.redundant_experts": "--enable-eplb, --ep-num-redundant-experts",
        "workload.context": "--context-length",
        "workload.precision": "--dtype, --quantization",
        "workload.weights": "--quantization",
        "workload.cache": "--kv-cache-dtype",
        "workload.adapters": "--enable-lora, --max-loras-per-batch, --max-lora-rank",
        "stack.budget": "--chunked-prefill-size, of all groups of attention",
        "stack.sequences": "--max-running-requests, of all groups of attention",
        "stack.memory.share": "--mem-fraction-static",
        "stack.block": "--page-size",
        "stack.prefix_cache": "--disable-radix-cache",
        "stack.host_cache": "--enable-hierarchical-cache, --hicache-size or --hicache-ratio",
        "stack.dispatch.two_batches": "--enable-two-batch-overlap",
        "stack.graphs": "--disable-cuda-graph",
        "stack.kernels.own_all_reduce": "--disable-custom-all-reduce",
    },
    elsewhere=BESIDE,
    cannot={
        "stack.executor": "it starts its processes itself",
        "stack.chunked": "a budget of steps cuts prompts; without one it is the whole prompt",
        **UNWRITTEN,
    },
    write=write,
)
