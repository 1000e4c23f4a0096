"""Facts of a report: ranked nodes, and plans within reach."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from costmodel.documents.keys.overrides import listed
from costmodel.documents.keys.paths import at
from costmodel.documents.reader.library import DocumentReader, accelerator_of, names
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.measurement import MeasuredTable
from costmodel.documents.schemas.results import TRAINING_COLUMNS
from costmodel.estimate.shared.plan_batch import Block, Mask
from costmodel.estimate.shared.results import Costs
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.estimate.training_answer.evaluate_training import evaluate, missing_input
from costmodel.estimate.training_answer.predict_training import Answer
from costmodel.evidence.validate.outcomes import Compared
from costmodel.evidence.validate.validate import OF_STEPS, compared
from costmodel.explore.compare.select_plan import own_or_best_plan, plan_of_row
from costmodel.explore.explain.equation_trees import ExplainedFigure, figure_trees, traced_evaluation
from costmodel.explore.search.search import TrainingSearch, search, with_ranges, with_remedies
from costmodel.explore.search.training_candidates import grids, stem, valid_blocks
from costmodel.explore.search.training_space import Ranked
from costmodel.explore.vary.sensitivity import Sensitivity, sensitivity
from costmodel.explore.workloads import workload_of
from costmodel.ground.counts import SIZES
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record

TRACED = ("step_time", "step_time_high", "run_time", "tokens_per_s_per_gpu", "mfu", "memory_peak")
OF_BEST = "cost_per_mtoken"  # beside those, of the first plan
MOST = 10  # plans
_ALIKE = 0.95  # of the smallest plan so far: the trees of no other are much smaller
_NODES = 14_000  # of all of them before what plans share is held once; one of many kinds of layers has thousands


def trace_name(place: int, name: str) -> str:
    """The name of a result of one plan of the ranking, as pages look up its equation tree: `plans.3.mfu`."""
    return f"plans.{place}.{name}"


@record
class RankedFacts:
    """A search, with the traced figures of its first plans."""

    found: TrainingSearch

    @functools.cached_property
    def nodes(self) -> dict[str, ExplainedFigure]:
        """The equation trees of the first plans of the ranking, as many as a page has room for."""
        nodes: dict[str, ExplainedFigure] = {}
        room, smallest = _NODES, 0
        for place, row in enumerate(self.found.best[:MOST]):
            if room < _ALIKE * smallest:  # the trees of another plan are as large, and would be made in vain
                break
            inputs = self.found.inputs_of(row.variant)
            names = TRACED if place else (*TRACED, OF_BEST)
            wanted = [name for name in names if not missing_input(inputs, name)]
            traced = figure_trees(inputs, traced_evaluation(inputs, plan_of_row(row)), wanted)
            size = _count_nodes(traced.values())
            room, smallest = room - size, min(smallest or size, size)
            if room < 0:
                break
            nodes |= {trace_name(place, name): node for name, node in traced.items()}
        return nodes


def _count_nodes(roots: Iterable[ExplainedFigure]) -> int:
    """The number of distinct nodes in trees."""
    waiting, seen = list(roots), set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            waiting += node.beneath
    return len(seen)


AXES = ("tp", "pp", "micro_batch", "recompute")
MOST_CANDIDATES = 400_000  # looked at for a page; of a larger space there are no sliders
MOST_PLANS = 1_500

Key = tuple[float | str, ...]


@dataclass
class BestByAxes:
    """For every combination of parallel degrees and recompute, the best plan by the objective; fitting plans first."""

    objective: str
    plans: dict[Key, tuple[tuple[bool, float], Ranked]]

    def add(self, block: Block, costs: Costs, keep: Mask) -> None:
        """Keep each valid plan of a block that beats the known plan of its combination."""
        scores = TRAINING_COLUMNS[self.objective].sign * costs.column(self.objective)
        too_large = costs.column("memory_share") > 1
        sizes = {name: np.asarray(getattr(block, name), dtype=np.float64) for name in SIZES}
        recompute = str(block.structure.recompute)
        for place in np.flatnonzero(keep):
            key: Key = (*(float(sizes[name][place]) for name in AXES[:-1]), recompute)
            score = (bool(too_large[place]), float(scores[place]))
            if key not in self.plans or score < self.plans[key][0]:
                plan = {name: float(values[place]) for name, values in sizes.items()}
                self.plans[key] = score, Ranked(block.structure, plan, costs.row(int(place)), score[1])


def best_plans_by_axes(case: ResolvedScenario) -> list[Ranked]:
    """The best plan for each combination of parallel degrees and recompute; empty if the space is too large."""
    inputs = training_inputs(case)
    plans = BestByAxes(case.scenario.objective, {})
    if sum(map(len, grids(inputs))) > MOST_CANDIDATES:
        return []
    _evaluate_space(inputs, plans)
    if len(plans.plans) > MOST_PLANS:
        return []
    return [plans.plans[key][1] for key in sorted(plans.plans, key=str)]


def _evaluate_space(inputs: TrainingInputs, plans: BestByAxes) -> None:
    """Evaluates every valid plan of the search space and adds it to `plans`."""
    refused: Counter[str] = Counter()
    for grid in grids(inputs):
        for block, counts in valid_blocks(inputs, grid, stem(inputs, grid, refused), refused):
            plans.add(block, evaluate(inputs, block).costs, counts)


FRONT = "memory_peak,step_time"
TOP = 50


def searched_once(case: ResolvedScenario) -> TrainingSearch:
    """The search of a report, still without ranges, whose best plan is that of a scenario without one."""
    return search(case, TOP, pareto=FRONT, bands=False)


@record
class ReportFacts:
    """What a training report shows beside its plan: search, sensitivity, alternative plans, measured runs.

    asked: the scenario as it was asked about, which may state no plan. answer: about its plan, or the best.
    searched: where the plan is the best of it
    """

    asked: ResolvedScenario
    answer: Answer
    searched: TrainingSearch | None = None

    @functools.cached_property
    def found(self) -> TrainingSearch | None:
        """The search; none where the space is empty or the objective is not known."""
        try:
            found = search(self.asked, TOP, pareto=FRONT) if self.searched is None else with_ranges(self.searched)
            return with_remedies(found)
        except CostModelError:
            if self.asked.scenario.plan is None:
                raise
            return None

    @functools.cached_property
    def sensitive(self) -> Sensitivity | None:
        """The sensitivity of the step time; None where it cannot be computed."""
        if self.answer.refused:
            return None
        try:
            found = sensitivity(workload_of(self.answer.inputs.case))
        except CostModelError:
            return None
        return replace(found, asked=workload_of(self.asked))

    @functools.cached_property
    def choices(self) -> list[Ranked]:
        """Alternative plans that a page offers; empty if no plan of the search fits."""
        return best_plans_by_axes(self.asked) if self.found is not None and self.found.best else []

    @property
    def measured(self) -> list[Compared]:
        """Published measured runs on the scenario's accelerator."""
        return published_runs_on(self.asked.accelerator.name)


