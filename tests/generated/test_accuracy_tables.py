"""The tables of accuracy in README.md and docs/accuracy are those that the program would write now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from costmodel.evidence.validate.scores import LEFT_OUT

from .accuracy_tables import PAGES, fresh_pages, sources

ROOT = Path(__file__).resolve().parents[2]


def test_pages_are_fresh() -> None:
    fresh = fresh_pages()
    for page in PAGES:
        text = (ROOT / page).read_text("utf-8")
        assert text == fresh[page], "python -m tests.generated.accuracy_tables writes them again"
        assert "<!-- table: " in text


def test_the_record_is_of_all_runs() -> None:
    """Groups of a kind are parts of the whole; each source is left out once."""
    record = json.loads((ROOT / LEFT_OUT).read_text("utf-8"))
    groups = record["groups"]
    assert groups["dense"]["runs"] + groups["with experts"]["runs"] == record["runs"]
    assert sum(row["runs"] for row in record["sources"].values()) == record["runs"]
    years = [row["runs"] for name, row in groups.items() if name.startswith("runs ")]
    assert sum(years) == record["runs"]
    assert 0.75 <= groups["dense"]["inside"] <= 0.90
    assert all(row["inside_shipped"] >= 0.6 for row in groups.values() if row["runs"] >= 10)


def test_validate_alone_shows_it(run: Any) -> None:
    """The scoreboard is never of fitted runs alone; JSON has the same figures."""
    record = json.loads((ROOT / LEFT_OUT).read_text("utf-8"))
    shown = run("validate").out.splitlines()
    dense = next(line.split() for line in shown if line.startswith("  dense"))
    assert dense[1:3] == [str(record["groups"]["dense"]["runs"]), f"{record['groups']['dense']['median']:.1%}"]
    assert any(f"runs, {record['date']};" in line for line in shown)
    assert json.loads(run("validate", "--json").out)["left_out"]["dense"] == record["groups"]["dense"]


def test_validate_shows_services_left_out(run: Any) -> None:
    """Every benchmark is left out once by each column, and each is further off so than where it was fitted."""
    record = json.loads((ROOT / LEFT_OUT).read_text("utf-8"))["services"]
    shown = [line.split() for line in run("validate").out.splitlines() if ", each " in line]
    assert set(record) == {"model", "accelerator", "source"}
    for column, errors in record.items():
        for name, quantity in (("time per token", "tpot"), ("first token", "ttft")):
            row = next(line for line in shown if " ".join(line).startswith(f"{name}, each {column} "))
            assert row[-5:-2] == [
                str(errors[quantity]["runs"]),
                *(f"{errors[quantity][k]:.1%}" for k in ("median", "p90")),
            ]
            assert errors[quantity]["runs"] == 1968
            assert errors[quantity]["inside"] > 0.79


def test_sources_stand_best_first() -> None:
    row = {"median": 0.05, "p90": 0.1, "bias": -0.02, "inside": 0.8}
    worse = {"runs": 3, "in_sample": row, "left_out": {**row, "median": 0.06}}
    better = {"runs": 1, "in_sample": row, "left_out": row}
    *_, first, second = sources({"sources": {"b": worse, "a": better}}).splitlines()
    assert first == "| a | 1 | 5.0 %, 10.0 % | 5.0 %, 10.0 % | −2.0 % | 80 % |"
    assert second.startswith("| b | 3 |")
