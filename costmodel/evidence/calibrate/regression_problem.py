"""Priors of constants, and the regression that measured runs make of them."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.reader.find_documents import find
from costmodel.documents.reader.folders import has, places
from costmodel.documents.reader.library import UNMEASURED, CachedReader, document_of
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.base import OWN
from costmodel.documents.schemas.efficiency import Efficiency
from costmodel.documents.schemas.hardware import Accelerator
from costmodel.documents.schemas.precision import RECIPES
from costmodel.documents.schemas.prior import Leaf, Prior, Priors, kind_of, on_a_scale
from costmodel.documents.schemas.stack import Stack
from costmodel.documents.text.yaml_editor import Changes, document_text, place_of, rewritten
from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import ninetieth_percentile, tenth_percentile
from costmodel.estimate.machine.number_formats import scaled_by_power, unmeasured_shares
from costmodel.estimate.model.mixers.mixing_half import layer_names_text
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.estimate.training.training_step import TrainingStep
from costmodel.estimate.training_answer.evaluate_training import step_of
from costmodel.estimate.training_answer.predict_training import own_plan, plan_block
from costmodel.estimate.training_answer.training_error_band import kind_spread, time_spread
from costmodel.evidence.validate.modelled_rows import modelled
from costmodel.evidence.validate.outcomes import UNKNOWN, stated, step_time
from costmodel.evidence.validate.spelling import CannotModel, SkippedRow
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.ground.equation import Number
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

# Default efficiency documents for parts without one: the values for unmeasured parts, without residuals.

Part = Literal["accelerator", "fabric"]

_HEAD = """# yaml-language-server: $schema=../schema.json
# Fitted constants; the facts are in ../{of}s/. Values that were not measured are those of {base}.
"""
_COMMENT = re.compile(r"\s+#\s.*$")
_NOT_OF = {
    "accelerator": ("network",),
    "fabric": ("matmul", "attention", "memory", "sustained", "collectives"),
}


def part_with(group: str) -> Part:
    """Accelerator or fabric: the kind of efficiency document that contains a group of constants."""
    return "fabric" if group == "network" else "accelerator"


def changed(of: Part, name: str, changes: Changes) -> str:
    """The efficiency document of a part as text, with changes; starts from the default document if it has none."""
    if has("efficiency", name):
        return rewritten(document_text("efficiency", name), changes)
    return _new_document_text(of, name, changes)


def beginning(of: Part, name: str) -> Efficiency:
    """The default efficiency document of an accelerator or fabric, before any fit."""
    efficiency: Efficiency = document_of(
        "efficiency", _new_document_text(of, name, {}), str(place_of("efficiency", name))
    )
    return efficiency


def registered(of: Part, name: str, shelf: CachedReader) -> Efficiency:
    """The default document of a part, registered under its name from now on."""
    if ("efficiency", name) not in shelf.kept:
        shelf.kept["efficiency", name] = beginning(of, name)
    efficiency: Efficiency = shelf.document("efficiency", name)
    return efficiency


def _new_document_text(of: Part, name: str, changes: Changes) -> str:
    known, text = _constants_without_fit(name) if of == "accelerator" else {}, document_text("efficiency", UNMEASURED)
    body = "".join(f"{_COMMENT.sub('', line)}\n" for line in text.splitlines() if not line.startswith("#"))
    own = {(): {"of": name}} | known | {path: {**known.get(path, {}), **mine} for path, mine in changes.items()}
    return rewritten(_HEAD.format(of=of, base=UNMEASURED) + body, own, _NOT_OF[of], nowhere="fitted")


def _constants_without_fit(name: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """Constants of an accelerator without a fit: efficiency from its best measured matmuls, slowdown from its power."""
    shelf = CachedReader()
    accelerator: Accelerator = shelf.document("accelerator", name)
    common: Efficiency = shelf.document("efficiency", UNMEASURED)
    entries: dict[tuple[str, ...], dict[str, Any]] = {}
    for entry, kind in {recipe.fit: recipe.type for recipe in RECIPES.values()}.items():
        if entry in common.matmul and (best := unmeasured_shares(common.matmul[entry], accelerator, kind)):
            shares = {key: _three_digits(value) for key, value in best.items()}
            entries["matmul", entry] = {**shares, "check": None, "note": "Shares by the best measured matmul"}
    fit, power, peak = common.sustained, accelerator.power, accelerator.peak.wide
    assert fit
    wide, narrow = (scaled_by_power(factor, fit, accelerator) for factor in (fit.factor, fit.narrow * fit.factor))
    entries["sustained",] = {
        "factor": _three_digits(wide),
        "power": f"{power.max:g} W" if power and peak else None,
        "peak": f"{peak / 1e12:g} TFLOP/s" if power and peak else None,
        "narrow": _three_digits(share(narrow, wide)),
        "note": f"As {UNMEASURED} has it, " + ("by power for peak" if power and peak else "whatever the power"),
    }
    return entries


def _three_digits(value: Number) -> float:
    return float(f"{float(value):.3g}")


D = TypeVar("D", Stack, Efficiency)
STEPS = "steps"  # the document of their priors
OTHERS = "other-makers"  # that of parts of other makers


def shipped_priors(shelf: CachedReader) -> tuple[Prior, ...]:
    """The prior of each constant."""
    document: Priors = shelf.document("prior", STEPS)
    return tuple(document.constants)


def priors_for(cases: Sequence[ResolvedScenario], shelf: CachedReader) -> tuple[Prior, ...]:
    """The shipped priors, and from the priors of other makers' parts those that these scenarios use."""
    others: Priors = shelf.document("prior", OTHERS)
    used = (prior for prior in others.constants if any(uses(case, prior, shelf) for case in cases))
    return (*shipped_priors(shelf), *used)


