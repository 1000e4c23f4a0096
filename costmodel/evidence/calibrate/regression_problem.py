"""The regression problem of measured runs: log errors, slopes, and the common offset of each family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.prior import Prior
from costmodel.equations.run.uncertainty import ninetieth_percentile, tenth_percentile
from costmodel.estimate.evaluate.error_band import kind_spread, time_spread
from costmodel.estimate.evaluate.evaluate_plans import step_of
from costmodel.estimate.evaluate.predict import own_plan, plan_block
from costmodel.estimate.model.mixers.table import layer_words
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.time.step import TrainingStep
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.evidence.calibrate.priors import off_scale, on_scale, uses, with_values
from costmodel.evidence.validate.compared_figures import UNKNOWN
from costmodel.evidence.validate.modelled_rows import modelled
from costmodel.evidence.validate.outcomes import stated, step_time
from costmodel.evidence.validate.skip_reasons import CannotModel, SkippedRow
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.ground.record import record

Array = NDArray[np.float64]

SCALE = 0.08  # of a logarithm: errors beyond it count by their size, not their square
FAMILY = "source_family"
APART = 0.05  # how far families lie apart, of a logarithm: what all runs of one have in common and no other has
MOST = 50  # maximum weight of one family, in runs: errors within a family are correlated beyond a single offset
STEP = 0.02
ROUNDS = 12


@record
class TimedRun:
    """A modelled run: its scenario, its measured time, its family, and the group with which it is held out."""

    run: str
    case: ResolvedScenario
    measured: float
    family: str
    group: str


@record
class Errors:
    """Errors of some runs: median and P90 of |error|, the median error, and the share of runs inside the band."""

    runs: int
    median: float
    p90: float
    bias: float
    inside_band: float


@record
class Scores:
    """Log of predicted over measured of runs, spreads by kernels and links, whether each time lies inside its band."""

    errors: Array
    kinds: Array
    inside: NDArray[np.bool_]

    def of(self, which: NDArray[np.bool_] | None = None) -> Errors:
        """The errors of some runs, all by default."""
        chosen = slice(None) if which is None else which
        ratios = np.exp(self.errors[chosen]) - 1
        size = np.abs(ratios)
        median, p90, bias = np.percentile(size, 50), np.percentile(size, 90), np.median(ratios)
        return Errors(len(ratios), float(median), float(p90), float(bias), float(np.mean(self.inside[chosen])))


def timed(
    rows: Sequence[CsvRow], shelf: CachedReader, grouping: str = FAMILY
) -> tuple[list[TimedRun], list[SkippedRow]]:
    """The runs among these rows that have a time and are modelled, and the reason for each other row."""
    found, left = [], []
    for row in rows:
        try:
            stated(row, "time")
            model = modelled(row, shelf)
        except CannotModel as refused:
            left.append(SkippedRow(row.id, refused.code, refused.why))
            continue
        case = model.inputs.case
        family, group = (_named(row, columns) for columns in (FAMILY, grouping))
        part = case.accelerator
        derived = {"accelerator_family": part.family, "maker": part.vendor, "stack": case.stack.name}
        if grouping == "layer_kind":
            group = layer_words(case.model)
        group = derived.get(grouping, group)
        found.append(TimedRun(row.id, case, step_time(row, model), family, group))
    return found, left


def _named(row: CsvRow, columns: str) -> str:
    """The value of a row in a column, or of several joined by " on "; the source where there is none."""
    columns = "model_name" if columns == "model" else columns
    return " on ".join(filter(None, map(row.text, columns.split(",")))) or row.text("source") or UNKNOWN


@dataclass
class Problem:
    """Runs and constants: log errors and their slopes. Fixed constants stay at their priors.

    Each family has a small offset of its own, fitted with the constants and not shipped. Runs of one cluster and
    release share their errors, so that only differences within a family inform a constant.
    """

    runs: Sequence[TimedRun]
    priors: Sequence[Prior]
    shelf: CachedReader
    kept: frozenset[str] = frozenset()
    apart: float = APART

    def __post_init__(self) -> None:
        self.used = np.array([[uses(run.case, prior, self.shelf) for prior in self.priors] for run in self.runs])
        families = Counter(run.family for run in self.runs)
        self.families = list(families)
        self.member = np.array([[run.family == family for family in families] for run in self.runs], float)
        self.counted = np.array([min(1.0, MOST / families[run.family]) for run in self.runs])
        names = [prior.name for prior in self.priors]
        rows = np.eye(len(names))
        for place, prior in enumerate(self.priors):
            if prior.like in names:
                rows[place, names.index(prior.like)] = -1.0
        offsets = np.array([on_scale(prior, prior.mean) for prior in self.priors])
        self.prior_means = np.linalg.solve(rows, offsets)
        self.precision = rows.T @ np.diag([1 / prior.spread**2 for prior in self.priors]) @ rows
        self.rows = rows

    def errors(self, scaled: Array, which: Sequence[int] | None = None) -> Array:
        """Log of predicted over measured of some runs, all by default."""
        answers = self._answers(scaled, which)
        return np.array([_off(run, step) for run, _, step in answers])

    def scores(self, scaled: Array, which: Sequence[int] | None = None) -> Scores:
        """The errors, the spreads, and whether each run lies inside its band, for some runs, all by default."""
        errors, kinds, spreads = [], [], []
        for run, inputs, step in self._answers(scaled, which):
            errors.append(_off(run, step))
            kinds.append(number(kind_spread(inputs, step)))
            spreads.append(number(time_spread(inputs, step)))
        return Scores(np.array(errors), np.array(kinds), within(np.array(errors), np.array(spreads)))

    def _answers(
        self, scaled: Array, which: Sequence[int] | None
    ) -> Iterator[tuple[TimedRun, TrainingInputs, TrainingStep]]:
        values = [off_scale(prior, place) for prior, place in zip(self.priors, scaled, strict=True)]
        for run in self.runs if which is None else [self.runs[index] for index in which]:
            inputs = training_inputs(with_values(run.case, self.priors, values, self.shelf))
            block, _ = plan_block(inputs, own_plan(inputs))
            yield run, inputs, step_of(inputs, block)

    def slopes(self, scaled: Array, errors: Array) -> Array:
        """Change of each log error with each constant, by a small step."""
        slopes = np.zeros((len(self.runs), len(self.priors)))
        for column, prior in enumerate(self.priors):
            if prior.name in self.kept:
                continue
            which = np.flatnonzero(self.used[:, column])
            moved = scaled.copy()
            moved[column] += STEP
            slopes[which, column] = (self.errors(moved, list(which)) - errors[which]) / STEP
        return slopes

    def moved(self, scaled: Array) -> Array:
        """The distance of constants from their priors.

        A constant with a sister constant counts from that one's multiple.
        """
        away: Array = self.rows @ (scaled - self.prior_means)
        return away

    def loss(self, scaled: Array, errors: Array) -> float:
        """Smooth absolute error of the runs beyond their families' offsets, plus penalties of offsets and priors."""
        offsets = self.offsets(errors)
        size = np.abs(errors - self.member @ offsets) / SCALE
        each = np.where(size < 1, size**2 / 2, size - 0.5)
        away = scaled - self.prior_means
        common = float(np.sum((offsets / self.apart) ** 2)) / 2 if self.apart else 0.0
        return float(np.sum(self.counted * each)) + common + float(away @ self.precision @ away) / 2

    def offsets(self, errors: Array, others: Array | None = None) -> Array:
        """The common error of each family's runs, shrunk towards zero the fewer they are."""
        found = np.zeros(self.member.shape[1])
        for _ in range(ROUNDS if self.apart else 0):
            pulls = self._pulls(errors - self.member @ found, others)
            found = self.member.T @ (pulls * errors) / (self.member.T @ pulls + self.apart**-2)
        return found

    def turned(self, scaled: Array, errors: Array, slopes: Array, others: Array | None = None) -> tuple[Array, Array]:
        """Gradient and curvature of the loss in the constants; of some of the runs, all by default."""
        left = errors - self.member @ self.offsets(errors, others)
        pulls = self._pulls(left, others)
        uphill: Array = slopes.T @ (pulls * left) + self.precision @ (scaled - self.prior_means)
        curved: Array = slopes.T @ (slopes * pulls[:, None]) + self.precision
        if self.apart:
            shared = self.member.T @ (slopes * pulls[:, None])
            curved = curved - shared.T @ (shared / (self.member.T @ pulls + self.apart**-2)[:, None])
        return uphill, curved

    def _pulls(self, errors: Array, others: Array | None) -> Array:
        """The weight of each run in the fit, reduced for outliers; for some runs, all by default."""
        pulls: Array = self.counted / np.maximum(np.abs(errors) / SCALE, 1) / SCALE**2
        return pulls if others is None else pulls * others


def within(errors: Array, spreads: Array) -> NDArray[np.bool_]:
    """Which measured times lie inside the bands of these spreads."""
    low, high = tenth_percentile(1.0, spreads), ninetieth_percentile(1.0, spreads)
    ratios = np.exp(-errors)
    found: NDArray[np.bool_] = (low <= ratios) & (ratios <= high)
    return found


def _off(run: TimedRun, step: TrainingStep) -> float:
    """The log of the predicted over the measured time of a run."""
    return float(np.log(number(step.total) / run.measured))
