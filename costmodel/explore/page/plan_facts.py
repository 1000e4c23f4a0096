"""What a page shows of one training plan: its answer, the way from the ideal to it, operations, clock and traces."""

from __future__ import annotations

import functools
from dataclasses import replace

from costmodel.documents.schemas.results import OF_RUN, TRAINING_COLUMNS
from costmodel.equations.run.economics import work_time
from costmodel.estimate.evaluate.evaluate_plans import TERM_COLUMNS, Evaluation, missing_input
from costmodel.estimate.evaluate.predict import Answer
from costmodel.estimate.run.whole_run import shares
from costmodel.estimate.shared.plan_batch import STAGES
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.flop_count import work_of_step
from costmodel.estimate.training.memory.breakdown import LINES
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.explore.communication import is_sent
from costmodel.explore.explain.explain import Book, ExplainedFigure, nodes_of, traced_evaluation, trees_of
from costmodel.explore.explain.pipelines import clock
from costmodel.explore.explain.schedule_order import Event, Pipeline, events
from costmodel.explore.page.operations import Operation, operation_nodes, operations
from costmodel.explore.page.transfer_nodes import transfer_nodes
from costmodel.ground.equation import Number, known_as, origin_of, trace
from costmodel.ground.record import record


@record
class TimeLoss:
    """One step on the way from the ideal to the predicted time."""

    name: str
    seconds: float


def time_losses(inputs: TrainingInputs, evaluation: Evaluation) -> list[TimeLoss]:
    """The ideal, what is computed again, kernels below the peak, then every term of the step."""
    costs = evaluation.costs.row()
    terms = [name for name in TERM_COLUMNS.values() if name not in ("matmul", "attention")]
    ahead = [TimeLoss(name, number(value)) for name, value in _of_compute(inputs, evaluation).items()]
    return ahead + [TimeLoss(name, costs[name]) for name in terms if costs[name] > 0]


def loss_nodes(inputs: TrainingInputs, evaluation: Evaluation) -> dict[str, ExplainedFigure]:
    """The trees of time losses that are not terms of the step."""
    with trace():
        origins = {f"{name}_s": origin_of(value, name) for name, value in _of_compute(inputs, evaluation).items()}
    return trees_of(Book(inputs.case.trees, TRAINING_COLUMNS, TERM_COLUMNS), origins, dict.fromkeys(origins, "s"))


def share_nodes(inputs: TrainingInputs, evaluation: Evaluation) -> dict[str, ExplainedFigure]:
    """The trees of the parts of a run's wall time."""
    if inputs.run is None or evaluation.run is None:
        return {}
    with trace():
        parts = {"steps": evaluation.run.goodput, **shares(inputs.run, evaluation.run)}
        origins = {f"shares.{name}": origin_of(value, name) for name, value in parts.items()}
    return trees_of(Book(inputs.case.trees, OF_RUN, TERM_COLUMNS), origins, dict.fromkeys(origins, "1"))


def stage_nodes(inputs: TrainingInputs, evaluation: Evaluation) -> dict[str, ExplainedFigure]:
    """The trees of the time of a micro-batch on the first, a middle and the last stage."""
    with trace():
        origins = {
            f"stages.{stage}.{name}": origin_of(getattr(rank, name), f"{name} of the {stage} stage")
            for stage, rank in zip(STAGES, evaluation.step.ranks, strict=True)
            for name in ("forward", "backward")
        }
    found = trees_of(Book(inputs.case.trees, TRAINING_COLUMNS, TERM_COLUMNS), origins, dict.fromkeys(origins, "s"))
    for stage in STAGES:
        each = [found[f"stages.{stage}.{name}"] for name in ("forward", "backward")]
        both = sum(node.value for node in each)
        found[f"stages.{stage}.both"] = ExplainedFigure("both", both, "s", operation="sum", beneath=each)
    return {key: replace(node, name=key.rpartition(".")[2]) for key, node in found.items()}


def held_nodes(inputs: TrainingInputs, evaluation: Evaluation) -> dict[str, ExplainedFigure]:
    """The trees of the memory lines of every reported stage."""
    places = evaluation.ledger.stages(evaluation.block.pp[0])
    with trace():
        origins = {
            f"{STAGES[place]}.{name}_bytes" if len(places) > 1 else f"{name}_bytes": origin_of(
                evaluation.ledger.line(name, place), name
            )
            for place in places
            for name in LINES
        }
    found = trees_of(Book(inputs.case.trees, TRAINING_COLUMNS, TERM_COLUMNS), origins, dict.fromkeys(origins, "B"))
    names = {key: key.rpartition(".")[2].removesuffix("_bytes") for key in found}
    return {key: replace(node, name=names[key]) for key, node in found.items()}


def _of_compute(inputs: TrainingInputs, evaluation: Evaluation) -> dict[str, Number]:
    flop, columns = work_of_step(inputs, evaluation.block), evaluation.costs.columns
    ideal, executed = (
        known_as(name, work_time(work, inputs.rates.mfu_peak, inputs.ranks))
        for name, work in (("ideal", flop.model), ("executed", flop.executed))
    )
    kernels = columns["matmul"] + columns["attention"] - executed
    return {"ideal": ideal, "recomputed": executed - ideal, "kernels": kernels}


MOST_EVENTS = 320  # drawn one by one; of more, the first and the last of each rank
MOST_RANKS = 16


@record
class Window:
    """A stretch of the clock of a pipeline, and what its ranks do in it."""

    start: float
    end: float
    events: tuple[Event, ...]


@record
class PlanFacts:
    """A training plan with everything that a page shows of it; only the answer where the plan is invalid."""

    answer: Answer

    @property
    def valid(self) -> bool:
        """Whether the plan is valid, so that its figures mean something."""
        return not self.answer.refused

    @functools.cached_property
    def costs(self) -> dict[str, float]:
        """The results as plain numbers."""
        return self.answer.evaluation.costs.row()

    @functools.cached_property
    def evaluation(self) -> Evaluation:
        """The traced evaluation of the plan."""
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
        found = nodes_of(inputs, self.evaluation, known) | held_nodes(inputs, self.evaluation)
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
    def pipeline(self) -> Pipeline | None:
        """The pipeline of the plan with its stage times; None for a single stage."""
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
