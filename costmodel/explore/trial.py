"""A scenario with some settings: what stays of its answer, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from costmodel.documents.reader.override_case import vary_any
from costmodel.explore.compare.input_paths import leaves
from costmodel.explore.workload import PlanAnswer, Trial, Workload
from costmodel.ground.errors import CostModelError


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
    """An answer reduced to a trial: its codes, results and varied values."""
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
