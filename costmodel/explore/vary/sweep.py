"""A scenario at every combination of values of a few leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

from costmodel.documents.reader.override_case import vary
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.results import TRAINING_COLUMNS, without_money
from costmodel.estimate.evaluate.answer_facts import Facts, facts_of
from costmodel.estimate.evaluate.evaluate_plans import verdict
from costmodel.estimate.evaluate.predict import Answer
from costmodel.estimate.shared.plan_batch import Block
from costmodel.explore.compare.input_paths import leaves
from costmodel.explore.compare.select_plan import answered, by_search
from costmodel.explore.search.combinations import combinations, count_combinations, fail_without_answers
from costmodel.explore.search.named_result import shown_results
from costmodel.explore.search.progress import UNWATCHED, Watcher
from costmodel.explore.search.ranges import Axis
from costmodel.ground.errors import CostModelError, Fault
from costmodel.ground.record import record

MOST_POINTS = 100_000
SHOWN = ("step_time", "mfu", "memory_peak")


@record
class SweepPoint:
    """One combination: the settings that make it, and what came of them: results, or why there are none."""

    settings: tuple[str, ...]
    costs: dict[str, float] = field(default_factory=dict)
    plan: Block | None = None
    refused: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    values: dict[str, float | str | bool | None] = field(default_factory=dict)  # of the leaves asked for
    fault: Fault | None = None
    remarked: tuple[str, ...] = ()
    facts: Facts | None = None  # what was computed, where it could be

    @property
    def said(self) -> str:
        """Whether it fits; else the code of what is wrong."""
        if self.fault is not None:
            return self.fault.code
        return self.refused[0] if self.refused else verdict(self.costs["memory_share"])

    @property
    def works(self) -> bool:
        """Whether it is a plan one could run."""
        return not (self.fault or self.refused or self.broken)

    def result(self, name: str) -> float:
        """A result of a plan that works; not a number where it does not."""
        return self.costs.get(name, math.nan) if self.works else math.nan


@record
class Swept:
    """All combinations in the order of the axes, the last changing fastest; of a stopped sweep, the first of them."""

    case: ResolvedScenario
    axes: tuple[Axis, ...]
    shown: tuple[str, ...]
    points: tuple[SweepPoint, ...]
    best: bool = False  # plan of a search each time, instead of the scenario's own

    @property
    def total(self) -> int:
        """How many combinations there are."""
        return math.prod(len(axis.values) for axis in self.axes)


def tried(case: ResolvedScenario, settings: Sequence[str], *, best: bool = False) -> Answer | Fault:
    """The answer of one combination, or the first thing wrong with it."""
    try:
        return answered(vary(case, settings), best=best)
    except CostModelError as error:
        return error.faults[0]


def point(
    case: ResolvedScenario, settings: Sequence[str], found: Answer | Fault, paths: Sequence[str] = ()
) -> SweepPoint:
    """What is kept of one combination."""
    if isinstance(found, Fault):
        return SweepPoint(tuple(settings), fault=found)
    costs = {} if found.refused else found.evaluation.costs.row()
    costs = without_money(costs) if found.broken else costs
    known = leaves(found.inputs.case) if paths else {}
    values = {path: known[path].value if path in known else None for path in paths}
    return SweepPoint(
        settings=tuple(settings),
        costs=costs,
        plan=found.evaluation.block,
        refused=found.refused,
        broken=found.broken,
        values=values,
        remarked=() if found.refused else found.remarked,
        facts=facts_of(found.inputs.case),
    )


def sweep(
    case: ResolvedScenario, axes: Sequence[Axis], show: str = "", *, best: bool = False, pace: Watcher = UNWATCHED
) -> Swept:
    """The scenario at every combination; a fault only when none of them has an answer."""
    total = count_combinations(axes, MOST_POINTS)
    paths = [axis.path for axis in axes]
    best = by_search(case, paths, best=best)
    points = tuple(
        point(case, settings, tried(case, settings, best=best), paths)
        for settings in pace.taken(combinations(axes), total)
    )
    if len(points) == total:
        fail_without_answers(axes, [found.fault for found in points])
    return Swept(case, tuple(axes), shown_results(TRAINING_COLUMNS, show, SHOWN), points, best)
