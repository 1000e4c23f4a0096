"""Settings that remedies of a service try: each once, in a limited number, with their chance to meet all limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.documents.schemas.results import without_money
from costmodel.estimate.serving.limits_chance import OWN, asking_chance, demanding_chance
from costmodel.estimate.serving.predict_serving import ServingAnswer, layout_of, own_plan, predict
from costmodel.estimate.serving.predict_serving import answer as answer_of
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore.search.cheapest_changes import Remedy, has_chance, safest
from costmodel.explore.serving.best_fleets import LARGEST, chance_preferred, fewest_gpus, highest_rate, layouts_that_fit
from costmodel.explore.serving.best_layout import with_best_layout
from costmodel.explore.serving.search_layouts import UNSTABLE
from costmodel.explore.serving.serving_search_result import RankedPlan
from costmodel.ground.errors import CostModelError, Fault
from costmodel.ground.record import record

_RARE = 1e-6  # requests a second of an engine that is empty when one comes


@record
class ServingTrial:
    """A scenario with some settings: its results, or what is wrong with it."""

    settings: tuple[str, ...]
    answer: ServingAnswer | None = None
    fault: Fault | None = None
    alone: ServingAnswer | None = None  # of requests one at a time, where no number of replicas keeps the limits
    one: ServingAnswer | None = None  # by which replicas are counted: up to its rates limits are kept as is preferred
    expected: ServingAnswer | None = None  # with as many replicas as expected figures need, where it has more

    @property
    def stands(self) -> bool:
        """Whether the plan is valid, fits and answers its load, regardless of limits."""
        return self.answer is not None and not self.answer.refused and not UNSTABLE & {*self.answer.broken}

    @property
    def works(self) -> bool:
        """Whether the plan also meets every limit."""
        return self.stands and self.answer is not None and not self.answer.broken

    def result(self, name: str) -> float:
        """A result of a plan that keeps every limit; not a number where it breaks one."""
        return math.nan if self.answer is None or not self.works else self.answer.costs.get(name, math.nan)

    @property
    def costs(self) -> dict[str, float]:
        """The results to compare; empty for an invalid plan, and without rents for one that breaks a limit."""
        if self.answer is None or self.answer.refused:
            return {}
        return self.answer.costs if self.works and self.alone is None else without_money(self.answer.costs)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the reasons against the trial."""
        if self.fault is not None:
            return (self.fault.code,)
        if self.alone is not None:
            return self.alone.broken
        return () if self.answer is None else self.answer.refused or self.answer.broken


def tried(
    case: LoadedScenario,
    settings: Sequence[str],
    *,
    best: bool = False,
    bands: bool = True,
) -> ServingTrial:
    """The answer with some settings and, if asked for, the best plan there; or the first thing wrong with them."""
    try:
        varied = vary_any(case, settings)
        held = serving(with_best_layout(varied) if best else varied)
        return ServingTrial(tuple(settings), predict(held, bands=bands))
    except CostModelError as error:
        return ServingTrial(tuple(settings), fault=error.faults[0])


def without_load(found: ServingAnswer) -> ServingAnswer:
    """The answer for the plan under a load so low that requests hardly overlap."""
    return answer_of(inputs_of(unloaded(found.inputs.case)), found.plan)


def unloaded(case: ServingCase) -> ServingCase:
    """The scenario with a load so low that requests hardly overlap."""
    workload = case.scenario.workload.model_copy(update={"rate": _RARE})
    return replace(case, scenario=case.scenario.model_copy(update={"workload": workload}))


Settings = tuple[str, ...]
Enough = Callable[[ServingTrial], bool]
Kind = tuple[int, Iterable[Settings]]  # settings of one kind, and how many of these are offered at most

MOST_PLANS, MOST_FLEETS = 24, 3  # single plans, and evaluations of all layouts: half a second and one of a 3 GHz core


def works(trial: ServingTrial) -> bool:
    """Whether a plan is valid, fits and keeps every limit."""
    return trial.works


