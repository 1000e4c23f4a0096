"""Excel workbooks: the rows of the JSON, numbers as numbers, and nothing that Excel would compute."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

openpyxl = pytest.importorskip("openpyxl")
FORMULA = '=HYPERLINK("http://example.org","x")'


def rows(sheet: Any) -> list[dict[str, Any]]:
    head, *lines = sheet.iter_rows(values_only=True)
    return [dict(zip(head, line, strict=True)) for line in lines]


def test_a_workbook_has_the_rows_of_the_json(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "plans.xlsx"
    command = ("search", "quickstart", "--top", "5")
    assert run(*command, "-o", str(path)).code == 0
    result = json.loads(run(*command, "--json").out)
    book = openpyxl.load_workbook(path)
    assert book.sheetnames[:2] == ["plans", "about"]
    for row, plan in zip(rows(book["plans"]), result["plans"], strict=True):
        for name, value in plan.items():  # a workbook holds 15 digits
            assert row[name] == (pytest.approx(value, rel=1e-14) if isinstance(value, float) else value), name
    assert {row["name"]: row["unit"] for row in rows(book["columns"])}["step_time_s"] == "s"
    assert [row["path"] for row in rows(book["assumed"])] == [item["path"] for item in result["assumed"]]


def test_no_name_becomes_a_formula(run: Any, tmp_path: Path, inline: str) -> None:
    scenario, path = tmp_path / "mine.yaml", tmp_path / "mine.xlsx"
    text = re.sub(r"(?m)^title: .*$", lambda _: f"title: {json.dumps(FORMULA)}", inline)
    scenario.write_text(text, "utf-8")
    assert run("estimate", str(scenario), "-o", str(path)).code == 0
    cells = [cell for sheet in openpyxl.load_workbook(path) for row in sheet.iter_rows() for cell in row]
    assert any(cell.value == FORMULA for cell in cells)
    assert {cell.data_type for cell in cells} <= {"n", "s", "b"}
