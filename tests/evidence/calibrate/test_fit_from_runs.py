"""Constants from measured runs: known ones are found again, what the runs cannot tell stays, unseen families err."""

from __future__ import annotations

import csv
import json
import math
import shutil
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from estimate.cases import TRAINING_STACKS, case, mixed, written_out

from costmodel.commands.output import written_together
from costmodel.documents.keys.schema_paths import key_of
from costmodel.documents.reader import folders
from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.find_documents import find
from costmodel.documents.reader.library import FOLDERS, efficiency_of, names, read
from costmodel.documents.reader.resolved_scenario import load
from costmodel.documents.schemas.prior import Prior
from costmodel.estimate.evaluate.predict import answer, own_plan
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.evidence.calibrate.default_efficiency import beginning, changed
from costmodel.evidence.calibrate.fit_from_runs import MIN_SENSITIVITY, _affected, _unidentified, step_fit
from costmodel.evidence.calibrate.priors import STEPS, off_scale, on_scale, own, shipped, shipped_priors, with_values
from costmodel.evidence.calibrate.refine_from_runs import refine, texts
from costmodel.evidence.calibrate.regression_problem import MOST, SCALE, Problem, TimedRun, timed
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.run_table import read_table
from costmodel.ground.errors import CostModelError

ROOT = Path(__file__).parents[3]
FOLDER = Path(__file__).parents[1] / "measured"
SHELF = CachedReader()
PRIORS = shipped_priors(SHELF)
ALONE = {"mean": 1.15, "spread": 0.15, "like": ""}
SUSTAINED = next(prior for prior in PRIORS if prior.name == "sustained, ampere").model_copy(update=ALONE)
LAUNCH = next(prior for prior in PRIORS if prior.name == "host, an operation")
HIDDEN = next(prior for prior in PRIORS if prior.name == "overlap, tp")
SIZES = [(24, 1024, 1), (24, 1024, 2), (16, 1024, 4), (24, 2048, 1), (24, 4096, 2), (32, 6144, 4), (40, 8192, 2)]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[CsvRow]:
    """Runs on one node from host-bound to compute-bound, in two families."""
    with (FOLDER / "mine.csv").open() as file:
        base = next(iter(csv.DictReader(file)))
    path = tmp_path_factory.mktemp("runs") / "sizes.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(base))
        writer.writeheader()
        for place, (layers, hidden, size) in enumerate(SIZES):
            shape = {"layers": layers, "hidden": hidden, "ffn": 4 * hidden, "head_dim": hidden // 64}
            batch = {"micro_batch": size, "global_batch": 4 * size, "source_family": f"family-{place % 2}"}
            writer.writerow({**base, **shape, **batch, "id": f"run-{place}", "step_time_s": 1.0})
    return list(read_table(str(path)).rows)


def ran(rows: list[CsvRow], sustained: float, launch: float) -> list[TimedRun]:
    """The runs with the times that a scenario of its own writing has at these constants."""
    found = []
    for run in timed(rows, SHELF)[0]:
        scenario = run.case.scenario
        assume = scenario.assume.model_copy(update={"sustained": sustained})
        host = run.case.stack.launch.model_copy(update={"operation": launch})
        stack = run.case.stack.model_copy(update={"launch": host})
        case = replace(run.case, stack=stack, scenario=scenario.model_copy(update={"assume": assume}))
        inputs = training_inputs(case)
        found.append(replace(run, measured=number(answer(inputs, own_plan(inputs)).evaluation.step.total)))
    return found


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


@pytest.mark.usefixtures("copies_predicted_once")
def test_what_all_runs_of_a_family_have_in_common_is_its_own(rows: list[CsvRow]) -> None:
    """One family tells both constants by how its runs differ; of another, of small models alone, all are slower."""
    runs = [replace(run, family="varied") for run in ran(rows, 1.30, 60e-6)]
    small = [replace(run, family="small", measured=1.1 * run.measured) for run in runs if run.case.model.hidden < 4096]
    free = tuple(prior.model_copy(update={"spread": 3.0}) for prior in (SUSTAINED, LAUNCH))
    many = [*runs, *(5 * small)]
    told, mixed_up = (step_fit(many, free, SHELF, apart=apart).constants[1].value for apart in (0.05, 0.0))
    assert told == pytest.approx(60e-6, rel=0.06)
    assert mixed_up - 60e-6 > 1.5 * (told - 60e-6)


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


def test_what_is_worse_than_what_is_in_use_is_not_written() -> None:
    found = refine([str(FOLDER / "mine.csv")])
    fit = found.fit
    worse = replace(fit, inside=replace(fit.inside, median=2.1 * fit.shipped.median))
    assert not found.why
    assert "further off than now" in replace(found, fit=worse).why
    assert texts(replace(found, fit=worse)) == {}


def test_the_slopes_are_those_of_the_model(rows: list[CsvRow]) -> None:
    """A run of matrix products alone would have a slope of 1 in the slow-down; real ones lie between 0 and 1."""
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


def test_scales_and_what_is_shipped() -> None:
    assert on_scale(HIDDEN, 0.5) == 0
    assert on_scale(SUSTAINED, math.e) == 1
    for prior in PRIORS:
        assert off_scale(prior, on_scale(prior, 0.7)) == pytest.approx(0.7)


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.name)
def test_the_documents_of_a_constant_ship_one_value_of_it(prior: Prior) -> None:
    assert key_of(FOLDERS[prior.kind][1], prior.leaf)
    alone = [prior.model_copy(update={"documents": [name]}) for name in prior.documents]
    assert {shipped(one, SHELF) for one in alone} == {shipped(prior, SHELF)}
    assert prior.like in ("", *(other.name for other in PRIORS))


