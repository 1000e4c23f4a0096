"""Loads without arrivals: a fixed number of requests in flight (closed loop), and an offline batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.equations.serving.closed_loop import (
    burst_first_token_time,
    crowded_first_token_time,
    interfered_token_time,
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
from costmodel.equations.serving.engine_step import pipelined_prompt_share
from costmodel.equations.serving.first_token import own_prompt_time, prompt_room, prompt_service_time
from costmodel.equations.serving.offline_batch import (
    answer_end,
    answer_of_share,
    batch_first_token_steps,
    batch_first_tokens,
    batch_first_tokens_of_share,
    batch_line_first_token,
    drain_excess,
    ended_answer_tokens,
    longest_output,
    offline_time,
    refilled_steps,
    shortest_output,
    slow_token_share,
    tokens_until,
    wave_first_token,
    wave_first_token_mean,
    wave_time,
)
from costmodel.equations.serving.service_level import lognormal_percentile, normal_quantile
from costmodel.equations.serving.steady_state import mixed_step_time
from costmodel.estimate.serving.engine_step import step_budget, whole_budget
from costmodel.estimate.serving.host_loading import loading_delay
from costmodel.estimate.serving.load import per_replica
from costmodel.estimate.serving.operating_point import (
    OperatingPoint,
    Steps,
    filled_room,
    micro_batch,
    step_of,
    steps_with_prompt,
    whole_prompts_decoded,
)
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import Load, ServingInputs
from costmodel.estimate.serving.steady_state import TAIL, SteadyState, full_steps, replica_rate, steady_state
from costmodel.ground.counts import LengthLaw
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.record import record
from costmodel.ground.solvers import last_within

# --- closed loop: a fixed number of requests in flight, each replaced when it ends, as in benchmarks


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
    found = loop_times(load, whole_budget(layout), point, many)
    tpot = load.per_token(found.token)
    first = inputs.engine.burst.share if burst else 0.0
    fronts = _front_times(inputs, layout)
    ttft = first_token_time(inputs, point, first, fronts) if burst else _with_host_time(found.first, many, fronts)
    p99 = _with_host_time(found.first_p99, many, fronts)
    if burst:
        with term("last of the first wave"):
            p99 = first_token_time(inputs, point, 2.0 * (1.0 - share(TAIL, first)), fronts)
    ttft, p99 = point.gathered(ttft, p99)
    rest = (load.longest_answer - 1.0) * tpot
    later, latest, rate = _rate_with_loads(inputs, point, many, ttft + rest)
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


def with_slot_wait(inputs: ServingInputs, state: SteadyState, users: Number) -> SteadyState:
    """The steady state of users with think time, with the wait of those who find all slots of the replica taken.

    The load was found with steps from a table, whose error grows near saturation; Little's law is exact. No user waits
    longer than it takes to answer all others once.
    """
    thinking = float(inputs.case.scenario.workload.think_time or 0.0)
    with term("of users"):
        every = share(users, state.rate)
        first = np.maximum(every - thinking - (inputs.load.longest_answer - 1.0) * state.tpot, 0.0)
    ttft = np.where(np.asarray(state.taken) > CROWDED, first, state.ttft)
    return replace(state, ttft=ttft, ttft_p99=np.maximum(np.minimum(state.ttft_p99, every), ttft))


def _rate_with_loads(
    inputs: ServingInputs, point: OperatingPoint, users: Number, answer: Number
) -> tuple[Number, Number, Number]:
    """Delays of the first token by loading cache from the host, mean and P99, and the request rate with them.

    The delay grows with the rate, which it slows down, so that a few rounds settle both.
    """
    with term("rate"):
        rate = rate_of(users, answer)
    later: Number = 0.0
    latest: Number = 0.0
    for _ in range(_ROUNDS if np.any(inputs.load.loaded) else 0):
        later, latest = loading_delay(point.host, rate)
        with term("rate"):
            rate = rate_of(users, answer + later)
    return later, latest, rate


def _front_times(inputs: ServingInputs, layout: PlanColumns) -> tuple[Number, Number]:
    """Host time before the first step of a benchmark, and for each request in flight."""
    engine = inputs.engine
    return layout.longer(engine.burst.front), layout.longer(engine.host.sequence)


def _with_host_time(first: Number, users: Number, fronts: tuple[Number, Number]) -> Number:
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
class _MetByPrompt:
    """Steps of a request when each step answers the given number of others, and the room of a step for prompts."""

    room: Number
    line: Number
    own_room: Number  # of the attention group of one prompt
    ridden: Number
    steps: Number


def loop_times(load: Load, layout: PlanColumns, point: OperatingPoint, users: Number) -> LoopTimes:
    """Times of a request with `users` users on one replica, all admitted at once."""
    passed = _met_by_prompt(load, layout, users, _answered_per_step(load, layout, users))
    answered = _most_per_step(load, layout, users, passed)
    others = of_others(answered, users)
    with term("prompts of others"):
        arriving = others * load.worked
    missed = _missed_steps(users)
    mean, step = _mean_step_seconds(load, point, answered), _mean_step_seconds(load, point, others, prompts=False)
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
    later = _later_steps(load)
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


def _later_steps(load: Load) -> Number:
    """Number of decode steps of an answer after its first token."""
    with term("later tokens"):
        return (load.output - 1.0) / load.accepted


def _answered_per_step(load: Load, layout: PlanColumns, users: Number) -> Column:
    """Requests answered per step at which the number of users in the loop is consistent."""

    def excess(answered: Column) -> Column:
        """How many more requests a step would finish than assumed."""
        over: Column = np.log(answered * np.asarray(_met_by_prompt(load, layout, users, answered).steps) / users)
        return over

    with untraced(), np.errstate(all="ignore"):
        most: Column = np.asarray(_most_per_step(load, layout, users, None), dtype=np.float64).view(np.ndarray)
        return last_within(excess, LEAST, most)


def _met_by_prompt(load: Load, layout: PlanColumns, users: Number, answered: Number) -> _MetByPrompt:
    """What a prompt meets in a closed loop: room in steps [tokens], its wait in line and its own steps [steps]."""
    with term("line of prompts"):
        others = of_others(answered, users)
        decoding = load.queries * (others * load.steps)
        each = prompt_room(layout.budget, decoding / layout.pp)
        room = layout.pp * filled_room(load, each, layout.dp_attention)
        used = share(others * load.worked, np.maximum(room, LEAST))
        line = steps_in_line(load.computed, room, used, load.prompt_spread)
        own = room / layout.dp_attention
        ridden = steps_with_prompt(load, own, used)
    steps = steps_of_a_request(line, ridden, _later_steps(load), _missed_steps(users))
    return _MetByPrompt(room, line, own, ridden, steps)


def _most_per_step(load: Load, layout: PlanColumns, users: Number, passed: _MetByPrompt | None) -> Number:
    """Upper bound on requests that finish per step, from the steps of a request."""
    with term("answered"):
        steps = 1.0 + _later_steps(load) if passed is None else passed.steps
        tokens = load.worked + load.queries * load.steps
        return requests_per_step(users, steps, _whole_steps(load, layout, tokens), tokens)


def _whole_steps(load: Load, layout: PlanColumns, tokens: Number) -> Number:
    """Tokens of a step over all micro-batches if users fill the token budget."""
    if not load.whole:
        return layout.pp * layout.budget
    decoded = whole_prompts_decoded(load, layout.budget / layout.dp_attention, layout.pp * layout.dp_attention)
    with term("whole prompts"):
        return decoded * share(tokens, load.steps)


def _mean_step_seconds(load: Load, point: OperatingPoint, answered: Number, *, prompts: bool = True) -> Number:
    """Mean time of a step that answers the given number of requests; without prompts, of one that only decodes them."""
    with term("mean step" if prompts else "without prompts"):
        tokens = answered * load.worked if prompts else 0.0
        return mixed_step_time(point.alpha, point.beta, answered * load.steps, point.gamma, tokens)


# --- an offline batch: all requests are queued at the start, and each that ends makes room for the next


@record
class Drain:
    """How the last requests of a batch run out: times beside those of the linear step α + β b."""

    excess: Number  # what steps of ever smaller batches take beyond it, in all
    answer: Number  # decode steps of one of them, on average
    token: Number  # time of a step that one of them sees, as the mean over requests


@record
class OfflineBatch:
    """Seconds until the last answer, and the share of them in which only the longest answers run; NaN without a batch.

    full: seconds if the engine were full until the end
    """

    makespan: Number = np.nan
    full: Number = np.nan
    tail_share: Number = np.nan
    at_once: Number = np.nan  # time that a prompt token adds to steps where all prompts are there at once
    prompt_token: Number = np.nan  # the same, on average over all of the batch
    drain: Drain | None = None


def offline_batch(inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, exact: Steps) -> OfflineBatch:
    """The scenario's batch on each plan; every replica gets the same number of requests."""
    requests, load, law = _requests_of_replica(inputs, layout), inputs.load, inputs.case.scenario.workload.answer_law
    if requests is None:
        return OfflineBatch()
    together = np.asarray(point.concurrency)
    with term("longest answers"):
        last = np.maximum(layout.replicas * together, 1.0) * load.samples
        longest = longest_output(load.steps, load.output_spread, last, law=law)
    context = inputs.case.scenario.workload.context
    if context is not None:
        with term("cut at the context"):
            longest = np.minimum(
                longest, np.maximum(context - load.prompt, load.output) * share(load.steps, load.output)
            )
    at_once = _prompt_seconds_at_once(load, layout, point, exact)
    drain = _drain(inputs, layout, point, exact, longest)
    with term("tokens of the batch"):
        busiest = np.maximum(requests, 1.0)  # of fewer requests than replicas some replicas have one, others none
        together = np.maximum(together, 1.0)
        again = load.preempted * np.maximum(busiest - together, 0.0)  # while others wait
        generated, computed = busiest * load.steps, busiest * load.computed + again
        first = np.minimum(share(together * load.computed, computed), 1.0)
        prompt_token = first * at_once + (1.0 - first) * point.gamma
    with term("offline"):
        all_of_it = np.maximum(layout.replicas * requests, 1.0)
        shortest = shortest_output(load.steps, load.output_spread, all_of_it, law=law)
        steps = refilled_steps(busiest, together, load.steps, longest, shortest)
        total = offline_time(point.alpha, steps, point.beta, generated, prompt_token, computed) + drain.excess
    with term("always full"):
        full = offline_time(point.alpha, share(generated, together), point.beta, generated, prompt_token, computed)
    return OfflineBatch(total, full, 1.0 - share(full, total), at_once, prompt_token, drain)


