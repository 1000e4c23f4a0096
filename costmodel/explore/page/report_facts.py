"""Everything a whole report about a training scenario shows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from costmodel.documents.keys.overrides import listed
from costmodel.documents.keys.paths import at
from costmodel.documents.reader.library import accelerator_of, names, read
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.measurement import MeasuredTable
from costmodel.evidence.validate.compared_figures import Compared
from costmodel.evidence.validate.validate import compared
from costmodel.explore.compare.select_plan import planned
from costmodel.explore.page.plan_facts import PlanFacts, plan_facts
from costmodel.explore.page.reachable_plans import reachable
from costmodel.explore.search.search import TrainingSearch, search, with_remedies
from costmodel.explore.search.training_space import Ranked
from costmodel.explore.vary.sensitivity import Sensitivity, sensitivity
from costmodel.explore.workloads import workload_of
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record

FRONT = "memory_peak,step_time"
TOP = 50
Notify = Callable[[str], None]


@record
class ReportFacts:
    """A plan, the search around it, what moves it, plans to choose among, and measured runs on its accelerator."""

    plan: PlanFacts
    found: TrainingSearch | None
    sensitive: Sensitivity | None
    choices: list[Ranked]
    measured: list[Compared]


def silent(words: str) -> None:
    """Prints no progress."""


def report_facts(case: ResolvedScenario, notify: Notify = silent) -> ReportFacts:
    """A report about a scenario; one without a plan is about the best of its search."""
    notify("the page: search")
    found = _found(case)
    facts = plan_facts(with_plan(case))
    notify("the page: sensitivity")
    sensitive = None if facts.answer.refused else _sensitive(facts.answer.inputs.case, case)
    choices = reachable(case) if found is not None and found.best else []
    notify("the page: measured runs")
    return ReportFacts(facts, found, sensitive, choices, runs_on(case.accelerator.name))


def with_plan(case: ResolvedScenario) -> ResolvedScenario:
    """The scenario with the best plan of its search where it has none."""
    if case.scenario.plan is not None:
        return case
    return replace(case, scenario=case.scenario.model_copy(update={"plan": planned(case)}))


def _found(case: ResolvedScenario) -> TrainingSearch | None:
    """The search of a scenario; none where the space is empty or the objective is not known."""
    try:
        return with_remedies(search(case, TOP, pareto=FRONT))
    except CostModelError:
        if case.scenario.plan is None:
            raise
        return None


def _sensitive(planned_case: ResolvedScenario, asked: ResolvedScenario) -> Sensitivity | None:
    """What moves the step time of a plan; its scenario is the one that was asked about."""
    try:
        found = sensitivity(workload_of(planned_case))
    except CostModelError:
        return None
    return replace(found, asked=workload_of(asked))


def runs_on(accelerator: str) -> list[Compared]:
    """Every shipped run on that accelerator that is modelled, beside its prediction: step times, then FLOP rates."""
    tables = (read("measured", name) for name in names("measured"))
    found = [
        figure for table in tables if _may_be_on(accelerator, table) for figure in compared(table, "time", accelerator)
    ]
    modelled = [figure for figure in found if figure.error is not None]
    return sorted(modelled, key=lambda figure: figure.quantity != "step_time")


def _may_be_on(accelerator: str, table: MeasuredTable) -> bool:
    """Whether a run may be on that accelerator, by the nodes that a document names: its runs take longer to load."""
    nodes = [at(table.scenario, "cluster.node")]
    for change in itertools.chain.from_iterable(map(listed, (table.set, *(run.set for run in table.runs)))):
        if change.path == "cluster.node":
            nodes.append(change.value)
        elif change.path in ("cluster", "cluster.node.accelerator"):
            return True
    return any(not isinstance(node, str) or accelerator_of(node) == accelerator for node in nodes)
