"""Plans that a reader of a page may choose among: for every four settings the best plan that has them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.results import TRAINING_COLUMNS
from costmodel.estimate.evaluate.evaluate_plans import evaluate
from costmodel.estimate.shared.plan_batch import Block, Mask
from costmodel.estimate.shared.results import Costs
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.explore.search.plan_batches import valid_blocks
from costmodel.explore.search.search_space import grids, stem
from costmodel.explore.search.training_space import Ranked
from costmodel.ground.counts import SIZES

AXES = ("tp", "pp", "micro_batch", "recompute")
MOST_CANDIDATES = 400_000  # looked at for a page; of a larger space there are no sliders
MOST_PLANS = 1_500

Key = tuple[float | str, ...]


@dataclass
class Reachable:
    """The best plan of every combination of axes, by the objective; plans that fit come before others."""

    objective: str
    plans: dict[Key, tuple[tuple[bool, float], Ranked]]

    def add(self, block: Block, costs: Costs, keep: Mask) -> None:
        """Take in the valid plans of a block."""
        scores = TRAINING_COLUMNS[self.objective].sign * costs.column(self.objective)
        too_large = costs.column("memory_share") > 1
        sizes = {name: np.asarray(getattr(block, name), dtype=np.float64) for name in SIZES}
        recompute = str(block.structure.recompute)
        for place in np.flatnonzero(keep):
            key: Key = (*(float(sizes[name][place]) for name in AXES[:-1]), recompute)
            score = (bool(too_large[place]), float(scores[place]))
            if key not in self.plans or score < self.plans[key][0]:
                plan = {name: float(values[place]) for name, values in sizes.items()}
                self.plans[key] = score, Ranked(block.structure, plan, costs.row(int(place)), score[1])


def reachable(case: ResolvedScenario) -> list[Ranked]:
    """The plans of the scenario's space, one for each combination of the axes; none of a space that is too large."""
    inputs = training_inputs(case)
    found = Reachable(case.scenario.objective, {})
    if sum(map(len, grids(inputs))) > MOST_CANDIDATES:
        return []
    _through(inputs, found)
    if len(found.plans) > MOST_PLANS:
        return []
    return [found.plans[key][1] for key in sorted(found.plans, key=str)]


def _through(inputs: TrainingInputs, found: Reachable) -> None:
    refused: Counter[str] = Counter()
    for grid in grids(inputs):
        for block, counts in valid_blocks(inputs, grid, stem(inputs, grid, refused), refused):
            found.add(block, evaluate(inputs, block).costs, counts)
