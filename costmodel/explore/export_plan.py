"""A plan of a scenario as a file that people launch: its own, the one of a rank, or the best of its search."""

from __future__ import annotations

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.plan import Plan
from costmodel.estimate.evaluate.predict import Answer, plan_to_mapping
from costmodel.estimate.shared.assumptions import AssumptionLog
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.assumed_rates import gradient_types
from costmodel.exchange.training.exported_job import TARGETS, Exported, exported
from costmodel.exchange.training.job import Job
from costmodel.explore.compare.select_plan import answered, ranked
from costmodel.ground.errors import Place, fail
from costmodel.ground.plan_sizes import SIZES
from costmodel.ground.record import record


@record
class ExportedPlan:
    """The file of a plan beside the prediction for it."""

    answer: Answer
    job: Job
    file: Exported


def export_plan(case: ResolvedScenario, to: str, rank: int | None = None) -> ExportedPlan:
    """The scenario's plan in a format, or that of a rank in its search; without a plan the best of its search."""
    answer = answered(case) if rank is None else ranked(case, rank)
    job = job_of(answer)
    if answer.refused:
        hint = "costmodel estimate SCENARIO shows what to change"
        raise fail("C004", f"the plan is invalid: {answer.refused[0]}", Place(case.file), hint)
    return ExportedPlan(answer, job, exported(TARGETS[to], job))


def job_of(answer: Answer) -> Job:
    """An answer's plan with everything that it was evaluated with, nothing left open."""
    inputs = answer.inputs
    case = inputs.case
    experts = inputs.experts
    return Job(
        file=case.file,
        plan=settled(answer),
        model=case.model,
        workload=case.scenario.workload,
        stack=inputs.stack.name,
        gradients=gradient_types(AssumptionLog(), case)[0],
        optimizer=case.optimizer.name,
        assume=case.scenario.assume,
        deduplicated=experts is not None and experts.deduplicated,
        nodes=round(case.scenario.cluster.nodes),
        per_node=round(case.node.accelerators),
    )


def settled(answer: Answer) -> Plan:
    """The plan with every choice that was made where it was left open."""
    block = answer.evaluation.block
    made = plan_to_mapping(block.structure)
    if block.structure.split == "fitting":
        made["split"] = next((item.value for item in answer.assumed if item.path == "plan.split"), "even")
    return Plan.model_validate({**{name: number(getattr(block, name)) for name in SIZES}, **made})
