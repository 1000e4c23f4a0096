"""Searches by results of the whole run: the same figures as one plan at a time, and the limits kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.documents.schemas.scenario import Plan
from costmodel.estimate.shared.plan_batch import plan_to_mapping
from costmodel.estimate.training_answer.predict_training import answer
from costmodel.explore.search.search import search
from costmodel.ground.errors import CostModelError

NAME = "quickstart"
RUN = ("run.failures={rate: 60 /1000 node-days, soft: {share: 75 %}}", "search.zero=[0,1,3]")
FIGURES = ("goodput", "run_time", "run_cost", "energy", "emissions", "checkpoint_blocking", "checkpoint_interval")


@pytest.mark.parametrize("mode", ["sync", "async", "memory"])
def test_a_ranked_plan_is_what_it_is_alone(mode: str) -> None:
    found = search(load(NAME, [*RUN, f"run.checkpoint.mode={mode}", "objective=run_time"]), 30, workers=1)
    assert len(found.best) == 30
    for plan in found.best[::7]:
        alone = answer(found.inputs, Plan.model_validate(plan.sizes | plan_to_mapping(plan.structure)))
        row = alone.evaluation.costs.row()
        for name in FIGURES:
            assert row[name] == pytest.approx(plan.costs[name], rel=1e-12), name


@pytest.mark.parametrize(
    ("objective", "sign"), [("goodput", -1), ("run_time", 1), ("run_cost", 1), ("energy", 1), ("emissions", 1)]
)
def test_plans_come_in_the_order_of_the_objective(objective: str, sign: int) -> None:
    found = search(load(NAME, [*RUN, f"objective={objective}"]), 40, workers=1)
    values = [sign * plan.costs[objective] for plan in found.best]
    assert values == sorted(values)
    assert values[0] < values[-1]


@pytest.mark.parametrize("objective", ["goodput", "energy", "emissions"])
def test_an_objective_of_the_run_wants_one(objective: str) -> None:
    with pytest.raises(CostModelError) as caught:
        search(load(NAME, [f"objective={objective}"]), 1, workers=1)
    assert caught.value.faults[0].code == "C004"
    assert "run" in caught.value.faults[0].hint


def test_without_run_the_time_of_the_budget_is_ranked_as_before() -> None:
    by_run = search(load(NAME, ["objective=run_time"]), 5, workers=1).best
    by_step = search(load(NAME, ["objective=step_time"]), 5, workers=1).best
    assert [plan.sizes for plan in by_run] == [plan.sizes for plan in by_step]


def test_limits_on_the_run_are_kept(run: Any) -> None:
    asked = ("search", NAME, "--top", "100", "--json", *(part for each in RUN for part in ("--set", each)))
    free = json.loads(run(*asked).out)
    shares = sorted(plan["goodput"] for plan in free["plans"])
    least = shares[len(shares) // 2]
    assert shares[0] < least
    bound = json.loads(run(*asked, "--set", f"limits.goodput.at_least={least!r}").out)
    assert bound["kept"] < free["kept"]
    assert all(plan["goodput"] >= least for plan in bound["plans"])


def test_elastic_runs_are_searched_among_whole_replicas(run: Any) -> None:
    elastic = ("--set", "run.elastic={regroup: 60 s, repair: 1 h}", "--set", "search.zero=[0,1]")
    found = json.loads(run("search", NAME, "--json", *elastic).out)
    assert found["plans"]
    assert all(plan["zero"] == 0 and plan["dp"] > 1 for plan in found["plans"])
    assert "R003" in [reason["code"] for reason in found["refused"]]


def test_variants_may_change_the_run() -> None:
    case = load(NAME, [*RUN, "objective=run_time"])
    from costmodel.explore.search.value_ranges import axis

    found = search(case, 40, workers=1, over=[axis("run.restart.start=1 min,60 min")])
    assert found.values(found.best[0].variant)["run.restart.start"] == "1 min"
    slow = next(plan for plan in found.best if found.values(plan.variant)["run.restart.start"] == "60 min")
    quick = next(plan for plan in found.best if plan.sizes == slow.sizes and plan.structure == slow.structure)
    assert quick.costs["run_time"] < slow.costs["run_time"]
