"""Timing the operations of a step, on the processor: the table is the one calibrate reads."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from costmodel.evidence.measure import measure as operators
from costmodel.evidence.measure.measure import Timing
from costmodel.evidence.measure.stopwatch import CACHE, COPIES_OVER_CACHE, MOST_COPIES, Device, copies

with_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs the extra [measure]")
GPU = Device("NVIDIA H100 80GB HBM3", "cuda", "580.1", "2.15.0")
OPERATIONS = {"linear1", "attention", "res_add", "gelu", "block"}


@pytest.mark.parametrize("nbytes", [1.0, 1e6, 3e7, 1e9])
def test_operands_go_round_further_than_a_cache(nbytes: float) -> None:
    count = copies(nbytes)
    assert 2 <= count <= MOST_COPIES
    assert count == MOST_COPIES or count * nbytes >= COPIES_OVER_CACHE * CACHE


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is installed")
def test_without_pytorch_it_says_how_to_get_it(run: Any) -> None:
    ran = run("measure")
    assert ran.code == 2
    assert "C009" in ran.err
    assert "pip install 'torch>=2.6'" in ran.err


@with_torch
@pytest.mark.filterwarnings("ignore")
def test_the_table_has_every_operation_forward_and_backward(run: Any) -> None:
    ran = run("measure", "--brief", "--device", "cpu", "--gpu", "mine", "--format", "csv")
    assert ran.code == 0, ran.err
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert {row["op"] for row in rows} == OPERATIONS
    assert {row["gpu"] for row in rows} == {"mine"}
    assert {row["kind"] for row in rows} == {"processor"}
    for row in rows:
        assert not row["skipped"]
        assert float(row["fwd_us"]) > 0
        backward = row["op"] != "res_add" and (row["op"] != "linear1" or int(row["m"]) > 1)
        assert not backward or float(row["bwd_us"]) > 0
        assert row["date"]


@with_torch
@pytest.mark.filterwarnings("ignore")
def test_collectives_between_two_processes(run: Any) -> None:
    ran = run("measure", "--collectives", "--device", "cpu", "--ranks", "2", "--format", "csv")
    assert ran.code == 0, ran.err
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert {row["op"] for row in rows} == {"all_reduce", "all_gather", "reduce_scatter", "alltoall"}
    assert {row["n_gpus"] for row in rows} == {"2"}
    assert all(float(row["time_us"]) > 0 for row in rows)


@with_torch
@pytest.mark.filterwarnings("ignore")
def test_pytorch_has_the_kernels_that_are_asked_for() -> None:
    """Backends of attention by name, and products in fp8, which a processor can do too."""
    from torch.nn.attention import SDPBackend

    assert set(operators.KERNELS.values()) <= set(SDPBackend.__members__)
    processor = Device("x86_64", "cpu", "", "")
    session = operators.Session(processor, operators.BRIEF, 1.0, lambda _: None, lambda: False)
    timing = operators._narrow_product(session, Timing("linear1", m=64, n=128, k=32))
    assert timing.fwd_us
    assert timing.bwd_us is None


PEAK, BANDWIDTH, READ = 989.4e12, 3.35e12, 0.85


def _times(shape: Timing) -> tuple[float, float | None]:
    """Microseconds forward and backward that an H100 of known constants would show."""
    if shape.op == "linear1":
        assert shape.m
        assert shape.n
        assert shape.k
        work = 2 * shape.m * shape.n * shape.k / PEAK
        read = (1 if shape.dtype == "fp8" else 2) * shape.n * shape.k / BANDWIDTH
        forward = 1e6 * (4e-6 + max(work / 0.7, read / READ))
        return forward, None if shape.dtype == "fp8" or shape.m < 256 else 2e6 * work / 0.75
    assert shape.l
    assert shape.dim
    if shape.op == "attention":
        work = 2 * (shape.b or 0) * shape.l * (shape.l + 1) * shape.dim / PEAK
        return 1e6 * (1e-5 + work / 0.5), 2.5e6 * work / 0.4
    moved = 1e6 * shape.l * shape.dim / (0.9 * BANDWIDTH)
    return (6 * moved, None) if shape.op == "res_add" else (16 * moved, 24 * moved)


def _table(path: Path, monkeypatch: pytest.MonkeyPatch, kind: str = "gpu") -> str:
    """A table as `measure` writes it on a GPU with every kernel."""
    monkeypatch.setattr(operators, "_capability", lambda _: (9, 0))
    session = operators.Session(GPU, operators.WHOLE, 1.0, lambda _: None, lambda: False)
    trials = [*operators.products(session), *operators.attentions(session), *operators.streams(session)]
    with path.open("w", newline="") as file:
        rows = []
        for trial in trials:
            forward, backward = _times(trial.shape)
            rows.append(
                {"gpu": GPU.name, **asdict(replace(trial.shape, fwd_us=forward, bwd_us=backward)), "kind": kind}
            )
        skipped = Timing("attention", b=1, h=16, l=512, dim=2048, kernel="sdpa_flash", skipped="out of memory")
        rows.append({"gpu": GPU.name, **asdict(skipped), "kind": kind})
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


@pytest.fixture
def one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of halves held out one draw is enough here."""
    monkeypatch.setattr("costmodel.evidence.calibrate.regression.DRAWS", 1)


