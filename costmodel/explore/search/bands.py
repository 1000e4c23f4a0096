"""Error bands of ranked plans, remarks on them, and how sure their order is; only the few shown plans get bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.results import BAND_ENDS, TRAINING_COLUMNS
from costmodel.equations.run.economics import share
from costmodel.estimate.evaluate.error_band import banded, kind_errors, working
from costmodel.estimate.evaluate.evaluate_plans import evaluate, over_peak
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.plan_constraints import remarks
from costmodel.estimate.training.time.step import TrainingStep
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.explore.search.training_space import Ranked
from costmodel.ground.counts import SIZES
from costmodel.ground.equation import Number

SURE = 0.9  # chance from which one plan counts as faster than another


def unsure(chances: Sequence[float]) -> int:
    """The number of first plans that may be the fastest: those before the first that the best one surely beats."""
    return next((place for place, chance in enumerate(chances) if chance >= SURE), len(chances))


def with_bands(inputs: TrainingInputs, plans: Sequence[Ranked]) -> list[Ranked]:
    """Adds both ends of every band, and remarks, to plans; plans of one structure are evaluated together."""
    found = list(plans)
    for structure in dict.fromkeys(plan.structure for plan in plans):
        places = [place for place, plan in enumerate(plans) if plan.structure == structure]
        sizes = (np.array([plans[place].sizes[name] for place in places], dtype=np.float64) for name in SIZES)
        block = Block(structure, *sizes)
        evaluation = banded(inputs, evaluate(inputs, block))
        costs, shares = evaluation.costs, error_shares(inputs, evaluation.step)
        errors = {kind: np.broadcast_to(np.asarray(share), len(block)) for kind, share in shares.items()}
        stated = {code: np.broadcast_to(mask, len(block)) for code, mask in remarks(inputs, block)}
        stated["N011"] = over_peak(costs)
        taken, high = costs.column("memory_share"), costs.column("memory_peak_high")
        stated["N023"] = (taken <= 1) & (high * taken > costs.column("memory_peak"))
        for row, place in enumerate(places):
            ends = {name: float(costs.column(name)[row]) for name in BAND_ENDS if name in costs.columns}
            whole = plans[place].costs | ends
            remarked = tuple(code for code, mask in stated.items() if mask[row])
            found[place] = replace(
                plans[place],
                costs={name: whole[name] for name in TRAINING_COLUMNS if name in whole},
                remarked=remarked,
                errors={kind: float(share[row]) for kind, share in errors.items()},
            )
    return found


def error_shares(inputs: TrainingInputs, step: TrainingStep) -> dict[str, Number]:
    """The error of each kind as a share of the step time without the pipeline bubble."""
    whole = working(step)
    return {name: share(error, whole) for name, error in kind_errors(inputs, step).items()}
