"""LoRA adapters beside the model as options of engines: slots on the device, and the rank of the largest."""

from __future__ import annotations

from costmodel.exchange.exporters.engines.serving_job import ServingJob
from costmodel.exchange.exporters.job import Remarks

_KEY = "workload.adapters"
VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # that --max-lora-rank takes


def vllm_adapters(job: ServingJob, remarks: Remarks) -> list[str]:
    """Slots and rank; each adapter is named with a path that its reader adds."""
    stated = job.workload.adapters
    if stated is None:
        return []
    count, rank = round(stated.count), round(stated.rank)
    if rank not in VLLM_RANKS:
        wider = next((each for each in VLLM_RANKS if each > rank), VLLM_RANKS[-1])
        sentence = f"rank {rank}: --max-lora-rank takes {', '.join(map(str, VLLM_RANKS))}"
        remarks.refuse(_KEY, sentence, f"--set {_KEY}.rank={wider}")
    remarks.note(f"name the {count} adapters: --lora-modules NAME=PATH …")
    return ["--enable-lora", f"--max-loras {count}", f"--max-lora-rank {rank}"]


def sglang_adapters(job: ServingJob, remarks: Remarks) -> list[str]:
    """Slots and rank, with every linear map as target, as costmodel counts them."""
    stated = job.workload.adapters
    if stated is None:
        return []
    count, rank = round(stated.count), round(stated.rank)
    remarks.note(f"name the {count} adapters: --lora-paths NAME=PATH …")
    slots = [f"--max-loras-per-batch {count}", f"--max-lora-rank {rank}"]
    return ["--enable-lora", *slots, "--lora-target-modules all"]
