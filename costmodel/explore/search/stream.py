"""Evaluates the pieces of a search, locally or with an engine, and yields their results in order."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from functools import lru_cache
from itertools import chain, groupby, islice
from multiprocessing import get_start_method
from pathlib import Path
from pickle import loads
from typing import Any, Generic
from weakref import WeakValueDictionary

from costmodel.explore.search.engine import WAIT, SearchEngine, SearchStopped, engine, shared_out
from costmodel.explore.search.parquet_parts import Parts
from costmodel.explore.search.rank import FoundPlan, Plan
from costmodel.explore.search.space import Piece, Space
from costmodel.explore.search.tally import Tally
from costmodel.explore.search.variants import Inputs, Variants
from costmodel.ground.errors import CostModelError, Fault, fail
from costmodel.ground.record import record

POOL_FROM = 1 << 22  # work; less is done before a pool has started
LARGEST_BUNDLE = 1 << 23  # work
AT_LAST = 2  # variants for each worker whose pieces are given out singly, so that all end together


@record
class SearchProgress:
    """The progress of a search: the work done, the plans counted, and the best plan so far."""

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
        """The search engine; a fault where it is unknown."""
        return engine(self.engine, self.workers, self.wait, self.notify)


HERE = SearchOptions(workers=1)
_most: list[int] = []  # plans of a search in a program that answers requests


def limit_searches(plans: int) -> None:
    """Restricts later searches of this process: no further processes, and a fault beyond `plans` plans."""
    _most[:] = [plans]


@record
class WorkUnit(Generic[Piece]):
    """A piece of a search in one variant; in a variant without plans, the reason."""

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
            yield WorkUnit(next(numbers), variant, None, 0, variants.fault(error))


def work_of(space: Space[Inputs, Plan, Piece], variants: Variants[Inputs]) -> int:
    """The work of a search, if every variant has as much as the first."""
    for variant in range(len(variants)):
        try:
            return sum(work for _, work in space.pieces(variants.of(variant))) * len(variants)
        except CostModelError as error:
            variants.fault(error)
    return 0


@record
class Task(Generic[Inputs, Plan, Piece]):
    """The data that all pieces of a search share."""

    space: Space[Inputs, Plan, Piece]
    parts: Parts | None

    def tally(self, variants: Variants[Inputs], unit: WorkUnit[Piece]) -> Tally[Plan]:
        """The result of a piece; its plans go into the folder, with their facts and swept keys."""
        if unit.piece is None:
            return self._without_plans(unit, unit.fault)
        try:
            inputs = variants.of(unit.variant)
            of = {**self.space.facts(inputs), **variants.cells(unit.variant)} if self.parts else {}
            with self.parts.writing(unit.number, of) if self.parts else nullcontext() as keep:
                found = self.space.searched(inputs, unit.piece, keep)
        except CostModelError as error:
            return self._without_plans(unit, variants.fault(error))
        found.work = unit.work
        return found.of_variant(unit.variant)

    def _without_plans(self, unit: WorkUnit[Piece], fault: Fault | None) -> Tally[Plan]:
        found = self.space.empty()
        found.part().fault = fault
        found.work = unit.work
        return found.of_variant(unit.variant)

    def unpacked(self, packed: bytes, bundle: tuple[WorkUnit[Piece], ...]) -> list[Tally[Plan]]:
        """The results of several pieces of a variant, in another process."""
        variants: Variants[Inputs] = _variants(packed)
        return [self.tally(variants, unit) for unit in bundle]


_FORKED: WeakValueDictionary[bytes, Variants[Any]] = (
    WeakValueDictionary()
)  # of searches at work, as forked processes find


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> Variants[Any]:
    case, make, over = loads(packed)
    return Variants(make(case), make, over)


def _variants(packed: bytes) -> Variants[Any]:
    return _FORKED.get(packed) or _unpacked(packed)


def _as_sent(variants: Variants[Inputs], by: SearchEngine) -> bytes:
    """The variants in the form for other processes; forked ones already have them and need only a name."""
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
    """The result of every piece from a number on, in order; Stopped if the user stopped before the last.

    total: the work of all pieces
    """
    by = how.by
    task = Task(space, parts)
    remaining = islice(pieces(space, variants), done, None)
    if _most or (by.kind == "local" and (by.workers == 1 or total < POOL_FROM)):
        return _here(variants, task, remaining, how.stop)
    packed = _as_sent(variants, by)

    def submit(pool: Executor, bundle: tuple[WorkUnit[Piece], ...]) -> Future[list[Tally[Plan]]]:
        return pool.submit(task.unpacked, packed, bundle)

    bundles = _bundles(remaining, len(variants) - AT_LAST * by.workers)
    found: Iterator[list[Tally[Plan]]] = shared_out(by, bundles, submit, how.stop)
    return chain.from_iterable(found)


def _bundles(remaining: Iterator[WorkUnit[Piece]], whole: int) -> Iterator[tuple[WorkUnit[Piece], ...]]:
    """Groups of pieces for one worker: all of a small variant, because they share much; the last ones singly."""
    for _, alike in groupby(remaining, lambda piece: (piece.variant, piece.number if piece.variant >= whole else 0)):
        held: list[WorkUnit[Piece]] = []
        for piece in alike:
            if sum(other.work for other in (*held, piece)) > LARGEST_BUNDLE and held:
                yield tuple(held)
                held = []
            held.append(piece)
        yield tuple(held)


def _here(
    variants: Variants[Inputs],
    task: Task[Inputs, Plan, Piece],
    remaining: Iterator[WorkUnit[Piece]],
    stop: Callable[[], bool],
) -> Iterator[Tally[Plan]]:
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
