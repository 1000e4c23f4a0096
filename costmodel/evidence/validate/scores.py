"""Scores over rows: errors, ranks, and the regret of the plan that a prediction would choose."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from costmodel.documents.reader.folders import shipped_file
from costmodel.documents.reader.measured_cases import WORKLOADS
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.measurement import MeasuredTable
from costmodel.equations.parallelism.counts import world_size
from costmodel.equations.run.economics import share
from costmodel.estimate.shared.results import number
from costmodel.evidence.validate.outcomes import FITS, GROUPINGS, Compared, Validated
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.ground.record import record

LEAST = 5
# Cells that runs of one sweep share, and those a layout is made of.
SHARED = (
    "source", "framework", "model_name", "layers", "hidden", "ffn", "heads", "vocab", "seq_len", "gpu", "accelerator",
    "gpus", "gpus_per_node", "nic_gbps_per_gpu", "global_batch", "precision",
)  # fmt: skip
LAYOUT = (
    "dp", "tp", "pp", "vp", "cp", "ep", "etp", "micro_batch", "zero_stage", "fsdp", "seq_parallel", "recompute",
    "features",
)  # fmt: skip


@record
class MeasuredLayout:
    """One layout of a sweep with the median of its runs. `predicted` is None where it is not modelled."""

    run: str
    layout: str
    measured: float
    predicted: float | None


@record
class LayoutSweep:
    """One model, batch, sequence and cluster, measured in several layouts."""

    first: str
    shared: Mapping[str, str]
    groups: Mapping[str, str]
    layouts: tuple[MeasuredLayout, ...]

    @property
    def modelled(self) -> list[MeasuredLayout]:
        """The layouts of the sweep that have a prediction."""
        return [ran for ran in self.layouts if ran.predicted is not None]

    @property
    def best(self) -> MeasuredLayout:
        """The fastest measured, modelled or not."""
        return min(self.layouts, key=lambda ran: ran.measured)

    @property
    def picked(self) -> MeasuredLayout | None:
        """The layout that the prediction ranks first; None if none is modelled."""
        return min(self.modelled, key=lambda ran: ran.predicted or 0.0, default=None)

    @property
    def regret(self) -> float | None:
        """Time of the pick over that of the fastest, less one."""
        return None if self.picked is None else number(share(self.picked.measured, self.best.measured)) - 1

    @property
    def found_best(self) -> bool:
        """Whether no measured layout ran faster than the pick."""
        return self.regret == 0

    @property
    def correlation(self) -> float | None:
        """Spearman's rank correlation of predicted and measured."""
        return spearman([ran.measured for ran in self.modelled], [ran.predicted or 0.0 for ran in self.modelled])

    @property
    def errors(self) -> list[float]:
        """The absolute errors of the times."""
        return [abs(number(share(ran.predicted or 0.0, ran.measured)) - 1) for ran in self.modelled]


@record
class RegretScore:
    """The regret over some sweeps; sweeps have equal weight, but layouts do in `mean_error`."""

    sweeps: int
    modelled: int
    layouts: int
    mean_regret: float | None
    median_regret: float | None
    worst_regret: float | None
    correlation: float | None
    best_picked: float | None
    mean_error: float | None


@record
class LayoutRegret:
    """Sweeps with the regret of each and of their groups."""

    sweeps: Sequence[LayoutSweep]
    scores: Sequence[RegretScore]  # of each sweep alone
    together: RegretScore
    groups: Mapping[str, Mapping[str, RegretScore]]  # by column, then by its values
    worst: Sequence[LayoutSweep]  # the largest regret first


