"""Constants from measured runs: known ones are found again, and what the runs cannot tell stays at its prior."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.estimate.training_answer.predict_training import answer, own_plan
from costmodel.evidence.calibrate.fit_from_runs import _unidentified, step_fit
from costmodel.evidence.calibrate.regression_problem import MOST, SCALE, Problem, on_scale, timed
from costmodel.exchange.tables.csv_cells import CsvRow
from evidence.calibrate.planted_runs import HIDDEN, LAUNCH, SHELF, SUSTAINED, ran


def test_known_constants_are_found_again(rows: list[CsvRow]) -> None:
    """Times made with 1.30 and 60 µs; priors are 1.15 and 30 µs; a narrow prior holds back."""
    runs = ran(rows, 1.30, 60e-6)
    fit = step_fit(
        runs, (SUSTAINED.model_copy(update={"spread": 3.0}), LAUNCH.model_copy(update={"spread": 3.0})), SHELF
    )
    slow, host = fit.constants
    assert slow.value == pytest.approx(1.30, rel=1e-3)
    assert host.value == pytest.approx(60e-6, rel=1e-3)
    held = step_fit(runs, (SUSTAINED, LAUNCH), SHELF).constants[0].value
    assert SUSTAINED.mean < held < slow.value
    assert slow.resolved
    assert host.resolved
    assert fit.inside.p90 < 2e-3 < fit.at_priors.median
    assert set(slow.families) == {"family-0", "family-1"}


@pytest.fixture
def copies_predicted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of a run share its case: with the same constants it is predicted for one of them."""
    predicted: dict[Any, Any] = {}
    answers = Problem._answers

    def memoised(problem: Problem, scaled: np.ndarray, which: Any) -> Any:
        constants = (*(str(prior) for prior in problem.priors), *(float(value) for value in scaled))
        for index in range(len(problem.runs)) if which is None else which:
            run = problem.runs[index]
            key = (id(run.case), constants)
            if key not in predicted:
                predicted[key] = next(iter(answers(problem, scaled, [index])))
            yield run, *predicted[key][1:]

    monkeypatch.setattr(Problem, "_answers", memoised)


@pytest.mark.usefixtures("copies_predicted_once")
def test_what_all_runs_of_a_family_have_in_common_is_its_own(rows: list[CsvRow]) -> None:
    """One family tells both constants by how its runs differ; of another, of small models alone, all are slower."""
    runs = [replace(run, family="varied") for run in ran(rows, 1.30, 60e-6)]
    small = [replace(run, family="small", measured=1.1 * run.measured) for run in runs if run.case.model.hidden < 4096]
    free = tuple(prior.model_copy(update={"spread": 3.0}) for prior in (SUSTAINED, LAUNCH))
    many = [*runs, *(5 * small)]
    identified, mixed_up = (step_fit(many, free, SHELF, apart=apart).constants[1].value for apart in (0.05, 0.0))
    assert identified == pytest.approx(60e-6, rel=0.06)
    assert mixed_up - 60e-6 > 1.5 * (identified - 60e-6)


def test_what_a_family_has_in_common_is_the_less_the_fewer_its_runs_are(rows: list[CsvRow]) -> None:
    """Of n that err alike n / (n + (scale / apart)²) is theirs in common; of those out of scale less counts."""
    runs = timed(rows, SHELF)[0]
    problem = Problem(runs, (SUSTAINED,), SHELF, apart=0.04)
    errors = np.full(len(runs), 0.05)
    counts = np.array([sum(run.family == family for run in runs) for family in problem.families])
    assert problem.offsets(errors) == pytest.approx(0.05 * counts / (counts + (SCALE / 0.04) ** 2))
    assert np.all(problem.offsets(10 * errors) < 10 * problem.offsets(errors))
    assert not np.any(replace(problem, apart=0.0).offsets(errors))


@pytest.mark.parametrize("apart", [0.0, 0.05])
def test_the_loss_grows_as_it_is_said_to(rows: list[CsvRow], apart: float) -> None:
    """By small differences of the loss, with errors that are straight."""
    problem = Problem(timed(rows, SHELF)[0], (SUSTAINED, LAUNCH), SHELF, apart=apart)
    slopes = np.random.default_rng(1).normal(size=(len(rows), 2))
    away = np.array([0.03, -0.2])
    at, step = problem.prior_means + away, 1e-6
    errors = np.linspace(-0.06, 0.15, len(rows)) + slopes @ away

    def loss(moved: np.ndarray) -> float:
        return problem.loss(at + moved, errors + slopes @ moved)

    expected = [(loss(step * axis) - loss(-step * axis)) / (2 * step) for axis in np.eye(2)]
    uphill, _ = problem.turned(at, errors, slopes)
    assert uphill == pytest.approx(expected, rel=1e-4)


def test_one_wild_run_moves_little(rows: list[CsvRow]) -> None:
    runs = ran(rows, 1.30, 60e-6)
    wild = [replace(run, measured=10 * run.measured) if place == 5 else run for place, run in enumerate(runs)]
    (found,) = step_fit(wild, (SUSTAINED,), SHELF).constants
    (calm,) = step_fit(runs, (SUSTAINED,), SHELF).constants
    assert found.value == pytest.approx(calm.value, rel=0.12)


