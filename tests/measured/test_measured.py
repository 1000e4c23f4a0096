"""Every shipped measured table within its own stated tolerance; the faults of one's own stand in its file."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.library import bibliography, names, read
from costmodel.documents.reader.measured_cases import cases
from costmodel.evidence.validate.outcomes import Compared, Quantity
from costmodel.evidence.validate.validate import DOCUMENTED, compared

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
    points = all(run.measured.tpot and run.measured.ttft for run in read("measured", table).runs)
    assert points or any(figures(table, quantity) for quantity in DOCUMENTED)


@each_quantity
@every_table
def test_figures_are_within_their_tolerance(table: str, quantity: Quantity) -> None:
    assert {(one.run, one.quantity): one.error for one in figures(table, quantity) if not one.within} == {}
    assert all(one.tolerance for one in figures(table, quantity))


@each_quantity
@every_table
def test_a_tolerance_is_no_wider_than_it_must_be(table: str, quantity: Quantity) -> None:
    found = figures(table, quantity)
    allowed = max((one.tolerance or 0.0 for one in found), default=0.0)
    assert allowed <= max(0.12, 2 * max((abs(one.error or 0.0) for one in found), default=0.0))


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
    (tmp_path / "strict.yaml").write_text(text.replace("step_time: 10 %", "step_time: 9 %"), "utf-8")
    answer = run("validate", "strict.yaml", "--by", "source", cwd=tmp_path)
    assert answer.code == 1
    assert [line.split()[0] for line in answer.out.splitlines() if "✗" in line] == ["175b-full"]
    assert "22b-full" not in answer.out


def broken(run: Any, folder: Path, *changes: tuple[str, str]) -> Path:
    """A shipped table of four runs under another name, with some of its text replaced."""
    text = run("show", "fms-fsdp").out.replace("name: fms-fsdp", "name: mine")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "mine.yaml"
    path.write_text(text, "utf-8")
    return path


FIRST = "plan.dp_replicate: 16"  # what the first run changes
# What is replaced, and by what; the code, the key, the text under the caret, words of the sentence.
FAULTS = {
    "a value": (FIRST, "plan.pp: 1x6", "D007", "runs.0.set.plan.pp", "1x6", "'1x6'"),
    "a name": (FIRST, "model: llama-2", "D009", "runs.0.set.model", "llama-2", "no model"),
    "no key": (FIRST, "plan..tp: 1", "C001", "runs.0.set.plan..tp", "plan..tp", "'plan..tp' names no key"),
    "through a value": (FIRST, "stack.name.x: 1", "C001", "runs.0.set.stack.name.x", "stack.name.x", "has no 'x'"),
    "a precision": (FIRST, "workload.precision: nvfp4", "D016", "runs.0.set.workload.precision", "nvfp4", "multiply"),
    "of all runs": ("  stack.kernels.", "  stack.kernel.", "D003", "set.stack.kernel", None, "unknown key 'kernel'"),
    "of the scenario": ("kind: training", "kind: trainin", "D010", "scenario.workload.kind", "trainin", "'trainin'"),
    "no schema": ("  schema: costmodel/scenario/v1\n", "", "D011", "scenario", "title", "schema"),
    "no mapping": (
        f"set:\n      {FIRST}",
        "set: 4",
        "D006",
        "runs.0.set",
        "4",
        "a mapping of keys to values is expected",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_what_a_run_changes_stand_in_the_document(name: str, run: Any, faults: Any, tmp_path: Path) -> None:
    old, new, code, key, marked, words = FAULTS[name]
    path = broken(run, tmp_path, (old, new))
    (found, *_) = faults(run("validate", str(path), cwd=tmp_path))
    assert (found.code, found.marked) == (code, marked or found.marked)
    assert found.place.startswith((f"{path}:", f"{path.name}:"))
    assert f"({key}" in found.place
    assert words in found.sentence


def test_faults_of_all_runs_are_told_at_once(run: Any, faults: Any, tmp_path: Path) -> None:
    """That of what they share, once."""
    path = broken(
        run, tmp_path, ("dp_replicate: 16", "dp_replicat: 16"), ("nodes: 12", "nodes: 0"), ("kind: t", "kind: s")
    )
    found = faults(run("validate", str(path), cwd=tmp_path))
    assert [fault.code for fault in found].count("D010") == 1
    assert {fault.place.split("(")[1].split(".")[1] for fault in found if fault.code != "D010"} == {"0", "1", "3"}


def test_a_run_whose_plan_is_invalid_is_not_modelled(run: Any, tmp_path: Path) -> None:
    """And not within a tolerance."""
    path = str(broken(run, tmp_path, (FIRST, "plan.tp: 3")))
    answer = run("validate", path)
    assert answer.code == 1
    assert "not modelled: V007 plan invalid: llama2-7b-128: L001" in answer.out
    assert "3 figures" in answer.out
    result = json.loads(run("validate", path, "--json").out)
    assert (result["overall"]["rows"], result["overall"]["modelled"]) == (4, 3)
    row = result["rows"][0]
    assert (row["refused"], row["predicted"], row["error"], row["within"]) == ("V007", None, None, False)
    assert row["measured"] == 1.8
    assert result["by"]["reason"]["V007"]["rows"] == 1


def test_memory_is_compared_when_asked_for(run: Any) -> None:
    assert "GiB" not in run("validate", "qi-2023").out
    answer = run("validate", "qi-2023", "--quantity", "memory")
    assert answer.code == 0
    assert [line.split()[1:3] for line in answer.out.splitlines() if "vpp3" in line] == [["37.25", "GiB"]]  # 40 GB
