"""Results of benchmark clients as rows of measured serving runs.

Read are the JSON of `vllm bench serve --save-result` and of `sglang.bench_serving --output-file`, of GuideLLM,
genai-perf and aiperf, and what they print.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from costmodel.documents.text.files import file_head, is_text, may_look
from costmodel.exchange.foreign_keys import ForeignKeys
from costmodel.exchange.import_result import Loss, StatedKey, Verdict
from costmodel.exchange.logs.trainer_log import is_trainer_state
from costmodel.exchange.option_rows import Row, Table, lost, option_table, part, quiet
from costmodel.ground.errors import Place, fail

RESULTS = re.compile(
    r'"mean_ttft_ms"|"time_to_first_token(?:_ms)?"|Serving Benchmark Result'
    r"|AIPerf \| LLM Metrics|GenAI-Perf \| LLM Metrics|Benchmarks Stats:|Request Latency Statistics"
)
_PRINTED = re.compile(r"(?<!=)=+ Serving Benchmark Result =+\n(.*?)(?:\n=+\s*(?:\n|\Z)|\Z)", re.S)
_LINE = re.compile(r"(?m)^[#\s]*([A-Za-z][\w ()/.]{2,60}?):[ \t]+(-?[\w./-]+)[ \t]*$")
# What is printed, by the names of the JSON.
_NAMES = {
    "Successful requests": "completed",
    "Failed requests": "failed",
    "Burstiness factor": "burstiness",
    "Maximum request concurrency": "max_concurrency",
    "Max request concurrency": "max_concurrency",
    "Request rate configured (RPS)": "request_rate",
    "Traffic request rate": "request_rate",
    "Total input tokens": "total_input_tokens",
    "Total generated tokens": "total_output_tokens",
    "Request throughput (req/s)": "request_throughput",
    "Output token throughput (tok/s)": "output_throughput",
    "Mean TTFT (ms)": "mean_ttft_ms",
    "Mean TPOT (ms)": "mean_tpot_ms",
    "Concurrency": "concurrency",
    "Backend": "backend",
}
VLLM, SGLANG, PRINTED = "vllm bench serve", "sglang.bench_serving", "benchmark client"
GUIDELLM, PROFILE = "GuideLLM", "genai-perf or aiperf"
GUIDELLM_TABLE, PROFILE_TABLE = f"{GUIDELLM}, as printed", f"{PROFILE}, as printed"
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "sglang-oai": "sglang", "tensorrt-llm": "trt-llm", "trt": "trt-llm"}
_NEARLY = 0.95  # of a rate that is asked for: fewer answers than that, and a cap of requests in flight binds
_HEAD = 1 << 20  # bytes in which the keys of a result stand
_MOST = 1_000  # rows of a file
_LARGEST = 1e12


class BenchmarkRow(NamedTuple):
    """One benchmark as a row of a table of serving runs, with its output tokens per second and a remark."""

    cells: dict[str, Any]
    tokens_per_s: float | None
    remark: str


class BenchmarkResults(NamedTuple):
    """The program that wrote a result file, its rows, and the verdict for every key."""

    program: str
    rows: tuple[BenchmarkRow, ...]
    keys: tuple[StatedKey, ...] = ()
    losses: tuple[Loss, ...] = ()


def benchmark_results(text: str, file: str) -> BenchmarkResults | None:
    """The rows of a benchmark result; None for any other text, and a fault if no row can be read."""
    if not RESULTS.search(text):
        return None
    program, stated, found = _parsed_results(text)
    if not program:
        return None
    rows = tuple(row for each in found[:_MOST] if (row := _benchmark_row(each)) is not None)
    if not rows:
        sentence = "no row states a mean time to the first token, tokens of prompts and answers, and a load"
        raise fail("X002", f"results of {program}: {sentence}", Place(file), "give the file that the client wrote last")
    keys, losses = _key_verdicts(stated[:_MOST], program, file)
    return BenchmarkResults(program, rows, tuple(keys.values()), tuple(losses))


def is_result_file(name: str) -> bool:
    """Whether a file is JSON with benchmark results or a trainer state, by its extension and its first part."""
    there = is_text(name) or (may_look(name) and Path(name).is_file())
    if not name.lower().endswith((".json", ".jsonl")) or not there:
        return False
    head = file_head(name, _HEAD)[0]
    return is_trainer_state(head) or RESULTS.search(head) is not None


def _parsed_results(text: str) -> tuple[str, Sequence[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The program, the stated keys, and the results under the names of vLLM's JSON."""
    trees = list(_json_mappings(text))
    if any("mean_ttft_ms" in tree for tree in trees):
        of_sglang = any(
            "sharegpt_output_len" in tree or str(tree.get("backend")).startswith("sglang") for tree in trees
        )
        return (SGLANG if of_sglang else VLLM), trees, trees
    if trees and isinstance(trees[0].get("benchmarks"), list):
        return (
            GUIDELLM,
            trees[:1],
            [_guidellm_row(each) for each in trees[0]["benchmarks"] if isinstance(each, Mapping)],
        )
    if any("time_to_first_token" in tree for tree in trees):
        return PROFILE, trees, [_genai_perf_row(tree) for tree in trees]
    printed: list[Mapping[str, Any]] = [
        _printed_results(match.group(1), text[: match.start()]) for match in _PRINTED.finditer(text)
    ]
    return (PRINTED, printed, printed) if printed else _table_results(text)


