"""What to measure next: against closed forms of two plans, against drawn truths, and in the words of the command."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from costmodel.documents.reader.resolved_scenario import training
from costmodel.explore.search.next_measurement import Expected, _factor, _standard, advised, expected, expected_gain
from costmodel.explore.search.search import search
from costmodel.explore.search.stream import SearchResult
from costmodel.explore.serving.search_layouts import search as search_service
from costmodel.explore.serving.serving_search_result import inputs_of_service
from costmodel.library import load

DRAWS = 40_000
NORMAL = NormalDist()


@functools.cache
def found_in(name: str, *settings: str) -> SearchResult[Any, Any]:
    case = load(name, list(settings))
    return search_service(inputs_of_service(case), 8) if case.kind == "serving" else search(training(case), 8)


def expected_of(found: SearchResult[Any, Any]) -> Expected:
    plans = [plan for plan in found.best if not plan.broken]
    return expected(found, plans, [found.errors(plan) for plan in plans])


CASES = [("megatron-7.5b-512",), ("gpt-3-175b-1024",), ("deepseek-v3-2048",), ("serve-llama-3.1-70b",)]


# The largest of so many independent normal variables, expected: tables of order statistics, Teichroew 1956.
@pytest.mark.parametrize(("dimensions", "largest"), [(2, 0.56419), (5, 1.16296), (8, 1.42360), (12, 1.62923)])
def test_fixed_points_stand_for_a_normal_distribution(dimensions: int, largest: float) -> None:
    points = _standard(dimensions)
    assert np.abs(points.mean(axis=0)).max() < 1e-9
    assert np.abs(np.cov(points.T) - np.eye(dimensions)).max() < 1e-3
    assert points.max(axis=1).mean() == pytest.approx(largest, rel=0.005)


def test_the_root_of_a_covariance_is_the_same_for_every_choice_of_eigenvectors() -> None:
    """Equal variances leave eigenvectors open: libraries of linear algebra differ, answers may not."""
    alike = np.full((4, 4), 0.02) + np.diag([0.01, 0.01, 0.01, 0.01])
    turned = np.linalg.qr(np.arange(16.0).reshape(4, 4) % 5 + np.eye(4))[0]
    assert _factor(alike) @ _factor(alike) == pytest.approx(alike)
    assert turned.T @ _factor(turned @ alike @ turned.T) @ turned == pytest.approx(_factor(alike))


@pytest.mark.parametrize(("gap", "spread"), [(0.01, 0.05), (0.0, 0.03), (0.1, 0.05), (0.05, 0.02)])
def test_of_two_plans_the_gain_is_that_of_an_option(gap: float, spread: float) -> None:
    """Only the difference counts: what an exchange of one for the other is worth, as of Margrabe's option."""
    now = Expected(np.array([0.0, gap]), np.eye(2), ())
    known = spread * NORMAL.pdf(gap / spread) - gap * NORMAL.cdf(-gap / spread)
    assert expected_gain(now, np.array([[spread], [0.0]])) == pytest.approx(known, rel=0.02, abs=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_bounds(case: tuple[str, ...]) -> None:
    """No measurement gains more than to know everything; what is known needs none, and settles the choice."""
    found = found_in(*case)
    advice = advised(found, {})
    assert advice.measurements
    assert max(each.gain for each in advice.measurements) <= advice.loss * 1.02 + 1e-4
    assert 1 / advice.compared - 0.05 <= advice.chance <= 1
    settled = advised(found, dict.fromkeys(range(1, advice.compared + 1), 1.0))
    assert (settled.chance, settled.measurements) == (1.0, ())
    assert settled.loss == pytest.approx(0.0, abs=1e-6)
    assert [line for line, _ in settled.order] == [*range(1, advice.compared + 1)]


def test_what_one_measurement_shows_of_others_is_their_regression_on_it() -> None:
    now = expected_of(found_in("deepseek-v3-2048"))
    count = len(now.places)
    errors = np.random.default_rng(3).multivariate_normal(np.zeros(count), now.covariance[:count, :count], DRAWS)
    moved = now.after(0, 0.1).places - now.places
    for other in range(1, count):
        slope = np.cov(errors[:, 0], errors[:, other])[0, 1] / np.var(errors[:, 0])
        assert moved[other] == pytest.approx(0.1 * slope, abs=2e-3)


# Truths drawn from the bands: who follows the advice loses less than who measures other plans as often.


def lost(now: Expected, truths: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """What the choice after measurements loses in each draw, as a share; lines: those measured in each draw."""
    count, best = len(now.places), np.zeros(len(truths), dtype=int)
    whole = now.covariance[:count, :count]
    for seen in np.unique(lines, axis=0):
        draws = np.all(lines == seen, axis=1)
        now_at = (truths[draws][:, seen] - now.places[seen]) @ np.linalg.solve(whole[np.ix_(seen, seen)], whole[seen])
        best[draws] = np.argmin(now.places + now_at, axis=1)
    return truths[np.arange(len(truths)), best] - truths.min(axis=1)


@pytest.mark.parametrize("case", CASES)
def test_who_follows_the_advice_loses_less(case: tuple[str, ...]) -> None:
    """Of plans with one gain, draws favour one by chance: a difference within two standard errors is none."""
    found, draws = found_in(*case), 5 * DRAWS
    now, advice, draw = expected_of(found), advised(found, {}), np.random.default_rng(7)
    count = len(now.places)
    truths = draw.multivariate_normal(now.places, now.covariance[:count, :count], draws)
    uncertain = np.argsort(-np.diagonal(now.covariance)[:count], kind="stable")
    chosen = draw.permuted(np.tile(np.arange(count), (draws, 1)), axis=1)
    for many in (1, 2):
        runs = [each for each in advice.measurements if len(each.lines) == many]
        if not runs:  # none saves what it takes
            continue
        best = max(runs, key=lambda each: each.gain)
        others = {"first": np.arange(many), "most uncertain": uncertain[:many]}
        losses = {name: lost(now, truths, np.tile(lines, (draws, 1))) for name, lines in others.items()}
        losses["random"] = lost(now, truths, np.sort(chosen[:, :many], axis=1))
        followed = lost(now, truths, np.tile(np.array(best.lines) - 1, (draws, 1)))
        for name, other in losses.items():
            more, noise = np.mean(followed - other), np.std(followed - other) / math.sqrt(draws)
            assert more <= 2e-4 + 2 * noise, (many, name)
            assert more < 0 or name != "random", many
        assert followed.mean() == pytest.approx(advice.loss - best.gain, rel=0.05, abs=1e-4)


# The command.


@pytest.mark.parametrize("name", ["megatron-7.5b-512", "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"])
def test_every_workload_says_what_to_measure(name: str, run: Any) -> None:
    said = json.loads(run("search", name, "--measure-next", "--top", "4", "--json").out)["measure_next"]
    assert said["best"] == 1
    assert 0 < said["chance"] <= 1
    assert all(each["gpu_hours"] == each["gpus"] * each["seconds"] / 3600 for each in said["measurements"])


def test_a_measured_line_ranks_anew(run: Any) -> None:
    asked = ("search", "megatron-7.5b-512", "--top", "4", "--measured", "1=700ms")
    said = json.loads(run(*asked, "--json").out)["measure_next"]
    assert said["best"] != 1
    assert [each["measured"] for each in said["order"] if each["line"] == 1] == [True]
    text = run(*asked).out
    assert "What to measure next" in text
    assert "the best now: costmodel" in text.splitlines()[-1]
    first = next(each for each in said["order"] if each["line"] == 1)
    assert first["over_predicted"] == pytest.approx(593 / 700, rel=0.01)  # of tokens a second
    assert "measure_next" not in json.loads(run("search", "megatron-7.5b-512", "--json").out)


@pytest.mark.parametrize("text", ["1", "9=1s", "1=-3s", "0=1s", "1=3 GiB", "x=1s", "1=nan", "1=5", "1=5ms"])
def test_what_is_no_line_with_a_time_is_refused(text: str, run: Any) -> None:
    said = run("search", "megatron-7.5b-512", "--top", "4", "--measured", text)
    assert (said.code, "error[C025]" in said.err) == (2, True)


def test_the_next_command_keeps_what_varies_and_machines_have_their_own_price(run: Any) -> None:
    over = "cluster.node=dgx-h100,dgx-b200"
    asked = ("search", "--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "64", "--over", over, "--measure-next")
    (line,) = (line for line in run(*asked).out.splitlines() if line.startswith("Then:"))
    assert f"--over {over}" in line
    found = json.loads(run(*asked, "--json").out)
    dear = found["measure_next"]["measurements"][0]
    plan = found["plans"][dear["lines"][0] - 1]
    assert dear["cost_usd"] == pytest.approx(dear["gpu_hours"] * plan["price_usd_per_gpu_h"])
    twice = run("search", "quickstart", "--measured", "1=19s", "--measured", "1=20s")
    assert (twice.code, "measured twice" in twice.err) == (2, True)


def test_what_does_not_pay_is_not_advised(run: Any) -> None:
    said = json.loads(
        run("search", "megatron-7.5b-512", "--set", "workload.tokens=1B", "--measure-next", "--json").out
    )["measure_next"]
    assert said["measurements"] == []


def test_a_ranking_without_bands_is_refused(run: Any) -> None:
    said = run("search", "megatron-7.5b-512", "--measure-next", "--set", "objective=memory_peak")
    assert said.code == 2
    assert "C025" in said.err or "D010" in said.err


# Start-up logs: what they show is the pool of the cache.

STARTING = ("search", "serve-llama-3.1-70b", "--set", "limits=null", "--set", "stack=sglang", "--set", "search.tp=[8]")
LOG = """server_args=ServerArgs(model_path='meta-llama/Llama-3.1-70B', tp_size={tp}, pp_size={pp})
KV Cache is allocated. #tokens: 1, K size: {half} GB, V size: {half} GB
"""


def start(folder: Path, gib: float, tp: int = 8, pp: int = 1) -> str:
    path = folder / f"start-{tp}.log"
    path.write_text(LOG.format(tp=tp, pp=pp, half=gib / 2), encoding="utf-8")
    return f"2={path}"


def test_a_start_up_log_is_proposed_where_it_changes_the_order(run: Any) -> None:
    """With a small share of memory, plans whose caches bind and others are nearly equal."""
    tied = ("--set=limits=null", "--set=stack=vllm", "--set=search.tp=[8,4]", "--set=stack.memory.share=0.64")
    found = json.loads(run("search", "serve-llama-3.1-70b", *tied, "--top", "4", "--measure-next", "--json").out)
    gpus = {each["measure"]: each["gpus"] for each in found["measure_next"]["measurements"]}
    assert gpus["start-up log of plan 1"] == 8


def test_a_start_up_log_moves_a_plan_as_a_pool_of_that_size_does(run: Any, tmp_path: Path) -> None:
    asked = ("serve-llama-3.1-70b", "--set=limits=null", "--set=stack=sglang")
    searched = ("search", *asked, "--set=search.tp=[4]", "--set=search.pp=[4]", "--json")
    plan = json.loads(run(*searched).out)["plans"][1]
    given = run(*searched, "--measured", start(tmp_path, 0.95 * plan["cache_pool_bytes"] / 2**30, tp=4, pp=4))
    order = {each["line"]: each for each in json.loads(given.out)["measure_next"]["order"]}
    assert order[2]["pool_over_predicted"] == pytest.approx(0.95, abs=1e-3)
    settled = ("--set=plan.tp=4", "--set=plan.pp=4", "--set=plan.replicas=1", f"--set=stack.budget={plan['budget']}")
    here, fewer = (  # by another key that leaves less to the pool
        json.loads(run("estimate", *asked, *settled, f"--set=stack.memory.group_context={gib} GiB", "--json").out)
        for gib in (1.5, 4.5)
    )
    names = ("rate_within_slo_per_s", "cache_pool_bytes")
    rates, pools = (math.log(fewer["plans"][0][name] / here["plans"][0][name]) for name in names)
    assert -0.06 < pools < -0.04
    assert math.log(order[2]["over_predicted"]) == pytest.approx(math.log(0.95) * rates / pools, rel=0.05)


def test_a_log_of_another_plan_or_without_effect_is_refused(run: Any, tmp_path: Path) -> None:
    for named in (start(tmp_path, 40.0, tp=4), f"2={Path(__file__)}", start(tmp_path, 40.0).replace("2=", "3=", 1)):
        said = run(*STARTING, "--top", "3", "--measured", named)
        assert (said.code, "error[C025]" in said.err) == (2, True), said.err


def test_csv_is_of_the_advice(run: Any) -> None:
    asked = ("search", "megatron-7.5b-512", "--top", "3")
    lines = run(*asked, "--measure-next", "--csv").out.splitlines()
    assert "gpu_hours" in lines[0]
    assert any("plans 1 and 2 for ten minutes" in line for line in lines[1:])
    assert "over_predicted" in run(*asked, "--measured", "1=700ms", "--csv").out.splitlines()[0]
