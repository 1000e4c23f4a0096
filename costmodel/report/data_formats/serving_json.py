"""Answers about serving as JSON: SI numbers with the unit in the name, described columns, all assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.serving.plan_columns import SIZES, sizes_of
from costmodel.estimate.serving.predict_serving import ServingAnswer, known_costs
from costmodel.explore.answer_text.answer_summaries import halves
from costmodel.report.data_formats.answer_fields import known


def plan(sizes: Mapping[str, float], costs: Mapping[str, float]) -> dict[str, Any]:
    """A serving plan for JSON: its sizes, its known results, and whether it fits in memory."""
    degrees = {name: int(size) if float(size).is_integer() else size for name, size in sizes.items()}
    results = known_costs(dict(costs))
    figures = {machine_name(name): known(value) for name, value in results.items() if name not in SIZES}
    return {**degrees, **figures, "fits": costs["memory_share"] <= 1}


def own_plan(answer: ServingAnswer) -> dict[str, Any]:
    """The scenario's plan with its results, those of its prefill and decode halves, and its bottleneck."""
    if answer.groups:
        groups = [
            {"node": group.inputs.case.node.name, "nodes": float(group.inputs.case.cluster.nodes), "share": group.share,
             **own_plan(group)}
            for group in answer.groups
        ]  # fmt: skip
        return {**plan({}, answer.costs), "groups": groups}
    held = plan(sizes_of(answer.evaluation.layout), answer.costs)
    return {**held, **halves(answer.plan), "binds": None if "M001" in answer.broken else answer.binding}


def fixes(answer: ServingAnswer) -> dict[str, Any]:
    """Settings that each remove a reason against the plan, as plain values, with the chance then."""
    offered = enumerate(zip(answer.remedies, answer.chances, strict=True))
    remedies = [
        {"set": list(first), "limits_chance": chance, "only_fits": place < answer.partial}
        for place, ((first, *_), chance) in offered
    ]
    return {"remedies": remedies}