def _prompt_seconds_at_once(load: Load, layout: PlanColumns, point: OperatingPoint, exact: Steps) -> Number:
    """Seconds that each prompt token adds to steps if all prompts wait from the start."""
    with term("prompts at once"):
        tokens = np.minimum(np.maximum(point.concurrency, 1.0) * load.computed, point.room) / layout.pp
        tokens = np.maximum(tokens, 1.0)
        each = (exact.mixed(micro_batch(layout, point.concurrency), tokens) - point.decode) / tokens
        return pipelined_prompt_share(layout.pp, 1.0) * each if layout.staged else each


LEFT = (0.7, 0.45, 0.25, 0.12, 0.05, 0.02, 0.007)  # share of a batch that is left at the end of each stage but the last


def _drain(inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, exact: Steps, longest: Number) -> Drain:
    """The end of a batch in stages: nothing refills it, and step times are not linear down to one sequence."""
    load, law = inputs.load, inputs.case.scenario.workload.answer_law
    many = np.maximum(np.asarray(point.concurrency), 1.0)
    with term("runs out"), np.errstate(all="ignore"):
        zero: Number = 0.0
        one: Number = 1.0
        excess, answer, token, before, past, generated, left = (*(zero,) * 6, one)
        for until, rest in (*_drain_stages(load, law, many), (longest, 0.0)):
            until = np.maximum(until, past)
            tokens = tokens_until(load.steps, load.output_spread, until, law=law)
            span, ended = until - past, left - rest
            sequences = np.where(span > 0, many * share(tokens - generated, span), 1.0)
            with untraced():
                step = step_of(layout, point, exact, sequences)
            excess = excess + drain_excess(span, step, point.alpha, point.beta, sequences)
            middle = ended_answer_tokens(past, until, generated, tokens, left, rest)
            time = answer_end(before, past, middle, step)
            answer, token = answer + ended * time, token + ended * share(time, middle)
            before, past, generated, left = answer_end(before, past, until, step), until, tokens, rest
    return Drain(excess, answer, token)


