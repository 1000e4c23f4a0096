"""Splits the grids of a search of training into parts of bounded size in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.explore.search.search_space import SubSpace, grids
from costmodel.ground.record import record

CANDIDATES_A_PIECE = 1 << 22


@record
class GridPart:
    """A range of placements of a grid."""

    grid: SubSpace
    start: int
    stop: int

    @property
    def candidates(self) -> int:
        """The number of plans in it."""
        return (self.stop - self.start) * self.grid.behind * len(self.grid.structures)


def grid_parts(inputs: TrainingInputs) -> Iterator[GridPart]:
    """All plans of a scenario."""
    for grid in grids(inputs):
        step = max(1, CANDIDATES_A_PIECE * grid.placements // max(1, len(grid)))
        for start in range(0, grid.placements, step):
            yield GridPart(grid, start, min(start + step, grid.placements))
