"""A profile of a step: its time by what its kernels do, and the communication that nothing hides.

Of PyTorch's profiler, whose text is that of Chrome's trace viewer. Of each recorded step the kernels of one device are
added up; where kernels of several streams run at one time, the time is that of the compute.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from costmodel.exchange.logs.kernel_kinds import axis_of, kernel_kind
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

LARGEST = 1_500_000_000  # bytes of a trace as text
_MICROSECOND = 1e-6
_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
COMPUTED = ("matmul", "attention", "memory_bound", "optimizer")
_STEP = "ProfilerStep#"


@record
class ProfiledStep:
    """Seconds of the mean recorded step, its terms, and what has to be known of how they were read."""

    step: float
    terms: dict[str, float]
    notes: tuple[str, ...]


class _KernelRun(NamedTuple):
    """A kernel's run on the device, in microseconds, and what it did: a kind, or the axis it communicated on."""

    start: float
    end: float
    kind: str


def profiled_step(path: str, degrees: Mapping[str, float]) -> ProfiledStep:
    """The mean step of a trace; degrees: of the plan by axis, which distinguish groups without a name.

    Raises:
        CostModelError: X001 where the file is no such trace, X002 where it has no steps or no kernels, X010 where it
            is too long
    """
    data = _data(path)
    events = _events(path, data)
    steps = _steps(path, events)
    return _of_steps(path, steps, *_runs(path, events, degrees), degrees)


def _of_steps(
    path: str,
    steps: list[tuple[float, float]],
    device: object,
    runs: list[_KernelRun],
    degrees: Mapping[str, float],
) -> ProfiledStep:
    """The mean of recorded steps, from what runs within them."""
    spans = [(start, end) for start, end in steps if any(start <= run.start < end for run in runs)]
    if not spans:
        raise fail("X002", "no kernel runs within a recorded step", Place(path), "record with ProfilerActivity.CUDA")
    times: defaultdict[str, float] = defaultdict(float)
    for start, end in spans:
        within = [_KernelRun(max(run.start, start), min(run.end, end), run.kind) for run in runs]
        for name, time in _terms([run for run in within if run.start < run.end]).items():
            times[name] += time * _MICROSECOND / len(spans)
    step = sum(end - start for start, end in spans) * _MICROSECOND / len(spans)
    return ProfiledStep(step, *_as_terms(times, step, len(spans), device, degrees))


def _data(path: str) -> bytes:
    """The bytes of a trace, unpacked."""
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise fail("D001", f"the file cannot be read: {reason}", Place(path), "name a trace that is there") from None
    if len(data) > LARGEST:
        raise fail("X010", f"the trace is over {LARGEST / 1e9:.1f} GB", Place(path), "record fewer steps")
    return data


def _events(path: str, data: bytes) -> list[Mapping[str, Any]]:
    """The complete events of a trace."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        hint = "a .json or .json.gz that torch.profiler's export_chrome_trace or tensorboard_trace_handler wrote"
        raise fail("X001", "this is no trace of PyTorch's profiler", Place(path), hint) from None
    found = tree.get("traceEvents") if isinstance(tree, dict) else tree
    if not isinstance(found, list) or not any(isinstance(event, dict) and "ph" in event for event in found):
        host = isinstance(tree, dict) and "nodes" in tree
        hint = "a host trace has no kernels: link and convert it, or give the profiler's own trace" if host else ""
        raise fail("X001", "this is no trace of PyTorch's profiler: it has no traceEvents", Place(path), hint)
    return [event for event in found if isinstance(event, dict) and event.get("ph") == "X" and _timed(event)]


def _timed(event: Mapping[str, Any]) -> bool:
    """Whether an event has a start and a length that can be times."""
    start, length = event.get("ts"), event.get("dur")
    if not isinstance(start, int | float) or not isinstance(length, int | float):
        return False
    return math.isfinite(start) and 0 <= length < 1e12


def _steps(path: str, events: Iterable[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Start and end of each recorded step, in microseconds."""
    found = {}
    for event in events:
        name = event.get("name")
        if isinstance(name, str) and name.startswith(_STEP) and event.get("cat") == "user_annotation":
            found[name] = (float(event["ts"]), float(event["ts"]) + float(event["dur"]))
    if not found:
        hint = "call prof.step() at the end of every training step"
        raise fail("X002", f"no step is marked in the trace: it has no {_STEP}…", Place(path), hint)
    return sorted(found.values())