def _drain_stages(load: Load, law: LengthLaw, many: Number) -> Iterator[tuple[Number, Number]]:
    """Tokens at which so large a share of a batch is left, down to the last sequence."""
    for part in LEFT:
        rest = np.maximum(part, share(1.0, many))
        yield answer_of_share(load.steps, load.output_spread, rest, law=law), rest


def offline_state(
    inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, batch: OfflineBatch
) -> SteadyState:
    """Steady state of a batch: all requests wait for the first wave's prompts, later ones also for a slot.

    While any request waits, the engine is full. Each slot keeps the delay with which its first request began.
    """
    requests, load = _requests_of_replica(inputs, layout), inputs.load
    assert requests is not None
    found = closed_loop(inputs, layout, point, point.concurrency, point.concurrency, burst=False)
    rate = rate_of(requests, batch.makespan)
    first = _first_wave(inputs, layout, point, batch.at_once)
    with term("line"):
        line = surplus_wait(requests, point.concurrency, rate_of(requests, batch.full))
    ttft = batch_line_first_token(requests, np.minimum(point.concurrency, requests), first.mean, first.p99, line)
    p99 = first.p99 + (1.0 - TAIL) * line
    tpot, answer = _token_times(inputs, point, batch, first, requests)
    if load.output_spread == 0:
        waves, more = _first_token_in_waves(inputs, layout, point, requests), np.asarray(requests > point.concurrency)
        ttft = np.where(more, np.maximum(waves[0], first.mean), ttft)
        p99 = np.where(more, np.maximum(waves[1], first.p99), p99)
    if np.any(load.loaded):
        loads, latest = loading_delay(point.host, rate)
        ttft, p99 = ttft + loads, p99 + latest
    with term("no later than the batch ends"):
        longer = share(load.longest_answer - 1.0, np.maximum(load.output - 1.0, 1.0))
        ttft = np.minimum(ttft, np.maximum(batch.makespan - longer * answer, 0.0))
        p99 = np.maximum(np.minimum(p99, batch.makespan), ttft)
    with term("alone on its replica"):  # as one request in flight: it meets no other prompt
        alone = np.asarray(requests) <= 1
        ttft, tpot = np.where(alone, found.ttft, ttft), np.where(alone, found.tpot, tpot)
        answer = np.where(alone, (load.longest_answer - 1.0) * tpot, longer * answer)
    return replace(found, rate=rate, tpot=tpot, ttft=ttft, ttft_p99=np.maximum(p99, ttft), answer=answer)


