"""Constants written into documents: used from then on, all together or not at all, never into what is shipped."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from costmodel.commands.output import write_all_or_none
from costmodel.documents.reader import folders
from costmodel.documents.reader.library import read
from costmodel.documents.text.yaml_editor import refuse_shipped
from costmodel.evidence.calibrate.fit_from_runs import refine, texts
from costmodel.ground.errors import CostModelError
from evidence.calibrate.planted_runs import FOLDER, mine

ROOT = Path(__file__).parents[3]


def test_what_is_worse_than_what_is_in_use_is_not_written() -> None:
    found = refine([str(FOLDER / "mine.csv")])
    fit = found.fit
    worse = replace(fit, inside=replace(fit.inside, median=2.1 * fit.shipped.median))
    assert not found.why
    assert "further off than now" in replace(found, fit=worse).why
    assert texts(replace(found, fit=worse)) == {}


def test_what_is_written_is_used(run: Any, tmp_path: Path) -> None:
    shutil.copy(FOLDER / "mine.csv", tmp_path)
    before = json.loads(run("validate", "mine.csv", "--json", cwd=tmp_path).out)["overall"]
    answer = json.loads(run("calibrate", "mine.csv", "--write", "--json", cwd=tmp_path).out)
    assert answer["written"] == ["hardware/efficiencies/a100-sxm-80.yaml"]
    text = (tmp_path / answer["written"][0]).read_text()
    assert "# Shares of the bf16 peak" in text
    assert "source: calibrate-" in text
    after = json.loads(run("validate", "mine.csv", "--json", cwd=tmp_path).out)["overall"]
    assert after["median_error"] < before["median_error"]


def test_the_same_runs_give_the_same_constants(run: Any, tmp_path: Path) -> None:
    shutil.copy(FOLDER / "mine.csv", tmp_path)
    answer = json.loads(run("calibrate", "mine.csv", "--write", "--json", cwd=tmp_path).out)
    text = (tmp_path / answer["written"][0]).read_text()
    again = run("calibrate", "mine.csv", "--json", cwd=FOLDER)
    assert json.loads(again.out)["constants"] == answer["constants"]
    assert "factor fitted on runs; all else is of training-runs-fit" in text
    twice = json.loads(run("calibrate", "mine.csv", "--write", "--json", cwd=tmp_path).out)
    assert twice["constants"] == answer["constants"], "what was written does not count twice"
    assert (tmp_path / answer["written"][0]).read_text() == text


@pytest.mark.parametrize("order", [("gemm.csv", "mine.csv"), ("mine.csv", "gemm.csv")])
def test_what_two_tables_told_cites_each_its_own(run: Any, tmp_path: Path, order: tuple[str, str]) -> None:
    """Products of an A100, its own times at nine tenths of the rate that is shipped."""
    entry, peak = read("efficiency", "a100-sxm-80").matmul["bf16"], read("accelerator", "a100-sxm-80").peak.bf16
    sizes = product((1024, 2048, 4096, 8192), (4096, 8192, 12288), (4096, 8192, 12288))
    times = [(m, n, k, 2 * m * n * k / (0.9 * entry.compute_share * peak) * 1e6) for m, n, k in sizes]
    lines = [f"a100-sxm-80,bf16,{m},{n},{k},{time + 8}" for m, n, k, time in times]
    (tmp_path / "gemm.csv").write_text("\n".join(["gpu,dtype,m,n,k,time_us", *lines]), "utf-8")
    shutil.copy(FOLDER / "mine.csv", tmp_path)
    for table in (*order, order[0]):
        assert run("calibrate", table, "--write", cwd=tmp_path).code == 0
    found = read("efficiency", str(tmp_path / "hardware/efficiencies/a100-sxm-80.yaml"))
    assert found.sources[found.matmul["bf16"].source].where.startswith("gemm.csv")
    assert found.sources[found.sustained.source].where.startswith("mine.csv")
    assert len([key for key in found.sources if key.startswith("calibrate-")]) == 2


def test_a_source_that_nothing_cites_any_more_goes(run: Any, tmp_path: Path) -> None:
    for seconds in ("1.4", "1.45"):
        path = mine(tmp_path)
        path.write_text(path.read_text("utf-8").replace(",1.42,", f",{seconds},"), "utf-8")
        assert run("calibrate", str(path), "--write", cwd=tmp_path).code == 0
    text = (tmp_path / "hardware/efficiencies/a100-sxm-80.yaml").read_text("utf-8")
    assert text.count("calibrate-") == 2, "one entry, one source"


def test_documents_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "scenarios").touch()
    first, second = tmp_path / "hardware/efficiencies/a.yaml", tmp_path / "scenarios/stacks/b.yaml"
    with pytest.raises(CostModelError, match="cannot be written"):
        write_all_or_none({first: "a", second: "b"}, folder=True)
    assert list(first.parent.iterdir()) == []
    (tmp_path / "scenarios").unlink()
    write_all_or_none({first: "a", second: "b"}, folder=True)
    assert (first.read_text("utf-8"), second.read_text("utf-8")) == ("a", "b")


def test_what_is_shipped_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = refine([str(FOLDER / "mine.csv")])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COSTMODEL_PATH", str(folders._SHIPPED))
    monkeypatch.setattr(folders, "_SHIPPED", tmp_path)
    with pytest.raises(CostModelError, match="is a shipped file"):
        refuse_shipped(texts(found))


def test_what_is_shipped_stays_in_a_checkout_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From which the program was installed elsewhere; another project's folder is one's own."""
    found = refine([str(FOLDER / "mine.csv")])
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with pytest.raises(CostModelError, match="is a shipped file"):
        refuse_shipped(texts(found))
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "jobs"\n', "utf-8")
    refuse_shipped(texts(found))


def test_a_folder_that_is_looked_in_twice(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit is not its own prior."""
    shutil.copy(FOLDER / "mine.csv", tmp_path)
    monkeypatch.setenv("COSTMODEL_PATH", str(tmp_path))
    answer = [run("calibrate", "mine.csv", "--write", "--json", cwd=tmp_path).out for _ in range(3)]
    assert len({json.dumps(json.loads(each)["constants"]) for each in answer}) == 1


def test_all_leaves_of_an_entry_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = refine([str(FOLDER / "mine.csv")])
    slow = found.fit.constants[0]
    narrow = replace(slow, prior=slow.prior.model_copy(update={"leaf": "sustained.narrow"}), value=0.9)
    (text,) = texts(replace(found, fit=replace(found.fit, constants=(slow, narrow)))).values()
    assert "factor and narrow fitted on runs" in text
    assert "  narrow: 0.9" in text


@pytest.mark.parametrize("blocked", ["hardware", "hardware/efficiencies"])
def test_where_nothing_can_be_written(run: Any, faults: Any, tmp_path: Path, blocked: str) -> None:
    (tmp_path / blocked).parent.mkdir(exist_ok=True)
    (tmp_path / blocked).touch()
    (found,) = faults(run("calibrate", str(FOLDER / "mine.csv"), "--write", cwd=tmp_path))
    assert (found.code, "cannot be written" in found.sentence) == ("C002", True)
