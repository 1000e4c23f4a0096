"""Cache on the host as options of engines: a size of each rank or of all, or a multiple of the device's pool."""

from __future__ import annotations

from costmodel.exchange.exporters.engines.serving_job import ServingJob
from costmodel.exchange.exporters.job import Remarks
from costmodel.exchange.importers.serving.host_caches import GB

_KEY = "stack.host_cache"


def host_bytes(job: ServingJob, remarks: Remarks, option: str) -> float:
    """Memory of the host for each rank; 0 where the engine keeps nothing there."""
    stated = job.engine.host_cache
    if stated is None or not stated.kept:
        return 0.0
    if stated.size is None:
        remarks.refuse(_KEY, f"a ratio of {stated.ratio:g}: {option} is a size", f"state {_KEY}.size instead of ratio")
        return 0.0
    return stated.size


def sglang_host_cache(job: ServingJob, remarks: Remarks) -> list[str]:
    """The switch, and a size in whole GB or a ratio."""
    stated = job.engine.host_cache
    if stated is None or not stated.kept:
        return []
    words = ["--enable-hierarchical-cache"]
    if stated.size is None:
        return [*words, f"--hicache-ratio {stated.ratio:g}"]
    if stated.size % GB:
        least = int(stated.size // GB)
        hint = f"--set {_KEY}.size='{least} GB', or '{least + 1} GB'"
        remarks.refuse(_KEY, "--hicache-size takes whole GB of each rank", hint)
    return [*words, f"--hicache-size {stated.size / GB:.0f}"]
