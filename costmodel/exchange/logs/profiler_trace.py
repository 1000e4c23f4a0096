"""A profile of a step: its time by what its kernels do, and the communication that nothing hides.

Of PyTorch's profiler, whose text is that of Chrome's trace viewer. Of each recorded step the kernels of one device are
added up; where kernels of several streams run at one time, the time is that of the compute.
Of Nsight Systems its summary of kernels, a table of names and summed times without steps: what hides behind what is not
in it, so that communication is known as a whole only.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from costmodel.documents.text.files import file_text, opens_files
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

LARGEST = 500_000_000  # bytes of a trace as text
_UNPACKED, _MOST_TIMES = 64_000_000, 200  # bytes that every packed trace may have, and times its size that it may have
_MICROSECOND = 1e-6
_LAST = 1e18  # microseconds that an event may start at; clocks since 1970 show 1.8e15
_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
COMPUTED = ("matmul", "attention", "memory_bound", "optimizer")
_STEP, _MARK = "ProfilerStep#", "user_annotation"
_OTHER = {"ph": ""}


@record
class ProfiledStep:
    """The mean recorded step in seconds, its time by term, and notes on how the trace was read.

    step: none of a summary of kernels
    """

    step: float | None
    terms: dict[str, float]
    notes: tuple[str, ...]


class _KernelRun(NamedTuple):
    """One kernel run on the device, in microseconds, with its kind or the axis on which it communicates."""

    start: float
    end: float
    kind: str


def profiled_step(path: str, degrees: Mapping[str, float], steps: int = 0) -> ProfiledStep:
    """The mean step of a trace; `degrees` (of the plan, by axis) identify communication groups without a name.

    steps: those that a summary of kernels is over, times its GPUs

    Raises:
        CostModelError: X001 where the file is no such trace, X002 where it has no steps or no kernels, X010 where it
            is too long
    """
    data = _decompressed(path)
    head = data[:_PREAMBLE].decode("utf-8", "replace")
    if is_kernel_summary(head):
        return _step_of_summary(path, data.decode("utf-8", "replace"), degrees, steps)
    if steps:
        raise fail(
            "X002", "--steps is for a summary of Nsight Systems; this trace has its steps", Place(path), "leave it out"
        )
    events = _complete_events(path, data)
    recorded = _recorded_steps(path, events)
    return _mean_step(path, recorded, *_kernel_runs(path, events, degrees), degrees)


def _mean_step(
    path: str, steps: list[tuple[float, float]], device: object, runs: list[_KernelRun], degrees: Mapping[str, float]
) -> ProfiledStep:
    """The mean of the recorded steps, from the kernels that run within them."""
    starts = sorted(run.start for run in runs)
    spans = [
        (start, end) for start, end in _cut_overlaps(steps) if bisect_left(starts, end) > bisect_left(starts, start)
    ]
    if not spans:
        raise fail("X002", "no kernel runs within a recorded step", Place(path), "record with ProfilerActivity.CUDA")
    times = {name: time * _MICROSECOND / len(spans) for name, time in _seconds_by_kind(runs, spans).items()}
    step = _total_length(spans) * _MICROSECOND / len(spans)
    return ProfiledStep(step, *_step_terms(times, step, len(spans), device, degrees))


def _cut_overlaps(steps: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Steps cut so that they do not overlap: each starts no earlier than the previous one ends."""
    found: list[tuple[float, float]] = []
    for start, end in steps:
        begun = max(start, found[-1][1]) if found else start
        if begun < end:
            found.append((begun, end))
    return found


