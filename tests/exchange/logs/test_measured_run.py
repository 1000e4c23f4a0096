"""Logs of training programs as measured runs: what each prints, what is left out, and rows that validate reads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.exchange.logs.measured_run import MeasuredRun, measured_run
from costmodel.exchange.logs.step_lines import read_log
from costmodel.exchange.tables.run_table import read_table
from costmodel.ground.errors import CostModelError
from exchange.scripts import LLAMA_8B

Run = Callable[..., Any]

# Figures are those of published logs, their lines typed anew: an Ascend run of Megatron-LM, GPT-NeoX on DeepSpeed
# (issue 3742), torchtitan (pull request 1884).
MEGATRON = (
    " iteration  11/50000 | consumed samples: 5632 | consumed tokens:  11534336 | elapsed time per iteration (ms):  "
    "52728.1 | gloabl batch size:  512 | actual seqlen:  2048 | number of skipped\niterations: 0 | TFLOPs: 167.52 |\n"
)
NEOX = (
    "[INFO] [timer.py] epoch=0/micro_step=34/global_step=34, RunningAvgSamplesPerSec=7.86, CurrSamplesPerSec=8.009, "
    "MemAllocated=59.65GB, MaxMemAllocated=63.31GB\n"
    " samples/sec: 7.799 | iteration       34/   10000 | elapsed time per iteration (ms): 4103.1 | lm_loss: 1E+01 |\n"
)
TITAN = (
    "[rank0]:[titan] 2025-10-15 10:37:01,391 - root - INFO - step:  1  loss: 12.2  memory: 33.21GiB(34.95%)  tps: 87\n"
    "[rank2]:[titan] 2025-10-15 10:37:01,391 - root - INFO - step:  1  loss: 12.2  memory: 33.21GiB(34.95%)  tps: 86\n"
    "[rank2]:[titan] 2025-10-15 10:37:07,957 - root - INFO - \x1b[31mstep: 10  loss: 10.2  memory: 44.84GiB(47.19%)  "
    "tps: 5,615  tflops: 325.20  mfu: 32.88%\x1b[0m\n"
)
NEMO = "".join(
    f"Training epoch 0, iteration {step}/249 | global_batch_size: 8 | train_step_timing in s: {seconds}\n"
    for step, seconds in enumerate((7.126, 2.505, 1.505))
)
MAXTEXT = "".join(
    f"completed step: {step}, seconds: {seconds}, TFLOP/s/device: 300.5, Tokens/s/device: 9000.25\n"
    for step, seconds in enumerate([40, 5, 2, 2, 2, 2, 2.5, 2.0, 2.1, 2.2, 2.0])
)


def run_of(text: str, warm_up: int = 5) -> MeasuredRun:
    return measured_run(read_log(text, "run.log"), warm_up)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MEGATRON, {"step_time_s": 52.7281, "global_batch": 512, "seq_len": 2048, "tflops_per_gpu": 167.52}),
        (NEOX, {"step_time_s": 4.1031, "global_batch": 32, "peak_mem_gb": 67.98}),  # not 63.31: of 2³⁰ bytes
        (TITAN, {"tokens_per_s_per_gpu": 5615, "mfu_peak_tflops": 989, "peak_mem_gb": 48.15, "gpu_mem_gb": 102.0}),
        (MAXTEXT, {"step_time_s": 2.1, "tflops_per_gpu": 300.5, "tokens_per_s_per_gpu": 9000.25}),
    ],
)
def test_what_a_log_says_of_a_run(text: str, expected: dict[str, float]) -> None:
    found = run_of(text).figures
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_a_step_is_timed_by_the_clock_where_no_time_is_printed() -> None:
    assert run_of(TITAN).figures["step_time_s"] == pytest.approx((7.957 - 1.391) / 9, abs=1e-6)


@pytest.mark.parametrize("text", [NEMO, MEGATRON.replace("11/", "1/"), TITAN.replace("step: 10", "step: 9")])
def test_too_few_steps_behind_the_warm_up_are_no_run(text: str) -> None:
    with pytest.raises(CostModelError) as caught:
        run_of(text)
    assert [fault.code for fault in caught.value.faults] == ["X002"]
    if "step: 9" in text:
        assert caught.value.faults[0].hint == "--warmup 4 would leave 5"


def test_a_text_without_steps_is_no_log() -> None:
    with pytest.raises(CostModelError) as caught:
        read_log("loss: 3\n" * 100, "run.log")
    assert caught.value.faults[0].code == "X001"


def test_a_log_with_its_layout_is_a_row_that_validate_reads(run: Run, tmp_path: Path) -> None:
    steps = "".join(
        f" iteration {step:8d}/ 100 | consumed samples: {128 * step} | "
        f"elapsed time per iteration (ms): {9000 + step} | "
        f"throughput per GPU (TFLOP/s/GPU): 700.1 | global batch size:   128 |\n"
        for step in range(1, 21)
    )
    (tmp_path / "run.log").write_text(steps, "utf-8")
    (tmp_path / "train.sh").write_text(LLAMA_8B, "utf-8")
    options = ("--as", "runs", "--config", "train.sh", "--node", "dgx-h100", "-o", "runs.csv")
    done = run("import", "run.log", *options, cwd=tmp_path)
    assert done.code == 0, done.err
    [row] = csv.DictReader(io.StringIO((tmp_path / "runs.csv").read_text("utf-8")))
    expected = {"step_time_s": "9.013", "layers": "32", "tp": "1", "dp": "8", "gpus": "8", "precision": "fp8"}
    assert {key: row[key] for key in expected} == expected
    assert not read_table(str(tmp_path / "runs.csv")).mistaken
    done = run("validate", "runs.csv", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert json.loads(done.out)["schema"].startswith("costmodel/validation/")


def test_a_layout_of_another_batch_is_warned_about(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(MEGATRON, "utf-8")
    (tmp_path / "train.sh").write_text(LLAMA_8B, "utf-8")
    done = run("import", "run.log", "--as", "runs", "--config", "train.sh", "--node", "dgx-h100", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "X004 the log has 512 sequences in a step and its layout 128" in done.out
