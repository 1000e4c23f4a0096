"""A serving scenario with other values: along leaves, and along the rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.documents.schemas.results import SERVING_COLUMNS, without_money
from costmodel.documents.schemas.serving.serving_plan import ServingPlan
from costmodel.documents.schemas.serving.serving_workload import LOADS
from costmodel.estimate.serving.limits_chance import OWN
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.estimate.serving.predict_serving import answer as answer_of
from costmodel.estimate.serving.serving_band import is_unmeasured
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore.safety import demand_of, preferred_chance
from costmodel.explore.search.combinations import combinations, count_combinations, fail_without_answers
from costmodel.explore.search.named_result import shown_results
from costmodel.explore.search.ranges import Axis
from costmodel.explore.serving.best_layout import by_search, with_best_layout
from costmodel.explore.serving.fleets import counts_needed, gpus_of, settings_of
from costmodel.explore.serving.search_layouts import UNSTABLE
from costmodel.ground.errors import CostModelError, Fault, fail
from costmodel.ground.record import record
from costmodel.ground.units import significant

MOST_POINTS = 20_000
_RARE = 1e-6  # requests a second of an engine that is empty when one comes
_FOUND_WITHIN = 1e-4  # of the highest rate that keeps the limits, which is found between points of a table
_MOST_MORE = 3  # instances of each kind that are added for the preferred chance
_SET_RATE = "--set workload.rate="


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
        """Whether it is valid, fits and answers its load, whatever the limits."""
        return self.answer is not None and not self.answer.refused and not UNSTABLE & {*self.answer.broken}

    @property
    def works(self) -> bool:
        """Whether it keeps every limit besides."""
        return self.stands and self.answer is not None and not self.answer.broken

    def result(self, name: str) -> float:
        """A result of a plan that keeps every limit; not a number where it breaks one."""
        return math.nan if self.answer is None or not self.works else self.answer.costs.get(name, math.nan)

    @property
    def costs(self) -> dict[str, float]:
        """Its results, to compare; nothing of a plan that is not valid, and no rent of one that fails."""
        if self.answer is None or self.answer.refused:
            return {}
        return self.answer.costs if self.works and self.alone is None else without_money(self.answer.costs)

    @property
    def codes(self) -> tuple[str, ...]:
        """What speaks against it."""
        if self.fault is not None:
            return (self.fault.code,)
        if self.alone is not None:
            return self.alone.broken
        return () if self.answer is None else self.answer.refused or self.answer.broken


def remarks_of(trials: Sequence[ServingTrial]) -> list[str]:
    """The codes of remarks on all trials that have an answer, one after the other."""
    answers = (trial.answer for trial in trials)
    return [code for answer in answers if answer is not None and not answer.refused for code in answer.remarked]


@record
class SweptServing:
    """All combinations in the order of the axes, the last changing fastest."""

    case: ServingCase
    axes: tuple[Axis, ...]
    shown: tuple[str, ...]
    trials: tuple[ServingTrial, ...]
    best: bool = False  # whether each has the best plan of its own


SHOWN = ("rate_within_slo_per_s", "ttft", "ttft_p99", "tpot", "worst_gap")


def tried(case: LoadedScenario, settings: Sequence[str], *, best: bool = False, bands: bool = True) -> ServingTrial:
    """The answer with some settings and, if asked for, the best plan there; or the first thing wrong with them."""
    try:
        varied = vary_any(case, settings)
        held = serving(with_best_layout(varied) if best else varied)
        return ServingTrial(tuple(settings), predict(held, bands=bands))
    except CostModelError as error:
        return ServingTrial(tuple(settings), fault=error.faults[0])


def sweep(case: ServingCase, axes: Sequence[Axis], show: str, *, best: bool = False) -> SweptServing:
    """The scenario at every combination; a fault only when none of them has an answer."""
    count_combinations(axes, MOST_POINTS)
    best = by_search(case, best=best)
    trials = tuple(tried(case, settings, best=best) for settings in combinations(axes))
    fail_without_answers(axes, [trial.fault for trial in trials])
    return SweptServing(case, tuple(axes), shown_results(SERVING_COLUMNS, show, SHOWN), trials, best)


def around_rate(case: ServingCase) -> list[str]:
    """Rates from a quarter of the stated one to four times as much; a fault where none is stated."""
    rate = case.scenario.workload.rate
    if rate is None:
        stated = _other_load(case)
        sentence = f"a scenario that serves is scaled by its rate; this one states {stated}"
        raise fail("C010", sentence, None, _rate_in_place(case, stated))
    return [f"{float(rate) * factor:g} /s" for factor in (0.25, 0.5, 1, 2, 4)]


def _other_load(case: ServingCase) -> str:
    """The key that states the load."""
    return next(name for name in LOADS if getattr(case.scenario.workload, name) is not None)


def _rate_in_place(case: ServingCase, stated: str) -> str:
    """An option that states a rate in the place of another load.

    Of users, or of requests in flight, the most that they ask for: each as often as one does who is alone.
    """
    count = float(getattr(case.scenario.workload, stated))
    alone = () if stated == "requests" else (f"workload.{stated}=1",)
    answer = tried(case, alone, best=by_search(case, best=False), bands=False).answer
    each = math.nan if answer is None or answer.refused else answer.costs["requests_per_s"]
    rate = each * count if alone else each
    if not math.isfinite(rate) or rate <= 0:
        return "--rate 2..16 in its place"
    if not alone:
        return f"--rate {significant(rate)} in its place; costmodel search names the nodes that the load needs"
    who = f"{count:,.0f} {'users' if stated == 'users' else 'requests in flight'}"
    several = ",".join(f"{max(count * factor, 1):.0f}" for factor in (0.5, 1, 2))
    sweep = f"costmodel sweep --over workload.{stated}={several} has a row for each number"
    return f"--rate {significant(rate)} in its place, the most that {who} ask for; {sweep}"


def loaded_by_rate(case: ServingCase, rate: str) -> ServingCase:
    """The scenario with a rate in the place of another load, and a remark that this one has no effect."""
    workload = case.scenario.workload
    if workload.rate is not None:
        return case
    stated = _other_load(case)
    of_load = [stated, "traffic", *(["think_time"] if workload.turns == 1 else [])]
    dropped = [name for name in of_load if getattr(workload, name) is not None]
    try:
        found = serving(vary_any(case, [f"workload.rate={rate}", *(f"workload.{name}=null" for name in dropped)]))
    except CostModelError as error:
        raise CostModelError(*map(_at_rate, error.faults)) from None
    named = " and ".join(f"workload.{name}" for name in dropped)
    lost = f"{named} {'have' if dropped[1:] else 'has'} no effect: --rate counts"
    return replace(found, asked=replace(found.asked, remarks=(*found.asked.remarks, lost)))


def by_rate(case: ServingCase, rates: Sequence[str], *, best: bool = False) -> list[ServingTrial]:
    """The scenario's plan at each rate, or the best one there, with as many replicas and nodes as keep every limit."""
    found = []
    group, best = _of_each(case.scenario.plan), by_search(case, best=best)
    demand = () if is_unmeasured(inputs_of(case)) else demand_of(case)
    for written in rates:
        rate = f"workload.rate={written}"
        held = with_best_layout(vary_any(case, [rate])) if best else case
        counted = tried(held, [rate, *group], bands=False).answer
        if counted is not None and not counted.refused and math.isfinite(counted.costs["replicas_needed"]):
            found.append(_sized_safely(held, counted, rate, group, demand))
            continue
        trial = tried(held, [rate, *group])
        if trial.answer is not None and not trial.answer.refused:
            alone = _without_load(trial.answer)
            trial = replace(trial, alone=alone if alone.broken else None)
        found.append(trial)
    _fail_without_rates([trial.fault for trial in found])
    return found