def _token_times(
    inputs: ServingInputs, point: OperatingPoint, batch: OfflineBatch, first: _FirstWave, requests: Number
) -> tuple[Number, Number]:
    """Seconds per token as the mean over requests, and seconds of a mean answer after its first token.

    In the first, short answers count as much as long ones, as benchmarks print it.
    """
    load, drain, law = inputs.load, batch.drain, inputs.case.scenario.workload.answer_law
    assert drain is not None
    with term("of the last"):
        last = np.minimum(share(point.concurrency, requests), 1.0)
        token = last * drain.token + (1.0 - last) * point.decode
        answer = last * drain.answer + (1.0 - last) * load.steps * point.decode
    with term("prompts of those that follow"):
        met = 1.0 + np.maximum(point.concurrency - 1.0, 0.0) * (1.0 - last)
        between = interfered_token_time(point.decode, point.mixed, met, load.steps, point.rides) - point.decode
    with term("prompts of the first wave"):
        stop = first.behind * batch.at_once
        steps: Number = 1.0  # by themselves: nothing is generated beside them
        fewer: Number = 0.0
        if inputs.engine.mixed:
            steps = np.maximum(share(first.behind, first.room), 1.0)
            fewer = point.beta * (point.concurrency / 2.0)  # of its requests, half are decoded on the mean
        stopped = last * (share(stop, steps) - fewer)
        lengths = load.steps, load.output_spread
        token = token + between + stopped * slow_token_share(steps, *lengths, law=law)
        answer = answer + load.steps * between + stopped * tokens_until(*lengths, steps, law=law)
    return load.per_token(token), answer * share(load.steps - 1.0, load.steps)


