"""Splits a search into pieces of bounded size in a fixed order."""

from __future__ import annotations

import functools
import itertools
import math
import pickle
from collections.abc import Iterator
from dataclasses import field

from costmodel.documents.reader.override_case import vary
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.explore.search.combinations import cells_at, values_at
from costmodel.explore.search.ranges import Axis, at_option
from costmodel.explore.search.search_space import SubSpace, grids
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record

CANDIDATES_A_PIECE = 1 << 22
MOST_HELD = 32  # variants


@record
class ScenarioVariants:
    """A scenario at every combination of values of some keys; without keys, the scenario itself."""

    case: ResolvedScenario
    over: tuple[Axis, ...] = ()
    made: dict[int, ResolvedScenario] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return math.prod(len(axis.values) for axis in self.over)

    def values(self, number: int) -> dict[str, str]:
        """The values of the keys in one variant; the last key changes fastest."""
        return values_at(self.over, number)

    def cells(self, number: int) -> dict[str, int | str]:
        """The same for tables: numbers if all values of a key are whole numbers, so that a column has one type."""
        return cells_at(self.over, number)

    def of(self, number: int) -> ResolvedScenario:
        """One variant; the latest ones are cached, because they are used repeatedly."""
        if number not in self.made:
            settings = [f"{path}={value}" for path, value in self.values(number).items()]
            while len(self.made) >= MOST_HELD:
                self.made.pop(next(iter(self.made)))
            self.made[number] = vary(self.case, settings) if settings else self.case
        return self.made[number]

    def inputs(self, number: int) -> TrainingInputs:
        """The inputs of one variant."""
        return training_inputs(self.of(number))

    @functools.cached_property
    def packed(self) -> bytes:
        """All variants in serialised form for other processes."""
        return pickle.dumps(ScenarioVariants(self.case, self.over))

    def checked(self) -> None:
        """A fault for an invalid value of a key, before the search starts."""
        try:
            if len(self.over) == 1:
                for number in range(len(self)):
                    self.inputs(number)
                return
            for axis in self.over:
                for value in axis.values:
                    training_inputs(vary(self.case, [f"{axis.path}={value}"]))
        except CostModelError as error:
            raise at_option("--over", [axis.path for axis in self.over], error) from None


@record
class WorkUnit:
    """A range of placements of a grid, in one variant."""

    number: int
    variant: int
    grid: SubSpace
    start: int
    stop: int

    @property
    def candidates(self) -> int:
        """The number of plans in it."""
        return (self.stop - self.start) * self.grid.behind * len(self.grid.structures)


def pieces(variants: ScenarioVariants) -> Iterator[WorkUnit]:
    """All pieces of a search, each of bounded size."""
    numbers = itertools.count()
    for variant in range(len(variants)):
        for grid in grids(variants.inputs(variant)):
            step = max(1, CANDIDATES_A_PIECE * grid.placements // max(1, len(grid)))
            for start in range(0, grid.placements, step):
                yield WorkUnit(next(numbers), variant, grid, start, min(start + step, grid.placements))


def candidates(variants: ScenarioVariants) -> int:
    """The number of plans in a search, if every variant has as many as the first."""
    return sum(map(len, grids(variants.inputs(0)))) * len(variants)
