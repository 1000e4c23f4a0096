"""The page of reports of users: each row is what its command predicts."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs/accuracy/reports.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text("utf-8").splitlines()
    if "`costmodel " in line and line.startswith("| ")
]
SUFFIX = {"memory_peak": "_bytes", "host_memory": "_bytes", "step_time": "_s", "tokens_per_s_per_gpu": ""}
COUNTED = {"allocated": "fragmentation_bytes", "reserved": "pages_bytes"}  # the line that ends each sum


def shown(value: float) -> str:
    """A figure as the page has it."""
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[3]}")
def test_a_row_is_what_its_command_predicts(row: list[str], run: Any) -> None:
    _, command, figure, reported, predicted, band, inside = row
    answer = json.loads(run(*shlex.split(command.strip("`"))[1:], "--json").out)
    (plan,), unit = answer["plans"], 2.0**30 if "GiB" in reported else 1.0
    if figure in COUNTED:
        lines = [name for name in answer["ledger"][0] if name.endswith("_bytes")]
        held = sum(answer["ledger"][0][name] for name in lines[: lines.index(COUNTED[figure])])
        assert predicted.split()[0] == shown(held / unit)
        return
    value, *ends = (plan.get(f"{figure}{end}{SUFFIX[figure]}") for end in ("", "_low", "_high"))
    assert predicted.split()[0] == shown(value / unit)
    if None in ends:
        assert band == inside == "—"
        return
    low, high = ends
    assert band == f"{shown(low / unit)} – {shown(high / unit)}"
    assert inside == ("yes" if low <= float(reported.split()[0].replace(",", "")) * unit <= high else "no")


def test_every_kind_has_its_row() -> None:
    assert len({row[0] for row in ROWS}) >= 7
    assert sum(row[-1] == "yes" for row in ROWS) > sum(row[-1] == "no" for row in ROWS)
