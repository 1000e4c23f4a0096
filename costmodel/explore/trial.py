"""A scenario with some settings: what stays of its answer, or what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.schemas.results import without_money
from costmodel.explore.compare.input_paths import leaves
from costmodel.explore.workload import KeptAnswer, PlanAnswer, Workload
from costmodel.ground.errors import CostModelError, Fault
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.estimate.evaluate.answer_facts import Subject

_NO_RESULTS: Mapping[str, float] = {}


@record
class Trial:
    """One variant: the settings that make it, and what came of them: an answer, or why there is none."""

    settings: tuple[str, ...]
    fault: Fault | None = None
    refused: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    remarked: tuple[str, ...] = ()
    kept: KeptAnswer | None = None
    about: Subject | None = None  # what was computed, where it could be
    values: Mapping[str, float | str | bool | None] = field(default_factory=dict)  # of the keys asked for

    @property
    def costs(self) -> Mapping[str, float]:
        """Its results, to compare; nothing of a plan that is not valid, and no rent of one that fails."""
        if self.kept is None or self.refused:
            return _NO_RESULTS
        return without_money(self.kept.costs) if self.broken else self.kept.costs

    @property
    def works(self) -> bool:
        """Whether it is a plan one could run."""
        return not (self.fault or self.refused or self.broken)

    @property
    def codes(self) -> tuple[str, ...]:
        """What speaks against it."""
        return (self.fault.code,) if self.fault is not None else self.refused or self.broken

    @property
    def verdict(self) -> str:
        """Whether it fits; the code of what is wrong where that is not known."""
        return self.codes[0] if self.kept is None or self.refused else self.kept.verdict

    @property
    def written(self) -> tuple[str, ...]:
        """The values that were set, as they were written."""
        return tuple(setting.partition("=")[2] for setting in self.settings)

    def result(self, name: str) -> float:
        """A result of a plan that works; not a number where it does not."""
        return self.costs.get(name, math.nan) if self.works else math.nan


def tried(
    asked: Workload,
    settings: Sequence[str],
    *,
    best: bool = False,
    results: Collection[str] = (),
    paths: Sequence[str] = (),
) -> Trial:
    """A scenario with some settings; best: with its best plan there.

    results: those that are looked at, or else all. paths: keys whose values are kept
    """
    try:
        varied = asked.of(vary_any(asked.case, settings))
        return trial_of(varied, settings, varied.answer(results, best=best), paths)
    except CostModelError as error:
        return Trial(tuple(settings), fault=error.faults[0])


def trial_of(varied: Workload, settings: Sequence[str], answer: PlanAnswer, paths: Sequence[str] = ()) -> Trial:
    """What is kept of one variant."""
    known = leaves(varied.case) if paths else {}
    return Trial(
        tuple(settings),
        refused=answer.refused,
        broken=answer.broken,
        remarked=() if answer.refused else answer.remarked,
        kept=varied.kept(answer),
        about=varied.facts,
        values={path: known[path].value if path in known else None for path in paths},
    )
