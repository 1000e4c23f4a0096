"""Evaluates a scenario at every combination of values of some keys."""

from __future__ import annotations

import math
from collections.abc import Sequence

from costmodel.explore.purchase.smallest_size import evaluate_trial
from costmodel.explore.search.rank import UNWATCHED, Watcher, shown_results
from costmodel.explore.search.value_ranges import MISTYPED, Axis, combinations, count_combinations, fail_without_answers
from costmodel.explore.workload_interface import Trial, Workload
from costmodel.ground.record import record

MOST_POINTS = 100_000


@record
class SweepResult:
    """The trials of all combinations, the last key changing fastest; if stopped, the first of them."""

    asked: Workload
    axes: tuple[Axis, ...]
    shown: tuple[str, ...]
    points: tuple[Trial, ...]
    best: bool = False  # plan of a search each time, instead of the scenario's own

    @property
    def total(self) -> int:
        """The number of combinations."""
        return math.prod(len(axis.values) for axis in self.axes)

    @property
    def is_answered(self) -> bool:
        """Whether a combination works, and every value is allowed for its key."""
        mistyped = any(point.fault is not None and point.fault.code in MISTYPED for point in self.points)
        return not mistyped and any(point.works for point in self.points)

    @property
    def paths(self) -> list[str]:
        """The keys that the sweep varies."""
        return [axis.path for axis in self.axes]


def sweep(
    workload: Workload,
    axes: Sequence[Axis],
    show: str = "",
    *,
    best: bool = False,
    alone: bool = False,
    pace: Watcher = UNWATCHED,
) -> SweepResult:
    """Evaluates the scenario at every combination; raises a fault only if none has an answer.

    best: with the best plan of each. alone: whether flags are given without a scenario
    """
    total, shown = count_combinations(axes, MOST_POINTS), shown_results(workload.columns, show, workload.shown_results)
    paths = [axis.path for axis in axes]
    best = workload.by_search(paths, best=best, alone=alone)
    points = tuple(
        evaluate_trial(workload, settings, best=best, paths=paths) for settings in pace.taken(combinations(axes), total)
    )
    if len(points) == total:
        fail_without_answers(axes, [found.fault for found in points])
    return SweepResult(workload, tuple(axes), shown, points, best)
