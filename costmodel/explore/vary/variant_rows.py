"""Variants of a training scenario as rows of one block of plans: one evaluation gives the result of each.

Variants have other numbers in the scenario's documents, one plan and one structure. A variant whose number decides more
than a number, such as whether a part is in use, is no row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.estimate.evaluate.evaluate_plans import evaluate
from costmodel.estimate.evaluate.limit_checks import unacceptable
from costmodel.estimate.evaluate.predict import own_plan, plan_block
from costmodel.estimate.evaluate.withheld import withheld
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.explore.compare.input_paths import Variant, in_columns
from costmodel.ground.errors import CostModelError

Found = TypeVar("Found")


def results_in_rows(case: ResolvedScenario, variants: Sequence[Variant], result: str) -> list[float | None]:
    """A result in each variant; None for those that are to be evaluated alone."""

    def possible(some: Sequence[Variant]) -> list[bool]:
        training_inputs(in_columns(case, some))
        return [True] * len(some)

    rows = [each for each, is_row in zip(variants, _found(possible, variants), strict=True) if is_row]
    values = dict(zip(map(id, rows), _found(lambda some: _evaluated(case, some, result), rows), strict=True))
    return [values.get(id(each)) for each in variants]


def _evaluated(case: ResolvedScenario, variants: Sequence[Variant], result: str) -> list[float]:
    """The result of all rows, without what plans that do not start or end do not have."""
    inputs = training_inputs(in_columns(case, variants))
    block, _ = plan_block(inputs, own_plan(inputs))
    with np.errstate(all="ignore"):
        costs = evaluate(inputs, block.at(np.zeros(len(variants), dtype=np.intp))).costs
        against = [*unacceptable(inputs, costs)]
    broken = [[code for code, mask in against if mask[row]] for row in range(len(variants))]
    values = costs.column(result)
    return [float(withheld({result: value}, codes)[result]) for value, codes in zip(values, broken, strict=True)]


def _found(work: Callable[[Sequence[Variant]], Sequence[Found]], variants: Sequence[Variant]) -> Sequence[Found | None]:
    """What comes of variants at once; of halves of them where some are no rows, each of which has None."""
    try:
        return work(variants) if variants else []
    except (TypeError, ValueError, CostModelError):
        middle = len(variants) // 2
        return [*_found(work, variants[:middle]), *_found(work, variants[middle:])] if middle else [None]