def _decompressed(path: str) -> bytes:
    """The bytes of a trace, decompressed up to the size limit."""
    if not opens_files():
        return file_text(path, largest=LARGEST).encode()
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            size = file.seek(0, os.SEEK_END) if packed and file.seekable() else LARGEST
        most = min(LARGEST, max(_UNPACKED, _MOST_TIMES * size))
        with gzip.open(path, "rb") if packed else open(path, "rb") as file:
            data = file.read(most + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise fail("D001", f"the file cannot be read: {reason}", Place(path), "name a trace that is there") from None
    if len(data) > most:
        times = f", {_MOST_TIMES} times its size" if packed and most < LARGEST else ""
        words = f"unpacks to over {most / 1e6:.0f} MB{times}" if packed else f"is over {most / 1e6:.0f} MB"
        hint = "record fewer steps: torch.profiler.schedule(wait=1, warmup=1, active=3)"
        raise fail("X010", f"the trace {words}, and no more is read", Place(path), hint)
    return data


def _complete_events(path: str, data: bytes) -> list[Mapping[str, Any]]:
    """The complete events of a trace, of steps and of kernels."""
    try:
        tree = json.loads(data, object_hook=_relevant_event)
    except (ValueError, RecursionError):
        hint = f"a .json or .json.gz that torch.profiler's export_chrome_trace wrote, or of Nsight Systems: {_COMMAND}"
        raise fail("X001", "this is no trace of PyTorch's profiler", Place(path), hint) from None
    found = tree.get("traceEvents") if isinstance(tree, dict) else tree
    if not isinstance(found, list) or not any(isinstance(event, dict) and "ph" in event for event in found):
        host = isinstance(tree, dict) and "nodes" in tree
        hint = "a host trace has no kernels: link and convert it, or give the profiler's own trace" if host else ""
        raise fail("X001", "this is no trace of PyTorch's profiler: it has no traceEvents", Place(path), hint)
    return [event for event in found if isinstance(event, dict) and event.get("ph") == "X" and _has_times(event)]


def _relevant_event(entry: dict[str, Any]) -> dict[str, Any]:
    """A trace event, or an empty stand-in for host events, which are numerous and not needed."""
    if "ph" not in entry or "traceEvents" in entry:
        return entry
    return entry if str(entry.get("cat")).lower() in (*_ON_DEVICE, _MARK) else _OTHER


def _has_times(event: Mapping[str, Any]) -> bool:
    """Whether an event has a valid start and duration."""
    start, length = event.get("ts"), event.get("dur")
    if not isinstance(start, int | float) or not isinstance(length, int | float):
        return False
    return abs(start) < _LAST and 0 <= length < 1e12


def _recorded_steps(path: str, events: Iterable[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Start and end of each recorded step, in microseconds."""
    found = {}
    for event in events:
        name = event.get("name")
        if isinstance(name, str) and name.startswith(_STEP) and event.get("cat") == _MARK:
            found[name] = (float(event["ts"]), float(event["ts"]) + float(event["dur"]))
    if not found:
        hint = "call prof.step() at the end of every training step"
        raise fail("X002", f"no step is marked in the trace: it has no {_STEP}…", Place(path), hint)
    return sorted(found.values())


def _kernel_runs(
    path: str, events: Iterable[Mapping[str, Any]], degrees: Mapping[str, float]
) -> tuple[object, list[_KernelRun]]:
    """The kernel runs of the device with the most kernels."""
    on_device: defaultdict[object, list[_KernelRun]] = defaultdict(list)
    for event in events:
        if str(event.get("cat")).lower() not in _ON_DEVICE:
            continue
        detail = event.get("args") if isinstance(event.get("args"), dict) else {}
        start, name = float(event["ts"]), str(event.get("name"))
        kind = kernel_kind(name) if str(event.get("cat")).lower() == "kernel" else "memory_bound"
        if kind == "communication":
            kind = f"axis {_kernel_axis(name, detail or {}, degrees)}"
        on_device[str(event.get("pid"))].append(_KernelRun(start, start + float(event["dur"]), kind))
    if not on_device:
        raise fail("X002", "no kernel ran on a device", Place(path), "record with ProfilerActivity.CUDA")
    return max(on_device.items(), key=lambda item: len(item[1]))


def _kernel_axis(name: str, detail: Mapping[str, Any], degrees: Mapping[str, float]) -> str:
    """The axis of a communication kernel."""
    size = detail.get("Group size")
    group = detail.get("Process Group Description")
    named = group if isinstance(group, str) else ""
    return axis_of(name, named, size if isinstance(size, int) else 0, degrees)


def _seconds_by_kind(runs: list[_KernelRun], steps: list[tuple[float, float]]) -> dict[str, float]:
    """Seconds of a profiled step by kind: compute, communication (total and exposed), idle."""
    compute = [run for run in runs if not run.kind.startswith("axis ")]
    pieces: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    busy: list[tuple[float, float]] = []
    for run in sorted(compute):
        start = max(run.start, busy[-1][1]) if busy else run.start  # a second stream counts where the first is idle
        if run.end > start:
            pieces[run.kind].append((start, run.end))
            busy.append((start, run.end))
    found = {kind: _total_length(_common_spans(spans, steps)) for kind, spans in pieces.items()}
    hidden = _common_spans(merged_spans(busy), steps)
    on_axes: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for run in runs:
        if run.kind.startswith("axis "):
            on_axes[run.kind].append((run.start, run.end))
    for axis in sorted(on_axes):
        spans = _common_spans(merged_spans(on_axes[axis]), steps)
        found[f"{axis} whole"] = _total_length(spans)
        found[f"{axis} exposed"] = _total_length(spans) - _total_length(_common_spans(spans, hidden))
        hidden = merged_spans([*hidden, *spans])
    found["busy"] = _total_length(hidden)
    return found


def merged_spans(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Spans of time without overlap.

    >>> merged_spans([(3.0, 5.0), (0.0, 2.0), (1.0, 2.5)])
    [(0.0, 2.5), (3.0, 5.0)]
    """
    found: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _total_length(spans: Iterable[tuple[float, float]]) -> float:
    return sum(end - start for start, end in spans)


def _common_spans(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The spans of time that two lists of spans have in common; each list is sorted and without overlap.

    >>> _common_spans([(0.0, 4.0), (5.0, 6.0)], [(1.0, 2.0), (3.0, 5.5)])
    [(1.0, 2.0), (3.0, 4.0), (5.0, 5.5)]
    """
    found, left, right = [], 0, 0
    while left < len(one) and right < len(other):
        start, end = max(one[left][0], other[right][0]), min(one[left][1], other[right][1])
        if start < end:
            found.append((start, end))
        if one[left][1] < other[right][1]:
            left += 1
        else:
            right += 1
    return found


def _step_terms(
    times: Mapping[str, float], step: float, steps: int, device: object, degrees: Mapping[str, float]
) -> tuple[dict[str, float], tuple[str, ...]]:
    """The terms of a step under the names that `estimate` prints, and notes on the rest."""
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


# --- the summary of kernels of Nsight Systems


_COMMAND = "nsys stats --report cuda_gpu_kern_sum --format csv -o kernels profile.nsys-rep"
_PREAMBLE = 4_000  # letters before the table: lines on the files that were written
_SUMMED = re.compile(r'^"?Time \(%\)"?,"?Total Time \((?P<unit>[^)]+)\)"?,"?Instances"?,.*\bName"?\s*$', re.MULTILINE)
_UNITS = {"ns": 1e-9, "us": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0} | {
    "nsec": 1e-9,
    "usec": 1e-6,
    "msec": 1e-3,
}


def is_kernel_summary(text: str) -> bool:
    """Whether a text begins with the kernel summary of Nsight Systems, perhaps after lines on its files.

    >>> is_kernel_summary("Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name")
    True
    """
    return _SUMMED.search(text) is not None


def _step_of_summary(path: str, text: str, degrees: Mapping[str, float], steps: int) -> ProfiledStep:
    """A step of a summary of kernels: each kind's time over the steps, and communication hidden or not."""
    if steps <= 0:
        hint = "add --steps N, the recorded steps (times the GPUs in the profile), and --step TIME"
        raise fail("X002", "a summary of Nsight Systems does not state its steps", Place(path), hint)
    times: defaultdict[str, float] = defaultdict(float)
    for name, time in _summed_kernels(path, text):
        kind = kernel_kind(name)
        times[f"axis {axis_of(name, '', 0, degrees)}" if kind == "communication" else kind] += time / steps
    if not times:
        raise fail("X002", "the summary has no kernels", Place(path), _COMMAND)
    terms = {kind: times.get(kind, 0.0) for kind in COMPUTED}
    used = {axis for axis, degree in degrees.items() if degree > 1}
    notes = [f"sums of kernels over {steps:,} steps; which communication is hidden is not in them"]
    for axis, time in ((name.removeprefix("axis "), time) for name, time in times.items() if name.startswith("axis ")):
        if axis in used:
            terms[f"{axis}_time"] = time
        else:
            notes.append(f"communication of an unknown group: {time:.3g} s a step, in no term")
    return ProfiledStep(None, terms, tuple(notes))


def _summed_kernels(path: str, text: str) -> list[tuple[str, float]]:
    """Names of kernels and their summed seconds, up to the end of the table."""
    head = _SUMMED.search(text)
    assert head is not None
    scale, place = _UNITS.get(head["unit"]), Place(path, text[: head.start()].count("\n") + 1, text=head[0].strip())
    if scale is None:
        raise fail("X001", f"the times are in '{head['unit']}'", place, "leave out --timeunit: times in ns")
    found = list[tuple[str, float]]()
    for cells in csv.reader(io.StringIO(text[head.end() :])):
        if found and len(cells) < len(head[0].split(",")):
            break
        try:
            found += [(cells[-1], float(cells[1]) * scale)] if cells else []
        except (ValueError, IndexError):
            raise fail("X001", f"'{','.join(cells)[:60]}' is no row of the summary", Place(path), _COMMAND) from None
    return found


# In this order: the first pattern that a name holds decides. What none holds moves memory, as most other kernels do.
_KINDS = (
    ("communication", re.compile(r"nccl|rccl|deep_?ep|nvshmem", re.IGNORECASE)),
    ("optimizer", re.compile(r"multi_tensor_apply|adam|lamb_|muon|l2norm", re.IGNORECASE)),
    ("attention", re.compile(r"flash|fmha|sdpa|attention|\battn|_attn_", re.IGNORECASE)),
    ("matmul", re.compile(r"gemm|nvjet|cutlass|cublas|Cijk_|xmma|wgmma|matmul|_mm_|\bmma_|gemv", re.IGNORECASE)),
)
# Names that torchtitan's meshes, Megatron's groups and DeepSpeed's give; what shares experts before what shares data,
# and what shares data before the axes whose names stand in its own (dp_shard_cp, DATA_PARALLEL_GROUP_WITH_CP).
_AXES = (
    ("dp", re.compile(r"expert_data|dp_shard|dp_replicate|efsdp|edp\b|data_parallel|fsdp|hsdp|mesh_dp|\bdp\b")),
    ("tp", re.compile(r"tensor|_e?tp\b|\be?tp\b")),
    ("ep", re.compile(r"expert|_ep\b|\bep\b")),
    ("cp", re.compile(r"context|sequence_parallel|_cp\b|\bcp\b|ulysses")),
    ("pp", re.compile(r"pipe|_pp\b|\bpp\b")),
)
_OPERATIONS = {"tp": "allreduce allgather reducescatter", "ep": "alltoall sendrecv", "pp": "sendrecv", "cp": "sendrecv"}


def kernel_kind(name: str) -> str:
    """The kind of a kernel: communication, optimizer, attention, matmul, or memory_bound.

    >>> kernel_kind("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    'communication'
    >>> kernel_kind("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64>>"), kernel_kind("nvjet_hsh_128x256")
    ('attention', 'matmul')
    >>> kernel_kind("triton_poi_fused_add_mul_silu_3")
    'memory_bound'
    """
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "memory_bound")


def axis_of(name: str, group: str, size: int, degrees: Mapping[str, float]) -> str:
    """The parallelism axis of a communication kernel, by its group name, else by size and operation; may be empty.

    degrees: of the plan, by axis; an axis of one rank has no communication.

    >>> axis_of("ncclDevKernel_AllGather_RING_LL", "mesh_dp_shard_cp", 16, {"tp": 8, "dp": 16})
    'dp'
    >>> axis_of("ncclDevKernel_SendRecv", "", 0, {"tp": 8, "pp": 4, "dp": 2})
    'pp'
    >>> axis_of("ncclDevKernel_AllReduce", "default_pg", 8, {"tp": 8, "dp": 8})
    ''
    """
    words = group.lower()
    named = next((axis for axis, pattern in _AXES if pattern.search(words)), "")
    if named:
        return named
    able = [axis for axis, degree in degrees.items() if degree > 1]
    if len(able) > 1:
        able = [axis for axis in able if not size or degrees[axis] == size]
    if len(able) > 1 and "sendrecv" in name.lower():
        able = [axis for axis in able if "sendrecv" in _OPERATIONS.get(axis, "")]
    return able[0] if len(able) == 1 else ""
