"""Pages of optimizer states that a step fetches from the host and returns."""

from __future__ import annotations

from dataclasses import replace

from costmodel.estimate.shared.time_breakdown import added, summed
from costmodel.estimate.training.memory.offload import page_time
from costmodel.estimate.training.time.step import TERMS, TrainingStep
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, known_as


def with_pages(inputs: TrainingInputs, step: TrainingStep, paged: Number) -> TrainingStep:
    """A step with the transfer of so many paged bytes, which nothing hides."""
    if not inputs.optimizer.paged:
        return step
    terms = step.terms | {"offload": summed(step.terms["offload"], page_time(inputs, paged))}
    return replace(step, terms=terms, total=known_as("step_time", added(terms, TERMS)))