@pytest.mark.parametrize(
    ("leaf", "untuned"),
    [
        ("kernels.traffic_factor", 1.0),
        ("launch.operation", 0.0),
        ("overlap.dp", 0.0),
        ("overlap.tp", 0.0),
    ],
)
def test_a_stack_has_no_value_tuned_to_it_alone(leaf: str, untuned: float) -> None:
    """Each says nothing of a constant, or what all of its constant say."""
    held = {name for prior in PRIORS if prior.leaf == leaf for name in prior.documents}
    group, _, key = leaf.partition(".")
    for name in set(TRAINING_STACKS) - held:
        if read("stack", name).like is not None:
            continue  # it has the values of another, and changes with it
        assert getattr(getattr(read("stack", name), group), key, untuned) == untuned, name


def test_no_attention_kernel_is_fitted_to_training_runs() -> None:
    for name in names("efficiency"):
        for kernel in (read("efficiency", name).attention or {}).values():
            assert kernel.source != "training-runs-fit", name


@pytest.mark.parametrize(
    ("said", "instead", "code"),
    [
        ("leaf: overlap.dp", "leaf: overlap.db", "D010"),
        ("mean: 81 %", "mean: 100 %", "D006"),
        ("mean: 30 us", "mean: 0 us", "D006"),
        ("mean: 30 us", "mean: 35 ms of it", "D007"),
        ("[a100-sxm-80]", "[a100-sxm-81]", "D009"),
        ("[a100-sxm-80]", "[ib-hdr]", "D013"),
    ],
)
def test_priors_of_your_own_that_make_no_sense(
    run: Any, faults: Any, tmp_path: Path, said: str, instead: str, code: str
) -> None:
    own_priors = tmp_path / "hardware/priors/steps.yaml"
    own_priors.parent.mkdir(parents=True)
    text = find("prior", STEPS).read_text("utf-8")
    assert said in text
    own_priors.write_text(text.replace(said, instead, 1), "utf-8")
    (found,) = faults(run("calibrate", str(FOLDER / "mine.csv"), "--afresh", cwd=tmp_path))
    assert found.code == code


def test_at_most_fifteen() -> None:
    assert len(PRIORS) <= 15
    assert len({prior.name for prior in PRIORS}) == len(PRIORS)


def test_three_runs_of_one_s_own() -> None:
    found = refine([str(FOLDER / "mine.csv")])
    names = [part.prior.name for part in found.fit.constants]
    assert names == ["sustained, a100-sxm-80", "network, ib-hdr", "launch, megatron-2021"]
    slow = found.fit.constants[0]
    assert slow.resolved
    assert slow.value < slow.prior.mean, "these runs were faster than we say"
    assert abs(found.fit.inside.bias) < abs(found.fit.shipped.bias)
    cases = [run.case for run in timed(list(read_table(str(FOLDER / "mine.csv")).rows), SHELF)[0]]
    assert list(own(cases, SHELF)) == [part.prior for part in found.fit.constants]


