"""Runs of your own improve predictions of what they ran on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from each import each
from estimate.cases import TRAINING_STACKS

from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.load_scenario import load
from costmodel.evidence.calibrate.fit_from_runs import refine
from costmodel.evidence.calibrate.regression_problem import own, timed
from costmodel.exchange.tables.run_table import read_table
from evidence.calibrate.planted_runs import FOLDER, SHELF, mine


def test_three_runs_of_one_s_own() -> None:
    found = refine([str(FOLDER / "mine.csv")])
    names = [part.prior.name for part in found.fit.constants]
    assert names == ["sustained, a100-sxm-80", "network, ib-hdr", "launch, megatron-2021"]
    slow = found.fit.constants[0]
    assert slow.resolved
    assert slow.value < slow.prior.mean, "these runs were faster than we say"
    assert abs(found.fit.inside.bias) < abs(found.fit.shipped.bias)
    cases = [run.case for run in timed(list(read_table(str(FOLDER / "mine.csv")).rows), SHELF)[0]]
    assert list(own(cases, SHELF)) == [part.prior for part in found.fit.constants]


@each("stack", TRAINING_STACKS)
def test_runs_of_any_stack_sharpen_what_there_is_of_it(stack: str) -> None:
    """A program that is compiled whole launches nothing that could be sharpened."""
    answer = {prior.name for prior in own([load("quickstart", [f"stack={stack}"])], SHELF)}
    launches = float(read("stack", stack).launch.operation) > 0
    assert (f"launch, {stack}" in answer) is launches
    assert answer >= {"sustained, h100-sxm", "network, ib-ndr"}


@each("node", names("node"))
def test_runs_on_any_node_sharpen_what_there_is_of_it(node: str) -> None:
    found = load("quickstart", [f"cluster.node={node}"])
    assert f"sustained, {found.efficiency.of}" in {prior.name for prior in own([found], SHELF)}


def test_runs_of_maxtext_are_calibrated(run: Any, tmp_path: Path) -> None:
    text = (FOLDER / "mine.csv").read_text("utf-8").replace("Megatron-LM", "MaxText")
    (tmp_path / "mine.csv").write_text(text, "utf-8")
    answer = json.loads(run("calibrate", "mine.csv", "--json", cwd=tmp_path).out)
    assert {constant["name"].split(",")[0] for constant in answer["constants"]} == {"sustained", "network"}


def test_what_the_constants_do_not_describe_is_not_written(run: Any, tmp_path: Path) -> None:
    """Times in milliseconds."""
    path = mine(tmp_path, step_time_s="18000")
    ran = run("calibrate", str(path), "--write", "--json", cwd=tmp_path)
    answer = json.loads(ran.out)
    assert ran.code == 1
    assert run("calibrate", str(path), cwd=tmp_path).code == 0, "nothing was asked to be written"
    assert answer["written"] == []
    assert "are times in seconds?" in answer["why"]
    assert not (tmp_path / "hardware").exists()
    assert "not to be written: half of the runs" in run("calibrate", str(path), cwd=tmp_path).out


def test_runs_that_are_left_out_are_named(run: Any, tmp_path: Path) -> None:
    text = mine(tmp_path).read_text("utf-8").splitlines()
    unknown, unlike = text[2].replace("a100-sxm-80,8", "abacus,8"), text[3].replace("64,8,8", "64,8,5")
    (tmp_path / "other.csv").write_text("\n".join([text[0].replace("hfu", "hfv"), text[1], unknown, unlike]), "utf-8")
    shown = run("calibrate", "other.csv", cwd=tmp_path).out
    assert "1 of 3 runs used" in shown
    assert "not modelled: V001 accelerator unknown: run-2" in shown
    assert "not modelled: V007 plan invalid: run-3" in shown
    answer = json.loads(run("calibrate", "other.csv", "--json", cwd=tmp_path).out)
    assert [(left["id"], left["refused"]) for left in answer["refused"]] == [("run-2", "V001"), ("run-3", "V007")]
    (tmp_path / "none.csv").write_text("\n".join([text[0], unknown]), "utf-8")
    ran = run("calibrate", "none.csv", cwd=tmp_path)
    assert (ran.code, "none of 1 runs is modelled; run-2: " in ran.err) == (2, True)
    assert "costmodel validate none.csv --by reason" in ran.err


def test_a_column_that_looks_mistaken_is_remarked(run: Any, tmp_path: Path) -> None:
    path = mine(tmp_path)
    path.write_text(path.read_text("utf-8").replace("recompute", "recomptue", 1), "utf-8")
    assert "the column 'recomptue' is not used; is it 'recompute'?" in run("calibrate", str(path)).out


OWN = """model,gpu,gpus,sequence,global_batch,{micro},tp,pp,{zero},recompute,precision,{stack},step_time{more}
llama-3.1-8b,h100,32,8192,64,2,1,1,3,selective,bf16,fsdp2,2.6{cells}
llama-3.1-8b,h100,32,8192,128,2,1,1,3,selective,bf16,fsdp2,5.1{cells}
llama-3.1-8b,h100,16,8192,64,2,1,1,3,selective,bf16,fsdp2,5.15{cells}
"""
NAMES = {"micro": "micro_batch", "zero": "zero_stage", "stack": "framework", "more": "", "cells": ""}


def test_columns_may_have_the_names_of_keys(run: Any, tmp_path: Path) -> None:
    """A table in the tool's own names of keys has the fit of one in the names of columns; unused ones are named."""
    tables = [NAMES, NAMES | {"zero": "zero", "stack": "stack"}]
    tables += [NAMES | {"zero": "plan.zero", "micro": "plan.micro_batch", "stack": "software"}]
    tables += [NAMES | {"more": ",who,plan.order", "cells": ",me,tp-cp-dp-pp"}]
    found = []
    for number, heads in enumerate(tables):
        path = tmp_path / f"{number}.csv"
        path.write_text(OWN.format(**heads), "utf-8")
        found.append(json.loads(run("calibrate", str(path), "--json").out))
        shown = run("calibrate", str(path)).out
        assert ("columns not used: who\n" in shown) == ("who" in heads["more"])
    assert all(one["constants"] == found[0]["constants"] for one in found)
    path.write_text(OWN.format(**(NAMES | {"more": ",assume.overlap.dp", "cells": ",0"})), "utf-8")
    other = json.loads(run("calibrate", str(path), "--json").out)
    assert other["constants"][0]["value"] < found[0]["constants"][0]["value"]


