"""The longest step that a user sees: one that prompts of others fill, as many as the slots hold."""

from __future__ import annotations

import numpy as np

from costmodel.equations.serving.first_token import prompt_room
from costmodel.estimate.serving.operating_point import OperatingPoint, Steps, micro_batch
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.step_batch import step_budget
from costmodel.estimate.serving.whole_prompts import filled_room
from costmodel.ground.equation import Number, term


def worst_gap(inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, steps: Steps, slots: Number) -> Number:
    """Time of the longest step, with all its prompts evaluated together.

    slots: requests that a replica holds at most, the user's own among them
    """
    micro = micro_batch(layout, point.concurrency)
    with term("full of prompts"):
        others = np.maximum(slots - 1.0, 0.0)
        tokens = np.minimum(most_room(inputs, layout, point) / layout.pp, others * inputs.load.computed)
        each = np.maximum(tokens, 1.0)
        gap = point.step + (steps.mixed(micro, each) - point.decode) * (tokens / each)
    return np.maximum(gap, point.step)


def most_room(inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint) -> Number:
    """Upper bound on prompt tokens in a step; whole prompts of different lengths may fill all the room.

    Of equal ones, as many as fit when few others are in flight, as happens at any load.
    """
    load = inputs.load
    if not load.whole:
        return point.room
    with term("room"):
        if load.prompt_spread == 0:
            return layout.pp * filled_room(load, prompt_room(step_budget(layout), load.queries), point.groups)
        return layout.pp * prompt_room(step_budget(layout), load.queries * (point.concurrency / layout.pp))