def width_priors(shelf: CachedReader) -> tuple[Prior, ...]:
    """The priors of the widths of the step-time band."""
    document: Priors = shelf.document("prior", STEPS)
    return tuple(document.widths)


def own_source(where: str) -> str:
    """The source key of these tables. Other tables get another key, and constants fitted on them keep theirs."""
    return f"{OWN}{hashlib.sha256(where.encode()).hexdigest()[:8]}"


def on_scale(prior: Prior, value: float) -> float:
    """A constant's value on the scale it is fitted on, such as its logarithm."""
    return math.log(value / (1 - value)) if prior.share else math.log(value)


def off_scale(prior: Prior, scaled: float) -> float:
    """A constant's value from the scale it is fitted on; the inverse of `on_scale`."""
    return 1 / (1 + math.exp(-scaled)) if prior.share else math.exp(scaled)


def around(prior: Prior, value: float, spread: float) -> tuple[float, float]:
    """One spread to either side of a value, on its fitted scale."""
    middle = on_scale(prior, value)
    return off_scale(prior, middle - spread), off_scale(prior, middle + spread)


def shipped(prior: Prior, shelf: CachedReader) -> float:
    """The current value in the first document that has it."""
    return _leaf_value(shelf.document(prior.kind, prior.documents[0]), prior)


def _leaf_value(document: Any, prior: Prior) -> float:
    """The value that a document has for a constant; a fault if it has none."""
    value = getattr(getattr(document, prior.group), prior.key, None)
    if value is None:
        name = getattr(document, "name", None) or document.of
        place = Place(str(find("prior", STEPS)))
        raise fail("D013", f"'{prior.name}' names {prior.leaf}, which {name} does not have", place)
    return float(value)


def with_values(
    case: ResolvedScenario, priors: Sequence[Prior], values: Sequence[float], shelf: CachedReader
) -> ResolvedScenario:
    """The scenario with its constants at these values; settings of its row stay."""
    for prior, value in zip(priors, values, strict=True):
        if prior.kind == "stack":
            case = replace(case, stack=_document_with_value(case.stack, case.stack.name, prior, value, shelf))
        elif prior.group == "network":
            case = replace(case, network=_document_with_value(case.network, case.network.of, prior, value, shelf))
        else:
            case = replace(
                case, efficiency=_document_with_value(case.efficiency, case.efficiency.of, prior, value, shelf)
            )
    return case


def _document_with_value(document: D, name: str, prior: Prior, value: float, shelf: CachedReader) -> D:
    """A copy of a document with the constant changed, if the document uses the shared value."""
    if name not in prior.documents:
        return document
    if _leaf_value(document, prior) != _leaf_value(shelf.document(prior.kind, name), prior):
        return document
    part = getattr(document, prior.group).model_copy(update={prior.key: value})
    return document.model_copy(update={prior.group: part})


def uses(case: ResolvedScenario, prior: Prior, shelf: CachedReader) -> bool:
    """Whether a scenario uses the key of a constant."""
    other = with_values(case, [prior], [prior.mean * 0.999], shelf)
    return (other.stack, other.efficiency, other.network) != (case.stack, case.efficiency, case.network)


def own(cases: Sequence[ResolvedScenario], shelf: CachedReader) -> tuple[Prior, ...]:
    """Priors of the constants that a few own runs can improve (sustained, network, launch), near shipped values."""
    made: dict[tuple[str, str], Prior] = {}
    for case in cases:
        named: tuple[tuple[Leaf, str, float, bool], ...] = (
            ("sustained.factor", case.efficiency.of, 0.1, False),
            ("network.share", case.network.of, 0.4, True),
            ("launch.operation", case.stack.name, 0.3, False),
        )
        for leaf, document, spread, of_share in named:
            group, _, key = leaf.partition(".")
            now = float(getattr(getattr(before(leaf, document, shelf), group), key))
            if on_a_scale(now, share=of_share):
                name = f"{group}, {document}"
                made[document, group] = Prior(
                    name=name, documents=[document], leaf=leaf, mean=now, spread=spread, share=of_share
                )
    return tuple(made.values())


