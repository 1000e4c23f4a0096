"""Calibrate: timings that are too few or doubted are not fitted, but held against the constants in use."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

HEAD = "gpu,op,gpus,nodes,bytes,time_us,confidence\n"
FEW = "".join(f"H200-SXM,all_reduce,8,1,{2**power},{40 + 2**power / 2.4e5:.1f},high\n" for power in (26, 28, 30))
DOUBTED = "".join(f"H200-SXM,all_gather,8,1,{2**power},{30 + 2**power / 4e5:.1f},low\n" for power in range(20, 34))


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Three good timings of one collective, fourteen doubted ones of another, and one of no size."""
    path = tmp_path / "collectives.csv"
    path.write_text(f"{HEAD}{FEW}{DOUBTED}H200-SXM,all_reduce,8,1,,90,high\n", "utf-8")
    return str(path)


def test_what_is_not_fitted_is_held_against_what_is_in_use(run: Any, table: str) -> None:
    told = json.loads(run("calibrate", table, "--json").out)
    marks = {fit["entry"]: (fit["points"], fit["why_not"]) for fit in told["fits"]}
    assert marks == {"all_reduce": (3, "too few to fit"), "all_gather": (14, "of low confidence: not fitted")}
    for fit in told["fits"]:
        assert fit["in_sample_median"] is fit["held_out_p90"] is None
        assert 0 < fit["in_use_median"] < 0.6
        assert fit["constants"] == []
        assert not fit["write"]
    assert told["left_out"] == [{"reason": "collectives of unknown size, or of one rank", "rows": 1}]


def test_table_csv_and_markdown_say_the_same(run: Any, table: str) -> None:
    shown = run("calibrate", table).out
    assert "of low confidence: not fitted" in shown
    assert "too few to fit" in shown
    assert "start" not in shown
    assert "nothing to write" in shown
    rows = list(csv.DictReader(io.StringIO(run("calibrate", table, "--format", "csv").out)))
    assert [(row["held_out_median"], row["in_use_median"] != "") for row in rows] == [("", True)] * 2
    assert "too few to fit" in run("calibrate", table, "--format", "markdown").out


def test_too_few_of_what_nothing_in_use_predicts_is_named(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "custom.csv"
    path.write_text("gpu,op,n_gpus,bytes,time_us,kernel\nh200-sxm,all_reduce,8,4096,9.1,custom\n", "utf-8")
    shown = run("calibrate", str(path)).out
    assert "fewer than 12 timings of h200-sxm collectives all_reduce custom" in shown


def test_with_nothing_fitted_the_reasons_are_said_and_no_legend(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "gemm.csv"
    path.write_text("gpu,dtype,m,n,k,time_us\nabacus,bf16,8,4096,4096,9.0\n", "utf-8")
    shown = run("calibrate", str(path)).out
    assert "no accelerator document for 'abacus'" in shown
    assert "in each pair" not in shown
    assert "-v" not in shown
