"""A ranking says how sure its order is: errors that plans of one scenario have in common cancel."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.equations.run.uncertainty import TENTH
from costmodel.explore.search.next_measurement import advised, first_better
from costmodel.explore.search.search import TrainingSearch, search
from costmodel.explore.search.training_space import SURE, unsure

ONE = {"matmul": 0.05, "tp": 0.03, "dp": 0.0}
OTHER = {"matmul": 0.05, "tp": 0.0, "dp": 0.04}


@functools.cache
def found() -> TrainingSearch:
    return search(load("quickstart"), 20, workers=1)


def test_the_chance_is_how_often_draws_of_all_errors_stand_that_way() -> None:
    """Each kind of error is drawn once for both plans; each run adds an error of its own."""
    here = found()
    draws, count, step = np.random.default_rng(7), 400_000, here.inputs.stack.spread.step
    common = {kind: draws.normal(size=count) for kind in {**ONE, **OTHER}}
    logs, plans = [], []
    for time, errors in ((1.0, ONE), (1.03, OTHER)):
        kinds = sum(error * common[kind] for kind, error in errors.items())
        logs.append(np.log(time) + kinds + step * draws.normal(size=count))
        far = math.exp(TENTH * math.sqrt(step**2 + sum(error**2 for error in errors.values())))
        rate = {"tokens_per_s_per_gpu": 1 / time, "tokens_per_s_per_gpu_low": 1 / time / far}
        costs = here.best[0].costs | rate | {"tokens_per_s_per_gpu_high": far / time}
        plans.append(replace(here.best[0], costs=costs, errors=errors))
    tally = replace(here.tally, top=replace(here.tally.top, rows=plans))
    assert first_better(replace(here, tally=tally))[1] == pytest.approx(np.mean(logs[0] < logs[1]), abs=0.004)


def test_the_count_is_of_the_plans_before_the_first_that_is_surely_slower() -> None:
    chances = found().chances
    assert chances[0] == pytest.approx(0.5, abs=1e-6)
    count = unsure(chances)
    assert 1 <= count <= len(chances)
    assert all(chance < SURE for chance in chances[:count])
    assert count == len(chances) or chances[count] >= SURE
    assert unsure([0.5, 0.95, 0.6]) == 1


def test_the_chance_of_two_is_that_of_what_to_measure_next() -> None:
    """Of two plans, the chance that the first is the best is the chance that it is better than the other."""
    two = found().first(2)
    assert advised(two, {}).chance == pytest.approx(two.chances[1], abs=0.01)


def test_the_ranking_says_it(run: Any) -> None:
    said = run("search", "llama-3-70b-512", "--top", "3").out
    rows = json.loads(run("search", "llama-3-70b-512", "--top", "3", "--json").out)["plans"]
    first, second, third = (row["first_faster"] for row in rows)
    assert first < second < third
    beats = f"plan 2 with a chance of {100 * second:.0f} %, plan 3 with {100 * third:.0f} %"
    line = f"Any of these 3 may be fastest: plan 1 beats {beats}"
    assert line in said


def test_where_plans_are_not_ranked_by_speed_no_chance_is_given(run: Any) -> None:
    ask = ("search", "llama-3-70b-512", "--top", "2", "--set", "objective=cost_per_mtoken")
    assert "may be fastest" not in run(*ask).out
    assert [row["first_faster"] for row in json.loads(run(*ask, "--json").out)["plans"]] == [None, None]
