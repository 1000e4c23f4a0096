"""Validate: figures of a table, their errors in groups, and the forms of the answer."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.evidence.validate.imputation import RULES
from costmodel.evidence.validate.outcomes import GROUPINGS, Compared
from costmodel.evidence.validate.scores import gathered, score, worst
from costmodel.evidence.validate.validate import validated
from costmodel.exchange.tables.run_table import COLUMNS
from costmodel.exchange.tables.serving_table import COLUMNS as SERVED
from evidence.validate.runs_of_22b import BASE, EMPTY, NAMES, figure, table

pytestmark = pytest.mark.usefixtures("in_its_folder")


STANDS = "stack=megatron-2021"


def test_rows_are_counted_while_they_are_compared(tmp_path: Path) -> None:
    """Rows that cannot be read are done at once; the others are read and then evaluated in blocks."""
    seen: list[tuple[int, int]] = []
    rows = [BASE, {"id": "two", "tp": "x"}, {"id": "three"}, {"id": "four", "heads": 48, "kv_heads": 48}]
    validated([table(tmp_path, *rows)], count=lambda *at: seen.append(at))
    assert seen == [(1, 4), (1, 4), (2, 4), (2, 4), (3, 4)]


def test_one_unreadable_row_leaves_the_others_be(tmp_path: Path, run: Any) -> None:
    """All of them are counted; a cell that is not asked about does no harm; calibrate passes it over as well."""
    rows = [BASE, {"step_time_s": "inf"}, {"id": "more", "fits": "OOM"}, {"id": "two", "tp": "x", "vocab": "-3"}]
    path = table(tmp_path, *rows)
    with open(path, "a", encoding="utf-8") as file:
        file.write("short,1\n")
    (part,) = validated([path])
    assert [figure.refused for figure in part.figures] == [None, "V010", None, "V010", "V010"]
    assert [figure.measured for figure in part.figures] == [1.42, None, 1.42, 1.42, None]
    assert [figure.why for figure in part.figures[3:]] == [
        "line 5, vocab: '-3' is out of range: a whole number from 1 is expected here; "
        "tp: a whole number from 1 is expected here, not 'x'",
        f"line 6, this row has 2 cells and the header {len(NAMES)}",
    ]
    total = score(part.figures)
    assert (total.rows, total.modelled) == (5, 2)
    ran = run("validate", path, "--quantity", "memory", cwd=tmp_path)
    assert (ran.code, "line 4, fits: true or false is expected here, not 'OOM'" in ran.out) == (0, True)
    ran = run("calibrate", path)
    assert (ran.code, ran.err) == (0, "")


def test_columns_and_rules_are_told(run: Any) -> None:
    answer = run("explain", "D014").out
    assert all(f"  {name}: {column.meaning}" in answer for name, column in [*COLUMNS.items(), *SERVED.items()])
    answer = run("explain", "V006").out
    assert all(f"  {name}: {rule}" in answer for name, rule in RULES.items())


def compared(ratio: float | None, group: str = "a", **more: Any) -> Compared:
    predicted = None if ratio is None else 2 * ratio
    return Compared("run", "step_time", 2.0, predicted, groups={"source": group}, **more)


def test_statistics_by_hand() -> None:
    """Errors −20, −10, +5, +10, +40 %: |error| 5, 10, 10, 20, 40; P90 lies 0.6 of the way from 20 to 40."""
    figures = [compared(ratio) for ratio in (0.8, 0.9, 1.05, 1.1, 1.4)] + [compared(None, refused="V004")]
    found = score(figures)
    assert (found.rows, found.modelled, found.inside_band) == (6, 5, None)
    assert found.median_error == pytest.approx(0.10)
    assert found.p90_error == pytest.approx(0.32)
    assert found.bias == pytest.approx(0.05)
    nothing = score(figures[5:])
    assert (nothing.rows, nothing.modelled, nothing.median_error, nothing.p90_error, nothing.bias) == (
        1,
        0,
        None,
        None,
        None,
    )
    banded = [compared(1.0, low=1.5, high=2.5), compared(1.0, low=2.1, high=3.0)]
    assert score(banded).inside_band == 0.5


def test_groups_keep_the_order_of_the_table() -> None:
    figures = [compared(1.1, "b"), compared(0.8, "a"), compared(1.3, "b")]
    found = {name: score(members) for name, members in gathered(figures, "source").items()}
    assert list(found) == ["b", "a"]
    assert [part.rows for part in found.values()] == [2, 1]
    assert found["b"].bias == pytest.approx(0.2)
    assert [item.predicted for item in worst(figures, 2)] == [pytest.approx(2.6), pytest.approx(1.6)]


SCORE = {"rows", "modelled", "median_error", "p90_error", "bias", "inside_band"}


@pytest.mark.parametrize(
    ("cells", "groups"),
    [
        ({"gpu": EMPTY}, {"gpu": "a100-sxm-80", "accelerator": "a100-sxm-80"}),
        ({"accelerator": EMPTY}, {"gpu": BASE["gpu"], "accelerator": "a100-sxm-80"}),
        ({"source_family": EMPTY}, {"source_family": BASE["source"]}),
        ({"arch": EMPTY}, {"arch": "dense"}),
        ({"arch": EMPTY, "n_experts": 8}, {"arch": "moe"}),
        ({"arch": "dense", "n_experts": 8}, {"arch": "dense"}),
    ],
)
def test_groups_follow_from_other_cells_where_theirs_is_empty(row: Any, cells: Any, groups: dict[str, str]) -> None:
    found = figure(row(**cells)).groups
    assert {name: found[name] for name in groups} == groups


def test_the_json_keeps_its_promise(runs: str, run: Any) -> None:
    ran = run("validate", runs, "--json")
    assert (ran.code, ran.err) == (0, "")
    result = json.loads(ran.out)
    assert result["schema"] == "costmodel/validation/v1"
    assert set(result["overall"]) == SCORE
    assert set(result["by"]) == set(GROUPINGS)
    for groups in result["by"].values():
        assert all(set(part) == SCORE for part in groups.values())
        assert sum(part["rows"] for part in groups.values()) == 4
    assert [entry["id"] for entry in result["rows"]] == ["22b-full", "22b-selective", "fp8", "filled"]
    full, _, fp8, filled = result["rows"]
    assert set(full) >= {"id", "quantity", "measured", "predicted", "low", "high", "error", "refused"}
    assert (full["quantity"], full["measured"], full["refused"], full["filled"]) == ("step_time", 1.42, None, STANDS)
    assert full["error"] == pytest.approx(full["predicted"] / 1.42 - 1)
    assert (fp8["predicted"], fp8["error"], fp8["refused"], fp8["measured"]) == (None, None, "V004", 1.42)
    assert filled["filled"] == f"{STANDS}, micro_batch=4 or 1 or 2"
    assert result["rules"] == {name: RULES[name] for name in ("stack", "micro_batch")}
    errors = sorted(abs(entry["error"]) for entry in result["rows"] if entry["error"] is not None)
    assert result["overall"]["median_error"] == pytest.approx(errors[1])
    assert (result["overall"]["rows"], result["overall"]["modelled"]) == (4, 3)
    assert set(result["by"]["reason"]) == {"modelled", "V004"}
    assert set(result["by"]["source_family"]) == {"korthikanti", "another"}
    assert result["by"]["precision"]["fp8"]["modelled"] == 0


def test_the_csv_has_the_same_rows(runs: str, run: Any) -> None:
    rows = json.loads(run("validate", runs, "--json").out)["rows"]
    ran = run("validate", runs, "--format", "csv")
    assert (ran.code, ran.err) == (0, "")
    found = list(csv.DictReader(io.StringIO(ran.out)))
    assert list(found[0]) == list(rows[0])
    for line, entry in zip(found, rows, strict=True):
        assert line["id"] == entry["id"]
        assert line["error"] == ("" if entry["error"] is None else repr(entry["error"]))
        assert line["refused"] == (entry["refused"] or "")


def test_the_table_for_people(runs: str, run: Any) -> None:
    plain = run("validate", runs)
    assert plain.code == 0
    assert "another" in plain.out
    assert "not modelled: V004 precision without a fit: fp8: a100-sxm-80 has no fp8" in plain.out
    answer = run("validate", runs, "--by", "reason", "--worst", "2").out
    assert "V004 precision without a fit" in answer
    assert answer.count("22b-") == 2 or "micro_batch 4" in answer
    memory = run("validate", runs, "--quantity", "memory").out
    assert "2 runs fitted, 0 of them predicted not to fit" in memory
    assert "0 of 2 wrong on whether it fits" in memory
    assert "wrong on whether" not in plain.out


def test_a_column_that_looks_like_another_is_told(runs: str, run: Any) -> None:
    path = Path(runs)
    assert "is not used" not in run("validate", runs).out
    path.write_text(path.read_text().replace("micro_batch", "micro_bach", 1))
    assert "the column 'micro_bach' is not used; is it 'micro_batch'?" in run("validate", runs).out


def test_rows_are_chosen_by_their_cells(runs: str, run: Any) -> None:
    def ids(*where: str) -> list[str]:
        options = [word for part in where for word in ("--where", part)]
        return [entry["id"] for entry in json.loads(run("validate", runs, "--json", *options).out)["rows"]]

    assert ids("tier=bulk") == ["fp8"]
    assert ids("tier=core", "precision=fp16", "step_time_s=1.10") == ["22b-selective"]
    assert ids("tier=core", "tier=bulk") == ["22b-full", "22b-selective", "fp8", "filled"]
    assert ids("source_family=another") == ["filled"]
    assert ids("model=GPT-22B", "gpus=8.0", "tier=bulk") == ["fp8"]


@pytest.mark.parametrize(
    ("where", "sentence"),
    [("tier", "not column=value"), ("=core", "not column=value"), ("teir=core", "no table has"), ("tier=x", "tier=x")],
)
def test_a_choice_of_nothing_is_a_fault(where: str, sentence: str, runs: str, run: Any, faults: Any) -> None:
    (found,) = faults(run("validate", runs, "--where", where))
    assert found.code == "C005"
    assert sentence in found.sentence


def test_documents_and_tables_stand_together(runs: str, run: Any) -> None:
    result = json.loads(run("validate", "korthikanti-2022", runs, "--json").out)
    assert result["overall"]["rows"] == 8
    assert result["rows"][0]["id"] == "korthikanti-2022/22b-full"
    assert (result["rows"][0]["within"], result["rows"][4]["within"]) == (True, None)
    assert set(result["by"]["framework"]) == {"megatron-2021", "Megatron-LM"} | set(result["by"]["framework"])
    chosen = json.loads(run("validate", "korthikanti-2022", "--where", "model=gpt-3-175b", "--json").out)
    assert chosen["overall"]["rows"] == 2
    assert run("validate", "korthikanti-2022", "--quantity", "memory").out == "no figures of that quantity\n"


def test_a_table_out_of_bounds_is_no_failure(row: Any, run: Any) -> None:
    assert run("validate", row(step_time_s=1000).place.file).code == 0


def test_cells_at_their_limits_do_not_crash(row: Any) -> None:
    for cells in (
        {"layers": 10**18}, {"hidden": 64 * 10**16}, {"seq_len": 10**18}, {"global_batch": 10**18, "micro_batch": ""},
        {"gpus": 10**18, "global_batch": 10**18}, {"nic_gbps_per_gpu": 1e-17, "gpus": 16}, {"vocab": 1},
        {"step_time_s": 1e-17}, {"heads": 1, "kv_heads": 1, "tp": 1, "gpus": 1}, {"gpus_per_node": 10**18},
    ):  # fmt: skip
        found = figure(row(**cells))
        assert found.refused or found.error is not None


def test_a_table_of_which_no_row_is_modelled_fails(tmp_path: Path, run: Any) -> None:
    path = table(tmp_path, {**BASE, "tp": "x"}, {**BASE, "id": "two", "step_time_s": "abc"})
    ran = run("validate", path, cwd=tmp_path)
    assert (ran.code, ran.out.splitlines()[-1]) == (1, "no row is modelled: nothing is compared")
