"""The answer of `measure`: what was timed on the device at hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

from costmodel.evidence.measure.measure import LACKED_TIME, MeasuredKernels
from costmodel.evidence.measure.stopwatch import Device
from costmodel.ground.counts import number_of
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


def remarks(found: MeasuredKernels) -> list[str]:
    """What is not in the table, and why."""
    reasons = Counter(_reason(row["skipped"]) for row in found.rows if row.get("skipped"))
    skipped = [f"{count:,} shapes were skipped: {reason}" for reason, count in reasons.items()]
    return skipped + [f"stopped: {len(found.rows):,} rows were finished by then"] * found.stopped


def _reason(skipped: str) -> str:
    """The reason without its figures."""
    return "there was not time for them" if skipped.startswith(LACKED_TIME) else skipped


def _operation(row: dict[str, Any]) -> str:
    """Its name, with the kernel and a type other than usual."""
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
