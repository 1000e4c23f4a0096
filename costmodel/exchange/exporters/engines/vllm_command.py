"""A serving plan as the command of vLLM."""

from __future__ import annotations

import json

from costmodel.exchange.exporters.engines.adapter_options import vllm_adapters
from costmodel.exchange.exporters.engines.benchmark_lines import benchmark, commented, pool_words
from costmodel.exchange.exporters.engines.checkpoint_types import METHODS, check_cache, check_types
from costmodel.exchange.exporters.engines.draft_options import vllm_draft
from costmodel.exchange.exporters.engines.exchange_options import vllm_exchange
from costmodel.exchange.exporters.engines.host_cache_options import host_bytes
from costmodel.exchange.exporters.engines.serving_job import BESIDE, UNWRITTEN, EngineTarget, ServingJob, lines_of
from costmodel.exchange.exporters.job import Remarks
from costmodel.exchange.importers.serving.host_caches import GIB
from costmodel.exchange.importers.serving.vllm_options import VERSION


def write(job: ServingJob, remarks: Remarks) -> str:
    """The command, the line to expect in its log, and the benchmark."""
    engine, groups = job.engine, job.count("dp_attention")
    words = ["vllm serve", job.checkpoint, f"--tensor-parallel-size {job.count('tp')}"]
    if job.count("pp") > 1:
        words.append(f"--pipeline-parallel-size {job.count('pp')}")
    if groups > 1:
        words.append(f"--data-parallel-size {groups}")
    words += [f"--decode-context-parallel-size {job.count('dcp')}"] if job.count("dcp") > 1 else []
    words += _experts(job, remarks)
    words += [
        f"--max-model-len {job.context}",
        f"--max-num-batched-tokens {job.budget}",
        f"--max-num-seqs {job.sequences}",
        f"--gpu-memory-utilization {job.figures}",
        f"--block-size {engine.block:g}",
        "--enable-prefix-caching" if engine.prefix_cache else "--no-enable-prefix-caching",
        f"--dtype {'float16' if job.half == 'fp16' else 'bfloat16'}",
    ]
    if method := check_types(job, remarks, METHODS):
        words.append(f"--quantization {method}")
    if cache := check_cache(job, remarks):
        words.append(f"--kv-cache-dtype {cache}")
    words += vllm_draft(job, remarks)
    if host := host_bytes(job, remarks, "--kv-offloading-size"):
        words.append(f"--kv-offloading-size {job.count('tp') * job.count('pp') * host / GIB:.10g}")
    if copies := job.copies:
        words.append(f"--enable-eplb --eplb-config '{json.dumps({'num_redundant_experts': copies})}'")
    words += vllm_exchange(job, remarks)
    words += vllm_adapters(job, remarks)
    words += [f"--distributed-executor-backend {engine.executor}"] if engine.executor else []
    words += _whole_prompts(job, remarks)
    words += ["--enforce-eager"] if not engine.graphs else []
    words += ["--disable-custom-all-reduce"] if not engine.kernels.own_all_reduce else []
    asked = benchmark(job, remarks, "vllm bench serve", f"--model {job.checkpoint}")
    held = f"expect in its log: GPU KV cache size near {job.pool:,.0f} tokens {pool_words(job)}"
    most = f"and Maximum concurrency for {job.context:,} tokens per request near {job.requests:.1f}x"
    return lines_of(words) + commented(job, [held, most], asked)


def _whole_prompts(job: ServingJob, remarks: Remarks) -> list[str]:
    """Without chunked prefill vLLM starts only where a step holds its longest request."""
    if job.engine.chunked:
        return []
    if job.context > job.budget:
        sentence = f"false: a step of {job.budget:,} tokens is shorter than the longest request, {job.context:,}"
        remarks.refuse("stack.chunked", sentence, f"--set stack.budget={job.context}, or stack.chunked=true")
    return ["--no-enable-chunked-prefill"]


def _experts(job: ServingJob, remarks: Remarks) -> list[str]:
    """Experts lie on every rank of a stage whole, or are cut as the rest."""
    ep, ranks = job.count("ep"), job.count("tp") * job.count("dp_attention")
    if ep == 1:
        return []
    if ep != ranks:
        hint = f"--set plan.ep=1, or {ranks}"
        remarks.refuse("plan.ep", f"{ep}: --enable-expert-parallel takes all {ranks} ranks of a stage", hint)
    return ["--enable-expert-parallel"]


TARGET = EngineTarget(
    name="vllm",
    title="Command",
    version=VERSION,
    stack="vllm",
    options={
        "model": "the name behind vllm serve",
        "plan.tp": "--tensor-parallel-size",
        "plan.pp": "--pipeline-parallel-size",
        "plan.dp_attention": "--data-parallel-size",
        "plan.dcp": "--decode-context-parallel-size",
        "plan.ep": "--enable-expert-parallel",
        "plan.speculation": "--speculative-config",
        "plan.redundant_experts": "--enable-eplb, --eplb-config",
        "workload.context": "--max-model-len",
        "workload.precision": "--dtype, --quantization",
        "workload.weights": "--quantization",
        "workload.cache": "--kv-cache-dtype",
        "workload.adapters": "--enable-lora, --max-loras, --max-lora-rank",
        "stack.budget": "--max-num-batched-tokens",
        "stack.sequences": "--max-num-seqs",
        "stack.memory.share": "--gpu-memory-utilization",
        "stack.block": "--block-size",
        "stack.prefix_cache": "--enable-prefix-caching",
        "stack.host_cache": "--kv-offloading-size, of all ranks",
        "stack.chunked": "--enable-chunked-prefill",
        "stack.executor": "--distributed-executor-backend",
        "stack.dispatch.two_batches": "--enable-dbo",
        "stack.graphs": "--enforce-eager",
        "stack.kernels.own_all_reduce": "--disable-custom-all-reduce",
    },
    elsewhere=BESIDE,
    cannot=UNWRITTEN,
    write=write,
    step_holds_request=True,
)
