"""Logs of training programs as measured runs: what each prints, what is left out, and rows that validate reads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.exchange.logs.step_lines import read_log
from costmodel.exchange.logs.trainer_log import MeasuredRun, measured_run, trainer_log
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


ROCM = "".join(  # now / mean, and the memory of a rank in 2²⁰ bytes
    f" iteration {step:8d}/ 50 | consumed samples: {64 * step} | elapsed time per iteration (ms): {seconds}/9999.0 | "
    f"throughput per GPU (TFLOP/s/GPU): 590.5/500.1 | tokens per GPU (tokens/s/GPU): 12345.0/1.0 |\n"
    f"[Rank 0] (after {step} iterations) memory (MB) | allocated: 100.0 | max allocated: 50000.0 | reserved: 1.0\n"
    for step, seconds in enumerate([20000.0, *[5000.0] * 12], 1)
)
BAR = "".join(  # of NeMo: steps from 0, redrawn
    f"\rEpoch 0: {step}%|#| {step}/400 [00:32<17:22, reduced_train_loss=10.10, global_step={step}.00, "
    f"consumed_samples={32 * (step + 1)}.0, train_step_timing in s={seconds}]"
    for step, seconds in enumerate([9.5, *[2.5] * 11])
)
DLLOGGER = "".join(
    f'DLLL {{"timestamp": "1", "type": "LOG", "step": [0, {step}], "data": {{"train_step_timing": 1.25, '
    f'"global_batch_size": 16}}}}\n'
    for step in range(1, 13)
)
OLD_TITAN = "".join(
    f"2024-07-0{1 + step // 6} 00:00:{step:02d},500 - root - INFO - step: {step:2d}  loss:  8.1  "
    f"memory: 10.00GiB(12.50%)  wps: 8,192  mfu: 40.00%\n"
    for step in range(1, 6)
)
OLD_DEEPSPEED = "".join(f"[INFO] [timer.py:157:stop] 0/{step}, SamplesPerSec=25.5\n" for step in (10, 20, 30))
TRAINER = "".join(
    f"  {step}%|{'#' * (step // 10)}| {step}/100 [{step * 3 // 60:02d}:{step * 3 % 60:02d}<05:00,  3.00s/it]\r"
    f"{{'loss': 1.5, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': 0.{step}}}\n"
    for step in range(10, 101, 10)
)
TOTAL = (
    "{'train_runtime': 310.0, 'train_samples_per_second': 20.645, 'train_steps_per_second': 0.323, 'train_loss': 1.2}\n"
)
EVALUATION = "  5%|#| 5/40 [00:02<00:10, 3.00it/s]\n"
STATE = json.dumps(
    {
        "global_step": 100, "max_steps": 100, "train_batch_size": 8,
        "log_history": [
            {"step": 10, "loss": 2.0, "epoch": 0.1},
            {"step": 100, "train_runtime": 310.0, "train_samples_per_second": 20.645, "train_steps_per_second": 0.323},
        ],
    },
    indent=2,
)  # fmt: skip


def state(*entries: dict[str, Any]) -> str:
    """trainer_state.json with entries of so many tens of steps."""
    history = [{"step": 10 * number, "loss": 2.0, "epoch": 0.1, **each} for number, each in enumerate(entries, 1)]
    return json.dumps({"global_step": 100, "train_batch_size": 8, "log_history": history}, indent=2)


TIMED_STATE = state(*({"train_runtime": 20.0 * n + 5, "num_input_tokens_seen": 655_360 * n} for n in range(1, 4)))
AXOLOTL_STATE = state(*[{"tokens/train_per_sec_per_gpu": "3049", "memory/max_allocated (GiB)": "3.17"}] * 3)
TRL_STATE = state(*[{"step_time": 4.5, "num_tokens": 1e6}] * 3, {"eval_loss": 1.0, "step_time": 90.0})
UNTIMED_STATE = state({}, {})


def run_of(text: str, warm_up: int = 5) -> MeasuredRun:
    log = trainer_log(text.replace("\r", "\n"), "run.log") or read_log(text, "run.log")
    return measured_run(log, warm_up)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MEGATRON, {"step_time_s": 52.7281, "global_batch": 512, "seq_len": 2048, "tflops_per_gpu": 167.52}),
        (NEOX, {"step_time_s": 4.1031, "global_batch": 32, "peak_mem_gb": 67.98}),  # not 63.31: of 2³⁰ bytes
        (TITAN, {"tokens_per_s_per_gpu": 5615, "mfu_peak_tflops": 989, "peak_mem_gb": 48.15, "gpu_mem_gb": 102.0}),
        (MAXTEXT, {"step_time_s": 2.1, "tflops_per_gpu": 300.5, "tokens_per_s_per_gpu": 9000.25}),
        (ROCM, {"step_time_s": 5, "global_batch": 64, "tokens_per_s_per_gpu": 12345, "peak_mem_gb": 52.43}),
        (BAR, {"step_time_s": 2.5, "global_batch": 32}),
        (DLLOGGER, {"step_time_s": 1.25, "global_batch": 16}),
        (OLD_DEEPSPEED, {"samples_per_s": 25.5}),
        (TRAINER + EVALUATION, {"step_time_s": 3.0}),
        (
            TRAINER + TOTAL,
            {"step_time_s": 3.0, "global_batch": 64},
        ),  # without what comes before
        (TOTAL, {"step_time_s": 310 / 100.13, "global_batch": 64}),
        (STATE, {"step_time_s": 3.1, "global_batch": 64}),
        (TIMED_STATE, {"step_time_s": 2.0}),
        (AXOLOTL_STATE, {"tokens_per_s_per_gpu": 3049, "peak_mem_gb": 3.40}),
        (TRL_STATE, {"step_time_s": 4.5}),
    ],
)
def test_what_a_log_says_of_a_run(text: str, expected: dict[str, float]) -> None:
    found = run_of(text).figures
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_a_step_is_timed_by_the_clock_where_no_time_is_printed() -> None:
    assert run_of(TITAN).figures["step_time_s"] == pytest.approx((7.957 - 1.391) / 9, abs=1e-6)


def test_the_older_rate_of_torchtitan_is_the_same_one() -> None:
    assert run_of(OLD_TITAN, 0).figures["tokens_per_s_per_gpu"] == 8192


def test_times_that_hold_more_than_steps_are_remarked_on() -> None:
    assert "start-up, evaluation and saving" in run_of(STATE).remark
    assert "whole seconds" in run_of(TRAINER).remark
    assert not run_of(MAXTEXT).remark


FIRST_ALONE = [
    NEMO, MEGATRON.replace("11/", "1/"), TITAN.replace("step: 10", "step: 9"), MAXTEXT.partition("\n")[0] + "\n",
    TITAN.partition("\n")[0] + "\n", OLD_DEEPSPEED.partition("\n")[0].replace("0/10", "0/1"),
    DLLOGGER.partition("\n")[0] + "\n", TRAINER.partition("\n")[0].replace("10/100", "1/100") + "\n",
    TOTAL.replace("310.0", "3.10"), STATE.replace('"global_step": 100', '"global_step": 1'),
]  # fmt: skip


@pytest.mark.parametrize("text", FIRST_ALONE)
def test_too_few_steps_behind_the_warm_up_are_no_run(text: str) -> None:
    with pytest.raises(CostModelError) as caught:
        run_of(text)
    assert [fault.code for fault in caught.value.faults] == ["X002"]
    if "step: 9" in text:
        assert caught.value.faults[0].hint == "--warmup 4 would leave 5"


def test_a_state_without_times_is_refused_by_its_name(run: Run, tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_text(UNTIMED_STATE, "utf-8")
    for given, code, words in (
        (("--as", "runs"), "X002", "trainer_state.json of transformers states no time of its steps"),
        ((), "X003", "add --as runs"),
    ):
        ran = run("import", "trainer_state.json", *given, cwd=tmp_path)
        assert (ran.code, code in ran.err, words in ran.err) == (2, True, True), ran.err
    for command in ("validate", "calibrate"):
        ran = run(command, "trainer_state.json", cwd=tmp_path)
        assert (ran.code, "costmodel import trainer_state.json --as runs" in ran.err) == (2, True), ran.err
    with pytest.raises(CostModelError):
        trainer_log('{"log_history": [', "a")


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
    assert not read_table(str(tmp_path / "runs.csv")).unused
    done = run("validate", "runs.csv", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert json.loads(done.out)["schema"].startswith("costmodel/validation/")


def test_a_layout_of_another_batch_is_warned_about(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(MEGATRON, "utf-8")
    (tmp_path / "train.sh").write_text(LLAMA_8B, "utf-8")
    done = run("import", "run.log", "--as", "runs", "--config", "train.sh", "--node", "dgx-h100", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "X004 the log has 512 sequences in a step and its layout 128" in done.out
