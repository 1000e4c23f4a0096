"""Constants fitted on the times of real steps, robustly, with what is believed beforehand as a weak prior."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.belief import Belief
from costmodel.documents.case import Case
from costmodel.documents.cells import Row
from costmodel.documents.shelf import Shelf
from costmodel.equations.uncertainty import ninetieth_percentile, tenth_percentile
from costmodel.estimate.band import time_spread
from costmodel.estimate.costs import number
from costmodel.estimate.evaluate import evaluate
from costmodel.estimate.plan import own_plan, plan_block
from costmodel.estimate.setting import Setting, setting_of
from costmodel.estimate.time.step import TrainingStep
from costmodel.explore.calibrate.beliefs import off_scale, on_scale, shipped, uses, with_values
from costmodel.explore.validate.outcomes import stated, step_time
from costmodel.explore.validate.reasons import Left, Refused
from costmodel.explore.validate.rows import modelled
from costmodel.explore.validate.validate import UNKNOWN

Array = NDArray[np.float64]

SCALE = 0.08  # of a logarithm: errors beyond it count by their size, not their square
FAMILY = "source_family"
APART = 0.05  # how far families lie apart, of a logarithm: what all runs of one have in common and no other has
STEP = 0.02
ROUNDS = 12
FELT = 0.005  # change of the logarithm of a time, over that of a constant, from which a run counts as telling of it
RESOLVED = 0.7  # a posterior spread above this share of the prior's means that the data said little


@dataclass(frozen=True)
class Timed:
    """A run that is modelled: its case, its measured time, its family, and the group that is left out with it."""

    run: str
    case: Case
    measured: float
    family: str
    group: str


@dataclass(frozen=True)
class Learned:
    """One constant after the fit; spreads are of its fitted scale."""

    belief: Belief
    value: float
    spread: float
    runs: int
    families: tuple[str, ...]
    resolved: bool


def told(belief: Belief, spread: float, moved: float) -> bool:
    """Whether runs say enough to leave the belief: they leave a small spread, or all pull far beyond its own."""
    return spread < RESOLVED * belief.spread or abs(moved) > belief.spread


@dataclass(frozen=True)
class Errors:
    """How far off some runs are: median and P90 of |error|, the median error, and the share of runs inside the band."""

    runs: int
    median: float
    p90: float
    bias: float
    inside_band: float


@dataclass(frozen=True)
class Scores:
    """Log of predicted over measured of runs, and whether each measured time lies inside its band."""

    errors: Array
    inside: NDArray[np.bool_]

    def of(self, which: NDArray[np.bool_] | None = None) -> Errors:
        """How far off some of them are, all by default."""
        chosen = slice(None) if which is None else which
        ratios = np.exp(self.errors[chosen]) - 1
        size = np.abs(ratios)
        median, p90, bias = np.percentile(size, 50), np.percentile(size, 90), np.median(ratios)
        return Errors(len(ratios), float(median), float(p90), float(bias), float(np.mean(self.inside[chosen])))


@dataclass(frozen=True)
class StepFit:
    """Beliefs, and the errors with them: as shipped, as believed, in sample, and of groups left out of the fit.

    By group and by kind of model, dense or with experts, in sample and left out.
    """

    constants: tuple[Learned, ...]
    shipped: Errors
    believed: Errors
    inside: Errors
    left_out: Errors | None
    by_group: Mapping[str, tuple[Errors, Errors]]
    by_kind: Mapping[str, tuple[Errors, Errors]]


def timed(rows: Sequence[Row], shelf: Shelf, grouping: str = FAMILY) -> tuple[list[Timed], list[Left]]:
    """The runs among these rows that have a time and are modelled, and why the others are not."""
    found, left = [], []
    for row in rows:
        try:
            stated(row, "time")
            model = modelled(row, shelf)
        except Refused as refused:
            left.append(Left(row.id, refused.code, refused.why))
            continue
        case = model.answer.setting.case
        family, group = (row.text(column) or row.text("source") or UNKNOWN for column in (FAMILY, grouping))
        if grouping == "accelerator_family":
            group = case.accelerator.family
        found.append(Timed(row.id, case, step_time(row, model), family, group))
    return found, left


@dataclass
class Problem:
    """Runs beside constants: log errors and their slopes. What is kept stays as it is believed.

    Each family has an offset of its own, small and not shipped, found along with the constants: runs of one cluster and
    one release err together, and what they tell of a constant is how they differ among each other.
    """

    runs: Sequence[Timed]
    beliefs: Sequence[Belief]
    shelf: Shelf
    kept: frozenset[str] = frozenset()
    apart: float = APART

    def __post_init__(self) -> None:
        self.used = np.array([[uses(run.case, belief, self.shelf) for belief in self.beliefs] for run in self.runs])
        self.member = np.array([[run.family == family for family in self.families] for run in self.runs], float)
        names = [belief.name for belief in self.beliefs]
        rows = np.eye(len(names))
        for place, belief in enumerate(self.beliefs):
            if belief.like in names:
                rows[place, names.index(belief.like)] = -1.0
        offsets = np.array([on_scale(belief, belief.believed) for belief in self.beliefs])
        self.believed = np.linalg.solve(rows, offsets)
        self.precision = rows.T @ np.diag([1 / belief.spread**2 for belief in self.beliefs]) @ rows

    @property
    def families(self) -> list[str]:
        """Groups in the order of the runs."""
        return list(dict.fromkeys(run.family for run in self.runs))

    def errors(self, scaled: Array, which: Sequence[int] | None = None) -> Array:
        """Log of predicted over measured of some runs, all by default."""
        answers = self._answers(scaled, which)
        return np.array([_off(run, step) for run, _, step in answers])

    def scores(self, scaled: Array, which: Sequence[int] | None = None) -> Scores:
        """The same, and whether each run lies inside the band of its prediction."""
        errors, spreads = [], []
        for run, setting, step in self._answers(scaled, which):
            errors.append(_off(run, step))
            spreads.append(number(time_spread(setting, step)))
        within = (tenth_percentile(1.0, np.array(spreads)), ninetieth_percentile(1.0, np.array(spreads)))
        ratio = np.exp(-np.array(errors))
        return Scores(np.array(errors), (within[0] <= ratio) & (ratio <= within[1]))

    def _answers(self, scaled: Array, which: Sequence[int] | None) -> Iterator[tuple[Timed, Setting, TrainingStep]]:
        values = [off_scale(belief, place) for belief, place in zip(self.beliefs, scaled, strict=True)]
        for run in self.runs if which is None else [self.runs[index] for index in which]:
            setting = setting_of(with_values(run.case, self.beliefs, values, self.shelf))
            block, _ = plan_block(setting, own_plan(setting))
            yield run, setting, evaluate(setting, block).step

    def slopes(self, scaled: Array, errors: Array) -> Array:
        """Change of each log error with each constant, by a small step."""
        slopes = np.zeros((len(self.runs), len(self.beliefs)))
        for column, belief in enumerate(self.beliefs):
            if belief.name in self.kept:
                continue
            which = np.flatnonzero(self.used[:, column])
            moved = scaled.copy()
            moved[column] += STEP
            slopes[which, column] = (self.errors(moved, list(which)) - errors[which]) / STEP
        return slopes

    def loss(self, scaled: Array, errors: Array) -> float:
        """Smooth absolute error of the runs beyond what their families have in common, that, and the prior."""
        offsets = self.offsets(errors)
        size = np.abs(errors - self.member @ offsets) / SCALE
        each = np.where(size < 1, size**2 / 2, size - 0.5)
        away = scaled - self.believed
        common = float(np.sum((offsets / self.apart) ** 2)) / 2 if self.apart else 0.0
        return float(np.sum(each)) + common + float(away @ self.precision @ away) / 2

    def offsets(self, errors: Array, others: Array | None = None) -> Array:
        """What the runs of each family have in common, drawn to nothing the fewer they are."""
        found = np.zeros(self.member.shape[1])
        for _ in range(ROUNDS if self.apart else 0):
            pulls = _pulls(errors - self.member @ found) * (1.0 if others is None else others)
            found = self.member.T @ (pulls * errors) / (self.member.T @ pulls + self.apart**-2)
        return found

    def turned(self, scaled: Array, errors: Array, slopes: Array, others: Array | None = None) -> tuple[Array, Array]:
        """Which way the loss grows with the constants and how it curves; of some of the runs, all by default."""
        left = errors - self.member @ self.offsets(errors, others)
        pulls = _pulls(left) * (1.0 if others is None else others)
        uphill: Array = slopes.T @ (pulls * left) + self.precision @ (scaled - self.believed)
        curved: Array = slopes.T @ (slopes * pulls[:, None]) + self.precision
        if self.apart:
            shared = self.member.T @ (slopes * pulls[:, None])
            curved = curved - shared.T @ (shared / (self.member.T @ pulls + self.apart**-2)[:, None])
        return uphill, curved


def _pulls(errors: Array) -> Array:
    """Weight of each run over the square of the scale, less where it is far off."""
    pulls: Array = 1 / np.maximum(np.abs(errors) / SCALE, 1) / SCALE**2
    return pulls


def _off(run: Timed, step: TrainingStep) -> float:
    """Log of predicted over measured."""
    return float(np.log(number(step.total) / run.measured))


def solved(problem: Problem, start: Array | None = None) -> tuple[Array, Array, Array]:
    """Beliefs on their scales, errors and slopes there: Gauss and Newton's steps, halved where they overshoot."""
    scaled = problem.believed.copy()
    if start is not None:
        free = [belief.name not in problem.kept for belief in problem.beliefs]
        scaled[free] = start[free]
    errors = problem.errors(scaled)
    loss = problem.loss(scaled, errors)
    for _ in range(ROUNDS):
        uphill, curved = problem.turned(scaled, errors, problem.slopes(scaled, errors))
        step = -np.linalg.solve(curved, uphill)
        for _ in range(6):
            ahead = scaled + step
            tried = problem.errors(ahead)
            if problem.loss(ahead, tried) <= loss:
                break
            step = step / 2
        else:
            break
        gained, scaled, errors, loss = loss - problem.loss(ahead, tried), ahead, tried, problem.loss(ahead, tried)
        if gained < 1e-4 * loss:
            break
    return scaled, errors, problem.slopes(scaled, errors)


