"""What an estimate says of the engine that is simulated step by step: one whose steps take α + β b + γ m."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
from equations.serving.engine_simulation import Engine

from costmodel.estimate.serving.operating_point import OperatingPoint
from costmodel.estimate.serving.serving_inputs import Load, ServingInputs
from costmodel.estimate.serving.steady_state import SteadyState, steady_state
from costmodel.estimate.serving.whole_prompts import blocking_prompts, filled_room

from .cases import inputs


@functools.cache
def _shipped() -> ServingInputs:
    return inputs()


def inputs_of(engine: Engine) -> ServingInputs:
    """The shipped scenario with its lengths."""
    answers = engine.variation if engine.answers is None else engine.answers
    load = Load(engine.prompt, engine.output, engine.variation, answers, 0.0, engine.prompt + engine.output)
    load = replace(load, whole=not engine.chunked)
    return replace(_shipped(), load=load)


def point_of(engine: Engine) -> OperatingPoint:
    """Its steps at the load that its rate makes."""
    alpha, beta, gamma = engine.base_time, engine.sequence_time, engine.prompt_token_time
    work = beta * engine.output + gamma * engine.prompt
    many = engine.request_rate * engine.output * alpha / (1 - engine.request_rate * work)
    load = inputs_of(engine).load
    room = filled_room(load, max(engine.token_budget - many, 0.0))
    step = alpha + beta * many
    mixed = step + gamma * min(engine.prompt, room)
    blocking = blocking_prompts(load, engine.token_budget, many, 1.0, (alpha, beta, many))
    return OperatingPoint(many, step, mixed, 1.0, room, alpha, beta, gamma, gamma, work, blocking=blocking)


def state_of(engine: Engine) -> SteadyState:
    """The steady state of that engine, by the composition that every estimate of serving goes through."""
    slots = None if np.isinf(engine.slots) else engine.slots
    return steady_state(inputs_of(engine), point_of(engine), engine.request_rate, slots)
