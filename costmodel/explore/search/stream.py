"""Runs a search piece by piece on workers, counts its plans, and reports progress."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, groupby, islice
from pathlib import Path
from pickle import loads
from typing import TYPE_CHECKING, Any, Generic, Self
from weakref import WeakValueDictionary

import numpy as np

from costmodel.explore.search.rank import FoundPlan, Front, Plan, PlanCounts, Tally
from costmodel.explore.search.scenario_variants import Inputs, Variants
from costmodel.explore.search.space_interface import Piece, Space
from costmodel.explore.search.worker_pools import WAIT, SearchEngine, SearchStopped, engine, shared_out
from costmodel.explore.workload_interface import PlanAnswer
from costmodel.ground.errors import CostModelError, Fault, fail
from costmodel.ground.record import record

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from costmodel.explore.search.checkpoint import Parts, SearchFolder

POOL_FROM = 1 << 22  # work; less is done before a pool has started
LARGEST_BUNDLE = 1 << 23  # work
AT_LAST = 2  # variants for each worker whose pieces are given out singly, so that all end together


@record
class SearchProgress:
    """The progress of a search: work done, plans counted, and the best plan so far."""

    done: int
    total: int
    candidates: int
    evaluated: int
    best: FoundPlan | None


@record
class SearchOptions:
    """Options of a search: engine, checkpoint folder, progress callback and cancellation check.

    wait: seconds to wait for missing workers; notify: receives a sentence while the search waits
    """

    engine: str = "local"
    workers: int | None = None
    folder: Path | None = None
    plans: bool = False
    resume: bool = False
    watch: Callable[[SearchProgress], None] = lambda sight: None
    stop: Callable[[], bool] = lambda: False
    wait: float = WAIT
    notify: Callable[[str], None] = lambda sentence: None

    @property
    def by(self) -> SearchEngine:
        """The search engine; raises a fault if it is unknown."""
        return engine(self.engine, self.workers, self.wait, self.notify)


HERE = SearchOptions(workers=1)
_most: list[int] = []  # plans of a search in a program that answers requests


def limit_searches(plans: int) -> None:
    """Restricts searches of this process: no further processes, and a fault for more than `plans` plans."""
    _most[:] = [plans]


@record
class WorkUnit(Generic[Piece]):
    """A piece of a search in one variant; for a variant without plans, the reason."""

    number: int
    variant: int
    piece: Piece | None
    work: int
    fault: Fault | None = None


def pieces(space: Space[Inputs, Plan, Piece], variants: Variants[Inputs]) -> Iterator[WorkUnit[Piece]]:
    """All pieces of a search, each of bounded size."""
    numbers = itertools.count()
    for variant in range(len(variants)):
        try:
            for piece, work in space.pieces(variants.of(variant)):
                yield WorkUnit(next(numbers), variant, piece, work)
        except CostModelError as error:
            yield WorkUnit(next(numbers), variant, None, 0, variants.fault(error, variant))


def work_of(space: Space[Inputs, Plan, Piece], variants: Variants[Inputs]) -> int:
    """The work of a search, if every variant has as much as the first."""
    for variant in range(len(variants)):
        try:
            return sum(work for _, work in space.pieces(variants.of(variant))) * len(variants)
        except CostModelError as error:
            variants.fault(error, variant)
    return 0


@record
class Task(Generic[Inputs, Plan, Piece]):
    """What all pieces of a search share."""

    space: Space[Inputs, Plan, Piece]
    parts: Parts | None

    def tally(self, variants: Variants[Inputs], unit: WorkUnit[Piece]) -> Tally[Plan]:
        """The result of a piece; its plans are also stored in the folder."""
        if unit.piece is None:
            return self._without_plans(unit, unit.fault)
        try:
            inputs = variants.of(unit.variant)
            of = {**self.space.facts(inputs), **variants.cells(unit.variant)} if self.parts else {}
            with self.parts.writing(unit.number, of) if self.parts else nullcontext() as keep:
                found = self.space.searched(inputs, unit.piece, keep)
        except CostModelError as error:
            return self._without_plans(unit, variants.fault(error, unit.variant))
        found.work = unit.work
        return found.of_variant(unit.variant)

    def _without_plans(self, unit: WorkUnit[Piece], fault: Fault | None) -> Tally[Plan]:
        found = self.space.empty()
        found.part().fault = fault
        found.work = unit.work
        return found.of_variant(unit.variant)

    def unpacked(self, packed: bytes, bundle: tuple[WorkUnit[Piece], ...]) -> list[Tally[Plan]]:
        """The results of several pieces of one variant, computed in another process."""
        variants: Variants[Inputs] = _FORKED.get(packed) or _unpack_variants(packed)
        return [self.tally(variants, unit) for unit in bundle]


_FORKED: WeakValueDictionary[bytes, Variants[Any]] = (
    WeakValueDictionary()
)  # of searches at work, as forked processes find


@lru_cache(maxsize=1)
def _unpack_variants(packed: bytes) -> Variants[Any]:
    case, make, over = loads(packed)
    return Variants(make(case), make, over)


def _as_sent(variants: Variants[Inputs], by: SearchEngine) -> bytes:
    """The variants as bytes for other processes; forked processes have them and need only a name."""
    from multiprocessing import get_start_method

    if by.kind != "local" or get_start_method() != "fork":
        return variants.packed
    name = os.urandom(16)
    _FORKED[name] = variants
    return name


def results(
    space: Space[Inputs, Plan, Piece],
    variants: Variants[Inputs],
    how: SearchOptions,
    total: int,
    done: int = 0,
    parts: Parts | None = None,
) -> Iterator[Tally[Plan]]:
    """The result of every piece in order, from piece `done` on; raises Stopped if the user stops.

    total: the work of all pieces
    """
    by = how.by
    task = Task(space, parts)
    remaining = islice(pieces(space, variants), done, None)
    if _most or (by.kind == "local" and (by.workers == 1 or total < POOL_FROM)):
        return _tally_here(variants, task, remaining, how.stop)
    packed = _as_sent(variants, by)

    def submit(pool: Executor, bundle: tuple[WorkUnit[Piece], ...]) -> Future[list[Tally[Plan]]]:
        return pool.submit(task.unpacked, packed, bundle)

    bundles = _bundles(remaining, len(variants) - AT_LAST * by.workers)
    found: Iterator[list[Tally[Plan]]] = shared_out(by, bundles, submit, how.stop)
    return chain.from_iterable(found)


def _bundles(remaining: Iterator[WorkUnit[Piece]], whole: int) -> Iterator[tuple[WorkUnit[Piece], ...]]:
    """Groups of pieces for one worker: all pieces of a small variant, and single ones at the end."""
    for _, alike in groupby(remaining, lambda piece: (piece.variant, piece.number if piece.variant >= whole else 0)):
        held: list[WorkUnit[Piece]] = []
        for piece in alike:
            if sum(other.work for other in (*held, piece)) > LARGEST_BUNDLE and held:
                yield tuple(held)
                held = []
            held.append(piece)
        yield tuple(held)


def _tally_here(
    variants: Variants[Inputs],
    task: Task[Inputs, Plan, Piece],
    remaining: Iterator[WorkUnit[Piece]],
    stop: Callable[[], bool],
) -> Iterator[Tally[Plan]]:
    """The result of each piece, computed in this process until the user stops."""
    plans = 0
    for unit in remaining:
        if stop():
            raise SearchStopped
        found = task.tally(variants, unit)
        plans += found.candidates
        if _most and plans > _most[0]:
            hint = "fix keys with settings, or use the command line, which has no limit"
            raise fail("H003", f"the search has more than {_most[0]:,} plans", None, hint)
        yield found


@record
class PoolError:
    """The predicted KV-cache size of one accelerator [B] and its spread, which a start-up log would reveal.

    move: change of the ranked result if the cache is one spread smaller. ranks: accelerators that start
    """

    engine: str
    held: float
    spread: float
    move: float
    ranks: float


@record
class PlanErrors:
    """The uncertainty of a plan's ranked result, and which measurements would reduce it.

    kinds: spreads by kind that plans on one accelerator share, as shares of the result. own: the plan's own spread.
    ranks:
    accelerators of a run of the plan. job: those of the job. groups: accelerators that exchange, by kind. pool: of an
    engine's cache, which the band of the result leaves out
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

    yours: the scenario's own plan. is_ranked: whether it has a rank. total: the work of the whole search. safe: the
    chance to work that the search prefers, if no limit states one
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
        """The best plan regardless of its chance, if it beats the first plan that is shown."""
        return next(iter(self.tally.expected.rows), None)

    @property
    def inputs(self) -> Inputs:
        """The inputs of the scenario as written."""
        return self.variants.inputs

    @property
    def best(self) -> list[Plan]:
        """The best plans, best first; where none is safe, the surest first."""
        return self.tally.top.rows

    @property
    def front(self) -> Front[Plan] | None:
        """The plans that no other plan beats in both results of --pareto; None if not asked for."""
        return self.tally.front

    @property
    def parts(self) -> list[PlanCounts[Plan]]:
        """The counts of plans at each combination of varied values."""
        return [part for number, part in self.tally.parts.items() if number >= 0]

    @property
    def works(self) -> bool:
        """Whether any plan works, whatever its chance."""
        return self.tally.kept > 0

    @property
    def is_safe(self) -> bool:
        """Whether the best plans have the preferred chance."""
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
        """The uncertainty of the ranked result of a plan."""
        raise NotImplementedError

    @property
    def nearest(self) -> int:
        """The variant of the best plan, or the first variant with plans."""
        with_plans = (part.number for part in self.parts if part.fault is None)
        return self.best[0].variant if self.best else next(with_plans, 0)

    @property
    def knee(self) -> Plan | None:
        """The plan of the Pareto front farthest from the line between its ends; among safe plans if preferred."""
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
    """Evaluates and counts all pieces of a search, with a checkpoint in a folder if one is named.

    Returns whether it was stopped, and the work of the whole search.

    Raises:
        CostModelError: a value is wrong, or no value has a scenario
    """
    _ = how.by  # a fault of the engine comes before any work
    if how.folder is None:
        stopped, total = _count_pieces(space, variants, tally, how, None)
    else:
        from costmodel.explore.search.checkpoint import asked_of, held

        asked = asked_of(space, variants, plans=how.plans)
        with held(how.folder, asked, space, tally, plans=how.plans, resume=how.resume) as kept:
            kept.columns = space.columns(variants.inputs)
            stopped, total = _count_pieces(space, variants, tally, how, kept)
    faults = [part.fault for part in tally.parts.values() if part.fault is not None]
    if len(faults) == len(variants):
        raise variants.at_over(CostModelError(faults[0]))
    return stopped, total


def _count_pieces(
    space: Space[Inputs, Plan, Piece],
    variants: Variants[Inputs],
    tally: Tally[Plan],
    how: SearchOptions,
    kept: SearchFolder | None,
) -> tuple[bool, int]:
    """Adds every piece that is not counted yet; returns whether it was stopped, and the whole work."""
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
