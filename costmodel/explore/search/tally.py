"""What a stretch of a search finds: the legal plans that grow from rows of a grid, counted and ranked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from costmodel.estimate.block import BLOCK_ROWS, SIZES, Block
from costmodel.estimate.costs import Costs
from costmodel.estimate.evaluate import evaluate
from costmodel.estimate.limits import unacceptable
from costmodel.estimate.setting import Setting
from costmodel.explore.search.rank import Axes, Front, Top
from costmodel.explore.search.space import Grid, leaves

CANDIDATES_AT_ONCE = 1 << 16

# Takes in every block that was evaluated.
Keep = Callable[[Block, Costs], None]


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

    def of_variant(self, variant: int) -> Tally:
        """The same, its plans known as those of a variant of the scenario."""
        for best in (self.top, self.nearest, self.closest, self.front):
            if best is not None:
                best.rows = [replace(row, variant=variant) for row in best.rows] if variant else best.rows
        return self


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


def stretch(
    setting: Setting, grid: Grid, rows: Block, wanted: Wanted, tally: Tally, keep_all: Keep | None = None
) -> None:
    """Search what grows from rows of one grid's stem, into a tally; `keep_all` is shown everything."""
    objective = setting.case.scenario.objective
    for block in legal_blocks(setting, grid, rows, tally):
        costs = evaluate(setting, block).costs
        if keep_all is not None:
            keep_all(block, costs)
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