def _sized_safely(
    case: LoadedScenario, counted: ServingAnswer, rate: str, group: Sequence[str], demand: Sequence[str]
) -> ServingTrial:
    """As many replicas as a rate needs for the preferred chance; where no number has it, by expected figures.

    Instances apart are the expected number and some more: their rates with a chance take too long.
    """
    safe, expected, apart = preferred_chance(case), _sized(case, counted, rate), counted.plan.prefill is not None
    if not demand or safe is None or not expected.works:
        return expected
    one = counted if apart else tried(case, [rate, *group, *demand], bands=False).answer
    if one is None or not math.isfinite(one.costs["replicas_needed"]):
        return expected
    trial = _sized(case, one, rate, safe, most=_MOST_MORE if apart else 1)
    if trial.answer is None or not trial.works or trial.answer.costs[OWN] < safe:
        return expected
    same = expected.answer is None or expected.answer.costs["gpus"] == trial.answer.costs["gpus"]
    return replace(trial, one=one, expected=None if same else expected.answer)


def _sized(case: LoadedScenario, found: ServingAnswer, rate: str, safe: float = 0.0, *, most: int = 1) -> ServingTrial:
    """As many replicas as a rate needs, and the nodes for them; some more where the share of each rounds up above a
    limit.

    safe: the chance to keep the limits that is needed. most: replicas that are added at most
    """
    trials = []
    needed = counts_needed(found.costs)
    for factor, more in (*((1.0, more) for more in range(most + 1)), (1 + _FOUND_WITHIN, 0)):
        counts = {name: math.ceil(max(count, 1.0) * factor) + more for name, count in needed.items()}
        nodes = math.ceil(gpus_of(found, counts) / float(case.node.accelerators))
        trials.append(tried(case, [rate, *settings_of(counts), f"cluster.nodes={nodes}"]))
        if trials[-1].fault is not None or (trials[-1].works and not trials[-1].result(OWN) < safe):
            return trials[-1]
    return trials[0]


def _fail_without_rates(faults: Sequence[Fault | None]) -> None:
    """The fault of the first rate, where every rate has one."""
    first = faults[0]
    if first is not None and all(faults):
        raise CostModelError(_at_rate(first))


def _at_rate(fault: Fault) -> Fault:
    """The same fault at the option that states the rate."""
    place = fault.place
    if place is None or not place.text.startswith(_SET_RATE):
        return fault
    text = place.text.removeprefix(_SET_RATE).removesuffix(" /s")
    column = place.column - len(_SET_RATE) + len("--rate ")
    return replace(fault, place=replace(place, text=f"--rate {text}", column=column, width=min(place.width, len(text))))


def _of_each(plan: ServingPlan | None) -> list[str]:
    """Settings of one instance of each kind, where a plan leaves open how many."""
    halves = {} if plan is None else {"prefill": plan.prefill, "decode": plan.decode}
    is_open = all(half is not None and "replicas" not in half.model_fields_set for half in halves.values())
    return [f"plan.{name}.replicas=1" for name in halves] if is_open else []


def _without_load(found: ServingAnswer) -> ServingAnswer:
    """The same plan where hardly any request meets another."""
    return answer_of(inputs_of(unloaded(found.inputs.case)), found.plan)


def unloaded(case: ServingCase) -> ServingCase:
    """The same scenario where hardly any request meets another."""
    workload = case.scenario.workload.model_copy(update={"rate": _RARE})
    return replace(case, scenario=case.scenario.model_copy(update={"workload": workload}))
