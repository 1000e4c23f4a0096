"""The smallest cluster on which a search of a service keeps every limit, and the fewest accelerators there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from costmodel.documents.keys.overrides import path_of
from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.limits_chance import OWN
from costmodel.estimate.serving.predict_serving import REFUSALS, ServingAnswer, predict
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore.purchase.offers import Machine
from costmodel.explore.search.required_chance import preferring, stated_chance
from costmodel.explore.search.scenario_variants import Variants
from costmodel.explore.serving.best_fleets import fewest_gpus, fleets
from costmodel.explore.serving.best_layout import plan_settings, settings_at
from costmodel.explore.serving.replica_counts import sizes_of_cluster
from costmodel.explore.serving.search_layouts import search
from costmodel.explore.serving.serving_search_result import RankedPlan, SearchRemedy, ServiceSearch, inputs_of_service
from costmodel.explore.workload_interface import SmallestPlan, SmallestPlans
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record


def search_remedy(case: ServingCase, settings: tuple[str, ...], *, fits: bool = False) -> SearchRemedy | None:
    """The settings, if a search under them finds a plan that meets every limit; with `fits`, any plan.

    A plan keeps them with the headroom that its load has.
    """
    try:
        found = search(inputs_of(serving(vary_any(case, settings))), 1, bands=False)
    except CostModelError:
        return None
    kept = found.tally.safe and not found.best[0].costs["gpus_needed"] > found.best[0].costs["gpus"]
    if not kept and not (fits and found.best):
        return None
    best = found.best[0]
    of_plan = plan_settings(found, best)
    return SearchRemedy(settings, best, tuple(f"{path}={value}" for path, value in of_plan.items()))


def smallest_cluster(case: ServingCase, fewest: RankedPlan | None) -> SearchRemedy | None:
    """The smallest cluster on which a search meets every limit, or else the next larger one.

    fewest: the plan on the fewest accelerators
    """
    if fewest is None:
        return None
    sizes = sizes_of_cluster(case)
    number = max(sizes.number(fewest.costs["gpus"]), sizes.number(float(inputs_of(case).ranks)) + 1)
    return next(filter(None, (search_remedy(case, sizes.settings(each)) for each in (number, number + 1))), None)


def smallest_fleets(case: ServingCase, safe: float, most: float) -> SmallestPlans:
    """The plans on the fewest accelerators as settings of the scenario, and of just the nodes that hold them.

    Of the one with the chance that is asked for, that chance is a limit.
    """
    found = fleets(case, most, safe)

    def plan(ranked: RankedPlan | None, *demand: str) -> SmallestPlan | None:
        """A ranked plan as settings of the scenario, with the nodes that it needs."""
        if ranked is None:
            return None
        sizes = sizes_of_cluster(case)
        nodes = sizes.settings(sizes.number(ranked.costs["gpus"]))
        inputs = inputs_of(serving(vary_any(case, nodes)))
        settings = settings_at(Variants(inputs, inputs_of_service), ranked)
        every = (*nodes, *(f"{path}={value}" for path, value in settings.items()), *demand)
        return SmallestPlan(every, ranked.costs["gpus"], ranked.costs[OWN], ranked.binding)

    safely = plan(found.safe, *([f"limits.{OWN}.at_least={safe:g}"] if safe else []))
    every = plan(found.expected), safely, found.highest, found.codes, found.fault, found.missed
    return SmallestPlans(*every, found.layouts)


@record
class ServedOn:
    """A service on the fewest accelerators of a kind that hold its model and answer its load.

    answer: there, none where no number of them does; why: the reason
    """

    machine: Machine
    answer: ServingAnswer | None = None
    why: str = ""

    @property
    def context(self) -> float:
        """Tokens of the longest request that the model and the cache of a replica take."""
        if self.answer is None:
            return math.nan
        layout = self.answer.evaluation.layout
        held = self.result("cache_pool_tokens") / float(np.max(layout.dp_attention))
        return min(held, float(self.answer.inputs.model.max_sequence))

    @property
    def weights(self) -> float:
        """Bytes of the most loaded accelerator."""
        return math.nan if self.answer is None else float(np.max(self.answer.evaluation.memory.weights))

    def result(self, name: str) -> float:
        """A result; not a number where there is none."""
        return math.nan if self.answer is None else self.answer.costs.get(name, math.nan)

    @property
    def most(self) -> float:
        """Tokens a second that all its replicas generate at most."""
        return (
            math.nan
            if self.answer is None
            else self.result("saturation_per_s") * float(self.answer.inputs.load.generated)
        )


def served_on(case: ServingCase, machines: Iterable[Machine], most: float) -> Iterator[ServedOn]:
    """The service on each machine, with at most `most` accelerators."""
    for machine in machines:
        try:
            varied = serving(vary_any(case, machine.settings))
            plans = smallest_fleets(varied, 0.0, most)
            if plans.fault is not None:
                raise CostModelError(plans.fault)
            if plans.expected is None:
                yield ServedOn(machine, why=", ".join(f"{code} {REFUSALS[code].title}" for code in plans.codes))
                continue
            held = serving(vary_any(varied, plans.expected.settings))
            yield ServedOn(machine, predict(held, bands=False, limited=False))
        except CostModelError as error:
            yield ServedOn(machine, why=f"{error.faults[0].code} {error.faults[0].with_near_word}")


def both_sizes(
    found: ServiceSearch, case: ServingCase, safe: RankedPlan | None
) -> tuple[RankedPlan, RankedPlan] | None:
    """The fewest accelerators by expected figures, and those that have the chance asked for; None if as many.

    safe: the plan on the fewest accelerators
    """
    stated = f"limits.{OWN}."  # of --safe; that of a file is no choice
    others = tuple(change for change in case.changes if not path_of(change).startswith(stated))
    demanded = stated_chance(case) is not None
    plain = serving(vary_any(replace(case, changes=others), ())) if demanded else case
    if (found.safe is None and not demanded) or stated_chance(plain) is not None:
        return None
    expected = fewest_gpus(preferring(plain, None)) if safe is not None else None
    if safe is None or expected is None or expected.costs["gpus"] >= safe.costs["gpus"]:
        return None
    return expected, safe


def smaller_fleet(found: ServiceSearch, case: ServingCase, cluster: SearchRemedy) -> RankedPlan | None:
    """The plan with the fewest accelerators on a larger cluster, where the best plan here needs more."""
    if case.scenario.workload.rate is None or not found.best:
        return None
    there = search(inputs_of(serving(vary_any(case, (*cluster.settings, "objective=gpus_needed")))), 1)
    if there.best[0].broken or there.best[0].costs["gpus"] >= found.best[0].costs["gpus_needed"]:
        return None
    return replace(there.best[0], variant=found.nearest)
