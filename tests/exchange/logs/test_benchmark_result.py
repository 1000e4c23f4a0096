"""Results of benchmark clients become rows of serving runs, which validate takes at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.exchange.logs.benchmark_result import benchmark_results
from costmodel.exchange.tables.serving_table import COLUMNS
from costmodel.ground.errors import CostModelError

VLLM = {
    "backend": "vllm", "model_id": "Qwen/Qwen3-8B", "num_prompts": 320, "request_rate": "inf", "max_concurrency": 32,
    "completed": 320, "total_input_tokens": 655_360, "total_output_tokens": 163_840, "request_throughput": 3.99,
    "output_throughput": 2045.4, "mean_ttft_ms": 310.2, "mean_tpot_ms": 14.9,
}  # fmt: skip
PRINTED = """
============ Serving Benchmark Result ============
Backend:                                 sglang
Traffic request rate:                    {rate}
Max request concurrency:                 64
Successful requests:                     100
Total input tokens:                      100000
Total generated tokens:                  20000
Request throughput (req/s):              1.97
---------------Time to First Token----------------
Mean TTFT (ms):                          100.0
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          10.0
==================================================
"""


def averages(**values: float) -> dict[str, Any]:
    return {name: {"avg": value} for name, value in values.items()}


def successful(**values: float) -> dict[str, Any]:
    return {name: {"successful": {"mean": value}} for name, value in values.items()}


PROFILE = {
    **averages(time_to_first_token=100.0, inter_token_latency=10.0, input_sequence_length=1000.4,
               output_sequence_length=200.0, request_throughput=1.97, output_token_throughput=394.0),
    "input_config": {"loadgen": {"concurrency": 8}, "endpoint": {"model_names": ["Qwen/Qwen3-8B"]}},
}  # fmt: skip
GUIDED = {"benchmarks": [{"config": {"strategy": {"type_": "concurrent", "streams": 8}}, "metrics": successful(
    time_to_first_token_ms=100.0, inter_token_latency_ms=10.0, prompt_token_count=1000.0, output_token_count=200.0,
    requests_per_second=1.97, output_tokens_per_second=394.0)}] * 2}  # fmt: skip
GUIDED_TABLES = """
Benchmarks Info:
=======================================================================================================
Metadata                                   |||| Requests Made  ||| Prompt Tok/Req  ||| Output Tok/Req  ||
     Benchmark| Start Time| End Time| Duration (s)|  Comp|  Inc|  Err|  Comp|  Inc| Err|  Comp|  Inc| Err
--------------|-----------|---------|-------------|------|-----|-----|------|-----|----|------|-----|----
   synchronous|   19:53:25| 19:53:50|         25.9|    30|    0|    0|1000.0|  0.0| 0.0| 200.0|  0.0| 0.0
 constant@2.00|   19:53:51| 19:54:13|         22.5|    30|    0|    0|1000.0|  0.0| 0.0| 200.0|  0.0| 0.0
=======================================================================================================
Benchmarks Stats:
=======================================================================================================
Metadata      | Request Stats         || Out Tok/sec| TTFT (ms)          ||| ITL (ms)        ||
     Benchmark| Per Second| Concurrency|        mean|  mean| median|    p99| mean| median|  p99
--------------|-----------|------------|------------|------|-------|-------|-----|-------|-----
   synchronous|       0.48|        1.00|        95.2| 100.0|   90.0|  120.0| 10.0|    9.9| 11.0
 constant@2.00|       1.97|        4.10|       394.0| 100.0|   90.0|  120.0| 10.0|    9.9| 11.0
=======================================================================================================
"""
GUIDED_BOXES = """
ℹ Request Token Statistics (Completed Requests)
|============|========|========|=======|=======|
| Benchmark  | Input Tok      || Output Tok   ||
| Strategy   | Per Req        || Per Req      ||
|            | Mdn    | p95    | Mdn   | p95   |
|------------|--------|--------|-------|-------|
| concurrent | 1000.0 | 1000.0 | 200.0 | 200.0 |
|============|========|========|=======|=======|

ℹ Request Latency Statistics (Completed Requests)
|============|=========|=======|=======|======|======|
| Benchmark  | TTFT           || ITL         ||
| Strategy   | ms             || ms          ||
|            | Mdn     | p95   | Mdn  | p95  |
|------------|---------|-------|------|------|
| concurrent | 100.0   | 140.0 | 10.0 | 11.0 |
|============|=========|=======|======|======|

