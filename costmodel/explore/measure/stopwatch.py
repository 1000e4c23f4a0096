"""Timing of PyTorch operations: warmed up, with operands that were not just used, by the median of repeats."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from costmodel.errors import Place, fail

COPIES_OVER_CACHE = 3.0
MOST_COPIES = 64
CACHE = 126e6  # of B200, the largest last-level cache in hardware/accelerators


@dataclass(frozen=True)
class Device:
    """Where is measured, and what is noted about it."""

    name: str
    kind: str
    driver: str
    torch: str
    clock_mhz: float | None

    @property
    def is_processor(self) -> bool:
        """Whether the figures are those of a CPU."""
        return self.kind == "cpu"


def torch_module() -> Any:
    """PyTorch, or a fault that says how to get it."""
    try:
        import torch
    except ImportError:
        hint = "pip install 'llm-costmodel[measure]'"
        raise fail("C009", "measure needs PyTorch, which is not installed", Place("command line"), hint) from None
    return torch


def device(kind: str | None) -> Device:
    """The device asked for, else a GPU if there is one, else the processor."""
    torch = torch_module()
    gpu = bool(torch.cuda.is_available())
    kind = kind or ("cuda" if gpu else "cpu")
    if kind == "cuda" and not gpu:
        raise fail("C009", "PyTorch finds no GPU", Place("command line"), "--device cpu measures the processor")
    if kind == "cpu":
        import platform

        return Device(platform.processor() or platform.machine(), kind, "", str(torch.__version__), None)
    clock = float(torch.cuda.clock_rate()) if hasattr(torch.cuda, "clock_rate") else None
    return Device(torch.cuda.get_device_name(), kind, _driver(), str(torch.__version__), clock)


def _driver() -> str:
    import subprocess

    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def copies(nbytes: float) -> int:
    """How many sets of operands to go round, so that none is still in a cache when its turn comes again."""
    return int(min(MOST_COPIES, max(2.0, -(-COPIES_OVER_CACHE * CACHE // max(nbytes, 1.0)))))


def median_time(kind: str, calls: Sequence[Callable[[], object]], repeats: int) -> float:
    """Seconds of one call: every call once to warm up, then the median over `repeats` rounds of all of them."""
    torch = torch_module()
    for call in calls:
        call()
    rounds = [_round(torch, kind, calls) for _ in range(repeats)]
    return statistics.median(rounds) / len(calls)


def _round(torch: Any, kind: str, calls: Sequence[Callable[[], object]]) -> float:
    if kind == "cpu":
        began = time.perf_counter()
        for call in calls:
            call()
        return time.perf_counter() - began
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for call in calls:
        call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3
