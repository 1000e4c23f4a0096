"""Tries settings for a service, each once and up to a limit, with the chance to meet all limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from costmodel.documents.reader.load_scenario import vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.documents.schemas.results import without_money
from costmodel.estimate.serving.element_types import stored_types
from costmodel.estimate.serving.predict_serving import ServingAnswer, layout_of, own_plan, predict
from costmodel.estimate.serving.predict_serving import answer as answer_of
from costmodel.estimate.serving.service_limits import (
    OWN,
    asking_chance,
    demanding_chance,
    waiting_requests,
    waits_in_batch,
)
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore.search.cheapest_changes import Remedy, has_chance, safest
from costmodel.explore.serving.best_fleets import LARGEST, chance_preferred, fewest_gpus, highest_rate, layouts_that_fit
from costmodel.explore.serving.best_layout import with_best_layout
from costmodel.explore.serving.fleet_size import sizes_of_cluster
from costmodel.explore.serving.search_layouts import UNSTABLE
from costmodel.explore.serving.serving_search_result import RankedPlan
from costmodel.ground.errors import CostModelError, Fault
from costmodel.ground.record import record

# --- settings that remedies of a service try


_RARE = 1e-6  # requests a second of an engine that is empty when one comes


@record
class ServingTrial:
    """A scenario with some settings changed: its answer, or the reason why there is none."""

    settings: tuple[str, ...]
    answer: ServingAnswer | None = None
    fault: Fault | None = None
    alone: ServingAnswer | None = None  # of requests one at a time, where no number of replicas meets the limits
    one: ServingAnswer | None = None  # by which replicas are counted: up to its rates limits are kept as is preferred
    expected: ServingAnswer | None = None  # with as many replicas as expected figures need, where it has more

    @property
    def stands(self) -> bool:
        """Whether the plan is valid, fits and serves its load, regardless of limits."""
        return self.answer is not None and not self.answer.refused and not UNSTABLE & {*self.answer.broken}

    @property
    def works(self) -> bool:
        """Whether the plan also meets every limit."""
        return self.stands and self.answer is not None and not self.answer.broken

    def result(self, name: str) -> float:
        """A result of a plan that meets every limit; NaN for other plans."""
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
    """The trial of some settings, with the plan or with the best one there."""
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
    """Whether a plan is valid, fits and meets every limit."""
    return trial.works


@dataclass
class RemedyTrials:
    """The trials for one answer, by their settings, up to a number of trials.

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
        """The chance of a plan to meet all limits; None without a preference, or if it misses a limit."""
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
        """The answer with rate and replicas for the preferred chance (expected ones if disaggregated)."""
        if self.preferred is None or found.plan.prefill is not None:
            return found
        return answer_of(demanding_chance(found.inputs, self.preferred), found.plan, bands=False)

    def fewest_gpus(self, case: ServingCase, most: float = LARGEST) -> RankedPlan | None:
        """The plan on the fewest accelerators, at most `most`; None if no further fleet may be evaluated."""
        return fewest_gpus(case, most) if self._takes_fleets() else None

    def highest_rate(self, case: ServingCase) -> RankedPlan | None:
        """The plan that serves the highest rate."""
        return highest_rate(case) if self._takes_fleets() else None

    def _takes_fleets(self) -> bool:
        """Counts a search over fleets, and returns whether it is still allowed."""
        if not self.fleets:
            self.ended = True
            return False
        self.fleets -= 1
        return True

    def kind(self, settings: Iterable[Settings], most: int, enough: Enough) -> Remedy | None:
        """A remedy with the first settings that work and have the preferred chance; if none has it, the surest."""
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


# --- settings of a service to try


_GROWTH, _GROWTHS = 1.25, 8  # by which replicas grow that are too few, and how often


@record
class CacheLever:
    """A change of one key, and the resulting tokens in a replica's KV cache; 0 if it does not fit."""

    assignment: str
    tokens: float


def levers(answer: ServingAnswer) -> list[CacheLever]:
    """Changes of the KV cache: a narrower cache or weights, and twice or half the ranks of a replica."""
    return [CacheLever(each, tokens) for each, tokens in _cache_sizes_tried(answer)]


