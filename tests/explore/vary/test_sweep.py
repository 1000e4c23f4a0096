"""sweep: each row is what estimate says there; ranges, forms, and what is refused."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from costmodel.ground.counts import SIZES
from explore.vary.json_answers import NAME, NETWORK, Faults, estimated, json_of


def test_a_row_is_an_estimate(run: Any) -> None:
    found = json_of(run, "sweep", NAME, "--over", "plan.tp=4,8", "--over", "cluster.fabric.bandwidth=25..100 GB/s*2")
    assert [axis["path"] for axis in found["axes"]] == ["plan.tp", NETWORK]
    assert len(found["points"]) == 6
    for row, (tp, rate) in zip(found["points"], [(tp, rate) for tp in (4, 8) for rate in (25, 50, 100)], strict=True):
        plan = estimated(run, f"plan.tp={tp}", f"{NETWORK}={rate} GB/s")
        assert (row["plan.tp"], row[NETWORK]) == (tp, rate * 1e9)
        assert all(row[key] == plan[key] for key in ("step_time_s", "mfu", "memory_peak_bytes", "verdict"))


def test_accelerators_are_swept_by_any_spelling(run: Any) -> None:
    over = "cluster.accelerator=h100,H200,h100-sxm"
    shown = run("sweep", NAME, "--over", over, "--show", "mfu", "--format", "csv").out
    assert [row["cluster.node.accelerator"] for row in csv.DictReader(io.StringIO(shown))] == ["h100-sxm", "h200-sxm"]


def test_broken_points_are_rows(run: Any) -> None:
    ran = run("sweep", NAME, "--over", "plan.tp=8,3,0", "--show", "mfu")
    assert (ran.code, ran.err) == (0, "")
    rows = json_of(run, "sweep", NAME, "--over", "plan.tp=8,3,0", "--show", "mfu")["points"]
    assert [row["verdict"] for row in rows] == ["fits", "L001", "D008"]
    assert [row["mfu"] is None for row in rows] == [False, True, True]
    assert rows[2]["fault"].startswith("0 is out of range")
    assert run("sweep", NAME, "--over", "plan.tp=3,5").code == 1


def test_the_unit_of_the_last_value_is_that_of_numbers_before_it(run: Any) -> None:
    asked = ("sweep", NAME, "--show", "mfu", "--over")
    once, each = (
        json_of(run, *asked, f"cluster.fabric.bandwidth={values}")["points"]
        for values in ("100,400,800 Gb/s", "100 Gb/s,400 Gb/s,800 Gb/s")
    )
    assert once == each
    assert all(row["mfu"] for row in once)


def test_a_value_that_its_key_never_takes_is_no_answer(run: Any) -> None:
    ran = run("sweep", NAME, "--over", "cluster.fabric.bandwidth=100 Gb/s,400", "--show", "mfu")
    assert (ran.code, "D007" in ran.out) == (1, True)
    assert run("sweep", NAME, "--over", "plan.zero=1,1").code == 0


def test_what_there_is_to_remark_is_said_once(run: Any) -> None:
    ran = run("sweep", NAME, "--over", "cluster.node=gaudi2-8,dgx-h100", "--over", "plan.tp=4,8,3")
    said = [line for line in ran.out.splitlines() if line.startswith("  ▲ ")]
    titles = [
        "N005 no kernels measured on this GPU (2 of 4: gaudi2-8)",
        "N040 software not described for this vendor (2 of 4: gaudi2-8)",
        "N005 ranking",
    ]
    assert [line.startswith(f"  ▲ {title}: ") for line, title in zip(said, titles, strict=True)] == 3 * [True]
    assert (
        "▲ N005 no kernels measured on this GPU (gaudi2-8): "
        in run("scale", NAME, "--set", "cluster.node=gaudi2-8", "--ranks", "256..512").out
    )
    assert "▲" not in run("sweep", NAME, "--over", "plan.tp=4,8").out


def test_rows_carry_the_remarks_of_their_estimates(run: Any) -> None:
    """A row without an answer has none."""
    asked = ("sweep", NAME, "--over", "cluster.node=gaudi2-8,dgx-h100", "--over", "plan.tp=8,16,3")
    found, codes = json_of(run, *asked), []
    for row in found["points"]:
        options = [part for setting in row["point"].split() for part in ("--set", setting)]
        result = json_of(run, "estimate", NAME, *options)
        codes.append([note["code"] for note in result["notes"] if result["plans"]])
    assert {*map(len, codes)} == {0, 2, 4}
    assert [row["notes"] for row in found["points"]] == codes
    assert [note["code"] for note in found["notes"]] == list(dict.fromkeys(itertools.chain(*codes)))
    lines = run(*asked, "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["notes"] for line in lines] == codes
    cells = csv.DictReader(run(*asked, "--format", "csv").out.splitlines())
    assert [row["notes"] for row in cells] == [f"[{', '.join(each)}]" if each else "" for each in codes]


RANGES = {
    "1..4": [1, 2, 3, 4],
    "1..10*3": [1, 3, 9],
    "8..24+8": [8, 16, 24],
    "1,2,4..6": [1, 2, 4, 5, 6],
    "1Ki..4Ki*2": [1024, 2048, 4096],
    " 1 .. 2 ": [1, 2],
}


@pytest.mark.parametrize("text", RANGES)
def test_ranges(text: str, run: Any) -> None:
    found = json_of(run, "sweep", NAME, "--over", f"workload.global_batch={text}", "--set", "plan.dp=null")
    assert [row["workload.global_batch"] for row in found["points"]] == RANGES[text]


def test_lists_in_brackets_are_one_value(run: Any) -> None:
    over = "search.tp=[1,2],[4,8]"
    found = json_of(run, "sweep", NAME, "--over", over, "--best", "--show", "step_time")
    best = [
        json_of(run, "search", NAME, "--top", "1", "--set", f"search.tp={tp}")["plans"] for tp in ("[1,2]", "[4,8]")
    ]
    steps = [plans[0]["step_time_s"] if plans else None for plans in best]
    assert [row["step_time_s"] for row, step in zip(found["points"], steps, strict=True) if step is not None] == [
        step for step in steps if step is not None
    ]
    plan = best[1][0]
    assert {name: found["points"][1][name] for name in SIZES} == {name: plan[name] for name in SIZES}
    out = run("sweep", NAME, "--over", over, "--best").out
    (row,) = (line for line in out.splitlines() if line.split()[:1] == ["[4,8]"])
    assert f"tp {plan['tp']} · pp {plan['pp']} · dp {plan['dp']}" in row


def test_standard_input_is_swept(run: Any, scenario: str) -> None:
    ran = run("sweep", "-", "--over", "plan.tp=4,8", "--format", "csv", stdin=scenario)
    assert ran.code == 0
    assert ran.out == run("sweep", NAME, "--over", "plan.tp=4,8", "--format", "csv").out


def test_forms_of_a_sweep_agree(run: Any, tmp_path: Path) -> None:
    asked = ("sweep", NAME, "--over", "plan.tp=2,3,8", "--show", "mfu,step_time")
    rows = json_of(run, *asked)["points"]
    assert [json.loads(line) for line in run(*asked, "--format", "jsonl").out.splitlines()] == rows
    table = list(csv.DictReader(io.StringIO(run(*asked, "--format", "csv").out)))
    assert [row["mfu"] for row in table] == ["" if row["mfu"] is None else str(row["mfu"]) for row in rows]
    assert run(*asked, "-o", "a.jsonl", cwd=tmp_path).code == 0
    assert (tmp_path / "a.jsonl").read_text("utf-8") == run(*asked, "--format", "jsonl").out


def test_parquet(run: Any, tmp_path: Path, faults: Faults) -> None:
    files = pytest.importorskip("pyarrow.parquet")
    asked = ("sweep", NAME, "--over", "plan.tp=2,3,8", "--show", "mfu")
    assert run(*asked, "-o", "a.parquet", cwd=tmp_path).code == 0
    assert files.read_table(tmp_path / "a.parquet").to_pylist() == json_of(run, *asked)["points"]
    assert faults(run(*asked, "--format", "parquet"))[0].code == "C007"


@pytest.mark.parametrize(
    ("over", "code"),
    [
        ("plan.tp", "C010"),
        ("plan.tp=", "C010"),
        ("=1", "C010"),
        ("plan.tp=1,,2", "C010"),
        ("plan.tp=8..1", "C010"),
        ("plan.tp=1..8*1", "C010"),
        ("plan.tp=1..8*-2", "C010"),
        ("plan.tp=1..8+0", "C010"),
        ("plan.tp=0..8*2", "C010"),
        ("plan.tp=1..99999999", "C010"),
        ("plan.tp=1..1e308*1.0000001", "C010"),
        ("plan.tp=nan..inf*2", "C010"),
        ("plan.tp=..", "C010"),
        ("plan.tp=1 GB..2 MB*2", "C010"),
        (f"{NETWORK}=1..2 GB/s", "C010"),
        ("nothing.at=1,2", "D003"),
        ("plan.tp.x=1", "C001"),
        ("plan.tp=é,☃", "D007"),
    ],
)
def test_what_sweep_refuses(over: str, code: str, run: Any, faults: Faults) -> None:
    assert faults(run("sweep", NAME, "--over", over))[0].code == code


@pytest.mark.parametrize("command", ["sweep", "search"])
def test_a_leaf_is_varied_once(command: str, run: Any, faults: Faults) -> None:
    twice = [part for values in ("cluster.nodes=64,128", "cluster.nodes=32") for part in ("--over", values)]
    (found,) = faults(run(command, "llama-3-70b-512", *twice))
    assert (found.code, found.sentence) == ("C010", "cluster.nodes is varied already")


def test_too_many_points(run: Any, faults: Faults) -> None:
    axes = [part for path in ("tp", "pp", "vpp") for part in ("--over", f"plan.{path}=1..99")]
    assert faults(run("sweep", NAME, *axes))[0].code == "C010"
    assert faults(run("sweep", NAME, "--over", "plan.tp=1,2", "--show", "speed"))[0].code == "C003"
    assert faults(run("sweep", NAME, "--over", "plan.order=tp-cp-dp-pp", "--chart"))[0].code == "C010"


@pytest.mark.parametrize(
    ("command", "rows", "said"),
    [
        (("sweep", NAME, "--over", "plan.micro_batch=1,2,4"), "points", "Stopped after 2 of 3 combinations."),
        (("scale", NAME, "--ranks", "64,128,256"), "sizes", "Stopped before the last size."),
    ],
)
def test_ctrl_c_ends_with_what_is_done(
    command: tuple[str, ...], rows: str, said: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = json.loads(run(*command, "--json").out)
    pressed: Iterator[bool] = iter(())

    @contextmanager
    def pressing() -> Iterator[Callable[[], bool]]:
        yield lambda: next(pressed)

    monkeypatch.setattr("costmodel.commands.progress.stop_on_interrupt", pressing)
    pressed = iter((False, False, True))
    ran = run(*command, "--json")
    part = json.loads(ran.out)
    assert (ran.code, part["complete"], whole["complete"]) == (130, False, True)
    assert part[rows] == whole[rows][:2]
    pressed = iter((False, False, True))
    assert said in run(*command).out
    pressed = iter((True,))
    assert json.loads(run(*command, "--json").out)[rows] == []
