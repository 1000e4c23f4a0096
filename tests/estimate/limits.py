"""Limits of strategies, written down by word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from costmodel.documents.schemas.scenario import Plan
from costmodel.estimate.training.parallelism.pipeline import pipeline_seconds
from costmodel.estimate.training.plan_constraints import micro_batches
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.predict_training import plan_block
from estimate.cases import one

Rows = Iterator[tuple[dict[str, float], dict[str, float]]]


@dataclass(frozen=True)
class Limit:
    """Pairs of rows, of a strategy at its limit and of the plain case, and the columns in which they may differ."""

    word: str
    pairs: Callable[[str], Rows]
    apart: frozenset[str]
    exact: bool


LIMITS: list[Limit] = []


def limit(*words: str, apart: set[str] | None = None, exact: bool = False) -> Callable[[Any], Any]:
    """Write a limit down for its words; one that speaks for several is told which."""

    def note(rows: Callable[..., Rows]) -> Callable[..., Rows]:
        pairs = rows if rows.__code__.co_argcount else lambda word: rows()
        LIMITS.extend(Limit(word, pairs, frozenset(apart or ()), exact) for word in words)
        return rows

    return note


def row(asked: TrainingInputs, **plan: Any) -> dict[str, float]:
    """All columns of a plan, refused or not, without their bands."""
    return evaluate(asked, plan_block(asked, Plan(**plan))[0]).costs.row()


def pipeline(asked: TrainingInputs, **plan: Any) -> dict[str, float]:
    """The same, and seconds from the first forward to the last backward, also where there is but one stage."""
    block, _ = plan_block(asked, Plan(**plan))
    found = evaluate(asked, block)
    time = pipeline_seconds(asked, block, micro_batches(asked, block), found.step.ranks)
    return found.costs.row() | {"pipeline": one(time)}
