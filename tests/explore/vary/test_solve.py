"""solve: an answer put back reaches its target; values tried, and those that cannot be."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.documents.schemas.results import TRAINING_COLUMNS as COLUMNS
from costmodel.explore.purchase.smallest_size import evaluate_trial
from costmodel.explore.scenario_from_flags import ScenarioFlags, scenario_from_flags
from costmodel.explore.search.rank import target_of
from costmodel.explore.search.value_ranges import SAMPLES
from costmodel.explore.vary import solve as solving
from costmodel.explore.workload_interface import Trial
from costmodel.explore.workloads import workload_of
from costmodel.ground.counts import SIZES
from costmodel.report.answers import solve as report
from costmodel.report.terminal.layout import Abridged
from explore.vary.json_answers import NAME, NETWORK, Faults, estimated, json_of

# What is varied, a value put there, and the result that this value gives: turned round, that result gives the value.
SOLVED = {
    "bandwidth": ("cluster.fabric.bandwidth", f"{NETWORK}=160 Gb/s", "mfu>=", 1.6e2),
    "price": ("assume.price", "assume.price=2.1 USD/GPU/h", "run_cost_usd<=", 2.1),
    "a range": (f"{NETWORK}=1..100 GB/s", f"{NETWORK}=20 GB/s", "step_time_s<=", 20.0),
    "a whole number": ("workload.tokens=1..100 T", "workload.tokens=16 T", "run_time_s<=", 16e12),
}


UNITS = {"mfu": "", "run_cost_usd": "USD", "step_time_s": "s", "run_time_s": "s"}
ENDS = {  # one run in ten is worse
    "mfu": "mfu_low",
    "run_cost_usd": "run_cost_high_usd",
    "step_time_s": "step_time_high_s",
    "run_time_s": "run_time_high_s",
}


@pytest.mark.share(2)
@pytest.mark.parametrize("safe", ["90%", "off"])
@pytest.mark.parametrize("name", SOLVED)
def test_an_answer_put_back_reaches_the_target(name: str, safe: str, run: Any) -> None:
    """With a chance of 90 % by the worse end of its band there, as a search's estimate prints it.

    A share of keys with and without a chance, unless --whole asks for all.
    """
    vary, put, wanted, expected = SOLVED[name]
    at_least, unit = wanted.endswith(">="), UNITS[wanted[:-2]]
    column = wanted[:-2] if safe == "off" else ENDS[wanted[:-2]]
    bound = estimated(run, put)[column] * (1 - 1e-5 if at_least else 1 + 1e-5)
    asked = ("--over", vary, "--for", f"{wanted}{bound!r} {unit}".strip(), "--safe", safe)
    found = json_of(run, "solve", NAME, *asked)
    (reach,) = found["ranges"]
    assert found["how"] == "bisection"
    number, _, unit = found["answer"].partition(" ")
    assert float(number) == pytest.approx(expected, rel=1e-3)
    value = estimated(run, f"{found['path']}={found['answer']}")[column]
    assert value >= bound if at_least else value <= bound
    beyond = float(f"{float(number) * (1.002 if reach['open_low'] else 0.998):.6g}")
    missed = estimated(run, f"{found['path']}={beyond!r} {unit}".strip())[column]
    assert missed < bound if at_least else missed > bound


def test_both_answers_take_few_looks_beside_the_samples(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line through two values finds an edge in 4 digits sooner than halves do, and both answers share samples."""
    values = list[str]()

    def counted(workload: Any, settings: Sequence[str], **how: Any) -> Trial:
        values.append(settings[0])
        return evaluate_trial(workload, settings, **how)

    monkeypatch.setattr(solving, "evaluate_trial", counted)
    found = json_of(run, "solve", NAME, "--over", "cluster.fabric.bandwidth", "--for", "mfu>=40 %")
    assert found["safe"]["without"][0]["low"] != found["answer"]
    assert len(values) <= SAMPLES + 16


NODES = (32, 64, 96, 128)


def test_whole_numbers_are_all_tried(run: Any) -> None:
    found = json_of(run, "solve", NAME, "--over", "cluster.nodes=1..140", "--for", "run_time<=200 d")
    works = []
    for nodes in NODES:
        plans = json_of(run, "estimate", NAME, "--set", f"cluster.nodes={nodes}")["plans"]
        if plans and plans[0]["run_time_s"] <= 200 * 86400 and plans[0]["fits"]:
            works.append(str(nodes))
    inside = [reach["low"] for reach in found["ranges"]]
    assert [nodes for nodes in inside if int(nodes) in NODES] == works
    assert found["how"] == "scan"


def test_the_best_plan_at_each_value(run: Any) -> None:
    found = json_of(run, "solve", NAME, "--over", "cluster.nodes=16..128*2", "--for", "run_time<=180 d", "--best")
    days = {
        nodes: json_of(run, "search", NAME, "--top", "1", "--set", f"cluster.nodes={nodes}")["plans"][0]["run_time_s"]
        / 86400
        for nodes in (16, 32, 64, 128)
    }
    assert found["answer"] == str(min(nodes for nodes, taken in days.items() if taken <= 180))
    there = json_of(run, "search", NAME, "--top", "1", "--set", f"cluster.nodes={found['answer']}")["plans"][0]
    assert {name: found["plan"][name] for name in SIZES} == {name: there[name] for name in SIZES}


