"""Share of communication that compute can hide: what a scenario states, else what its stack does."""

from __future__ import annotations

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.estimate.shared.assumptions import AssumptionLog
from costmodel.ground.record import record


@record
class OverlapShares:
    """Share of each axis' communication that compute can hide, and of ZeRO-3's weight all-gathers."""

    tp: float
    dp: float
    weights: float
    pp: float
    cp: float


def overlap_shares(case: ResolvedScenario, log: AssumptionLog) -> OverlapShares:
    """The shares of a case; those that its stack gives are noted as assumed."""
    stated, stack, choose = case.scenario.assume.overlap, case.stack, log.choose
    origin = f"stacks/{stack.name}"
    return OverlapShares(
        tp=choose("assume.overlap.tp", stated.tp, _of_tensors(case), origin),
        dp=choose("assume.overlap.dp", stated.dp, stack.overlap.dp, origin),
        weights=_of_weights(case, log, origin),
        pp=choose("assume.overlap.pp", stated.pp, stack.overlap.pp, origin),
        cp=choose("assume.overlap.cp", stated.cp, stack.overlap.cp, origin),
    )


def _of_tensors(case: ResolvedScenario) -> float:
    """The stack's overlap of tensor parallelism; models with experts have a separate value."""
    experts = case.stack.experts
    return case.stack.overlap.tp if experts is None or not case.model.has_experts else experts.tp_overlap


def _of_weights(case: ResolvedScenario, log: AssumptionLog, origin: str) -> float:
    """The hidden share of the weight all-gather, if stated; else that of the gradients."""
    asked, stack = case.scenario.assume.overlap, case.stack.overlap
    if asked.weights is None and stack.weights is None:
        return stack.dp if asked.dp is None else asked.dp
    return log.choose("assume.overlap.weights", asked.weights, stack.weights or 0.0, origin)
