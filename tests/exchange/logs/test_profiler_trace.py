"""Traces of PyTorch's profiler: time by kind of kernel, exposed communication, and texts that are no trace."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from costmodel.exchange.logs import profiler_trace
from costmodel.exchange.logs.profiler_trace import profiled_step
from costmodel.ground.errors import CostModelError

DEGREES = {"tp": 8.0, "dp": 4.0, "pp": 1.0}


def kernel(name: str, start: float, length: float, stream: int = 7, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": length, "args": args}


def marked(number: int, start: float, length: float) -> dict[str, Any]:
    name = f"ProfilerStep#{number}"
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 9, "tid": 9, "ts": start, "dur": length}


# Two steps of 100 us: 40 of products, 20 of attention, 10 of others, 5 of the optimizer; an all-gather of 30 us of tp,
# of which 10 run beside products, and a reduce-scatter of 10 us of dp within the all-gather.
def events(start: float) -> list[dict[str, Any]]:
    of_tp, of_dp = (
        {"Process Group Description": name, "Group size": size} for name, size in (("mesh_tp", 8), ("mesh_dp_shard", 4))
    )
    return [
        kernel("sm90_xmma_gemm_bf16bf16", start, 40),
        kernel("ncclDevKernel_AllGather_RING_LL", start + 30, 30, 20, **of_tp),
        kernel("ncclDevKernel_ReduceScatter_Sum", start + 45, 10, 24, **of_dp),
        kernel("flash_fwd_kernel", start + 60, 20),
        kernel("triton_poi_fused_add", start + 80, 10),
        kernel("multi_tensor_apply_kernel", start + 90, 5),
    ]


def written(folder: Path, found: Any, name: str = "rank-0.pt.trace.json") -> str:
    path = folder / name
    path.write_text(json.dumps(found))
    return str(path)


def whole() -> dict[str, Any]:
    steps = [marked(1, 0, 100), marked(2, 100, 100)]
    before = kernel("sm90_xmma_gemm", -50, 20)
    return {"schemaVersion": 1, "traceEvents": [*steps, before, *events(0), *events(100), {"ph": "M", "name": "x"}]}


def test_terms_are_those_of_the_kernels_and_add_up_to_the_step(tmp_path: Path) -> None:
    found = profiled_step(written(tmp_path, whole()), DEGREES)
    us = {name: pytest.approx(value * 1e-6) for name, value in {
        "matmul": 40, "attention": 20, "memory_bound": 10, "optimizer": 5, "tp_exposed": 10, "tp_time": 30,
        "dp_exposed": 10, "dp_time": 10, "launch": 5,
    }.items()}  # fmt: skip
    assert found.terms == us
    assert found.step == pytest.approx(100e-6)
    assert sum(value for name, value in found.terms.items() if not name.endswith("_time")) == pytest.approx(found.step)


SUMMARY = """\
Generating SQLite file p.sqlite from p.nsys-rep

Time (%),Total Time ({unit}),Instances,Avg ({unit}),Med ({unit}),Min ({unit}),Max ({unit}),StdDev ({unit}),Name
{rows}

