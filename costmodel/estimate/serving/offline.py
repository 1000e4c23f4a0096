"""An offline batch: all requests are queued at the start, and each that ends makes room for the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.equations.serving.closed_loop import interfered_token_time, surplus_wait
from costmodel.equations.serving.first_token import own_prompt_time, prompt_room
from costmodel.equations.serving.offline_batch import (
    batch_first_token_steps,
    batch_first_tokens,
    batch_first_tokens_of_share,
    batch_line_first_token,
    longest_output,
    offline_time,
    prompts_met,
    refilled_steps,
    shortest_output,
    wave_first_token,
    wave_first_token_mean,
    wave_time,
)
from costmodel.equations.serving.steady_state import mixed_step_time
from costmodel.estimate.serving.concurrency import closed_loop
from costmodel.estimate.serving.host_loading import loading_time
from costmodel.estimate.serving.load import of_each
from costmodel.estimate.serving.operating_point import OperatingPoint
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.steady_state import TAIL, SteadyState
from costmodel.estimate.serving.step_batch import step_budget
from costmodel.estimate.serving.whole_prompts import filled_room, steps_with_prompt
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class OfflineBatch:
    """Time until the last answer, and its share lost while only the longest answers run; NaN without a batch.

    full: the time, were the engine full to the end
    """

    makespan: Number = np.nan
    full: Number = np.nan
    tail_share: Number = np.nan


def offline_batch(inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint) -> OfflineBatch:
    """The scenario's batch on each plan; every replica gets the same number of requests."""
    requests, load = _of_replica(inputs, layout), inputs.load
    if requests is None:
        return OfflineBatch()
    together = np.asarray(point.concurrency)
    with term("longest answers"):
        last = np.maximum(layout.replicas * together, 1.0) * load.samples
        longest = longest_output(load.steps, load.output_spread, last)
    context = inputs.case.scenario.workload.context
    if context is not None:
        with term("cut at the context"):
            longest = np.minimum(
                longest, np.maximum(context - load.prompt, load.output) * share(load.steps, load.output)
            )
    with term("tokens of the batch"):
        busiest = np.maximum(requests, 1.0)  # of fewer requests than replicas some replicas have one, others none
        together = np.maximum(together, 1.0)
        again = load.preempted * np.maximum(busiest - together, 0.0)  # while others wait
        generated, computed = busiest * load.steps, busiest * load.computed + again
    with term("offline"):
        shortest = shortest_output(load.steps, load.output_spread, np.maximum(layout.replicas * requests, 1.0))
        steps = refilled_steps(busiest, together, load.steps, longest, shortest)
        total = offline_time(point.alpha, steps, point.beta, generated, point.gamma, computed)
    with term("always full"):
        full = offline_time(point.alpha, share(generated, together), point.beta, generated, point.gamma, computed)
    return OfflineBatch(total, full, 1.0 - share(full, total))


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
    first = _first_wave(inputs, layout, point)
    with term("line"):
        line = surplus_wait(requests, point.concurrency, rate_of(requests, batch.full))
    ttft = batch_line_first_token(requests, np.minimum(point.concurrency, requests), first.mean, first.p99, line)
    p99 = first.p99 + (1.0 - TAIL) * line
    met = np.where(requests > point.concurrency, prompts_met(requests, point.concurrency), first.met)
    tpot = load.per_token(interfered_token_time(point.decode, point.mixed, met, load.steps, point.rides))
    if load.output_spread == 0:
        waves, more = _in_waves(inputs, layout, point, requests), np.asarray(requests > point.concurrency)
        ttft = np.where(more, np.maximum(waves[0], first.mean), ttft)
        p99 = np.where(more, np.maximum(waves[1], first.p99), p99)
    if np.any(load.loaded):
        loads, latest = loading_time(point.host, rate)
        ttft, p99 = ttft + loads, p99 + latest
    with term("no later than the batch ends"):
        ttft = np.minimum(ttft, np.maximum(batch.makespan - (load.longest_answer - 1.0) * tpot, 0.0))
        p99 = np.maximum(np.minimum(p99, batch.makespan), ttft)
    with term("alone on its replica"):  # as one request in flight: it meets no other prompt
        alone = np.asarray(requests) <= 1
        ttft, tpot = np.where(alone, found.ttft, ttft), np.where(alone, found.tpot, tpot)
    return replace(found, rate=rate, tpot=tpot, ttft=ttft, ttft_p99=np.maximum(p99, ttft))


@record
class _FirstWave:
    """Time to first token of a batch's first requests (mean and P99), and prompts that one of them meets."""

    mean: Number
    p99: Number
    met: Number


def _first_wave(inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint) -> _FirstWave:
    """The first wave of a batch: all prompts wait at once, and first tokens come at the ends of steps."""
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
        mean = own_prompt_time(batch_first_token_steps(tokens, room, part), step, point.together, done, 0.0)
    with term("last of the first wave"):
        most = batch_first_tokens_of_share(tokens, room, share(np.ceil((1.0 - TAIL) * many), many))
        p99 = own_prompt_time(np.ceil(most / room), step, point.together, most, 0.0)
    own = _alone(inputs, point)
    return _FirstWave(np.maximum(mean, own), np.maximum(p99, own), 1.0 + share(tokens - done, load.computed))


def _alone(inputs: ServingInputs, point: OperatingPoint) -> Number:
    """Time of one prompt's steps, without other prompts."""
    load = inputs.load
    with term("a prompt alone"):
        steps = steps_with_prompt(load, point.own_room, 0.0)
        return own_prompt_time(steps, point.decode, point.alone, load.computed, 0.0)


def _room_beside(inputs: ServingInputs, layout: PlanColumns, decoding: Number) -> Number:
    """Prompt tokens in the steps of all micro-batches, beside so many decoding requests."""
    each = prompt_room(step_budget(layout), inputs.load.queries * decoding / layout.pp)
    return layout.pp * filled_room(inputs.load, each, layout.dp_attention)


def _in_waves(
    inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, requests: Number
) -> tuple[Number, Number]:
    """Time to first token, mean and P99, if equal answers end together and requests run in waves."""
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
