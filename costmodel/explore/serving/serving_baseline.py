"""Serving scenarios held to the figures of a baseline, and that baseline with their figures of today."""

from __future__ import annotations

import math
from collections.abc import Sequence

from costmodel.documents.schemas.baseline import Entry
from costmodel.documents.schemas.results import SERVING_COLUMNS, machine_name
from costmodel.estimate.serving.plan_columns import sizes_of
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.explore.compare.check import BaselinePolicy
from costmodel.explore.compare.compare import moved, named_documents
from costmodel.explore.compare.limit_findings import CheckedAnswer, LimitFinding

WATCHED = ("ttft_p99", "tpot", "rate_within_slo_per_s", "memory_peak", "rent_per_month", "cost_per_mtoken")


def figures(answer: ServingAnswer, *, endless: bool = False, bands: bool = False) -> dict[str, float]:
    """Every result that is a number, by its name in machine output.

    endless: waits without end too; bands: their ends too, which follow from the results
    """
    named = (name for name in answer.costs if bands or not name.endswith(("_low", "_high")))
    known = {machine_name(name): answer.costs[name] for name in named}
    return {name: value for name, value in known.items() if math.isfinite(value) or (endless and math.isinf(value))}


def baseline_findings(key: str, answer: ServingAnswer, holding: BaselinePolicy) -> list[LimitFinding]:
    """What got worse than in the baseline by more than is allowed; with exact, whether anything moved."""
    if holding.baseline is None:
        return []
    before = holding.baseline.scenarios.get(key)
    if before is None:
        return [LimitFinding("known", not holding.exact)]
    now = figures(answer)
    if holding.exact:
        changes = moved(before.figures, now)
        return [LimitFinding("exact", not changes, float(len(changes)), bound=float(len(now)))]
    limits = answer.inputs.case.scenario.limits
    own = {name: bound.within for name, bound in limits if bound.within is not None and bound.target is None}
    own = {("memory_share" if name == "memory" else name): share for name, share in own.items()}
    watched = [
        name for name in SERVING_COLUMNS if name in (*WATCHED, *own) and machine_name(name) in {*before.figures, *now}
    ]
    return [_regression(name, before.figures, now, float(own.get(name, holding.within))) for name in watched]


def _regression(name: str, before: dict[str, float], now: dict[str, float], allowed: float) -> LimitFinding:
    """One result that may not worsen by more than a share; one that is missing on a side is not kept."""
    old, new = (side.get(machine_name(name), math.nan) for side in (before, now))
    worse = old - new if SERVING_COLUMNS[name].better == "higher" else new - old
    return LimitFinding(name, worse <= allowed * abs(old) * (1 + 1e-9), new, bound=old, allowed=allowed)


def entries(checked: Sequence[CheckedAnswer[ServingAnswer]]) -> dict[str, Entry]:
    """What a baseline holds of scenarios as they are now; those that cannot be estimated are left out."""
    return {found.name: _entry(found.answer) for found in checked if not found.answer.refused}


def _entry(answer: ServingAnswer) -> Entry:
    case = answer.inputs.case
    plan: dict[str, str | float | bool] = {**sizes_of(answer.evaluation.layout)}
    return Entry(title=case.scenario.title, plan=plan, documents=named_documents(case), figures=figures(answer))
