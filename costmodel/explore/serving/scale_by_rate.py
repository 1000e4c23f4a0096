"""Scales a service by its request rate: as many replicas as meet every limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from costmodel.documents.reader.load_scenario import vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.documents.schemas.serving import LOADS, ServingPlan
from costmodel.estimate.serving.evaluate_layouts import evaluate
from costmodel.estimate.serving.load import loads_under_cap
from costmodel.estimate.serving.measured_spreads import is_unmeasured
from costmodel.estimate.serving.predict_serving import ServingAnswer, answer, own_plan
from costmodel.estimate.serving.replica_capacity import capacity_at_any_load
from costmodel.estimate.serving.replicas_for_load import replicas_for_load
from costmodel.estimate.serving.service_limits import OWN, asking_chance
from costmodel.estimate.serving.serving_error_band import outside_any_fit
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.estimate.shared.results import number
from costmodel.explore.purchase.smallest_size import trial_of_answer
from costmodel.explore.search.rank import Watcher
from costmodel.explore.search.required_chance import demand_of, preferred_chance
from costmodel.explore.search.value_ranges import doubled_to_end, rates_of, values_of
from costmodel.explore.serving.best_layout import by_search, plan_settings, with_best_layout
from costmodel.explore.serving.fleet_size import counts_needed, gpus_of, settings_of
from costmodel.explore.serving.remedy_trials import ServingTrial, tried, without_load
from costmodel.explore.serving.search_layouts import search, valid_layouts
from costmodel.explore.workload_interface import SizedTrial, Trial, Workload
from costmodel.ground.errors import CostModelError, Fault, fail
from costmodel.ground.record import record
from costmodel.ground.units import significant

_NEARLY = 1e-3  # of a chance, by which the solvers behind it may differ
_EVERY, _TRIED = 100_000, 3  # plans, of which so many with the fewest accelerators are tried


@record
class FewerGpus:
    """Settings of a plan that needs fewer accelerators, and how many at a rate."""

    settings: dict[str, str]
    trial: ServingTrial


def fewer_gpus(case: ServingCase, trials: Sequence[ServingTrial]) -> FewerGpus | None:
    """A plan of a search that meets every limit at the highest rate with fewer accelerators than the scaled plan."""
    kept = next((trial for trial in reversed(trials) if trial.works), None)
    if kept is None or kept.answer is None or kept.answer.plan.prefill is not None:
        return None
    most = kept.answer.costs["gpus"]
    try:
        inputs = inputs_of(serving(vary_any(case, kept.settings[:1])))
        if not _may_take_fewer(inputs, most):
            return None
        found = search(inputs, _EVERY, bands=False)
    except CostModelError:
        return None
    fewer = [plan for plan in found.best if plan.prefill is None and plan.costs["gpus_needed"] < most]
    rate = kept.settings[0].partition("=")[2]
    for plan in sorted(fewer, key=lambda each: each.costs["gpus_needed"])[:_TRIED]:
        settings = {path: value for path, value in plan_settings(found, plan).items() if path != "plan.replicas"}
        if not settings or not math.isfinite(plan.costs["gpus_needed"]):
            continue
        held = serving(vary_any(case, [f"{path}={value}" for path, value in settings.items()]))
        trial = at_rate(held, rate, {})
        if trial.works and trial.answer is not None and trial.answer.costs["gpus"] < most:
            return FewerGpus(settings, trial)
    return None


def _may_take_fewer(inputs: ServingInputs, most: float) -> bool:
    """Whether any layout may have the preferred chance with fewer accelerators than `most`.

    This is known sooner than each layout's rate with that chance, and the chance rises with the replicas.
    """
    safe, space = preferred_chance(inputs.case), inputs.case.scenario.search
    shared = loads_under_cap(inputs) is not None or inputs.depends_on_count or inputs.beginnings
    if safe is None or shared or is_unmeasured(inputs) or (space is not None and space.disaggregated):
        return True
    layout = valid_layouts(inputs)[1]
    counts = np.floor((most - 1.0) / np.asarray(layout.ranks))
    fleets = replace(layout, replicas=counts).at(counts >= 1)
    if not len(fleets):
        return False
    with np.errstate(all="ignore"):
        chances = evaluate(asking_chance(inputs), fleets).results.column(OWN)
    return bool(np.any(chances > safe - _NEARLY))


RATE = "workload.rate"
_FOUND_WITHIN = 1e-4  # of the highest rate that meets the limits, which is found between points of a table
_MOST_MORE = 3  # instances of each kind that are added for the preferred chance
_SET_RATE = "--set workload.rate="


@record
class RateSizes:
    """The scenario's plan (or the best one) at each rate, with as many replicas and nodes as meet every limit."""

    asked: Workload
    rates: tuple[str, ...]
    best: bool
    is_assumed: bool  # whether the rates are those around the scenario's own
    name: ClassVar[str] = RATE
    varied: ClassVar[tuple[str, ...]] = ("cluster.nodes", RATE)
    shown_results: ClassVar[tuple[str, ...]] = (
        "replicas",
        "gpus",
        "nodes",
        "tpot",
        "ttft_p99",
        "limits_chance",
        "cost_per_mtoken",
        "rent_per_month",
    )
    drawn_result: ClassVar[str] = "gpus"
    throughput_result: ClassVar[str] = "requests_per_s"
    time_result: ClassVar[str] = ""
    terms: ClassVar[tuple[str, ...]] = ()

    @property
    def words(self) -> str:
        """A note on assumed rates; empty where the user stated the rates."""
        return "rates around workload.rate; --rate '2..16 /s' sets others" if self.is_assumed else ""

    @property
    def count(self) -> int:
        """The number of rates."""
        return len(self.rates)

    def throughput_per_accelerator(self, costs: Mapping[str, float], size: float) -> float:
        """Not a number: replicas do not slow each other down."""
        return math.nan

    def rows(self, pace: Watcher) -> Iterator[SizedTrial]:
        """Evaluates one rate after the other."""
        case, known = serving(self.asked.case), Counted()
        for rate in pace.taken(self.rates, len(self.rates)):
            found = at_rate(case, rate, {} if self.best else known, best=self.best)
            if found.answer is None:
                yield SizedTrial(math.nan, self._point(found), rate, more=found)
                continue
            size = float(found.answer.inputs.case.scenario.workload.rate or 0.0)
            yield SizedTrial(size, self._point(found), rate, found.answer.assumed, more=found)

    def _point(self, found: ServingTrial) -> Trial:
        """The short result at a rate; if no number of replicas meets the limits, the reasons for a single request."""
        if found.answer is None:
            return Trial(found.settings, None if found.fault is None else _at_option(found.fault))
        point = trial_of_answer(self.asked.for_case(found.answer.inputs.case), found.settings, found.answer)
        return point if found.alone is None else replace(point, kept=None, broken=found.alone.broken)

    def further_results(self, rows: Sequence[SizedTrial]) -> object:
        """Another plan that takes fewer accelerators, unless the best is used at each rate."""
        return None if self.best else fewer_gpus(serving(self.asked.case), [*map(trial_at, rows)])


