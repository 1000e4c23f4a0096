"""Answers about reinforcement learning as JSON: SI numbers with the unit in the name, columns, assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.explore.kept_answers import rl_degrees
from costmodel.report.machine.answer_fields import known


def plan(answer: RlAnswer, costs: Mapping[str, float] | None = None) -> dict[str, Any]:
    """A plan with its degrees and results; costs: results to use instead of the plan's."""
    figures = {machine_name(name): known(value) for name, value in (costs or answer.costs).items()}
    return {**rl_degrees(answer), **figures, "fits": answer.costs["memory_share"] <= 1}
