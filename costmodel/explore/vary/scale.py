"""The same job on more and more accelerators: what it still gains, and what eats the rest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.default_values import Assumption
from costmodel.equations.data_parallel.batch_size import steps_for_batch
from costmodel.equations.run.economics import share
from costmodel.estimate.evaluate.evaluate_plans import TERM_COLUMNS
from costmodel.estimate.shared.critical_batch import FITS_APART, critical_batch, is_fitted, other_meaning
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.constraints.plan_constraints import micro_batches
from costmodel.explore.compare.select_plan import by_search
from costmodel.explore.search.progress import UNWATCHED, Watcher
from costmodel.explore.search.ranges import doubled, values_of
from costmodel.explore.vary.sweep import SweepPoint, point, tried
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.ground.parsing import UnitError, parse
from costmodel.ground.record import record
from costmodel.ground.units import counted

_MUCH = 0.2  # share of all that grew, from which a term is named
PAYS = 0.75  # share of the time to a loss that a doubling may leave: 1.5 times the hours of accelerators
_BEND = 0.95  # what a doubling must keep


@record
class ScaleRow:
    """One size: throughput for each accelerator over that of the smallest, and the terms that grew most since."""

    ranks: float
    point: SweepPoint
    waves: float = math.nan  # micro-batches of a replica for each pipeline stage
    efficiency: float = math.nan
    grew: tuple[tuple[str, float], ...] = ()
    to_loss: float = math.nan  # time to a loss over that of the smallest, where there is a critical batch
    assumed: tuple[Assumption, ...] = ()


@record
class Scaled:
    """All sizes, smallest first; `bend` is the place of the last one before a doubling keeps too little."""

    case: ResolvedScenario
    weak: bool
    rows: tuple[ScaleRow, ...]
    bend: int | None = None
    best: bool = False
    stopped: bool = False
    pays: int | None = None  # place of the last size from which twice as many save a quarter of the time to a loss

    @property
    def cautions(self) -> tuple[str, ...]:
        """What to know of a time to a loss that follows from a published fit."""
        workload = self.case.scenario.workload
        if not is_fitted(workload):
            return ()
        spread = f"Critical batches of different fits lie up to {FITS_APART:g} times apart."
        return spread, *(f"{words[0].upper()}{words[1:]}." for words in other_meaning(workload))


def scale(
    case: ResolvedScenario, ranks: str, *, weak: bool = False, best: bool = False, pace: Watcher = UNWATCHED
) -> Scaled:
    """The job on every number of accelerators asked for."""
    sizes, best = _sizes(ranks), by_search(case, (), best=best)
    taken = pace.taken(sizes, len(sizes))
    rows = [_row(case, size, weak=weak, best=best) for size in taken]
    faults = [row.point.fault for row in rows if row.point.fault is not None]
    if len(faults) == len(sizes):
        raise CostModelError(faults[0])
    first = next((row for row in rows if row.point.costs), None)
    if first is not None:
        rows = [
            replace(row, efficiency=_efficiency(first, row), grew=_grew(first, row), to_loss=_to_loss(case, first, row))
            if row.point.costs
            else row
            for row in rows
        ]
    return Scaled(case, weak, tuple(rows), _bend(rows), best, stopped=len(rows) < len(sizes), pays=_pays(rows))


def _row(case: ResolvedScenario, ranks: float, *, weak: bool, best: bool) -> ScaleRow:
    """One size, not yet compared with the others."""
    settings = _settings(case, ranks, weak=weak, best=best)
    found = _part(case.node.accelerators, ranks) or _uneven(case, ranks) or tried(case, settings, best=best)
    row = ScaleRow(ranks, point(case, settings, found))
    if isinstance(found, Fault) or found.refused:
        return row
    block = found.evaluation.block
    return replace(row, waves=number(share(micro_batches(found.inputs, block), block.pp)), assumed=found.assumed)


def _sizes(text: str) -> list[float]:
    """64..4096 doubles; lists and other steps as --over takes them."""
    place = Place("command line", 0, 9, "", f"--ranks {text}", max(1, len(text)))
    try:
        values = [parse(value, "GPU") for value in values_of(doubled(text), "--ranks", text)]
    except UnitError as error:
        sentence = str(error) if error.exact else f"'{text}' is not numbers of accelerators"
        raise fail("C010", sentence, place, "for example --ranks 64..4096") from None
    if not all(value >= 1 and value.is_integer() for value in values):
        raise fail("C010", f"'{text}' is not numbers of accelerators", place, "for example --ranks 64..4096")
    return sorted(set(values))


def _part(each: float, ranks: float) -> Fault | None:
    """What is wrong with a number of accelerators that ends within a node."""
    below = ranks // each * each
    if ranks < each or ranks == below:
        return None
    sentence = f"{counted(ranks)} accelerators are no whole number of nodes of {counted(each)}"
    return Fault("C010", sentence, None, f"try --ranks {below:.0f} or {below + each:.0f}")


def _uneven(case: ResolvedScenario, ranks: float) -> Fault | None:
    """What is wrong with a number of accelerators that does not keep the proportion of the groups."""
    cluster = case.scenario.cluster
    part = ranks / (cluster.nodes * case.node.accelerators)
    if all((group.nodes * part).is_integer() for group in cluster.groups or []):
        return None
    sizes = [int(group.nodes) for group in cluster.groups or []]
    each = cluster.nodes * case.node.accelerators / math.gcd(*sizes)
    sentence = f"{counted(ranks)} accelerators do not divide among the groups as they are"
    return Fault("C010", sentence, None, f"groups keep their proportion in multiples of {counted(each)}")


def _settings(case: ResolvedScenario, ranks: float, *, weak: bool, best: bool) -> list[str]:
    """What makes the cluster that large: whole nodes, or a part of one; a plan's own dp follows from its size."""
    node, scenario = case.node, case.scenario
    whole = ranks >= node.accelerators
    groups = scenario.cluster.groups or []
    if groups:
        part = ranks / (scenario.cluster.nodes * node.accelerators)
        settings = [f"cluster.groups.{at}.nodes={group.nodes * part:.12g}" for at, group in enumerate(groups)]
    else:
        settings = [f"cluster.nodes={ranks / node.accelerators if whole else 1:.12g}"]
    if not whole:
        settings.append(f"cluster.node.accelerators={ranks:.12g}")
    if not best and scenario.plan is not None and scenario.plan.dp is not None:
        settings.append("plan.dp=null")
    if weak:
        own = scenario.cluster.nodes * node.accelerators
        settings.append(f"workload.global_batch={scenario.workload.global_batch * ranks / own:.12g}")
    return settings


