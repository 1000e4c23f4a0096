"""What an estimate says of the engine that is simulated step by step: one whose steps take α + β b + γ m."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np
from equations.serving.engine_simulation import Engine

from costmodel.estimate.serving.operating_point import OperatingPoint, blocking_prompts, filled_room
from costmodel.estimate.serving.plan_columns import SIZES, PlanColumns
from costmodel.estimate.serving.serving_inputs import Load, ServingInputs
from costmodel.estimate.serving.steady_state import SteadyState, steady_state, token_p99

from .cases import inputs


@functools.cache
def _shipped() -> ServingInputs:
    return inputs()


def inputs_of(engine: Engine) -> ServingInputs:
    """The shipped scenario with its lengths."""
    answers = engine.variation if engine.answers is None else engine.answers
    load = Load(engine.prompt, engine.output, engine.variation, answers, 0.0, engine.prompt + engine.output)
    load = replace(load, whole=not engine.chunked, samples=float(engine.samples))
    return replace(_shipped(), load=load)


def point_of(engine: Engine) -> OperatingPoint:
    """Its steps at the load that its rate makes."""
    alpha, beta, gamma = engine.base_time, engine.samples * engine.sequence_time, engine.prompt_token_time
    work = beta * engine.output + gamma * engine.prompt
    many = engine.request_rate * engine.output * alpha / (1 - engine.request_rate * work)
    load = inputs_of(engine).load
    decodes = engine.samples * many
    room = filled_room(load, max(engine.token_budget - decodes, 0.0), fluctuation=engine.samples * decodes)
    step = alpha + beta * many
    carried = max(min(engine.prompt, room), 1.0)
    mixed = step + gamma * carried
    blocking = blocking_prompts(load, engine.token_budget, many, 1.0, (alpha, beta, many))
    rides = engine.prompt / carried
    found = OperatingPoint(many, step, mixed, rides, room, alpha, beta, gamma, gamma, work, blocking=blocking)
    return replace(found, gaps=engine.gaps)


def state_of(engine: Engine) -> SteadyState:
    """The steady state of that engine, by the composition that every estimate of serving goes through."""
    slots = None if np.isinf(engine.slots) else engine.slots
    return steady_state(inputs_of(engine), point_of(engine), engine.request_rate, slots)


@dataclass(frozen=True)
class LinearSteps:
    """Its steps, as an estimate asks for them."""

    engine: Engine

    @property
    def one(self) -> float:
        return self.engine.base_time + self.engine.sequence_time

    def decode(self, decodes: np.ndarray) -> np.ndarray:
        return self.engine.base_time + self.engine.sequence_time * decodes

    def mixed(self, decodes: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        return self.decode(decodes) + self.engine.prompt_token_time * tokens

    def launched(self, decodes: np.ndarray) -> float:
        return 0.0


def plan(budget: float) -> PlanColumns:
    """One replica with a token budget."""
    return PlanColumns(**{name: np.ones(1) for name in SIZES} | {"budget": np.array([budget])})


def token_p99_of(engine: Engine) -> float:
    """Time per token of that engine that one request in a hundred exceeds."""
    point = point_of(engine)
    seen = state_of(engine), point.step + point.gamma * point.room
    far = token_p99(inputs_of(engine), plan(engine.token_budget), point, LinearSteps(engine), seen)
    return float(np.asarray(far).flat[0])
