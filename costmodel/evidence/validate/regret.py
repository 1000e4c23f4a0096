"""Regret of choosing by prediction: how much slower the predicted best layout ran than the fastest measured one."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.equations.parallelism.counts import world_size
from costmodel.equations.run.economics import share
from costmodel.estimate.shared.results import number
from costmodel.evidence.validate.compared_figures import GROUPINGS, Compared, Validated
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
        """Layouts with a prediction."""
        return [ran for ran in self.layouts if ran.predicted is not None]

    @property
    def best(self) -> MeasuredLayout:
        """The fastest measured, modelled or not."""
        return min(self.layouts, key=lambda ran: ran.measured)

    @property
    def picked(self) -> MeasuredLayout | None:
        """The layout with the fastest prediction."""
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


def layout_regret(found: Sequence[LayoutSweep]) -> LayoutRegret:
    """The scores of these sweeps."""
    return LayoutRegret(
        found,
        [choice([sweep]) for sweep in found],
        choice(found),
        {column: choices(found, column) for column in GROUPINGS},
        sorted(found, key=lambda sweep: -(sweep.regret or 0.0)),
    )


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation, with mean ranks for ties; None where one list is constant."""
    one, other = _ranks(first), _ranks(second)
    if len(one) < 2 or not (np.ptp(one) and np.ptp(other)):
        return None
    return float(np.corrcoef(one, other)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    _, place, count = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    middle: np.ndarray = (last - (count - 1) / 2)[place]
    return middle


def sweeps(found: Sequence[Validated]) -> list[LayoutSweep]:
    """The sweeps among these runs, with at least five layouts each, in the order of the tables."""
    gathered: dict[tuple[str, ...], list[tuple[CsvRow | ResolvedScenario, Compared]]] = {}
    for part in found:
        for figure in part.figures:
            subject = figure.subject
            if figure.quantity != "step_time" or figure.measured is None:
                continue
            if isinstance(subject, CsvRow | ResolvedScenario):
                shared = (figure.groups["source"], *_shared(subject).values())
                gathered.setdefault(shared, []).append((subject, figure))
    made = [_sweep(members) for members in gathered.values()]
    return [sweep for sweep in made if len(sweep.layouts) >= LEAST]


def _shared(subject: CsvRow | ResolvedScenario) -> dict[str, str]:
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


def _sweep(members: Sequence[tuple[CsvRow | ResolvedScenario, Compared]]) -> LayoutSweep:
    runs: dict[str, list[Compared]] = {}
    for subject, figure in members:
        runs.setdefault(_layout(subject), []).append(figure)
    subject, first = members[0]
    layouts = tuple(_ran(layout, same) for layout, same in runs.items())
    return LayoutSweep(first.run, _shared(subject), first.groups, layouts)


def _ran(layout: str, same: Sequence[Compared]) -> MeasuredLayout:
    middle = statistics.median(figure.measured for figure in same if figure.measured is not None)
    return MeasuredLayout(same[0].run, layout, middle, same[0].predicted)


def choice(found: Sequence[LayoutSweep]) -> RegretScore:
    """The regret score of these sweeps."""
    regrets = [sweep.regret for sweep in found if sweep.regret is not None]
    correlations = [sweep.correlation for sweep in found if sweep.correlation is not None]
    errors = [error for sweep in found for error in sweep.errors]
    return RegretScore(
        sweeps=len(found),
        modelled=len(regrets),
        layouts=sum(len(sweep.layouts) for sweep in found),
        mean_regret=_over(statistics.fmean, regrets),
        median_regret=_over(statistics.median, regrets),
        worst_regret=_over(max, regrets),
        correlation=_over(statistics.fmean, correlations),
        best_picked=_over(statistics.fmean, [float(sweep.found_best) for sweep in found if sweep.regret is not None]),
        mean_error=_over(statistics.fmean, errors),
    )


def _over(summary: Callable[[Sequence[float]], float], values: Sequence[float]) -> float | None:
    return float(summary(values)) if values else None


def choices(found: Sequence[LayoutSweep], grouping: str) -> dict[str, RegretScore]:
    """Regret scores by the values of a column, in the order of the tables."""
    groups: dict[str, list[LayoutSweep]] = {}
    for sweep in found:
        groups.setdefault(sweep.groups[grouping], []).append(sweep)
    return {name: choice(members) for name, members in groups.items()}
