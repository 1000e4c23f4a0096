"""Answers about serving as JSON: SI numbers with the unit in the name, described columns, all assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costmodel.documents.schemas.results import SERVING_COLUMNS, machine_name
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.serving.host_cache import host_cache
from costmodel.estimate.serving.plan_columns import SIZES, sizes_of
from costmodel.estimate.serving.predict_serving import ServingAnswer, known_costs
from costmodel.estimate.serving.reason_codes import REFUSALS
from costmodel.estimate.serving.replica_traffic import ServingTransfer
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.explore.kept_answers import halves, one
from costmodel.report.machine.answer_fields import assumed_json, frame, known, notes
from costmodel.report.terminal.serving.serving_communication import sent
from costmodel.report.terminal.serving.serving_reasons import reason
from costmodel.report.terminal.style.head import subject_fields, title


def plan_frame(answer: ServingAnswer) -> dict[str, Any]:
    """What an answer about one plan is about."""
    case = answer.inputs.case
    return {"workload": "serving", "facts": subject_fields(subject_of(case)), "title": title(case)}


def _frame(inputs: ServingInputs) -> dict[str, Any]:
    facts = subject_fields(subject_of(inputs.case))
    return frame(inputs.case, "costmodel/result/v1", facts, SERVING_COLUMNS)


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
    result = _frame(answer.inputs)
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


def memory(answer: ServingAnswer) -> dict[str, Any]:
    """One plan with the lines of its most loaded accelerator."""
    result, use = estimate(answer), answer.evaluation.memory
    lines = {"weights": use.weights, "activations": use.activations, "runtime": use.runtime, "cache": use.pool}
    kept = host_cache(answer)
    if kept is not None:
        result["host_cache"] = {
            "memory_bytes": kept.memory,
            "rank_bytes": kept.each,
            "tokens": kept.tokens,
            "prompt_tokens": kept.prompt,
            "load_s": kept.load,
            "recompute_s": known(kept.recompute),
        }
    result["ledger"] = [] if answer.refused else [{f"{name}_bytes": one(value) for name, value in lines.items()}]
    return result


def communication(answer: ServingAnswer) -> dict[str, Any]:
    """One plan with its transfers."""
    return {**estimate(answer), "transfers": [_transfer(item) for item in sent(answer)]}


def _transfer(item: ServingTransfer) -> dict[str, Any]:
    transfer = item.transfer
    return {
        "of": item.moment,
        "group": transfer.group.name,
        "ranks": one(transfer.group.ranks),
        "domains": one(transfer.group.domains),
        "operation": transfer.operation,
        "message_bytes": one(transfer.message),
        "count": one(transfer.count),
        "time_s": one(transfer.time),
        "volume_bytes": one(transfer.volume),
    }
