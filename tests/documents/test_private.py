"""A file outside the working folder and COSTMODEL_PATH is named in an error, with line and column, and never quoted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Faults = Callable[[Any], list[Any]]

SECRET = "hunter2"
SCENARIO = """schema: costmodel/scenario/v1
title: x
model: llama-3-8b
cluster: {node: dgx-h100, nodes: 4}
workload: {kind: training, sequence: 8192, global_batch: 512}
plan: {tp: 4}
"""
# Where a word of a scenario stands that must not be repeated: what is replaced, by what, and the code of the fault.
SPOTS = {
    "key": ("plan:", f"{SECRET}: 1\nplan:", "D003"),
    "key of a mapping": ("tp: 4", f"{SECRET}: 4", "D003"),
    "number": ("tp: 4", f"tp: {SECRET}", "D007"),
    "unit": ("tp: 4", f"tp: 4 {SECRET}", "D007"),
    "choice": ("tp: 4", f"recompute: {SECRET}", "D010"),
    "name": ("llama-3-8b", SECRET, "D009"),
    "path": ("llama-3-8b", f"/{SECRET}/model.yaml", "D001"),
    "hub": ("llama-3-8b", f"meta-llama/{SECRET}", "D009"),
    "schema": ("costmodel/scenario/v1", SECRET, "D011"),
    "key twice": ("title: x", f"{SECRET}: x\n{SECRET}: y", "D005"),
    "anchor": ("tp: 4", f"tp: &{SECRET} 4", "D012"),
    "tag": ("tp: 4", f"tp: !{SECRET} 4", "D012"),
    "no YAML": ("title: x", f"title: x: {SECRET}", "D002"),
    "list": ("tp: 4", f"tp: [{SECRET}]", "D006"),
    "precision": ("kind: training,", f"kind: training, precision: mxfp8, title: {SECRET},", "D003"),
    "no scenario at all": (SCENARIO, f"root:{SECRET}:0:0:root:/root:/bin/sh\n", "D006"),
    "endless word": ("title: x", f"title: {SECRET * 2000}", "D001"),
}


@pytest.fixture
def apart(tmp_path: Path) -> tuple[Path, Path]:
    """A working folder, and another beside it."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    return tmp_path / "here", tmp_path / "there"


def _seen(ran: Any, code: str, place: str) -> None:
    assert ran.code == 2, ran
    assert SECRET not in ran.err + ran.out
    assert f"error[{code}]" in ran.err
    assert f"--> {place}" in ran.err
    assert "outside the working folder" in ran.err


@pytest.mark.parametrize("spot", SPOTS)
@pytest.mark.parametrize("way", ["absolute", "upward", "link", "reference"])
def test_a_scenario_elsewhere_is_not_quoted(spot: str, way: str, apart: tuple[Path, Path], run: Any) -> None:
    here, there = apart
    old, new, code = SPOTS[spot]
    (there / "s.yaml").write_text(SCENARIO.replace(old, new, 1), "utf-8")
    os.symlink(there / "s.yaml", here / "link.yaml")
    given = {"absolute": str(there / "s.yaml"), "upward": "../there/s.yaml", "link": "link.yaml"}
    if way != "reference":
        _seen(run("estimate", given[way], cwd=here), code, given[way])
        return
    (here / "s.yaml").write_text(SCENARIO.replace("llama-3-8b", "../there/s.yaml"), "utf-8")
    ran = run("estimate", "s.yaml", cwd=here)  # no model: whatever is wrong with it stands beside other faults
    assert ran.code == 2
    assert SECRET not in ran.err + ran.out
    assert "--> ../there/s.yaml" in ran.err


@pytest.mark.parametrize("where", ["working folder", "COSTMODEL_PATH", "stdin"])
def test_a_scenario_of_these_folders_is_quoted(where: str, apart: tuple[Path, Path], run: Any, faults: Faults) -> None:
    here, there = apart
    text = SCENARIO.replace("tp: 4", f"tp: {SECRET}")
    (here / "s.yaml").write_text(text, "utf-8")
    (there / "s.yaml").write_text(text, "utf-8")
    ran = {
        "working folder": lambda: run("estimate", "s.yaml", cwd=here),
        "COSTMODEL_PATH": lambda: run("estimate", "../there/s.yaml", cwd=here, env={"COSTMODEL_PATH": str(there)}),
        "stdin": lambda: run("estimate", "-", cwd=here, stdin=text),
    }[where]()
    (found,) = faults(ran)
    assert found.marked == SECRET


def test_what_is_said_of_a_hidden_text_is_its_place_and_the_remedy(
    apart: tuple[Path, Path], run: Any, faults: Faults
) -> None:
    here, there = apart
    (there / "s.yaml").write_text(SCENARIO.replace("tp: 4", f"tp: {SECRET}"), "utf-8")
    (found,) = faults(run("estimate", "../there/s.yaml", cwd=here))
    assert found.place == "../there/s.yaml:6:12"
    assert found.sentence.startswith("a quantity without the right unit; the text is not shown")
    assert "COSTMODEL_PATH" in found.help


TABLES = {
    "runs without columns": f"{SECRET},b\n1,2\n",
    "runs with a wrong cell": "layers,hidden,heads,seq_len,gpus,global_batch,gpu,step_time_s,seq_len\n"
    f"{SECRET},1,1,1,1,1,h100,1,1\n",
    "kernels with a wrong cell": f"gpu,dtype,m,n,k,time_us\nh100,bf16,{SECRET},512,512,10\n",
    "kernels with a quote": f'gpu,dtype,m,n,k,time_us\n"{SECRET},bf16\n',
    "nccl-tests cut short": "# nThread 1 nGpus 8\n# size count type redop root time algbw busbw #wrong\n"
    f"1024 256 float sum -1 {SECRET} 1 1 0\n",
    "words": f"root:{SECRET}:0:0\n",
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("command", ["validate", "calibrate"])
def test_a_table_elsewhere_is_not_quoted(table: str, command: str, apart: tuple[Path, Path], run: Any) -> None:
    here, there = apart
    (there / "t.csv").write_text(TABLES[table], "utf-8")
    ran = run(command, "../there/t.csv", cwd=here)
    assert ran.code == 2, ran
    assert SECRET not in ran.err + ran.out
    assert "--> ../there/t.csv" in ran.err


def test_runs_elsewhere_of_which_none_is_modelled_are_not_quoted(apart: tuple[Path, Path], run: Any) -> None:
    here, there = apart
    header = "layers,hidden,heads,seq_len,gpus,global_batch,accelerator,step_time_s\n"
    (there / "t.csv").write_text(f"{header}32,4096,32,4096,8,64,{SECRET},1\n", "utf-8")
    ran = run("calibrate", "../there/t.csv", cwd=here)
    assert ran.code == 2
    assert SECRET not in ran.err + ran.out
    assert "none of 1 runs is modelled" in ran.err


def test_a_baseline_and_a_result_elsewhere_are_not_quoted(apart: tuple[Path, Path], run: Any) -> None:
    here, there = apart
    (there / "b.json").write_text(json.dumps({"schema": "costmodel/baseline/v1", SECRET: 1}), "utf-8")
    _seen(run("check", "quickstart", "--against", "../there/b.json", cwd=here), "D003", "../there/b.json")
    (there / "r.json").write_text(json.dumps({"schema": "costmodel/result/v1", "plans": [{SECRET: 1}]}), "utf-8")
    ran = run("diff", "../there/r.json", "quickstart", cwd=here)
    assert ran.code == 2
    assert SECRET not in ran.err