def layout_regret(layouts: Sequence[LayoutSweep]) -> LayoutRegret:
    """The scores of these sweeps."""
    return LayoutRegret(
        layouts,
        [choice([sweep]) for sweep in layouts],
        choice(layouts),
        {column: choices(layouts, column) for column in GROUPINGS},
        sorted(layouts, key=lambda sweep: -(sweep.regret or 0.0)),
    )


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation, with mean ranks for ties; None where one list is constant."""
    one, other = _rank_numbers(first), _rank_numbers(second)
    if len(one) < 2 or not (np.ptp(one) and np.ptp(other)):
        return None
    return float(np.corrcoef(one, other)[0, 1])


def _rank_numbers(values: Sequence[float]) -> np.ndarray:
    _, place, count = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    middle: np.ndarray = (last - (count - 1) / 2)[place]
    return middle


def sweeps(scored: Sequence[Validated]) -> list[LayoutSweep]:
    """The sweeps among these runs, with at least five layouts each, in the order of the tables."""
    gathered: dict[tuple[str, ...], list[tuple[CsvRow | ResolvedScenario, Compared]]] = {}
    for part in scored:
        for figure in part.figures:
            subject = figure.subject
            if figure.quantity != "step_time" or figure.measured is None:
                continue
            if isinstance(subject, CsvRow | ResolvedScenario):
                shared = (figure.groups["source"], *_shared_properties(subject).values())
                gathered.setdefault(shared, []).append((subject, figure))
    made = [_layout_sweep(members) for members in gathered.values()]
    return [sweep for sweep in made if len(sweep.layouts) >= LEAST]


def _shared_properties(subject: CsvRow | ResolvedScenario) -> dict[str, str]:
    """The properties that the runs of a sweep share."""
    if isinstance(subject, CsvRow):
        return {name: subject.text(name) for name in SHARED}
    work = subject.scenario.workload
    ranks = world_size(subject.scenario.cluster.nodes, subject.node.accelerators)
    sizes = {"gpus": number(ranks), "global_batch": work.global_batch, "seq_len": work.sequence}
    named = {"stack": subject.stack.name, "model_name": subject.model.name, "accelerator": subject.accelerator.name}
    return named | {"precision": work.precision} | {name: f"{size:g}" for name, size in sizes.items()}


def _layout(subject: CsvRow | ResolvedScenario) -> str:
    """The layout in a short text."""
    if isinstance(subject, CsvRow):
        cells = {name: subject.text(name) for name in LAYOUT}
    else:
        plan = subject.scenario.plan
        cells = {name: f"{value}" for name, value in (plan.model_dump(exclude_none=True) if plan else {}).items()}
    return " ".join(f"{name}={value}" for name, value in cells.items() if value)


def _layout_sweep(members: Sequence[tuple[CsvRow | ResolvedScenario, Compared]]) -> LayoutSweep:
    """The sweep of runs that differ in layout only."""
    runs: dict[str, list[Compared]] = {}
    for subject, figure in members:
        runs.setdefault(_layout(subject), []).append(figure)
    subject, first = members[0]
    layouts = tuple(_measured_layout(layout, same) for layout, same in runs.items())
    return LayoutSweep(first.run, _shared_properties(subject), first.groups, layouts)


def _measured_layout(layout: str, same: Sequence[Compared]) -> MeasuredLayout:
    middle = statistics.median(figure.measured for figure in same if figure.measured is not None)
    return MeasuredLayout(same[0].run, layout, middle, same[0].predicted)


def choice(layouts: Sequence[LayoutSweep]) -> RegretScore:
    """The mean regret and errors of choosing layouts by prediction, over these sweeps."""
    regrets = [sweep.regret for sweep in layouts if sweep.regret is not None]
    correlations = [sweep.correlation for sweep in layouts if sweep.correlation is not None]
    errors = [error for sweep in layouts for error in sweep.errors]
    return RegretScore(
        sweeps=len(layouts),
        modelled=len(regrets),
        layouts=sum(len(sweep.layouts) for sweep in layouts),
        mean_regret=_summary_or_none(statistics.fmean, regrets),
        median_regret=_summary_or_none(statistics.median, regrets),
        worst_regret=_summary_or_none(max, regrets),
        correlation=_summary_or_none(statistics.fmean, correlations),
        best_picked=_summary_or_none(
            statistics.fmean, [float(sweep.found_best) for sweep in layouts if sweep.regret is not None]
        ),
        mean_error=_summary_or_none(statistics.fmean, errors),
    )


def _summary_or_none(summary: Callable[[Sequence[float]], float], values: Sequence[float]) -> float | None:
    return float(summary(values)) if values else None


def choices(layouts: Sequence[LayoutSweep], grouping: str) -> dict[str, RegretScore]:
    """Regret scores by the values of a column, in the order of the tables."""
    groups: dict[str, list[LayoutSweep]] = {}
    for sweep in layouts:
        groups.setdefault(sweep.groups[grouping], []).append(sweep)
    return {name: choice(members) for name, members in groups.items()}


LEFT_OUT = "hardware/left_out.json"  # errors with the source held out of the fit
KINDS = ("dense", "with experts")


def left_out() -> dict[str, Any]:
    """The shipped record of held-out errors: its date, the number of runs, and errors by group and by source."""
    stored: dict[str, Any] = json.loads(shipped_file(LEFT_OUT).read_text("utf-8"))
    return stored


def left_out_by_kind() -> dict[str, Any]:
    """The shipped held-out errors of dense models, of mixtures of experts, and of services."""
    stored = left_out()
    kinds = {kind: stored["groups"][kind] for kind in KINDS}
    return {"date": stored["date"], "runs": stored["runs"], **kinds, "services": stored["services"]}


@record
class Score:
    """The errors of some figures in total; rows have equal weight, percentiles are linear."""

    rows: int
    modelled: int
    median_error: float | None
    p90_error: float | None
    bias: float | None
    inside_band: float | None


@record
class Outcomes:
    """For runs that did or did not fit in memory: how many, wrong predictions, and the mean predicted chance to fit."""

    fit: int
    called_unfit: int
    unfit: int
    called_fit: int
    chance_of_fit: float | None
    chance_of_unfit: float | None


@record
class GroupScore:
    """The errors of a group of figures, and the calls on whether its runs fit."""

    score: Score
    outcomes: Outcomes


@record
class Scoreboard:
    """Tables with their predictions, and every score that an answer shows of them."""

    tables: Sequence[Validated]
    figures: Sequence[Compared]
    together: GroupScore
    groups: Mapping[str, Mapping[str, GroupScore]]  # by column, then by its values
    worst: Sequence[Compared]  # the largest error first
    median: float | None  # of all errors, also of those on whether a run fits
    furthest: float  # the largest of them
    left_out: Mapping[str, Any] | None  # errors of sources that a fit leaves out
    others: Mapping[str, Scoreboard]  # of documents about services or RL that stand beside those of training, by result

    @property
    def compares(self) -> bool:
        """Whether any figure has a prediction; also true if there are no figures."""
        return self.median is not None or not self.figures

    @property
    def holds(self) -> bool:
        """Whether something was compared, and every figure is within its tolerance."""
        within = self.compares and all(figure.within for figure in self.figures)
        return within and all(board.holds for board in self.others.values())


def scoreboard(tables: Sequence[Validated], *, left_out: bool = False) -> Scoreboard:
    """The scores of these tables and, if asked for, the held-out errors of the shipped tables.

    Figures of one result alone come to one error: documents about services and RL stand apart from the others.
    """
    apart: dict[str, list[Validated]] = {}
    for part in tables:
        apart.setdefault(_other_result(part), []).append(part)
    first = "" if "" in apart else next(iter(apart), "")
    beside = {name: _make_scoreboard(parts, {}) for name, parts in apart.items() if name != first}
    return replace(_make_scoreboard(apart.get(first, []), beside), left_out=left_out_by_kind() if left_out else None)


def _other_result(part: Validated) -> str:
    """The result that a document about services or RL has; empty for every other table."""
    found = part.figures[0].quantity if part.figures and isinstance(part.table, MeasuredTable) else ""
    return found if found in WORKLOADS else ""


def _make_scoreboard(tables: Sequence[Validated], others: Mapping[str, Scoreboard]) -> Scoreboard:
    """The scoreboard of these tables: errors in total, by group, and whether runs fit."""
    figures = [figure for part in tables for figure in part.figures]
    groups = {
        column: {name: _group_score(members) for name, members in gathered(figures, column).items()}
        for column in GROUPINGS
    }
    errors = [abs(figure.error) for figure in figures if figure.error is not None]
    return Scoreboard(
        tables,
        figures,
        _group_score(figures),
        groups,
        worst(figures, len(figures)),
        statistics.median(errors) if errors else None,
        max(errors, default=0.0),
        None,
        others,
    )


def _group_score(figures: Sequence[Compared]) -> GroupScore:
    return GroupScore(score(figures), outcomes(figures))


def score(figures: Sequence[Compared]) -> Score:
    """The error of these figures in total; whether a run fits counts only if there is no other figure."""
    done = [figure for figure in figures if figure.error is not None]
    amounts = [figure for figure in done if figure.quantity != FITS]
    errors = [abs(figure.error) for figure in amounts or done if figure.error is not None]
    signed = [figure.error for figure in amounts if figure.error is not None]
    banded = [figure for figure in amounts if figure.low is not None and figure.high is not None]
    return Score(
        rows=len(figures),
        modelled=len(done),
        median_error=float(np.percentile(errors, 50)) if errors else None,
        p90_error=float(np.percentile(errors, 90)) if errors else None,
        bias=float(statistics.median(signed)) if signed else None,
        inside_band=float(np.mean([_is_inside_band(figure) for figure in banded])) if banded else None,
    )


def _is_inside_band(figure: Compared) -> bool:
    assert figure.low is not None and figure.high is not None and figure.measured is not None  # noqa: PT018
    return figure.low <= figure.measured <= figure.high


def gathered(figures: Sequence[Compared], grouping: str) -> dict[str, list[Compared]]:
    """The figures by the values of a column, in the order of the table."""
    groups: dict[str, list[Compared]] = {}
    for figure in figures:
        groups.setdefault(figure.groups[grouping], []).append(figure)
    return groups


def outcomes(figures: Sequence[Compared]) -> Outcomes:
    """The modelled runs that fitted or did not, and wrong predictions; a run with measured memory fitted."""
    shown = [(figure.quantity != FITS or figure.measured == 1, figure.called_fit) for figure in figures]
    chances = [(fitted, figure.fit_chance) for figure, (fitted, _) in zip(figures, shown, strict=True)]
    return Outcomes(
        fit=sum(fitted and called is not None for fitted, called in shown),
        called_unfit=shown.count((True, False)),
        unfit=sum(not fitted and called is not None for fitted, called in shown),
        called_fit=shown.count((False, True)),
        chance_of_fit=_mean_or_none([chance for fitted, chance in chances if fitted and chance is not None]),
        chance_of_unfit=_mean_or_none([chance for fitted, chance in chances if not fitted and chance is not None]),
    )


def _mean_or_none(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def worst(figures: Sequence[Compared], count: int) -> list[Compared]:
    """The figures with the largest errors in either direction, by ratio."""
    done = [figure for figure in figures if figure.error is not None]
    return sorted(done, key=lambda figure: -abs(figure.error or 0.0))[:count]


@record
class TermWorth:
    """A term of a step in the rows where it takes enough of it: its median share, errors with it and without it."""

    term: str
    group: str
    share: float
    score: Score
    without: Score

    @property
    def earns_its_place(self) -> bool:
        """Whether predictions with it err less, in the middle or in the tail."""
        pairs = (
            (self.score.median_error, self.without.median_error),
            (self.score.p90_error, self.without.p90_error),
        )
        return any(one is not None and other is not None and one < other for one, other in pairs)


NOTABLE = 0.05  # of a step, from which a row shows what a term is worth


def worth_of_terms(figures: Sequence[Compared], terms: Sequence[str], grouping: str | None = None) -> list[TermWorth]:
    """By how much each term of a step improves predictions, in the rows where it matters; most rows first."""
    term_worths = list[TermWorth]()
    for term in terms:
        rows = [figure for figure in figures if figure.error is not None and figure.parts.get(term, 0.0) >= NOTABLE]
        groups = gathered(rows, grouping) if grouping else {"": rows} if rows else {}
        for group, members in sorted(groups.items(), key=lambda item: -len(item[1])):
            share = statistics.median(member.parts[term] for member in members)
            term_worths.append(
                TermWorth(term, group, share, score(members), score([member.without([term]) for member in members]))
            )
    return term_worths
