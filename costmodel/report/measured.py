"""What was measured on the device at hand."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from costmodel.explore.measure.stopwatch import Device
from costmodel.report.layout import Grid, Line
from costmodel.report.theme import HEAD, WARN, styled

_SHAPE = ("n_gpus", "bytes", "b", "h", "l", "dim", "m", "n", "k")
_TIMES = ("fwd_us", "bwd_us", "time_us")


def table(device: Device, rows: list[dict[str, Any]]) -> list[Line]:
    """Every operation with its shape and times."""
    shape = [name for name in _SHAPE if any(row.get(name) is not None for row in rows)]
    times = [name for name in _TIMES if any(row.get(name) is not None for row in rows)]
    cells = [
        [str(row["op"]), *(_whole(row.get(name)) for name in shape), *(_time(row.get(name)) for name in times)]
        for row in rows
    ]
    heads = ["op", *shape, *(name.replace("_us", " us") for name in times)]
    lines: list[Line] = [styled(f"{device.name}, PyTorch {device.torch}", HEAD)]
    if device.is_processor:
        lines.append(styled("these are times of a processor, not of a GPU", WARN))
    return [*lines, Text(), Grid(heads, cells, "l" + "r" * (len(heads) - 1)), Text(), styled(_NEXT)]


_NEXT = "Keep them with -o mine.csv, then: costmodel calibrate mine.csv"


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _time(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


def as_json(device: Device, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The table as a document; times in microseconds, as tables of kernels have them."""
    return {
        "schema": "costmodel/measured-kernels/v1",
        "device": device.name,
        "processor": device.is_processor,
        "torch": device.torch,
        "driver": device.driver,
        "rows": rows,
    }
