"""Chance that one plan of a scenario is faster than another: errors that both have in common cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import chance_within, combined_error
from costmodel.estimate.evaluate.error_band import kind_errors, working

if TYPE_CHECKING:
    from collections.abc import Mapping

    from costmodel.estimate.training.time.step import TrainingStep
    from costmodel.estimate.training.training_inputs import TrainingInputs
    from costmodel.ground.equation import Number


def error_shares(inputs: TrainingInputs, step: TrainingStep) -> dict[str, Number]:
    """Error of each kind as a share of the step, without the bubble, which follows the rest."""
    whole = working(step)
    return {name: share(error, whole) for name, error in kind_errors(inputs, step).items()}


def spread_apart(inputs: TrainingInputs, one: Mapping[str, float], other: Mapping[str, float]) -> Number:
    """Spread of the ratio of two steps of one machine and software, from the shares of each kind of error in both.

    A source, its software and the accelerator are the same for both. What differs is how much of a step each kind of
    error touches, and what runs of one source differ by anyway.
    """
    step = inputs.stack.spread.step
    spread = combined_error(step, step)
    for kind, error in one.items():
        spread = combined_error(spread, error - other[kind])
    return spread


def chance_faster(times: tuple[float, float], apart: Number) -> float:
    """Chance that the first of two plans is faster, by their times and the spread of their ratio."""
    one, other = times
    return float(chance_within(one, other, apart))
