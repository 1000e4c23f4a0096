"""Another plan, or more accelerators with one, that answer a load which a plan of a service does not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from costmodel.documents.keys.overrides import path_of
from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.element_types import stored_types
from costmodel.estimate.serving.limits_chance import OWN
from costmodel.estimate.serving.replicas_for_load import share_of_saturation
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.explore.search.cheapest_changes import Remedy
from costmodel.explore.search.scenario_variants import Variants
from costmodel.explore.serving.best_fleets import LARGEST
from costmodel.explore.serving.best_layout import settings_at
from costmodel.explore.serving.remedy_trials import RemedyTrials, Settings, works
from costmodel.explore.serving.replica_counts import sizes_of_cluster
from costmodel.explore.serving.serving_search_result import RankedPlan, inputs_of_service
from costmodel.ground.units import significant


def fleet_remedies(trials: RemedyTrials) -> list[Remedy]:
    """The plan of the search's space on the fewest accelerators; where these are more than there are, or it lacks
    the preferred chance, also with narrower weights, else at the highest rate of a plan on those that there are.
    """
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
    """Settings for the highest rate that a plan answers on the cluster, with that plan."""
    found = trials.highest_rate(case)
    within = 0.0 if found is None else with_room(inputs_of(case), found.costs)
    if found is not None and within > 0:
        yield (*rate_setting(within), *as_settings(case, found))


def in_smaller_cluster(trials: RemedyTrials, needed: float) -> Iterator[Settings]:
    """Settings for a plan on fewer accelerators than this plan needs for the load."""
    case, now = _without_held_plan(trials.answer.inputs.case), float(trials.answer.inputs.ranks)
    found = trials.fewest_gpus(case, min(needed - 1.0, LARGEST)) if now < needed - 1.0 else None
    if found is not None and found.costs["gpus"] > now:
        yield as_settings(case, found)


def _without_held_plan(case: ServingCase) -> ServingCase:
    """The case without the plan keys of the command line, so that a search may change them."""
    return replace(case, assignments=tuple(each for each in case.assignments if not path_of(each).startswith("plan")))


def as_settings(case: ServingCase, plan: RankedPlan) -> Settings:
    """Settings for a plan, and for a larger cluster where it needs one."""
    sizes, gpus = sizes_of_cluster(case), plan.costs["gpus"]
    larger = sizes.settings(sizes.number(gpus)) if gpus > float(inputs_of(case).ranks) else ()
    inputs = inputs_of(serving(vary_any(case, larger)))
    found = settings_at(Variants(inputs, inputs_of_service), plan)
    return (*larger, *(f"{path}={value}" for path, value in found.items()))


def narrower(case: ServingCase) -> list[Iterator[Settings]]:
    """Settings that halve the bytes of weights, or of the cache, where the scenario does not state their type."""
    workload = case.scenario.workload
    wide = workload.precision in ("bf16", "fp16") and not any(stored_types(case))
    kinds = [key for key in ("weights", "cache") if wide and getattr(workload, key) is None]
    return [iter([(f"workload.{key}=fp8",)]) for key in kinds]


def without(settings: Settings, others: Settings) -> Settings:
    """The settings whose keys are not among the others."""
    keys = {other.partition("=")[0] for other in others}
    return tuple(setting for setting in settings if setting.partition("=")[0] not in keys)


def with_room(inputs: ServingInputs, costs: Mapping[str, float]) -> float:
    """The highest rate within limits that leaves the plan its headroom."""
    return share_of_saturation(inputs) * costs["rate_within_slo_per_s"]


def rate_setting(within: float) -> Settings:
    """The setting of a rate, rounded down to three digits."""
    digits = 10.0 ** (math.floor(math.log10(within)) - 2)
    return (f"workload.rate={significant(math.floor(within / digits) * digits)}/s",)
