"""Facts of one plan for a page, with its collectives and kernels."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any

from costmodel.documents.schemas.results import OF_RUN, TRAINING_COLUMNS
from costmodel.equations.run.economics import rate, share, work_time
from costmodel.estimate.run.whole_run import shares
from costmodel.estimate.shared.plan_batch import STAGES
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.flop_count import flop_of_step
from costmodel.estimate.training.memory_breakdown import LINES
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training_answer.evaluate_training import TERM_COLUMNS, Evaluation, missing_input
from costmodel.estimate.training_answer.predict_training import Answer
from costmodel.explore.explain.equation_trees import (
    ExplainedFigure,
    TreeNames,
    figure_trees,
    traced_evaluation,
    trees_of,
)
from costmodel.explore.explain.pipeline_schedules import Event, Pipeline, events, pipeline_of
from costmodel.explore.page.transfer_nodes import transfer_trees
from costmodel.explore.transfer_bandwidth import is_sent
from costmodel.ground.equation import Combined, Leaf, Named, Number, Origin, Step, known_as, origin_of, trace
from costmodel.ground.record import record

PRODUCTS = {"matmul_time": "matmul"}


@record
class Operation:
    """A matrix product of a plan: name, FLOP, bytes, seconds, and peak and memory bandwidth of its number type."""

    name: str
    flop: float
    nbytes: float
    seconds: float
    peak: float
    bandwidth: float
    step: Step = field(repr=False, compare=False)

    @property
    def intensity(self) -> float:
        """FLOP of the product per byte that it moves."""
        return float(share(self.flop, self.nbytes))

    @property
    def attained(self) -> float:
        """FLOP per second that the product reaches."""
        return float(rate(self.flop, self.seconds))


@record
class Roofline:
    """The roofline of an accelerator for one number type: peak FLOP/s and memory bandwidth."""

    peak: float
    bandwidth: float

    @property
    def ridge(self) -> float:
        """FLOP for each byte from which compute is the limit."""
        return float(share(self.peak, self.bandwidth))


def longest_matmuls(evaluation: Evaluation, most: int = 40) -> list[Operation]:
    """The distinct matrix products of a step, the longest first, at most `most`; the evaluation must be traced."""
    operations_by_name: dict[str, Operation] = {}
    for step in _equation_calls(origin_of(evaluation.costs.columns["step_time"])):
        if step.equation.name not in PRODUCTS:
            continue
        inputs = {name: number(origin.value) for name, origin in step.inputs.items()}
        seconds = number(step.value)
        if min(inputs["flop"], inputs["nbytes"], seconds) <= 0:
            continue
        name = ", ".join(step.labels) or step.equation.name
        sizes = (inputs["flop"], inputs["nbytes"], seconds, inputs["peak"], inputs["bandwidth"])
        operations_by_name.setdefault(name, Operation(name, *sizes, step))
    return sorted(operations_by_name.values(), key=lambda item: -item.seconds)[:most]


def matmul_trees(trees: dict[str, Any], measured: list[Operation]) -> dict[str, ExplainedFigure]:
    """The equation trees of matrix products by name: `operations.0.seconds`, `.intensity`, `.attained`, `.of_peak`."""
    nodes: dict[str, ExplainedFigure] = {}
    book = TreeNames(trees, TRAINING_COLUMNS, TERM_COLUMNS)
    units = {"seconds": "s", "flop": "FLOP", "nbytes": "B", "peak": "FLOP/s"}
    for place, item in enumerate(measured):
        origins: dict[str, Origin] = {"seconds": item.step}
        origins |= {name: item.step.inputs[name] for name in ("flop", "nbytes", "peak")}
        known = trees_of(book, origins, units)
        attained = ExplainedFigure("attained", item.attained, "FLOP/s", operation="quotient",
                                   beneath=[known["flop"], known["seconds"]])  # fmt: skip
        ratios = {"intensity": ("FLOP/B", item.intensity, [known["flop"], known["nbytes"]]),
                  "of_peak": ("1", item.attained / item.peak, [attained, known["peak"]])}  # fmt: skip
        made = {name: ExplainedFigure(name, value, unit, operation="quotient", beneath=inner)
                for name, (unit, value, inner) in ratios.items()}  # fmt: skip
        figures = {"seconds": known["seconds"], "attained": attained, **made}
        nodes |= {f"operations.{place}.{name}": node for name, node in figures.items()}
    return nodes


def rooflines(measured: list[Operation]) -> list[Roofline]:
    """The distinct rooflines of these matrix products, the highest peak first."""
    made = {(item.peak, item.bandwidth) for item in measured}
    return [Roofline(*limits) for limits in sorted(made, reverse=True)]


def _equation_calls(start: Origin) -> Iterator[Step]:
    """Every equation call behind a figure, once each."""
    waiting, seen = [start], {id(start)}
    while waiting:
        origin = waiting.pop()
        if isinstance(origin, Step):
            yield origin
        for part in _direct_inputs(origin):
            if id(part) not in seen:
                seen.add(id(part))
                waiting.append(part)


def _direct_inputs(origin: Origin) -> list[Origin]:
    """The origins from which an origin is computed directly."""
    if isinstance(origin, Leaf):
        return []
    if isinstance(origin, Named):
        return [origin.of]
    return list(origin.parts) if isinstance(origin, Combined) else list(origin.inputs.values())


@record
class TimeLoss:
    """One row of the waterfall from ideal to predicted step time: its name and seconds."""

    name: str
    seconds: float


def time_losses(inputs: TrainingInputs, evaluation: Evaluation) -> list[TimeLoss]:
    """The waterfall of the step time: ideal compute, recompute, kernels below their peak, then each other term."""
    costs = evaluation.costs.row()
    terms = [name for name in TERM_COLUMNS.values() if name not in ("matmul", "attention")]
    ahead = [TimeLoss(name, number(value)) for name, value in _compute_parts(inputs, evaluation).items()]
    return ahead + [TimeLoss(name, costs[name]) for name in terms if costs[name] > 0]


def time_loss_trees(inputs: TrainingInputs, evaluation: Evaluation) -> dict[str, ExplainedFigure]:
    """The equation trees of the first rows of that waterfall: ideal compute, recompute, kernels below their peak."""
    with trace():
        origins = {f"{name}_s": origin_of(value, name) for name, value in _compute_parts(inputs, evaluation).items()}
    return trees_of(TreeNames(inputs.case.trees, TRAINING_COLUMNS, TERM_COLUMNS), origins, dict.fromkeys(origins, "s"))


def run_share_trees(inputs: TrainingInputs, evaluation: Evaluation) -> dict[str, ExplainedFigure]:
    """The equation trees of the parts of a run's wall time."""
    if inputs.run is None or evaluation.run is None:
        return {}
    with trace():
        parts = {"steps": evaluation.run.goodput, **shares(inputs.run, evaluation.run)}
        origins = {f"shares.{name}": origin_of(value, name) for name, value in parts.items()}
    return trees_of(TreeNames(inputs.case.trees, OF_RUN, TERM_COLUMNS), origins, dict.fromkeys(origins, "1"))


