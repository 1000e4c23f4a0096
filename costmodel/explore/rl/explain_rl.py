"""Why a figure of an iteration of reinforcement learning is what it is: the traced tree of one plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.results import RL_COLUMNS
from costmodel.documents.schemas.results import TRAINING_COLUMNS as STEP
from costmodel.estimate.rl.iteration import LATE, MemoryPart
from costmodel.estimate.rl.predict_rl import RlAnswer, evaluate
from costmodel.estimate.run.whole_run import shares
from costmodel.estimate.serving.engine_memory import memory_use
from costmodel.estimate.training_answer.evaluate_training import TERM_COLUMNS
from costmodel.explore.explain.explain import Book, ExplainedFigure, ledger_nodes, traced_evaluation, trees_of
from costmodel.ground.equation import origin_of, trace

_OF_TRAINER = {"policy weights": ("weights",), "policy optimizer": ("optimizer",), "policy gradients": ("gradients",),
               "activations and buffers": tuple(name for name in LATE if name != "gradients"),
               "training runtime": ("runtime",)}  # fmt: skip
_OF_ENGINE = {"engine weights": "weights", "engine step": "activations", "cache": "pool", "engine runtime": "runtime"}


def explain(answer: RlAnswer, *quantities: str) -> list[ExplainedFigure]:
    """The trees of figures of an RL answer."""
    known = explain_all(answer)
    return [known.get(name) or ExplainedFigure(name, answer.costs[name], RL_COLUMNS[name].unit) for name in quantities]


def explain_all(answer: RlAnswer) -> dict[str, ExplainedFigure]:
    """The trees of all known figures; shared parts are one node."""
    trainer = answer.inputs.trainer
    traced = replace(trainer, evaluation=traced_evaluation(trainer.inputs, trainer.plan))
    with trace(), np.errstate(all="ignore"):
        _, _, results = evaluate(replace(answer.inputs, trainer=traced), answer.memory, valid=not answer.refused)
        origins = {name: origin_of(value, name) for name, value in results.items() if math.isfinite(answer.costs[name])}
    book = Book(answer.inputs.case.trees, {**STEP, **RL_COLUMNS}, TERM_COLUMNS)
    trees = trees_of(book, origins, {name: RL_COLUMNS[name].unit for name in origins})
    return {**trees, **_run_shares(answer), **_ledger(answer)}


def _run_shares(answer: RlAnswer) -> dict[str, ExplainedFigure]:
    """The trees of the time shares of a run: failures, checkpoints, and what is left."""
    inputs, run = answer.inputs.trainer.inputs, answer.run
    if run is None or inputs.run is None:
        return {}
    with trace():
        lost = {f"shares.{name}": origin_of(value, name) for name, value in shares(inputs.run, run).items()}
    return trees_of(Book(answer.inputs.case.trees, RL_COLUMNS, {}), lost, dict.fromkeys(lost, "1"))


def _ledger(answer: RlAnswer) -> dict[str, ExplainedFigure]:
    """Every line of the memory by its phase, and the fuller phase as a sum."""
    memory, found = answer.memory, dict[str, ExplainedFigure]()
    of_trainer, of_engine = _trainer_lines(answer), _engine_lines(answer)
    sums = {}
    for phase in ("generating", "updating"):
        held = {part.name: (part, getattr(part, phase)) for part in memory.parts if getattr(part, phase)}
        lines = {name: _line(part, value, of_trainer, of_engine) for name, (part, value) in held.items()}
        found |= {f"{phase}.{name.replace(' ', '_')}_bytes": node for name, node in lines.items()}
        sums[phase] = list(lines.values())
    fuller = "updating" if memory.updating >= memory.generating else "generating"
    peak = ExplainedFigure("memory_peak", memory.peak, "B", operation="sum", beneath=sums[fuller])
    return found | {"memory_peak": replace(peak, quantity="memory_peak")}


def _line(
    part: MemoryPart, value: float, trained: Mapping[str, ExplainedFigure], engine: Mapping[str, ExplainedFigure]
) -> ExplainedFigure:
    """One line of the memory as a tree."""
    if part.name in _OF_ENGINE:
        return replace(engine[_OF_ENGINE[part.name]], name=part.name)
    lines = [trained[name] for name in _OF_TRAINER.get(part.name, ()) if trained[name].value]
    if len(lines) == 1:
        return replace(lines[0], name=part.name)
    return ExplainedFigure(part.name, value, "B", operation="sum" if lines else "", beneath=lines)


def _trainer_lines(answer: RlAnswer) -> dict[str, ExplainedFigure]:
    fullest = answer.inputs.fullest
    return ledger_nodes(fullest.inputs, traced_evaluation(fullest.inputs, fullest.plan))


def _engine_lines(answer: RlAnswer) -> dict[str, ExplainedFigure]:
    """The traced memory lines of an engine."""
    engines = answer.inputs.engines
    if engines is None:
        return {}
    with trace(), np.errstate(all="ignore"):
        use = memory_use(engines.inputs, engines.layout)
        origins = {name: origin_of(getattr(use, name), name) for name in _OF_ENGINE.values()}
    return trees_of(Book(answer.inputs.case.trees, RL_COLUMNS, {}), origins, dict.fromkeys(origins, "B"))
