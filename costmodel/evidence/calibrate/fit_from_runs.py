"""Fits constants to measured runs, and writes them into documents."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.reader.folders import is_near
from costmodel.documents.reader.library import UNMEASURED, CachedReader, bibliography, efficiency_of, names
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.efficiency import Efficiency
from costmodel.documents.schemas.prior import Prior
from costmodel.documents.text.yaml_editor import Changes, document_text, place_of, rewritten
from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import FREEDOM, combined_error, heavy_tail_spread
from costmodel.evidence.calibrate.fit_from_kernels import Calibrated, Fit, SizeComparison, Soundness, beside, soundness
from costmodel.evidence.calibrate.kernel_fits import link_of
from costmodel.evidence.calibrate.regression_problem import (
    APART,
    FAMILY,
    ROUNDS,
    Array,
    Errors,
    Part,
    Problem,
    Scores,
    TimedRun,
    around,
    before,
    changed,
    off_scale,
    on_scale,
    own,
    own_source,
    part_with,
    priors_for,
    registered,
    shipped,
    timed,
    width_priors,
    within,
)
from costmodel.evidence.validate.outcomes import Where, chosen_rows, meant, nothing_chosen
from costmodel.evidence.validate.spelling import SkippedRow
from costmodel.exchange.tables.kernel_table import file_stem, read_runs
from costmodel.exchange.tables.run_table import Table
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record
from costmodel.ground.units import significant

JUDGED = "training-runs-fit"  # the source of entries that were set from whole steps, not from kernels
WORST_MEDIAN, WORST_P90, SLACK = 0.25, 0.60, 2.0
WORST_REPORTED = 0.20  # of what is not written either way


@record
class Decision:
    """Whether a fit is written into a document, and the reason if not."""

    fit: Fit
    written: bool
    why: str
    sizes: Sequence[SizeComparison]  # measured beside predicted, from the shortest time
    soundness: Soundness | None  # of a collective, beside sound fabrics


def decide(calibrated_fits: Calibrated, *, replace: bool) -> list[Decision]:
    """The decision for every fit; `replace` lets kernels overwrite constants from whole steps."""
    shelf = CachedReader()
    kept = [(fit, _why_not_written(fit, shelf, replace)) for fit in calibrated_fits.fits]
    return [Decision(fit, not why, why, beside(fit), soundness(fit)) for fit, why in kept]


def _why_not_written(fit: Fit, shelf: CachedReader, replace: bool) -> str:
    """The reason why a fit is not written into a document; empty if it is written."""
    sample, outside = fit.sample, fit.outside
    if fit.unfitted:
        return fit.unfitted
    if not sample.path:
        missed = outside is not None and (outside.median > WORST_REPORTED or outside.p90 > WORST_P90)
        return "reported only; the form does not describe it" if missed else "reported only"
    if outside is None:
        return "too few shapes to hold any out"
    if outside.median > WORST_MEDIAN or outside.p90 > WORST_P90:
        return "the form does not describe it"
    if fit.now and outside.loss > SLACK * fit.now.loss:
        return "no better than the constants in use"
    if bound := _at_a_bound(fit):
        return f"these shapes do not show its {bound}"
    shared = efficiency_of(shelf.document(part_with(sample.key.part), sample.of))
    if shared not in (sample.of, UNMEASURED):
        return f"uses the efficiency of {shared}"
    if not replace and _source_of_entry(shelf.document("efficiency", shared), sample.path) == JUDGED:
        return "set from training runs; --replace overrides"
    return ""


def _at_a_bound(fit: Fit) -> str:
    """The name of a matmul constant that the fit pushed to its bound, since no product determines it."""
    if fit.sample.key.part != "matmul":
        return ""
    constants = fit.sample.form.constants
    ends = {constant.name: np.array([constant.low, constant.high]) for constant in constants}
    return next((name for name, end in ends.items() if np.isclose(fit.constants[name], end, atol=0.0).any()), "")


def _source_of_entry(efficiency: Efficiency, path: tuple[str, ...]) -> str:
    """The source of the entry at a path, if there is one."""
    here: Any = efficiency
    for name in path:
        here = here.get(name) if isinstance(here, Mapping) else getattr(here, name, None)
    return str(getattr(here, "source", ""))


def updated_document(decisions: list[Decision], source: str | None) -> dict[Path, str]:
    """The files to write, each with its new text."""
    fits: dict[tuple[Part, str], list[Fit]] = defaultdict(list)
    for decision in decisions:
        if decision.written:
            fits[part_with(decision.fit.sample.key.part), decision.fit.sample.of].append(decision.fit)
    return {place_of("efficiency", name): _text_of(kind, name, mine, source) for (kind, name), mine in fits.items()}


def _text_of(kind: Part, name: str, fits: list[Fit], source: str | None) -> str:
    """A document with these fits: the existing one, or a default one."""
    shelf = CachedReader()
    new = name not in names("efficiency")
    changes: dict[tuple[str, ...], dict[str, Any]] = {}
    for fit in fits:
        where = ", ".join(f"{file} {digest}" for file, digest in sorted(fit.sample.files.items()))
        changes |= _changes(fit, source or own_source(where), shelf, new=new)
        if source is None:
            title = "Fit of costmodel calibrate on your own tables"
            changes["sources", own_source(where)] = {"title": title, "where": where}
    if source is not None:
        _add_source(source, name, [] if new else shelf.document("efficiency", name).sources)
    return changed(kind, name, changes)


def _add_source(source: str, name: str, own: Iterable[str]) -> None:
    """Adds a source to the document if it is not defined there."""
    if source not in own and source not in bibliography():
        hint = f"define it under sources in efficiencies/{name}.yaml, or leave --source out"
        raise fail("D013", f"'{source}' is no source of {name}, nor of the bibliography", Place("command line"), hint)


def _changes(fit: Fit, source: str, shelf: CachedReader, *, new: bool) -> dict[tuple[str, ...], dict[str, Any]]:
    """The keys of the document that a fit changes."""
    path, part = fit.sample.path, fit.sample.key.part
    assert fit.outside
    values = _document_values(fit, shelf)
    fitted = {
        "points": fit.points,
        "median": _percent(fit.outside.median),
        "p90": _percent(fit.outside.p90),
        "out_of": "sample",
        "range": fit.sample.range,
    }
    entry = {**values, "fitted": fitted, "source": source, "check": None}
    if new or _source_of_entry(shelf.document("efficiency", fit.sample.of), path) != source:
        entry["note"] = None  # it spoke of figures from elsewhere
    entries = {path: entry}
    if part == "matmul" and path[1] == "bf16" and _copies_bf16(fit, shelf):
        entries["matmul", "fp16"] = entry
    if part == "attention" and new:
        entries[path[:2]] = {"forward_share": values["forward_share"], "source": source, "check": None, "note": None}
    return entries


def _copies_bf16(fit: Fit, shelf: CachedReader) -> bool:
    """Whether fp16 gets the constants of bf16: the same peak rate, and no own measurement."""
    peak = shelf.document("accelerator", fit.sample.of).peak
    return bool(peak.fp16 == peak.bf16)


def _document_values(fit: Fit, shelf: CachedReader) -> dict[str, Any]:
    """The constants as the document writes them."""
    constants, part = dict(fit.constants), fit.sample.key.part
    if part == "collectives":
        link = link_of(fit.sample.of, shelf)
        assert link
        rate = float(constants.pop("share") * link)
        written = {name: _written_value(fit, name, value) for name, value in constants.items()}
        return {
            "start": written["start"],
            "hop": written["hop"],
            "bandwidth": f"{significant(rate / 1e9)} GB/s",
            "link": f"{significant(link / 1e9)} GB/s",
            "blend": written["blend"],
            "own": written["own"],
        }
    if part == "memory":
        constants.pop("start")
    values = {name: _written_value(fit, name, value) for name, value in constants.items()}
    if part == "matmul":
        values["backward_share"] = _rounded(min(1.0, constants["compute_share"] * _backward_gain(fit, shelf)))
    return values


def _backward_gain(fit: Fit, shelf: CachedReader) -> float:
    """Ratio of the rates of backward and forward products, from the document in use, else from `unmeasured`."""
    in_use = efficiency_of(shelf.document("accelerator", fit.sample.of))
    held = (shelf.document("efficiency", name).matmul for name in (in_use, UNMEASURED))
    entry = next(products[fit.sample.key.entry] for products in held if fit.sample.key.entry in products)
    return float(share(entry.backward_share, entry.compute_share))


def _written_value(fit: Fit, name: str, value: float) -> Any:
    unit = next((constant.unit for constant in fit.sample.form.constants if constant.name == name), "s")
    return f"{significant(value * 1e6)} us" if unit == "s" else _rounded(value)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _percent(value: float) -> str:
    return f"{min(100 * value, 100):.1f} %"


MIN_SENSITIVITY = (
    0.005  # change of the logarithm of a time, over that of a constant, from which a run counts as telling of it
)
IDENTIFIED_BELOW = 0.7  # a posterior spread above this share of the prior's: the data do not identify the constant


@record
class Posterior:
    """One constant after the fit; spreads are on its fitted scale."""

    prior: Prior
    value: float
    spread: float
    runs: int
    families: tuple[str, ...]
    resolved: bool
    interval: tuple[float, float]  # one spread to either side, as values


def is_identified(prior_spread: float, spread: float, moved: float) -> bool:
    """Whether the runs determine a constant: the spread they leave is small, or all pull far beyond the prior."""
    return spread < IDENTIFIED_BELOW * prior_spread or abs(moved) > prior_spread


@record
class StepFit:
    """Constants and errors: as shipped, at the priors, in sample, and held out.

    By group and by kind of model, dense or with experts, in sample and left out. Widths of bands are fitted on errors
    left out; those of a group left out on the errors of the others.
    """

    constants: tuple[Posterior, ...]
    shipped: Errors
    at_priors: Errors
    inside: Errors
    left_out: Errors | None
    by_group: Mapping[str, tuple[Errors, Errors]]
    by_kind: Mapping[str, tuple[Errors, Errors]]
    now: Scores  # of every run, by the constants in use
    fitted: Scores  # the same, by the fitted ones
    widths: Mapping[str, float] = field(default_factory=dict)
    unseen: Scores | None = None  # of every run, by what is fitted without its group


def solved(problem: Problem, start: Array | None = None) -> tuple[Array, Array, Array]:
    """Fitted constants (on their scales), log errors and their derivatives, by Gauss-Newton steps."""
    scaled = problem.prior_means.copy()
    if start is not None:
        free = [prior.name not in problem.kept for prior in problem.priors]
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
    """Constants fitted without one group of runs; those that the other runs do not identify keep their priors."""
    others = np.array([run.group != group for run in free.runs])
    first, curved = _refitted(free, others, scaled, errors, slopes)
    kept = _unidentified(free, first, curved, slopes[others])
    return _refitted(replace(free, kept=kept), others, scaled, errors, slopes)[0]


def _refitted(
    problem: Problem, others: NDArray[np.bool_], scaled: Array, errors: Array, slopes: Array
) -> tuple[Array, Array]:
    """Constants and curvature fitted to the runs in `others`; fixed constants stay at their priors."""
    free = np.array([prior.name not in problem.kept for prior in problem.priors])
    constants = np.where(free, scaled, problem.prior_means)
    for _ in range(ROUNDS):
        here = errors + slopes @ (constants - scaled)
        uphill, curved = problem.turned(constants, here, slopes * free, others.astype(float))
        constants = constants - np.linalg.solve(curved, uphill)
    return constants, curved


def _spreads(curved: Array) -> Array:
    """The posterior spread of each constant, from the curvature of the loss."""
    spreads: Array = np.sqrt(np.diag(np.linalg.inv(curved)))
    return spreads


def _unidentified(free: Problem, scaled: Array, curved: Array, slopes: Array) -> frozenset[str]:
    """Names of the constants that the runs do not identify, or that affect none of them."""
    each = zip(free.priors, _spreads(curved), free.moved(scaled), _affected(slopes).T, strict=True)
    return frozenset(
        prior.name
        for prior, own, moved, affected in each
        if not (affected.any() and is_identified(prior.spread, own, moved))
    )


def _affected(slopes: Array) -> NDArray[np.bool_]:
    """The runs that each constant affects enough to count as informative."""
    return np.abs(slopes) > MIN_SENSITIVITY


def step_fit(
    runs: Sequence[TimedRun],
    priors: Sequence[Prior],
    shelf: CachedReader,
    *,
    leave_out: bool = False,
    apart: float = APART,
) -> StepFit:
    """The constants that the runs determine, the others at their priors, and the error on held-out groups."""
    free = Problem(runs, priors, shelf, apart=apart)
    first, errors, felt = solved(free)
    curved = free.turned(first, errors, felt)[1]
    problem = replace(free, kept=_unidentified(free, first, curved, felt))
    scaled, _, _ = solved(problem, first)
    inside = problem.scores(scaled)
    unseen, widths = _held_out_scores(free, first, errors, felt) if leave_out else (None, {})
    now = problem.scores(np.array([on_scale(prior, shipped(prior, shelf)) for prior in priors]))
    return StepFit(
        tuple(_posterior(problem, column, scaled, _spreads(curved), felt) for column in range(len(priors))),
        now.of(),
        problem.scores(problem.prior_means).of(),
        inside.of(),
        unseen.of() if unseen else None,
        _parted(_runs_by_group(runs), inside, unseen) if unseen else {},
        _parted(_runs_by_kind(runs), inside, unseen) if unseen else {},
        now,
        inside,
        widths,
        unseen,
    )


def _held_out_scores(free: Problem, scaled: Array, errors: Array, slopes: Array) -> tuple[Scores, dict[str, float]]:
    """Scores of each held-out group under constants fitted to the others, and the widths fitted to all groups."""
    groups = _runs_by_group(free.runs)
    found = Scores(errors.copy(), np.zeros(len(errors)), np.zeros(len(errors), bool))
    for group, members in groups.items():
        which: list[int] = np.flatnonzero(members).tolist()
        own = free.scores(without(free, group, scaled, errors, slopes), which)
        found.errors[which], found.kinds[which] = own.errors, own.kinds
    mixed = _runs_by_kind(free.runs)["with experts"]
    prior_widths = width_priors(free.shelf)
    all_of = Unexplained(found.errors, found.kinds, mixed, [run.family for run in free.runs])
    for members in groups.values():
        widths = fitted_widths(all_of.without(members), prior_widths)
        spread = spreads(widths, found.kinds[members], mixed[members])
        found.inside[members] = within(found.errors[members], spread)
    return found, fitted_widths(all_of, prior_widths)


def _parted(parts: Mapping[str, NDArray[np.bool_]], inside: Scores, unseen: Scores) -> dict[str, tuple[Errors, Errors]]:
    """The errors of each part of the runs, in sample and held out."""
    return {name: (inside.of(which), unseen.of(which)) for name, which in parts.items() if which.any()}


def _runs_by_group(runs: Sequence[TimedRun]) -> dict[str, NDArray[np.bool_]]:
    """The runs of each group that is held out in turn, as masks."""
    names = dict.fromkeys(run.group for run in runs)
    return {name: np.array([run.group == name for run in runs]) for name in names}


def _runs_by_kind(runs: Sequence[TimedRun]) -> dict[str, NDArray[np.bool_]]:
    """The runs of dense models and of mixtures of experts, as masks."""
    mixed = np.array([run.case.model.has_experts for run in runs])
    return {"dense": ~mixed, "with experts": mixed}


def _posterior(problem: Problem, column: int, scaled: Array, spread: Array, felt: Array) -> Posterior:
    """The posterior of one constant: its value, its spread, and the runs that determine it."""
    prior, affected_runs = problem.priors[column], _affected(felt[:, column])
    families = dict.fromkeys(run.family for run, feels in zip(problem.runs, affected_runs, strict=True) if feels)
    value, resolved = off_scale(prior, scaled[column]), prior.name not in problem.kept
    spread_left = float(spread[column])
    interval = around(prior, value, spread_left)
    return Posterior(prior, value, spread_left, int(affected_runs.sum()), tuple(families), resolved, interval)


# --- widths of the error bands


STEP, UNSEEN, EXPERTS = "spread.step", "spread.unseen", "spread.experts"

MOST = 20  # runs that one source counts as, at most: more of them repeat each other
_OFFSETS = 0.002 * np.sinh(np.linspace(-7, 7, 141))  # of a source, as a logarithm: dense around none
_RATIOS = np.exp(np.linspace(-2, 2, 41))  # tried widths over the priors
_TURNS = 3


@record
class Unexplained:
    """Held-out errors of runs: log errors, spreads by kernels and links, which have experts, and their sources."""

    errors: Array
    kinds: Array
    mixed: NDArray[np.bool_]
    sources: Sequence[str]

    def without(self, which: NDArray[np.bool_]) -> Unexplained:
        """The held-out errors of all runs except the masked ones."""
        kept = ~which
        sources = [source for source, keep in zip(self.sources, kept, strict=True) if keep]
        return Unexplained(self.errors[kept], self.kinds[kept], self.mixed[kept], sources)


def spreads(widths: Mapping[str, float], kinds: Array, mixed: NDArray[np.bool_], *, unseen: bool = True) -> Array:
    """The spread of each run under these widths; `unseen` adds the spread of a source that was not fitted."""
    spread = combined_error(kinds, widths[STEP])
    spread = np.where(mixed, combined_error(spread, widths[EXPERTS]), spread)
    return np.asarray(combined_error(spread, heavy_tail_spread(widths[UNSEEN], FREEDOM)) if unseen else spread)


def fitted_widths(runs: Unexplained, priors: Sequence[Prior]) -> dict[str, float]:
    """The widths under which these errors are likeliest, each drawn to its prior."""
    prior_means: dict[str, float] = {prior.leaf: float(prior.mean) for prior in priors}
    found = dict(prior_means)
    for _ in range(_TURNS):
        for prior in priors:
            tried = [{**found, prior.leaf: float(ratio * prior_means[prior.leaf])} for ratio in _RATIOS]
            found = max(tried, key=lambda widths: _log_likelihood(widths, runs) + _log_prior(widths, priors))
    return found


def _log_prior(widths: Mapping[str, float], priors: Sequence[Prior]) -> float:
    """The log prior density of the widths."""
    return -sum((math.log(widths[prior.leaf] / prior.mean) / prior.spread) ** 2 for prior in priors) / 2


def _log_likelihood(widths: Mapping[str, float], runs: Unexplained) -> float:
    """The log likelihood of the errors; the runs of a source scatter around an offset that they share.

    Both are Student t, so that no wild run and no wild source decides; a run's has the P10 and P90 of its spread.
    """
    unit = float(heavy_tail_spread(1.0, FREEDOM))
    own = np.asarray(spreads(widths, runs.kinds, runs.mixed, unseen=False) / unit)
    each = _log_student((runs.errors[:, None] - _OFFSETS) / own[:, None]) - np.log(own)[:, None]
    offsets = _log_student(_OFFSETS / widths[UNSEEN]) - math.log(widths[UNSEEN]) + np.log(np.gradient(_OFFSETS))
    total, sources = 0.0, np.array(runs.sources)
    for source in dict.fromkeys(runs.sources):
        members = sources == source
        log = min(1.0, MOST / float(members.sum())) * each[members].sum(axis=0) + offsets
        total += float(np.logaddexp.reduce(log))
    return total


def _log_student(away: Array) -> Array:
    """The log density of a Student t distribution, without its constant."""
    density: Array = -(FREEDOM + 1) / 2 * np.log1p(away**2 / FREEDOM)
    return density


# Fits constants on measured runs: from tables to the documents with the results.

SECONDS = "operation"  # the leaf that is a time


@record
class Refined:
    """A fit on the runs of some tables: its runs, the skipped ones, and the groups held out in turn."""

    tables: tuple[Table, ...]
    timed: tuple[TimedRun, ...]
    left: tuple[SkippedRow, ...]
    grouping: str
    afresh: bool
    fit: StepFit

    @property
    def runs(self) -> int:
        """Modelled runs."""
        return len(self.timed)

    @property
    def predictions(self) -> list[tuple[TimedRun, float, float]]:
        """Each run with its predicted time [s] by the constants in use, and by the fitted ones."""
        before, after = (np.exp(scores.errors).tolist() for scores in (self.fit.now, self.fit.fitted))
        return [
            (run, run.measured * now, run.measured * then)
            for run, now, then in zip(self.timed, before, after, strict=True)
        ]

    @property
    def rows(self) -> int:
        """Requested runs, modelled or not."""
        return self.runs + len(self.left)

    @property
    def why(self) -> str:
        """The reason why the fit is not written; empty where it is."""
        found, now = self.fit.inside.median, self.fit.shipped.median
        if found > WORST_MEDIAN:
            return f"half of the runs still have an error over {WORST_MEDIAN:.0%}; are times in seconds?"
        return "half of the runs are further off than now, by more than as much again" if found > SLACK * now else ""


def refine(
    tables: Sequence[str | Table], *, where: Where | None = None, leave_out: str | None = None, afresh: bool = False
) -> Refined:
    """Constants from tables of runs: a full fit, or a refinement by your own few runs near the shipped values."""
    asked = [read_runs(each) if isinstance(each, str) else each for each in tables]
    shelf, where = CachedReader(), meant(where or {}, asked)
    rows = [row for table in asked for row in chosen_rows(table, where, shelf)]
    if where and not rows:
        raise nothing_chosen(where, asked, shelf)
    grouping = leave_out or FAMILY
    runs, left = timed(rows, shelf, grouping)
    if not runs:
        first = "; the tables have no rows" if not left else f"; {left[0].run}: {left[0].why}"
        names = [table.file for table in asked]
        first = first if all(map(is_near, names)) else ""  # it repeats words of the table
        hint = f"costmodel validate {' '.join(names)} --by reason shows the reason for each row"
        raise fail("C005", f"none of {len(rows)} runs is modelled{first}", Place("command line"), hint)
    if not afresh:
        runs = [replace(run, case=_with_its_own(run.case, shelf)) for run in runs]
    asked_of = [run.case for run in runs]
    priors = priors_for(asked_of, shelf) if afresh else own(asked_of, shelf)
    fit = step_fit(runs, priors, shelf, leave_out=leave_out is not None, apart=APART if afresh else 0.0)
    return Refined(tuple(asked), tuple(runs), tuple(left), grouping, afresh, fit)


def _with_its_own(case: ResolvedScenario, shelf: CachedReader) -> ResolvedScenario:
    """The scenario with default efficiency documents for an accelerator or network that has none."""
    if case.efficiency.of == UNMEASURED:
        case = replace(case, efficiency=registered("accelerator", case.accelerator.name, shelf))
    if case.network.of == UNMEASURED:
        case = replace(case, network=registered("fabric", case.scale_out.name, shelf))
    return case


def texts(refined: Refined) -> dict[Path, str]:
    """The documents of the working folder with the fitted values; comments and order stay."""
    if refined.why:
        return {}
    where = ", ".join(f"{file_stem(table.file)} {table.digest}" for table in refined.tables) + f", {refined.runs} runs"
    source = own_source(where)
    shown: dict[tuple[str, str, str], list[Posterior]] = {}
    for part in refined.fit.constants:
        for document in part.prior.documents if part.resolved else ():
            shown.setdefault((part.prior.kind, document, part.prior.group), []).append(part)
    changes: dict[tuple[str, str], dict[tuple[str, ...], Mapping[str, Any]]] = {}
    for (kind, document, group), parts in shown.items():
        leaves = {part.prior.key: _posterior_value(part) for part in parts}
        note = f"{' and '.join(leaves)} fitted on runs; all else is of {_source_before(parts[0].prior, document)}"
        entry = {**leaves, "source": source, "check": None, "note": note}
        changes.setdefault((kind, document), {})[group,] = entry
    cited = {"title": "Fit of costmodel calibrate on measured runs", "where": where}
    return {
        place_of(kind, name): _text(kind, name, {**mine, ("sources", source): cited})
        for (kind, name), mine in changes.items()
    }


def _text(kind: str, name: str, changes: Changes) -> str:
    """A document with these changes."""
    if kind == "stack":
        return rewritten(document_text(kind, name), changes)
    return changed(part_with("network" if ("network",) in changes else "sustained"), name, changes)


def _source_before(prior: Prior, document: str) -> str:
    return str(getattr(before(prior.leaf, document, CachedReader()), prior.group).source)


def _posterior_value(part: Posterior) -> Any:
    value = unit_value(part.prior, part.value)
    return value if part.prior.key == SECONDS else float(value)


def unit_value(prior: Prior, value: float) -> str:
    """A value in the form of documents."""
    return f"{significant(value * 1e6)} us" if prior.key == SECONDS else f"{value:.3g}"
