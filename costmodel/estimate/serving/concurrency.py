"""Closed loop: a fixed number of requests in flight, each replaced when it ends, as in benchmarks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.equations.serving.load.closed_loop import burst_first_token_time, surplus_wait
from costmodel.equations.serving.load.steady_state import mixed_step_time
from costmodel.estimate.serving.host_loading import loading_time
from costmodel.estimate.serving.loop import loop
from costmodel.estimate.serving.operating_point import OperatingPoint
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.steady_state import TAIL, SteadyState, full_steps, replica_rate, steady_state
from costmodel.estimate.serving.step_batch import whole_budget
from costmodel.estimate.serving.whole_prompts import steps_with_prompt
from costmodel.ground.equation import Number, term

CROWDED = 0.5  # share of users who wait for a slot, from which on they are counted
_ROUNDS = 4  # each leaves a tenth of the distance or less, as loads are a small part of an answer


def closed_loop(
    inputs: ServingInputs,
    layout: PlanColumns,
    point: OperatingPoint,
    users: Number,
    admitted: Number,
    *,
    burst: bool,
) -> SteadyState:
    """So many requests on one replica, of which so many are admitted; the others wait until one of these ends."""
    load = inputs.load
    with term("admitted"):
        many = np.minimum(users, admitted)
        if point.blocking.occur:
            many = np.minimum(many, point.concurrency)
    found = loop(load, whole_budget(layout), point, many)
    tpot = load.per_token(found.token)
    first = inputs.engine.burst.share if burst else 0.0
    fronts = _front_times(inputs, layout)
    ttft = first_token_time(inputs, point, first, fronts) if burst else _with_front(found.first, many, fronts)
    p99 = _with_front(found.first_p99, many, fronts)
    if burst:
        with term("last of the first wave"):
            p99 = first_token_time(inputs, point, 2.0 * (1.0 - share(TAIL, first)), fronts)
    ttft, p99 = point.gathered(ttft, p99)
    rest = (load.output - 1.0) * tpot
    later, latest, rate = _rate(inputs, point, many, ttft + rest)
    with term("line"):
        line = surplus_wait(users, many, rate)
    with term("most"):
        most = np.minimum(rate, replica_rate(inputs, point))
    open_loop = steady_state(replace(inputs, load=replace(load, loaded=0.0)), point, most)
    ttft, p99 = ttft + later + line, p99 + latest + line
    if point.blocking.occur:
        with term("all answered once"):
            every = share(users, rate)  # none waits longer
        p99 = np.maximum(p99, _p99_behind_blocking(inputs, point, rate, line))
        p99 = np.maximum(np.minimum(p99, every), ttft)
    return replace(open_loop, rate=rate, tpot=tpot, ttft=ttft, ttft_p99=p99, in_flight=np.asarray(point.concurrency))


def _p99_behind_blocking(inputs: ServingInputs, point: OperatingPoint, rate: Number, line: Number) -> Number:
    """What one first token in a hundred exceeds behind prompts that wait until answers end, for so long on average."""
    _, busy = full_steps(inputs, point, rate)
    with term("behind prompts that wait for answers"):
        alone = mixed_step_time(point.alpha, point.beta, point.concurrency, point.gamma, inputs.load.computed)
        return alone + point.blocking.percentile(line, rate, busy, TAIL)


def in_line(inputs: ServingInputs, state: SteadyState, users: Number) -> SteadyState:
    """Users who think in between, where more ask than are held: who neither thinks nor is answered waits.

    Their load was looked for with steps out of a table, whose error a line near its end magnifies; Little's law is
    exact. No one of them waits for longer than it takes to answer all once.
    """
    thinking = float(inputs.case.scenario.workload.think_time or 0.0)
    with term("of users"):
        every = share(users, state.rate)
        first = np.maximum(every - thinking - (inputs.load.output - 1.0) * state.tpot, 0.0)
    ttft = np.where(np.asarray(state.taken) > CROWDED, first, state.ttft)
    return replace(state, ttft=ttft, ttft_p99=np.maximum(np.minimum(state.ttft_p99, every), ttft))


def _rate(inputs: ServingInputs, point: OperatingPoint, users: Number, answer: Number) -> tuple[Number, Number, Number]:
    """Delays of first tokens by loads from the host, mean and p99, and the rate of answers that take so long with them.

    The delay grows with the rate, which it slows down, so that a few rounds settle both.
    """
    with term("rate"):
        rate = rate_of(users, answer)
    later: Number = 0.0
    latest: Number = 0.0
    for _ in range(_ROUNDS if np.any(inputs.load.loaded) else 0):
        later, latest = loading_time(point.host, rate)
        with term("rate"):
            rate = rate_of(users, answer + later)
    return later, latest, rate


def _front_times(inputs: ServingInputs, layout: PlanColumns) -> tuple[Number, Number]:
    """Time of the host before a benchmark's first step, and for each request in flight."""
    engine = inputs.engine
    return layout.longer(engine.burst.front), layout.longer(engine.host.sequence)


def _with_front(first: Number, users: Number, fronts: tuple[Number, Number]) -> Number:
    """A first token with the host's time for each request in flight."""
    with term("host"):
        return first + fronts[1] * users


def first_token_time(
    inputs: ServingInputs, point: OperatingPoint, first: Number, fronts: tuple[Number, Number]
) -> Number:
    """First token of a benchmark without a line, where so large a share of the requests waits for the start."""
    load, (front, sequence) = inputs.load, fronts
    steps = steps_with_prompt(load, point.own_room, 0.0)
    prompt = load.computed * point.gamma
    ahead = first * share(point.together, point.gamma)
    return burst_first_token_time(front, sequence, point.concurrency, point.decode, steps, prompt, ahead)
