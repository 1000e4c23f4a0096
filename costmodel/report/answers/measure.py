"""The answer of `measure`: what was timed on the device at hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.evidence.measure.measure import LACKED_TIME, MeasuredKernels
from costmodel.evidence.measure.stopwatch import Device
from costmodel.explore.serving.benchmark_points import BenchmarkPoint
from costmodel.ground.counts import number_of
from costmodel.ground.units import show_time, significant
from costmodel.report.document import AnswerDocument, Section, Table, columns
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import HEAD, WARN, styled

_SHAPE = ("n_gpus", "bytes", "b", "h", "l", "dim", "m", "n", "k")
_TIMES = ("fwd_us", "bwd_us", "predicted_fwd_us", "predicted_bwd_us", "time_us")
_NEXT = "Keep them with -o mine.csv, then: costmodel calibrate mine.csv"


def measured(device: Device, found: MeasuredKernels) -> AnswerDocument:
    """Every operation with its shape and times, and how many were left out."""
    rows = [row for row in found.rows if not row.get("skipped")]
    shape, times = (
        [name for name in names if any(row.get(name) is not None for row in rows)] for names in (_SHAPE, _TIMES)
    )
    cells = [
        [_operation(row), *(_whole(row.get(name)) for name in shape), *(_time(row.get(name)) for name in times)]
        for row in rows
    ]
    heads = ["op", *shape, *(name.replace("_us", " us").replace("_", " ") for name in times)]
    about: list[Line] = [styled(f"{device.name}, PyTorch {device.torch}", HEAD)]
    about += [styled("these are times of a processor, not of a GPU", WARN)] if device.is_processor else []
    table = Table(columns(heads, "l" + "r" * (len(heads) - 1)), cells)
    left = [*(styled(sentence, WARN) for sentence in remarks(found)), styled(_NEXT)]
    sections = [Section("operations", "Operations", table=table), Section("remarks", "Remarks", beneath=left)]
    stated = f"{number_of(len(rows), 'operation')} timed on {device.name}."
    return AnswerDocument(None, f"Operations of {device.name}", about, stated, "plain", sections)


POINTS = "points"  # the folder of results


def points(case: LoadedScenario, found: Sequence[BenchmarkPoint]) -> AnswerDocument:
    """The benchmarks that determine the constants of an engine, their expected results, and how to read them back."""
    heads = ("users", "prompt", "output", "first token", "token", "time", "GPU hours")
    rows = [
        [
            *(f"{count:,}" for count in (each.users, each.prompt, each.output)),
            *map(show_time, (each.first, each.token, each.seconds)),
            significant(each.busy / 3600),
        ]
        for each in found
    ]
    hours = significant(sum(each.busy for each in found) / 3600)
    stated = f"{number_of(len(found), 'benchmark')} of {case.title} take {hours} GPU hours."
    scenario = f"{PurePath(case.file).stem}.yaml"
    lines: list[Line] = [
        styled(f"Put the scenario beside the results, as {POINTS}/{scenario}, start the engine, then:")
    ]
    lines += [styled(f"  {each.command}") for each in found]
    ahead: list[Line] = [styled(stated, HEAD)]
    closing: list[Line] = [styled(f"Then: costmodel calibrate --follow {POINTS} --write")]
    section = Section("points", "Benchmarks to run", stated, ahead=ahead, table=Table(columns(heads, "r" * 7), rows))
    sections = [section, Section("commands", "Commands", beneath=lines)]
    return AnswerDocument(case, "Benchmarks to run", [], stated, "plain", sections, closing=closing)


def points_json(case: LoadedScenario, found: Sequence[BenchmarkPoint]) -> dict[str, Any]:
    """The benchmark points of an engine as plain values."""
    return {
        **head("costmodel/benchmark-points/v1"),
        "scenario": case.file,
        "points": [
            {
                "users": each.users,
                "prompt": each.prompt,
                "output": each.output,
                "predicted_ttft_s": each.first,
                "predicted_tpot_s": each.token,
                "seconds": each.seconds,
                "gpu_hours": each.busy / 3600,
                "command": each.command,
            }
            for each in found
        ],
    }


def remarks(found: MeasuredKernels) -> list[str]:
    """Sentences on skipped shapes, with the reason, and on a measurement that was stopped."""
    reasons = Counter(_reason(row["skipped"]) for row in found.rows if row.get("skipped"))
    skipped = [f"{count:,} shapes were skipped: {reason}" for reason, count in reasons.items()]
    return skipped + [f"stopped: {len(found.rows):,} rows were finished by then"] * found.stopped


def _reason(skipped: str) -> str:
    """The reason without its figures."""
    return "there was not time for them" if skipped.startswith(LACKED_TIME) else skipped


def _operation(row: dict[str, Any]) -> str:
    """The name of an operation, with its kernel and its type unless that is bf16."""
    return " ".join(filter(None, (row["op"], row.get("kernel"), row["dtype"].replace("bf16", ""))))


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _time(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


def measured_json(device: Device, found: MeasuredKernels) -> dict[str, Any]:
    """The table as a document; times in microseconds, as tables of kernels have them."""
    return {
        **head("costmodel/measured-kernels/v1"),
        "device": device.name,
        "processor": device.is_processor,
        "torch": device.torch,
        "driver": device.driver,
        "complete": not found.stopped,
        "rows": found.rows,
    }