def _runs(
    path: str, events: Iterable[Mapping[str, Any]], degrees: Mapping[str, float]
) -> tuple[object, list[_KernelRun]]:
    """The runs of kernels of the device that has most of them."""
    on_device: defaultdict[object, list[_KernelRun]] = defaultdict(list)
    for event in events:
        if str(event.get("cat")).lower() not in _ON_DEVICE:
            continue
        detail = event.get("args") if isinstance(event.get("args"), dict) else {}
        start, name = float(event["ts"]), str(event.get("name"))
        kind = kernel_kind(name) if str(event.get("cat")).lower() == "kernel" else "memory_bound"
        if kind == "communication":
            kind = f"axis {_axis(name, detail or {}, degrees)}"
        on_device[str(event.get("pid"))].append(_KernelRun(start, start + float(event["dur"]), kind))
    if not on_device:
        raise fail("X002", "no kernel ran on a device", Place(path), "record with ProfilerActivity.CUDA")
    return max(on_device.items(), key=lambda item: len(item[1]))


def _axis(name: str, detail: Mapping[str, Any], degrees: Mapping[str, float]) -> str:
    """The axis of a communication kernel."""
    size = detail.get("Group size")
    group = detail.get("Process Group Description")
    named = group if isinstance(group, str) else ""
    return axis_of(name, named, size if isinstance(size, int) else 0, degrees)


def _terms(runs: list[_KernelRun]) -> dict[str, float]:
    """Time by kind: compute as it runs; communication whole, and its part that no compute hides; and idle time."""
    compute = [run for run in runs if not run.kind.startswith("axis ")]
    found: defaultdict[str, float] = defaultdict(float)
    busy: list[tuple[float, float]] = []
    for run in sorted(compute):
        start = max(run.start, busy[-1][1]) if busy else run.start  # a second stream counts where the first is idle
        if run.end > start:
            found[run.kind] += run.end - start
            busy.append((start, run.end))
    hidden = merged(busy)
    axes = sorted({run.kind for run in runs} - {run.kind for run in compute})
    for axis in axes:
        spans = merged([(run.start, run.end) for run in runs if run.kind == axis])
        found[f"{axis} whole"] = _length(spans)
        found[f"{axis} exposed"] = _length(spans) - _overlap(spans, hidden)
        hidden = merged([*hidden, *spans])
    found["busy"] = _length(hidden)
    return dict(found)


def merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Spans of time without overlap.

    >>> merged([(3.0, 5.0), (0.0, 2.0), (1.0, 2.5)])
    [(0.0, 2.5), (3.0, 5.0)]
    """
    found: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _length(spans: Iterable[tuple[float, float]]) -> float:
    return sum(end - start for start, end in spans)


def _overlap(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> float:
    """Time that two lists of merged spans have in common."""
    total, at = 0.0, 0
    for start, end in one:
        while at < len(other) and other[at][1] <= start:
            at += 1
        for left, right in other[at:]:
            if left >= end:
                break
            total += max(min(end, right) - max(start, left), 0.0)
    return total


def _as_terms(
    times: Mapping[str, float], step: float, steps: int, device: object, degrees: Mapping[str, float]
) -> tuple[dict[str, float], tuple[str, ...]]:
    """The terms of a step as estimate names them, and what was not one of them."""
    notes = [f"mean of {steps} recorded step{'s' if steps > 1 else ''} of device {device}"]
    terms = {kind: times.get(kind, 0.0) for kind in COMPUTED}
    used = [axis for axis, degree in degrees.items() if degree > 1]
    unnamed = times.get("axis  whole", 0.0)
    for axis in used:
        if f"axis {axis} whole" in times or not unnamed:
            terms[f"{axis}_exposed"] = times.get(f"axis {axis} exposed", 0.0)
            terms[f"{axis}_time"] = times.get(f"axis {axis} whole", 0.0)
    idle = max(step - times.get("busy", 0.0), 0.0)
    terms["bubble" if degrees.get("pp", 1) > 1 else "launch"] = idle
    for axis in (name.split(" ")[1] for name in sorted(times) if name.endswith(" exposed")):
        if axis not in used:
            whose = f"of {axis}, which the plan does not use" if axis else "whose group has no name"
            notes.append(f"communication {whose}: {times[f'axis {axis} exposed']:.3g} s exposed, in no term")
    return terms, tuple(notes)
