"""The notebooks of docs/examples hold what their cells give; `--update-transcripts` writes it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .notebooks import executed

FOLDER = Path(__file__).resolve().parents[2] / "docs/examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_what_the_cells_give(path: Path, run: Any, request: pytest.FixtureRequest) -> None:
    stored = json.loads(path.read_text("utf-8"))
    found = executed(stored, FOLDER, run)
    if request.config.getoption("--update-transcripts"):
        if found != stored:
            path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
        return
    for number, (now, then) in enumerate(zip(found["cells"], stored["cells"], strict=True)):
        assert now == then, f"cell {number}: --update-transcripts writes it again"


def test_there_are_notebooks_and_all_are_listed() -> None:
    page = (FOLDER / "index.md").read_text("utf-8")
    assert len(NOTEBOOKS) >= 5
    assert [path.name for path in NOTEBOOKS if f"({path.name})" not in page] == []


def test_a_cell_is_run_as_jupyter_runs_it(tmp_path: Path, run: Any) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# A"]},
        {"cell_type": "code", "source": ["x = 3\n", "print('a')\n", "x + 1"]},
        {"cell_type": "code", "source": ["!costmodel explain nowhere"]},
        {"cell_type": "code", "source": ["x = None\n", "x"]},
    ]
    first, printed, shell, nothing = executed({"cells": cells}, tmp_path, run)["cells"]
    assert first == cells[0]
    assert [output.get("text") or output["data"]["text/plain"] for output in printed["outputs"]] == [["a\n"], ["4"]]
    assert shell["outputs"][0]["text"][0].startswith("error[C003]")
    assert (nothing["outputs"], nothing["execution_count"]) == ([], 3)