def trial_at(row: SizedTrial) -> ServingTrial:
    """The trial of a row."""
    assert isinstance(row.more, ServingTrial)
    return row.more


def rate_sizes(asked: Workload, rates: str, *, best: bool) -> RateSizes:
    """The sizes at the stated rates, or at rates around the scenario's own."""
    case = serving(asked.case)
    values = rates_of(values_of(doubled_to_end(rates), "--rate", rates)) if rates else []
    held = asked.for_case(loaded_by_rate(case, values[0])) if values else asked
    return RateSizes(held, tuple(values or around_rate(case)), best, not rates)


def around_rate(case: ServingCase) -> list[str]:
    """Rates from a quarter of the stated one to four times as much; raises a fault if none is stated."""
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
    """The option that states a rate instead of another load; for users, the highest rate that they can ask."""
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
    """The scenario with a rate instead of its other load, and a remark on the replaced load."""
    workload = case.scenario.workload
    if workload.rate is not None:
        return case
    stated = _other_load(case)
    of_load = [stated, "traffic", *(["think_time"] if workload.turns == 1 else [])]
    dropped = [name for name in of_load if getattr(workload, name) is not None]
    try:
        found = serving(vary_any(case, [f"workload.rate={rate}", *(f"workload.{name}=null" for name in dropped)]))
    except CostModelError as error:
        raise CostModelError(*map(_at_option, error.faults)) from None
    named = " and ".join(f"workload.{name}" for name in dropped)
    lost = f"{named} {'have' if dropped[1:] else 'has'} no effect: --rate counts"
    return replace(found, asked=replace(found.asked, remarks=(*found.asked.remarks, lost)))


Counted = dict[tuple[str, ...], ServingAnswer]  # by which replicas are counted, by the settings that demand a chance


def at_rate(case: ServingCase, written: str, known: Counted, *, best: bool = False) -> ServingTrial:
    """The scenario's plan (or the best one) at a rate, with the replicas and nodes that meet every limit.

    known: answers that counted replicas at other rates
    """
    group, rate = _of_each(case.scenario.plan), f"{RATE}={written}"
    demand = () if is_unmeasured(inputs_of(case)) else demand_of(case)
    try:
        held = with_best_layout(vary_any(case, [rate])) if best else case
    except CostModelError as error:
        return ServingTrial((rate,), fault=error.faults[0])
    counted = _counting(held, (rate, *group), (), known)
    if counted is not None and not counted.refused and math.isfinite(counted.costs["replicas_needed"]):
        return _sized_safely(held, counted, (rate, *group), demand, known)
    trial = tried(held, [rate, *group])
    if trial.answer is None or trial.answer.refused:
        return trial
    alone = without_load(trial.answer)
    return replace(trial, alone=alone if alone.broken else None)


def _counting(
    case: LoadedScenario, settings: tuple[str, ...], demand: tuple[str, ...], known: Counted
) -> ServingAnswer | None:
    """The answer from which replicas are counted; the rate of one replica is found at one rate only."""
    asked = (*settings, *demand)
    found = _recounted(case, asked, known.get(demand)) or tried(case, asked, bands=False).answer
    known |= {} if found is None else {demand: found}
    return found


