"""Inputs about experts, from the stack and the assumptions of a scenario."""

from __future__ import annotations

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.stack import ExpertKernels
from costmodel.estimate.shared.assumptions import AssumptionLog
from costmodel.estimate.training.stack_in_use import dispatched_bytes
from costmodel.ground.errors import fail
from costmodel.ground.record import record


@record
class ExpertInputs:
    """Inputs about experts: load of a rank over the mean, overlap, host time, and types of dispatched tokens."""

    kernels: ExpertKernels
    load: float
    balance_known: bool
    dropless: bool
    overlap: float
    host: float
    dispatch: float
    deduplicated: bool
    shared_overlap: float


def expert_inputs(case: ResolvedScenario, log: AssumptionLog) -> ExpertInputs | None:
    """Inputs about experts; None for a model without experts."""
    if not case.model.has_experts:
        return None
    kernels, said, named = case.stack.experts, case.scenario.assume.experts, f"stacks/{case.stack.name}"
    if kernels is None:
        sentence = f"the stack {case.stack.name} does not describe experts, which {case.model.name} has"
        raise fail("D016", sentence, case.place("stack", "model"), "take another stack")
    choose = log.choose
    if said.dispatch is None:
        log.note("assume.experts.dispatch", kernels.dispatch, named)
    if said.deduplicated is None:
        log.note("assume.experts.deduplicated", str(kernels.deduplicated).lower(), named)
    load = said.capacity or choose(
        "assume.experts.imbalance", said.imbalance, 1.0, "routed evenly; P90 is of uneven routing"
    )
    issuing = case.stack.launch.each if kernels.looped else 0.0
    return ExpertInputs(
        kernels=kernels,
        load=load,
        balance_known=said.capacity is not None or said.imbalance is not None,
        dropless=said.capacity is None,
        overlap=log.choose("assume.overlap.ep", case.scenario.assume.overlap.ep, kernels.overlap, named),
        host=log.choose("assume.experts.host", said.host, issuing, named, "s"),
        dispatch=dispatched_bytes(case, said.dispatch or kernels.dispatch),
        deduplicated=kernels.deduplicated if said.deduplicated is None else said.deduplicated,
        shared_overlap=kernels.shared_overlap if said.shared_overlap is None else said.shared_overlap,
    )
