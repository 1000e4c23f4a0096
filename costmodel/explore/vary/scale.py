"""Evaluates a job at several sizes: efficiency, the scaling knee, and the terms that grow."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario, training
from costmodel.equations.data_parallel import steps_for_batch
from costmodel.equations.run.economics import share
from costmodel.estimate.answer_facts import facts_of
from costmodel.estimate.shared.critical_batch import critical_batch
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.plan_constraints import micro_batches
from costmodel.estimate.training_answer.evaluate_training import TERM_COLUMNS
from costmodel.estimate.training_answer.predict_training import Answer
from costmodel.explore.purchase.smallest_size import RankGrowth
from costmodel.explore.search.rank import UNWATCHED, Watcher
from costmodel.explore.workload_interface import PlanAnswer, Scaling, SizedTrial, Workload
from costmodel.ground.errors import CostModelError, Fault
from costmodel.ground.record import record
from costmodel.ground.units import counted

# --- the same job at one size after the other: what it still gains, and what eats the rest


PAYS = 0.75  # share of the time to a loss that a doubling may leave: 1.5 times the hours of accelerators
_MUCH = 0.2  # share of all that grew, from which a term is named
_BEND = 0.95  # what a doubling must keep


@record
class ScaledSize:
    """One size compared with the smallest one: throughput per accelerator, growing terms, time to a loss."""

    found: SizedTrial
    efficiency: float = math.nan
    grew: tuple[tuple[str, float], ...] = ()  # terms with their share of the time, most first
    to_loss: float = math.nan  # time to a loss over that of the smallest, where there is a critical batch


@dataclass(frozen=True)
class ScalingResult:
    """All sizes, smallest first."""

    asked: Workload
    scaling: Scaling
    rows: tuple[ScaledSize, ...]
    best: bool = False  # plan of a search each time, instead of the scenario's own
    weak: bool = False
    more: object = None  # what one workload alone has to state of all sizes

    @property
    def stopped(self) -> bool:
        """Whether the user stopped before all sizes were evaluated."""
        return len(self.rows) < self.scaling.count

    @property
    def known(self) -> list[ScaledSize]:
        """The sizes that have an answer."""
        return [row for row in self.rows if row.found.point.costs]

    @property
    def bend(self) -> tuple[ScaledSize, ScaledSize] | None:
        """The scaling knee: the last size before a doubling loses too much efficiency, and the next size."""
        compared = [row for row in self.known if row.efficiency >= 0]
        for before, after in itertools.pairwise(compared):
            if (after.efficiency / before.efficiency) ** (1 / _doublings(before, after)) < _BEND:
                return before, after
        return None

    @property
    def pays(self) -> tuple[ScaledSize, ScaledSize] | None:
        """The last size from which a doubling saves enough of the time to a loss, and the next size."""
        compared = [row for row in self.rows if not math.isnan(row.to_loss)]
        for before, after in itertools.pairwise(compared):
            if (after.to_loss / before.to_loss) ** (1 / _doublings(before, after)) > PAYS:
                return before, after
        return None


def scale(
    workload: Workload,
    ranks: str,
    rate: str = "",
    *,
    weak: bool = False,
    best: bool = False,
    alone: bool = False,
    pace: Watcher = UNWATCHED,
) -> ScalingResult:
    """Evaluates the job at every size; raises a fault only if no size has an answer.

    ranks: numbers of accelerators. rate: of a service, requests a second
    best: with the best plan of each. alone: whether flags are given without a scenario
    """
    best = workload.by_search((), best=best, alone=alone)
    scaling = workload.scaling(ranks, rate, weak=weak, best=best)
    sized = list(scaling.rows(pace))
    faults = [each.point.fault for each in sized if each.point.fault is not None]
    if sized and len(faults) == scaling.count:
        raise CostModelError(faults[0])
    return ScalingResult(
        scaling.asked, scaling, _compared_with_smallest(scaling, sized), best, weak, scaling.further_results(sized)
    )


def _compared_with_smallest(scaling: Scaling, sized: Sequence[SizedTrial]) -> tuple[ScaledSize, ...]:
    """Each size with its efficiency and growing terms, relative to the smallest size with results."""
    first = next((each for each in sized if each.point.costs), None)
    if first is None:
        return tuple(map(ScaledSize, sized))
    return tuple(
        ScaledSize(
            each,
            _scaling_efficiency(scaling, first, each),
            _growing_terms(scaling, first, each),
            _relative_time_to_loss(scaling, first, each),
        )
        if each.point.costs
        else ScaledSize(each)
        for each in sized
    )


def _scaling_efficiency(scaling: Scaling, first: SizedTrial, other: SizedTrial) -> float:
    one, more = (scaling.throughput_per_accelerator(found.point.costs, found.size) for found in (first, other))
    return more / one


def _growing_terms(scaling: Scaling, first: SizedTrial, other: SizedTrial) -> tuple[tuple[str, float], ...]:
    """Terms that take more time for the same throughput per accelerator, with their share of the time."""
    if not scaling.time_result:
        return ()

    def each(found: SizedTrial, term: str) -> float:
        costs = found.point.costs
        return costs[term] / (scaling.throughput_per_accelerator(costs, found.size) * costs[scaling.time_result])

    growth = {term: each(other, term) - each(first, term) for term in scaling.terms}
    total, costs = sum(value for value in growth.values() if value > 0), other.point.costs
    least = 1e-3 * each(other, scaling.time_result)
    much = [term for term, value in growth.items() if value > _MUCH * total and value > least]
    ordered = sorted(much, key=lambda term: -growth[term])
    return tuple((term, costs[term] / costs[scaling.time_result]) for term in ordered)


def _relative_time_to_loss(scaling: Scaling, first: SizedTrial, other: SizedTrial) -> float:
    """The time to a loss, relative to the smallest size; a larger batch needs fewer steps."""
    if math.isnan(first.steps + other.steps):
        return math.nan
    one, more = (found.steps * found.point.costs[scaling.time_result] for found in (first, other))
    return more / one


def _doublings(before: ScaledSize, after: ScaledSize) -> float:
    return math.log2(after.found.size / before.found.size)


# --- what makes a training job larger


_EACH = "tokens_per_s_per_gpu"


def training_growth(case: ResolvedScenario, *, weak: bool, best: bool) -> RankGrowth:
    """How training scales: with the same batch (strong), or with a batch that grows with the ranks (weak)."""
    return RankGrowth(
        strong="strong scaling, the same batch",
        weak="weak scaling, the batch grows with the ranks",
        grown="workload.global_batch",
        shown=("step_time", "mfu", "memory_peak"),
        figure=_EACH,
        work=_EACH,
        time="step_time",
        terms=tuple(TERM_COLUMNS.values()),
        each=lambda costs, size: costs[_EACH],
        settings=lambda ranks: _cluster_settings(case, ranks, weak=weak, best=best),
        paces=_pipeline_waves_and_steps,
        uneven=lambda ranks: _uneven_groups(case, ranks),
    )


def _pipeline_waves_and_steps(case: LoadedScenario, plan_answer: PlanAnswer) -> tuple[float, float]:
    """Micro-batches per pipeline stage, and steps to a loss over the fewest possible."""
    assert isinstance(plan_answer, Answer)
    block, held = plan_answer.evaluation.block, training(case)
    facts, critical = facts_of(held), critical_batch(held.scenario.workload)
    waves = number(share(micro_batches(plan_answer.inputs, block), block.pp))
    batch = facts.global_batch * facts.sequence
    return waves, math.nan if critical is None else float(steps_for_batch(1.0, float(critical), batch))


def _uneven_groups(case: ResolvedScenario, ranks: float) -> Fault | None:
    """A fault if a number of accelerators cannot keep the proportion of the node groups; else None."""
    cluster, all_of_it = case.scenario.cluster, case.scenario.cluster.nodes * case.node.accelerators
    if all((group.nodes * ranks / all_of_it).is_integer() for group in cluster.groups or []):
        return None
    per_group = all_of_it / math.gcd(*(int(group.nodes) for group in cluster.groups or []))
    sentence = f"{counted(ranks)} accelerators do not divide among the groups as they are"
    return Fault("C010", sentence, None, f"groups keep their proportion in multiples of {counted(per_group)}")


def _cluster_settings(case: ResolvedScenario, ranks: float, *, weak: bool, best: bool) -> list[str]:
    """Settings for a cluster with `ranks` accelerators: whole nodes, or a part of one."""
    node, scenario = case.node, case.scenario
    whole, groups = ranks >= node.accelerators, scenario.cluster.groups or []
    own = scenario.cluster.nodes * node.accelerators
    if groups:
        part = ranks / own
        settings = [f"cluster.groups.{at}.nodes={group.nodes * part:.12g}" for at, group in enumerate(groups)]
    else:
        settings = [f"cluster.nodes={ranks / node.accelerators if whole else 1:.12g}"]
    if not whole:
        settings.append(f"cluster.node.accelerators={ranks:.12g}")
    if not best and scenario.plan is not None and scenario.plan.dp is not None:
        settings.append("plan.dp=null")
    if weak:
        settings.append(f"workload.global_batch={scenario.workload.global_batch * ranks / own:.12g}")
    return settings
