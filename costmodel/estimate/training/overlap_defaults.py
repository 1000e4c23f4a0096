"""Default overlap of a stack, where it depends on more than one of its keys."""

from __future__ import annotations

from collections.abc import Callable

from costmodel.documents.reader.resolved_scenario import ResolvedScenario


def tensor_overlap(case: ResolvedScenario) -> float:
    """The stack's overlap of tensor parallelism; models with experts have a separate value."""
    experts = case.stack.experts
    return case.stack.overlap.tp if experts is None or not case.model.has_experts else experts.tp_overlap


def weights_overlap(
    case: ResolvedScenario, choose: Callable[[str, float | None, float, str], float], origin: str
) -> float:
    """The hidden share of the weight all-gather, if stated; else that of the gradients."""
    asked, stack = case.scenario.assume.overlap, case.stack.overlap
    if asked.weights is None and stack.weights is None:
        return stack.dp if asked.dp is None else asked.dp
    return choose("assume.overlap.weights", asked.weights, stack.weights or 0.0, origin)