@pytest.mark.usefixtures("one_draw")
def test_calibrate_fits_every_part_of_the_table(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = run("calibrate", _table(tmp_path / "mine.csv", monkeypatch), "--json")
    assert ran.code == 0, ran.err
    answer = json.loads(ran.out)
    fitted = {
        (fit["part"], fit["entry"], fit["detail"]): {each["name"]: each["fitted"] for each in fit["constants"]}
        for fit in answer["fits"]
        if fit["form"] != "start, work, tail, memory and pages"
    }
    assert set(fitted) == {
        ("matmul", "bf16", ""),
        ("matmul", "bf16", "backward"),
        ("matmul", "fp8", ""),
        ("attention", "flash-2", "sdpa_flash"),
        ("attention", "flash-2", "sdpa_flash backward"),
        ("attention", "flash-3", "sdpa_cudnn"),
        ("attention", "flash-3", "sdpa_cudnn backward"),
        ("memory", "share", ""),
    }
    assert fitted["matmul", "bf16", ""]["compute_share"] == pytest.approx(0.7, rel=0.03)
    assert fitted["matmul", "bf16", ""]["memory_share"] == pytest.approx(READ, rel=0.03)
    assert fitted["attention", "flash-2", "sdpa_flash backward"]["forward_share"] == pytest.approx(0.4, rel=0.1)
    assert fitted["memory", "share", ""]["share"] == pytest.approx(0.9, rel=0.02)
    assert [(each["why"], each["rows"]) for each in answer["refused"]] == [("shapes that measure skipped", 1)]


@pytest.mark.usefixtures("one_draw")
def test_without_products_of_few_tokens_no_bandwidth_is_written(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their times do not depend on the bandwidth, and the fit leaves its share at a bound or anywhere."""
    monkeypatch.setattr(operators, "WHOLE", replace(operators.WHOLE, few=()))
    monkeypatch.setitem(globals(), "READ", 1e6)
    ran = run("calibrate", _table(tmp_path / "mine.csv", monkeypatch), "--json")
    product = next(fit for fit in json.loads(ran.out)["fits"] if fit["entry"] == "bf16" and not fit["detail"])
    assert product["why_not"] == "these shapes do not show its memory_share"
    assert not product["write"]


@pytest.mark.usefixtures("one_draw")
@pytest.mark.parametrize("gpu", ["h20", "mi300x"])
def test_what_is_fitted_can_be_written(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: str) -> None:
    """Where there is a document, where there is none, and where that of another part is used."""
    table = Path(_table(tmp_path / "mine.csv", monkeypatch))
    table.write_text(table.read_text().replace(GPU.name, gpu))
    ran = run("calibrate", "mine.csv", "--write", cwd=tmp_path)
    assert ran.code == 0, ran.err
    again = run("show", gpu, "--fitted", cwd=tmp_path)
    assert again.code == 0, again.err


def test_times_of_a_processor_are_not_taken_for_those_of_a_gpu(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run("calibrate", _table(tmp_path / "mine.csv", monkeypatch, "processor"), "-v")
    assert ran.code == 0, ran.err
    assert "times of a processor" in ran.out
    assert "nothing to write" in ran.out
