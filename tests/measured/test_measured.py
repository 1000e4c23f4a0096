"""Every shipped measured table within its own stated tolerance."""

import functools
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.case import cases
from costmodel.documents.library import bibliography, names, read
from costmodel.explore.validate.outcomes import Quantity
from costmodel.explore.validate.validate import DOCUMENTED, Compared, compared

TABLES = names("measured")
every_table = pytest.mark.parametrize("table", TABLES)
each_quantity = pytest.mark.parametrize("quantity", DOCUMENTED)


@functools.cache
def figures(table: str, quantity: Quantity) -> list[Compared]:
    """What a shipped table measured, beside our predictions."""
    return list(compared(read("measured", table), quantity))


def test_there_are_tables() -> None:
    assert "korthikanti-2022" in TABLES


@every_table
def test_something_was_measured(table: str) -> None:
    assert any(figures(table, quantity) for quantity in DOCUMENTED)


@each_quantity
@every_table
def test_figures_are_within_their_tolerance(table: str, quantity: Quantity) -> None:
    beyond = {
        f"{one.run} {one.quantity}": f"{one.error:+.1%}"
        for one in figures(table, quantity)
        if not abs(one.error or 0.0) <= (one.tolerance or 0.0)
    }
    assert beyond == {}


@each_quantity
@every_table
def test_a_tolerance_is_no_wider_than_it_must_be(table: str, quantity: Quantity) -> None:
    allowed = max((one.tolerance or 0.0 for one in figures(table, quantity)), default=0.0)
    assert allowed <= max(0.12, 2 * max((abs(one.error or 0.0) for one in figures(table, quantity)), default=0.0))


@every_table
def test_a_table_says_where_it_was_published(table: str) -> None:
    document = read("measured", table)
    key = document.source.key
    url = document.sources[key].url if key in document.sources else bibliography()[key]["url"]
    assert str(url).startswith("https://")


def test_documents_are_named_before_they_are_changed() -> None:
    """What all runs change is changed in the model that a run names in the place of the scenario's."""
    table = read("measured", "qi-2023")
    assert {(case.model.hidden, case.model.vocab) for _, case in cases(table)} >= {(2304, 50257), (4096, 50257)}


def test_a_run_may_leave_a_key_out() -> None:
    """As the layers of DeepSeek-V3 were timed without those of multi-token prediction."""
    shapes = {case.model.name: case.model for _, case in cases(read("measured", "simumax-b200"))}
    assert read("model", "deepseek-v3").prediction is not None
    assert shapes["deepseek-v3"].prediction is None


def test_figures_out_of_tolerance_are_shown_when_gathered(run: Any, tmp_path: Path) -> None:
    text = run("show", "korthikanti-2022").out.replace("name: korthikanti-2022", "name: strict")
    (tmp_path / "strict.yaml").write_text(text.replace("step_time: 10 %", "step_time: 6 %"), "utf-8")
    told = run("validate", "strict.yaml", "--by", "source", cwd=tmp_path)
    assert told.code == 1
    assert [line.split()[0] for line in told.out.splitlines() if "✗" in line] == ["175b-full"]
    assert "22b-full" not in told.out


def test_memory_is_compared_when_asked_for(run: Any) -> None:
    assert "GiB" not in run("validate", "qi-2023").out
    told = run("validate", "qi-2023", "--quantity", "memory")
    assert told.code == 0
    assert [line.split()[1:3] for line in told.out.splitlines() if "vpp3" in line] == [["37.25", "GiB"]]  # 40 GB
