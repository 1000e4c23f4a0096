"""The best rows of a stream of blocks: by one result, or by two that are traded off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.results import TRAINING_COLUMNS
from costmodel.estimate.shared.plan_batch import Block, Structure
from costmodel.estimate.shared.results import Costs
from costmodel.explore.search.named_result import two_results
from costmodel.ground.plan_sizes import SIZES
from costmodel.ground.record import record

MOST_ON_A_FRONT = 4096


@record
class Ranked:
    """One plan with its costs."""

    structure: Structure
    sizes: dict[str, float]
    costs: dict[str, float]
    score: float
    variant: int = 0  # which of the scenarios searched together
    remarked: tuple[str, ...] = ()  # known of plans that have their bands, as are the shares of each kind of error
    errors: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> tuple[object, ...]:
        """Sort key that orders equal scores identically on every machine."""
        choices = map(str, vars(self.structure).values())
        return (self.score, self.costs["memory_peak"], *self.sizes.values(), *choices, self.variant)


@dataclass
class Top:
    """A running list of the best rows."""

    size: int
    objective: str
    rows: list[Ranked] = field(default_factory=list)

    @property
    def sign(self) -> float:
        """+1 where lower is better."""
        return sign(self.objective)

    def add(self, block: Block, costs: Costs, keep: NDArray[np.bool_]) -> None:
        """Add the rows of a block that the mask keeps."""
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
        """Add rows that were ranked elsewhere."""
        self.rows = sorted([*self.rows, *rows], key=lambda row: row.key)[: self.size]


def sign(result: str) -> float:
    """+1 where lower is better, −1 where higher is."""
    return -1.0 if TRAINING_COLUMNS[result].better == "higher" else 1.0


@record
class Axes:
    """Two results to trade off, and the objective that breaks ties."""

    x: str
    y: str
    objective: str

    def at(self, row: Ranked) -> tuple[float, float]:
        """The position of a plan, with lower better on both axes."""
        return sign(self.x) * row.costs[self.x], sign(self.y) * row.costs[self.y]


def axes(text: str, objective: str) -> Axes:
    """The two results named by `--pareto x,y`."""
    return Axes(*two_results(text, TRAINING_COLUMNS), objective)


@dataclass
class Front:
    """A running Pareto front: the plans that no other plan beats in both results; best in x first.

    It holds at most MOST_ON_A_FRONT plans; a longer front is thinned evenly, and its ends are kept.
    """

    axes: Axes
    rows: list[Ranked] = field(default_factory=list)
    thinned: bool = False

    def add(self, block: Block, costs: Costs, keep: NDArray[np.bool_]) -> None:
        """Add the rows of a block that the mask keeps, if both results are known."""
        x, y, score = (sign(name) * costs.column(name) for name in (self.axes.x, self.axes.y, self.axes.objective))
        places = np.flatnonzero(keep & np.isfinite(x) & np.isfinite(y))
        sizes = [getattr(block, name)[places] for name in reversed(SIZES)]
        peak = costs.column("memory_peak")[places]
        places = places[np.lexsort((*sizes, peak, score[places], y[places], x[places]))]
        least = np.minimum.accumulate(y[places])
        ahead = np.concatenate(([True], y[places][1:] < least[:-1])) if len(places) else np.zeros(0, dtype=bool)
        self.merge([_ranked(block, costs, int(place), float(score[place])) for place in places[ahead]])

    def merge(self, rows: list[Ranked]) -> None:
        """Add the rows of another front."""
        kept: list[Ranked] = []
        for row in sorted([*self.rows, *rows], key=lambda row: (self.axes.at(row), row.key)):
            if not kept or self.axes.at(row)[1] < self.axes.at(kept[-1])[1]:
                kept.append(row)
        if len(kept) > MOST_ON_A_FRONT:
            self.thinned = True
            kept = [kept[int(place)] for place in np.linspace(0, len(kept) - 1, MOST_ON_A_FRONT)]
        self.rows = kept


def _ranked(block: Block, costs: Costs, place: int, score: float) -> Ranked:
    sizes = {name: float(getattr(block, name)[place]) for name in SIZES}
    return Ranked(block.structure, sizes, costs.row(place), score)
