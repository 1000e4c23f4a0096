"""A fixed number of requests in flight, each followed by the next: what benchmarks do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.equations.serving.load.closed_loop import burst_first_token_time, interfered_token_time, surplus_wait
from costmodel.equations.serving.load.first_token import prompt_steps
from costmodel.estimate.serving.operating_point import OperatingPoint
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.steady_state import TAIL, SteadyState, steady_state
from costmodel.ground.equation import Number, term


def closed_loop(
    inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, users: Number, *, burst: bool
) -> SteadyState:
    """So many requests on one replica, of which as many are in flight as the operating point has."""
    load, host = inputs.load, inputs.engine.host
    step, mixed = point.decode, point.mixed
    tpot = load.per_token(interfered_token_time(step, mixed, point.concurrency, load.steps))
    front, first = (inputs.engine.burst.front, inputs.engine.burst.share) if burst else (0.0, 0.0)
    steps = prompt_steps(load.computed, point.room, 0.0)
    if burst:
        steps = inputs.engine.burst.rides * steps
    prompt = load.computed * point.gamma
    parts = (front, host.sequence, point.concurrency, step, mixed, steps, prompt, first)
    ttft = burst_first_token_time(*parts)
    with term("rate"):
        answer = ttft + (load.output - 1.0) * tpot
        rate = rate_of(point.concurrency, answer)
    with term("line"):
        line = surplus_wait(users, point.concurrency, rate)
    open_loop = steady_state(inputs, point, rate)
    p99 = open_loop.ttft_p99
    if burst:
        with term("last of the first wave"):
            last = burst_first_token_time(*parts[:-1], 2.0 * (1.0 - share(TAIL, first)))
        p99 = last
    return replace(open_loop, tpot=tpot, ttft=ttft + line, ttft_p99=p99 + line, in_flight=np.asarray(point.concurrency))
