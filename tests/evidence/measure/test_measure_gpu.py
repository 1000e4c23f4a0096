"""What `measure` asks of a GPU, of one that is played: clocks, events, time that is up, memory that is short."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from costmodel.evidence.measure import measure, stopwatch
from costmodel.evidence.measure.measure import BRIEF, OperatorTrial, Session, Timing
from costmodel.evidence.measure.stopwatch import Device, MeasurementStopped, Stopwatch

H100 = Device("NVIDIA H100 80GB HBM3", "cuda", "580.1", "2.15.0")


class Memory(RuntimeError):
    """torch.cuda.OutOfMemoryError."""


class Tensor:
    """Notes what is multiplied."""

    def __init__(self, done: list[str]) -> None:
        self.done = done

    def __matmul__(self, other: Tensor) -> Tensor:
        self.done.append("product")
        return self


class Event:
    """A moment on the GPU: how much was done by then, a millisecond each."""

    def __init__(self, done: list[str], slow_host: int, enable_timing: bool) -> None:
        assert enable_timing
        self.done, self.slow_host, self.began, self.at = done, slow_host, len(done), 0

    def record(self) -> None:
        self.at = len(self.done)

    def query(self) -> bool:
        """Whether the GPU is past this moment: as soon as it has done fewer things before it than `slow_host`."""
        return self.at - self.began < self.slow_host

    def elapsed_time(self, end: Event) -> float:
        return float(end.at - self.at)


def _no_nvml(*_: object) -> int:
    raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed or it can't be imported.")


def torch_of(
    *, hip: str | None = None, clock: Callable[..., int] = _no_nvml, uuid: str = "", slow_host: int = 0
) -> Any:
    """As much of PyTorch as is called beside the operators themselves."""
    done: list[str] = []
    cuda = SimpleNamespace(
        is_available=lambda: True,
        get_device_name=lambda: H100.name,
        get_device_properties=lambda _: SimpleNamespace(**({"uuid": uuid} if uuid else {})),
        current_device=lambda: 0,
        clock_rate=clock,
        synchronize=lambda: None,
        empty_cache=lambda: done.append("emptied"),
        Event=lambda enable_timing: Event(done, slow_host, enable_timing),
        OutOfMemoryError=Memory,
    )
    return SimpleNamespace(
        __version__="2.15.0",
        __spec__=None,
        version=SimpleNamespace(hip=hip),
        cuda=cuda,
        bfloat16="bf16",
        randn=lambda *_, device, dtype: Tensor(done),
        done=done,
    )


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """PyTorch on a GPU of NVIDIA, without NVML."""
    return _played(monkeypatch, torch_of(uuid="1b2c"))


def _played(monkeypatch: pytest.MonkeyPatch, torch: Any) -> Any:
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(stopwatch.time, "perf_counter", iter(range(100_000)).__next__)
    return torch


def _smi(monkeypatch: pytest.MonkeyPatch, answers: dict[str, str]) -> list[list[str]]:
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> Any:
        asked.append(command)
        if not answers:
            raise FileNotFoundError(command[0])
        return SimpleNamespace(stdout=answers[command[1]])

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def test_driver_and_clock_are_those_of_nvidia_smi(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the GPU in use, whatever CUDA_VISIBLE_DEVICES makes of its number."""
    answers = {"--query-gpu=driver_version": "580.1\n", "--query-gpu=clocks.sm": "1755\n"}
    asked = _smi(monkeypatch, answers)
    assert stopwatch.device(None) == H100
    assert stopwatch.clock_under_load("cuda") == 1755.0
    assert all(command[0] == "nvidia-smi" and command[-1] == "--id=GPU-1b2c" for command in asked)


def test_the_clock_is_read_while_the_gpu_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = _played(monkeypatch, torch_of(clock=lambda: len(torch.done)))
    assert stopwatch.clock_under_load("cuda") == len(torch.done) >= 4


