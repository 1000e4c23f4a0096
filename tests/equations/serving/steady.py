"""The closed forms of a steady stream of requests, put together as an estimate puts them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.equations.serving.first_token import (
    first_token_tail,
    first_token_variance,
    gate_wait,
    later_prompt_tokens,
    own_prompt_time,
    prompt_room,
    prompt_service_time,
    prompt_steps,
)
from costmodel.equations.serving.queues import queue_wait, queue_wait_variance
from costmodel.equations.serving.service_level import lognormal_percentile, normal_quantile
from costmodel.equations.serving.steady_state import (
    clustered_token_time,
    clustering_delay,
    engine_utilisation,
    mean_step_time,
    mixed_step_time,
    request_work,
    requests_in_flight,
)
from costmodel.ground.equation import Number

from .engine_simulation import Engine

TAIL = 0.01


@dataclass
class Steady:
    """What an estimate says of a load; columns where the load is one."""

    tpot: Number
    in_flight: Number
    ttft: Number
    ttft_p99: Number
    ttft_variance: Number
    worst_gap: Number
    step: Number
    busy: Number
    saturation: Number


def saturation(supply: Number, demand: Number, base_time: Number, work: Number) -> Number:
    """Rate at which a resource of every step is used up: of λ q t̄ = C with the mean step t̄ = α / (1 − λ w)."""
    return supply / (base_time * demand + supply * work)


def steady(engine: Engine, request_rate: Number | None = None) -> Steady:
    """The load of an engine, or of the same engine at other rates."""
    alpha, beta, gamma = engine.base_time, engine.sequence_time, engine.prompt_token_time
    s, o, v, rate = engine.prompt, engine.output, engine.variation, engine.request_rate
    rate = rate if request_rate is None else request_rate
    work = request_work(beta, o, gamma, s)
    utilisation, prompts = engine_utilisation(rate, work), engine_utilisation(rate, gamma * s)
    mean = mean_step_time(alpha, utilisation)
    many = requests_in_flight(rate, o, mean)
    room = prompt_room(engine.token_budget, many)
    step = mixed_step_time(alpha, beta, many, gamma, 0.0)
    service = prompt_service_time(s, gamma, step, room)
    busy = engine_utilisation(rate, service)
    line, gate = queue_wait(service, busy, v), gate_wait(step, 0.0, 0.0, prompts, 1.0)
    wait = line + gate
    steps = prompt_steps(s, room, busy)
    later = later_prompt_tokens(rate, s, wait, prompts, room, 0.0)
    ttft = wait + own_prompt_time(steps, step, gamma, s, later)
    variance = first_token_variance(queue_wait_variance(service, busy, v), wait, gamma * later, 0.0, gate, service, v)
    alone = own_prompt_time(steps, step, gamma, s, 0.0)
    one = mixed_step_time(alpha, beta, many, gamma, np.minimum(s, room))
    p99 = np.maximum(
        lognormal_percentile(alpha + beta, ttft, variance, normal_quantile(TAIL)),
        first_token_tail(alone, line, busy, one, engine_utilisation(rate, alone), TAIL),
    )
    full = mixed_step_time(alpha, beta, many, gamma, room)
    more = clustering_delay(beta, gamma, s, o, prompts, utilisation, v)
    tpot = clustered_token_time(mean, more, beta, step, full, busy, s, room)
    return Steady(
        tpot=tpot,
        in_flight=requests_in_flight(rate, o, tpot),
        ttft=ttft,
        ttft_p99=p99,
        ttft_variance=variance,
        worst_gap=full,
        step=step,
        busy=busy,
        saturation=saturation(engine.token_budget, s + o, alpha, work),
    )
