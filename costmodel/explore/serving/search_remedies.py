"""Remedies for a serving search in which no plan meets every limit; each was found by a search."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from costmodel.documents.keys.overrides import path_of
from costmodel.documents.reader.load_scenario import vary_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.element_types import stored_types
from costmodel.estimate.serving.operating_point import least_budget
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.estimate.serving.replicas_for_load import share_of_saturation
from costmodel.estimate.serving.service_limits import OWN, service_limits
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.explore.search.cheapest_changes import Remedy
from costmodel.explore.search.required_chance import preferring
from costmodel.explore.search.scenario_variants import Variants
from costmodel.explore.serving.best_fleets import (
    LARGEST,
    both_sizes,
    fewest_gpus,
    search_remedy,
    smaller_fleet,
    smallest_cluster,
)
from costmodel.explore.serving.best_layout import asked_case, settings_at
from costmodel.explore.serving.fleet_size import sizes_of_cluster
from costmodel.explore.serving.remedy_trials import RemedyTrials, Settings, unloaded, works
from costmodel.explore.serving.search_layouts import search
from costmodel.explore.serving.serving_search_result import (
    Offers,
    RankedPlan,
    SearchRemedy,
    ServiceSearch,
    inputs_of_service,
    limit_misses,
)
from costmodel.ground.errors import CostModelError
from costmodel.ground.units import significant

# --- another plan, or more accelerators with one, that answer a load which a plan of a service does not


def fleet_remedies(trials: RemedyTrials) -> list[Remedy]:
    """The plan on the fewest accelerators; if those are too many or not safe enough, with narrower weights or a lower
    rate."""
    case = _without_held_plan(trials.answer.inputs.case)
    now = float(trials.answer.inputs.ranks)
    best = trials.fewest_gpus(case)
    offered, most = [], math.inf
    if best is not None:
        offered, most = [as_settings(case, best)], best.costs["gpus"] if trials.is_safe(best.costs[OWN]) else math.inf
    if most > now:
        narrowed = [each for kind in narrower(case)[:1] for each in kind]
        for settings in narrowed:
            narrow = serving(vary_any(case, settings))
            fewer = None if trials.tried(settings).works else trials.fewest_gpus(narrow)
            plan = () if fewer is None or fewer.costs["gpus"] > most else as_settings(narrow, fewer)
            offered.append((*settings, *plan))
        if not narrowed and case.scenario.workload.rate is not None:
            offered += _at_lower_rate(trials, case)
    return [kind for settings in offered if (kind := trials.kind([settings], 1, works)) is not None]


def _at_lower_rate(trials: RemedyTrials, case: ServingCase) -> Iterator[Settings]:
    """Settings for the highest rate that a plan can serve on the cluster."""
    found = trials.highest_rate(case)
    within = 0.0 if found is None else with_room(inputs_of(case), found.costs)
    if found is not None and within > 0:
        yield (*rate_setting(within), *as_settings(case, found))


def in_smaller_cluster(trials: RemedyTrials, needed: float) -> Iterator[Settings]:
    """Settings for a plan that needs fewer accelerators for the load than this one."""
    case, now = _without_held_plan(trials.answer.inputs.case), float(trials.answer.inputs.ranks)
    found = trials.fewest_gpus(case, min(needed - 1.0, LARGEST)) if now < needed - 1.0 else None
    if found is not None and found.costs["gpus"] > now:
        yield as_settings(case, found)


def _without_held_plan(case: ServingCase) -> ServingCase:
    """The case without plan keys of the command line, so that a search may change them."""
    return replace(case, assignments=tuple(each for each in case.assignments if not path_of(each).startswith("plan")))


def as_settings(case: ServingCase, plan: RankedPlan) -> Settings:
    """Settings for a plan, and for a larger cluster if it needs one."""
    sizes, gpus = sizes_of_cluster(case), plan.costs["gpus"]
    larger = sizes.settings(sizes.number(gpus)) if gpus > float(inputs_of(case).ranks) else ()
    inputs = inputs_of(serving(vary_any(case, larger)))
    found = settings_at(Variants(inputs, inputs_of_service), plan)
    return (*larger, *(f"{path}={value}" for path, value in found.items()))


def narrower(case: ServingCase) -> list[Iterator[Settings]]:
    """Settings that halve the bytes of weights, or of the cache, if the scenario does not state their type."""
    workload = case.scenario.workload
    wide = workload.precision in ("bf16", "fp16") and not any(stored_types(case))
    kinds = [key for key in ("weights", "cache") if wide and getattr(workload, key) is None]
    return [iter([(f"workload.{key}=fp8",)]) for key in kinds]


def without(settings: Settings, others: Settings) -> Settings:
    """The settings whose keys are not among the others."""
    keys = {other.partition("=")[0] for other in others}
    return tuple(setting for setting in settings if setting.partition("=")[0] not in keys)


def with_room(inputs: ServingInputs, costs: Mapping[str, float]) -> float:
    """The highest rate within limits, less the plan's headroom."""
    return share_of_saturation(inputs) * costs["rate_within_slo_per_s"]


def rate_setting(within: float) -> Settings:
    """The setting of a rate, rounded down to three digits."""
    digits = 10.0 ** (math.floor(math.log10(within)) - 2)
    return (f"workload.rate={significant(math.floor(within / digits) * digits)}/s",)


# --- what a search offers where no plan of it meets every limit


_EVERY = 100_000  # plans, of which the nearest to the limits is taken
_MOST = 3  # remedies


def with_search_remedies(found: ServiceSearch) -> ServiceSearch:
    """Adds settings with which a plan works, where no plan meets every limit with the preferred chance."""
    if (found.works and found.is_safe) or found.stopped:
        return found
    return replace(found, offers=SearchOffers(found))


