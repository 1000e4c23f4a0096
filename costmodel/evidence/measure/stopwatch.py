"""Times PyTorch operations: after warm-up, with cold operands, by the median of repeats."""

from __future__ import annotations

import contextlib
import math
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from costmodel.ground.errors import Place, fail, install_command
from costmodel.ground.record import record

COPIES_OVER_CACHE = 3.0
MOST_COPIES, COPIES_ON_A_PROCESSOR = 64, 2
CACHE = 256e6  # behind the L2 of MI300X, the largest of any accelerator in hardware/accelerators
LEAD, MOST_LEADS = 4096, 256
LOAD, LOADED = 16384, 1.5


@record
class Device:
    """The device of a measurement, and facts about it."""

    name: str
    kind: str
    driver: str
    torch: str

    @property
    def is_processor(self) -> bool:
        """Whether the device is a CPU."""
        return self.kind == "cpu"


class MeasurementStopped(Exception):
    """The user asked to stop."""


class HostIsSlower(Exception):
    """The GPU finishes calls sooner than the host can issue them, so that their time is the host's."""


def torch_module() -> Any:
    """PyTorch, or a fault with the command to install it."""
    try:
        import torch
    except ImportError:
        hint = install_command("torch>=2.6")
        raise fail("C009", "measure needs PyTorch, which is not installed", Place("command line"), hint) from None
    return torch


def device(kind: str | None) -> Device:
    """The requested device, else a GPU if there is one, else the CPU."""
    torch = torch_module()
    gpu = bool(torch.cuda.is_available())
    kind = kind or ("cuda" if gpu else "cpu")
    if kind == "cuda" and not gpu:
        raise fail("C009", "PyTorch finds no GPU", Place("command line"), "--device cpu measures the processor")
    if kind == "cpu":
        import platform

        return Device(platform.processor() or platform.machine(), kind, "", str(torch.__version__))
    rocm = torch.version.hip
    driver = f"ROCm {rocm}" if rocm else _ask_nvidia_smi(torch, "driver_version")
    return Device(torch.cuda.get_device_name(), kind, driver, str(torch.__version__))


def _ask_nvidia_smi(torch: Any, field: str) -> str:
    """Output of nvidia-smi for the GPU in use; empty where it is not installed or reports nothing."""
    uuid = str(getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", ""))
    which = f"GPU-{uuid.removeprefix('GPU-')}" if uuid else "0"
    asked = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits", f"--id={which}"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def clock_under_load(kind: str) -> float | None:
    """Clock of the multiprocessors while they multiply, MHz; None where the device does not report it."""
    if kind == "cpu":
        return None
    torch = torch_module()
    with contextlib.suppress(RuntimeError):  # a part too small for it, which has too little memory
        operand = torch.randn(LOAD, LOAD, device=kind, dtype=torch.bfloat16)
        seconds = _seconds_of_product(torch, operand)
        for _ in range(math.ceil(LOADED / seconds)):
            operand @ operand
        clock = _clock(torch)
        torch.cuda.synchronize()
        return clock
    return None


def _clock(torch: Any) -> float | None:
    """Clock from NVML or AMD's SMI if their Python packages are installed, else from nvidia-smi."""
    with contextlib.suppress(Exception):
        return float(torch.cuda.clock_rate())
    with contextlib.suppress(ValueError):
        return float(_ask_nvidia_smi(torch, "clocks.sm"))
    return None


def _seconds_of_product(torch: Any, operand: Any) -> float:
    """Time of a square product on the GPU, without its first call."""
    operand @ operand
    torch.cuda.synchronize()
    began = time.perf_counter()
    operand @ operand
    torch.cuda.synchronize()
    return time.perf_counter() - began


def copies(nbytes: float, kind: str = "cuda") -> int:
    """Number of operand sets, so that none is still in a cache when it is used again."""
    most = COPIES_ON_A_PROCESSOR if kind == "cpu" else MOST_COPIES
    return int(min(most, max(2.0, -(-COPIES_OVER_CACHE * CACHE // max(nbytes, 1.0)))))


class Stopwatch:
    """Times calls on a device.

    A GPU is kept busy while the host enqueues the timed calls; otherwise small kernels would show the host time.
    """

    def __init__(self, kind: str, stopped: Callable[[], bool] = lambda: False) -> None:
        self._kind, self._stopped, self._torch = kind, stopped, torch_module()
        if kind != "cpu":
            self._lead = self._torch.randn(LEAD, LEAD, device=kind, dtype=self._torch.bfloat16)
            self._lead_time = _seconds_of_product(self._torch, self._lead)

    def median_time(self, calls: Sequence[Callable[[], object]], repeats: int) -> float:
        """Seconds of one call: every call once to warm up, then the median over `repeats` rounds of all of them."""
        self._run(calls)
        if self._kind == "cpu":
            rounds = [self._run(calls) for _ in range(repeats)]
        else:
            self._torch.cuda.synchronize()
            rounds = self._rounds_on_gpu(calls, repeats, math.ceil(self._run(calls) / self._lead_time) + 1)
        return statistics.median(rounds) / len(calls)

    def _rounds_on_gpu(self, calls: Sequence[Callable[[], object]], repeats: int, leads: int) -> list[float]:
        """Seconds of every round; starts again with twice the leading calls if the host is too slow."""
        rounds: list[float] = []
        while len(rounds) < repeats:
            seconds, caught_up = self._on_gpu(calls, min(leads, MOST_LEADS))
            if not caught_up:
                rounds.append(seconds)
            elif leads < MOST_LEADS:
                rounds, leads = [], 2 * leads
            else:
                raise HostIsSlower
        return rounds

    def _run(self, calls: Sequence[Callable[[], object]]) -> float:
        """Seconds that the host needs to launch the calls."""
        began = time.perf_counter()
        for call in calls:
            if self._stopped():
                raise MeasurementStopped
            call()
        return time.perf_counter() - began

    def _on_gpu(self, calls: Sequence[Callable[[], object]], leads: int) -> tuple[float, bool]:
        """Seconds between two events, and whether the GPU reached the first before the host had issued all calls."""
        cuda = self._torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        for _ in range(leads):
            self._lead @ self._lead
        calls[-1]()
        start.record()
        self._run(calls)
        caught_up = bool(start.query())
        end.record()
        cuda.synchronize()
        return float(start.elapsed_time(end)) / 1e3, caught_up
