"""A search cut into pieces of bounded size, numbered in an order that nothing changes."""

from __future__ import annotations

import itertools
import math
import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from costmodel.documents.library import Case
from costmodel.documents.variation import vary
from costmodel.estimate.setting import Setting, setting_of
from costmodel.explore.search.ranges import Axis
from costmodel.explore.search.space import Grid, Rows, grids, stem

CANDIDATES_A_PIECE = 1 << 19


@dataclass(frozen=True)
class Variants:
    """A scenario at every combination of values of a few leaves; without leaves, the scenario."""

    case: Case
    over: tuple[Axis, ...] = ()

    def __len__(self) -> int:
        return math.prod(len(axis.values) for axis in self.over)

    def values(self, number: int) -> dict[str, str]:
        """What the leaves are in one of them; the last changes fastest."""
        values: dict[str, str] = {}
        for axis in reversed(self.over):
            number, place = divmod(number, len(axis.values))
            values[axis.path] = axis.values[place]
        return {axis.path: values[axis.path] for axis in self.over}

    def of(self, number: int) -> Case:
        """One of them."""
        settings = [f"{path}={value}" for path, value in self.values(number).items()]
        return vary(self.case, settings) if settings else self.case

    def setting(self, number: int) -> Setting:
        """The setting of one of them."""
        return setting_of(self.of(number))

    def packed(self, number: int) -> bytes:
        """One of them as it travels to other processes."""
        return pickle.dumps(self.of(number))

    def checked(self) -> None:
        """A fault for a value that a leaf cannot have, before anything is searched."""
        for axis in self.over:
            for value in axis.values:
                setting_of(vary(self.case, [f"{axis.path}={value}"]))


@dataclass(frozen=True)
class Piece:
    """Stretches of grids' stems in one variant, and what was counted on the way to them."""

    number: int
    variant: int
    stretches: tuple[tuple[Grid, Rows], ...]
    candidates: int
    refused: Counter[str]


def pieces(variants: Variants) -> Iterator[Piece]:
    """All pieces of a search: at least one for a variant, each of bounded size."""
    numbers = itertools.count()
    for variant in range(len(variants)):
        held: list[tuple[Grid, Rows]] = []
        size, seen, refused = 0, 0, Counter[str]()
        for grid, rows, new, thrown in _stems(variants.setting(variant)):
            grown = len(rows) * len(grid.micro_batch)
            if size and size + grown > CANDIDATES_A_PIECE:
                yield Piece(next(numbers), variant, tuple(held), seen, refused)
                held, size, seen, refused = [], 0, 0, Counter()
            held += [(grid, rows)] if grown else []
            size, seen = size + grown, seen + new
            refused.update(thrown)
        yield Piece(next(numbers), variant, tuple(held), seen, refused)


def _stems(setting: Setting) -> Iterator[tuple[Grid, Rows, int, dict[str, int]]]:
    """The stems of all grids in parts of bounded size, each grid's counts with its first part."""
    for grid in grids(setting):
        found = stem(setting, grid)
        step = max(1, CANDIDATES_A_PIECE // len(grid.micro_batch))
        for start in range(0, max(1, len(found.rows)), step):
            new, refused = (0, {}) if start else (len(grid), found.refused)
            yield grid, found.rows.cut(start, start + step), new, refused


def candidates(variants: Variants) -> int:
    """How many plans a search looks at, if every variant has as many as the first."""
    return sum(map(len, grids(variants.setting(0)))) * len(variants)
