"""scale: each size is what estimate says there, and where a larger cluster stops paying."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from explore.vary.json_answers import NAME, Faults, estimated, json_of


def test_sizes_carry_their_remarks(run: Any) -> None:
    found = json_of(run, "scale", NAME, "--set", "cluster.node=gaudi2-8", "--ranks", "256..512")
    assert [row["notes"] for row in found["sizes"]] == 2 * [["N005", "N040"]]
    assert [note["code"] for note in found["notes"]] == ["N005", "N040"]
    assert json_of(run, "scale", NAME, "--ranks", "256..512")["notes"] == []


@pytest.mark.parametrize("weak", [False, True])
def test_a_size_is_an_estimate(weak: bool, run: Any) -> None:
    found = json_of(run, "scale", NAME, "--ranks", "128..1024", *(["--weak"] if weak else []))
    assert [row["ranks"] for row in found["sizes"]] == [128, 256, 512, 1024]
    plans = [
        estimated(run, f"cluster.nodes={nodes}", f"workload.global_batch={1024 * nodes // 64 if weak else 1024}")
        for nodes in (16, 32, 64, 128)
    ]
    for row, plan in zip(found["sizes"], plans, strict=True):
        assert all(row[key] == plan[key] for key in ("step_time_s", "mfu", "memory_peak_bytes", "dp", "tp", "pp"))
        work = 1.0 if not weak else row["ranks"] / 128
        ideal = plans[0]["step_time_s"] * 128 / row["ranks"] * work
        assert row["efficiency"] == pytest.approx(ideal / plan["step_time_s"], rel=1e-12)


def test_terms_that_scale_watches_are_the_whole_step(run: Any) -> None:
    from costmodel.estimate.training_answer.evaluate_training import TERM_COLUMNS

    plan = estimated(run)
    assert sum(plan[f"{term}_s"] for term in TERM_COLUMNS.values()) == pytest.approx(plan["step_time_s"], rel=1e-9)


def test_where_it_bends(run: Any) -> None:
    """Found again from the rows alone: the first doubling that keeps less than 95 %."""
    found = json_of(run, "scale", NAME, "--ranks", "64..8192")
    rows = [row for row in found["sizes"] if row["efficiency"] is not None]
    kept = [after["efficiency"] / before["efficiency"] for before, after in itertools.pairwise(rows)]
    first = next(place for place, share in enumerate(kept) if share < 0.95)
    assert found["bends_after"] == rows[first]["ranks"]
    growth = {
        term: rows[first + 1][f"{term}_s"] * rows[first + 1]["ranks"] - rows[0][f"{term}_s"] * rows[0]["ranks"]
        for term in ("bubble", "dp_exposed", "matmul", "tp_exposed", "attention")
    }
    assert rows[first + 1]["grew"].split()[0] == max(growth, key=lambda term: growth[term])
    assert "pipeline bubble" in found["why"]


def test_sizes_within_a_node_and_written_dp(run: Any) -> None:
    rows = json_of(run, "scale", "quickstart", "--ranks", "4,8,16", "--set", "plan.dp=8")["sizes"]
    assert [row["dp"] for row in rows] == [1, 2, 4]
    assert all(row["step_time_s"] for row in rows)
    broken = json_of(run, "scale", NAME, "--ranks", "500,512")["sizes"]
    assert [row["verdict"] for row in broken] == ["C010", "fits"]


def test_sizes_without_an_answer_are_told_in_their_own_words(run: Any, faults: Faults) -> None:
    (alone,) = faults(run("scale", NAME, "--ranks", "100"))
    assert (alone.code, alone.sentence) == ("C010", "100 accelerators are no whole number of nodes of 8")
    assert alone.help == "try --ranks 96 or 104"
    (stepless,) = faults(run("scale", NAME, "--ranks", "64..8192*1"))
    assert stepless.marked == "64..8192*1"
    assert run("scale", NAME, "--ranks", "8,16").out.endswith("No size has an answer.\n")


@pytest.mark.parametrize("ranks", ["many", "0..4", "1.5", "-8", "64..", "8 GB", ""])
def test_sizes_that_are_none(ranks: str, run: Any, faults: Faults) -> None:
    assert faults(run("scale", NAME, "--ranks", ranks))[0].code == "C010"


def test_a_size_at_which_no_plan_is_valid_is_one_without(run: Any) -> None:
    """Of 3 and 64 nodes only the latter have plans of 8 × 4 ranks."""
    bare = ("--set", "plan=null", "--set", "search.tp=[8]", "--set", "search.pp=[4]")
    asked = ("solve", NAME, "--over", "cluster.nodes=3,64", "--for", "mfu>=1 %", *bare)
    found = json_of(run, *asked)
    assert (found["invalid"], found["faults"], found["answer"]) == (1, [], "64")
    assert found["plan"]["tp"] == 8
    assert isinstance(found["plan"]["tp"], int)


def test_a_stated_dp_follows_from_the_ranks_and_that_is_said(run: Any) -> None:
    said = "dp follows from the ranks; the 16 of the plan is left out"
    assert said in run("scale", NAME, "--ranks", "256,512", "--set", "plan.dp=16").out
    assert "dp follows" not in run("scale", NAME, "--ranks", "256,512").out


def test_groups_grow_in_proportion(run: Any) -> None:
    """Unequal groups keep their proportion, and a size that does not divide among them is a fault of its row."""
    rows = json_of(run, "scale", "mixed-llama-3-8b-96", "--ranks", "48,96,112")["sizes"]
    alone = json_of(run, "estimate", "mixed-llama-3-8b-96")["plans"][0]
    assert rows[1]["step_time_s"] == alone["step_time_s"] < rows[0]["step_time_s"]
    said = run("scale", "mixed-llama-3-8b-96", "--ranks", "48,96,112").out
    assert "112 accelerators do not divide among the groups" in said
