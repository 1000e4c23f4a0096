"""Examples of refused plans: one plan for each reason."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from costmodel.estimate.evaluate.evaluate_plans import evaluate
from costmodel.estimate.evaluate.limit_checks import unacceptable
from costmodel.estimate.shared.plan_batch import Block, one_row
from costmodel.estimate.training.constraints.plan_constraints import CHECKS
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.explore.search.search import NO_PRECISION, TrainingSearch
from costmodel.explore.search.search_space import candidates, grids
from costmodel.explore.search.training_space import NOT_SAFE, Ranked
from costmodel.ground.plan_sizes import SIZES


def examples(found: TrainingSearch) -> dict[str, Ranked]:
    """The first plan of the space for each counted reason; stops when there is one for each."""
    wanted = {code for code, count in found.tally.refused.items() if count and code != NO_PRECISION}
    shown: dict[str, Ranked] = {}
    for variant in (part.number for part in found.parts if part.fault is None):
        inputs = found.inputs_of(variant)
        for block in itertools.chain.from_iterable(map(candidates, grids(inputs))):
            if wanted <= shown.keys():
                return shown
            for code, refused in _refused(inputs, block, wanted - shown.keys(), found.safe):
                shown.setdefault(code, _example(inputs, refused, code, variant))
    return shown


def _refused(
    inputs: TrainingInputs, block: Block, missing: set[str], safe: float | None
) -> Iterator[tuple[str, Block]]:
    """The rows of a block by their first reason."""
    for check in CHECKS:
        broken = check.refused(inputs, block)
        if broken.any():
            yield check.code, block.at(broken)
            block = block.at(~broken)
    if not len(block) or not missing.difference(check.code for check in CHECKS):
        return
    keep = np.ones(len(block), dtype=bool)
    costs = evaluate(inputs, block).costs
    risky = () if safe is None else ((NOT_SAFE, costs.column("fit_chance") < safe),)
    for code, broken in (*unacceptable(inputs, costs), *risky):
        if (keep & broken).any():
            yield code, block.at(keep & broken)
        keep &= ~broken


def _example(inputs: TrainingInputs, refused: Block, code: str, variant: int) -> Ranked:
    sizes = {name: float(getattr(refused, name)[0]) for name in SIZES}
    valid = code not in {check.code for check in CHECKS}
    costs = evaluate(inputs, one_row(refused.structure, **sizes)).costs.row() if valid else {}
    return Ranked(refused.structure, sizes, costs, 0.0, variant)
