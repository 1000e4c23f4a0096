"""The best plans of a stream of them: by one result, or by two that are traded off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.results import ResultColumn
from costmodel.explore.search.named_result import two_results
from costmodel.ground.record import record

MOST_ON_A_FRONT = 4096

Order = tuple[object, ...]


class FoundPlan(Protocol):
    """A plan of a search with its results, as a record."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def costs(self) -> Mapping[str, float]:
        """The results of the plan."""

    @property
    def variant(self) -> int:
        """The number of the scenario variant that the plan belongs to."""

    @property
    def broken(self) -> tuple[str, ...]:
        """The codes of what the plan breaks."""

    @property
    def key(self) -> Order:
        """The sort key of a plan; it also orders equally good plans, alike on every machine."""


Plan = TypeVar("Plan", bound=FoundPlan)
MadePlan = TypeVar("MadePlan", bound=FoundPlan, covariant=True)


class EvaluatedPlans(Protocol[MadePlan]):
    """Plans that were evaluated together."""

    def column(self, name: str) -> NDArray[np.float64]:
        """The values of a result, one for each plan."""

    def ties(self, places: NDArray[np.intp]) -> Sequence[NDArray[np.float64]]:
        """Sort keys of some plans with equal results; the last key decides first."""

    def plan(self, place: int, score: float) -> MadePlan:
        """The plan at a place, with its score."""


@dataclass
class Top(Generic[Plan]):
    """The best plans so far, in the order of a result or of a sort key."""

    size: int
    objective: str = ""
    sign: float = 1.0
    rows: list[Plan] = field(default_factory=list)
    key: Callable[[Plan], Order] = field(default=attrgetter("key"), repr=False, compare=False)

    def add(self, found: EvaluatedPlans[Plan], keep: NDArray[np.bool_]) -> None:
        """Add the plans that a mask keeps, which are ordered by the result first."""
        places = np.flatnonzero(keep)
        if not len(places):
            return
        scores = self.sign * found.column(self.objective)[places]
        if len(self.rows) == self.size:
            better = scores <= self.sign * self.rows[-1].costs[self.objective]
            places, scores = places[better], scores[better]
        if len(places) > self.size:
            bound = np.partition(scores, self.size - 1)[self.size - 1]
            places, scores = places[scores <= bound], scores[scores <= bound]
        self.merge([found.plan(int(place), float(score)) for place, score in zip(places, scores, strict=True)])

    def merge(self, rows: list[Plan]) -> None:
        """Adds plans that were ranked elsewhere; equally good plans keep their order."""
        self.rows = sorted([*self.rows, *rows], key=self.key)[: self.size]


@record
class Axes:
    """Two results to trade off, and the objective that breaks ties; signs: −1 where higher is better."""

    x: str
    y: str
    objective: str
    signs: tuple[float, float, float]

    def at(self, row: FoundPlan) -> tuple[float, float]:
        """The position of a plan, with lower better on both axes."""
        return self.signs[0] * row.costs[self.x], self.signs[1] * row.costs[self.y]


def axes(text: str, objective: str, columns: Mapping[str, ResultColumn]) -> Axes:
    """The two results named by `--pareto x,y`; without an objective the first of equally good plans stays."""
    x, y = two_results(text, columns)
    return Axes(x, y, objective or x, (columns[x].sign, columns[y].sign, columns[objective or x].sign))


@dataclass
class Front(Generic[Plan]):
    """A running Pareto front: the plans that no other plan beats in both results; best in x first.

    It holds at most MOST_ON_A_FRONT plans; a longer front is thinned evenly, and its ends are kept.
    """

    axes: Axes
    rows: list[Plan] = field(default_factory=list)
    thinned: bool = False

    def add(self, found: EvaluatedPlans[Plan], keep: NDArray[np.bool_]) -> None:
        """Add the plans that a mask keeps, if both results are known."""
        named = zip(self.axes.signs, (self.axes.x, self.axes.y, self.axes.objective), strict=True)
        x, y, score = (sign * found.column(name) for sign, name in named)
        places = np.flatnonzero(keep & np.isfinite(x) & np.isfinite(y))
        places = places[np.lexsort((*found.ties(places), score[places], y[places], x[places]))]
        least = np.minimum.accumulate(y[places])
        ahead = np.concatenate(([True], y[places][1:] < least[:-1])) if len(places) else np.zeros(0, dtype=bool)
        self.merge([found.plan(int(place), float(score[place])) for place in places[ahead]])

    def merge(self, rows: list[Plan]) -> None:
        """Add the rows of another front."""
        kept: list[Plan] = []
        for row in sorted([*self.rows, *rows], key=lambda row: (self.axes.at(row), row.key)):
            if not kept or self.axes.at(row)[1] < self.axes.at(kept[-1])[1]:
                kept.append(row)
        if len(kept) > MOST_ON_A_FRONT:
            self.thinned = True
            kept = [kept[int(place)] for place in np.linspace(0, len(kept) - 1, MOST_ON_A_FRONT)]
        self.rows = kept