def _json_mappings(text: str) -> Iterator[Mapping[str, Any]]:
    """The JSON mapping of a text, or one from each line (JSON Lines)."""
    for written in (text, *text.splitlines()[:_MOST]):
        try:
            tree = json.loads(written) if written.lstrip().startswith("{") else None
        except (ValueError, RecursionError):
            continue
        if isinstance(tree, Mapping):
            yield tree
            if written is text:
                return


def _printed_results(body: str, ahead: str) -> dict[str, Any]:
    """The lines of a printed result, with the request rate and concurrency cap printed before them."""
    own = {_NAMES.get(name.strip(), name.strip()): value for name, value in _LINE.findall(body)}
    lines = ((_NAMES.get(name.strip(), ""), value) for name, value in _LINE.findall(ahead[-2_000:]))
    return {name: value for name, value in lines if name} | own


# --- Tables that GuideLLM, genai-perf and aiperf print: a column by the words above it, joined downwards.

_BARS = str.maketrans("┃│", "||")
_RULED = " |=+-━─┏┳┓┡╇┩└┴┘"  # what a line between rows of a table is made of
_LOAD = re.compile(r"--(concurrency|request-rate|model)[ =]'?([\w./-]+)")
_FROM_TABLE = {  # of our names the words in a table, the newer ones last
    "total_input_tokens": ("prompt tok/req comp", "input tok per req mdn", "input sequence length"),
    "total_output_tokens": (
        "output tok/req comp", "output tok per req mdn", "output sequence length", "output token count",
    ),
    "request_throughput": ("request stats per second", "requests per sec mean", "request throughput"),
    "output_throughput": ("out tok/sec mean", "output tokens per sec mean", "output token throughput"),
    "mean_ttft_ms": ("ttft (ms) mean", "ttft ms mdn", "time to first token"),
    "mean_tpot_ms": ("itl (ms) mean", "itl ms mdn", "inter token latency"),
    "concurrency": ("request stats concurrency", "requests concurrency mean"),
}  # fmt: skip
_MEDIANS = "GuideLLM prints medians, which are taken as means"
_LITTLE = "no load is printed: as many are in flight as rate times latency"


