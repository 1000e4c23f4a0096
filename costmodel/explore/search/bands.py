"""Error bands of ranked plans, and remarks on them; only the few shown plans get bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from costmodel.equations.run.uncertainty import combined_error, ninetieth_percentile
from costmodel.estimate.evaluate.error_band import banded
from costmodel.estimate.evaluate.evaluate_plans import evaluate, over_peak
from costmodel.estimate.shared.plan_batch import SIZES, Block
from costmodel.estimate.shared.results import BAND_ENDS, COLUMNS
from costmodel.estimate.training.constraints.plan_constraints import remarks
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.explore.search.rank import Ranked

SCORED = ("step_time", "tokens_per_s_per_gpu", "tokens_per_s", "mfu")  # that one run of a source has of all plans


def margin(inputs: TrainingInputs) -> float:
    """Share of the best step within which the order of plans means nothing: what their bands do not have in common."""
    step = inputs.stack.spread.step
    return float(ninetieth_percentile(1.0, combined_error(step, step))) - 1


def alike(inputs: TrainingInputs, plans: Sequence[Ranked]) -> int:
    """How many of the first plans lie within that margin of the best."""
    if not plans or inputs.case.scenario.objective not in SCORED or any(plan.variant for plan in plans):
        return 0
    times = np.array([plan.costs["step_time"] for plan in plans])
    return int(np.sum(times <= times[0] * (1 + margin(inputs))))


def with_bands(inputs: TrainingInputs, plans: Sequence[Ranked]) -> list[Ranked]:
    """The same plans with both ends of every band and with remarks; plans of one structure are evaluated together."""
    found = list(plans)
    for structure in dict.fromkeys(plan.structure for plan in plans):
        places = [place for place, plan in enumerate(plans) if plan.structure == structure]
        sizes = (np.array([plans[place].sizes[name] for place in places], dtype=np.float64) for name in SIZES)
        block = Block(structure, *sizes)
        costs = banded(inputs, evaluate(inputs, block)).costs
        stated = {code: np.broadcast_to(mask, len(block)) for code, mask in remarks(inputs, block)}
        stated["N011"] = over_peak(costs)
        share, high = costs.column("memory_share"), costs.column("memory_peak_high")
        stated["N023"] = (share <= 1) & (high * share > costs.column("memory_peak"))
        for row, place in enumerate(places):
            ends = {name: float(costs.column(name)[row]) for name in BAND_ENDS if name in costs.columns}
            whole = plans[place].costs | ends
            remarked = tuple(code for code, mask in stated.items() if mask[row])
            found[place] = replace(
                plans[place], costs={name: whole[name] for name in COLUMNS if name in whole}, remarked=remarked
            )
    return found
