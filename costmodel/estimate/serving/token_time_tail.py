"""The time per token of requests that fare worse than others: what one in a hundred exceeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.equations.serving.engine_step import varying_prompt_time
from costmodel.equations.serving.queues import peakedness
from costmodel.equations.serving.service_level import (
    crowd_deviation,
    lognormal_percentile,
    met_prompts_variance,
    normal_quantile,
    percentile_of_sum,
)
from costmodel.equations.serving.steady_state import (
    engine_utilisation,
    request_work,
    requests_in_flight,
    step_intercept,
    time_slope,
)
from costmodel.estimate.serving.operating_point import OperatingPoint, Steps, micro_batch, step_of
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import Load, ServingInputs, arrive_at_random
from costmodel.estimate.serving.steady_state import TAIL, SteadyState, at_random
from costmodel.ground.equation import Number, term

LEAST = 0.99  # of a mean step, which the fastest one is under


def token_p99(
    inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, steps: Steps, seen: tuple[SteadyState, Number]
) -> Number:
    """P99 of the time per token; `seen`: the steady state, and the longest step.

    None takes less than a step of one sequence, and none more than the longest step.
    """
    (state, longest), load = seen, inputs.load
    token = load.accepted * state.tpot
    with term("of a request"):
        arriving = arrive_at_random(inputs)
        each = _of_prompt(load, layout, point)
        variance = _variance_of_met_prompts(load, state, each) if arriving else _of_loop(load, state, each)
        if not at_random(point.gaps):
            variance = peakedness(point.gaps, load.output_spread) * variance
    far = lognormal_percentile(np.minimum(point.step, LEAST * token), token, variance, normal_quantile(TAIL))
    if arriving:
        far = percentile_of_sum(token, far - token, _of_crowd(load, layout, point, steps, state))
    return load.per_token(np.minimum(far, np.maximum(longest, token)))


def token_p99_apart(load: Load, step_of: Callable[[Number], Number], one: Number, many: Number) -> Number:
    """P99 of the time per token on decode instances, with so many sequences in each; `one`: step time of one."""
    with term("of decode instances"):
        step = step_of(many)
        beta = time_slope(step, one, many, 1.0)
        alpha = step_intercept(step, beta, many)
        rate = rate_of(many, load.steps * step)
        base = requests_in_flight(rate, load.steps, alpha)
        busy = engine_utilisation(rate, request_work(beta, load.steps, 0.0, 0.0))
        crowd = many + normal_quantile(TAIL) * crowd_deviation(base, busy, 0.0)
    return load.per_token(step_of(crowd))


def _of_crowd(load: Load, layout: PlanColumns, point: OperatingPoint, steps: Steps, state: SteadyState) -> Number:
    """Extra time of a step at the P99 of sequences in flight, over that at their mean.

    It is looked up, for steps do not grow evenly: one that reads all experts grows less than one that does not.
    """
    with term("crowd"):
        base = requests_in_flight(state.rate, load.steps, point.alpha)
        prompts = engine_utilisation(state.rate, load.computed * point.replayed[0])
        spread = crowd_deviation(base, state.utilisation, prompts)
        if not at_random(point.gaps):
            spread = spread * np.sqrt(peakedness(point.gaps, load.output_spread))
        crowd = 1.0 + point.concurrency + normal_quantile(TAIL) * spread
        micro, carried = micro_batch(layout, crowd), share(load.computed, point.rides)
    with term("of steps with prompts"):
        mixed = np.minimum(share(point.concurrency, load.steps) * point.rides / layout.pp, 1.0)
    with term("crowded"):
        without = step_of(layout, point, steps, crowd) - point.step
        beside = steps.mixed(micro, carried) - point.mixed
        return np.maximum((1.0 - mixed) * without + mixed * beside - point.beta, 0.0)


def _of_prompt(load: Load, layout: PlanColumns, point: OperatingPoint) -> Number:
    """The part of a prompt's time that varies between steps.

    The least time of a step with prompts does not vary where all steps have some.
    """
    with term("steps with prompts"):
        mixed = np.minimum(share(point.concurrency, load.steps) * point.rides / layout.pp, 1.0)
    gamma, filled = point.replayed
    with term("of a prompt"):
        whole = load.computed * gamma
    varying = varying_prompt_time(load.computed, gamma, filled, mixed)
    return np.where(layout.dp_attention > 1, whole, varying)


def _variance_of_met_prompts(load: Load, state: SteadyState, work: Number) -> Number:
    token, busy = load.accepted * state.tpot, engine_utilisation(state.rate, work)
    spreads = load.prompt_spread, load.output_spread
    return met_prompts_variance(state.rate, token, work, load.steps, *spreads, busy)


def _of_loop(load: Load, state: SteadyState, work: Number) -> Number:
    """Variance of prompts that a request meets in a closed loop, beyond the variance of equal requests."""
    token = load.accepted * state.tpot
    spreads = load.prompt_spread, load.output_spread
    unlike = met_prompts_variance(state.rate, token, work, load.steps, *spreads, 0.0)
    with term("all alike"):
        alike = met_prompts_variance(state.rate, token, work, load.steps, 0.0, 0.0, 0.0)
    return np.maximum(unlike - alike, 0.0)
