"""A ranking says how sure its order is: errors that plans of one scenario have in common cancel."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.explore.search.bands import SURE, chance_faster, first_faster, spread_apart, unsure
from costmodel.explore.search.search import search

ONE = {"matmul": 0.05, "tp": 0.03, "dp": 0.0}
OTHER = {"matmul": 0.05, "tp": 0.0, "dp": 0.04}


def test_the_chance_is_how_often_draws_of_all_errors_stand_that_way() -> None:
    """Each kind of error is drawn once for both plans; each run adds an error of its own."""
    inputs = training_inputs(load("quickstart"))
    draws, count, step = np.random.default_rng(7), 400_000, inputs.stack.spread.step
    common = {kind: draws.normal(size=count) for kind in ONE}
    logs = []
    for time, plan in ((1.0, ONE), (1.03, OTHER)):
        kinds = sum(error * common[kind] for kind, error in plan.items())
        logs.append(np.log(time) + kinds + step * draws.normal(size=count))
    found = chance_faster((1.0, 1.03), spread_apart(inputs, ONE, OTHER))
    assert found == pytest.approx(np.mean(logs[0] < logs[1]), abs=0.004)


def test_an_error_that_both_share_changes_nothing() -> None:
    inputs = training_inputs(load("quickstart"))
    wider = ({**ONE, "matmul": 0.5}, {**OTHER, "matmul": 0.5})
    assert spread_apart(inputs, *wider) == pytest.approx(spread_apart(inputs, ONE, OTHER))
    assert chance_faster((2.0, 2.0), spread_apart(inputs, ONE, OTHER)) == pytest.approx(0.5, abs=1e-6)


def test_the_count_is_of_the_plans_before_the_first_that_is_surely_slower() -> None:
    found = search(load("quickstart"), 20, workers=1)
    chances = first_faster(found.inputs, found.best)
    assert chances[0] == pytest.approx(0.5, abs=1e-6)
    count = unsure(chances)
    assert 1 <= count <= len(chances)
    assert all(chance < SURE for chance in chances[:count])
    assert count == len(chances) or chances[count] >= SURE
    far = replace(found.best[1], costs=found.best[1].costs | {"step_time": 2 * found.best[0].costs["step_time"]})
    assert unsure(first_faster(found.inputs, [found.best[0], far])) == 1


def test_the_ranking_says_it(run: Any) -> None:
    said = run("search", "llama-3-70b-512", "--top", "3").out
    rows = json.loads(run("search", "llama-3-70b-512", "--top", "3", "--json").out)["plans"]
    first, second, third = (row["first_faster"] for row in rows)
    assert first < second < third
    line = f"any of these 3 may be fastest: 1 is faster than 2 with a chance of {second:.0%}, than 3 with {third:.0%}"
    assert line in said


def test_where_plans_are_not_ranked_by_speed_no_chance_is_given(run: Any) -> None:
    ask = ("search", "llama-3-70b-512", "--top", "2", "--set", "objective=cost_per_mtoken")
    assert "may be fastest" not in run(*ask).out
    assert [row["first_faster"] for row in json.loads(run(*ask, "--json").out)["plans"]] == [None, None]