def with_plan_of(case: ResolvedScenario, found: TrainingSearch) -> ResolvedScenario:
    """The scenario with the best plan of its search; a fault where none fits."""
    plan = plan_of_row(found.best[0]) if found.best else own_or_best_plan(case)
    return replace(case, scenario=case.scenario.model_copy(update={"plan": plan}))


def published_runs_on(accelerator: str) -> list[Compared]:
    """Published runs on an accelerator with their predictions: step times first, then FLOP rates."""
    reader = DocumentReader()
    tables = (reader.document("measured", name) for name in names("measured"))
    asked = (table for table in tables if _may_be_on(accelerator, table, reader))
    figures = [figure for table in asked for figure in compared(table, "time", accelerator)]
    modelled = [figure for figure in figures if figure.error is not None and figure.quantity in OF_STEPS]
    return sorted(modelled, key=lambda figure: figure.quantity != "step_time")


def _may_be_on(accelerator: str, table: MeasuredTable, reader: DocumentReader) -> bool:
    """Whether a measured document has steps, and possibly runs on this accelerator."""
    if not any(getattr(run.measured, name) is not None for run in table.runs for name in OF_STEPS):
        return False
    nodes = [at(table.scenario, "cluster.node")]
    for change in itertools.chain.from_iterable(map(listed, (table.set, *(run.set for run in table.runs)))):
        if change.path == "cluster.node":
            nodes.append(change.value)
        elif change.path in ("cluster", "cluster.node.accelerator"):
            return True
    return any(not isinstance(node, str) or accelerator_of(node, reader) == accelerator for node in nodes)
