"""The smallest cluster on which a search of a serving scenario keeps every limit, and the fewest accelerators there."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore.serving.best_layout import plan_settings
from costmodel.explore.serving.cluster_sizes import larger, sizes_of_cluster
from costmodel.explore.serving.found_plans import FoundPlans, RankedPlan, SearchRemedy
from costmodel.explore.serving.search_layouts import search
from costmodel.ground.errors import CostModelError

_MOST = 8  # clusters that are tried


def search_remedy(case: ServingCase, settings: tuple[str, ...], *, fits: bool = False) -> SearchRemedy | None:
    """The settings, where a search under them finds a plan that keeps every limit; with fits, any plan.

    A plan keeps them with the headroom that its load has.
    """
    try:
        found = search(inputs_of(serving(vary_any(case, settings))), 1, bands=False)
    except CostModelError:
        return None
    kept = found.kept and not found.best[0].costs["gpus_needed"] > found.best[0].costs["gpus"]
    if not kept and not (fits and found.best):
        return None
    best = found.best[0]
    of_plan = plan_settings(found, best)
    return SearchRemedy(settings, best, tuple(f"{path}={value}" for path, value in of_plan.items()))


def smallest_cluster(found: FoundPlans, case: ServingCase) -> SearchRemedy | None:
    """The smallest cluster of which a search keeps every limit, looked for up to the first one that does."""
    sizes, needed = sizes_of_cluster(case), {plan.costs["gpus_needed"] for plan in found.best}
    fewest = sizes.number(float(inputs_of(case).ranks))
    most, remedy = fewest, None
    for number in larger(sizes, fewest, [gpus for gpus in needed if math.isfinite(gpus)]):
        remedy, most = search_remedy(case, sizes.settings(number)), number
        if remedy is not None:
            break
        fewest = max(fewest, number)
    while remedy is not None and most - fewest > 1:
        middle = (fewest + most) // 2
        smaller = search_remedy(case, sizes.settings(middle))
        fewest, most = (middle, most) if smaller is None else (fewest, middle)
        remedy = smaller or remedy
    return remedy


def smaller_fleet(found: FoundPlans, case: ServingCase, cluster: SearchRemedy) -> RankedPlan | None:
    """The plan that needs the fewest accelerators on a larger cluster, where the best one here needs more of them."""
    if case.scenario.workload.rate is None or not found.best:
        return None
    there = search(inputs_of(serving(vary_any(case, (*cluster.settings, "objective=gpus_needed")))), 1)
    if there.best[0].broken or there.best[0].costs["gpus"] >= found.best[0].costs["gpus_needed"]:
        return None
    return replace(there.best[0], variant=found.nearest)


def in_smaller_cluster(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """The smallest cluster that takes fewer accelerators than more replicas, with the plan of a search there."""
    case, needed = answer.inputs.case, answer.costs["gpus_needed"]
    sizes, now = sizes_of_cluster(case), float(answer.inputs.ranks)
    if not math.isfinite(needed):
        return
    for number in itertools.islice(range(sizes.number(now) + 1, sizes.number(needed)), _MOST):
        remedy = search_remedy(case, sizes.settings(number))
        if remedy is not None:
            yield (*remedy.settings, *remedy.plan)
            return