@pytest.mark.parametrize("stack", TRAINING_STACKS)
def test_runs_of_any_stack_sharpen_what_there_is_of_it(stack: str) -> None:
    """A program that is compiled whole launches nothing that could be sharpened."""
    told = {prior.name for prior in own([load("quickstart", [f"stack={stack}"])], SHELF)}
    launches = float(read("stack", stack).launch.operation) > 0
    assert (f"launch, {stack}" in told) is launches
    assert told >= {"sustained, h100-sxm", "network, ib-ndr"}


@pytest.mark.parametrize("node", names("node"))
def test_runs_on_any_node_sharpen_what_there_is_of_it(node: str) -> None:
    found = load("quickstart", [f"cluster.node={node}"])
    assert f"sustained, {found.efficiency.of}" in {prior.name for prior in own([found], SHELF)}


def test_runs_of_maxtext_are_calibrated(run: Any, tmp_path: Path) -> None:
    text = (FOLDER / "mine.csv").read_text("utf-8").replace("Megatron-LM", "MaxText")
    (tmp_path / "mine.csv").write_text(text, "utf-8")
    told = json.loads(run("calibrate", "mine.csv", "--json", cwd=tmp_path).out)
    assert {constant["name"].split(",")[0] for constant in told["constants"]} == {"sustained", "network"}


def test_what_is_written_is_used(run: Any, tmp_path: Path) -> None:
    shutil.copy(FOLDER / "mine.csv", tmp_path)
    before = json.loads(run("validate", "mine.csv", "--json", cwd=tmp_path).out)["overall"]
    told = json.loads(run("calibrate", "mine.csv", "--write", "--json", cwd=tmp_path).out)
    assert told["written"] == ["hardware/efficiencies/a100-sxm-80.yaml"]
    text = (tmp_path / told["written"][0]).read_text()
    assert "# Shares of the bf16 peak" in text
    assert "source: calibrate-" in text
    after = json.loads(run("validate", "mine.csv", "--json", cwd=tmp_path).out)["overall"]
    assert after["median_error"] < before["median_error"]
    again = run("calibrate", "mine.csv", "--json", cwd=FOLDER)
    assert json.loads(again.out)["constants"] == told["constants"], "the same runs give the same constants"
    assert "factor fitted on runs; all else is of training-runs-fit" in text
    twice = json.loads(run("calibrate", "mine.csv", "--write", "--json", cwd=tmp_path).out)
    assert twice["constants"] == told["constants"], "what was written does not count twice"
    assert (tmp_path / told["written"][0]).read_text() == text


