"""Bands of ranked plans, and their chance to keep the limits; only plans that are shown get them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.results import SERVING_COLUMNS
from costmodel.estimate.serving.engine_placement import crosses_domains
from costmodel.estimate.serving.measured_spreads import spreads_beyond
from costmodel.estimate.serving.predict_serving import evaluated_with_bands
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.results import number
from costmodel.explore.search.scenario_variants import Variants
from costmodel.explore.serving.serving_search_result import RankedPlan, columns_of


def with_bands(variants: Variants[ServingInputs], plans: Sequence[RankedPlan]) -> list[RankedPlan]:
    """Adds both ends of every band to plans, each under the load of its scenario."""
    found = list(plans)
    for variant in dict.fromkeys(plan.variant for plan in plans):
        places = [place for place, plan in enumerate(plans) if plan.variant == variant]
        rows = banded_plans(variants.of(variant), [plans[place] for place in places])
        for place, row in zip(places, rows, strict=True):
            found[place] = row
    return found


def banded_plans(inputs: ServingInputs, plans: Sequence[RankedPlan]) -> list[RankedPlan]:
    """Plans of one scenario with bands; disaggregated plans are evaluated by their number of prefill instances."""
    found = list(plans)
    beyond = [tuple(map(number, spreads_beyond(inputs, columns_of([plan]), plan.costs.__getitem__))) for plan in plans]
    crossing = [any(crosses_domains(inputs, half).any() for half in columns_of([plan])) for plan in plans]
    prompts = [None if plan.prefill is None else plan.prefill["replicas"] for plan in plans]
    kinds = list(zip(prompts, beyond, crossing, strict=True))
    for kind in dict.fromkeys(kinds):
        places = [place for place, other in enumerate(kinds) if other == kind]
        columns = columns_of([plans[place] for place in places])
        _, (steps, first), crosses = kind
        with np.errstate(all="ignore"):
            wider = replace(inputs, beyond=steps, beyond_first=first, crosses=crosses)
            _, results = evaluated_with_bands(wider, *columns, compared=False)
        for row, place in enumerate(places):
            whole = results.row(row) | {name: value for name, value in plans[place].costs.items() if value == value}
            found[place] = replace(plans[place], costs={name: whole[name] for name in SERVING_COLUMNS if name in whole})
    return found
