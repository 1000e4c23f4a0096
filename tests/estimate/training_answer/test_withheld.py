"""Runs that never end, and plans that do not fit: no face has a length or a cost of them."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

import costmodel as cm
from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.training_answer.predict_training import Answer, predict
from costmodel.ground.errors import CostModelError
from tests.each import each

NAME = "quickstart"
TOO_LARGE = "plan.micro_batch=64"
LARGER = ("cluster.accelerator.memory.capacity=900 GB", "cluster.accelerator.memory.usable=900 GB")
ENDLESS = ("run.failures.every=1s", "run.checkpoint.block=1e9 s", "run.checkpoint.storage.read=1B/s")


def asked(*settings: str) -> Answer:
    return predict(load(NAME, settings))


def numbers(tree: Any) -> list[float]:
    if isinstance(tree, dict | list):
        return [number for part in (tree.values() if isinstance(tree, dict) else tree) for number in numbers(part)]
    return [tree] if isinstance(tree, int | float) else []


def known(*settings: str) -> set[str]:
    return {name for name, value in asked(*settings).costs.items() if not math.isnan(value)}


def test_a_run_ends_if_restarts_do_between_failures() -> None:
    """A restart of R survives failures M apart with a chance of e^(−R/M), and no more than that share is useful."""
    restart = asked("run={}").costs["restart_time"]
    for seconds in (5, 20, 40, 400, 3600):
        at_most = math.exp(-restart / seconds)
        ends = "R007" not in asked(f"run.failures.every={seconds} s").broken
        assert ends == (at_most > 1e-6), seconds


@pytest.mark.parametrize("setting", ENDLESS)
def test_a_run_without_end_has_no_length(setting: str, run: Any) -> None:
    shown = run("run", NAME, "--set", setting)
    assert shown.code == 1
    assert "R007 the run never ends: failures are" in shown.out
    assert re.findall(r"(run time|cost|energy|emissions|goodput) +—\n", shown.out) == [
        *("run time", "cost", "goodput", "energy", "emissions")
    ]
    assert not re.search(r"\binf|\bnan|∞|\$|-\d+(\.\d+)? (%|ms|days)", shown.out.split("what helps")[0])
    answer = json.loads(run("run", NAME, "--json", "--set", setting).out)
    assert answer["run"] is None
    assert all(math.isfinite(number) and number >= 0 for number in numbers(answer["plans"]))
    figures = cm.estimate(NAME, settings=[setting]).figures["plans"][0]
    lost = {name for name, value in figures.items() if value is None and name.endswith(("_s", "_usd", "_j", "_kg"))}
    assert lost >= {"run_time_s", "run_cost_usd", "energy_j", "emissions_kg"}
    assert figures["cost_per_mtoken_usd"] > 0


@each(
    "setting, code",
    [
        ("run.planned={every: 1s, stop: 1e9 s}", "D006"),
        ("run.planned={every: 1h, stop: 1h}", "D006"),
        ("run.evaluation=1", "D008"),
        ("run.restart.start=1e12 s", "D008"),
    ],
)
def test_stops_leave_time_for_steps(setting: str, code: str) -> None:
    with pytest.raises(CostModelError) as refused:
        load(NAME, [setting])
    assert [fault.code for fault in refused.value.faults] == [code]


def test_a_check_of_a_run_without_end_fails(run: Any) -> None:
    assert run("check", NAME, "--set", "run={}").code == 0
    shown = run("check", NAME, "--set", ENDLESS[0])
    assert (shown.code, "R007" in shown.out) == (1, True)


@each("around", [(), ("run={}",)])
def test_a_plan_that_does_not_fit_has_times_without_money(around: tuple[str, ...]) -> None:
    """On accelerators like these with memory enough it takes the same time, and has its costs and its run."""
    fits, large = asked(TOO_LARGE, *LARGER, *around), asked(TOO_LARGE, *around)
    assert (fits.broken, large.broken) == ((), ("M001",))
    of_the_run = ("run_time", "run_cost", "cost_per_mtoken", *(("goodput", "energy", "emissions") if around else ()))
    without = {f"{name}{end}" for name in of_the_run for end in ("", "_low", "_high")}
    assert known(TOO_LARGE, *LARGER, *around) - known(TOO_LARGE, *around) == without
    for name in ("step_time", "mfu", "tokens_per_s"):
        assert large.costs[name] == fits.costs[name]


def test_no_face_prices_a_plan_that_does_not_fit(run: Any) -> None:
    for words in (("estimate", NAME), ("run", NAME), ("explain", NAME, "run_cost")):
        shown = run(*words, "--set", TOO_LARGE)
        assert shown.code == 1, words
        assert "M001 does not fit" in shown.out
        assert "$" not in shown.out
    out = run("estimate", NAME, "--set", TOO_LARGE).out
    assert re.search(r"step time +\d+\.\d s, if it fitted", out)
    assert re.search(r"^  cost +—$", out, re.M)
    assert "if it fitted" not in run("estimate", NAME).out
    answer = json.loads(run("estimate", NAME, "--json", "--set", TOO_LARGE).out)["plans"][0]
    assert (answer["fits"], answer["run_time_s"], answer["run_cost_usd"], answer["cost_per_mtoken_usd"]) == (
        False,
        *3 * [None],
    )
    assert answer["step_time_s"] > 0


@each("setting, cost", [(TOO_LARGE, "—"), (ENDLESS[0], "$")])
def test_pages_show_no_figures_either(setting: str, cost: str, run: Any, tmp_path: Any) -> None:
    """The page of a run falls back to that of its step, and a plan that does not fit has a dash for its cost."""
    page = tmp_path / "page.html"
    run("run", NAME, "--set", setting, "--set", "run.power.idle=20 %", "-o", str(page), "--force")
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<(script|style).*?</\1>", " ", page.read_text())))
    assert re.search(rf"Cost per Mtoken {re.escape(cost)}", text)
    assert not re.search(r"[Nn]an %|∞|Where the run time goes", text)