def stage_time_trees(inputs: TrainingInputs, evaluation: Evaluation) -> dict[str, ExplainedFigure]:
    """The equation trees of the time of a micro-batch on the first, a middle and the last stage."""
    with trace():
        origins = {
            f"stages.{stage}.{name}": origin_of(getattr(rank, name), f"{name} of the {stage} stage")
            for stage, rank in zip(STAGES, evaluation.step.ranks, strict=True)
            for name in ("forward", "backward")
        }
    trees = trees_of(TreeNames(inputs.case.trees, TRAINING_COLUMNS, TERM_COLUMNS), origins, dict.fromkeys(origins, "s"))
    for stage in STAGES:
        each = [trees[f"stages.{stage}.{name}"] for name in ("forward", "backward")]
        both = sum(node.value for node in each)
        trees[f"stages.{stage}.both"] = ExplainedFigure("both", both, "s", operation="sum", beneath=each)
    return {key: replace(node, name=key.rpartition(".")[2]) for key, node in trees.items()}


def stage_memory_trees(inputs: TrainingInputs, evaluation: Evaluation) -> dict[str, ExplainedFigure]:
    """The equation trees of every memory line on each reported stage."""
    places = evaluation.ledger.stages(evaluation.block.pp[0])
    with trace():
        origins = {
            f"{STAGES[place]}.{name}_bytes" if len(places) > 1 else f"{name}_bytes": origin_of(
                evaluation.ledger.line(name, place), name
            )
            for place in places
            for name in LINES
        }
    trees = trees_of(TreeNames(inputs.case.trees, TRAINING_COLUMNS, TERM_COLUMNS), origins, dict.fromkeys(origins, "B"))
    names = {key: key.rpartition(".")[2].removesuffix("_bytes") for key in trees}
    return {key: replace(node, name=names[key]) for key, node in trees.items()}