def mine(folder: Path, **cells: str) -> Path:
    """The runs of mine.csv with other cells."""
    with (FOLDER / "mine.csv").open() as file:
        rows = [{**row, **cells} for row in csv.DictReader(file)]
    with (folder / "other.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / "other.csv"


def test_what_the_constants_do_not_describe_is_not_written(run: Any, tmp_path: Path) -> None:
    """Times in milliseconds."""
    path = mine(tmp_path, step_time_s="18000")
    ran = run("calibrate", str(path), "--write", "--json", cwd=tmp_path)
    told = json.loads(ran.out)
    assert ran.code == 1
    assert run("calibrate", str(path), cwd=tmp_path).code == 0, "nothing was asked to be written"
    assert told["written"] == []
    assert "is a time in seconds?" in told["why"]
    assert not (tmp_path / "hardware").exists()
    assert "not to be written: half of the runs" in run("calibrate", str(path), cwd=tmp_path).out


def test_runs_that_are_left_out_are_named(run: Any, tmp_path: Path) -> None:
    text = mine(tmp_path).read_text("utf-8").splitlines()
    unknown, unlike = text[2].replace("a100-sxm-80,8", "abacus,8"), text[3].replace("64,8,8", "64,8,5")
    (tmp_path / "other.csv").write_text("\n".join([text[0].replace("hfu", "hfv"), text[1], unknown, unlike]), "utf-8")
    shown = run("calibrate", "other.csv", cwd=tmp_path).out
    assert "identified by 1 of 3 runs" in shown
    assert "not modelled: V001 accelerator unknown: run-2" in shown
    assert "not modelled: V007 plan invalid: run-3" in shown
    told = json.loads(run("calibrate", "other.csv", "--json", cwd=tmp_path).out)
    assert [(left["id"], left["refused"]) for left in told["refused"]] == [("run-2", "V001"), ("run-3", "V007")]
    (tmp_path / "none.csv").write_text("\n".join([text[0], unknown]), "utf-8")
    ran = run("calibrate", "none.csv", cwd=tmp_path)
    assert (ran.code, "none of 1 runs is modelled; run-2: " in ran.err) == (2, True)
    assert "costmodel validate none.csv --by reason" in ran.err


def test_a_column_that_looks_mistaken_is_remarked(run: Any, tmp_path: Path) -> None:
    path = mine(tmp_path)
    path.write_text(path.read_text("utf-8").replace("recompute", "recomptue", 1), "utf-8")
    assert "the column 'recomptue' is not used; is it 'recompute'?" in run("calibrate", str(path)).out


@pytest.mark.parametrize("order", [("gemm.csv", "mine.csv"), ("mine.csv", "gemm.csv")])
def test_what_two_tables_told_cites_each_its_own(run: Any, tmp_path: Path, order: tuple[str, str]) -> None:
    """Products of an A100, its own times at nine tenths of the rate that is shipped."""
    entry, peak = read("efficiency", "a100-sxm-80").matmul["bf16"], read("accelerator", "a100-sxm-80").peak.bf16
    sizes = product((1024, 2048, 4096, 8192), (4096, 8192, 12288), (4096, 8192, 12288))
    times = [(m, n, k, 2 * m * n * k / (0.9 * entry.compute_share * peak) * 1e6) for m, n, k in sizes]
    lines = [f"a100-sxm-80,bf16,{m},{n},{k},{time + 8}" for m, n, k, time in times]
    (tmp_path / "gemm.csv").write_text("\n".join(["gpu,dtype,m,n,k,time_us", *lines]), "utf-8")
    shutil.copy(FOLDER / "mine.csv", tmp_path)
    for table in (*order, order[0]):
        assert run("calibrate", table, "--write", cwd=tmp_path).code == 0
    found = read("efficiency", str(tmp_path / "hardware/efficiencies/a100-sxm-80.yaml"))
    assert found.sources[found.matmul["bf16"].source].where.startswith("gemm.csv")
    assert found.sources[found.sustained.source].where.startswith("mine.csv")
    assert len([key for key in found.sources if key.startswith("calibrate-")]) == 2


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_runs_that_are_all_faster_are_heard_in_any_precision(run: Any, tmp_path: Path, precision: str) -> None:
    """Of fp8 on an H100, whose products slow down by next to nothing, too."""
    shape = {"layers": "48", "hidden": "8192", "ffn": "32768", "heads": "64", "kv_heads": "64", "head_dim": "128"}
    layout = {"gpus": "32", "tp": "4", "pp": "4", "vp": "1", "seq_parallel": "true", "recompute": "none"}
    cells = {"gpu": "H100", "accelerator": "h100-sxm", "framework": "Megatron-Core", "year": "2024"}
    cells |= {**shape, **layout, "micro_batch": "2", "global_batch": "128", "precision": precision}
    (row, *_) = json.loads(run("validate", str(mine(tmp_path, **cells)), "--json").out)["rows"]
    path = mine(tmp_path, **cells, step_time_s=str(0.9 * row["predicted"]))
    told = json.loads(run("calibrate", str(path), "--json").out)
    slow = told["constants"][0]
    assert (slow["name"], slow["resolved"]) == ("sustained, h100-sxm", True)
    assert told["errors"]["in_sample"]["median"] < 0.6 * told["errors"]["shipped"]["median"]


def on(run: Any, folder: Path, *parts: str) -> Path:
    """The runs of mine.csv on other parts, in one table, each 15 % slower than it is predicted there."""
    rows: list[dict[str, str]] = []
    for part in parts:
        path = mine(folder, gpu=part, accelerator=part, precision="bf16")
        told = json.loads(run("validate", str(path), "--json").out)["rows"]
        with path.open() as file:
            found = list(csv.DictReader(file))
        for row, ours in zip(found, told, strict=True):
            rows.append({**row, "id": f"{part}-{row['id']}", "step_time_s": str(1.15 * ours["predicted"])})
    with (folder / "parts.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / "parts.csv"


def predicted(run: Any, folder: Path, node: str) -> Any:
    told = json.loads(run("estimate", "quickstart", "--set", f"cluster.node={node}", "--json", cwd=folder).out)
    return told["plans"]


@pytest.mark.parametrize("parts", [("mi250x-gcd",), ("mi250x-gcd", "rtx4090"), ("rtx4090",)])
def test_what_runs_tell_of_a_part_that_nobody_measured_is_its_own(run: Any, tmp_path: Path, parts: Any) -> None:
    """It is no other such part's, it is used, and it counts no more when the runs are read again; a part that has
    more power than it needs for its peak can be slower than that says, too.
    """
    path = on(run, tmp_path, *parts)
    before = predicted(run, tmp_path, "gaudi3-8")
    told = json.loads(run("calibrate", str(path), "--write", "--json", cwd=tmp_path).out)
    assert told["written"] == [f"hardware/efficiencies/{part}.yaml" for part in parts]
    assert predicted(run, tmp_path, "gaudi3-8") == before
    texts = [(tmp_path / name).read_text("utf-8") for name in told["written"]]
    for part, text in zip(parts, texts, strict=True):
        chip, found = (
            read("accelerator", part),
            read("efficiency", str(tmp_path / f"hardware/efficiencies/{part}.yaml")),
        )
        slow = next(each for each in told["constants"] if each["name"] == f"sustained, {part}")
        assert slow["resolved"]
        assert found.sustained.factor == pytest.approx(slow["value"], rel=0.005)
        assert found.sustained.factor != pytest.approx(slow["prior"], rel=0.02)
        assert (found.of, found.network) == (part, None)
        assert (found.sustained.power, found.sustained.peak) == (chip.power.max, chip.peak.bf16)
        assert "fitted:" not in text, "residuals are of what others measured"
        assert "factor fitted on runs; all else is of training-runs-fit" in text
    after = json.loads(run("validate", str(path), "--json", cwd=tmp_path).out)["overall"]
    assert after["median_error"] == pytest.approx(told["errors"]["in_sample"]["median"], abs=0.005)
    again = json.loads(run("calibrate", str(path), "--write", "--json", cwd=tmp_path).out)
    assert again["constants"] == told["constants"]
    assert [(tmp_path / name).read_text("utf-8") for name in again["written"]] == texts
    notes = run("estimate", "quickstart", "--set", f"cluster.node={found_in(parts[0])}", cwd=tmp_path).out
    assert "N005" in notes


def found_in(part: str) -> str:
    return str(read("accelerator", part).found_in.node)


@pytest.mark.parametrize(
    "part", [name for name in names("accelerator") if efficiency_of(read("accelerator", name)) == "unmeasured"]
)
def test_a_first_efficiency_predicts_what_was_predicted_without_it(part: str) -> None:
    """But for its figures being rounded; in fp8 too, where power leaves no slow-down in either type."""
    chip, first = read("accelerator", part), beginning("accelerator", part)
    assert first.of == part
    assert ("whatever the power" in first.sustained.note) is (chip.power is None)
    for precision in ("bf16", "fp16", "fp8"):
        if getattr(chip.peak, precision) is None or chip.peak.bf16 is None:
            continue
        node = {**written_out("node", found_in(part)), "accelerator": part}
        posed = case(node=node, stack="megatron-core", workload={"precision": precision})
        without, begun = (training_inputs(each) for each in (posed, replace(posed, efficiency=first)))
        assert float(begun.sustained) == pytest.approx(float(without.sustained), rel=0.005)
        assert float(begun.sustained_narrow) == pytest.approx(float(without.sustained_narrow), rel=0.01)
        for name in ("compute_share", "backward_share"):
            fits = (getattr(each.rates.linear.fit, name) for each in (begun, without))
            assert next(fits) == pytest.approx(next(fits), rel=0.01)


def test_a_part_that_names_unmeasured_is_as_one_that_names_nothing() -> None:
    chip = read("accelerator", "mi250x-gcd")
    assert efficiency_of(chip.model_copy(update={"efficiency": "unmeasured"})) == efficiency_of(chip) == "unmeasured"
    fitted = read("accelerator", "h100-sxm").model_copy(update={"efficiency": "unmeasured"})
    assert efficiency_of(fitted) == "h100-sxm"


def test_a_first_efficiency_of_a_network_holds_nothing_of_accelerators(tmp_path: Path) -> None:
    fabric = next(name for name in names("fabric") if efficiency_of(read("fabric", name)) == "unmeasured")
    first, common = beginning("fabric", fabric), read("efficiency", "unmeasured")
    assert (first.of, first.network.share, first.matmul, first.sustained) == (fabric, common.network.share, {}, None)
    text = changed(
        "fabric",
        fabric,
        {
            ("network",): {"share": 0.5, "source": "calibrate-0"},
            ("sources", "calibrate-0"): {"title": "mine", "where": "here"},
        },
    )
    (tmp_path / f"{fabric}.yaml").write_text(text, "utf-8")
    document = read("efficiency", str(tmp_path / f"{fabric}.yaml"))
    assert (document.network.share, document.network.source) == (0.5, "calibrate-0")


def test_a_source_that_nothing_cites_any_more_goes(run: Any, tmp_path: Path) -> None:
    for seconds in ("1.4", "1.45"):
        path = mine(tmp_path)
        path.write_text(path.read_text("utf-8").replace(",1.42,", f",{seconds},"), "utf-8")
        assert run("calibrate", str(path), "--write", cwd=tmp_path).code == 0
    text = (tmp_path / "hardware/efficiencies/a100-sxm-80.yaml").read_text("utf-8")
    assert text.count("calibrate-") == 2, "one entry, one source"


def test_documents_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "scenarios").touch()
    first, second = tmp_path / "hardware/efficiencies/a.yaml", tmp_path / "scenarios/stacks/b.yaml"
    with pytest.raises(CostModelError, match="cannot be written"):
        written_together({first: "a", second: "b"}, folder=True)
    assert list(first.parent.iterdir()) == []
    (tmp_path / "scenarios").unlink()
    written_together({first: "a", second: "b"}, folder=True)
    assert (first.read_text("utf-8"), second.read_text("utf-8")) == ("a", "b")


def test_what_is_shipped_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = refine([str(FOLDER / "mine.csv")])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COSTMODEL_PATH", str(folders._SHIPPED))
    monkeypatch.setattr(folders, "_SHIPPED", tmp_path)
    with pytest.raises(CostModelError, match="what is shipped"):
        texts(found)


def test_what_is_shipped_stays_in_a_checkout_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From which the program was installed elsewhere; another project's folder is one's own."""
    found = refine([str(FOLDER / "mine.csv")])
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with pytest.raises(CostModelError, match="what is shipped"):
        texts(found)
    assert texts(replace(found, afresh=True))
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "jobs"\n', "utf-8")
    assert texts(found)


def test_a_folder_that_is_looked_in_twice(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit is not its own prior."""
    shutil.copy(FOLDER / "mine.csv", tmp_path)
    monkeypatch.setenv("COSTMODEL_PATH", str(tmp_path))
    told = [run("calibrate", "mine.csv", "--write", "--json", cwd=tmp_path).out for _ in range(3)]
    assert len({json.dumps(json.loads(each)["constants"]) for each in told}) == 1


def test_all_leaves_of_an_entry_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = refine([str(FOLDER / "mine.csv")])
    slow = found.fit.constants[0]
    narrow = replace(slow, prior=slow.prior.model_copy(update={"leaf": "sustained.narrow"}), value=0.9)
    (text,) = texts(replace(found, fit=replace(found.fit, constants=(slow, narrow)))).values()
    assert "factor and narrow fitted on runs" in text
    assert "  narrow: 0.9" in text


def test_a_table_comes_by_stdin_too(run: Any) -> None:
    text = (FOLDER / "mine.csv").read_text("utf-8")
    piped = json.loads(run("calibrate", "-", "--json", stdin=text).out)
    assert piped["constants"] == json.loads(run("calibrate", str(FOLDER / "mine.csv"), "--json").out)["constants"]
    assert run("validate", "-", stdin=text).code == 0


@pytest.mark.parametrize("blocked", ["hardware", "hardware/efficiencies"])
def test_where_nothing_can_be_written(run: Any, faults: Any, tmp_path: Path, blocked: str) -> None:
    (tmp_path / blocked).parent.mkdir(exist_ok=True)
    (tmp_path / blocked).touch()
    (found,) = faults(run("calibrate", str(FOLDER / "mine.csv"), "--write", cwd=tmp_path))
    assert (found.code, "cannot be written" in found.sentence) == ("C002", True)


def test_no_run_is_a_fault(run: Any, faults: Any, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text((FOLDER / "mine.csv").read_text().splitlines()[0] + "\n")
    (found,) = faults(run("calibrate", "none.csv", cwd=tmp_path))
    assert (found.code, found.sentence) == ("D014", "the table has no rows")


def test_a_run_informs_a_constant_from_half_a_percent_on() -> None:
    """A constant off by a tenth moves the time of such a run by 0.05 %, which no published time can show."""
    assert math.exp(MIN_SENSITIVITY * math.log(1.1)) - 1 == pytest.approx(0.0005, rel=0.06)
    slopes = np.array([[0.004, -0.006], [0.0051, 0.0]])
    assert _affected(slopes).tolist() == [[False, True], [True, False]]