@dataclass
class RemedyTrials:
    """The plans tried for one answer, by their settings; after a number of trials, further plans are not tried.

    plans, fleets: how many single plans, and how many sets of all layouts, may still be evaluated
    """

    answer: ServingAnswer
    plans: int = MOST_PLANS
    fleets: int = MOST_FLEETS
    ended: bool = False  # whether something was not tried for want of evaluations
    made: dict[Settings, ServingTrial] = field(default_factory=dict)
    chances: dict[Settings, float] = field(default_factory=dict)
    preferred: float | None = field(init=False)

    def __post_init__(self) -> None:
        self.preferred = chance_preferred(self.answer.inputs)

    def tried(self, settings: Settings) -> ServingTrial:
        """Tries the answer's plan with some settings; each combination is evaluated once."""
        if settings not in self.made:
            self.made[settings] = self._tried(settings)
        return self.made[settings]

    def _tried(self, settings: Settings) -> ServingTrial:
        """The answer's plan with these settings; without a result if it cannot fit or no trial is left."""
        try:
            inputs = inputs_of(serving(vary_any(self.answer.inputs.case, settings)))
            plan = own_plan(inputs)
            if plan.prefill is None and not len(layouts_that_fit(inputs, layout_of(inputs, plan)[0])):
                return ServingTrial(settings)
            if not self.plans:
                self.ended = True
                return ServingTrial(settings)
            self.plans -= 1
            return ServingTrial(settings, answer_of(inputs, plan, bands=False))
        except CostModelError:
            return ServingTrial(settings)

    def chance(self, trial: ServingTrial) -> float | None:
        """The chance of a plan to meet all limits; None where none is preferred, or the plan does not keep them."""
        found = trial.answer
        if self.preferred is None or found is None or not trial.works:
            return None
        if trial.settings not in self.chances:
            asked = answer_of(asking_chance(found.inputs), found.plan, bands=False)
            self.chances[trial.settings] = asked.costs[OWN]
        return self.chances[trial.settings]

    def is_safe(self, chance: float | None) -> bool:
        """Whether a chance is the preferred one, or none is preferred."""
        return has_chance(chance, self.preferred)

    def counted_safely(self, found: ServingAnswer) -> ServingAnswer:
        """The answer with rate and replicas for the preferred chance (expected ones for disaggregated plans)."""
        if self.preferred is None or found.plan.prefill is not None:
            return found
        return answer_of(demanding_chance(found.inputs, self.preferred), found.plan, bands=False)

    def fewest_gpus(self, case: ServingCase, most: float = LARGEST) -> RankedPlan | None:
        """The plan on the fewest accelerators, at most `most`; None where fleets are not tried."""
        return fewest_gpus(case, most) if self._takes_fleets() else None

    def highest_rate(self, case: ServingCase) -> RankedPlan | None:
        """The plan that answers the highest rate."""
        return highest_rate(case) if self._takes_fleets() else None

    def _takes_fleets(self) -> bool:
        """Whether another search over fleets is allowed; counts it."""
        if not self.fleets:
            self.ended = True
            return False
        self.fleets -= 1
        return True

    def kind(self, settings: Iterable[Settings], most: int, enough: Enough) -> Remedy | None:
        """A remedy with the first settings that work and have the preferred chance; where none has it, the surest."""
        safe, others = list[Remedy](), list[Remedy]()
        for trial in map(self.tried, settings):
            if enough(trial):
                remedy = Remedy((trial.settings,), chance=self.chance(trial))
                (safe if self.is_safe(remedy.chance) else others).append(remedy)
            if len(safe) == most:
                break
        offered = safe or safest(others, self.preferred)
        return Remedy(tuple(each.settings for each in offered), chance=offered[0].chance) if offered else None

    def kinds(self, every: Iterable[Kind], most: int, enough: Enough = works) -> list[Remedy]:
        """The remedies with the preferred chance, from the first kinds that have any; else the surest."""
        safe, others = list[Remedy](), list[Remedy]()
        for values, settings in every:
            remedy = self.kind(settings, values, enough)
            if remedy is not None:
                (safe if self.is_safe(remedy.chance) else others).append(remedy)
            if len(safe) == most:
                break
        return safe or safest(others, self.preferred)

    def first_safe(self, steps: Iterable[Callable[[], list[Remedy]]]) -> list[Remedy]:
        """The remedies of the first step that has any with the preferred chance; else the surest of all."""
        found = list[Remedy]()
        for step in steps:
            found = safest([*found, *step()], self.preferred)
            if any(self.is_safe(remedy.chance) for remedy in found):
                break
        return found
