"""Evaluate every legal plan of a space and keep the best."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.library import Case
from costmodel.estimate.block import BLOCK_ROWS, SIZES, Block
from costmodel.estimate.costs import Costs
from costmodel.estimate.evaluate import evaluate
from costmodel.estimate.legality import legal
from costmodel.estimate.plan import Answer, answer
from costmodel.estimate.setting import Setting, setting_of
from costmodel.explore.rank import Ranked, Top
from costmodel.explore.remedies import what_would_fit
from costmodel.explore.space import Grid, grids

CANDIDATES_A_PIECE = 1 << 20
POOL_FROM = 4 * CANDIDATES_A_PIECE


@dataclass
class Tally:
    """What a stretch of a search found: counts, the best, the nearest miss."""

    top: Top
    nearest: Top
    candidates: int = 0
    evaluated: int = 0
    fit: int = 0
    better_than_yours: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def merge(self, other: Tally) -> None:
        """Take in another stretch."""
        self.top.merge(other.top.rows)
        self.nearest.merge(other.nearest.rows)
        self.candidates += other.candidates
        self.evaluated += other.evaluated
        self.fit += other.fit
        self.better_than_yours += other.better_than_yours
        self.refused.update(other.refused)


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
        if self.yours is None or self.yours.refused or self.yours.evaluation.costs.row()["memory_share"] > 1:
            return None
        return self.tally.better_than_yours + 1


def _acceptable(setting: Setting, costs: Costs) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    limits = setting.case.scenario.limits
    share = costs.column("memory_share")
    yield "M001", share > 1
    if limits.memory.at_most is not None:
        yield "M002", share > limits.memory.at_most
    if limits.step_time.at_most is not None:
        yield "T001", costs.column("step_time") > limits.step_time.at_most
    if limits.mfu.at_least is not None:
        yield "T001", costs.column("mfu") < limits.mfu.at_least


def legal_blocks(setting: Setting, grid: Grid, start: int, stop: int, tally: Tally) -> Iterator[Block]:
    """The legal rows of an index range of a grid, gathered into full blocks."""
    waiting: list[Block] = []
    rows = 0
    for low in range(start, min(stop, len(grid)), 4 * BLOCK_ROWS):
        candidates = grid.block(low, min(low + 4 * BLOCK_ROWS, stop))
        keep, counts = legal(setting, candidates)
        tally.candidates += len(candidates)
        tally.refused.update(counts)
        waiting.append(candidates.where(keep))
        rows += len(waiting[-1])
        while rows >= BLOCK_ROWS:
            joined = _joined(waiting)
            yield _cut(joined, 0, BLOCK_ROWS)
            waiting = [_cut(joined, BLOCK_ROWS, rows)]
            rows -= BLOCK_ROWS
    if rows:
        yield _joined(waiting)


def _joined(blocks: list[Block]) -> Block:
    columns = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in SIZES}
    return Block(blocks[0].structure, **columns)


def _cut(block: Block, start: int, stop: int) -> Block:
    return Block(block.structure, **{name: getattr(block, name)[start:stop] for name in SIZES})


def stretch(setting: Setting, grid: Grid, start: int, stop: int, size: int, bar: float) -> Tally:
    """Search an index range of one grid; `bar` is the score of the scenario's own plan."""
    objective = setting.case.scenario.objective
    tally = Tally(Top(size, objective), Top(1, "memory_peak"))
    for block in legal_blocks(setting, grid, start, stop, tally):
        costs = evaluate(setting, block).costs
        keep = np.ones(len(block), dtype=bool)
        for code, broken in _acceptable(setting, costs):
            tally.refused[code] += int(np.count_nonzero(keep & broken))
            keep &= ~broken
        tally.evaluated += len(block)
        tally.fit += int(np.count_nonzero(keep))
        tally.better_than_yours += int(np.count_nonzero(tally.top.sign * costs.column(objective)[keep] < bar))
        tally.top.add(block, costs, keep)
        if not tally.fit:
            tally.nearest.add(block, costs, ~keep)
    return tally


def _yours(setting: Setting, top: Top) -> tuple[Answer | None, float]:
    plan = setting.case.scenario.plan
    if plan is None:
        return None, -math.inf
    yours = answer(setting, plan)
    return yours, top.sign * yours.evaluation.costs.row()[top.objective] * (1 - 1e-12)


def _pieces(setting: Setting) -> Iterator[tuple[Grid, int, int]]:
    for grid in grids(setting):
        for start in range(0, len(grid), CANDIDATES_A_PIECE):
            yield grid, start, min(start + CANDIDATES_A_PIECE, len(grid))


_worker_setting: list[Setting] = []


def _prepare(case: Case) -> None:
    _worker_setting[:] = [setting_of(case)]


def _work(grid: Grid, start: int, stop: int, size: int, bar: float) -> Tally:
    return stretch(_worker_setting[0], grid, start, stop, size, bar)


def search(case: Case, size: int = 10, *, workers: int | None = None) -> Found:
    """The best plans of a scenario's space; large spaces are shared out over processes."""
    began = time.perf_counter()
    setting = setting_of(case)
    tally = Tally(Top(size, case.scenario.objective), Top(1, "memory_peak"))
    yours, bar = _yours(setting, tally.top)
    total = sum(map(len, grids(setting)))
    workers = workers or (os.cpu_count() or 1)
    if workers == 1 or total < POOL_FROM:
        for grid, start, stop in _pieces(setting):
            tally.merge(stretch(setting, grid, start, stop, size, bar))
    else:
        with ProcessPoolExecutor(workers, initializer=_prepare, initargs=(case,)) as pool:
            _share_out(pool, setting, tally, size, bar, 2 * workers)
    elapsed = time.perf_counter() - began
    remedies = [] if tally.top.rows else list(what_would_fit(setting, tally.nearest.rows))
    return Found(setting, tally, yours, elapsed, remedies)


def _share_out(pool: Executor, setting: Setting, tally: Tally, size: int, bar: float, ahead: int) -> None:
    """Keep a few pieces in the pool at a time, so that memory does not grow with the space."""
    waiting = []
    for grid, start, stop in _pieces(setting):
        waiting.append(pool.submit(_work, grid, start, stop, size, bar))
        if len(waiting) >= ahead:
            tally.merge(waiting.pop(0).result())
    for future in waiting:
        tally.merge(future.result())
