"""The regression of a fit: slopes of the model, what rows switched, and what is left out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from estimate.cases import case, mixed

from costmodel.documents.reader.library import read
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.evidence.calibrate.fit_from_runs import MIN_SENSITIVITY, _affected, step_fit
from costmodel.evidence.calibrate.regression_problem import Problem, timed, with_values
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.run_table import read_table
from evidence.calibrate.planted_runs import FOLDER, LAUNCH, SHELF, SUSTAINED, ran


def test_the_slopes_are_those_of_the_model(rows: list[CsvRow]) -> None:
    """A run of matrix products alone would have a slope of 1 in the slowdown; real ones lie between 0 and 1."""
    problem = Problem(timed(rows, SHELF)[0], (SUSTAINED,), SHELF)
    slopes = problem.slopes(problem.prior_means, problem.errors(problem.prior_means))[:, 0]
    assert np.all((slopes > 0) & (slopes < 1))
    assert slopes[-1] > 0.6 > slopes[0]


def test_what_a_row_switched_stays_switched() -> None:
    case = timed(list(read_table(str(FOLDER / "mine.csv")).rows), SHELF)[0][0].case
    switched = replace(case, stack=case.stack.model_copy(update={"launch": case.stack.launch.model_copy(
        update={"operation": 1e-6})}))  # fmt: skip
    assert with_values(switched, [LAUNCH], [60e-6], SHELF).stack.launch.operation == 1e-6
    assert with_values(case, [LAUNCH], [60e-6], SHELF).stack.launch.operation == 60e-6


def test_the_host_s_time_for_an_operation_is_that_of_experts_too() -> None:
    """Unless one kernel takes them all, or a row says it."""
    plain, graphed = case(mixed()), case(mixed(), assume={"experts": {"host": "0 s"}})
    together = replace(plain, stack=read("stack", "hai-llm"))
    for asked, seconds in ((plain, 100e-6), (graphed, 0.0), (together, 0.0)):
        found = training_inputs(with_values(asked, [LAUNCH], [100e-6], SHELF))
        assert found.stack.launch.operation == pytest.approx(100e-6)
        assert found.experts is not None
        assert found.experts.host == pytest.approx(seconds)


def test_a_fit_that_leaves_out_tells_dense_models_from_those_with_experts(rows: list[CsvRow]) -> None:
    runs = ran(rows, 1.30, 60e-6)
    assert list(step_fit(runs, (SUSTAINED,), SHELF, leave_out=True).by_kind) == ["dense"]
    with_experts = replace(runs[0], case=case(mixed(), plan={"tp": 1}))
    found = step_fit([*runs, with_experts], (SUSTAINED,), SHELF, leave_out=True).by_kind
    assert {name: inside.runs for name, (inside, _) in found.items()} == {"dense": len(runs), "with experts": 1}


def test_a_run_informs_a_constant_from_half_a_percent_on() -> None:
    """A constant off by a tenth moves the time of such a run by 0.05 %, which no published time can show."""
    assert math.exp(MIN_SENSITIVITY * math.log(1.1)) - 1 == pytest.approx(0.0005, rel=0.06)
    slopes = np.array([[0.004, -0.006], [0.0051, 0.0]])
    assert _affected(slopes).tolist() == [[False, True], [True, False]]