def test_no_value_reaches_it(run: Any) -> None:
    ran = run("solve", NAME, "--over", "cluster.fabric.bandwidth", "--for", "mfu>=60 %")
    assert (ran.code, ran.err) == (1, "")
    assert "None of the values tried of" in ran.out
    found = json_of(run, "solve", NAME, "--over", "cluster.fabric.bandwidth", "--for", "mfu>=60 %")
    assert (found["answer"], found["ranges"]) == (None, [])
    nearest = found["nearest"]
    assert estimated(run, f"{NETWORK}={nearest['value']}")["mfu"] == nearest["reaches"] < 0.6


def test_a_range_that_is_not_stated_goes_on_where_the_trend_leads_to_the_target(run: Any) -> None:
    few = ("--set", "cluster.nodes=4")  # so that the range is 1 to 256 nodes
    found = json_of(run, "solve", NAME, *few, "--over", "cluster.nodes", "--for", "step_time<=2 s", "--safe", "off")
    at = {nodes: estimated(run, f"cluster.nodes={nodes}")["step_time_s"] for nodes in (256, 512, 1024)}
    (least,) = [nodes for nodes, taken in at.items() if taken <= 2]
    assert (found["answer"], found["tried"]) == (str(least), {"from": "1", "to": str(least)})
    kept = json_of(run, "solve", NAME, *few, "--over", "cluster.nodes=1..256", "--for", "step_time<=2 s")
    assert (kept["answer"], kept["tried"]["to"], kept["approaching"]) == (None, "256", True)
    assert kept["nearest"] == {"value": "256", "reaches": at[256]}


def test_a_range_that_is_not_stated_ends_where_the_trend_does(run: Any) -> None:
    wanted = ("--over", "cluster.nodes", "--for", "step_time<=200 ms")
    ran = run("solve", NAME, *wanted)
    assert ran.code == 1
    assert "values outside this range do not reach it either, by the trend" in ran.out
    assert json_of(run, "solve", NAME, *wanted)["approaching"] is False


def test_plans_that_do_not_fit_are_no_answer(run: Any) -> None:
    found = json_of(run, "solve", NAME, "--over", "plan.tp=1,2,4,8", "--for", "mfu>=10 %")
    fit = [tp for tp in (1, 2, 4, 8) if estimated(run, f"plan.tp={tp}")["fits"]]
    (reached,) = found["safe"]["without"]
    assert (reached["low"], reached["high"]) == (str(fit[0]), str(fit[-1]))
    safe = [tp for tp in fit if estimated(run, f"plan.tp={tp}")["fit_chance"] >= found["safe"]["chance"]]
    assert [(at["low"], at["high"]) for at in found["ranges"]] == [(str(safe[0]), str(safe[-1]))]


@pytest.mark.parametrize(
    ("vary", "wanted", "code"),
    [
        ("plan.tp", "fast", "C011"),
        ("plan.tp", "mfu=0.4", "C011"),
        ("plan.tp", "mfu>=much", "C011"),
        ("plan.tp", "mfu>=45", "C011"),
        ("plan.tp", "step_time<=3", "C011"),
        ("plan.tp", "step_time<=3 GB", "C011"),
        ("plan.tp", "speed>=3", "C003"),
        ("plan.order", "mfu>=0.4", "C012"),
        ("nothing.at", "mfu>=0.4", "D003"),
        ("plan.tp.at", "mfu>=0.4", "C001"),
        ("plan.tp=8..1", "mfu>=0.4", "C010"),
        ("nothing.at=1..8", "mfu>=0.4", "D003"),
    ],
)
def test_what_solve_refuses(vary: str, wanted: str, code: str, run: Any, faults: Faults) -> None:
    assert faults(run("solve", NAME, "--over", vary, "--for", wanted))[0].code == code


def test_targets_may_be_written_both_ways(run: Any) -> None:
    for wanted in ("mfu≥45 %", "mfu >= 0.45"):
        assert json_of(run, "solve", NAME, "--over", "plan.tp=4,8", "--for", wanted)["target"]["bound"] == 0.45
    assert math.isclose(
        json_of(run, "solve", NAME, "--over", "plan.tp=4,8", "--for", "step_time_s<=16.5 s")["target"]["bound"], 16.5
    )


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
    asked = ("solve", NAME, "--over", vary, "--for", "run_cost<=9 USD" if low is None else "mfu>=40 %")
    pressed: Iterator[bool] = iter(())

    @contextmanager
    def pressing() -> Iterator[Callable[[], bool]]:
        yield lambda: next(pressed)

    monkeypatch.setattr("costmodel.commands.progress.stop_on_interrupt", pressing)
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
    assert ("of the values tried" in run("solve", NAME, "--over", vary, "--for", wanted).out) is some