@pytest.mark.parametrize("answer", ["", "[N/A]", "[Not Supported]"])
def test_without_a_clock_none_is_noted(torch: Any, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    _smi(monkeypatch, {"--query-gpu=clocks.sm": answer} if answer else {})
    assert stopwatch.clock_under_load("cuda") is None
    assert stopwatch.clock_under_load("cpu") is None


def test_a_gpu_of_amd_needs_none_of_nvidias_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    _played(monkeypatch, torch_of(hip="7.1"))
    _smi(monkeypatch, {})
    assert stopwatch.device("cuda").driver == "ROCm 7.1"
    assert stopwatch.clock_under_load("cuda") is None


def test_a_part_short_of_memory_has_no_clock(torch: Any) -> None:
    def short(*_: object, **__: object) -> None:
        raise Memory

    torch.randn = short
    assert stopwatch.clock_under_load("cuda") is None


def test_only_the_calls_lie_between_the_events(torch: Any) -> None:
    """Products before them keep the GPU busy while the host hands it the calls; each takes a millisecond."""
    calls = [lambda: torch.done.append("call") for _ in range(5)]
    assert Stopwatch("cuda").median_time(calls, 3) == pytest.approx(1e-3)
    assert torch.done.count("call") == 5 + 5 + 3 * (1 + 5)
    assert torch.done.index("product") < torch.done.index("call")


@pytest.mark.parametrize("slow_host", [2, 20, 200])
def test_a_slow_host_gets_more_time_ahead(monkeypatch: pytest.MonkeyPatch, slow_host: int) -> None:
    """The GPU must still be at the products before the calls when the host has issued the last call."""
    torch = _played(monkeypatch, torch_of(slow_host=slow_host))
    assert Stopwatch("cuda").median_time([lambda: torch.done.append("call")] * 5, 3) == pytest.approx(1e-3)
    events = "".join("p" if each == "product" else "c" for each in torch.done)
    rounds = [len(ahead) for ahead in events.split("c") if ahead]
    assert rounds[-1] == rounds[-2] == rounds[-3]
    assert slow_host <= rounds[-1] + 1 <= max(4, 2 * slow_host)


def test_a_host_slower_than_the_gpu_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = _played(monkeypatch, torch_of(slow_host=10**6))

    def timed(shape: Timing) -> Timing:
        Stopwatch("cuda").median_time([lambda: torch.done.append("call")], 3)
        raise AssertionError

    rows = _measured(monkeypatch, _part(timed, 1), _session())
    assert [row["skipped"] for row in rows] == ["the GPU is done before the host can issue the next call"]


def test_calls_stop_when_asked_to(torch: Any) -> None:
    with pytest.raises(MeasurementStopped):
        Stopwatch("cuda", lambda: len(torch.done) > 4).median_time([lambda: torch.done.append("call")] * 9, 1)


def _session(seconds: float = 100.0, stopped: Callable[[], bool] = lambda: False) -> Session:
    return Session(H100, BRIEF, seconds, lambda _: None, stopped)


def _part(timed: Callable[[Timing], Timing], *work: float) -> Callable[[Session], Iterator[OperatorTrial]]:
    return lambda _: iter([OperatorTrial(Timing("res_add", l=int(each)), each, timed) for each in work])


def _measured(monkeypatch: pytest.MonkeyPatch, part: Any, session: Session) -> list[dict[str, Any]]:
    monkeypatch.setattr(measure, "PARTS", ((part, 1.0),))
    monkeypatch.setattr(measure, "clock_under_load", lambda _: 1755.0)
    return measure.measured(session).rows


def test_what_would_take_longer_than_is_left_is_skipped(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds a unit of work: 10 and 30 of 100 seconds are spent, then 90 are too many."""
    clock = [0.0]

    def timed(shape: Timing) -> Timing:
        clock[0] += 10.0 * (shape.l or 0)
        return Timing(shape.op, l=shape.l, fwd_us=1.0)

    monkeypatch.setattr(measure.time, "monotonic", lambda: clock[0])
    rows = _measured(monkeypatch, _part(timed, 9, 3, 1), _session())
    assert [(row["l"], row["fwd_us"], row["skipped"]) for row in rows] == [
        (1, 1.0, ""),
        (3, 1.0, ""),
        (9, None, "would take 90.0 s, longer than is left"),
    ]
    assert {row["clock_mhz"] for row in rows} == {1755.0}


def test_what_pytorch_does_not_run_here_is_skipped(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(shape: Timing) -> Timing:
        raise Memory("of 80 GB") if shape.l == 1 else RuntimeError("No viable backend\nat all")

    rows = _measured(monkeypatch, _part(timed, 1, 2), _session())
    assert [row["skipped"] for row in rows] == ["out of memory", "PyTorch: No viable backend"]
    assert torch.done == ["emptied", "emptied"]


def test_stopped_it_writes_what_is_finished(
    torch: Any, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def timed(shape: Timing) -> Timing:
        if shape.l == 2:
            raise MeasurementStopped
        return Timing(shape.op, l=shape.l, fwd_us=1.0)

    _smi(monkeypatch, {})
    monkeypatch.setattr(measure, "PARTS", ((_part(timed, 1, 2), 1.0),))
    ran = run("measure", "-o", str(tmp_path / "mine.csv"))
    assert ran.code == 130
    assert "stopped: 1 rows were finished by then" in ran.err
    with (tmp_path / "mine.csv").open() as file:
        assert [row["l"] for row in csv.DictReader(file)] == ["1"]


@pytest.mark.parametrize(("gpu", "said"), [("h200-sxm", True), ("h100-sxm", False), ("rack-7", False), (None, False)])
def test_the_name_of_another_accelerator_is_questioned(gpu: str | None, said: bool) -> None:
    """A table of one accelerator under the name of another would calibrate the wrong document."""
    sentence = measure.misnamed(H100, gpu)
    assert bool(sentence) == said
    assert not said or ("h100-sxm" in sentence and "h200-sxm" in sentence)


def test_beside_a_layer_stands_what_is_predicted_of_it() -> None:
    """Of an H100 by the name of its driver; of a part nobody described, and of a processor, nothing."""
    block = {"op": "block", "kind": "gpu", "gpu": H100.name, "dim": 4096, "h": 32, "l": 4096}
    rows = [
        block,
        block | {"gpu": "Abacus 3"},
        block | {"gpu": "v100-sxm2-32"},
        block | {"kind": "processor"},
        {"op": "gelu", "gpu": H100.name},
    ]
    first, *others = measure.with_predictions(rows)
    assert others == rows[1:]
    assert 2e3 < first["predicted_fwd_us"] < 6e3
    assert 1.9 < first["predicted_bwd_us"] / first["predicted_fwd_us"] < 2.05  # 2.2 with gradients in fp32


def test_what_is_predicted_of_a_layer_is_of_one_part() -> None:
    """The same of 8 A100 and of 16, of which a step would wait for the slowest."""
    few, many = (measure._layer_from_kernels(node, 4096, 32, 4096) for node in ("a2-highgpu-8g", "a2-megagpu-16g"))
    assert few.total == many.total
