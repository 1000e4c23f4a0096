"""What a page shows of one training plan: its answer, the way from the ideal to it, operations, clock and traces."""

from __future__ import annotations

import functools

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.results import TRAINING_COLUMNS
from costmodel.estimate.evaluate.evaluate_plans import Evaluation, missing_input
from costmodel.estimate.evaluate.predict import Answer, predict
from costmodel.estimate.shared.per_stage import STAGES
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.memory.breakdown import LINES
from costmodel.explore.communication import is_sent
from costmodel.explore.explain.explain import ExplainedFigure, ledger_nodes, nodes_of, traced_evaluation
from costmodel.explore.explain.pipelines import clock
from costmodel.explore.explain.timeline import Event, Pipeline, events
from costmodel.explore.page.operations import Operation, operation_nodes, operations
from costmodel.explore.page.time_losses import TimeLoss, loss_nodes, share_nodes, stage_nodes, time_losses
from costmodel.explore.page.transfer_nodes import transfer_nodes
from costmodel.ground.record import record

MOST_EVENTS = 320  # drawn one by one; of more, the first and the last of each rank
MOST_RANKS = 16


@record
class StageMemory:
    """The lines of the ledger of one pipeline stage, and their sum."""

    stage: str
    lines: dict[str, float]
    peak: float


@record
class Window:
    """A stretch of the clock of a pipeline, and what its ranks do in it."""

    start: float
    end: float
    events: tuple[Event, ...]


@record
class PlanFacts:
    """A training plan with all that a page draws of it; of a plan that is not valid, the answer alone."""

    answer: Answer

    @property
    def valid(self) -> bool:
        """Whether the figures mean anything."""
        return not self.answer.refused

    @functools.cached_property
    def costs(self) -> dict[str, float]:
        """The results as plain numbers."""
        return self.answer.evaluation.costs.row()

    @functools.cached_property
    def evaluation(self) -> Evaluation:
        """The same plan, every figure with what it was made of."""
        return traced_evaluation(self.answer.inputs, self.answer.plan)

    @functools.cached_property
    def nodes(self) -> dict[str, ExplainedFigure]:
        """The traced tree of every figure that is known."""
        inputs = self.answer.inputs
        known = [
            name
            for name in self.evaluation.costs.columns
            if name in TRAINING_COLUMNS and not missing_input(inputs, name)
        ]
        lines = ledger_nodes(inputs, self.evaluation)
        found = nodes_of(inputs, self.evaluation, known) | {f"{name}_bytes": node for name, node in lines.items()}
        found |= transfer_nodes(inputs.case.trees, list(filter(is_sent, self.evaluation.step.transfers)))
        found |= operation_nodes(inputs.case.trees, self.operations)
        if self.pipelined:
            found |= stage_nodes(inputs, self.evaluation)
        return found | loss_nodes(inputs, self.evaluation) | share_nodes(inputs, self.evaluation)

    @functools.cached_property
    def operations(self) -> list[Operation]:
        """The matrix products of the step."""
        return operations(self.evaluation)

    @functools.cached_property
    def losses(self) -> list[TimeLoss]:
        """From the ideal, all model FLOP at the peak, to the step: what is computed again, kernels, every term."""
        return time_losses(self.answer.inputs, self.answer.evaluation)

    @property
    def pipelined(self) -> bool:
        """Whether there is more than one stage."""
        return bool(self.answer.evaluation.block.pp[0] > 1)

    @functools.cached_property
    def stages(self) -> list[StageMemory]:
        """The ledger of the first stage, one in the middle and the last, as far as there are so many."""
        ledger = self.answer.evaluation.ledger
        return [
            StageMemory(
                STAGES[place],
                {name: number(ledger.line(name, place)) for name in LINES},
                number(ledger.peaks[place]),
            )
            for place in ledger.stages(self.answer.evaluation.block.pp[0])
        ]

    @functools.cached_property
    def pipeline(self) -> Pipeline | None:
        """The clock of its stages; none of one stage."""
        found = clock(self.answer.inputs, self.answer.plan)
        return found if found.ranks > 1 else None

    @functools.cached_property
    def windows(self) -> list[Window]:
        """The whole of the pipeline, or where that is too much its beginning and its end."""
        if self.pipeline is None:
            return []
        ranks = events(self.pipeline)[:MOST_RANKS]
        every = [event for rank in ranks for event in rank]
        last = max(event.end for event in every)
        if len(every) <= MOST_EVENTS:
            return [Window(0.0, last, tuple(every))]
        width = last * MOST_EVENTS / (2 * len(every))
        first = tuple(event for event in every if event.start < width)
        return [
            Window(0.0, width, first),
            Window(last - width, last, tuple(event for event in every if event.end > last - width)),
        ]


def plan_facts(case: ResolvedScenario) -> PlanFacts:
    """The page of a scenario's own plan."""
    return PlanFacts(predict(case))
