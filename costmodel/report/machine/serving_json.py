"""Answers about serving as JSON: SI numbers with the unit in the name, described columns, all assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costmodel.documents.schemas.results import SERVING_COLUMNS, machine_name
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.serving.plan_columns import SIZES, sizes_of
from costmodel.estimate.serving.predict_serving import ServingAnswer, known_costs
from costmodel.estimate.serving.reason_codes import REFUSALS
from costmodel.explore.kept_answers import halves
from costmodel.report.machine.answer_fields import assumed_json, frame, known, notes
from costmodel.report.terminal.serving.serving_reasons import reason


def plan(sizes: Mapping[str, float], costs: Mapping[str, float]) -> dict[str, Any]:
    """A plan with its results."""
    degrees = {name: int(size) if float(size).is_integer() else size for name, size in sizes.items()}
    results = known_costs(dict(costs))
    figures = {machine_name(name): known(value) for name, value in results.items() if name not in SIZES}
    return {**degrees, **figures, "fits": costs["memory_share"] <= 1}


def estimate(answer: ServingAnswer) -> dict[str, Any]:
    """One plan as costmodel/result/v1."""
    layout = answer.evaluation.layout
    sizes = sizes_of(layout)
    result = frame(answer.inputs.case, subject_of(answer.inputs.case), SERVING_COLUMNS)
    result["assumed"] = assumed_json(answer.assumed)
    row = {
        **plan(sizes, answer.costs),
        **halves(answer.plan),
        "binds": None if "M001" in answer.broken else answer.binding,
    }
    result["plans"] = [] if answer.refused else [row]
    offered = zip(answer.remedies, answer.chances, strict=True)
    fixes = [
        {"set": list(first), "limits_chance": chance, "only_fits": place < answer.partial}
        for place, ((first, *_), chance) in enumerate(offered)
    ]
    result["refused"] = [
        {
            "code": code,
            "text": REFUSALS[code].meaning,
            "case": reason(answer, code),
            "remedies": fixes,
        }
        for code in answer.refused or answer.broken
    ]
    result["notes"] = notes([answer.remarked])
    return result
