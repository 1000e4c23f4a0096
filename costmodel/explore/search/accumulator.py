"""Accumulates the results of one search unit: the valid plans of a part of a grid, counted and ranked."""

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
from costmodel.explore.search.plan_batches import valid_blocks
from costmodel.explore.search.rank import Axes, Front, Ranked, Top
from costmodel.explore.search.search_space import PartialPlans, SubSpace
from costmodel.ground.record import record

# Takes in every block that was evaluated, and which of its plans count.
Keep = Callable[[Block, Costs, Mask], None]


@dataclass
class Accumulator:
    """The result of a search unit: counts, the best plan, and the nearest plans over memory or over a limit.

    fit: valid plans within memory. kept: those of them that also keep the limits of the scenario.
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
        """The best plan that only breaks a limit; if there is none, the plan least over its memory."""
        return self.closest.rows or self.nearest.rows

    def merge(self, other: Accumulator) -> None:
        """Add the result of another search unit."""
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
        """The same result, its plans assigned to a variant of the scenario."""
        for best in (self.top, self.nearest, self.closest, self.front):
            if best is not None:
                best.rows = [replace(row, variant=variant) for row in best.rows] if variant else best.rows
        return self


@record
class SearchQuery:
    """The query of a search unit; `bar` is the score of the scenario's own plan."""

    size: int
    bar: float = -math.inf
    axes: Axes | None = None

    def tally(self, objective: str) -> Accumulator:
        """An empty accumulator."""
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
    """Search the plans that extend some partial plans, into an accumulator; `keep_all` receives every block."""
    objective = inputs.case.scenario.objective
    for block, counts in valid_blocks(inputs, grid, rows, tally.refused):
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
