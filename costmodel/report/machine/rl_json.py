"""Answers about reinforcement learning as JSON: SI numbers with the unit in the name, columns, assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costmodel.documents.schemas.results import RL_COLUMNS, machine_name
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.rl.rl_reason_codes import REFUSALS
from costmodel.explore.kept_answers import rl_degrees
from costmodel.report.machine.answer_fields import assumed_json, frame, known, notes
from costmodel.report.terminal.rl.rl_formatting import reason


def plan(answer: RlAnswer, costs: Mapping[str, float] | None = None) -> dict[str, Any]:
    """A plan with its results, or with those of them that compare with other plans."""
    figures = {machine_name(name): known(value) for name, value in (costs or answer.costs).items()}
    return {**rl_degrees(answer), **figures, "fits": answer.costs["memory_share"] <= 1}


def estimate(answer: RlAnswer) -> dict[str, Any]:
    """One plan as costmodel/result/v1."""
    result = frame(answer.inputs.case, subject_of(answer.inputs.case), RL_COLUMNS)
    result["assumed"] = assumed_json(answer.assumed)
    result["plans"] = [] if answer.refused else [plan(answer)]
    result["refused"] = [
        {"code": code, "text": REFUSALS[code].meaning, "case": reason(answer, code)}
        for code in answer.refused or answer.broken
    ]
    result["notes"] = notes([answer.remarked])
    return result