def _efficiency(first: ScaleRow, row: ScaleRow) -> float:
    each = "tokens_per_s_per_gpu"
    return row.point.costs[each] / first.point.costs[each]


def _each(row: ScaleRow, term: str) -> float:
    """Seconds of one accelerator that a term takes for a token."""
    costs = row.point.costs
    return costs[term] / (costs["tokens_per_s_per_gpu"] * costs["step_time"])


def _grew(first: ScaleRow, row: ScaleRow) -> tuple[tuple[str, float], ...]:
    """Terms that take more of an accelerator's time for a token, with their share of the step; most first."""
    growth = {term: _each(row, term) - _each(first, term) for term in TERM_COLUMNS.values()}
    total = sum(value for value in growth.values() if value > 0)
    costs = row.point.costs
    much = [term for term, value in growth.items() if value > _MUCH * total and value > 1e-3 * _each(row, "step_time")]
    ordered = sorted(much, key=lambda term: -growth[term])
    return tuple((term, costs[term] / costs["step_time"]) for term in ordered)


def _bend(rows: Sequence[ScaleRow]) -> int | None:
    """The last size before a doubling keeps less than it should."""
    known = [place for place, row in enumerate(rows) if row.point.costs]
    for before, after in itertools.pairwise(known):
        doublings = math.log2(rows[after].ranks / rows[before].ranks)
        if (rows[after].efficiency / rows[before].efficiency) ** (1 / doublings) < _BEND:
            return before
    return None


def _to_loss(case: ResolvedScenario, first: ScaleRow, row: ScaleRow) -> float:
    """Time to a loss over that of the smallest: of its steps, of which a larger batch needs fewer."""
    critical = critical_batch(case.scenario.workload)
    if critical is None:
        return math.nan
    one, other = (_steps(each, float(critical)) for each in (first, row))
    return other * row.point.costs["step_time"] / (one * first.point.costs["step_time"])


def _steps(row: ScaleRow, critical: float) -> float:
    """Steps over the least that a loss takes."""
    facts = row.point.facts
    assert facts is not None
    return float(steps_for_batch(1.0, critical, facts.global_batch * facts.sequence))


def _pays(rows: Sequence[ScaleRow]) -> int | None:
    """The last size from which a doubling saves enough of the time to a loss."""
    known = [place for place, row in enumerate(rows) if not math.isnan(row.to_loss)]
    for before, after in itertools.pairwise(known):
        doublings = math.log2(rows[after].ranks / rows[before].ranks)
        if (rows[after].to_loss / rows[before].to_loss) ** (1 / doublings) > PAYS:
            return before
    return None
