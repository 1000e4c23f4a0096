"""The time per token of requests that fare worse than others: what one in a hundred exceeds."""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.serving.load.percentiles import lognormal_percentile, normal_quantile
from costmodel.equations.serving.load.service_level import crowd_variance, met_prompts_variance
from costmodel.equations.serving.load.steady_state import (
    engine_utilisation,
    request_work,
    requests_in_flight,
    step_intercept,
    time_slope,
)
from costmodel.estimate.serving.operating_point import OperatingPoint
from costmodel.estimate.serving.serving_inputs import Load, ServingInputs
from costmodel.estimate.serving.steady_state import TAIL, SteadyState
from costmodel.ground.equation import Number, term

LEAST = 0.99  # of a mean step, which the fastest one is under


def token_p99(inputs: ServingInputs, point: OperatingPoint, state: SteadyState, longest: Number) -> Number:
    """Time per token that one request in a hundred exceeds; none takes more than the longest step."""
    load = inputs.load
    token = load.accepted * state.tpot
    with term("of a request"):
        variance = (
            _of_arrivals(inputs, point, state, token) if _arriving(inputs) else _of_loop(inputs, point, state, token)
        )
    far = lognormal_percentile(np.minimum(point.step, LEAST * token), token, variance, normal_quantile(TAIL))
    return load.per_token(np.minimum(far, np.maximum(longest, token)))


def token_p99_apart(load: Load, one: Number, step: Number, many: Number) -> Number:
    """The same of instances that only generate, with so many sequences in each on average; one: a step of one."""
    with term("of decode instances"):
        beta = time_slope(step, one, many, 1.0)
        alpha = step_intercept(step, beta, many)
        rate = rate_of(many, load.steps * step)
        base = requests_in_flight(rate, load.steps, alpha)
        busy = engine_utilisation(rate, request_work(beta, load.steps, 0.0, 0.0))
        variance = crowd_variance(beta, base, busy, 0.0)
    return load.per_token(lognormal_percentile(np.minimum(one, LEAST * step), step, variance, normal_quantile(TAIL)))


def _arriving(inputs: ServingInputs) -> bool:
    """Whether requests come at random, so that their number in flight changes."""
    workload = inputs.case.scenario.workload
    return workload.rate is not None or workload.users is not None


def _of_arrivals(inputs: ServingInputs, point: OperatingPoint, state: SteadyState, token: Number) -> Number:
    load, work = inputs.load, inputs.load.computed * point.gamma
    busy = engine_utilisation(state.rate, work)
    spreads = load.prompt_spread, load.output_spread
    base = requests_in_flight(state.rate, load.steps, point.alpha)
    crowd = crowd_variance(point.beta, base, state.utilisation, busy)
    return met_prompts_variance(state.rate, token, work, load.steps, *spreads, busy) + crowd


def _of_loop(inputs: ServingInputs, point: OperatingPoint, state: SteadyState, token: Number) -> Number:
    """Of as many requests all the time: equal ones all meet as much."""
    load, work = inputs.load, inputs.load.computed * point.gamma
    spreads = load.prompt_spread, load.output_spread
    unlike = met_prompts_variance(state.rate, token, work, load.steps, *spreads, 0.0)
    with term("all alike"):
        alike = met_prompts_variance(state.rate, token, work, load.steps, 0.0, 0.0, 0.0)
    return np.maximum(unlike - alike, 0.0)