def _table_results(text: str) -> tuple[str, list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The program, the table cells, and the results of tables in a text."""
    guided, profiles = list[dict[str, str]](), list[Mapping[str, Any]]()
    ahead = dict(_LOAD.findall(text))
    for heads, rows in _tables(text):
        if heads[:2] in (["metric", "avg"], ["statistic", "avg"]):
            cells = (
                (row[0].partition("(")[0].strip().lower(), row[1].replace(",", "")) for row in rows if len(row) > 1
            )
            profiles.append(
                {name: value for name, value in cells if name and value}
                | {name.replace("-", "_"): value for name, value in ahead.items()}
            )
        elif heads[0] in ("metadata benchmark", "benchmark strategy"):
            new = any(name in row for row in guided for name in heads[1:]) or len(guided) < len(rows)
            guided += [{} for _ in rows if new]
            for row, line in zip(guided[-len(rows) :], rows, strict=True):
                row.update({head: cell for head, cell in zip(heads, line, strict=False) if head})
    if profiles:
        return PROFILE_TABLE, profiles, [_table_row(each, ahead) for each in profiles]
    return (GUIDELLM_TABLE if guided else ""), list(guided), [_table_row(each, {}) for each in guided]


def _tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """The column heads and the rows of each table drawn with bars."""
    heads, rows, inside = list[list[str]](), list[list[str]](), False
    for line in [*(each.strip() for each in text.translate(_BARS).splitlines()), ""]:
        ruled = len(line) > 2 and not line.strip(_RULED)
        if ruled and heads and not rows:
            inside = True
        elif line.count("|") > 1 and not ruled and len(rows) < _MOST:
            cells = [cell.strip() for cell in (line[1:-1] if line.startswith("|") else line).split("|")]
            (rows if inside else heads).append(cells)
        elif heads:
            if rows:
                yield _joined_heads(heads), rows
            heads, rows, inside = [], [], False


def _joined_heads(heads: Sequence[Sequence[str]]) -> list[str]:
    """One name for each column; an empty head cell repeats the cell on its left."""
    columns = [""] * len(heads[-1])
    for head in heads:
        last = ""
        for index, cell in enumerate(head[: len(columns)]):
            last = cell or last
            columns[index] = f"{columns[index]} {last.lower()}".strip()
    return columns


def _table_row(cells: Mapping[str, Any], ahead: Mapping[str, str]) -> dict[str, Any]:
    """One table row under the names of vLLM's JSON, with its load."""
    found: dict[str, Any] = {"completed": 1.0, "model_id": ahead.get("model"), "remark": ""}
    for name, words in _FROM_TABLE.items():
        found[name] = next((cells[word] for word in words if word in cells), None)
    kind, _, stated = (cells.get("metadata benchmark") or cells.get("benchmark strategy") or "").partition("@")
    if not kind:
        found |= {"max_concurrency": ahead.get("concurrency"), "request_rate": ahead.get("request-rate")}
        rate, latency = _number(found["request_throughput"]), _number(cells.get("request latency"))
        if not ahead.keys() & {"concurrency", "request-rate"} and rate and latency:
            found |= {"max_concurrency": rate * latency / 1e3, "remark": _LITTLE}
    elif kind in ("synchronous", "concurrent", "throughput"):
        found["max_concurrency"] = stated or (1 if kind == "synchronous" else found["concurrency"])
    else:
        found["request_rate"] = stated or found["request_throughput"]
    return found if "ttft ms mdn" not in cells else found | {"remark": _MEDIANS}


def _at_path(tree: Any, path: str) -> Any:
    """The value at a dotted path of a mapping; None if a part is missing."""
    for name in path.split("."):
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    return tree


def _first_at_paths(tree: Any, *paths: str) -> Any:
    """The value at the first of several dotted paths that exists; None if none does."""
    return next((found for path in paths if (found := _at_path(tree, path)) is not None), None)


def _guidellm_row(tree: Mapping[str, Any]) -> dict[str, Any]:
    """One benchmark of GuideLLM; its values count successful requests only."""

    def mean(name: str) -> Any:
        return _first_at_paths(tree, f"metrics.{name}.successful.mean", f"{name}.successful.mean", f"{name}.mean")

    strategy = _first_at_paths(tree, "config.strategy", "args.strategy", "scheduler.strategy") or {}
    return {
        "completed": 1.0,
        "total_input_tokens": mean("prompt_token_count"),
        "total_output_tokens": mean("output_token_count"),
        "request_throughput": mean("requests_per_second"),
        "output_throughput": mean("output_tokens_per_second"),
        "mean_ttft_ms": mean("time_to_first_token_ms"),
        "mean_tpot_ms": mean("inter_token_latency_ms") or mean("time_per_output_token_ms"),
        "concurrency": mean("request_concurrency"),
        "max_concurrency": _first_at_paths(strategy, "streams", "max_concurrency"),
        "request_rate": _first_at_paths(strategy, "rate"),
        "model_id": _first_at_paths(tree, "config.model", "args.model", "worker.backend_model", "request_loader.model"),
    }


_LOADS = ("loadgen.", "perf_analyzer.stimulus.", "")  # where a profile states its load


def _genai_perf_row(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A profile of genai-perf or aiperf; times are in milliseconds."""
    models = _first_at_paths(
        tree, "input_config.endpoint.model_names", "input_config.model_names", "input_config.model"
    )
    return {
        "completed": 1.0,
        "total_input_tokens": _at_path(tree, "input_sequence_length.avg"),
        "total_output_tokens": _at_path(tree, "output_sequence_length.avg"),
        "request_throughput": _at_path(tree, "request_throughput.avg"),
        "output_throughput": _at_path(tree, "output_token_throughput.avg"),
        "mean_ttft_ms": _at_path(tree, "time_to_first_token.avg"),
        "mean_tpot_ms": _at_path(tree, "inter_token_latency.avg"),
        "max_concurrency": _first_at_paths(tree, *(f"input_config.{place}concurrency" for place in _LOADS)),
        "request_rate": _first_at_paths(tree, *(f"input_config.{place}request_rate" for place in _LOADS)),
        "model_id": models[0] if isinstance(models, Sequence) and not isinstance(models, str) and models else models,
    }  # fmt: skip


def _number(value: Any) -> float | None:
    """A number above 0 that is not an overflow; None for anything else."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except ValueError:
        return None
    return number if 0 < number < _LARGEST else None


def _benchmark_row(tree: Mapping[str, Any]) -> BenchmarkRow | None:
    """One result as a row: mean lengths, the limiting load, and mean times."""
    completed, ttft = _number(tree.get("completed")), _number(tree.get("mean_ttft_ms"))
    inputs, outputs = _number(tree.get("total_input_tokens")), _number(tree.get("total_output_tokens"))
    if completed is None or ttft is None or inputs is None or outputs is None:
        return None
    output, tpot = outputs / completed, _number(tree.get("mean_tpot_ms"))
    answered, asked = _number(tree.get("request_throughput")), _number(tree.get("request_rate"))
    cells: dict[str, Any] = {
        "engine": _ENGINES.get(str(tree.get("backend"))),
        "engine_version": _text(_first_at_paths(tree, "server_info.version", "engine_version")),
        "model": _text(_first_at_paths(tree, "model_id", "server_info.model_path", "model")),
        "tp": _number(_first_at_paths(tree, "tp", "tensor_parallel_size", "server_info.tp_size")),
        "gpu": _text(_first_at_paths(tree, "gpu", "gpu_type", "accelerator")),
        "prompt": round(inputs / completed) or 1,
        "output": round(output) or 1,
        "requests_per_s": answered,
        "ttft_s": ttft / 1e3,
        "tpot_s": None if tpot is None else tpot / 1e3,
    }
    most, remark = _number(tree.get("max_concurrency")), str(tree.get("remark") or "")
    binds = most is not None and (asked is None or answered is None or answered < _NEARLY * asked)
    if most is not None and binds:
        cells |= {"concurrency": round(most) or 1, "traffic": "burst" if asked is None else "steady"}
    elif asked is None:
        cells |= {"requests": round(_number(tree.get("num_prompts")) or completed)}
    else:
        flying = _number(tree.get("concurrency"))
        flying = flying or (answered or asked) * (ttft + (tpot or 0.0) * max(output - 1, 0)) / 1e3
        cells |= {"concurrency": max(1, round(flying)), "traffic": "steady"}
        remark = f"{asked:g} requests a second: so many are in flight on average"
    stated = {name: value for name, value in cells.items() if value is not None}
    return BenchmarkRow(stated, _number(tree.get("output_throughput")), remark)


def _text(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value.isprintable() and value else None


# --- every key of a result

_AROUND = """
date endpoint endpoint_type label tokenizer_id tokenizer served_model_name profile tag seed arrival_seed dataset_name
dataset_path num_processes benchmark_start_time benchmark_end_time duration random_input_len random_output_len
fixed_output_len sharegpt_output_len request_goodput request_goodput: goodput total_token_throughput total_throughput
total_throughput_retokenized input_throughput output_throughput_retokenized total_input_text_tokens
total_input_tokens_retokenized total_output_tokens_retokenized max_output_tokens_per_s max_concurrent_requests rtfx
input_lens output_lens ttfts itls start_times generated_texts errors
"""
_SENT = """
backend model_id model num_prompts request_rate max_concurrency concurrency completed total_input_tokens
total_output_tokens request_throughput output_throughput mean_ttft_ms mean_tpot_ms tp tensor_parallel_size gpu gpu_type
accelerator server_info.model_path server_info.tp_size server_info.version engine_version
"""
_APART = "the row has the mean length of those that differ"
_SPREAD = lost("approximated", "requests do not arrive at random", "burstiness", 1.0, "1.0")
_FAILED = lost("approximated", "requests that failed are in no mean", "failed", 0, "0")
_DRAFTED = "accepted drafts: state plan.speculation of the engine's plan"
_FLAT = option_table(
    (part(name, "workload") for name in _SENT.split()),
    quiet(_AROUND), quiet("server_info.*"), _SPREAD, _FAILED,
    lost("approximated", "the rate changes during the run", "ramp_up_strategy ramp_up_start_rps ramp_up_end_rps"),
    lost("not expressible", _DRAFTED, "accept_length spec_decode_acceptance_rate spec_decode_acceptance_length"),
    lost("not expressible", "prompts with images", "total_input_vision_tokens", 0),
)  # fmt: skip
_TABLES: dict[str, Table] = {
    VLLM: _FLAT | option_table(lost("approximated", _APART, "random_range_ratio", 0)),
    SGLANG: _FLAT | option_table(lost("approximated", _APART, "random_range_ratio", 1)),
    PRINTED: _FLAT,
    GUIDELLM: option_table(
        quiet("metadata args.* report type_"),
        [replace(row, option=f"benchmarks.{row.option}") for row in (
            *(part(f"metrics.{name}", "workload") for name in (
                "prompt_token_count", "output_token_count", "requests_per_second", "output_tokens_per_second",
                "time_to_first_token_ms", "inter_token_latency_ms", "time_per_output_token_ms", "request_concurrency")),
            *(part(name, "workload") for name in ("config.strategy", "args.strategy", "scheduler.strategy",
                "config.model", "args.model", "worker.backend_model", "request_loader.model")),
            *quiet("type_ id_ run_id run_index start_time end_time duration run_stats scheduler_metrics requests "
                   "extras request_totals request_samples warmup_duration cooldown_duration metrics.* config.* args.* "
                   "scheduler.* worker.* request_loader.* environment benchmarker"),
        )],
    ),
    PROFILE: option_table(
        (part(f"input_config.{place}{name}", "workload") for place in ("loadgen.", "perf_analyzer.stimulus.", "")
         for name in ("concurrency", "request_rate")),
        (part(f"input_config.{name}", "workload") for name in ("endpoint.model_names", "model_names", "model")),
        (part(name, "workload") for name in ("input_sequence_length", "output_sequence_length", "request_throughput",
                                             "output_token_throughput", "time_to_first_token", "inter_token_latency")),
        quiet("input_config.* schema_version aiperf_version benchmark_id start_time end_time filenames telemetry_data "
              "telemetry_stats telemetry server_metrics error_summary profile_start_ns profile_end_ns"),
        lost("approximated", "the run was cancelled", "was_cancelled"),
    ),
}  # fmt: skip
_TABLES |= dict.fromkeys((GUIDELLM_TABLE, PROFILE_TABLE), option_table(
    (part(word, "workload") for words in _FROM_TABLE.values() for word in words),
    (part(name, "workload") for name in ("metadata benchmark", "benchmark strategy", "request latency", "model",
                                         "concurrency", "request_rate")),
))  # fmt: skip
_WORST = get_args(Verdict)  # the last
# Figures of a client that no row of a table has: a mean, a percentile, a rate, and a metric of a profile.
_FIGURE = re.compile(
    r"(?:mean|median|std|min|max|p\d+(?:\.\d+)?)_\w+_ms|(?:Mean|Median|Std|Max|Min|P\d+(?:\.\d+)?) [\w-]+ \(ms\)"
    r"|(?:Benchmark duration|Peak [\w ]+|Total [\w ]+|Input [\w ]+|Request goodput|RTFx)(?: \([\w/]+\))?"
)


def _key_verdicts(
    trees: Sequence[Mapping[str, Any]], program: str, file: str
) -> tuple[dict[str, StatedKey], list[Loss]]:
    """The verdict for each key that the results state, and the losses."""
    found, losses = dict[str, StatedKey](), list[Loss]()
    for tree in trees:
        tabled = program in (GUIDELLM_TABLE, PROFILE_TABLE)
        figures = {name: Row(name) for name, value in tree.items() if tabled or _is_figure(name, value)}
        keys = ForeignKeys(tree, {**figures, **_TABLES[program]}, file, program)
        keys.note_read()
        for key in keys.verdicts():
            before = found.setdefault(key.name, key)
            found[key.name] = max(before, key, key=lambda each: _WORST.index(each.verdict))
        losses += [loss for loss in keys.losses if loss.kind != "ignored" and loss not in losses]
    return found, losses


def _is_figure(name: str, value: Any) -> bool:
    return _FIGURE.fullmatch(name) is not None or (isinstance(value, Mapping) and "avg" in value)