def without(free: Problem, group: str, scaled: Array, errors: Array, slopes: Array) -> Array:
    """Constants fitted without a group, also which of them are told; errors are straight around the whole fit."""
    others = np.array([run.group != group for run in free.runs])
    first, curved = _refitted(free, others, scaled, errors, slopes)
    kept = _untold(free, first, curved)
    return _refitted(replace(free, kept=kept), others, scaled, errors, slopes)[0]


def _refitted(
    problem: Problem, others: NDArray[np.bool_], scaled: Array, errors: Array, slopes: Array
) -> tuple[Array, Array]:
    """Constants and curvature for some of the runs; what is kept is as believed."""
    free = np.array([belief.name not in problem.kept for belief in problem.beliefs])
    found = np.where(free, scaled, problem.believed)
    for _ in range(ROUNDS):
        here = errors + slopes @ (found - scaled)
        uphill, curved = problem.turned(found, here, slopes * free, others.astype(float))
        found = found - np.linalg.solve(curved, uphill)
    return found, curved


def _spreads(curved: Array) -> Array:
    """One spread of each constant, by the curvature of the loss."""
    spreads: Array = np.sqrt(np.diag(np.linalg.inv(curved)))
    return spreads


def _untold(free: Problem, scaled: Array, curved: Array) -> frozenset[str]:
    """Names of the constants that the runs do not tell."""
    each = zip(free.beliefs, _spreads(curved), scaled - free.believed, strict=True)
    return frozenset(belief.name for belief, own, moved in each if not told(belief, own, moved))


