"""Closed loop: a fixed number of requests in flight, each replaced when it ends, as in benchmarks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.equations.serving.closed_loop import (
    burst_first_token_time,
    crowded_first_token_time,
    loop_first_token_time,
    loop_first_token_variance,
    loop_token_time,
    of_others,
    requests_per_step,
    steps_in_line,
    steps_of_a_request,
    surplus_wait,
    tokens_beside,
)
from costmodel.equations.serving.first_token import prompt_room, prompt_service_time
from costmodel.equations.serving.service_level import lognormal_percentile, normal_quantile
from costmodel.equations.serving.steady_state import mixed_step_time
from costmodel.estimate.serving.host_loading import loading_time
from costmodel.estimate.serving.operating_point import OperatingPoint
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import Load, ServingInputs
from costmodel.estimate.serving.steady_state import TAIL, SteadyState, full_steps, replica_rate, steady_state
from costmodel.estimate.serving.step_batch import whole_budget
from costmodel.estimate.serving.unchunked_prefill import filled_room, steps_with_prompt, whole_prompts_decoded
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.record import record
from costmodel.ground.solvers import last_within

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
    """Steady state of one replica with `users` users in a closed loop, of whom `admitted` are in flight."""
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
    rest = (load.longest_answer - 1.0) * tpot
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
    """P99 time to first token behind blocking prompts, which wait until enough answers end."""
    _, busy = full_steps(inputs, point, rate)
    with term("behind prompts that wait for answers"):
        alone = mixed_step_time(point.alpha, point.beta, point.concurrency, point.gamma, inputs.load.computed)
        return alone + point.blocking.percentile(line, rate, busy, TAIL)


def in_line(inputs: ServingInputs, state: SteadyState, users: Number) -> SteadyState:
    """The steady state of users with think time, with the wait of those who find the replica full.

    Their load was looked for with steps out of a table, whose error a line near its end magnifies; Little's law is
    exact. No one of them waits for longer than it takes to answer all once.
    """
    thinking = float(inputs.case.scenario.workload.think_time or 0.0)
    with term("of users"):
        every = share(users, state.rate)
        first = np.maximum(every - thinking - (inputs.load.longest_answer - 1.0) * state.tpot, 0.0)
    ttft = np.where(np.asarray(state.taken) > CROWDED, first, state.ttft)
    return replace(state, ttft=ttft, ttft_p99=np.maximum(np.minimum(state.ttft_p99, every), ttft))


def _rate(inputs: ServingInputs, point: OperatingPoint, users: Number, answer: Number) -> tuple[Number, Number, Number]:
    """Delays of the first token by loading cache from the host, mean and P99, and the request rate with them.

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
    """Host time before the first step of a benchmark, and for each request in flight."""
    engine = inputs.engine
    return layout.longer(engine.burst.front), layout.longer(engine.host.sequence)


def _with_front(first: Number, users: Number, fronts: tuple[Number, Number]) -> Number:
    """Time to first token, with host time for each request in flight."""
    with term("host"):
        return first + fronts[1] * users


def first_token_time(
    inputs: ServingInputs, point: OperatingPoint, first: Number, fronts: tuple[Number, Number]
) -> Number:
    """Time to first token in a benchmark that starts all requests at once; `first` is the share that waits."""
    load, (front, sequence) = inputs.load, fronts
    steps = steps_with_prompt(load, point.own_room, 0.0)
    with term("own prompt"):
        together = np.maximum(point.rides, 1.0) * (point.mixed - point.decode)  # with others in its steps
        own = np.maximum(together, load.computed * point.alone)
    prompt = load.computed * point.filled
    ahead = first * share(prompt, own)
    return burst_first_token_time(front, sequence, point.concurrency, point.decode, steps, own, ahead)


MISSED = 0.5  # of a step of others: a request comes at any time of it
LEAST = 1e-12  # requests of a step

Column = NDArray[np.float64]


@record
class LoopTimes:
    """Times of a request: to the first token (mean and P99), and of a step for each later token."""

    first: Number
    first_p99: Number
    token: Number


@record
class _Passed:
    """Steps of a request when each step answers the given number of others, and the room of a step for prompts."""

    room: Number
    line: Number
    own_room: Number  # of the attention group of one prompt
    ridden: Number
    steps: Number