def test_whole_numbers_have_a_range_of_their_own(run: Any) -> None:
    """A whole leaf without a unit is looked for around what is written."""
    found = json_of(run, "solve", NAME, "--over", "workload.global_batch", "--for", "mfu>=10 %")
    assert found["ranges"]


def test_solve_tells_how_many_values_make_no_valid_plan(run: Any) -> None:
    """Of 1, 2, 3 and 8 three does not divide the heads."""
    asked = ("solve", NAME, "--over", "plan.tp=1,2,3,8", "--for", "mfu>=1 %")
    found = json.loads(run(*asked, "--json").out)
    assert (found["evaluated"], found["invalid"]) == (4, 1)
    assert "4 values tried from 1 to 8, 1 of them without a valid plan" in run(*asked).out


def test_lengths_are_multiples_of_what_divides_them(run: Any) -> None:
    """Of tp 4: one largest length, and the next multiple misses the target."""
    wanted = ("--for", "memory_peak<=80GB", "--safe", "off")
    found = json_of(run, "solve", "quickstart", "--over", "workload.sequence", *wanted)
    (reach,) = found["ranges"]
    assert (found["how"], found["step"], reach["open_low"], reach["open_high"]) == ("bisection", 4, True, False)
    most, bound = int(found["answer"]), found["target"]["bound"]
    asked = (("estimate", "quickstart", "--set", f"workload.sequence={most + more}") for more in (0, 4))
    within, over = (json_of(run, *words)["plans"][0]["memory_peak_bytes"] for words in asked)
    assert within <= bound < over
    assert found["evaluated"] < 50
    few = json_of(run, "solve", "quickstart", "--over", f"workload.sequence={most - 300}..{most + 1000}", *wanted)
    assert few["answer"] == found["answer"]
    assert "by bisection over multiples of 4" in run("solve", "quickstart", "--over", "workload.sequence", *wanted).out


@pytest.mark.parametrize(
    ("name", "vary", "wanted"),
    [
        ("serve-llama-3.1-70b", "workload.prompt=64..563", "tpot<=13 ms"),
        ("grpo-qwen-2.5-7b-64", "workload.prompts=128..627", "iteration_time<=400 s"),
    ],
)
def test_a_result_that_only_rises_takes_few_of_many_whole_numbers(name: str, vary: str, wanted: str, run: Any) -> None:
    found = json_of(run, "solve", name, "--over", vary, "--for", wanted, "--safe", "off")
    assert (found["how"], len(found["ranges"])) == ("bisection", 1)
    assert found["evaluated"] < 30


def test_solve_tells_apart_values_that_cannot_be(run: Any) -> None:
    """No micro-batch is empty; no memory is more than there is."""
    found = json.loads(run("solve", NAME, "--over", "plan.micro_batch=0,1", "--for", "mfu>=1 %", "--json").out)
    assert (found["invalid"], [fault["value"] for fault in found["faults"]]) == (0, ["0"])
    asked = (
        "solve",
        NAME,
        "--over",
        "cluster.node.accelerator.memory.usable=60..120 GiB",
        "--for",
        "memory_share<=60 %",
    )
    ran = run(*asked)
    assert re.search(r"GiB and \d+ more cannot be: D006 usable is more than the capacity", ran.out)
    assert "without a valid plan" not in ran.out


def test_solve_counts_each_value_once(run: Any) -> None:
    """Whole numbers from 1 to 16: none between two of them was tried."""
    asked = ("solve", NAME, "--over", "plan.micro_batch=1..16", "--for", "mfu>=1 %")
    found = json.loads(run(*asked, "--json").out)
    assert (found["every"], found["evaluated"], found["invalid"]) == (True, 16, 11)
    assert "16 values tried from 1 to 16, 11 of them without a valid plan" in run(*asked).out


def test_keys_and_targets_go_by_flags_and_printed_labels(run: Any) -> None:
    """The answer is that by the names of the key and of the result."""
    asked = ("solve", "llama-3-70b-512")
    named = run(*asked, "--over", "workload.global_batch=512,1024", "--for", "step_time<=17s")
    assert named.code == 0
    assert run(*asked, "--over", "batch=512,1024", "--for", "step time<=17s").answer == named.answer


def test_users_who_do_not_think_have_values_to_start_from() -> None:
    case = scenario_from_flags(None, ScenarioFlags(model="llama-3.1-8b", gpus=8, users="2"))
    assert workload_of(case).values_to_try("workload.users") == "1..128"


def test_a_short_answer_counts_further_ranges() -> None:
    found = solving.SolveResult(
        workload_of(load("quickstart")), "cluster.nodes", target_of("mfu>=0.2", COLUMNS, ""), None, ("1", "64")
    )
    found.reaches = [solving.ReachableRange(f"{3 * each}", f"{3 * each + 1}", False, False) for each in range(1, 20)]
    line = report._reached_values_line(found, "")
    assert isinstance(line, Abridged)
    assert line.short == "  cluster.nodes = 3, and 18 more values or ranges up to 58"
    assert line.plain.endswith("or from 57 to 58")
