"""What a whole report about a training scenario has beside its plan."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace

from costmodel.documents.keys.overrides import listed
from costmodel.documents.keys.paths import at
from costmodel.documents.reader.library import accelerator_of, names, read
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.measurement import MeasuredTable
from costmodel.estimate.evaluate.predict import Answer
from costmodel.evidence.validate.outcomes import Compared
from costmodel.evidence.validate.validate import OF_STEPS, compared
from costmodel.explore.compare.select_plan import planned
from costmodel.explore.page.reachable_plans import reachable
from costmodel.explore.search.search import TrainingSearch, search, with_remedies
from costmodel.explore.search.training_space import Ranked
from costmodel.explore.vary.sensitivity import Sensitivity, sensitivity
from costmodel.explore.workloads import workload_of
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record

FRONT = "memory_peak,step_time"
TOP = 50


@record
class ReportFacts:
    """The search around a training plan, what moves it, plans to choose among, and measured runs on its accelerator.

    asked: the scenario as it was asked about, which may state no plan. answer: about its plan, or the best
    """

    asked: ResolvedScenario
    answer: Answer

    @functools.cached_property
    def found(self) -> TrainingSearch | None:
        """The search; none where the space is empty or the objective is not known."""
        try:
            return with_remedies(search(self.asked, TOP, pareto=FRONT))
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
        """Plans to choose among; none where no plan of the search fits."""
        return reachable(self.asked) if self.found is not None and self.found.best else []

    @property
    def measured(self) -> list[Compared]:
        """Measured runs on its accelerator."""
        return runs_on(self.asked.accelerator.name)


def with_plan(case: ResolvedScenario) -> ResolvedScenario:
    """The scenario, with the best plan of its search if it states none."""
    if case.scenario.plan is not None:
        return case
    return replace(case, scenario=case.scenario.model_copy(update={"plan": planned(case)}))


def runs_on(accelerator: str) -> list[Compared]:
    """Shipped runs on an accelerator that are modelled, with predictions: step times, then FLOP rates."""
    tables = (read("measured", name) for name in names("measured"))
    found = [
        figure for table in tables if _may_be_on(accelerator, table) for figure in compared(table, "time", accelerator)
    ]
    modelled = [figure for figure in found if figure.error is not None and figure.quantity in OF_STEPS]
    return sorted(modelled, key=lambda figure: figure.quantity != "step_time")


def _may_be_on(accelerator: str, table: MeasuredTable) -> bool:
    """Whether runs have steps, and may be on that accelerator by the nodes that a document names: to load or predict
    them takes longer.
    """
    if not any(getattr(run.measured, name) is not None for run in table.runs for name in OF_STEPS):
        return False
    nodes = [at(table.scenario, "cluster.node")]
    for change in itertools.chain.from_iterable(map(listed, (table.set, *(run.set for run in table.runs)))):
        if change.path == "cluster.node":
            nodes.append(change.value)
        elif change.path in ("cluster", "cluster.node.accelerator"):
            return True
    return any(not isinstance(node, str) or accelerator_of(node) == accelerator for node in nodes)
