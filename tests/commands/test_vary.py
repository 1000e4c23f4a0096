"""sweep, scale, sensitivity, solve: each figure held to what estimate says when it is asked for the same."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest

from costmodel.estimate.shared.plan_batch import SIZES
from costmodel.ground.choices import ContextParallel, Zero

Faults = Callable[[Any], list[Any]]
NAME = "llama-3-70b-512"
NETWORK = "cluster.node.scale_out.fabric.bandwidth"


def told(run: Any, *args: str) -> Any:
    ran = run(*args, "--json")
    assert ran.err == ""
    return json.loads(ran.out)


def estimated(run: Any, *settings: str) -> dict[str, Any]:
    options = [part for setting in settings for part in ("--set", setting)]
    plan: dict[str, Any] = told(run, "estimate", NAME, *options)["plans"][0]
    return plan


# ── sweep ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_row_is_an_estimate(run: Any) -> None:
    found = told(run, "sweep", NAME, "--over", "plan.tp=4,8", "--over", "cluster.fabric.bandwidth=25..100 GB/s*2")
    assert [axis["path"] for axis in found["axes"]] == ["plan.tp", NETWORK]
    assert len(found["points"]) == 6
    for row, (tp, rate) in zip(found["points"], [(tp, rate) for tp in (4, 8) for rate in (25, 50, 100)], strict=True):
        plan = estimated(run, f"plan.tp={tp}", f"{NETWORK}={rate} GB/s")
        assert (row["plan.tp"], row[NETWORK]) == (tp, rate * 1e9)
        assert all(row[key] == plan[key] for key in ("step_time_s", "mfu", "memory_peak_bytes", "verdict"))


def test_broken_points_are_rows(run: Any) -> None:
    ran = run("sweep", NAME, "--over", "plan.tp=8,3,0", "--show", "mfu")
    assert (ran.code, ran.err) == (0, "")
    rows = told(run, "sweep", NAME, "--over", "plan.tp=8,3,0", "--show", "mfu")["points"]
    assert [row["verdict"] for row in rows] == ["fits", "L001", "D008"]
    assert [row["mfu"] is None for row in rows] == [False, True, True]
    assert rows[2]["fault"].startswith("0 is out of range")
    assert run("sweep", NAME, "--over", "plan.tp=3,5").code == 1


def test_what_there_is_to_remark_is_said_once(run: Any) -> None:
    ran = run("sweep", NAME, "--over", "cluster.node=gaudi2-8,dgx-h100", "--over", "plan.tp=4,8,3")
    said = [line for line in ran.out.splitlines() if line.startswith("  ▲ ")]
    assert [line.split(":")[0] for line in said] == ["  ▲ N005 never fitted (2 of 4)", "  ▲ N005 ranking"]
    assert "▲ N005 never fitted: " in run("scale", NAME, "--set", "cluster.node=gaudi2-8", "--ranks", "256..512").out
    assert "▲" not in run("sweep", NAME, "--over", "plan.tp=4,8").out


def test_rows_carry_the_remarks_of_their_estimates(run: Any) -> None:
    """A row without an answer has none."""
    asked = ("sweep", NAME, "--over", "cluster.node=gaudi2-8,dgx-h100", "--over", "plan.tp=8,16,3")
    found, codes = told(run, *asked), []
    for row in found["points"]:
        options = [part for setting in row["point"].split() for part in ("--set", setting)]
        result = told(run, "estimate", NAME, *options)
        codes.append([note["code"] for note in result["notes"] if result["plans"]])
    assert {*map(len, codes)} == {0, 1, 2, 3}
    assert [row["notes"] for row in found["points"]] == codes
    assert [note["code"] for note in found["notes"]] == list(dict.fromkeys(itertools.chain(*codes)))
    lines = run(*asked, "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["notes"] for line in lines] == codes
    cells = csv.DictReader(run(*asked, "--format", "csv").out.splitlines())
    assert [row["notes"] for row in cells] == [f"[{', '.join(each)}]" if each else "" for each in codes]


def test_sizes_carry_their_remarks(run: Any) -> None:
    found = told(run, "scale", NAME, "--set", "cluster.node=gaudi2-8", "--ranks", "256..512")
    assert [row["notes"] for row in found["sizes"]] == [["N005"], ["N005"]]
    assert [note["code"] for note in found["notes"]] == ["N005"]
    assert told(run, "scale", NAME, "--ranks", "256..512")["notes"] == []


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
    found = told(run, "sweep", NAME, "--over", f"workload.global_batch={text}", "--set", "plan.dp=null")
    assert [row["workload.global_batch"] for row in found["points"]] == RANGES[text]


def test_lists_in_brackets_are_one_value(run: Any) -> None:
    over = "search.tp=[1,2],[4,8]"
    found = told(run, "sweep", NAME, "--over", over, "--best", "--show", "step_time")
    best = [told(run, "search", NAME, "--top", "1", "--set", f"search.tp={tp}")["plans"] for tp in ("[1,2]", "[4,8]")]
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
    rows = told(run, *asked)["points"]
    assert [json.loads(line) for line in run(*asked, "--format", "jsonl").out.splitlines()] == rows
    table = list(csv.DictReader(io.StringIO(run(*asked, "--format", "csv").out)))
    assert [row["mfu"] for row in table] == ["" if row["mfu"] is None else str(row["mfu"]) for row in rows]
    assert run(*asked, "-o", "a.jsonl", cwd=tmp_path).code == 0
    assert (tmp_path / "a.jsonl").read_text("utf-8") == run(*asked, "--format", "jsonl").out


def test_parquet(run: Any, tmp_path: Path, faults: Faults) -> None:
    files = pytest.importorskip("pyarrow.parquet")
    asked = ("sweep", NAME, "--over", "plan.tp=2,3,8", "--show", "mfu")
    assert run(*asked, "-o", "a.parquet", cwd=tmp_path).code == 0
    assert files.read_table(tmp_path / "a.parquet").to_pylist() == told(run, *asked)["points"]
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


# ── scale ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("weak", [False, True])
def test_a_size_is_an_estimate(weak: bool, run: Any) -> None:
    found = told(run, "scale", NAME, "--ranks", "128..1024", *(["--weak"] if weak else []))
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
    from costmodel.estimate.evaluate.evaluate_plans import TERM_COLUMNS

    plan = estimated(run)
    assert sum(plan[f"{term}_s"] for term in TERM_COLUMNS.values()) == pytest.approx(plan["step_time_s"], rel=1e-9)


def test_where_it_bends(run: Any) -> None:
    """Found again from the rows alone: the first doubling that keeps less than 95 %."""
    found = told(run, "scale", NAME, "--ranks", "64..8192")
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
    rows = told(run, "scale", "quickstart", "--ranks", "4,8,16", "--set", "plan.dp=8")["sizes"]
    assert [row["dp"] for row in rows] == [1, 2, 4]
    assert all(row["step_time_s"] for row in rows)
    broken = told(run, "scale", NAME, "--ranks", "500,512")["sizes"]
    assert [row["verdict"] for row in broken] == ["C010", "fits"]


def test_sizes_without_an_answer_are_told_in_their_own_words(run: Any, faults: Faults) -> None:
    (alone,) = faults(run("scale", NAME, "--ranks", "100"))
    assert (alone.code, alone.sentence) == ("C010", "100 accelerators are no whole number of nodes of 8")
    assert alone.help == "try --ranks 96 or 104"
    (stepless,) = faults(run("scale", NAME, "--ranks", "64..8192*1"))
    assert stepless.marked == "64..8192*1"
    assert run("scale", NAME, "--ranks", "8,16").out.endswith("None of these sizes has an answer.\n")


@pytest.mark.parametrize("ranks", ["many", "0..4", "1.5", "-8", "64..", "8 GB", ""])
def test_sizes_that_are_none(ranks: str, run: Any, faults: Faults) -> None:
    assert faults(run("scale", NAME, "--ranks", ranks))[0].code == "C010"


# ── sensitivity ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_hardware_is_turned_by_a_tenth(run: Any) -> None:
    found = told(run, "sensitivity", NAME)
    figures = {item["path"]: item for item in found["figures"]}
    base = estimated(run)["step_time_s"]
    for path, low, high in (
        (NETWORK, "360 Gb/s", "440 Gb/s"),
        ("cluster.node.accelerator.memory.bandwidth", "3.015 TB/s", "3.685 TB/s"),
        ("cluster.node.accelerator.peak.bf16", "890.46 TFLOP/s", "1088.34 TFLOP/s"),
    ):
        item = figures[path]
        assert (item["kind"], item["spread"]) == ("hardware", 0.1)
        for side, value in (("low", low), ("high", high)):
            step = estimated(run, f"{path}={value}")["step_time_s"]
            assert item[side] == pytest.approx(step / base - 1, rel=1e-6)
    swings = [max(i["low"], i["high"], 0) - min(i["low"], i["high"], 0) for i in found["figures"]]
    assert swings == sorted(swings, reverse=True)


def test_fits_are_turned_by_their_error(run: Any) -> None:
    from costmodel.documents.reader.library import read

    fit = read("efficiency", "h100-sxm").matmul["bf16"]
    found = {item["path"]: item for item in told(run, "sensitivity", NAME)["figures"]}
    item = found["cluster.node.accelerator.efficiency.matmul.bf16.compute_share"]
    assert (item["kind"], item["spread"]) == ("fitted", fit.fitted.p90)


def test_a_share_that_a_measured_rate_stands_in_for_is_not_turned(run: Any) -> None:
    """Of a part never fitted the best measured matmul is: faster makes the step shorter."""
    figures = told(run, "sensitivity", NAME, "--set", "cluster.node=gaudi3-8")["figures"]
    found = {item["path"].partition("accelerator.")[2]: item for item in figures}
    assert "efficiency.matmul.bf16.compute_share" not in found
    assert found["best_matmul.bf16"]["high"] < 0 < found["best_matmul.bf16"]["low"]


def test_whole_numbers_and_bounds_are_heeded(run: Any) -> None:
    found = {item["path"]: item for item in told(run, "sensitivity", NAME)["figures"]}
    assert not any(path.endswith((".domain", ".nics", ".accelerators", ".half_sequence")) for path in found)
    full = told(run, "sensitivity", NAME, "--set", "assume.overlap.tp=1")["figures"]
    item = next(item for item in full if item["path"] == "assume.overlap.tp")
    assert item["high"] == 0.0
    assert item["low"] > 0


@pytest.mark.parametrize(
    ("asked", "marked"),
    [
        (("sweep", NAME, "--over", "plan.tpx=1,2"), "plan.tpx=1"),
        (("sweep", NAME, "--over", "plan.tp=0,-1"), "0"),
        (("search", NAME, "--over", "cluster.nodez=1,2"), "cluster.nodez=1"),
        (("search", NAME, "--over", "cluster.nodes=1,2", "--over", "workload.precision=bf16,fp4x"), "fp4x"),
        (("solve", NAME, "--vary", "plan.tp=0", "--for", "mfu>=3 %"), "0"),
    ],
)
def test_a_value_that_cannot_be_is_told_at_the_option_that_gave_it(
    asked: tuple[str, ...], marked: str, run: Any, faults: Faults
) -> None:
    ran = run(*asked)
    (fault,) = faults(ran)
    assert marked.startswith(fault.marked)
    assert f" | {'--vary' if 'solve' in asked else '--over'} " in ran.err
    assert "--set" not in ran.err


def test_what_an_optimizer_keeps_moves_memory(run: Any) -> None:
    """Every path that is said can be set."""
    figures = told(run, "sensitivity", NAME, "--of", "memory_peak")["figures"]
    (moments,) = (item for item in figures if item["path"] == "workload.optimizer.moments")
    assert moments["kind"] == "assumption"
    more = estimated(run, "workload.optimizer.moments=8.8 B")["memory_peak_bytes"]
    assert moments["high"] == pytest.approx(more / estimated(run)["memory_peak_bytes"] - 1, abs=1e-12)


def test_the_bottleneck_is_said(run: Any) -> None:
    ran = run("sensitivity", NAME)
    figures = told(run, "sensitivity", NAME)["figures"]
    best = min((item for item in figures if item["kind"] == "hardware"), key=lambda item: item["high"])
    assert best["path"].endswith("peak.bf16")
    assert f"10 % more peak bf16 buys {-best['high'] * 100:.2g} %." in ran.out
    assert run("sensitivity", NAME, "--of", "mfu").code == 0


def test_nothing_to_be_sensitive_of(run: Any, faults: Faults) -> None:
    assert faults(run("sensitivity", NAME, "--set", "plan.tp=3"))[0].code == "C004"
    assert faults(run("sensitivity", NAME, "--of", "run_cost", "--set", "workload.tokens=null"))[0].code == "C004"
    assert faults(run("sensitivity", NAME, "--of", "speed"))[0].code == "C003"


def test_what_stands_there_can_be_set(run: Any) -> None:
    """Every name of the table with the figure beside it; but for fitted ones, of which it says so."""
    figures = told(run, "sensitivity", NAME)["figures"]
    lines = run("sensitivity", NAME, "--top", "1000").out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.split()[:1] == ["figure"]) + 1
    names = [line.split()[0] for line in lines[start : start + len(figures)]]
    fitted = [name.startswith("fit.") for name in names]
    assert fitted == [item["kind"] == "fitted" for item in figures]
    assert "--set does not reach them" in lines[start + len(figures)]
    own = estimated(run)["step_time_s"]
    settings = [f"{name}={item['text']}" for name, item in zip(names, figures, strict=True) if item["kind"] != "fitted"]
    assert estimated(run, *settings)["step_time_s"] == own


# ── solve ────────────────────────────────────────────────────────────────────────────────────────────────────────────

# What is varied, a value put there, and the result that this value gives: turned round, that result gives the value.
SOLVED = {
    "bandwidth": ("cluster.fabric.bandwidth", f"{NETWORK}=160 Gb/s", "mfu>=", 1.6e2),
    "price": ("assume.price", "assume.price=2.1 USD/GPU/h", "run_cost_usd<=", 2.1),
    "a range": (f"{NETWORK}=1..100 GB/s", f"{NETWORK}=20 GB/s", "step_time_s<=", 20.0),
    "a whole number": ("workload.tokens=1..100 T", "workload.tokens=16 T", "run_time_s<=", 16e12),
}
UNITS = {"mfu": "", "run_cost_usd": "USD", "step_time_s": "s", "run_time_s": "s"}


@pytest.mark.parametrize("name", SOLVED)
def test_an_answer_put_back_reaches_the_target(name: str, run: Any) -> None:
    vary, put, wanted, expected = SOLVED[name]
    column, at_least = wanted[:-2], wanted.endswith(">=")
    bound = estimated(run, put)[column] * (1 - 1e-12 if at_least else 1 + 1e-12)
    found = told(run, "solve", NAME, "--vary", vary, "--for", f"{wanted}{bound!r} {UNITS[column]}".strip())
    (reach,) = found["ranges"]
    assert found["how"] == "bisection"
    number, _, unit = found["answer"].partition(" ")
    assert float(number) == pytest.approx(expected, rel=1e-3)
    value = estimated(run, f"{found['path']}={found['answer']}")[column]
    assert value >= bound if at_least else value <= bound
    beyond = float(f"{float(number) * (1.002 if reach['open_low'] else 0.998):.6g}")
    missed = estimated(run, f"{found['path']}={beyond!r} {unit}".strip())[column]
    assert missed < bound if at_least else missed > bound


def test_whole_numbers_are_all_tried(run: Any) -> None:
    found = told(run, "solve", NAME, "--vary", "cluster.nodes=1..300", "--for", "run_time<=200 d")
    works = []
    for nodes in (32, 64, 96, 128, 192, 256):
        plans = told(run, "estimate", NAME, "--set", f"cluster.nodes={nodes}")["plans"]
        if plans and plans[0]["run_time_s"] <= 200 * 86400 and plans[0]["fits"]:
            works.append(str(nodes))
    inside = [reach["low"] for reach in found["ranges"]]
    assert [nodes for nodes in inside if int(nodes) in (32, 64, 96, 128, 192, 256)] == works
    assert found["how"] == "scan"


def test_the_best_plan_at_each_value(run: Any) -> None:
    found = told(run, "solve", NAME, "--vary", "cluster.nodes=16..128*2", "--for", "run_time<=180 d", "--best")
    days = {
        nodes: told(run, "search", NAME, "--top", "1", "--set", f"cluster.nodes={nodes}")["plans"][0]["run_time_s"]
        / 86400
        for nodes in (16, 32, 64, 128)
    }
    assert found["answer"] == str(min(nodes for nodes, taken in days.items() if taken <= 180))
    there = told(run, "search", NAME, "--top", "1", "--set", f"cluster.nodes={found['answer']}")["plans"][0]
    assert {name: found["plan"][name] for name in SIZES} == {name: there[name] for name in SIZES}


def test_no_value_reaches_it(run: Any) -> None:
    ran = run("solve", NAME, "--vary", "cluster.fabric.bandwidth", "--for", "mfu>=60 %")
    assert (ran.code, ran.err) == (1, "")
    assert "No value of" in ran.out
    found = told(run, "solve", NAME, "--vary", "cluster.fabric.bandwidth", "--for", "mfu>=60 %")
    assert (found["answer"], found["ranges"]) == (None, [])
    nearest = found["nearest"]
    assert estimated(run, f"{NETWORK}={nearest['value']}")["mfu"] == nearest["reaches"] < 0.6


def test_plans_that_do_not_fit_are_no_answer(run: Any) -> None:
    found = told(run, "solve", NAME, "--vary", "plan.tp=1,2,4,8", "--for", "mfu>=10 %")
    fit = [tp for tp in (1, 2, 4, 8) if estimated(run, f"plan.tp={tp}")["fits"]]
    assert (found["ranges"][0]["low"], found["ranges"][-1]["high"]) == (str(fit[0]), str(fit[-1]))


@pytest.mark.parametrize(
    ("vary", "wanted", "code"),
    [
        ("plan.tp", "fast", "C011"),
        ("plan.tp", "mfu>0.4", "C011"),
        ("plan.tp", "mfu>=much", "C011"),
        ("plan.tp", "mfu>=45", "C011"),
        ("plan.tp", "step_time<=3", "C011"),
        ("plan.tp", "step_time<=3 GB", "C011"),
        ("plan.tp", "speed>=3", "C003"),
        ("plan.order", "mfu>=0.4", "C012"),
        ("nothing.at", "mfu>=0.4", "D003"),
        ("plan.tp.at", "mfu>=0.4", "C001"),
        ("plan.tp=8..1", "mfu>=0.4", "C012"),
        ("nothing.at=1..8", "mfu>=0.4", "D003"),
    ],
)
def test_what_solve_refuses(vary: str, wanted: str, code: str, run: Any, faults: Faults) -> None:
    assert faults(run("solve", NAME, "--vary", vary, "--for", wanted))[0].code == code


@pytest.mark.parametrize("path", ["plan.shedule", "stack.kernels.atention", "cluster.fabric.bandwith", "asume.price"])
@pytest.mark.parametrize("where", ["", "=1..8"])
def test_a_misspelt_path_is_told_as_set_tells_it(path: str, where: str, run: Any, faults: Faults) -> None:
    ran = run("solve", NAME, "--vary", path + where, "--for", "mfu>=40 %")
    (found,) = faults(ran)
    (told,) = faults(run("estimate", NAME, "--set", f"{path}=1"))
    assert found.code == "D003"
    assert found._replace(marked="") == told._replace(marked="")
    assert f"--vary {found.marked}" in ran.err


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("plan.sequence_parallel", "true,false"),
        ("assume.experts.deduplicated", "true,false"),
        ("stack.kernels.dropout", "true,false"),
        ("plan.cp_type", ",".join(get_args(ContextParallel))),
        ("plan.zero", ",".join(map(str, get_args(Zero)))),
        ("assume.experts.capacity", "1..100"),
        ("assume.experts.host", "0.42..42 us"),
        ("assume.network_share", "1..100 %"),
        ("stack.experts.tp_overlap", "0..100 %"),
        ("stack.buckets.live", "0..100"),
        ("stack.buckets.gathered", "0.1..10 G"),
        ("cluster.node.scale_up.pair_bandwidth", "0.335..33.5 TB/s"),
        ("plan.offload", "[optimizer],[parameters],[activations]"),
    ],
)
def test_what_is_no_number_says_the_values_it_takes(path: str, values: str, run: Any, faults: Faults) -> None:
    asked = ("solve", "deepseek-v3-2048", "--for", "mfu>=1 %", "--vary")
    (fault,) = faults(run(*asked, path))
    assert (fault.code, fault.help) == ("C012", f"give a range: --vary {shlex.quote(f'{path}={values}')}")
    assert run(*asked, f"{path}={values}").err == ""


def test_a_key_that_is_left_out_is_looked_for_about_its_example(run: Any, faults: Faults) -> None:
    asked = ("solve", "megatron-22b-8", "--for", "run_time<=20000 d", "--vary")
    (fault,) = faults(run(*asked, "workload.tokens"))
    assert fault.help == "give a range: --vary 'workload.tokens=1.5..150 T'"
    (reach,) = told(run, *asked, "workload.tokens=1.5..150 T")["ranges"]
    assert 1.5e12 <= float(reach["low"]) < float(reach["high"]) < 150e12


@pytest.mark.parametrize("path", ["model", "title", "cluster.node.accelerator.vendor"])
def test_what_takes_no_number_names_none(path: str, run: Any, faults: Faults) -> None:
    (fault,) = faults(run("solve", NAME, "--for", "mfu>=1 %", "--vary", path))
    assert fault.help == f"give a range: --vary {path}=A,B"


def test_targets_may_be_written_both_ways(run: Any) -> None:
    for wanted in ("mfu≥45 %", "mfu >= 0.45"):
        assert told(run, "solve", NAME, "--vary", NETWORK, "--for", wanted)["target"]["bound"] == 0.45
    assert math.isclose(
        told(run, "solve", NAME, "--vary", NETWORK, "--for", "step_time_s<=16.5 s")["target"]["bound"], 16.5
    )


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

    monkeypatch.setattr("costmodel.commands.progress.stoppable", pressing)
    pressed = iter((False, False, True))
    ran = run(*command, "--json")
    part = json.loads(ran.out)
    assert (ran.code, part["complete"], whole["complete"]) == (130, False, True)
    assert part[rows] == whole[rows][:2]
    pressed = iter((False, False, True))
    assert said in run(*command).out
    pressed = iter((True,))
    assert json.loads(run(*command, "--json").out)[rows] == []


@pytest.mark.parametrize(
    ("vary", "done", "low", "high"),
    [
        ("plan.micro_batch=1..16", 3, "1", "2"),  # the first asks whether parts are allowed
        ("cluster.nodes=32..256*2", 2, "32", "64"),
        ("cluster.fabric.bandwidth=100..400 GB/s", 2, "100 GB/s", "104.427378243 GB/s"),
        ("assume.price=1..4 USD/GPU/h", 30, None, None),
    ],
)
def test_ctrl_c_ends_with_what_the_values_tried_tell(
    vary: str, done: int, low: str | None, high: str | None, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("solve", NAME, "--vary", vary, "--for", "run_cost<=9 USD" if low is None else "mfu>=40 %")
    pressed: Iterator[bool] = iter(())

    @contextmanager
    def pressing() -> Iterator[Callable[[], bool]]:
        yield lambda: next(pressed)

    monkeypatch.setattr("costmodel.commands.progress.stoppable", pressing)
    pressed = iter((*itertools.repeat(False, done), True))
    ran = run(*asked, "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["complete"], found["evaluated"]) == (130, False, done)
    assert [(reach["low"], reach["high"]) for reach in found["ranges"]] == ([(low, high)] if low else [])
    pressed = iter((*itertools.repeat(False, done), True))
    words = run(*asked).out
    assert f"Stopped after {done} values." in words
    assert "of the values tried" in words if low else "tried from 1 USD/GPU/h to " in words
    pressed = iter((True,))
    assert json.loads(run(*asked, "--json").out)["ranges"] == []


@pytest.mark.parametrize(
    ("vary", "wanted", "some"),
    [
        ("plan.micro_batch=1..16", "mfu>=40 %", False),
        ("plan.micro_batch=1,2,4", "mfu>=40 %", True),
        ("cluster.nodes", "run_time<=200 d", True),
        ("assume.price", "run_cost<=9000000 USD", False),
    ],
)
def test_solve_says_where_it_tried_only_some(vary: str, wanted: str, some: bool, run: Any) -> None:
    assert ("of the values tried" in run("solve", NAME, "--vary", vary, "--for", wanted).out) is some


def test_whole_numbers_have_a_range_of_their_own(run: Any) -> None:
    """A whole leaf without a unit is looked for around what is written."""
    found = told(run, "solve", NAME, "--vary", "workload.global_batch", "--for", "mfu>=10 %")
    assert found["ranges"]


def test_solve_tells_how_many_values_make_no_valid_plan(run: Any) -> None:
    """Of 1, 2, 3 and 8 three does not divide the heads."""
    asked = ("solve", NAME, "--vary", "plan.tp=1,2,3,8", "--for", "mfu>=1 %")
    found = json.loads(run(*asked, "--json").out)
    assert (found["evaluated"], found["invalid"]) == (4, 1)
    assert "4 values tried from 1 to 8, 1 of them no valid plan" in run(*asked).out


def test_solve_tells_apart_values_that_cannot_be(run: Any) -> None:
    """No micro-batch is empty; no memory is more than there is."""
    found = json.loads(run("solve", NAME, "--vary", "plan.micro_batch=0,1", "--for", "mfu>=1 %", "--json").out)
    assert (found["invalid"], [fault["value"] for fault in found["faults"]]) == (0, ["0"])
    asked = (
        "solve",
        NAME,
        "--vary",
        "cluster.node.accelerator.memory.usable=60..120 GiB",
        "--for",
        "memory_share<=60 %",
    )
    ran = run(*asked)
    assert re.search(r"GiB and \d+ more cannot be: D006 usable is more than the capacity", ran.out)
    assert "no valid plan" not in ran.out


@pytest.mark.parametrize(
    ("result", "setting", "wanted"),
    [
        ("run_time", "workload.tokens=null", "set workload.tokens, e.g. 15 T"),
        ("run_cost", "assume.price=null", "set assume.price, e.g. 2.50 USD/GPU/h"),
        ("cost_per_mtoken", "assume.price=null", "set assume.price, e.g. 2.50 USD/GPU/h"),
    ],
)
def test_what_is_unknown_says_what_is_missing(result: str, setting: str, wanted: str, run: Any, faults: Faults) -> None:
    bound = "1 d" if result == "run_time" else "1 USD"
    for asked in (
        ("solve", NAME, "--vary", "cluster.nodes=32,64", "--for", f"{result}<={bound}"),
        ("sensitivity", NAME, "--of", result),
        ("explain", NAME, result),
    ):
        (fault,) = faults(run(*asked, "--set", setting))
        assert (fault.code, fault.place, fault.help) == ("C004", f"scenarios/{NAME}.yaml", wanted)
    limit = f"limits.{result}.at_most={bound}"
    assert f"; {wanted}" in run("check", NAME, "--set", setting, "--set", limit).out
    front = run("search", NAME, "--set", setting, "--set", "search.tp=[8]", "--pareto", f"{result},memory_peak")
    assert f"No plan has both results; {wanted}." in front.out


def test_a_key_that_search_lists_is_not_varied_beside(run: Any, faults: Faults) -> None:
    """As `search --over` says; a row would else be told of a plan that it does not name."""
    for asked in (
        ("sweep", NAME, "--over", "plan.tp=1,8"),
        ("solve", NAME, "--vary", "plan.tp=1,8", "--for", "mfu>=1 %"),
    ):
        (fault,) = faults(run(*asked, "--best", "--set", "search.tp=[8]"))
        assert (fault.code, fault.marked) == ("C010", "--best")
        assert (fault.sentence, fault.help) == (
            "search.tp lists values of plan.tp already",
            "leave one of the two out",
        )


def test_a_size_at_which_no_plan_is_valid_is_one_without(run: Any) -> None:
    """Of 3 and 64 nodes only the latter have plans of 8 × 4 ranks."""
    bare = ("--set", "plan=null", "--set", "search.tp=[8]", "--set", "search.pp=[4]")
    asked = ("solve", NAME, "--vary", "cluster.nodes=3,64", "--for", "mfu>=1 %", *bare)
    found = told(run, *asked)
    assert (found["invalid"], found["faults"], found["answer"]) == (1, [], "64")
    assert found["plan"]["tp"] == 8
    assert isinstance(found["plan"]["tp"], int)


def test_solve_counts_each_value_once(run: Any) -> None:
    """Whole numbers from 1 to 16: none between two of them was tried."""
    asked = ("solve", NAME, "--vary", "plan.micro_batch=1..16", "--for", "mfu>=1 %")
    found = json.loads(run(*asked, "--json").out)
    assert (found["every"], found["evaluated"], found["invalid"]) == (True, 16, 11)
    assert "16 values tried from 1 to 16, 11 of them no valid plan" in run(*asked).out


def test_answers_about_best_plans_lead_to_the_search_that_finds_them(run: Any) -> None:
    asked = ("solve", NAME, "--vary", "cluster.nodes=32,64", "--for", "run_time<=900 d")
    assert [f"Next: costmodel {verb} {NAME}" in run(*asked, *more).out for verb, more in VERBS] == [True, True]
    asked = ("sweep", NAME, "--over", "cluster.nodes=32,64")
    said = ("each is costmodel estimate with its --set", "each is the best of costmodel search with its --set")
    assert [words in run(*asked, *more).out for words, (_, more) in zip(said, VERBS, strict=True)] == [True, True]


def test_without_a_plan_of_its_own_it_is_the_best_one_and_says_so(run: Any) -> None:
    """What follows from a row is then a search, not an estimate that has no plan to look at."""
    bare = ("--set", "plan=null", "--set", "search.tp=[8]", "--set", "search.pp=[4]")
    swept = run("sweep", NAME, "--over", "cluster.nodes=32,64", *bare).out
    assert "best plan" in swept
    assert "each is the best of costmodel search with its --set" in swept
    assert swept == run("sweep", NAME, "--over", "cluster.nodes=32,64", "--best", *bare).out
    scaled = run("scale", NAME, "--ranks", "256,512", *bare)
    assert scaled == run("scale", NAME, "--ranks", "256,512", "--best", *bare)
    solved = run("solve", NAME, "--vary", "cluster.nodes=32,64", "--for", "mfu>=10 %", *bare).out
    assert f"Next: costmodel search {NAME}" in solved
    assert "of the best plan, tp 8 · pp 4 ·" in run("sensitivity", NAME, *bare).out
    of_plans = run("sweep", NAME, "--over", "plan.tp=4,8", *bare).out
    assert "each is costmodel estimate with its --set" in of_plans


def test_a_stated_dp_follows_from_the_ranks_and_that_is_said(run: Any) -> None:
    said = "dp follows from the ranks; the 16 of the plan is left out"
    assert said in run("scale", NAME, "--ranks", "256,512", "--set", "plan.dp=16").out
    assert "dp follows" not in run("scale", NAME, "--ranks", "256,512").out


VERBS: list[tuple[str, list[str]]] = [("estimate", []), ("search", ["--best"])]


def test_a_run_has_a_length_without_a_price(run: Any) -> None:
    """A node of one's own without a price: days of the token budget all the same."""
    ran = run("estimate", "gpt-3-175b-1024", "--set", "cluster.node=dgx-h200")
    assert " days for 300 G tokens; no price known" in ran.out


def test_numbers_are_written_as_people_write_them(run: Any) -> None:
    """No powers of ten, and what is shown can be set."""
    for vary in ("workload.tokens", "cluster.fabric.bandwidth=10..40000 Gb/s", "workload.global_batch=1024..65536"):
        ran = run("solve", NAME, "--vary", vary, "--for", "run_time<=345 d")
        assert "e+" not in ran.out
        (next_one,) = (line for line in ran.out.splitlines() if line.startswith("Next: "))
        said = run(*shlex.split(next_one.removeprefix("Next: costmodel ")), "--json")
        assert json.loads(said.out)["plans"][0]["run_time_s"] <= 345 * 86400
    ran = run("sweep", NAME, "--over", "plan.dp=8..80000000*100")
    lines = ran.out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.split()[:1] == ["plan.dp"]) + 1
    assert [line.split()[0] for line in lines[start : start + 4]] == ["8", "800", "80,000", "8"]
    assert "e+" not in ran.out + run("estimate", NAME, "--set", "plan.dp=200000000").out