def loop(load: Load, layout: PlanColumns, point: OperatingPoint, users: Number) -> LoopTimes:
    """Times of a request with `users` users on one replica, all admitted at once."""
    passed = _passed(load, layout, users, _answered_per_step(load, layout, users))
    answered = _most_per_step(load, layout, users, passed)
    others = of_others(answered, users)
    with term("prompts of others"):
        arriving = others * load.worked
    missed = _missed_steps(users)
    mean, step = _step(load, point, answered), _step(load, point, others, prompts=False)
    with term("own prompt"):
        own = load.computed * share(point.alone, point.filled)  # in tokens of steps that prompts fill
    with term("of others"):
        beside = mixed_step_time(step, 0.0, 0.0, point.gamma, arriving)
        parts = (load.computed, passed.room, passed.line, passed.ridden, arriving)
        tokens = own + tokens_beside(*parts, in_parts=not load.whole)
        steps = passed.line + passed.ridden
    with term("other stages"):
        passing = load.computed * (point.whole - point.gamma)  # while each of them serves others
    first = loop_first_token_time(missed, beside, steps, step, point.beta, point.filled, tokens) + passing
    later = _later(load)
    with term("own sequence"):
        least = beside + point.beta
    token = loop_token_time(passed.steps, mean, first, later, least)
    first = crowded_first_token_time(first, share(users, answered), mean, later, token)
    with term("alone"):
        ridden = steps_with_prompt(load, passed.own_room, 0.0)
        alone = loop_first_token_time(missed, step, ridden, step, point.beta, point.filled, own) + passing
    with term("behind others"):
        service = prompt_service_time(load.computed, point.filled, step, passed.room)
        variance = loop_first_token_variance(first, alone, service, users, load.prompt_spread)
    far = lognormal_percentile(step, first, variance, normal_quantile(TAIL))
    return LoopTimes(first, far, token)


def _missed_steps(users: Number) -> Number:
    """Steps that start before a request arrives and that it cannot join; 0 for the only request."""
    with term("missed"):
        return MISSED * np.clip(users - 1.0, 0.0, 1.0)


def _later(load: Load) -> Number:
    """Number of decode steps of an answer after its first token."""
    with term("later tokens"):
        return (load.output - 1.0) / load.accepted


def _answered_per_step(load: Load, layout: PlanColumns, users: Number) -> Column:
    """Requests answered per step at which the number of users in the loop is consistent."""

    def excess(answered: Column) -> Column:
        """How many more requests a step would finish than assumed."""
        over: Column = np.log(answered * np.asarray(_passed(load, layout, users, answered).steps) / users)
        return over

    with untraced(), np.errstate(all="ignore"):
        most: Column = np.asarray(_most_per_step(load, layout, users, None), dtype=np.float64).view(np.ndarray)
        return last_within(excess, LEAST, most)


def _passed(load: Load, layout: PlanColumns, users: Number, answered: Number) -> _Passed:
    """What a prompt meets in a closed loop: room in steps, its wait in line, and the steps that it takes."""
    with term("line of prompts"):
        others = of_others(answered, users)
        decoding = load.queries * (others * load.steps)
        each = prompt_room(layout.budget, decoding / layout.pp)
        room = layout.pp * filled_room(load, each, layout.dp_attention)
        used = share(others * load.worked, np.maximum(room, LEAST))
        line = steps_in_line(load.computed, room, used, load.prompt_spread)
        own = room / layout.dp_attention
        ridden = steps_with_prompt(load, own, used)
    return _Passed(room, line, own, ridden, steps_of_a_request(line, ridden, _later(load), _missed_steps(users)))


def _most_per_step(load: Load, layout: PlanColumns, users: Number, passed: _Passed | None) -> Number:
    """Upper bound on requests that finish per step, from the steps of a request."""
    with term("answered"):
        steps = 1.0 + _later(load) if passed is None else passed.steps
        tokens = load.worked + load.queries * load.steps
        return requests_per_step(users, steps, _whole_steps(load, layout, tokens), tokens)


def _whole_steps(load: Load, layout: PlanColumns, tokens: Number) -> Number:
    """Tokens of a step over all micro-batches if users fill the token budget."""
    if not load.whole:
        return layout.pp * layout.budget
    decoded = whole_prompts_decoded(load, layout.budget / layout.dp_attention, layout.pp * layout.dp_attention)
    with term("whole prompts"):
        return decoded * share(tokens, load.steps)


def _step(load: Load, point: OperatingPoint, answered: Number, *, prompts: bool = True) -> Number:
    """Mean time of a step that answers the given number of requests; without prompts, of one that only decodes them."""
    with term("mean step" if prompts else "without prompts"):
        tokens = answered * load.worked if prompts else 0.0
        return mixed_step_time(point.alpha, point.beta, answered * load.steps, point.gamma, tokens)