ℹ Server Throughput Statistics (All Requests)
|============|=======|======|=========|==============|
| Benchmark  | Requests             ||| Output Tokens |
| Strategy   | Concurrency || Per Sec | Per Sec       |
|            | Mdn   | Mean | Mean                   ||
|------------|-------|------|---------|---------------|
| concurrent | 8.0   | 7.9  | 1.97    | 394.0         |
|============|=======|======|=========|===============|
"""
BOX = """
aiperf profile --model Qwen/Qwen3-8B {load} --streaming
                     NVIDIA AIPerf | LLM Metrics
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━┳━━━━━━━━┓
┃                               Metric ┃      avg ┃    min ┃    max ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━╇━━━━━━━━┩
│             Time to First Token (ms) │   100.00 │  11.22 │ 106.32 │
│                 Request Latency (ms) │ 2,090.00 │ 267.07 │ 769.57 │
│             Inter Token Latency (ms) │    10.00 │   8.80 │  13.17 │
│     Output Token Throughput Per User │    89.23 │  75.93 │ 113.60 │
│                    (tokens/sec/user) │          │        │        │
│      Output Sequence Length (tokens) │   200.00 │  24.00 │  65.00 │
│       Input Sequence Length (tokens) │ 1,000.00 │  10.00 │  10.00 │
│ Output Token Throughput (tokens/sec) │   394.00 │    N/A │    N/A │
│    Request Throughput (requests/sec) │     1.97 │    N/A │    N/A │
└──────────────────────────────────────┴──────────┴────────┴────────┘
"""
ONE = {"prompt": 1000, "output": 200, "ttft_s": 0.1, "tpot_s": 0.01, "requests_per_s": 1.97}


@pytest.mark.parametrize(
    ("text", "program", "expected"),
    [
        (json.dumps(VLLM), "vllm bench serve",
         {"engine": "vllm", "model": "Qwen/Qwen3-8B", "prompt": 2048, "output": 512, "concurrency": 32,
          "traffic": "burst", "ttft_s": 0.3102, "tpot_s": 0.0149, "requests_per_s": 3.99}),
        ("\n".join([json.dumps({**VLLM, "backend": "sglang"})] * 3), "sglang.bench_serving", {"engine": "sglang"}),
        (json.dumps({**VLLM, "request_rate": 4.0}), "vllm bench serve", {"traffic": "steady", "concurrency": 32}),
        (json.dumps({**VLLM, "request_rate": 8.0, "max_concurrency": 8}), "vllm bench serve", {"concurrency": 8}),
        # 1.97 /s for 0.1 + 199 × 0.01 s: about 4 in flight
        (PRINTED.format(rate="2.0"), "benchmark client", {**ONE, "engine": "sglang", "traffic": "steady",
                                                          "concurrency": 4}),
        (PRINTED.format(rate="inf"), "benchmark client", {**ONE, "traffic": "burst", "concurrency": 64}),
        (json.dumps(PROFILE), "genai-perf or aiperf", {**ONE, "model": "Qwen/Qwen3-8B", "concurrency": 8}),
        (json.dumps(GUIDED), "GuideLLM", {**ONE, "concurrency": 8}),
        (GUIDED_BOXES, "GuideLLM, as printed", {**ONE, "concurrency": 8, "traffic": "burst"}),
        (BOX.format(load="--concurrency 8"), "genai-perf or aiperf, as printed",
         {**ONE, "concurrency": 8, "model": "Qwen/Qwen3-8B"}),
        # 1.97 /s for 2.09 s: about 4 in flight
        (BOX.format(load=""), "genai-perf or aiperf, as printed", {**ONE, "concurrency": 4}),
    ],
)  # fmt: skip
def test_a_result_is_a_row(text: str, program: str, expected: dict[str, Any]) -> None:
    found = benchmark_results(text, "a")
    assert found is not None
    assert found.program == program
    for row in found.rows:
        assert row.cells.keys() <= COLUMNS.keys()
        assert {key: row.cells.get(key) for key in expected} == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "{}", "mean_ttft_ms", '{"a": 1}\n', "[1]"])
def test_another_text_is_no_result(text: str) -> None:
    assert benchmark_results(text, "a") is None


@pytest.mark.parametrize("more", [{"mean_ttft_ms": "1e999"}, {"completed": 0}, {"total_input_tokens": None}])
def test_a_result_without_what_a_row_needs_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(CostModelError) as caught:
        benchmark_results(json.dumps({**VLLM, **more}), "a")
    assert caught.value.faults[0].code == "X002"


def test_validate_takes_what_import_makes_of_a_result(run: Any, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps(VLLM), "utf-8")
    (tmp_path / "serve.sh").write_text("vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2\n", "utf-8")
    given = ("--as", "runs", "--config", str(tmp_path / "serve.sh"), "--gpu", "h100")
    table = tmp_path / "runs.csv"
    assert run("import", str(tmp_path / "result.json"), *given, "-o", str(table)).code == 0
    header, row = (line.split(",") for line in table.read_text("utf-8").splitlines())
    found = dict(zip(header, row, strict=True))
    assert (found["gpu"], found["tp"], found["gpus"], found["engine"]) == ("h100-sxm", "2", "2", "vllm")
    ran = run("validate", str(table))
    assert (ran.code, "result-1" in ran.out) == (0, True)
    ran = run("validate", str(tmp_path / "result.json"))
    assert ran.code == 2
    assert "costmodel import" in ran.err


SERVED = "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2\n"
OF_SGLANG = "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2\n"
LEVELS = {8: (0.08, 0.0075), 32: (0.31, 0.0102), 64: (0.62, 0.0135)}  # requests in flight: times of a slow host, s


def of_client(client: str, most: int, ttft: float, tpot: float) -> str:
    """A result of a client for requests in flight and their times, with prompts of 2,048 and answers of 512."""
    ttft, tpot, rate = 1e3 * ttft, 1e3 * tpot, most / (ttft + 511 * tpot)
    flat = {**VLLM, "max_concurrency": most, "mean_ttft_ms": ttft, "mean_tpot_ms": tpot, "request_throughput": rate,
            "output_throughput": 512 * rate}  # fmt: skip
    if client == "sglang.bench_serving":
        return json.dumps({**flat, "backend": "sglang"})
    if client == "GuideLLM":
        metrics = successful(
            time_to_first_token_ms=ttft, inter_token_latency_ms=tpot, prompt_token_count=2048, output_token_count=512,
            requests_per_second=rate, output_tokens_per_second=512 * rate,
        )  # fmt: skip
        return json.dumps({"benchmarks": [{"config": {"strategy": {"streams": most}}, "metrics": metrics}]})
    if client == "aiperf":
        figures = averages(
            time_to_first_token=ttft, inter_token_latency=tpot, input_sequence_length=2048, output_sequence_length=512,
            request_throughput=rate, output_token_throughput=512 * rate,
        )  # fmt: skip
        return json.dumps({**figures, "input_config": {"loadgen": {"concurrency": most}}})
    return json.dumps(flat)


@pytest.mark.parametrize("client", ["vllm bench serve", "sglang.bench_serving", "GuideLLM", "aiperf"])
def test_calibrate_takes_what_import_makes_of_results(client: str, run: Any, tmp_path: Path) -> None:
    names = [f"result-{most}.json" for most in LEVELS]
    slower = 1.4 if "sglang" in client else 1.0  # so that both hosts are slower than the shipped ones
    for name, (most, (ttft, tpot)) in zip(names, LEVELS.items(), strict=True):
        (tmp_path / name).write_text(of_client(client, most, ttft, slower * tpot), "utf-8")
    (tmp_path / "serve.sh").write_text(OF_SGLANG if "sglang" in client else SERVED, "utf-8")
    given = ("--as", "runs", "--config", "serve.sh", "--gpu", "h100", "-o", "runs.csv")
    ran = run("import", *names, *given, cwd=tmp_path)
    assert ran.code == 0, ran.err
    ran = run("calibrate", "runs.csv", "--json", cwd=tmp_path)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert (found["rows"], found["modelled"]) == (3, 3)
    assert any(constant["resolved"] for constant in found["constants"])
    before, behind = (found["errors"][name]["tpot"]["median"] for name in ("shipped", "in_sample"))
    assert behind < before
    ran = run("calibrate", "result-8.json", cwd=tmp_path)
    assert (ran.code, "costmodel import result-8.json --as runs" in ran.err) == (2, True)


def test_results_of_one_run_and_the_log_of_another_are_imported_apart(run: Any, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps(VLLM), "utf-8")
    (tmp_path / "run.log").write_text("iteration 1/2 | elapsed time per iteration (ms): 5.0\n", "utf-8")
    ran = run("import", "result.json", "run.log", "--as", "runs", cwd=tmp_path)
    assert (ran.code, "import each log by itself" in ran.err) == (2, True)


def test_tables_that_guidellm_prints_are_rows_of_each_benchmark() -> None:
    found = benchmark_results(GUIDED_TABLES, "a")
    assert found is not None
    assert [row.cells["concurrency"] for row in found.rows] == [1, 4]
    assert [row.cells["requests_per_s"] for row in found.rows] == [0.48, 1.97]
    assert {row.cells["ttft_s"] for row in found.rows} == {0.1}
    assert {key.verdict for key in found.keys} == {"read", "no effect"}