def test_each_run_has_its_prediction_before_and_after(run: Any, tmp_path: Path) -> None:
    """Before as `validate` has it here, after as it has it once the fit is written; what was assumed is said."""
    path = tmp_path / "runs.csv"
    path.write_text(OWN.format(**NAMES), "utf-8")
    shown = run("calibrate", "runs.csv", cwd=tmp_path).out
    assert "filled by rule in each: shape llama-3.1-8b, accelerator h100-sxm" in shown
    assert shown.endswith("Next: costmodel calibrate runs.csv --write\n")
    made = json.loads(run("calibrate", "runs.csv", "--json", cwd=tmp_path).out)["predictions"]
    for name, args in (("before_s", ()), ("after_s", ("--write",))):
        run("calibrate", "runs.csv", *args, cwd=tmp_path)
        rows = json.loads(run("validate", "runs.csv", "--json", cwd=tmp_path).out)["rows"]
        assert [one[name] for one in made] == pytest.approx(
            [row["predicted"] for row in rows], rel=5e-3
        )  # three digits
    assert "Next: costmodel validate" in run("calibrate", "runs.csv", "--write", cwd=tmp_path).out


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_runs_that_are_all_faster_are_heard_in_any_precision(run: Any, tmp_path: Path, precision: str) -> None:
    """Of fp8 on an H100, whose products slow down by next to nothing, too."""
    shape = {"layers": "48", "hidden": "8192", "ffn": "32768", "heads": "64", "kv_heads": "64", "head_dim": "128"}
    layout = {"gpus": "32", "tp": "4", "pp": "4", "vp": "1", "seq_parallel": "true", "recompute": "none"}
    cells = {"gpu": "H100", "accelerator": "h100-sxm", "framework": "Megatron-Core", "year": "2024"}
    cells |= {**shape, **layout, "micro_batch": "2", "global_batch": "128", "precision": precision}
    (row, *_) = json.loads(run("validate", str(mine(tmp_path, **cells)), "--json").out)["rows"]
    path = mine(tmp_path, **cells, step_time_s=str(0.9 * row["predicted"]))
    answer = json.loads(run("calibrate", str(path), "--json").out)
    slow = answer["constants"][0]
    assert (slow["name"], slow["resolved"]) == ("sustained, h100-sxm", True)
    median = {name: each["step_time"]["median"] for name, each in answer["errors"].items() if each}
    assert median["in_sample"] < 0.6 * median["shipped"]


def test_a_table_comes_by_stdin_too(run: Any) -> None:
    text = (FOLDER / "mine.csv").read_text("utf-8")
    piped = json.loads(run("calibrate", "-", "--json", stdin=text).out)
    assert piped["constants"] == json.loads(run("calibrate", str(FOLDER / "mine.csv"), "--json").out)["constants"]
    assert run("validate", "-", stdin=text).code == 0


def test_no_run_is_a_fault(run: Any, faults: Any, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text((FOLDER / "mine.csv").read_text().splitlines()[0] + "\n")
    (found,) = faults(run("calibrate", "none.csv", cwd=tmp_path))
    assert (found.code, found.sentence) == ("D014", "the table has no rows")
