"""The pipeline of one plan: what each schedule would do, how even its stages are, and its clock."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, get_args

from costmodel.estimate.evaluate.evaluate_plans import evaluate
from costmodel.estimate.evaluate.predict import Answer, answer, own_plan, plan_block
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.parallelism.pipeline import FOLDED, LOOPED, live
from costmodel.estimate.training.plan_constraints import micro_batches
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.explore.explain.explained_answer import ExplainedAnswer, explained
from costmodel.explore.explain.schedule_order import ForwardBackwardTime, Pipeline
from costmodel.explore.search.search_space import chunk_counts
from costmodel.ground.counts import Schedule
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from costmodel.documents.reader.resolved_scenario import ResolvedScenario
    from costmodel.documents.schemas.scenario import Plan

SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)


@record
class Offer:
    """One pipeline schedule for the plan: its answer, or why it is not possible."""

    schedule: Schedule
    vpp: int
    answer: Answer
    in_flight: float
    own: bool

    @property
    def refused(self) -> tuple[str, ...]:
        """The reasons against the schedule: invalid, too large, or over a limit."""
        return self.answer.refused or self.answer.broken


@record
class Pipelines:
    """The answer for a plan, the schedules that it could use, and the times of its stages."""

    own: ExplainedAnswer
    offers: list[Offer]
    clock: Pipeline | None  # None for an invalid plan

    @property
    def fastest(self) -> Offer | None:
        """The fastest of the possible schedules."""
        possible = [offer for offer in self.offers if not offer.refused]
        return min(possible, key=lambda offer: offer.answer.evaluation.costs.row()["step_time"], default=None)


def pipelines(case: ResolvedScenario, schedules: Sequence[Schedule] = ()) -> Pipelines:
    """The scenario's plan under the schedules asked for, or all that its software offers; one stage has one."""
    inputs = training_inputs(case)
    plan = own_plan(inputs)
    own = explained(answer(inputs, plan))
    if own.refused:
        return Pipelines(own, [], None)
    offered = inputs.stack.schedules if plan.pp > 1 else [own.evaluation.block.structure.schedule]
    offers = list(_offers(inputs, plan, own, schedules or offered))
    return Pipelines(own, offers, clock(inputs, plan))


def named(text: str) -> list[Schedule]:
    """The schedules that `--schedule a,b` names."""
    known: dict[str, Schedule] = {name: name for name in SCHEDULES}
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise fail("D010", f"'{word}' is no schedule", Place("command line"), f"one of {', '.join(SCHEDULES)}")
    return [known[word] for word in dict.fromkeys(words)]


def _offers(inputs: TrainingInputs, plan: Plan, own: Answer, schedules: Sequence[Schedule]) -> Iterator[Offer]:
    """Each schedule; interleaved with the plan's chunks, or with every number of chunks that is valid."""
    mine = own.evaluation.block.structure.schedule
    for schedule in schedules:
        asked = {vpp: answer(inputs, plan.model_copy(update={"schedule": schedule, "vpp": vpp}))
                 for vpp in _chunks(inputs, plan, schedule)}  # fmt: skip
        valid = {vpp: found for vpp, found in asked.items() if not found.refused}
        for vpp, found in (valid or dict(list(asked.items())[:1])).items():
            yield Offer(schedule, int(vpp), found, _live(inputs, found), mine == schedule and vpp == plan.vpp)


def _chunks(inputs: TrainingInputs, plan: Plan, schedule: Schedule) -> list[float]:
    """Numbers of chunks to try."""
    if schedule not in LOOPED:
        return [2.0 if schedule in FOLDED else 1.0]
    layers = float(layer_count(inputs.model))
    return [plan.vpp] if plan.vpp > 1 else [value for value in chunk_counts(layers, (plan.pp,)) if value > 1]


def _live(inputs: TrainingInputs, asked: Answer) -> float:
    """Micro-batches that the first stage holds at its peak."""
    block = asked.evaluation.block
    if block.pp[0] == 1:
        return 1.0
    count = micro_batches(inputs, block)
    return number(live(block, count, 0.0))


def clock(inputs: TrainingInputs, plan: Plan) -> Pipeline:
    """The plan's pipeline with the times its estimate was made of."""
    block, _ = plan_block(inputs, plan)
    first, middle, last = (
        ForwardBackwardTime(number(rank.forward), number(rank.backward), number(rank.deferred))
        for rank in evaluate(inputs, block).step.ranks
    )
    ranks, count = (max(1, math.floor(number(size))) for size in (block.pp, micro_batches(inputs, block)))
    schedule = block.structure.schedule
    chunks = int(number(block.vpp)) if schedule in (*LOOPED, *FOLDED) else 1
    return Pipeline(ranks, count, chunks, schedule, first, middle, last)