@record
class _FirstWave:
    """Seconds to the first token of a batch's first requests (mean and P99), and prompt tokens that come behind one."""

    mean: Number
    p99: Number
    behind: Number
    room: Number  # of a step


def _first_wave(inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, at_once: Number) -> _FirstWave:
    """The first wave of a batch: all prompts wait at once, first tokens come at the ends of steps."""
    load, many = inputs.load, np.maximum(point.concurrency, 1.0)
    with term("of the first wave"):
        tokens, begin = many * load.computed, _prompt_room_beside(inputs, layout, 0.0)
        room = np.where(tokens > begin, _prompt_room_beside(inputs, layout, many / 2.0), begin)
        room = np.maximum(room, 1.0)
        decoding = many / 2.0 * (1.0 - 1.0 / np.ceil(tokens / room))
        step = mixed_step_time(point.alpha, point.beta, decoding, 0.0, 0.0)
    part = 0.0 if load.whole else load.computed
    with term("mean of the first wave"):
        done = batch_first_tokens(tokens, room, part)
        mean = own_prompt_time(batch_first_token_steps(tokens, room, part), step, at_once, done, 0.0)
    with term("last of the first wave"):
        most = batch_first_tokens_of_share(tokens, room, share(np.ceil((1.0 - TAIL) * many), many))
        p99 = own_prompt_time(np.ceil(most / room), step, at_once, most, 0.0)
    own = _prompt_steps_alone(inputs, point)
    return _FirstWave(np.maximum(mean, own), np.maximum(p99, own), tokens - done, room)


def _prompt_steps_alone(inputs: ServingInputs, point: OperatingPoint) -> Number:
    """Seconds of the steps of one prompt without other prompts."""
    load = inputs.load
    with term("a prompt alone"):
        steps = steps_with_prompt(load, point.own_room, 0.0)
        return own_prompt_time(steps, point.decode, point.alone, load.computed, 0.0)


def _prompt_room_beside(inputs: ServingInputs, layout: PlanColumns, decoding: Number) -> Number:
    """Prompt tokens that fit in steps beside `decoding` sequences."""
    each = prompt_room(step_budget(layout), inputs.load.queries * decoding / layout.pp)
    return layout.pp * filled_room(inputs.load, each, layout.dp_attention)


def _first_token_in_waves(
    inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, requests: Number
) -> tuple[Number, Number]:
    """Time to first token (mean, P99) if answers of equal length run in waves."""
    load, many = inputs.load, point.concurrency
    with term("waves"):
        first_step = mixed_step_time(point.alpha, point.beta, many / 2.0, 0.0, 0.0)  # half of them decode on the mean
        first_room, room = _prompt_room_beside(inputs, layout, many / 2.0), point.room
        first = load.computed * (point.gamma + first_step / first_room)
        later = load.computed * (point.gamma + point.step / room)
        steps = load.computed * many
        periods = (
            wave_time(many, first, load.steps, steps / first_room, point.step),
            wave_time(many, later, load.steps, steps / room, point.step),
        )
        beside = _prompt_steps_alone(inputs, point)
        mean = beside + wave_first_token_mean(requests, many, *periods, first, later)
        return mean, beside + wave_first_token((1.0 - TAIL) * requests, many, *periods, first, later)


def _requests_of_replica(inputs: ServingInputs, layout: PlanColumns) -> Number | None:
    requests = inputs.case.scenario.workload.requests
    return None if requests is None else per_replica(inputs, layout, float(requests))
