"""The plan that meets every limit on the fewest accelerators, and the one that answers most on those that there are.

Both take a few evaluations of all layouts at once, where a search for each size of the cluster takes seconds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.constraints import invalid
from costmodel.estimate.serving.engine_memory import memory_use
from costmodel.estimate.serving.engine_placement import with_straddling
from costmodel.estimate.serving.evaluate_layouts import ServingEvaluation, evaluate
from costmodel.estimate.serving.limits_chance import OWN, asking_chance, demanding_chance
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.predict_serving import unacceptable
from costmodel.estimate.serving.replicas_for_load import replicas_for_load, without_headroom
from costmodel.estimate.serving.service_limits import waits_in_batch
from costmodel.estimate.serving.serving_band import is_unmeasured
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.estimate.shared.limits import stated_limits
from costmodel.explore.safety import preferred_chance
from costmodel.explore.serving.cluster_sizes import sizes_of_cluster
from costmodel.explore.serving.found_plans import RankedPlan
from costmodel.explore.serving.layout_candidates import candidates
from costmodel.explore.serving.search_layouts import ranked_plan
from costmodel.ground.errors import CostModelError

LARGEST = 1024.0  # accelerators of the largest cluster that a remedy names
_LARGER = 4.0  # times the accelerators of the smallest replica that fits, which others have at most
_LIKELY = 0.5  # chance to meet all limits of a plan that is offered where none has the preferred one: even odds
_COUNTED = 16  # layouts whose replicas are counted at the load itself, of those that need the fewest accelerators
_COUNTS = np.unique(np.concatenate([np.arange(1.0, 17.0), np.round(1.25 ** np.arange(13, 32))]))


def chance_preferred(inputs: ServingInputs) -> float | None:
    """The chance to meet all limits that plans of a service should have; None where expected figures rule."""
    return None if is_unmeasured(inputs) else preferred_chance(inputs.case)


def fewest_gpus(case: ServingCase, most: float = LARGEST) -> RankedPlan | None:
    """The plan on the fewest accelerators, of so many at most, that has the preferred chance.

    Where none has it, the surest plan; None where no plan meets all limits with even odds.
    """
    if waits_in_batch(case):
        return None
    sizes = sizes_of_cluster(case)
    try:
        settings = sizes.settings(sizes.number(most))
        inputs = inputs_of(serving(vary_any(case, settings)))
        layout = that_fit(inputs, candidates(inputs))
    except CostModelError:
        return None
    safe = chance_preferred(inputs)
    with np.errstate(all="ignore"):
        layout = _that_may_keep_limits(inputs, layout, most)
        if not len(layout):
            return None
        if safe is None:
            return _fewest(inputs, layout, most, None, least=0.0)
        return _fewest(inputs, layout, most, safe, least=safe) or _fewest(inputs, layout, most, None, least=_LIKELY)


def _fewest(
    inputs: ServingInputs, layout: PlanColumns, most: float, share: float | None, *, least: float
) -> RankedPlan | None:
    """The plan on the fewest accelerators with at least such a chance, or the surest one where even odds suffice.

    share: chance by which replicas are counted; None by expected figures
    """
    found, needed = _counted(inputs, layout, share)
    chance, gpus = found.results.column(OWN), found.results.column("gpus")
    good = _keeps_all(inputs, found) & (gpus <= most)
    rows = np.flatnonzero(good & (chance >= least) if least else good)
    if not len(rows):
        return None
    below = np.asarray(found.layout.replicas) < needed
    surest_first = share is None and least > 0
    keys = (gpus, below, -chance) if surest_first else (-chance, gpus, below)  # the last one decides first
    return ranked_plan(found, int(rows[np.lexsort([key[rows] for key in keys])[0]]), {})


def highest_rate(case: ServingCase) -> RankedPlan | None:
    """The plan that answers the highest rate within the limits with the preferred chance; None where none fits."""
    inputs = inputs_of(case)
    safe = chance_preferred(inputs)
    try:
        layout = that_fit(inputs, candidates(inputs))
    except CostModelError:
        return None
    if not len(layout):
        return None
    with np.errstate(all="ignore"):
        found = evaluate(inputs if safe is None else demanding_chance(inputs, safe), layout)
    return ranked_plan(found, int(np.argmax(found.results.column("rate_within_slo_per_s"))), {})


def that_fit(inputs: ServingInputs, layout: PlanColumns) -> PlanColumns:
    """Valid layouts that fit into memory, of replicas that are not much larger than they must be; without any time."""
    kept = np.ones(len(layout), dtype=bool)
    for _, mask in invalid(inputs, layout):
        kept &= ~mask
    layout = layout.at(kept)
    if not len(layout):
        return layout
    with np.errstate(all="ignore"):
        memory = memory_use(inputs, *with_straddling(inputs, layout))
    layout = layout.at(np.broadcast_to(np.asarray(memory.least <= memory.allowed), (len(layout),)))
    ranks = np.asarray(layout.ranks)
    return layout.at(ranks <= _LARGER * np.min(ranks, initial=np.inf))


def _that_may_keep_limits(inputs: ServingInputs, layout: PlanColumns, most: float) -> PlanColumns:
    """Layouts that keep each bound with one replica, or with as many as the accelerators hold: between these, results
    lie between what they are at both.
    """
    count = len(layout)
    if not count:
        return layout
    counts = np.concatenate([np.ones(count), np.maximum(np.floor(most / np.asarray(layout.ranks)), 1.0)])
    both = replace(layout.at(np.tile(np.arange(count), 2)), replicas=counts)
    results, kept = evaluate(inputs, both, counted=False).results, np.ones(count, dtype=bool)
    for limit in stated_limits(inputs.case.scenario.limits):
        if limit.kind != "target" and limit.column != OWN:
            kept &= limit.kept(results.column(limit.column)).reshape(2, count).any(axis=0)
    return layout.at(kept)


def _counted(
    inputs: ServingInputs, layout: PlanColumns, share: float | None
) -> tuple[ServingEvaluation, NDArray[np.float64]]:
    """Layouts under the load with replicas that may keep the limits with a chance, and how many the load needs."""
    if inputs.case.scenario.workload.rate is None:
        rows, counts = (each.ravel() for each in np.meshgrid(np.arange(len(layout)), _COUNTS, indexing="ij"))
        needed = counts
    else:
        found = evaluate(inputs if share is None else demanding_chance(inputs, share), layout).results
        each = found.column("rate_within_slo_per_s") / np.asarray(layout.replicas)
        many, tight = found.column("replicas_needed"), np.asarray(replicas_for_load(without_headroom(inputs), each))
        fewest = np.argsort(many * np.asarray(layout.ranks), kind="stable")[:_COUNTED]
        fewest = fewest[np.isfinite(many[fewest])]
        counts = np.concatenate([many[fewest], many[fewest] + 1.0, tight[fewest]])
        rows, needed = np.tile(fewest, 3), np.tile(many[fewest], 3)
    some = replace(layout.at(rows.astype(np.intp)), replicas=np.maximum(counts, 1.0))
    return evaluate(asking_chance(inputs), some), needed


def _keeps_all(inputs: ServingInputs, found: ServingEvaluation) -> NDArray[np.bool_]:
    good = np.ones(len(found.layout), dtype=bool)
    for _, mask in unacceptable(inputs, found):
        good &= ~mask
    return good