def _cache_sizes_tried(answer: ServingAnswer) -> Iterator[tuple[str, float]]:
    """Settings that change the KV-cache pool, each with the pool's tokens; 0 if the plan does not fit."""
    workload, tp = answer.inputs.case.scenario.workload, float(answer.plan.tp)
    wanted = ["workload.cache=fp8"] if workload.cache != "fp8" else []
    wide = workload.weights is None and workload.precision in ("bf16", "fp16")
    stored = any(stored_types(answer.inputs.case))
    wanted += ["workload.weights=fp8"] if wide and not stored else []
    fewer = [tp / 2] if tp > 1 and "M001" not in answer.broken else []
    wanted += [f"plan.tp={degree:g}" for degree in (*fewer, tp * 2)]
    for assignment in wanted:
        try:
            found = predict(serving(vary_any(answer.inputs.case, [assignment])), bands=False)
        except CostModelError:  # a type that the accelerator or the engine lacks
            continue
        if not found.refused:
            yield assignment, 0.0 if "M001" in found.broken else found.costs["cache_pool_tokens"]


def for_users(answer: ServingAnswer) -> Iterator[Iterator[tuple[str, ...]]]:
    """Remedies for a load that waits for answers: fewer users or requests in flight, or replicas for all."""
    workload, replicas = answer.inputs.case.scenario.workload, answer.costs["replicas"]
    if workload.requests is not None:
        if not waits_in_batch(answer.inputs.case):
            yield _for_all(answer, int(replicas) + 1)
        return
    name = "users" if workload.users is not None else "concurrency"
    now = float(getattr(workload, name) or 0.0)
    most = _most_users(answer, name, now)
    if not most:
        return
    digits = 10 ** max(len(str(most)) - 2, 0)
    yield iter([(f"workload.{name}={most // digits * digits}",)])
    if answer.plan.prefill is None:
        yield _for_all(answer, math.ceil(now / (most / replicas)))


def with_room_for_all(answer: ServingAnswer) -> ServingAnswer:
    """The answer with the replicas that end the waiting, if requests wait most of their time."""
    workload = answer.inputs.case.scenario.workload
    waiting = waiting_requests(workload, answer.costs)
    if not waiting or answer.remedies or answer.plan.prefill is not None:
        return answer
    served = 1.0 - waiting / float(workload.users or workload.concurrency or waiting)
    if served <= 0:
        return answer
    found = _for_all(answer, math.ceil(answer.costs["replicas"] / served), _keeps_none_waiting)
    remedies = tuple((settings,) for settings in found)
    return replace(answer, remedies=remedies, chances=(None,) * len(remedies))


def _keeps_none_waiting(trial: ServingTrial) -> bool:
    if trial.answer is None or not trial.works:
        return False
    return not waiting_requests(trial.answer.inputs.case.scenario.workload, trial.answer.costs)


def _most_users(answer: ServingAnswer, name: str, now: float) -> int:
    """The most users, within 2 %, with which the plan meets the limits; 0 if it never does."""
    low, high = 0, round(now)
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        enough = tried(answer.inputs.case, (f"workload.{name}={middle}",), bands=False).works
        low, high = (middle, high) if enough else (low, middle)
    return low


def _for_all(
    answer: ServingAnswer, least: int, enough: Callable[[ServingTrial], bool] = works
) -> Iterator[tuple[str, ...]]:
    """Settings for about the fewest replicas that serve all users."""

    def works(count: int) -> bool:
        return enough(tried(answer.inputs.case, _with_replicas(answer, count), bands=False))

    few, many = max(least - 2, int(answer.costs["replicas"])), least + 1
    for _ in range(_GROWTHS):
        if works(many):
            break
        few, many = many, math.ceil(_GROWTH * many)
    else:
        return
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if works(middle) else (middle, many)
    yield _with_replicas(answer, many)


def _with_replicas(answer: ServingAnswer, count: int) -> tuple[str, ...]:
    """Settings for `count` replicas, and for the nodes that they need beyond those there are."""
    sizes = sizes_of_cluster(answer.inputs.case)
    number = sizes.number(count * answer.costs["gpus"] / answer.costs["replicas"])
    more_nodes = sizes.settings(number) if number > sizes.number(float(answer.inputs.ranks)) else ()
    return (f"plan.replicas={count}", *more_nodes)
