"""What a stack hides, where that hangs on more than one of its lines."""

from __future__ import annotations

from collections.abc import Callable

from costmodel.documents.reader.resolved_scenario import ResolvedScenario


def tensor_overlap(case: ResolvedScenario) -> float:
    """The stack's overlap of tensor parallelism; for models with experts it has another."""
    experts = case.stack.experts
    return case.stack.overlap.tp if experts is None or not case.model.has_experts else experts.tp_overlap


def weights_overlap(
    case: ResolvedScenario, choose: Callable[[str, float | None, float, str], float], origin: str
) -> float:
    """The share of weights on their way back that hides, where anybody names one; else that of gradients."""
    asked, stack = case.scenario.assume.overlap, case.stack.overlap
    if asked.weights is None and stack.weights is None:
        return stack.dp if asked.dp is None else asked.dp
    return choose("assume.overlap.weights", asked.weights, stack.weights or 0.0, origin)
