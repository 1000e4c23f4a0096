"""Evaluates the pieces of a search, locally or with an engine, and yields their results in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from functools import lru_cache
from itertools import chain, groupby, islice
from multiprocessing import get_start_method
from pathlib import Path
from pickle import loads
from weakref import WeakValueDictionary

import numpy as np

from costmodel.estimate.evaluate.answer_facts import facts_of, row_facts
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.explore.search.accumulator import Accumulator, SearchQuery, stretch
from costmodel.explore.search.engine import WAIT, SearchEngine, SearchStopped, engine, shared_out
from costmodel.explore.search.parquet_parts import Parts
from costmodel.explore.search.rank import Ranked
from costmodel.explore.search.search_space import stem
from costmodel.explore.search.work_units import ScenarioVariants, WorkUnit, pieces
from costmodel.ground.record import record

MOST_KEPT = 31 << 20  # bytes; glibc takes no larger size
POOL_FROM = 1 << 22  # candidates; fewer are done before a pool has started
LARGEST_BUNDLE = 1 << 23  # candidates
AT_LAST = 2  # variants for each worker whose pieces are given out singly, so that all end together


@record
class SearchProgress:
    """The progress of a search."""

    candidates: int
    total: int
    evaluated: int
    best: Ranked | None


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
        """The engine; a fault where it is unknown."""
        return engine(self.engine, self.workers, self.wait, self.notify)


@record
class Task:
    """The data that all pieces of a search share."""

    wanted: SearchQuery
    parts: Parts | None

    def tally(self, inputs: TrainingInputs, piece: WorkUnit, cells: dict[str, int | str]) -> Accumulator:
        """The result of a piece; its plans go into the folder, with their facts and swept keys."""
        _keep_freed_memory()
        of = {**row_facts(facts_of(inputs.case)), **cells} if self.parts else {}
        with self.parts.writing(piece.number, of) if self.parts else nullcontext() as keep:
            found = self.wanted.tally(inputs.case.scenario.objective)
            rows = stem(inputs, piece.grid, found.refused, piece.start, piece.stop)
            stretch(inputs, piece.grid, rows, self.wanted, found, keep)
        found.candidates = piece.candidates
        return found.of_variant(piece.variant)

    def unpacked(self, packed: bytes, bundle: tuple[WorkUnit, ...]) -> list[Accumulator]:
        """The results of several pieces of a variant, in another process."""
        variants, variant = _variants(packed), bundle[0].variant
        inputs, cells = variants.inputs(variant), variants.cells(variant)
        return [self.tally(inputs, piece, cells) for piece in bundle]


def _keep_freed_memory() -> None:
    """Free a large array, so that glibc raises its threshold for returning memory to the system.

    Otherwise glibc returns and requests the pages of every block's columns again, which takes a third of the time.
    """
    np.empty(MOST_KEPT, dtype=np.uint8)


_FORKED: WeakValueDictionary[bytes, ScenarioVariants] = (
    WeakValueDictionary()
)  # of searches at work, as forked processes find


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> ScenarioVariants:
    variants: ScenarioVariants = loads(packed)
    return variants


def _variants(packed: bytes) -> ScenarioVariants:
    return _FORKED.get(packed) or _unpacked(packed)


def _as_sent(variants: ScenarioVariants, by: SearchEngine) -> bytes:
    """The variants in the form for other processes; forked ones already have them and need only a name."""
    if by.kind != "local" or get_start_method() != "fork":
        return variants.packed
    name = os.urandom(16)
    _FORKED[name] = variants
    return name


def results(
    variants: ScenarioVariants,
    wanted: SearchQuery,
    how: SearchOptions,
    done: int,
    total: int,
    parts: Parts | None = None,
) -> Iterator[Accumulator]:
    """The result of every piece from a number on, in order; Stopped if the user stopped before the last."""
    by = how.by
    task = Task(wanted, parts)
    remaining = islice(pieces(variants), done, None)
    if by.kind == "local" and (by.workers == 1 or total < POOL_FROM):
        return _here(variants, task, remaining, how.stop)
    packed = _as_sent(variants, by)

    def submit(pool: Executor, bundle: tuple[WorkUnit, ...]) -> Future[list[Accumulator]]:
        return pool.submit(task.unpacked, packed, bundle)

    bundles = _bundles(remaining, len(variants) - AT_LAST * by.workers)
    found: Iterator[list[Accumulator]] = shared_out(by, bundles, submit, how.stop)
    return chain.from_iterable(found)


def _bundles(remaining: Iterator[WorkUnit], whole: int) -> Iterator[tuple[WorkUnit, ...]]:
    """Groups of pieces for one worker: all of a small variant, because they share much; the last ones singly."""
    for _, alike in groupby(remaining, lambda piece: (piece.variant, piece.number if piece.variant >= whole else 0)):
        held: list[WorkUnit] = []
        for piece in alike:
            if sum(other.candidates for other in (*held, piece)) > LARGEST_BUNDLE and held:
                yield tuple(held)
                held = []
            held.append(piece)
        yield tuple(held)


def _here(
    variants: ScenarioVariants, task: Task, remaining: Iterator[WorkUnit], stop: Callable[[], bool]
) -> Iterator[Accumulator]:
    inputs = lru_cache(maxsize=1)(variants.inputs)
    for piece in remaining:
        if stop():
            raise SearchStopped
        yield task.tally(inputs(piece.variant), piece, variants.cells(piece.variant))