def step_fit(
    runs: Sequence[Timed],
    beliefs: Sequence[Belief],
    shelf: Shelf,
    *,
    leave_out: bool = False,
    apart: float = APART,
) -> StepFit:
    """The constants that the runs tell, the others as believed, and how far off unseen groups are."""
    free = Problem(runs, beliefs, shelf, apart=apart)
    first, errors, felt = solved(free)
    curved = free.turned(first, errors, felt)[1]
    problem = replace(free, kept=_untold(free, first, curved))
    scaled, _, _ = solved(problem, first)
    inside = problem.scores(scaled)
    unseen = _unseen(free, first, errors, felt) if leave_out else None
    shipped_now = np.array([on_scale(belief, shipped(belief, shelf)) for belief in beliefs])
    return StepFit(
        tuple(_learned(problem, column, scaled, _spreads(curved), felt) for column in range(len(beliefs))),
        problem.scores(shipped_now).of(),
        problem.scores(problem.believed).of(),
        inside.of(),
        unseen.of() if unseen else None,
        _parted(_groups(runs), inside, unseen) if unseen else {},
        _parted(_kinds(runs), inside, unseen) if unseen else {},
    )


def _unseen(free: Problem, scaled: Array, errors: Array, slopes: Array) -> Scores:
    """Scores of each group with the constants that are fitted without it."""
    found = Scores(errors.copy(), np.zeros(len(errors), bool))
    for group, members in _groups(free.runs).items():
        which: list[int] = np.flatnonzero(members).tolist()
        own = free.scores(without(free, group, scaled, errors, slopes), which)
        found.errors[which], found.inside[which] = own.errors, own.inside
    return found


def _parted(parts: Mapping[str, NDArray[np.bool_]], inside: Scores, unseen: Scores) -> dict[str, tuple[Errors, Errors]]:
    """Errors of each part of the runs, in sample and left out."""
    return {name: (inside.of(which), unseen.of(which)) for name, which in parts.items() if which.any()}


def _groups(runs: Sequence[Timed]) -> dict[str, NDArray[np.bool_]]:
    names = dict.fromkeys(run.group for run in runs)
    return {name: np.array([run.group == name for run in runs]) for name in names}


def _kinds(runs: Sequence[Timed]) -> dict[str, NDArray[np.bool_]]:
    mixed = np.array([run.case.model.has_experts for run in runs])
    return {"dense": ~mixed, "with experts": mixed}


def _learned(problem: Problem, column: int, scaled: Array, spread: Array, felt: Array) -> Learned:
    belief, moved = problem.beliefs[column], np.abs(felt[:, column]) > FELT
    families = dict.fromkeys(run.family for run, feels in zip(problem.runs, moved, strict=True) if feels)
    value, resolved = off_scale(belief, scaled[column]), belief.name not in problem.kept
    return Learned(belief, value, float(spread[column]), int(moved.sum()), tuple(families), resolved)
