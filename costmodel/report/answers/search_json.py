"""The answer of `search` as plain values, with the same keys for every workload."""

from __future__ import annotations

from typing import Any

from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.search.rank import Front, Plan, PlanCounts
from costmodel.explore.search.scenario_variants import Inputs
from costmodel.explore.workloads import workload_of
from costmodel.report.answers.search import SearchWords, rejected_example
from costmodel.report.data_formats.answer_fields import assumption_fields, result_fields
from costmodel.report.terminal.head import assumed_job


def search_json(words: SearchWords[Inputs, Plan]) -> dict[str, Any]:
    """A search as plain values (costmodel/search/v2); where keys vary, each row has their values."""
    ranking, tally, case = words.found, words.found.tally, words.case
    facts, schema = workload_of(case).facts, "costmodel/search/v2"
    return {
        **result_fields(case, facts, words.json_columns, words.paths, words.convention(), schema),
        "assumed": assumption_fields([*assumed_job(case.asked.assumed), *words.assumed()]),
        "objective": words.objective,
        "limits": [limit.key for limit in stated_limits(case.scenario.limits)],
        "held": words.held(),
        "over": [{"path": axis.path, "values": list(axis.values)} for axis in ranking.variants.over],
        "candidates": tally.candidates,
        "evaluated": tally.evaluated,
        "fit": tally.fit,
        "kept": tally.kept,
        "safe": _safety_fields(words),
        "complete": not ranking.stopped,
        "elapsed_s": ranking.elapsed,
        "plans": _ranked_fields(words, ranking.best),
        "pareto": None if ranking.front is None else _front_fields(words, ranking.front),
        "nearest": [] if ranking.best else _ranked_fields(words, words.missed_by_least()),
        "yours": words.own_fields(),
        "values": [_value_fields(words, part) for part in (ranking.parts if words.paths else ())],
        "refused": [_reason_fields(words, code, count) for code, count in tally.whole.against()],
        "try": words.tried(),
        "remedies": words.remedy_fields(),
        "notes": words.note_fields(),
    }


def _ranked_fields(words: SearchWords[Inputs, Plan], plans: list[Plan]) -> list[dict[str, Any]]:
    """Plans as plain values with their ranks."""
    return [{"rank": place, **words.fields(plan)} for place, plan in enumerate(plans, 1)]


def _safety_fields(words: SearchWords[Inputs, Plan]) -> dict[str, Any] | None:
    """The preferred chance, whether plans have it, and the best plan without it, as plain values."""
    ranking, (chance, other) = words.found, words.rule()
    if chance is None:
        return None
    rules = ranking.safe is not None
    return {
        "chance": chance,
        "rules": rules,
        "met": ranking.is_safe if rules else None,
        "plans": ranking.tally.safe if rules else None,
        "without": [] if other is None else _ranked_fields(words, [other]),
    }


def _front_fields(words: SearchWords[Inputs, Plan], front: Front[Plan]) -> dict[str, Any]:
    """The Pareto front as plain values."""
    named = (front.axes.x, front.axes.y)
    axes = [{"name": machine_name(name), "better": words.columns[name].better} for name in named]
    return {"axes": axes, "thinned": front.thinned, "plans": _ranked_fields(words, front.rows)}


def _value_fields(words: SearchWords[Inputs, Plan], part: PlanCounts[Plan]) -> dict[str, Any]:
    """One combination of the varied keys as plain values: the counts of plans, and the best plan."""
    fault = None if part.fault is None else {"code": part.fault.code, "text": part.fault.sentence}
    return {
        **words.found.variants.cells(part.number),
        "candidates": part.candidates,
        "evaluated": part.evaluated,
        "fit": part.fit,
        "kept": part.kept,
        "safe": part.safe if words.found.safe is not None else None,
        "best": None if part.best is None else words.fields(part.best),
        "refused": dict(part.against()),
        "fault": fault,
    }


def _reason_fields(words: SearchWords[Inputs, Plan], code: str, count: int) -> dict[str, Any]:
    """A reason against plans as plain values: how many plans it rejects, and an example."""
    rule, (_, stated) = words.reasons[code], rejected_example(words, code)
    share = count / words.found.tally.candidates
    entry = {"code": code, "plans": count, "share": share, "text": rule.title, "meaning": rule.meaning}
    plan = next((part.examples[code] for part in words.found.tally.parts.values() if code in part.examples), None)
    if plan is None:
        return {**words.row_facts(), **entry}
    return {**words.row_facts(), **entry, "example": words.keys(plan), "case": stated or None}