def test_runs_that_agree_are_heard_however_far_off_they_are(rows: list[CsvRow]) -> None:
    """The further, the more or as much: a robust loss lets three runs pull so far, and no step back to the prior."""
    runs = ran(rows[4:], 1.30, 40e-6)
    near = SUSTAINED.model_copy(update={"mean": 1.30, "spread": 0.08})
    found = []
    for factor in (1.1, 1.35, 1.5, 2.0):
        slower = [replace(run, measured=factor * run.measured) for run in runs]
        (learned,) = step_fit(slower, (near,), SHELF, apart=0.0).constants
        assert learned.resolved
        found.append(learned.value)
    assert 1.35 < found[0] < found[1] <= found[2] * 1.001
    assert found[3] > 0.99 * found[2]


def test_what_no_run_tells_stays_at_its_prior(rows: list[CsvRow]) -> None:
    fit = step_fit(ran(rows, 1.30, 60e-6), (SUSTAINED, HIDDEN), SHELF)
    hidden = fit.constants[1]
    assert (hidden.value, hidden.runs, hidden.families, hidden.resolved) == (pytest.approx(0.8), 0, (), False)
    assert hidden.spread == pytest.approx(HIDDEN.spread)


def test_a_constant_like_another_follows_it(rows: list[CsvRow]) -> None:
    said = {"name": "twin", "documents": ["b200-sxm"], "mean": 1.05, "spread": 0.1, "like": SUSTAINED.name}
    twin = SUSTAINED.model_copy(update=said)
    slow, other = step_fit(ran(rows, 1.30, 60e-6), (SUSTAINED, twin), SHELF).constants
    assert other.value == pytest.approx(1.05 * slow.value, rel=1e-6)


def test_what_no_run_feels_is_not_told_by_the_constant_it_is_like(rows: list[CsvRow]) -> None:
    """Neither where that is far from its prior, nor where what is felt is like one that is not."""
    said = {"name": "twin", "documents": ["b200-sxm"], "mean": 1.05, "spread": 0.05}
    twin = SUSTAINED.model_copy(update={**said, "like": SUSTAINED.name})
    slow, other = step_fit(ran(rows, 1.80, 60e-6), (SUSTAINED, twin), SHELF).constants
    assert (slow.resolved, other.resolved, other.runs) == (True, False, 0)
    problem = Problem(timed(rows, SHELF)[0], (SUSTAINED, twin), SHELF)
    assert problem.moved(problem.prior_means + 0.3) == pytest.approx([0.3, 0.0])
    unfelt = SUSTAINED.model_copy(update={**said, "spread": 0.3})
    felt = SUSTAINED.model_copy(update={"mean": 1.0, "spread": 0.15, "like": unfelt.name})
    other, slow = step_fit(ran(rows, 1.30, 60e-6), (unfelt, felt), SHELF).constants
    assert (slow.resolved, other.resolved, other.runs) == (True, False, 0)


def test_what_only_follows_another_is_not_told_however_far_it_went(rows: list[CsvRow]) -> None:
    """Its runs feel it, and say no more of it than that it is like the other."""
    said = {"name": "twin", "documents": ["b200-sxm"], "mean": 1.05, "spread": 0.05, "like": SUSTAINED.name}
    problem = Problem(timed(rows, SHELF)[0], (SUSTAINED, SUSTAINED.model_copy(update=said)), SHELF)
    far, slopes = problem.prior_means + 2 * SUSTAINED.spread, np.ones((len(rows), 2))
    assert _unidentified(problem, far, problem.precision, slopes) == {"twin"}


def test_a_run_has_a_family_whatever_it_is_left_out_with(rows: list[CsvRow]) -> None:
    runs = timed(rows, SHELF, "id")[0]
    assert [run.group for run in runs] == [run.run for run in runs]
    assert {run.family for run in runs} == {"family-0", "family-1"}


def test_runs_that_are_left_out_say_nothing_of_what_their_family_has_in_common(rows: list[CsvRow]) -> None:
    runs = timed(rows, SHELF)[0]
    problem, kept = Problem(runs, (SUSTAINED,), SHELF), Problem(runs[2:], (SUSTAINED,), SHELF)
    errors = np.linspace(-0.2, 0.3, len(runs))
    others = np.array([0.0, 0.0, *(1.0 for _ in runs[2:])])
    found = dict(zip(problem.families, problem.offsets(errors, others), strict=True))
    assert found == pytest.approx(dict(zip(kept.families, kept.offsets(errors[2:]), strict=True)))


