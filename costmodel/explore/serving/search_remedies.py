"""What a search offers where no plan of it keeps every limit: settings of it, each searched before it is offered."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.limits_chance import service_limits
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.estimate.serving.unchunked_prefill import least_budget
from costmodel.explore.search.required_chance import preferring
from costmodel.explore.search.scenario_variants import Variants
from costmodel.explore.serving.best_fleets import fewest_gpus
from costmodel.explore.serving.best_layout import asked_case, settings_at
from costmodel.explore.serving.fleet_remedies import narrower, rate_setting, with_room, without
from costmodel.explore.serving.limit_misses import limit_misses
from costmodel.explore.serving.remedy_trials import unloaded
from costmodel.explore.serving.search_layouts import search
from costmodel.explore.serving.serving_search_result import (
    Offers,
    RankedPlan,
    SearchRemedy,
    ServiceSearch,
    inputs_of_service,
)
from costmodel.explore.serving.smallest_cluster import (
    both_sizes,
    search_remedy,
    smaller_fleet,
    smallest_cluster,
)
from costmodel.ground.errors import CostModelError

_EVERY = 100_000  # plans, of which the nearest to the limits is taken
_MOST = 3  # remedies


def with_search_remedies(found: ServiceSearch) -> ServiceSearch:
    """Adds settings with which a plan works, where no plan meets every limit with the preferred chance."""
    if (found.works and found.is_safe) or found.stopped:
        return found
    return replace(found, offers=SearchOffers(found))


class SearchOffers(Offers):
    """Settings of a search with which a plan works, each looked for when it is first asked for."""

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
        """Settings under which a plan keeps every limit, at the values of the nearest plan."""
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
    """The answer with one request at a time for the plan nearest to limits that no plan meets even then."""
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
    """Settings for chunked prefill or a larger budget, where a prompt does not fit into a step."""
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
    """The setting of the highest rate that a plan answers within the limits."""
    inputs = inputs_of(case)
    within = max((with_room(inputs, plan.costs) for plan in found.best), default=0.0)
    if case.scenario.workload.rate is not None and within > 0:
        yield rate_setting(within)
