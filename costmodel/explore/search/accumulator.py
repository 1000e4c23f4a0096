"""Accumulates the results of one search unit: the valid plans of a part of a grid, counted and ranked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
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

NOT_SAFE = "M004"

# Takes in every block that was evaluated, and which of its plans count.
Keep = Callable[[Block, Costs, Mask], None]


@dataclass
class Accumulator:
    """The result of a search unit: counts, the best plans, and the nearest plans over memory or over a limit.

    fit: valid plans within memory. kept: those of them that also keep the limits of the scenario. safe: those of them
    that surely fit, by the chance that the search prefers; top and front are of these. risky: the best of the others.
    surest, surest_front: lists of the others too, as long as none is safe.
    """

    top: Top
    nearest: Top
    closest: Top
    risky: Top
    surest: Top
    front: Front | None = None
    surest_front: Front | None = None
    candidates: int = 0
    evaluated: int = 0
    fit: int = 0
    kept: int = 0
    safe: int = 0
    better_than_yours: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def missed_by_least(self) -> list[Ranked]:
        """The best plan that only breaks a limit; if there is none, the plan least over its memory."""
        return self.closest.rows or self.nearest.rows

    def merge(self, other: Accumulator) -> None:
        """Add the result of another search unit."""
        for name, best in self.lists():
            same = getattr(other, name)
            best.merge(same.rows)
            if isinstance(best, Front):
                best.thinned |= same.thinned
        self.candidates += other.candidates
        self.evaluated += other.evaluated
        self.fit += other.fit
        self.kept += other.kept
        self.safe += other.safe
        self.better_than_yours += other.better_than_yours
        self.refused.update(other.refused)

    def of_variant(self, variant: int) -> Accumulator:
        """The same result, its plans assigned to a variant of the scenario."""
        for _, best in self.lists():
            best.rows = [replace(row, variant=variant) for row in best.rows] if variant else best.rows
        return self

    def lists(self) -> Iterator[tuple[str, Top | Front]]:
        """Its lists of plans by name."""
        for name in ("top", "nearest", "closest", "risky", "surest", "front", "surest_front"):
            best = getattr(self, name)
            if best is not None:
                yield name, best

    def settle(self) -> None:
        """Take the surest plans where none is safe; else count those that are not safe as refused."""
        if self.safe:
            self.refused.update({NOT_SAFE: self.kept - self.safe} if self.kept > self.safe else {})
            self.surest.rows = []
            self.risky.rows = [row for row in self.risky.rows if row.score < self.top.rows[0].score]
        elif self.kept:
            self.top.rows = self.surest.rows
            if self.front and self.surest_front:
                self.front.rows, self.front.thinned = self.surest_front.rows, self.surest_front.thinned


@record
class SearchQuery:
    """The query of a search unit; `bar` is the score of the scenario's own plan, `safe` the preferred chance to fit."""

    size: int
    bar: float = -math.inf
    axes: Axes | None = None
    safe: float | None = None

    def tally(self, objective: str) -> Accumulator:
        """An empty accumulator."""
        return Accumulator(
            Top(self.size, objective),
            Top(1, "memory_share"),
            Top(1, objective),
            Top(1, objective),
            Top(self.size, "fit_chance"),
            Front(self.axes) if self.axes else None,
            Front(self.axes) if self.axes and self.safe is not None else None,
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
        safe = keep if wanted.safe is None else keep & (costs.column("fit_chance") >= wanted.safe)
        tally.safe += int(np.count_nonzero(safe))
        tally.better_than_yours += int(np.count_nonzero(tally.top.sign * costs.column(objective)[safe] < wanted.bar))
        tally.top.add(block, costs, safe)
        if tally.front:
            tally.front.add(block, costs, keep if "fit_chance" in (tally.front.axes.x, tally.front.axes.y) else safe)
        _add_risky(tally, block, costs, keep & ~safe)
        if not tally.kept:
            tally.nearest.add(block, costs, counts & ~keep)
            tally.closest.add(block, costs, counts & ~keep & (costs.column("memory_share") <= 1))


def _add_risky(tally: Accumulator, block: Block, costs: Costs, risky: Mask) -> None:
    """Add plans that keep the limits but may not fit: the best one, and until a plan is safe the surest ones."""
    if not risky.any():
        return
    top = tally.top
    bar = top.rows[0].score if top.rows else math.inf
    tally.risky.add(block, costs, risky & (top.sign * costs.column(top.objective) < bar))
    if not tally.safe:
        tally.surest.add(block, costs, risky)
        if tally.surest_front:
            tally.surest_front.add(block, costs, risky)
