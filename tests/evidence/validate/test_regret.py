"""Regret: which runs make a sweep, what picking by prediction costs, and the promise of its JSON; worked by hand."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costmodel.evidence.validate.outcomes import GROUPINGS, Compared, Validated
from costmodel.evidence.validate.scores import LayoutSweep, choice, choices, spearman, sweeps
from costmodel.exchange.tables.run_table import read_table

SHAPE = {
    "source": "own", "source_family": "own", "year": 2022, "framework": "Megatron-LM", "model_name": "GPT-22B",
    "arch": "dense", "layers": 48, "hidden": 6144, "heads": 64, "seq_len": 2048, "gpu": "A100-80GB", "gpus": 8,
    "gpus_per_node": 8, "global_batch": 64, "precision": "fp16", "recompute": "full",
}  # fmt: skip
TIMES = (10.0, 12.0, 11.0, 20.0, 15.0, 9.0)
PREDICTED = (9.0, 8.0, 12.0, 25.0, 14.0, None)
LAYOUTS = ((8, 1, 1), (4, 1, 1), (2, 1, 1), (4, 2, 1), (2, 2, 1), (8, 1, 2))


def runs(folder: Path, *rows: dict[str, Any]) -> str:
    """A table of runs that share a shape."""
    path = folder / "sweep.csv"
    with path.open("w", newline="") as file:
        names = [*SHAPE, "id", "tp", "pp", "dp", "micro_batch", "zero_stage", "step_time_s"]
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        writer.writerows({**SHAPE, **row} for row in rows)
    return str(path)


def laid_out(number: int, **more: Any) -> dict[str, Any]:
    """A row with one of the layouts and its time."""
    tp, pp, size = LAYOUTS[number]
    sizes = {"tp": tp, "pp": pp, "dp": 8 // (tp * pp), "micro_batch": size, "zero_stage": 0}
    return {"id": f"run-{number}", **sizes, "step_time_s": TIMES[number], **more}


def judged(folder: Path, *rows: dict[str, Any], predicted: tuple[float | None, ...] = PREDICTED) -> list[LayoutSweep]:
    """The sweeps of such a table under predictions made up for the purpose."""
    table = read_table(runs(folder, *rows))
    figures = [
        Compared(row.id, "step_time", row.number("step_time_s"), ours, groups=dict.fromkeys(GROUPINGS, "own"),
                 subject=row)
        for row, ours in zip(table.rows, predicted, strict=True)
    ]  # fmt: skip
    return sweeps([Validated(table, figures)])


def test_one_sweep_by_hand(tmp_path: Path) -> None:
    """The pick is predicted 8 s and ran 12 s; the fastest ran 9 s, and is not modelled.

    Ranks of the modelled: measured 1 3 2 5 4, predicted 2 1 3 5 4, so 1 − 6 (1 + 4 + 1) / (5 · 24) = 0.7.
    """
    (found,) = judged(tmp_path, *(laid_out(number) for number in range(6)))
    assert found.picked is not None
    assert (found.picked.run, found.best.run, len(found.layouts), len(found.modelled)) == ("run-1", "run-5", 6, 5)
    assert found.regret == pytest.approx(12 / 9 - 1)
    assert found.correlation == pytest.approx(0.7)
    assert not found.found_best
    errors = [1 / 10, 4 / 12, 1 / 11, 5 / 20, 1 / 15]
    assert choice([found]).mean_error == pytest.approx(sum(errors) / 5)


def test_four_layouts_are_no_sweep_and_another_batch_is_another(tmp_path: Path) -> None:
    assert judged(tmp_path, *(laid_out(number) for number in range(4)), predicted=PREDICTED[:4]) == []
    apart = [laid_out(number, global_batch=128 if number == 5 else 64) for number in range(6)]
    (found,) = judged(tmp_path, *apart)
    assert [ran.run for ran in found.layouts] == [f"run-{number}" for number in range(5)]
    assert found.best.run == "run-0"


def test_runs_of_one_layout_count_once_at_their_middle(tmp_path: Path) -> None:
    rows = [*(laid_out(number) for number in range(5)), laid_out(1, id="again", step_time_s=16.0)]
    (found,) = judged(tmp_path, *rows)
    assert len(found.layouts) == 5
    assert found.regret == pytest.approx(14 / 10 - 1)


def test_many_sweeps_together(tmp_path: Path) -> None:
    """Regrets 0, 20 and 10 %: mean and median 10, worst 20, the fastest found once in three."""
    (whole,) = judged(tmp_path, *(laid_out(number) for number in range(5)), predicted=PREDICTED[:5])
    best, worse, middle = (
        replace(whole, layouts=tuple(replace(ran, predicted=float(ran.run != f"run-{pick}")) for ran in whole.layouts))
        for pick in (0, 1, 2)
    )
    together = choice([best, worse, middle])
    assert (together.sweeps, together.modelled, together.layouts) == (3, 3, 15)
    assert (together.mean_regret, together.median_regret) == (pytest.approx(0.1), pytest.approx(0.1))
    assert (together.worst_regret, together.best_picked) == (pytest.approx(0.2), pytest.approx(1 / 3))
    assert choices([best, worse], "source") == {"own": choice([best, worse])}


def test_nothing_modelled_has_no_regret(tmp_path: Path) -> None:
    (found,) = judged(tmp_path, *(laid_out(number) for number in range(6)), predicted=(None,) * 6)
    assert (found.picked, found.regret, found.correlation) == (None, None, None)
    together = choice([found])
    assert (together.sweeps, together.modelled, together.mean_regret, together.best_picked) == (1, 0, None, None)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0, 2.0, 3.0], [10.0, 20.0, 90.0], 1.0),
        ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], -1.0),
        ([1.0, 2.0, 2.0, 3.0], [1.0, 2.0, 2.0, 3.0], 1.0),
        ([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 2.0, 2.0], 2 / 5**0.5),
        ([1.0, 1.0], [1.0, 2.0], None),
        ([1.0], [1.0], None),
    ],
)
def test_rank_correlation(first: list[float], second: list[float], expected: float | None) -> None:
    """Ties share a rank: 1 2 3 4 with 1.5 1.5 3.5 3.5 has covariance 4 over √(5 · 4)."""
    found = spearman(first, second)
    assert found == (None if expected is None else pytest.approx(expected))


def test_the_faces_agree(tmp_path: Path, run: Any) -> None:
    path = runs(tmp_path, *(laid_out(number) for number in range(5)))
    result = json.loads(run("validate", path, "--quantity", "regret", "--json").out)
    assert (result["schema"], result["quantity"]) == ("costmodel/validation/v1", "regret")
    assert set(result["by"]) == set(GROUPINGS)
    (row,) = result["rows"]
    overall = result["overall"]
    assert (overall["sweeps"], overall["layouts"], overall["mean_regret"]) == (1, 5, row["regret"])
    assert row["regret"] == pytest.approx(row["picked_time_s"] / 10 - 1)
    assert (row["model"], row["gpus"], row["global_batch"], row["best"]) == ("GPT-22B", 8, 64, "run-0")
    (line,) = csv.DictReader(io.StringIO(run("validate", path, "--quantity", "regret", "--format", "csv").out))
    assert list(line) == list(row)
    assert float(line["regret"]) == row["regret"]
    shown = run("validate", path, "--quantity", "regret", "--by", "gpu", "--worst", "1")
    assert (shown.code, shown.err) == (0, "")
    assert f"{row['regret']:.1%}" in shown.out
    assert "GPT-22B, 8 ranks, batch 64" in shown.out


def test_no_sweep_is_said(tmp_path: Path, run: Any) -> None:
    ran = run("validate", runs(tmp_path, laid_out(0)), "--quantity", "regret")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "no model was measured in 5 layouts on one cluster with one batch\n"
