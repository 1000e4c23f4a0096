"""Evaluate every legal plan of a space and keep the best."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from costmodel.documents.library import Case
from costmodel.errors import fail
from costmodel.estimate.block import BLOCK_ROWS, SIZES, Block
from costmodel.estimate.evaluate import evaluate, price_per_accelerator
from costmodel.estimate.limits import unacceptable
from costmodel.estimate.plan import Answer, answer
from costmodel.estimate.setting import Setting, setting_of
from costmodel.explore.bands import with_bands
from costmodel.explore.rank import Axes, Front, Ranked, Top, axes
from costmodel.explore.remedies import what_would_fit
from costmodel.explore.space import Grid, grids, leaves, stem

CANDIDATES_AT_ONCE = 1 << 16
CANDIDATES_A_PIECE = 1 << 19
POOL_FROM = 1 << 22


@dataclass
class Tally:
    """What a stretch of a search found: counts, the best, the least memory, the best that only breaks a limit."""

    top: Top
    nearest: Top
    closest: Top
    front: Front | None = None
    candidates: int = 0
    evaluated: int = 0
    fit: int = 0
    better_than_yours: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def merge(self, other: Tally) -> None:
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
        self.better_than_yours += other.better_than_yours
        self.refused.update(other.refused)


@dataclass(frozen=True)
class Wanted:
    """What a stretch of a search is asked for; `bar` is the score of the scenario's own plan."""

    size: int
    bar: float = -math.inf
    axes: Axes | None = None

    def tally(self, objective: str) -> Tally:
        """An empty tally."""
        return Tally(
            Top(self.size, objective), Top(1, "memory_peak"), Top(1, objective), Front(self.axes) if self.axes else None
        )


@dataclass(frozen=True)
class Found:
    """The answer of a search."""

    setting: Setting
    tally: Tally
    yours: Answer | None
    elapsed: float
    remedies: list[str] = field(default_factory=list)

    @property
    def best(self) -> list[Ranked]:
        """The best plans, best first."""
        return self.tally.top.rows

    @property
    def your_rank(self) -> int | None:
        """Where the scenario's own plan would stand, when it is legal and fits."""
        if self.yours is None or self.yours.refused or self.yours.broken:
            return None
        return self.tally.better_than_yours + 1


def legal_blocks(setting: Setting, grid: Grid, rows: Block, tally: Tally) -> Iterator[Block]:
    """The legal plans that grow from rows of a grid's stem, gathered into full blocks."""
    waiting: list[Block] = []
    ready = 0
    step = max(1, CANDIDATES_AT_ONCE // len(grid.micro_batch))
    for start in range(0, len(rows), step):
        found, refused = leaves(setting, grid, rows.cut(start, start + step))
        tally.refused.update(refused)
        waiting.append(found)
        ready += len(found)
        while ready >= BLOCK_ROWS:
            joined = _joined(waiting)
            yield joined.cut(0, BLOCK_ROWS)
            waiting = [joined.cut(BLOCK_ROWS, ready)]
            ready -= BLOCK_ROWS
    if ready:
        yield _joined(waiting)


def _joined(blocks: list[Block]) -> Block:
    columns = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in SIZES}
    return Block(blocks[0].structure, **columns)


def stretch(setting: Setting, grid: Grid, rows: Block, wanted: Wanted) -> Tally:
    """Search what grows from rows of one grid's stem."""
    objective = setting.case.scenario.objective
    tally = wanted.tally(objective)
    for block in legal_blocks(setting, grid, rows, tally):
        costs = evaluate(setting, block).costs
        keep = np.ones(len(block), dtype=bool)
        for code, broken in unacceptable(setting, costs):
            tally.refused[code] += int(np.count_nonzero(keep & broken))
            keep &= ~broken
        tally.evaluated += len(block)
        tally.fit += int(np.count_nonzero(keep))
        tally.better_than_yours += int(np.count_nonzero(tally.top.sign * costs.column(objective)[keep] < wanted.bar))
        tally.top.add(block, costs, keep)
        if tally.front:
            tally.front.add(block, costs, keep)
        if not tally.fit:
            tally.nearest.add(block, costs, ~keep)
            tally.closest.add(block, costs, ~keep & (costs.column("memory_share") <= 1))
    return tally


def _yours(setting: Setting, top: Top) -> tuple[Answer | None, float]:
    plan = setting.case.scenario.plan
    if plan is None:
        return None, -math.inf
    yours = answer(setting, plan)
    score = top.sign * yours.evaluation.costs.row()[top.objective]
    return yours, score - 1e-12 * abs(score)


def _pieces(setting: Setting, tally: Tally) -> Iterator[tuple[Grid, Block]]:
    """The stems of all grids in pieces of bounded size; counts what is refused before micro-batches."""
    for grid in grids(setting):
        found = stem(setting, grid)
        tally.candidates += len(grid)
        tally.refused.update(found.refused)
        step = max(1, CANDIDATES_A_PIECE // len(grid.micro_batch))
        for start in range(0, len(found.rows), step):
            yield grid, found.rows.cut(start, start + step)


_worker_setting: list[Setting] = []


def _prepare(case: Case) -> None:
    _worker_setting[:] = [setting_of(case)]


def _work(grid: Grid, rows: Block, wanted: Wanted) -> Tally:
    return stretch(_worker_setting[0], grid, rows, wanted)


def search(case: Case, size: int = 10, *, workers: int | None = None, pareto: str = "") -> Found:
    """The best plans of a scenario's space, and the front of two results; processes share large ones."""
    began = time.perf_counter()
    setting = setting_of(case)
    if case.scenario.objective == "cost_per_mtoken" and math.isnan(float(price_per_accelerator(setting))):
        raise fail(
            "C004", "the objective is cost, but no price is known", None, "set assume.price, e.g. 2.50 USD/GPU/h"
        )
    wanted = Wanted(size, axes=axes(pareto, case.scenario.objective) if pareto else None)
    tally = wanted.tally(case.scenario.objective)
    yours, bar = _yours(setting, tally.top)
    wanted = replace(wanted, bar=bar)
    total = sum(map(len, grids(setting)))
    workers = workers or (os.cpu_count() or 1)
    if workers == 1 or total < POOL_FROM:
        for grid, rows in _pieces(setting, tally):
            tally.merge(stretch(setting, grid, rows, wanted))
    else:
        with ProcessPoolExecutor(workers, initializer=_prepare, initargs=(case,)) as pool:
            _share_out(pool, setting, tally, wanted, 2 * workers)
    for kept in (tally.top, tally.nearest, tally.front):
        if kept:
            kept.rows = with_bands(setting, kept.rows)
    elapsed = time.perf_counter() - began
    remedies = [] if tally.top.rows else list(what_would_fit(setting, tally.nearest.rows))
    return Found(setting, tally, yours, elapsed, remedies)


def _share_out(pool: Executor, setting: Setting, tally: Tally, wanted: Wanted, ahead: int) -> None:
    """Keep a few pieces in the pool at a time, so that memory does not grow with the space."""
    waiting = []
    for grid, rows in _pieces(setting, tally):
        waiting.append(pool.submit(_work, grid, rows, wanted))
        if len(waiting) >= ahead:
            tally.merge(waiting.pop(0).result())
    for future in waiting:
        tally.merge(future.result())