def before(leaf: Leaf, name: str, shelf: CachedReader) -> Any:
    """A document as it was before your own runs changed the group of constants that a leaf belongs to."""
    kind, group = kind_of(leaf), leaf.partition(".")[0]
    document = None
    for path in places(kind, name):
        document = shelf.document(kind, str(path)) if path.is_file() else document
        if document is not None and not getattr(document, group).source.startswith(OWN):
            return document
    return document if kind == "stack" else beginning(part_with(group), name)


Array = NDArray[np.float64]

SCALE = 0.08  # of a logarithm: errors beyond it count by their size, not their square
FAMILY = "source_family"
APART = 0.05  # how far families lie apart, of a logarithm: what all runs of one have in common and no other has
MOST = 50  # maximum weight of one family, in runs: errors within a family are correlated beyond a single offset
STEP = 0.02
ROUNDS = 12


@record
class TimedRun:
    """A modelled run: its scenario, its measured time, its family, the group with which it is held out.

    filled: cells that rules filled, with their values
    """

    run: str
    case: ResolvedScenario
    measured: float
    family: str
    group: str
    filled: Mapping[str, str] = field(default_factory=dict)


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
    runs, left = [], []
    for row in rows:
        try:
            stated(row, "time")
            model = modelled(row, shelf)
        except CannotModel as refused:
            left.append(SkippedRow(row.id, refused.code, refused.why))
            continue
        case = model.inputs.case
        family, group = (_group_name(row, columns) for columns in (FAMILY, grouping))
        part = case.accelerator
        derived = {"accelerator_family": part.family, "maker": part.vendor, "stack": case.stack.name}
        if grouping == "layer_kind":
            group = layer_names_text(case.model)
        group = derived.get(grouping, group)
        runs.append(TimedRun(row.id, case, step_time(row, model), family, group, model.filled))
    return runs, left


def _group_name(row: CsvRow, columns: str) -> str:
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
        return np.array([_log_error(run, step) for run, _, step in answers])

    def scores(self, scaled: Array, which: Sequence[int] | None = None) -> Scores:
        """The errors, the spreads, and whether each run lies inside its band, for some runs, all by default."""
        errors, kinds, spreads = [], [], []
        for run, inputs, step in self._answers(scaled, which):
            errors.append(_log_error(run, step))
            kinds.append(number(kind_spread(inputs, step)))
            spreads.append(number(time_spread(inputs, step)))
        return Scores(np.array(errors), np.array(kinds), within(np.array(errors), np.array(spreads)))

    def _answers(
        self, scaled: Array, which: Sequence[int] | None
    ) -> Iterator[tuple[TimedRun, TrainingInputs, TrainingStep]]:
        """Each run with its inputs and its predicted step, under these constants."""
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
        losses = np.where(size < 1, size**2 / 2, size - 0.5)
        away = scaled - self.prior_means
        common = float(np.sum((offsets / self.apart) ** 2)) / 2 if self.apart else 0.0
        return float(np.sum(self.counted * losses)) + common + float(away @ self.precision @ away) / 2

    def offsets(self, errors: Array, others: Array | None = None) -> Array:
        """The common error of each family's runs, shrunk towards zero the fewer they are."""
        offsets_of_sources = np.zeros(self.member.shape[1])
        for _ in range(ROUNDS if self.apart else 0):
            pulls = self._pulls(errors - self.member @ offsets_of_sources, others)
            offsets_of_sources = self.member.T @ (pulls * errors) / (self.member.T @ pulls + self.apart**-2)
        return offsets_of_sources

    def turned(self, scaled: Array, errors: Array, slopes: Array, others: Array | None = None) -> tuple[Array, Array]:
        """Gradient and curvature of the loss in the constants, over the runs in `others` or all."""
        left = errors - self.member @ self.offsets(errors, others)
        pulls = self._pulls(left, others)
        uphill: Array = slopes.T @ (pulls * left) + self.precision @ (scaled - self.prior_means)
        curved: Array = slopes.T @ (slopes * pulls[:, None]) + self.precision
        if self.apart:
            shared = self.member.T @ (slopes * pulls[:, None])
            curved = curved - shared.T @ (shared / (self.member.T @ pulls + self.apart**-2)[:, None])
        return uphill, curved

    def _pulls(self, errors: Array, others: Array | None) -> Array:
        """The weight of each run in the fit, lower for outliers."""
        pulls: Array = self.counted / np.maximum(np.abs(errors) / SCALE, 1) / SCALE**2
        return pulls if others is None else pulls * others


def within(errors: Array, spreads: Array) -> NDArray[np.bool_]:
    """Which measured times lie inside the bands of these spreads."""
    low, high = tenth_percentile(1.0, spreads), ninetieth_percentile(1.0, spreads)
    ratios = np.exp(-errors)
    inside: NDArray[np.bool_] = (low <= ratios) & (ratios <= high)
    return inside


def _log_error(run: TimedRun, step: TrainingStep) -> float:
    """The log of the predicted over the measured time of a run."""
    return float(np.log(number(step.total) / run.measured))
