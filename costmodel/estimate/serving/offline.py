"""An offline batch: all requests are queued at the start, and each that ends makes room for the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.equations.serving.closed_loop import interfered_token_time, surplus_wait
from costmodel.equations.serving.engine_step import pipelined_prompt_share
from costmodel.equations.serving.first_token import own_prompt_time, prompt_room
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
from costmodel.equations.serving.steady_state import mixed_step_time
from costmodel.estimate.serving.concurrency import closed_loop
from costmodel.estimate.serving.host_loading import loading_time
from costmodel.estimate.serving.load import of_each
from costmodel.estimate.serving.operating_point import OperatingPoint, Steps, micro_batch, step_of
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import Load, ServingInputs
from costmodel.estimate.serving.steady_state import TAIL, SteadyState
from costmodel.estimate.serving.step_batch import step_budget
from costmodel.estimate.serving.unchunked_prefill import filled_room, steps_with_prompt
from costmodel.ground.counts import LengthLaw
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.record import record


@record
class Drain:
    """How the last requests of a batch run out: times beside those of the linear step α + β b."""

    excess: Number  # what steps of ever smaller batches take beyond it, in all
    answer: Number  # decode steps of one of them, on average
    token: Number  # time of a step that one of them sees, as the mean over requests


@record
class OfflineBatch:
    """Time until the last answer, and its share lost while only the longest answers run; NaN without a batch.

    full: the time, were the engine full to the end
    """

    makespan: Number = np.nan
    full: Number = np.nan
    tail_share: Number = np.nan
    at_once: Number = np.nan  # time that a prompt token adds to steps where all prompts are there at once
    prompt_token: Number = np.nan  # the same, on average over all of the batch
    drain: Drain | None = None


def offline_batch(inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, exact: Steps) -> OfflineBatch:
    """The scenario's batch on each plan; every replica gets the same number of requests."""
    requests, load, law = _of_replica(inputs, layout), inputs.load, inputs.case.scenario.workload.answer_law
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
    at_once, drain = _at_once(load, layout, point, exact), _drain(inputs, layout, point, exact, longest)
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


def _at_once(load: Load, layout: PlanColumns, point: OperatingPoint, exact: Steps) -> Number:
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
        for until, rest in (*_stages(load, law, many), (longest, 0.0)):
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


def _stages(load: Load, law: LengthLaw, many: Number) -> Iterator[tuple[Number, Number]]:
    """Tokens at which so large a share of a batch is left, down to the last sequence."""
    for part in LEFT:
        rest = np.maximum(part, share(1.0, many))
        yield answer_of_share(load.steps, load.output_spread, rest, law=law), rest


def offline_state(
    inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, batch: OfflineBatch
) -> SteadyState:
    """Steady state of a batch: all requests wait for the first wave's prompts, later ones also for a slot.

    While any wait, the engine is full; a request that gets a place takes over how late the last one there began.
    """
    requests, load = _of_replica(inputs, layout), inputs.load
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
        waves, more = _in_waves(inputs, layout, point, requests), np.asarray(requests > point.concurrency)
        ttft = np.where(more, np.maximum(waves[0], first.mean), ttft)
        p99 = np.where(more, np.maximum(waves[1], first.p99), p99)
    if np.any(load.loaded):
        loads, latest = loading_time(point.host, rate)
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
    """Time per token as the mean over requests, and the time of a mean answer after its first token.

    Of unlike answers the first counts short ones as much as long ones, as benchmarks print it.
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
    """Time to first token of a batch's first requests (mean and P99), and tokens of prompts that come behind one."""

    mean: Number
    p99: Number
    behind: Number
    room: Number  # of a step


def _first_wave(inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, at_once: Number) -> _FirstWave:
    """The first wave of a batch: all prompts wait at once, first tokens come at the ends of steps."""
    load, many = inputs.load, np.maximum(point.concurrency, 1.0)
    with term("of the first wave"):
        tokens, begin = many * load.computed, _room_beside(inputs, layout, 0.0)
        room = np.where(tokens > begin, _room_beside(inputs, layout, many / 2.0), begin)
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
    own = _alone(inputs, point)
    return _FirstWave(np.maximum(mean, own), np.maximum(p99, own), tokens - done, room)


def _alone(inputs: ServingInputs, point: OperatingPoint) -> Number:
    """Seconds of the steps of one prompt without other prompts."""
    load = inputs.load
    with term("a prompt alone"):
        steps = steps_with_prompt(load, point.own_room, 0.0)
        return own_prompt_time(steps, point.decode, point.alone, load.computed, 0.0)


def _room_beside(inputs: ServingInputs, layout: PlanColumns, decoding: Number) -> Number:
    """Prompt tokens that fit in steps beside `decoding` sequences."""
    each = prompt_room(step_budget(layout), inputs.load.queries * decoding / layout.pp)
    return layout.pp * filled_room(inputs.load, each, layout.dp_attention)


def _in_waves(
    inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, requests: Number
) -> tuple[Number, Number]:
    """Time to first token (mean, P99) if answers of equal length run in waves."""
    load, many = inputs.load, point.concurrency
    with term("waves"):
        first_step = mixed_step_time(point.alpha, point.beta, many / 2.0, 0.0, 0.0)  # half of them decode on the mean
        first_room, room = _room_beside(inputs, layout, many / 2.0), point.room
        first = load.computed * (point.gamma + first_step / first_room)
        later = load.computed * (point.gamma + point.step / room)
        steps = load.computed * many
        periods = (
            wave_time(many, first, load.steps, steps / first_room, point.step),
            wave_time(many, later, load.steps, steps / room, point.step),
        )
        beside = _alone(inputs, point)
        mean = beside + wave_first_token_mean(requests, many, *periods, first, later)
        return mean, beside + wave_first_token((1.0 - TAIL) * requests, many, *periods, first, later)


def _of_replica(inputs: ServingInputs, layout: PlanColumns) -> Number | None:
    requests = inputs.case.scenario.workload.requests
    return None if requests is None else of_each(inputs, layout, float(requests))
