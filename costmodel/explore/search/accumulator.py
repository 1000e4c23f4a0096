"""What a stretch of a search finds: the legal plans that grow from the stem of a grid, counted and ranked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from costmodel.estimate.evaluate.evaluate_plans import evaluate
from costmodel.estimate.evaluate.limit_checks import TOO_LARGE, unacceptable
from costmodel.estimate.shared.masks import Mask
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.results import Costs
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.explore.search.plan_batches import legal_blocks
from costmodel.explore.search.rank import Axes, Front, Ranked, Top
from costmodel.explore.search.search_space import PartialPlans, SubSpace

# Takes in every block that was evaluated, and which of its plans count.
Keep = Callable[[Block, Costs, Mask], None]


@dataclass
class Accumulator:
    """What a stretch of a search found: counts, the best, the least over its memory, the best that only breaks a limit.

    fit: legal plans within memory; kept: those of them that keep the limits of the scenario too.
    """

    top: Top
    nearest: Top
    closest: Top
    front: Front | None = None
    candidates: int = 0
    evaluated: int = 0
    fit: int = 0
    kept: int = 0
    better_than_yours: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def missed_by_least(self) -> list[Ranked]:
        """The plan that only breaks a limit and is best, or where none is that small the one least over its memory."""
        return self.closest.rows or self.nearest.rows

    def merge(self, other: Accumulator) -> None:
        """Take in another stretch."""
        self.top.merge(other.top.rows)
        self.nearest.merge(other.nearest.rows)
        self.closest.merge(other.closest.rows)
        if self.front and other.front:
            self.front.merge(other.front.rows)
            self.front.thinned |= other.front.thinned
        self.candidates += other.candidates
        self.evaluated += other.evaluated
        self.fit += other.fit
        self.kept += other.kept
        self.better_than_yours += other.better_than_yours
        self.refused.update(other.refused)

    def of_variant(self, variant: int) -> Accumulator:
        """The same, its plans known as those of a variant of the scenario."""
        for best in (self.top, self.nearest, self.closest, self.front):
            if best is not None:
                best.rows = [replace(row, variant=variant) for row in best.rows] if variant else best.rows
        return self


@dataclass(frozen=True)
class SearchQuery:
    """What a stretch of a search is asked for; `bar` is the score of the scenario's own plan."""

    size: int
    bar: float = -math.inf
    axes: Axes | None = None

    def tally(self, objective: str) -> Accumulator:
        """An empty tally."""
        return Accumulator(
            Top(self.size, objective),
            Top(1, "memory_share"),
            Top(1, objective),
            Front(self.axes) if self.axes else None,
        )


def stretch(
    inputs: TrainingInputs,
    grid: SubSpace,
    rows: PartialPlans,
    wanted: SearchQuery,
    tally: Accumulator,
    keep_all: Keep | None = None,
) -> None:
    """Search what grows from the stem of a grid, into a tally; `keep_all` is shown everything."""
    objective = inputs.case.scenario.objective
    for block, counts in legal_blocks(inputs, grid, rows, tally.refused):
        costs = evaluate(inputs, block).costs
        if keep_all is not None:
            keep_all(block, costs, counts)
        keep = fit = counts
        for code, broken in unacceptable(inputs, costs):
            tally.refused[code] += int(np.count_nonzero(keep & broken))
            keep = keep & ~broken
            fit = keep if code in TOO_LARGE else fit
        tally.evaluated += int(np.count_nonzero(counts))
        tally.fit += int(np.count_nonzero(fit))
        tally.kept += int(np.count_nonzero(keep))
        tally.better_than_yours += int(np.count_nonzero(tally.top.sign * costs.column(objective)[keep] < wanted.bar))
        tally.top.add(block, costs, keep)
        if tally.front:
            tally.front.add(block, costs, keep)
        if not tally.kept:
            tally.nearest.add(block, costs, counts & ~keep)
            tally.closest.add(block, costs, counts & ~keep & (costs.column("memory_share") <= 1))