def _recounted(case: LoadedScenario, settings: Sequence[str], other: ServingAnswer | None) -> ServingAnswer | None:
    """An answer at another rate with the replicas for this one; None if one replica would serve another rate."""
    if other is None or other.refused or other.groups or other.plan.prefill is not None:
        return None
    try:
        inputs = replace(inputs_of(serving(vary_any(case, settings))), crosses=other.inputs.crosses)
    except CostModelError:
        return None
    layout, fits = other.evaluation.layout, other.costs["memory_share"] <= 1
    capacity = capacity_at_any_load(inputs, layout) if fits and loads_under_cap(inputs) is None else None
    if capacity is None or outside_any_fit(inputs, layout):
        return None
    within = capacity.kinds.of_plans(capacity.within_limits(inputs))
    return replace(other, costs=other.costs | {"replicas_needed": number(replicas_for_load(inputs, within))})


def _sized_safely(
    case: LoadedScenario,
    counted: ServingAnswer,
    settings: tuple[str, ...],
    demand: tuple[str, ...],
    known: Counted,
) -> ServingTrial:
    """The replicas for a rate with the preferred chance; if no number has it, by expected figures.

    For disaggregated plans: the expected number and a few more, since their rates with a chance take too long.
    """
    safe, apart, trials, rate = preferred_chance(case), counted.plan.prefill is not None, _Trials(case), settings[0]
    if not demand or safe is None:
        return _sized_for_rate(trials, counted, rate)
    one = counted if apart else _counting(case, settings, demand, known)
    if one is None or not math.isfinite(one.costs["replicas_needed"]):
        return _sized_for_rate(trials, counted, rate)
    trial = _sized_for_rate(trials, one, rate, safe, most=_MOST_MORE if apart else 1)
    if trial.answer is None or not trial.works or trial.answer.costs[OWN] < safe:
        return _sized_for_rate(trials, counted, rate)
    expected = _sized_for_rate(trials, counted, rate, bands=False)
    if not expected.works:
        return _sized_for_rate(trials, counted, rate)
    same = expected.answer is None or expected.answer.costs["gpus"] == trial.answer.costs["gpus"]
    return replace(trial, one=one, expected=None if same else expected.answer)


@dataclass
class _Trials:
    """The numbers of replicas that were tried, by their settings."""

    case: LoadedScenario
    made: dict[tuple[str, ...], ServingTrial] = field(default_factory=dict)

    def of(self, settings: tuple[str, ...], *, bands: bool) -> ServingTrial:
        """The trial with some settings; without bands, which take most of the time, if it was not tried with them."""
        if settings not in self.made and (bands or serving(self.case).groups):
            self.made[settings] = tried(self.case, settings)
        if settings in self.made:
            return self.made[settings]
        try:
            inputs = asking_chance(inputs_of(serving(vary_any(self.case, settings))))
            return ServingTrial(settings, answer(inputs, own_plan(inputs), bands=False))
        except CostModelError as error:
            return ServingTrial(settings, fault=error.faults[0])


def _sized_for_rate(
    tries: _Trials, found: ServingAnswer, rate: str, safe: float = 0.0, *, most: int = 1, bands: bool = True
) -> ServingTrial:
    """The replicas and nodes for a rate; a few more if rounding each replica's share breaks a limit.

    safe: the required chance to meet the limits. most: the most replicas to add
    """
    trials, case = list[ServingTrial](), tries.case
    needed = counts_needed(found.costs)
    for factor, more in (*((1.0, more) for more in range(most + 1)), (1 + _FOUND_WITHIN, 0)):
        counts = {name: math.ceil(max(count, 1.0) * factor) + more for name, count in needed.items()}
        nodes = math.ceil(gpus_of(found, counts) / float(case.node.accelerators))
        trials.append(tries.of((rate, *settings_of(counts), f"cluster.nodes={nodes}"), bands=bands))
        if trials[-1].fault is not None or (trials[-1].works and not trials[-1].result(OWN) < safe):
            return trials[-1]
    return trials[0]


def _at_option(fault: Fault) -> Fault:
    """The fault, placed at the option that states the rate."""
    place = fault.place
    if place is None or not place.text.startswith(_SET_RATE):
        return fault
    text = place.text.removeprefix(_SET_RATE).removesuffix(" /s")
    column = place.column - len(_SET_RATE) + len("--rate ")
    return replace(fault, place=replace(place, text=f"--rate {text}", column=column, width=min(place.width, len(text))))


def _of_each(plan: ServingPlan | None) -> list[str]:
    """Settings of one instance of each kind, if a plan leaves their numbers open."""
    halves = {} if plan is None else {"prefill": plan.prefill, "decode": plan.decode}
    is_open = all(half is not None and "replicas" not in half.model_fields_set for half in halves.values())
    return [f"plan.{name}.replicas=1" for name in halves] if is_open else []