@pytest.mark.parametrize("apart", [0.0, 0.05])
def test_the_loss_curves_as_it_is_said_to(rows: list[CsvRow], apart: float) -> None:
    """By second differences, with errors that are straight and small enough to count by their square."""
    problem = Problem(timed(rows, SHELF)[0], (SUSTAINED, LAUNCH), SHELF, apart=apart)
    slopes = np.random.default_rng(1).normal(size=(len(rows), 2))
    errors, step, axes = np.linspace(-0.03, 0.04, len(rows)), 1e-3, np.eye(2)

    def loss(moved: np.ndarray) -> float:
        return problem.loss(problem.prior_means + moved, errors + slopes @ moved)

    def curve(one: np.ndarray, other: np.ndarray) -> float:
        signs = product((1, -1), (1, -1))
        return sum(a * b * loss(step * (a * one + b * other)) for a, b in signs) / (4 * step**2)

    expected = [[curve(one, other) for other in axes] for one in axes]
    assert problem.turned(problem.prior_means, errors, slopes)[1] == pytest.approx(np.array(expected), rel=1e-3)


def test_a_family_left_out_is_predicted_by_the_other(rows: list[CsvRow]) -> None:
    """One family made with 1.10, one with 1.40: alone the other's constant is off by about that ratio."""
    slow, fast = ran(rows, 1.40, 40e-6), ran(rows, 1.10, 40e-6)
    runs = [one if one.family == "family-0" else other for one, other in zip(slow, fast, strict=True)]
    big = [run for run in runs if run.case.model.hidden >= 4096]
    fit = step_fit(big, (SUSTAINED.model_copy(update={"spread": 3.0}),), SHELF, leave_out=True)
    assert fit.left_out is not None
    (_, unseen_slow), (_, unseen_fast) = fit.by_group["family-0"], fit.by_group["family-1"]
    assert unseen_slow.bias < -0.1
    assert unseen_fast.bias > 0.1
    assert fit.left_out.median > fit.inside.median
    assert fit.widths["spread.unseen"] > 0.06  # prior 5 %, two sources a fifth apart


def test_what_a_family_alone_determines_is_at_its_prior_without_it(rows: list[CsvRow]) -> None:
    """Small models alone feel the host: without them its time is the prior, as a fit of the others finds it."""
    runs = ran(rows, 1.30, 70e-6)
    parted = [replace(run, group="big" if run.case.model.hidden >= 4096 else "small") for run in runs]
    fit = step_fit(parted, (SUSTAINED, LAUNCH), SHELF, leave_out=True)
    assert fit.constants[1].resolved
    big = step_fit([run for run in parted if run.group == "big"], (SUSTAINED, LAUNCH), SHELF).constants
    assert (big[1].resolved, big[1].value) == (False, pytest.approx(LAUNCH.mean))
    small = [run for run in parted if run.group == "small"]
    values = np.array([on_scale(part.prior, part.value) for part in big])
    expected = Problem(small, (SUSTAINED, LAUNCH), SHELF).scores(values).of()
    assert fit.by_group["small"][1].bias == pytest.approx(expected.bias, abs=0.005)


def test_the_share_inside_the_band_is_that_of_the_answers_own_bands(rows: list[CsvRow]) -> None:
    """Measured times on either side of both ends of the band that an estimate of each run has."""
    runs = []
    for run, (end, off) in zip(timed(rows, SHELF)[0], cycle(product(("low", "high"), (0.99, 1.01))), strict=False):
        inputs = training_inputs(run.case)
        costs = answer(inputs, own_plan(inputs)).evaluation.costs.row()
        runs.append(replace(run, measured=costs[f"step_time_{end}"] * off))
    fit = step_fit(runs, (SUSTAINED,), SHELF)
    held = [place % 4 in (1, 2) for place in range(len(runs))]
    assert fit.shipped.inside_band == pytest.approx(sum(held) / len(held))


@pytest.mark.usefixtures("copies_predicted_once")
def test_a_family_counts_as_so_many_runs_at_most(rows: list[CsvRow]) -> None:
    """What 140 runs of a family say is what 70 copies of half of them say, and a family of few says what it always did;
    which counts as how many is seen in the curve of the loss.
    """
    runs = ran(rows, 1.30, 60e-6)
    varied, other = ([replace(run, family=name) for run in runs] for name in ("varied", "other"))
    slower = [replace(run, measured=1.2 * run.measured) for run in varied]
    found = [step_fit([*other, *(times * slower)], (SUSTAINED, LAUNCH), SHELF).constants for times in (10, 20)]
    for one, more in zip(*found, strict=True):
        assert (more.value, more.spread) == (pytest.approx(one.value), pytest.approx(one.spread))
    few, many = (Problem(times * varied, (SUSTAINED,), SHELF, apart=0.0) for times in (5, 50))
    for problem, counts in ((few, len(few.runs)), (many, MOST)):
        slopes, errors = np.ones((len(problem.runs), 1)), np.zeros(len(problem.runs))
        _, curved = problem.turned(problem.prior_means, errors, slopes)
        assert curved[0, 0] == pytest.approx(counts / SCALE**2 + SUSTAINED.spread**-2)
        assert problem.loss(problem.prior_means, errors + 0.04) == pytest.approx(counts * (0.04 / SCALE) ** 2 / 2)