def _compute_parts(inputs: TrainingInputs, evaluation: Evaluation) -> dict[str, Number]:
    """Seconds of ideal compute, of recompute, and of kernels below their peak."""
    flop, columns = flop_of_step(inputs, evaluation.block), evaluation.costs.columns
    ideal, executed = (
        known_as(name, work_time(work, inputs.rates.mfu_peak, inputs.ranks))
        for name, work in (("ideal", flop.model), ("executed", flop.executed))
    )
    kernels = columns["matmul"] + columns["attention"] - executed
    return {"ideal": ideal, "recomputed": executed - ideal, "kernels": kernels}


MOST_EVENTS = 320  # drawn one by one; of more, the first and the last of each rank
MOST_RANKS = 16


@record
class TimelineWindow:
    """A time interval of a pipeline, with the operations of all ranks in it."""

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
        """The results of the plan by name."""
        return self.answer.evaluation.costs.row()

    @functools.cached_property
    def evaluation(self) -> Evaluation:
        """The traced evaluation of the plan."""
        return traced_evaluation(self.answer.inputs, self.answer.plan)

    @functools.cached_property
    def nodes(self) -> dict[str, ExplainedFigure]:
        """The equation tree of every known figure, by name."""
        inputs = self.answer.inputs
        known = [
            name
            for name in self.evaluation.costs.columns
            if name in TRAINING_COLUMNS and not missing_input(inputs, name)
        ]
        trees = figure_trees(inputs, self.evaluation, known) | stage_memory_trees(inputs, self.evaluation)
        trees |= transfer_trees(inputs.case.trees, list(filter(is_sent, self.evaluation.step.transfers)))
        trees |= matmul_trees(inputs.case.trees, self.operations)
        if self.pipelined:
            trees |= stage_time_trees(inputs, self.evaluation)
        return trees | time_loss_trees(inputs, self.evaluation) | run_share_trees(inputs, self.evaluation)

    @functools.cached_property
    def operations(self) -> list[Operation]:
        """The matrix products of the step."""
        return longest_matmuls(self.evaluation)

    @functools.cached_property
    def losses(self) -> list[TimeLoss]:
        """The waterfall from the ideal step time (model FLOP at the peak) to the predicted one."""
        return time_losses(self.answer.inputs, self.answer.evaluation)

    @property
    def pipelined(self) -> bool:
        """Whether there is more than one stage."""
        return bool(self.answer.evaluation.block.pp[0] > 1)

    @functools.cached_property
    def pipeline(self) -> Pipeline | None:
        """The pipeline of the plan with its stage times; None for a single stage."""
        clocked = pipeline_of(self.answer.inputs, self.answer.plan)
        return clocked if clocked.ranks > 1 else None

    @functools.cached_property
    def windows(self) -> list[TimelineWindow]:
        """The intervals of the pipeline to draw: all of it, or its start and end if it has too many operations."""
        if self.pipeline is None:
            return []
        ranks = events(self.pipeline, most=MOST_RANKS)
        every = [event for rank in ranks for event in rank]
        last = max(event.end for event in every)
        if len(every) <= MOST_EVENTS:
            return [TimelineWindow(0.0, last, tuple(every))]
        width = last * MOST_EVENTS / (2 * len(every))
        first = tuple(event for event in every if event.start < width)
        return [
            TimelineWindow(0.0, width, first),
            TimelineWindow(last - width, last, tuple(event for event in every if event.end > last - width)),
        ]
