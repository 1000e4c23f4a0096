"""Options of engines for the exchange of tokens with experts on several domains."""

from __future__ import annotations

from costmodel.exchange.exporters.engines.serving_job import ServingJob
from costmodel.exchange.exporters.job import Remarks


def sglang_exchange(job: ServingJob) -> list[str]:
    """DeepEP where tokens go to their experts alone, and half batches where they overlap."""
    words = ["--moe-a2a-backend deepep"] if job.dispatched else []
    return [*words, "--enable-two-batch-overlap"] if job.halved else words


def vllm_exchange(job: ServingJob, remarks: Remarks) -> list[str]:
    """The same; vLLM takes one form of DeepEP for all steps."""
    if not job.dispatched:
        return []
    remarks.note("steps with prompts are predicted as with deepep_high_throughput")
    return ["--all2all-backend deepep_low_latency", *(["--enable-dbo"] if job.halved else [])]
