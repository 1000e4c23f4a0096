"""A scenario at every combination of values of a few leaves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from costmodel.documents.library import Case
from costmodel.documents.variation import vary
from costmodel.errors import CostModelError, Fault, fail
from costmodel.estimate.costs import COLUMNS, machine_name
from costmodel.estimate.evaluate import verdict
from costmodel.estimate.plan import Answer
from costmodel.explore.compare.chosen import answered
from costmodel.explore.compare.leaves import leaves
from costmodel.explore.explain.explain import unknown
from costmodel.explore.search.ranges import Axis

MOST_POINTS = 100_000


@dataclass(frozen=True)
class Point:
    """One combination: the settings that make it, and its answer or why there is none."""

    settings: tuple[str, ...]
    answer: Answer | None = None
    fault: Fault | None = None

    @property
    def costs(self) -> dict[str, float]:
        """Its results, where there are any."""
        if self.answer is None or self.answer.refused:
            return {}
        return self.answer.evaluation.costs.row()

    @property
    def said(self) -> str:
        """Whether it fits; else the code of what is wrong."""
        if self.fault is not None:
            return self.fault.code
        assert self.answer is not None
        if self.answer.refused:
            return self.answer.refused[0]
        return verdict(self.costs["memory_share"])

    @property
    def works(self) -> bool:
        """Whether it is a plan one could run."""
        return self.answer is not None and not (self.answer.refused or self.answer.broken)

    def value(self, path: str) -> float | str | bool | None:
        """What a leaf is at this point, as a number where it is one."""
        if self.answer is None:
            return None
        found = leaves(self.answer.setting.case).get(path)
        if found is None:
            return None
        return float(found.value) if isinstance(found.value, float) else found.value


@dataclass(frozen=True)
class Swept:
    """All combinations in the order of the axes, the last changing fastest."""

    case: Case
    axes: tuple[Axis, ...]
    shown: tuple[str, ...]
    points: tuple[Point, ...]


def point(case: Case, settings: Sequence[str], *, best: bool = False) -> Point:
    """One combination; what is wrong with it is part of the answer."""
    try:
        return Point(tuple(settings), answered(vary(case, settings), best=best))
    except CostModelError as error:
        return Point(tuple(settings), fault=error.faults[0])


def sweep(case: Case, axes: Sequence[Axis], show: str = "", *, best: bool = False) -> Swept:
    """The scenario at every combination; a fault only when none of them has an answer."""
    total = math.prod(len(axis.values) for axis in axes)
    if total > MOST_POINTS:
        raise fail("C010", f"{total:,} combinations are more than {MOST_POINTS:,}", None, "take wider steps")
    points = tuple(point(case, settings, best=best) for settings in _combinations(axes))
    first = points[0].fault
    if first is not None and all(found.fault is not None for found in points):
        raise CostModelError(first)
    return Swept(case, tuple(axes), shown(show), points)


def _combinations(axes: Sequence[Axis]) -> Iterator[tuple[str, ...]]:
    for values in itertools.product(*(axis.values for axis in axes)):
        yield tuple(f"{axis.path}={value}" for axis, value in zip(axes, values, strict=True))


def shown(text: str) -> tuple[str, ...]:
    """The results that --show names."""
    named = {name: name for name in COLUMNS} | {machine_name(name): name for name in COLUMNS}
    parts = [part.strip() for part in text.split(",") if part.strip()] or ["step_time", "mfu", "memory_peak"]
    for part in parts:
        if part not in named:
            raise unknown(part, list(named))
    return tuple(dict.fromkeys(named[part] for part in parts))