class SearchOffers(Offers):
    """Remedies of a search, each computed when first asked for."""

    def __init__(self, found: ServiceSearch) -> None:
        self._found = found
        self._case = found.variants.of(found.nearest).case

    @functools.cached_property
    def _fewest(self) -> RankedPlan | None:
        return fewest_gpus(self._case)

    @functools.cached_property
    def _smallest(self) -> SearchRemedy | None:
        return smallest_cluster(self._case, self._fewest)

    @functools.cached_property
    def remedies(self) -> tuple[SearchRemedy, ...]:
        """Settings under which a plan meets every limit, at the values of the nearest plan."""
        found, case = self._found, self._case
        before, after = _longer_steps(found, case), (*narrower(case), _lower_rates(found, case))
        first = partial(_search_kind, case)
        in_order = itertools.chain(map(first, before), [self._smallest], map(first, after))
        tried_ones = [*itertools.islice(filter(None, in_order), _MOST)]
        if self._smallest is not None and not found.tally.fit and len(tried_ones) == 1:
            tried_ones += filter(None, [_narrower_on_more(case, self._smallest)])
        if not found.tally.evaluated and not tried_ones:
            longer = itertools.chain.from_iterable(_longer_steps(found, case))
            tried_ones = [*itertools.islice(filter(None, (search_remedy(case, each, fits=True) for each in longer)), 1)]
        ahead = tuple(f"{path}={value}" for path, value in found.variants.values(found.nearest).items())
        return tuple(replace(one, settings=(*without(ahead, one.settings), *one.settings)) for one in tried_ones)

    @functools.cached_property
    def alone(self) -> RankedPlan | None:
        """The plan nearest to limits that no plan keeps, even of requests one at a time."""
        return None if self.remedies else _nearest_unloaded(self._case)

    @functools.cached_property
    def smaller(self) -> RankedPlan | None:
        """Another plan that answers the rate with fewer accelerators on a larger cluster."""
        best = next(iter(self._found.best), None)
        if best is None or self._fewest is None or self._fewest.costs["gpus"] >= best.costs["gpus_needed"]:
            return None
        return None if self._smallest is None else smaller_fleet(self._found, self._case, self._smallest)

    @functools.cached_property
    def both_clusters(self) -> tuple[RankedPlan, RankedPlan] | None:
        """The plans on the smallest cluster by expected figures, and on a larger one with the preferred chance."""
        return None if self._smallest is None else both_sizes(self._found, self._case, self._fewest)


def _search_kind(case: ServingCase, kind: Iterator[tuple[str, ...]]) -> SearchRemedy | None:
    """The first settings of a kind with which a search finds a plan that meets every limit."""
    return next(filter(None, (search_remedy(case, each) for each in kind)), None)


def nearest_alone(answer: ServingAnswer) -> ServingAnswer | None:
    """The answer for single requests on the nearest plan, if no plan meets the limits even then."""
    try:
        inputs = inputs_of(serving(asked_case(answer.inputs.case)))
        alone = _nearest_unloaded(inputs.case)
    except CostModelError:
        return None
    if alone is None:
        return None
    settings = [f"{path}={value}" for path, value in settings_at(Variants(inputs, inputs_of_service), alone).items()]
    return predict(unloaded(serving(vary_any(inputs.case, settings))), bands=False)


def _longer_steps(found: ServiceSearch, case: ServingCase) -> list[Iterator[tuple[str, ...]]]:
    """Settings for chunked prefill or a larger token budget, if a prompt does not fit into a step."""
    if not found.tally.refused["L062"]:
        return []
    return list(room_for_prompts(inputs_of(case)))


def room_for_prompts(inputs: ServingInputs) -> Iterator[Iterator[tuple[str, ...]]]:
    """Settings that let long prompts fit into a step: chunked prefill, or a larger token budget."""
    yield iter([("stack.chunked=true",)])
    needed = float(np.max(least_budget(inputs.load))) + float(inputs.sequences)
    yield iter([(f"stack.budget={2 ** math.ceil(math.log2(needed))}",)])


def _nearest_unloaded(case: ServingCase) -> RankedPlan | None:
    """The nearest plan under a very low load, if no plan meets the limits even then."""
    if case.scenario.workload.rate is None:
        return None
    inputs = inputs_of(preferring(unloaded(case), None))
    found, limits = search(inputs, _EVERY, bands=False), service_limits(inputs)

    def beyond(plan: RankedPlan) -> float:
        return float(limit_misses(limits, lambda name: np.array([plan.costs[name]]), 1)[0])

    return min(found.best, key=beyond) if found.best and not found.tally.safe else None


def _narrower_on_more(case: ServingCase, wide: SearchRemedy) -> SearchRemedy | None:
    """The smallest cluster with narrower weights, if it needs fewer accelerators than with wide ones."""
    for (settings,) in map(tuple, narrower(case)[:1]):
        narrowed = serving(vary_any(case, settings))
        remedy = smallest_cluster(narrowed, fewest_gpus(narrowed))
        if remedy is not None and remedy.best.costs["gpus"] < wide.best.costs["gpus"]:
            return replace(remedy, settings=(*settings, *remedy.settings))
    return None


def _lower_rates(found: ServiceSearch, case: ServingCase) -> Iterator[tuple[str, ...]]:
    """The setting of the highest rate that a plan serves within the limits."""
    inputs = inputs_of(case)
    within = max((with_room(inputs, plan.costs) for plan in found.best), default=0.0)
    if case.scenario.workload.rate is not None and within > 0:
        yield rate_setting(within)
