"""The way from the ideal step, all model FLOP at the peak, to the predicted one, and what each part was made of."""

from __future__ import annotations

from dataclasses import replace

from costmodel.documents.schemas.results import OF_RUN, TRAINING_COLUMNS
from costmodel.equations.run.economics import work_time
from costmodel.estimate.evaluate.evaluate_plans import TERM_COLUMNS, Evaluation
from costmodel.estimate.run.whole_run import shares
from costmodel.estimate.shared.per_stage import STAGES
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.flop_count import work_of_step
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.explore.explain.explain import Book, ExplainedFigure, trees_of
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
    """The trees of the parts that are no terms of the step, of a traced evaluation."""
    with trace():
        origins = {f"{name}_s": origin_of(value, name) for name, value in _of_compute(inputs, evaluation).items()}
    return trees_of(Book(inputs.case.trees, TRAINING_COLUMNS, TERM_COLUMNS), origins, dict.fromkeys(origins, "s"))


def share_nodes(inputs: TrainingInputs, evaluation: Evaluation) -> dict[str, ExplainedFigure]:
    """The trees of the parts of the wall time of a run, of a traced evaluation."""
    if inputs.run is None or evaluation.run is None:
        return {}
    with trace():
        parts = {"steps": evaluation.run.goodput, **shares(inputs.run, evaluation.run)}
        origins = {f"shares.{name}": origin_of(value, name) for name, value in parts.items()}
    return trees_of(Book(inputs.case.trees, OF_RUN, TERM_COLUMNS), origins, dict.fromkeys(origins, "1"))


def stage_nodes(inputs: TrainingInputs, evaluation: Evaluation) -> dict[str, ExplainedFigure]:
    """The trees of the time of a micro-batch on the first, a middle and the last stage, of a traced evaluation."""
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


def _of_compute(inputs: TrainingInputs, evaluation: Evaluation) -> dict[str, Number]:
    flop, columns = work_of_step(inputs, evaluation.block), evaluation.costs.columns
    ideal, executed = (
        known_as(name, work_time(work, inputs.rates.mfu_peak, inputs.ranks))
        for name, work in (("ideal", flop.model), ("executed", flop.executed))
    )
    kernels = columns["matmul"] + columns["attention"] - executed
    return {"ideal": ideal, "recomputed": executed - ideal, "kernels": kernels}
