"""The best rows of a stream of blocks."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field

import numpy as np
from numpy.typing import NDArray

from costmodel.estimate.block import SIZES, Block, Structure
from costmodel.estimate.costs import COLUMNS, Costs


@dataclass(frozen=True)
class Ranked:
    """One plan with its costs."""

    structure: Structure
    sizes: dict[str, float]
    costs: dict[str, float]
    score: float

    @property
    def key(self) -> tuple[object, ...]:
        """Orders equal scores the same way on every machine."""
        choices = map(str, astuple(self.structure))
        return (self.score, self.costs["memory_peak"], *self.sizes.values(), *choices)


@dataclass
class Top:
    """A running list of the best so many rows."""

    size: int
    objective: str
    rows: list[Ranked] = field(default_factory=list)

    @property
    def sign(self) -> float:
        """+1 where lower is better."""
        return -1.0 if COLUMNS[self.objective].better == "higher" else 1.0

    def add(self, block: Block, costs: Costs, keep: NDArray[np.bool_]) -> None:
        """Take in a block's rows that the mask keeps."""
        places = np.flatnonzero(keep)
        if not len(places):
            return
        scores = self.sign * costs.column(self.objective)[places]
        if len(self.rows) == self.size:
            better = scores <= self.rows[-1].score
            places, scores = places[better], scores[better]
        if len(places) > self.size:
            bound = np.partition(scores, self.size - 1)[self.size - 1]
            places, scores = places[scores <= bound], scores[scores <= bound]
        self.merge(
            [_ranked(block, costs, int(place), float(score)) for place, score in zip(places, scores, strict=True)]
        )

    def merge(self, rows: list[Ranked]) -> None:
        """Take in rows that were ranked elsewhere."""
        self.rows = sorted([*self.rows, *rows], key=lambda row: row.key)[: self.size]


def _ranked(block: Block, costs: Costs, place: int, score: float) -> Ranked:
    sizes = {name: float(getattr(block, name)[place]) for name in SIZES}
    return Ranked(block.structure, sizes, costs.row(place), score)
