"""A folder of logs: each is read with the layout of its name, and its runs change documents of the working folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from costmodel.exchange.tables.run_table import Table
from costmodel.exchange.tables.serving_table import ServingTable
from costmodel.explore.import_export.import_file import GivenBesideFile
from costmodel.explore.import_export.import_log_folder import fit_log_folder, read_log_folder

TEAM = Path(__file__).parents[2] / "evidence" / "measured" / "team"
TITAN = "".join(
    f"[titan] step: {step:2d}  loss: 8.1  memory: 40.00GiB(50.28%)  tps: 9,000  mfu: 45%\n" for step in range(1, 21)
)


def test_every_log_has_the_layout_of_its_name() -> None:
    read = read_log_folder(str(TEAM), GivenBesideFile())
    assert [*read.nights] == ["2026-11-28", "2026-11-29", "2026-11-30"]
    assert not read.unread
    assert len(read.layouts) == 6
    training, serving = read.joined(Table), read.joined(ServingTable)
    assert training is not None
    assert serving is not None
    assert (len(training.rows), len(serving.rows)) == (12, 24)
    assert {(row.id, row.number("pp")) for row in training.rows} >= {("8b-pp4.log", 4.0), ("8b-dp.log", 1.0)}
    assert {(row.text("model"), row.number("tp")) for row in serving.rows} == {
        ("llama-3.1-8b", 1.0),
        ("llama-3.1-70b", 8.0),
    }


def test_layouts_of_the_nearest_folder_and_logs_of_other_programs(tmp_path: Path) -> None:
    night = tmp_path / "one"
    night.mkdir()
    shutil.copy(TEAM / "8b-tp2.yaml", tmp_path / "run.yaml")
    shutil.copy(TEAM / "8b-tp8.yaml", night / "run.yaml")
    (night / "run.second.log").write_text(TITAN, "utf-8")
    (night / "lone.log").write_text(TITAN, "utf-8")
    (tmp_path / "README.md").write_text("Our nightly runs\n", "utf-8")
    read = read_log_folder(str(tmp_path), GivenBesideFile())
    (table,) = read.nights["one"]
    assert table.rows[0].number("tp") == 8  # of the layout beside it
    assert table.rows[0].number("tokens_per_s_per_gpu") == 9000
    unread = {Path(each.file).name: each.why for each in read.unread}
    assert set(unread) == {"lone.log", "README.md", "run.yaml"}
    assert "lone.sh or .yaml" in unread["lone.log"]


@pytest.mark.usefixtures("in_its_folder")
def test_its_runs_change_documents_once_and_the_next_answer_uses_them(tmp_path: Path, run: Any) -> None:
    said = json.loads(run("calibrate", "--follow", str(TEAM), "--json", cwd=tmp_path).out)
    assert (said["rows"], said["modelled"], len(said["parts"])) == (36, 36, 2)
    training, serving = (part["errors"] for part in said["parts"])
    assert training["in_sample"]["step_time"]["median"] < 0.02 < training["shipped"]["step_time"]["median"]
    assert serving["in_sample"]["tpot"]["median"] < serving["shipped"]["tpot"]["median"]
    for path in ("hardware/efficiencies/h100-sxm.yaml", "scenarios/stacks/vllm-0.20.yaml"):  # of vLLM 0.17.1
        assert f"+++ b/{path}" in said["patch"]
        assert not (Path.cwd() / path).exists()
    before = json.loads(run("estimate", str(TEAM / "8b-tp2.yaml"), "--json", cwd=tmp_path).out)["plans"][0][
        "step_time_s"
    ]
    said = run("calibrate", "--follow", str(TEAM), "--write", "--json", cwd=tmp_path)
    assert said.code == 0, said.err
    written = json.loads(said.out)["written"]
    assert sorted(written) == ["hardware/efficiencies/h100-sxm.yaml", "scenarios/stacks/vllm-0.20.yaml"]
    after = json.loads(run("estimate", str(TEAM / "8b-tp2.yaml"), "--json", cwd=tmp_path).out)["plans"][0][
        "step_time_s"
    ]
    assert after / before == pytest.approx(1.06, abs=0.02)  # by how much the made runs are slower
    assert not fit_log_folder(
        str(TEAM), GivenBesideFile()
    ).documents  # the priors are the shipped values: nothing moves


@pytest.mark.parametrize("more", [("gemm.csv",), ("--afresh",), ("--leave-out", "source"), ("--where", "tp=8")])
def test_what_does_not_apply_to_a_folder_is_refused(more: tuple[str, ...], run: Any, tmp_path: Path) -> None:
    said = run("calibrate", "--follow", str(TEAM), *more)
    assert (said.code, "error[C014]" in said.err) == (2, True)
    empty = run("calibrate", "--follow", str(tmp_path))
    assert (empty.code, "error[C005]" in empty.err) == (2, True)
    assert run("calibrate", "--gpu", "h100").code == 2
