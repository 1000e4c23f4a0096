"""A first efficiency of a part that nobody measured."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from estimate.cases import case, written_out

from costmodel.documents.reader.library import efficiency_of, names, read
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.evidence.calibrate.regression_problem import beginning, changed
from evidence.calibrate.planted_runs import mine


def on(run: Any, folder: Path, *parts: str) -> Path:
    """The runs of mine.csv on other parts, in one table, each 15 % slower than it is predicted there."""
    rows: list[dict[str, str]] = []
    for part in parts:
        path = mine(folder, gpu=part, accelerator=part, precision="bf16")
        answer = json.loads(run("validate", str(path), "--json").out)["rows"]
        with path.open() as file:
            found = list(csv.DictReader(file))
        for row, ours in zip(found, answer, strict=True):
            rows.append({**row, "id": f"{part}-{row['id']}", "step_time_s": str(1.15 * ours["predicted"])})
    with (folder / "parts.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / "parts.csv"


def predicted(run: Any, folder: Path, node: str) -> Any:
    answer = json.loads(run("estimate", "quickstart", "--set", f"cluster.node={node}", "--json", cwd=folder).out)
    return answer["plans"]


@pytest.mark.parametrize("parts", [("mi250x-gcd",), ("mi250x-gcd", "rtx4090"), ("rtx4090",)])
def test_what_runs_tell_of_a_part_that_nobody_measured_is_its_own(run: Any, tmp_path: Path, parts: Any) -> None:
    """It is no other such part's, it is used, and it counts no more when the runs are read again; a part that has
    more power than it needs for its peak can be slower than that says, too.
    """
    path = on(run, tmp_path, *parts)
    before = predicted(run, tmp_path, "gaudi3-8")
    answer = json.loads(run("calibrate", str(path), "--write", "--json", cwd=tmp_path).out)
    assert answer["written"] == [f"hardware/efficiencies/{part}.yaml" for part in parts]
    assert predicted(run, tmp_path, "gaudi3-8") == before
    texts = [(tmp_path / name).read_text("utf-8") for name in answer["written"]]
    for part, text in zip(parts, texts, strict=True):
        chip, found = (
            read("accelerator", part),
            read("efficiency", str(tmp_path / f"hardware/efficiencies/{part}.yaml")),
        )
        slow = next(each for each in answer["constants"] if each["name"] == f"sustained, {part}")
        assert slow["resolved"]
        assert found.sustained.factor == pytest.approx(slow["value"], rel=0.005)
        assert found.sustained.factor != pytest.approx(slow["prior"], rel=0.02)
        assert (found.of, found.network) == (part, None)
        assert (found.sustained.power, found.sustained.peak) == (chip.power.max, chip.peak.bf16)
        assert "fitted:" not in text, "residuals are of what others measured"
        assert "factor fitted on runs; all else is of training-runs-fit" in text
    after = json.loads(run("validate", str(path), "--json", cwd=tmp_path).out)["overall"]
    assert after["median_error"] == pytest.approx(answer["errors"]["in_sample"]["step_time"]["median"], abs=0.005)
    again = json.loads(run("calibrate", str(path), "--write", "--json", cwd=tmp_path).out)
    assert again["constants"] == answer["constants"]
    assert [(tmp_path / name).read_text("utf-8") for name in again["written"]] == texts
    notes = run("estimate", "quickstart", "--set", f"cluster.node={found_in(parts[0])}", cwd=tmp_path).out
    assert "N005" in notes


def found_in(part: str) -> str:
    return str(read("accelerator", part).found_in.node)


@pytest.mark.parametrize(
    "part", [name for name in names("accelerator") if efficiency_of(read("accelerator", name)) == "unmeasured"]
)
def test_a_first_efficiency_predicts_what_was_predicted_without_it(part: str) -> None:
    """But for its figures being rounded; in fp8 too, where power leaves no slowdown in either type."""
    chip, first = read("accelerator", part), beginning("accelerator", part)
    assert first.of == part
    assert ("whatever the power" in first.sustained.note) is (chip.power is None)
    for precision in ("bf16", "fp16", "fp8"):
        if getattr(chip.peak, precision) is None or chip.peak.bf16 is None:
            continue
        node = {**written_out("node", found_in(part)), "accelerator": part}
        posed = case(node=node, stack="megatron-core", workload={"precision": precision})
        without, begun = (training_inputs(each) for each in (posed, replace(posed, efficiency=first)))
        assert float(begun.sustained) == pytest.approx(float(without.sustained), rel=0.005)
        assert float(begun.sustained_narrow) == pytest.approx(float(without.sustained_narrow), rel=0.01)
        for name in ("compute_share", "backward_share"):
            fits = (getattr(each.rates.linear.fit, name) for each in (begun, without))
            assert next(fits) == pytest.approx(next(fits), rel=0.01)


def test_a_part_that_names_unmeasured_is_as_one_that_names_nothing() -> None:
    chip = read("accelerator", "mi250x-gcd")
    assert efficiency_of(chip.model_copy(update={"efficiency": "unmeasured"})) == efficiency_of(chip) == "unmeasured"
    fitted = read("accelerator", "h100-sxm").model_copy(update={"efficiency": "unmeasured"})
    assert efficiency_of(fitted) == "h100-sxm"


def test_a_first_efficiency_of_a_network_holds_nothing_of_accelerators(tmp_path: Path) -> None:
    fabric = next(name for name in names("fabric") if efficiency_of(read("fabric", name)) == "unmeasured")
    first, common = beginning("fabric", fabric), read("efficiency", "unmeasured")
    assert (first.of, first.network.share, first.matmul, first.sustained) == (fabric, common.network.share, {}, None)
    text = changed(
        "fabric",
        fabric,
        {
            ("network",): {"share": 0.5, "source": "calibrate-0"},
            ("sources", "calibrate-0"): {"title": "mine", "where": "here"},
        },
    )
    (tmp_path / f"{fabric}.yaml").write_text(text, "utf-8")
    document = read("efficiency", str(tmp_path / f"{fabric}.yaml"))
    assert (document.network.share, document.network.source) == (0.5, "calibrate-0")
