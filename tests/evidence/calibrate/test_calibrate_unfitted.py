"""Calibrate: what is not fitted is compared with the constants in use, refused, or said by name."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.schemas.prior import Prior
from costmodel.evidence.calibrate.fit_from_runs import Posterior
from costmodel.evidence.calibrate.regression_problem import around
from costmodel.report.answers.calibrate import uncertainty_words

pytestmark = pytest.mark.usefixtures("in_its_folder")

FOLDER = Path(__file__).parents[1] / "measured"
RUNS, NCCL = FOLDER / "mine.csv", FOLDER / "all_reduce_perf.txt"
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
    answer = json.loads(run("calibrate", table, "--json").out)
    marks = {fit["entry"]: (fit["points"], fit["why_not"]) for fit in answer["fits"]}
    assert marks == {
        "all_reduce": (3, "too few to fit, which takes 12"),
        "all_gather": (14, "of low confidence: not fitted"),
    }
    for fit in answer["fits"]:
        assert fit["in_sample_median"] is fit["held_out_p90"] is None
        assert 0 < fit["in_use_median"] < 0.6
        assert fit["constants"] == []
        assert not fit["write"]
    why = "collectives of unknown size, or of one rank"
    assert answer["refused"] == [{"id": None, "refused": None, "why": why, "rows": 1}]


def test_table_csv_and_markdown_say_the_same(run: Any, table: str) -> None:
    shown = run("calibrate", table).out
    assert "of low confidence: not fitted" in shown
    assert "too few to fit, which takes 12" in shown
    assert "start" not in shown
    assert "nothing to write" in shown
    rows = list(csv.DictReader(io.StringIO(run("calibrate", table, "--format", "csv").out)))
    assert [(row["held_out_median"], row["in_use_median"] != "") for row in rows] == [("", True)] * 2
    assert "too few to fit, which takes 12" in run("calibrate", table, "--format", "markdown").out


def test_too_few_of_what_nothing_in_use_predicts_is_named(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "custom.csv"
    path.write_text("gpu,op,n_gpus,bytes,time_us,kernel\nh200-sxm,all_reduce,8,4096,9.1,custom\n", "utf-8")
    shown = run("calibrate", str(path), cwd=tmp_path).out
    assert "fewer than 12 timings of h200-sxm collectives all_reduce custom" in shown


def test_with_nothing_fitted_the_reasons_are_said_and_no_legend(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "gemm.csv"
    path.write_text("gpu,dtype,m,n,k,time_us\nabacus,bf16,8,4096,4096,9.0\n", "utf-8")
    shown = run("calibrate", str(path), cwd=tmp_path).out
    assert "no accelerator document for 'abacus'" in shown
    assert "in each pair" not in shown
    assert "-v" not in shown


KERNELS = {
    "matmuls": "gpu,dtype,m,n,k,time_us\nh200-sxm,bf16,8,4096,4096,9.0\n",
    "collectives inside and across nodes": f"{HEAD}{FEW}",
    "collectives inside a node": "gpu,op,n_gpus,bytes,time_us\nh200-sxm,all_reduce,8,4096,9.1\n",
}


@pytest.mark.parametrize("meaning", list(KERNELS))
def test_kernels_among_runs_are_called_what_they_are(run: Any, tmp_path: Path, meaning: str) -> None:
    path = tmp_path / "kernels.csv"
    path.write_text(KERNELS[meaning], "utf-8")
    for words in (("calibrate", str(RUNS), str(path)), ("validate", str(path))):
        ran = run(*words, cwd=tmp_path)
        assert ran.code == 2
        assert ran.err.count("error[") == 1
        assert f"this is a table of {meaning}, not a table of training runs" in ran.err
        assert f"costmodel calibrate {path}" in ran.err


def test_the_text_of_nccl_tests_is_no_table_of_runs(run: Any) -> None:
    ran = run("validate", str(NCCL))
    assert ran.code == 2
    assert "this is the output of nccl-tests" in ran.err


def test_runs_are_chosen_by_columns_there_are(run: Any) -> None:
    ran = run("calibrate", str(RUNS), "--where", "foo=bar")
    assert ran.code == 2
    assert "no table has a column 'foo'" in ran.err
    assert "known: " in ran.err
    missed = run("calibrate", str(RUNS), "--where", "gpu=abacus").err
    assert "no run has gpu=abacus" in missed
    assert "help: gpu is A100-80GB" in missed
    assert run("validate", str(RUNS), "--where", "GPU=A100-80GB").code == 0


@pytest.mark.parametrize("command", ["calibrate", "validate"])
def test_a_table_named_twice_would_count_twice(run: Any, command: str, tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(RUNS)
    for other in (str(RUNS), "link.csv"):
        ran = run(command, str(RUNS), other, cwd=tmp_path)
        assert (ran.code, "is named twice" in ran.err) == (2, True)
    twice = run(command, "-", "-", stdin=RUNS.read_text("utf-8"))
    assert (twice.code, "is named twice" in twice.err) == (2, True)
    assert run(command, str(RUNS), str(RUNS.parent / "runs.csv")).code == 0


@pytest.mark.parametrize(
    ("table", "option"),
    [
        *((NCCL, option) for option in (["--where", "gpu=h100"], ["--afresh"], ["--leave-out", "source"])),
        *((RUNS, option) for option in (["--node", "dgx-a100"], ["--source", "mine"], ["--replace"])),
    ],
)
def test_an_option_of_the_other_kind_of_table_is_refused(run: Any, table: Path, option: list[str]) -> None:
    ran = run("calibrate", str(table), *option)
    assert ran.code == 2
    assert "error[C014]" in ran.err
    assert f"{option[0]} does not apply to" in ran.err


def test_a_failed_test_of_nccl_is_refused(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "all_reduce_perf.txt"
    path.write_text(NCCL.read_text("utf-8").replace("values : 0 OK", "values : 5 FAILED", 1), "utf-8")
    ran = run("calibrate", str(path), cwd=tmp_path)
    assert ran.code == 2
    assert "error[D015]: the test failed: 5 values" in ran.err
    assert "# Out of bounds values : 5 FAILED" in ran.err
    assert "run it again" in ran.err


def test_lines_among_results_are_remarked(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "all_reduce_perf.txt"
    lines = NCCL.read_text("utf-8").splitlines()
    last = max(place for place, line in enumerate(lines) if line.startswith("# Avg bus bandwidth"))
    odd = "host:1:2 [0] NCCL WARN something"
    path.write_text("\n".join([*lines[: last - 2], odd, *lines[last - 2 :]]), "utf-8")
    (remark,) = json.loads(run("calibrate", str(path), "--json", cwd=tmp_path).out)["remarks"]
    assert remark == f"{path}:{last - 1}: '{odd}' is no result and was passed over"


def test_a_text_of_nccl_cut_short_is_remarked(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "all_reduce_perf.txt"
    lines = NCCL.read_text("utf-8").splitlines()
    last = max(place for place, line in enumerate(lines) if line.startswith("# Avg bus bandwidth"))
    path.write_text("\n".join(lines[: last - 2]), "utf-8")
    answer = json.loads(run("calibrate", str(path), "--json", cwd=tmp_path).out)
    (remark,) = answer["remarks"]
    assert "cut short" in remark
    assert remark in run("calibrate", str(path), cwd=tmp_path).out.replace("\n", "")
    assert "cut short" not in run("calibrate", str(NCCL)).out


def test_what_is_known_of_a_share_is_between_two_shares() -> None:
    share = Prior(name="s", documents=["x"], leaf="network.share", mean=0.8, spread=0.7, share=True)
    factor = Prior(name="f", documents=["x"], leaf="sustained.factor", mean=1.3, spread=0.1)
    parts = [
        Posterior(prior, prior.mean, 0.47, 9, ("a",), resolved=True, interval=around(prior, prior.mean, 0.47))
        for prior in (share, factor)
    ]
    assert [uncertainty_words(part) for part in parts] == ["71% to 86%", "47%"]