"""


def summary(folder: Path, unit: str = "ns", scale: float = 1e3) -> str:
    """What Nsight Systems sums up of the two steps of `whole`; times in us, times the scale."""
    times: dict[str, float] = {}
    for event in (*events(0), *events(100)):
        times[event["name"]] = times.get(event["name"], 0) + event["dur"] * scale
    rows = "\n".join(f'1.0,{time},2,1,1,1,1,0.0,"{name}(int, float*)"' for name, time in times.items())
    path = folder / "kernels.csv"
    path.write_text(SUMMARY.format(unit=unit, rows=rows), "utf-8")
    return str(path)


@pytest.mark.parametrize(("unit", "scale"), [("ns", 1e3), ("us", 1), ("ms", 1e-3)])
def test_a_summary_of_nsight_has_the_kernels_of_the_trace(unit: str, scale: float, tmp_path: Path) -> None:
    """The same kernels give the same terms; with data parallelism alone, all communication is of its axis."""
    degrees = {"tp": 1.0, "dp": 32.0, "pp": 1.0}
    found, traced = (
        profiled_step(summary(tmp_path, unit, scale), degrees, 2),
        profiled_step(written(tmp_path, whole()), DEGREES),
    )
    for name in ("matmul", "attention", "memory_bound", "optimizer"):
        assert found.terms[name] == pytest.approx(traced.terms[name], rel=1e-9)
    assert found.terms["dp_time"] == pytest.approx(40e-6, rel=1e-9)
    assert (found.step, "launch" in found.terms, "dp_exposed" in found.terms) == (None, False, False)
    several = profiled_step(summary(tmp_path, unit, scale), DEGREES, 2)
    assert not [name for name in several.terms if name.endswith("_time")]
    assert "communication of an unknown group: 4e-05 s a step, in no term" in several.notes


def test_a_summary_of_nsight_needs_its_steps_and_their_time(tmp_path: Path, run: Any) -> None:
    path = summary(tmp_path)
    with pytest.raises(CostModelError, match="does not state its steps"):
        profiled_step(path, DEGREES)
    job = ("diagnose", "llama-3-70b-512")
    assert "--trace" in run(*job, "--from", path).err
    assert "the measured time of the step is missing" in run(*job, "--trace", path, "--steps", "2").err
    assert run(*job, "--trace", path, "--steps", "2", "--step", "20s").code == 1
    traced = written(tmp_path, whole())
    assert "--steps is for a summary" in run(*job, "--trace", traced, "--steps", "2").err


def test_a_compressed_trace_is_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.json.gz"
    path.write_bytes(gzip.compress(json.dumps(whole()).encode()))
    assert profiled_step(str(path), DEGREES) == profiled_step(written(tmp_path, whole()), DEGREES)


def test_communication_of_an_unknown_group_is_stated_and_in_no_term(tmp_path: Path) -> None:
    tree = whole()
    for event in tree["traceEvents"]:
        event.pop("args", None)
    found = profiled_step(written(tmp_path, tree), DEGREES)
    assert not [name for name in found.terms if name.startswith(("tp", "dp"))]
    assert any("no name" in note for note in found.notes)


def test_idle_time_of_a_pipeline_is_its_bubble(tmp_path: Path) -> None:
    found = profiled_step(written(tmp_path, whole()), {**DEGREES, "pp": 4.0})
    assert found.terms["bubble"] == pytest.approx(5e-6)
    assert "launch" not in found.terms


@pytest.mark.parametrize(
    ("tree", "code"),
    [
        ({"nodes": []}, "X001"),
        ([1, 2], "X001"),
        ("text", "X001"),
        ({"traceEvents": events(0)}, "X002"),
        ({"traceEvents": [marked(1, 0, 100)]}, "X002"),
        ({"traceEvents": [marked(1, 0, 100), kernel("gemm", 500, 1)]}, "X002"),
        ({"traceEvents": [marked(1, 0, 100), {"ph": "X", "cat": "kernel", "ts": "0", "dur": -1}]}, "X002"),
    ],
)
def test_what_is_no_trace_of_steps_is_refused_by_name(tmp_path: Path, tree: Any, code: str) -> None:
    with pytest.raises(CostModelError) as error:
        profiled_step(written(tmp_path, tree), DEGREES)
    assert error.value.faults[0].code == code


@pytest.mark.parametrize("data", [b"\x1f\x8bnot gzip", b"[" * 100_000, b"\xff\xfe\x00", b""])
def test_bytes_that_are_no_trace_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(CostModelError):
        profiled_step(str(path), DEGREES)


def test_a_slow_kernel_of_a_trace_is_found_by_diagnose(tmp_path: Path, run: Any) -> None:
    """Products and attention a third slower than predicted: clocks come first."""
    scenario = json.loads(run("estimate", "quickstart", "--json").out)
    predicted = scenario["plans"][0]
    at, found = 0.0, []
    slow = {"matmul": 4 / 3, "attention": 4 / 3}
    names = {
        "matmul": "gemm",
        "attention": "flash_fwd",
        "memory_bound": "triton_poi",
        "optimizer": "multi_tensor_apply",
        "tp_exposed": "ncclDevKernel_AllGather",
        "launch": "",
    }
    for term, name in names.items():
        length = predicted[f"{term}_s"] * slow.get(term, 1.0) * 1e6
        if name:
            found.append(kernel(name, at, length, **{"Process Group Description": "mesh_tp"}))
        at += length
    path = written(tmp_path, {"traceEvents": [marked(5, 0, at), *found]})
    ran = run("diagnose", "quickstart", "--trace", path, "--json")
    answer = json.loads(ran.out)
    assert answer["measured_s"] == pytest.approx(at * 1e-6)
    assert answer["causes"][0]["cause"] == "clocks"


def lines_run(path: str) -> int:
    """How many lines of the reader run for a trace, those of the parser of JSON left out."""
    count = 0

    def of_line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return of_line

    def of_call(frame: FrameType, event: str, arg: Any) -> Any:
        return of_line if frame.f_code.co_filename == profiler_trace.__file__ else None

    before = sys.gettrace()
    sys.settrace(of_call)
    try:
        profiled_step(path, DEGREES)
    finally:
        sys.settrace(before)
    return count


def of_steps(count: int, kernels: int, length: float) -> dict[str, Any]:
    steps = [marked(number, 1000.0 * number, 1000.0) for number in range(count)]
    names = ("sm90_gemm", "ncclDevKernel_AllReduce_Sum_bf16")
    runs = [kernel(names[number % 2], 1000.0 / kernels * number, length) for number in range(count * kernels)]
    return {"traceEvents": [*steps, *runs]}


@pytest.mark.parametrize("length", [50.0, 40_000.0], ids=["short kernels", "kernels of many steps"])
def test_twice_the_steps_take_twice_the_work(length: float, tmp_path: Path) -> None:
    """Steps and kernels are gone through once, beside each other."""
    few, many = (lines_run(written(tmp_path, of_steps(count, 8, length))) for count in (40, 160))
    assert many < 4.4 * few


def test_a_kernel_counts_in_each_step_that_it_runs_in(tmp_path: Path) -> None:
    """Of steps of 100 us one from 50 to 250 us: 50, 100 and 50 us of a mean step of 100 us."""
    steps = [marked(number, 100.0 * number, 100.0) for number in range(3)]
    others = [kernel("flash_fwd_kernel", 100.0 * number, 10.0) for number in range(3)]
    found = profiled_step(written(tmp_path, [*steps, *others, kernel("sm90_gemm", 50.0, 200.0)]), DEGREES)
    assert found.step == pytest.approx(100e-6)
    assert found.terms["matmul"] == pytest.approx(200e-6 / 3)
    assert found.terms["attention"] == pytest.approx((10 + 0 + 0) * 1e-6 / 3)  # the other two run beside products


def test_a_packed_trace_is_unpacked_so_far_and_no_farther(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rank-0.json.gz"
    path.write_bytes(gzip.compress(json.dumps(whole()).encode() + b" " * 1_000_000))
    monkeypatch.setattr(profiler_trace, "_UNPACKED", 50_000)
    with pytest.raises(
        CostModelError, match=r"unpacks to over .* MB, 200 times its size, and no more is read"
    ) as raised:
        profiled_step(str(path), DEGREES)
    (fault,) = raised.value.faults
    assert (fault.code, "record fewer steps" in fault.hint) == ("X010", True)
    monkeypatch.setattr(profiler_trace, "LARGEST", 10_000)
    for name in (path, tmp_path / "plain.json"):
        (tmp_path / "plain.json").write_text(json.dumps(whole()) + " " * 20_000)
        with pytest.raises(CostModelError, match="over 0 MB, and no more is read"):
            profiled_step(str(name), DEGREES)


def test_an_event_that_starts_later_than_any_clock_shows_is_left_out(tmp_path: Path) -> None:
    tree = whole()
    expected = profiled_step(written(tmp_path, tree), DEGREES)
    tree["traceEvents"].append(kernel("sm90_xmma_gemm", 10**400, 5))
    tree["traceEvents"].append(kernel("sm90_xmma_gemm", 50, 10**400))
    assert profiled_step(written(tmp_path, tree, "late.json"), DEGREES) == expected
