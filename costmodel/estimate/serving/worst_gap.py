"""The longest step that a user sees: one that prompts of others fill, as many as the slots hold."""

from __future__ import annotations

import numpy as np

from costmodel.equations.serving.load.steady_state import mixed_step_time
from costmodel.estimate.serving.operating_point import OperatingPoint, Steps, micro_batch, of_a_token
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term


def worst_gap(inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, steps: Steps, slots: Number) -> Number:
    """Time of that step. Its prompts are looked at together: each token of many takes less time than one of few."""
    micro = micro_batch(layout, point.concurrency)
    with term("full of prompts"):
        tokens = np.maximum(np.minimum(point.room, slots * inputs.load.computed), 1.0)
        each = tokens / layout.pp
        whole = (steps.mixed(micro, each) - point.decode) / each
        gamma = of_a_token(inputs, layout, point.concurrency, each, whole)
        gap = mixed_step_time(point.alpha, point.beta, point.concurrency, gamma, tokens)
    return np.maximum(gap, point.step)
