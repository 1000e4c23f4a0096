"""Times the operations of a training step on a GPU, for the table that calibrate reads."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

from costmodel.documents.reader.cached_reader import accelerator_named
from costmodel.evidence.measure.operators import OperatorTrial, Session, Timing, attentions, blocks, products, streams
from costmodel.evidence.measure.stopwatch import (
    Device,
    HostIsSlower,
    MeasurementStopped,
    clock_under_load,
    torch_module,
)
from costmodel.ground.record import record

# What is measured, and the share of the time that may be over behind it.
PARTS: tuple[tuple[Callable[[Session], Iterator[OperatorTrial]], float], ...] = (
    (products, 0.45),
    (attentions, 0.7),
    (streams, 0.8),
    (blocks, 1.0),
)
LACKED_TIME = "would take"


@record
class MeasuredKernels:
    """Rows of the table, and whether the user stopped before the last."""

    rows: list[dict[str, Any]]
    stopped: bool


def measured(session: Session) -> MeasuredKernels:
    """Every operation of the spread as a row of the table; skipped ones with the reason."""
    device, rows = session.device, []
    noted = {
        "mp": 1,
        "kind": "processor" if device.is_processor else "gpu",
        "driver": device.driver,
        "torch": device.torch,
        "clock_mhz": clock_under_load(device.kind),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    began = time.monotonic()
    try:
        for part, share in PARTS:
            for timing in _timed(part(session), began + share * session.seconds):
                session.tell(f"{timing.op} {timing.skipped or f'{timing.fwd_us:,.0f} us'}")
                rows.append({"gpu": device.name, **asdict(timing), **noted})
    except MeasurementStopped:
        return MeasuredKernels(rows, stopped=True)
    return MeasuredKernels(rows, stopped=False)


def _timed(trials: Iterator[OperatorTrial], until: float) -> Iterator[Timing]:
    """The trials of a part, smallest first; those that would exceed the remaining time are skipped."""
    pace = 0.0
    for trial in sorted(trials, key=lambda trial: trial.work):
        began = time.monotonic()
        expected = pace * trial.work
        if expected > max(until - began, 0.0):
            yield replace(trial.shape, skipped=f"{LACKED_TIME} {expected:.1f} s, longer than is left")
            continue
        timing = _tried(trial)
        if not timing.skipped:
            pace = (time.monotonic() - began) / trial.work
        yield timing


def _tried(trial: OperatorTrial) -> Timing:
    """The times of a trial, or the reason why PyTorch does not run it."""
    torch = torch_module()
    try:
        return trial.timed(trial.shape)
    except torch.cuda.OutOfMemoryError:
        reason = "out of memory"
    except HostIsSlower:
        reason = "the GPU is done before the host can issue the next call"
    except RuntimeError as error:
        reason = f"PyTorch: {(str(error).splitlines() or [''])[0]}"
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return replace(trial.shape, skipped=reason)


def named(rows: list[dict[str, Any]], gpu: str | None) -> list[dict[str, Any]]:
    """The rows with the user's name for the accelerator."""
    return [row | {"gpu": gpu} for row in rows] if gpu else rows


def misnamed(device: Device, gpu: str | None) -> str:
    """A warning if the driver knows the device as another accelerator than the user; empty otherwise."""
    if gpu is None or device.is_processor:
        return ""
    stated, found = accelerator_named(gpu), accelerator_named(device.name)
    if not stated or not found or stated == found:
        return ""
    return f"the driver calls this device {device.name}, which is {found}; its rows are named {gpu}"
