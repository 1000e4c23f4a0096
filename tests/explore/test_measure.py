"""Timing the operations of a step, on the processor: the table is the one calibrate reads."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.explore.measure.stopwatch import CACHE, COPIES_OVER_CACHE, MOST_COPIES, copies

with_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs the extra [measure]")
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
    assert "llm-costmodel[measure]" in ran.err


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
        assert float(row["fwd_us"]) > 0
        assert row["op"] == "res_add" or float(row["bwd_us"]) > 0
        assert row["date"]


@with_torch
def test_more_work_takes_longer() -> None:
    """Sixteen times the product: the clock sees it."""
    from costmodel.explore.measure.measure import _forward
    from costmodel.explore.measure.stopwatch import median_time, torch_module

    torch = torch_module()

    def timed(side: int) -> float:
        return median_time("cpu", [_forward(torch.ones(side, side), torch.ones(side, side))] * 4, 5)

    assert timed(1024) > 4 * timed(256)


@with_torch
@pytest.mark.filterwarnings("ignore")
def test_collectives_between_two_processes(run: Any) -> None:
    ran = run("measure", "--collectives", "--device", "cpu", "--ranks", "2", "--format", "csv")
    assert ran.code == 0, ran.err
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert {row["op"] for row in rows} == {"all_reduce", "all_gather", "reduce_scatter", "alltoall"}
    assert {row["n_gpus"] for row in rows} == {"2"}
    assert all(float(row["time_us"]) > 0 for row in rows)


def _table(tmp_path: Path, kind: str) -> str:
    """A table as `measure` writes it, with times from the equations: what a part of known constants would show."""
    peak, bandwidth, wide = 1000e12, 3e12, (2048, 4096, 8192)
    rows = [
        f"h100-sxm,linear1,{m},{n},{k},{1e6 * (4e-6 + 2 * m * n * k / (0.7 * peak)):.3f},1,bf16,{kind}"
        for m in (1024, 4096, 16384)
        for n in wide
        for k in wide
    ]
    rows += [f"h100-sxm,res_add,,,,{1e6 * 6 * tokens * 8192 / (0.9 * bandwidth):.3f},,bf16,{kind}" for tokens in wide]
    path = tmp_path / f"{kind}.csv"
    path.write_text("gpu,op,m,n,k,fwd_us,bwd_us,dtype,kind\n" + "\n".join(rows) + "\n")
    return str(path)


def test_calibrate_reads_the_table(run: Any, tmp_path: Path) -> None:
    ran = run("calibrate", _table(tmp_path, "gpu"), "--json")
    assert ran.code == 0, ran.err
    fitted = {(fit["part"], fit["entry"]) for fit in json.loads(ran.out)["fits"]}
    assert ("matmul", "bf16") in fitted


def test_times_of_a_processor_are_not_taken_for_those_of_a_gpu(run: Any, tmp_path: Path) -> None:
    ran = run("calibrate", _table(tmp_path, "processor"), "-v")
    assert ran.code == 0, ran.err
    assert "times of a processor" in ran.out
    assert "nothing to write" in ran.out
