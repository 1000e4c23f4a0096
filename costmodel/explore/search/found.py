"""What a search finds, whatever its workload: its best plans, and what became of all at each value that varies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Self

import numpy as np

from costmodel.explore.search.checkpoint import SearchFolder, asked_of, held
from costmodel.explore.search.engine import SearchStopped
from costmodel.explore.search.rank import Front, Plan
from costmodel.explore.search.space import Piece, Space
from costmodel.explore.search.stream import SearchOptions, SearchProgress, results, work_of
from costmodel.explore.search.tally import PlanCounts, Tally
from costmodel.explore.search.variants import Inputs, Variants
from costmodel.explore.workload import PlanAnswer
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record


@record
class PoolError:
    """The predicted KV-cache pool of one accelerator, in bytes, and its spread, which a start-up log would reveal.

    move: of the figure that plans are ranked by, where the pool is one spread smaller. ranks: accelerators that start
    """

    engine: str
    held: float
    spread: float
    move: float
    ranks: float


@record
class PlanErrors:
    """The uncertainty of the figure that plans are ranked by, and which measurements would reduce it.

    kinds: spreads by kind, which plans on one accelerator have in common, as shares of the figure. own: what plans on
    one machine and software are off beside that. ranks: accelerators that a run of the plan needs. job: those of the
    job. groups: accelerators that exchange, by kind. pool: of an engine; the band of the figure lacks it
    """

    kinds: Mapping[str, float]
    own: float
    ranks: float
    job: float
    groups: Mapping[str, float] = field(default_factory=dict)
    pool: PoolError | None = None


@dataclass
class SearchResult(Generic[Inputs, Plan]):
    """The result of a search; if stopped, for the plans so far.

    yours: the scenario's own plan. is_ranked: whether it has a place among the others. total: the work of the whole
    search. safe: the chance to work that it prefers, where no limit states one
    """

    variants: Variants[Inputs]
    tally: Tally[Plan]
    yours: PlanAnswer | None
    elapsed: float
    total: int
    stopped: bool = False
    safe: float | None = None
    is_ranked: bool = True

    @property
    def your_rank(self) -> int | None:
        """The rank of the scenario's own plan; None where it is not ranked."""
        return self.tally.better_than_yours + 1 if self.yours is not None and self.is_ranked else None

    @property
    def expected(self) -> Plan | None:
        """The best plan regardless of its chance, if it is better than the first plan that is shown."""
        return next(iter(self.tally.expected.rows), None)

    @property
    def inputs(self) -> Inputs:
        """The inputs of the scenario as it is written."""
        return self.variants.inputs

    @property
    def best(self) -> list[Plan]:
        """The best plans, best first; where none is safe, the surest first."""
        return self.tally.top.rows

    @property
    def front(self) -> Front[Plan] | None:
        """The plans that none beats in two results, where these were asked for."""
        return self.tally.front

    @property
    def parts(self) -> list[PlanCounts[Plan]]:
        """The counts of plans at each value of the keys that vary."""
        return [part for number, part in self.tally.parts.items() if number >= 0]

    @property
    def works(self) -> bool:
        """Whether any plan works, whatever its chance."""
        return self.tally.kept > 0

    @property
    def is_safe(self) -> bool:
        """Whether the best plans have the chance that the search prefers."""
        return self.safe is None or self.tally.safe > 0

    def is_risky(self, plan: Plan) -> bool:
        """Whether a plan lacks that chance."""
        return self.safe is not None and plan.costs[self.chance] < self.safe

    @property
    def chance(self) -> str:
        """The result that is the chance of a plan to work."""
        raise NotImplementedError

    @property
    def ranked_by(self) -> str:
        """The result by which plans are compared."""
        return str(self.inputs.case.scenario.objective)

    def errors(self, plan: Plan) -> PlanErrors:
        """The uncertainty of the figure of a plan that is shown."""
        raise NotImplementedError

    @property
    def nearest(self) -> int:
        """The variant of the best plan, or the first one that has plans."""
        with_plans = (part.number for part in self.parts if part.fault is None)
        return self.best[0].variant if self.best else next(with_plans, 0)

    @property
    def knee(self) -> Plan | None:
        """The knee of the front: the plan farthest from the line between its ends, each result scaled to its range;
        only among safe plans, where the search prefers these.
        """
        if self.front is None or len(self.front.rows) < 3:
            return None
        rows, named = self.front.rows, (self.front.axes.x, self.front.axes.y)
        values = np.array([[row.costs[name] for name in named] for row in rows])
        span = np.ptp(values, axis=0)
        part = (values - values[0]) / np.where(span > 0, span, 1.0)
        along = part[-1] - part[0]
        off = np.abs(along[0] * part[:, 1] - along[1] * part[:, 0])
        safe = [place for place, row in enumerate(rows) if self.safe is not None and self._is_sure(row)]
        return rows[max(safe or range(len(off)), key=lambda place: float(off[place]))]

    def _is_sure(self, plan: Plan) -> bool:
        return not plan.broken and not self.is_risky(plan)

    def first(self, count: int) -> Self:
        """A copy with only the first `count` of the best plans."""
        return replace(self, tally=replace(self.tally, top=replace(self.tally.top, rows=self.best[:count])))

    def values(self, variant: int) -> dict[str, str]:
        """The values of the swept keys in a variant."""
        return self.variants.values(variant)

    def inputs_of(self, variant: int) -> Inputs:
        """The inputs of a variant."""
        return self.variants.of(variant)


def through(
    space: Space[Inputs, Plan, Piece], variants: Variants[Inputs], tally: Tally[Plan], how: SearchOptions
) -> tuple[bool, int]:
    """Evaluates and counts all pieces of a search, with a checkpoint in a folder if named.

    Returns whether it was stopped, and the work of the whole search.

    Raises:
        CostModelError: a value is wrong, or none has a scenario
    """
    _ = how.by  # a fault of the engine comes before any work
    if how.folder is None:
        stopped, total = _counted(space, variants, tally, how, None)
    else:
        asked = asked_of(space, variants, plans=how.plans)
        with held(how.folder, asked, space, tally, plans=how.plans, resume=how.resume) as kept:
            kept.columns = space.columns(variants.inputs)
            stopped, total = _counted(space, variants, tally, how, kept)
    faults = [part.fault for part in tally.parts.values() if part.fault is not None]
    if len(faults) == len(variants):
        raise variants.at_over(CostModelError(faults[0]))
    return stopped, total


def _counted(
    space: Space[Inputs, Plan, Piece],
    variants: Variants[Inputs],
    tally: Tally[Plan],
    how: SearchOptions,
    kept: SearchFolder | None,
) -> tuple[bool, int]:
    """Accumulate every piece that is not counted yet; returns whether it was stopped early, and the whole work."""
    total, stopped = work_of(space, variants), False
    try:
        parts = kept.parts if kept else None
        for found in results(space, variants, how, total, kept.done if kept else 0, parts):
            tally.merge(found)
            if kept:
                kept.count(tally, found.evaluated)
            best = tally.top.rows[0] if tally.top.rows else None
            how.watch(SearchProgress(tally.work, total, tally.candidates, tally.evaluated, best))
    except SearchStopped:
        stopped = True
    if kept:
        kept.close(tally, complete=not stopped)
    return stopped, total
