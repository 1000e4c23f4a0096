"""Answers about reinforcement learning as JSON: SI numbers with the unit in the name, columns, assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.schemas.results import RL_COLUMNS, machine_name
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.rl.rl_reason_codes import REFUSALS
from costmodel.estimate.shared.results import number
from costmodel.explore.kept_answers import rl_degrees
from costmodel.report.machine.answer_fields import assumed_json, frame, known, notes
from costmodel.report.terminal.rl.rl_communication import within
from costmodel.report.terminal.rl.rl_formatting import reason
from costmodel.report.terminal.style.head import subject_fields, title


def subject(case: RlCase) -> dict[str, Any]:
    """What an answer is about."""
    return {"workload": "rl", "facts": subject_fields(subject_of(case)), "title": title(case)}


def _frame(case: RlCase) -> dict[str, Any]:
    facts = subject_fields(subject_of(case))
    return frame(case, "costmodel/result/v1", facts, RL_COLUMNS)


def plan(answer: RlAnswer, costs: Mapping[str, float] | None = None) -> dict[str, Any]:
    """A plan with its results, or with those of them that compare with other plans."""
    figures = {machine_name(name): known(value) for name, value in (costs or answer.costs).items()}
    return {**rl_degrees(answer), **figures, "fits": answer.costs["memory_share"] <= 1}


def estimate(answer: RlAnswer) -> dict[str, Any]:
    """One plan as costmodel/result/v1."""
    result = _frame(answer.inputs.case)
    result["assumed"] = assumed_json(answer.assumed)
    result["plans"] = [] if answer.refused else [plan(answer)]
    result["refused"] = [
        {"code": code, "text": REFUSALS[code].meaning, "case": reason(answer, code)}
        for code in answer.refused or answer.broken
    ]
    result["notes"] = notes([answer.remarked])
    return result


def memory(answer: RlAnswer) -> dict[str, Any]:
    """One plan with the lines of its ledger."""
    lines = [
        {"part": part.name, "generating_bytes": part.generating, "updating_bytes": part.updating}
        for part in answer.memory.parts
    ]
    return {**estimate(answer), "ledger": [] if answer.refused else lines}


def communication(answer: RlAnswer) -> dict[str, Any]:
    """One plan with what moves."""
    result, sync = estimate(answer), answer.iteration.sync
    if answer.refused:
        return {**result, "transfers": []}
    if sync is not None:
        result["weight_sync"] = {
            "bytes": number(sync.nbytes),
            "rate_bytes_per_s": number(sync.rate),
            "time_s": number(sync.time),
            "layout": sync.layout,
            "bound_by": sync.link,
            "experience_bytes": float(sync.experience),
        }
    result["transfers"] = [
        {
            "of": moment,
            "group": item.group.name,
            "ranks": number(item.group.ranks),
            "operation": item.operation,
            "message_bytes": number(item.message),
            "count": number(item.count),
            "time_s": number(item.time),
        }
        for moment, item in within(answer)
    ]
    return result
