"""The steady state of continuous batching at an operating point: times per token, their tail, and the first token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.equations.serving.engine_step import varying_prompt_time
from costmodel.equations.serving.first_token import (
    burst_followers,
    first_token_tail,
    first_token_variance,
    gap_share,
    gate_wait,
    later_prompt_tokens,
    own_prompt_time,
    prompt_service_time,
)
from costmodel.equations.serving.queues import (
    burst_growth,
    burst_token_delay,
    burst_variance,
    found_busy,
    full_slot_time,
    peakedness,
    pooled_wait,
    pooled_wait_variance,
    queue_wait,
    queue_wait_variance,
    shared_burst_growth,
    slot_variation,
    slots_taken,
    slotted_token_time,
    spare_slots,
    wait_percentile,
    waiting_probability,
)
from costmodel.equations.serving.service_level import (
    crowd_deviation,
    lognormal_percentile,
    met_prompts_variance,
    normal_quantile,
    percentile_of_sum,
)
from costmodel.equations.serving.steady_state import (
    clustered_token_time,
    clustering_delay,
    engine_utilisation,
    mean_step_time,
    mixed_step_time,
    request_work,
    requests_in_flight,
    step_intercept,
    time_slope,
)
from costmodel.estimate.serving.host_loading import loading_delay
from costmodel.estimate.serving.operating_point import (
    OperatingPoint,
    Steps,
    micro_batch,
    part_of_prompt,
    step_of,
    steps_with_prompt,
)
from costmodel.estimate.serving.plan_columns import PlanColumns, rows_of
from costmodel.estimate.serving.serving_inputs import Load, ServingInputs, arrive_at_random
from costmodel.ground.equation import Number, is_any, term
from costmodel.ground.record import record

# --- the steady state of continuous batching at an operating point


FEWEST_WAIT = 1e-12  # of requests, for a variance that divides by their share
TAIL = 0.01  # share of requests beyond the p99
_ROUNDING = 1e-12  # of a time, that two sums of the same terms differ by


@record
class SteadyState:
    """Latencies, request rate and utilisation of one replica at a load."""

    rate: Number
    utilisation: Number
    tpot: Number
    ttft: Number
    ttft_p99: Number
    in_flight: Number
    taken: Number = 0.0  # share of requests that wait for a slot
    answer: Number | None = None  # time of a mean answer after its first token, where times per token differ by length


def replica_rate(inputs: ServingInputs, point: OperatingPoint) -> Number:
    """Request rate at which so many sequences are in flight, by Little's law."""
    load = inputs.load
    with term("mean step"):
        tokens = point.concurrency * load.computed / load.steps
        step = mixed_step_time(point.alpha, point.beta, point.concurrency, point.gamma, tokens)
    return rate_of(point.concurrency, load.steps * step)


@record
class _FirstToken:
    """Time to the first token of requests that have a slot."""

    mean: Number
    variance: Number
    alone: Number  # steps of a prompt by itself
    equal_p99: Number  # of prompts of one length, what one request in a hundred exceeds


def steady_state(
    inputs: ServingInputs, point: OperatingPoint, rate: Number, slots: Number | None = None
) -> SteadyState:
    """Steady state of one replica with random arrivals at a rate, from its operating point.

    slots: requests that it holds at most, before which others wait in line; None where that line is counted elsewhere
    """
    load = inputs.load
    alpha, beta, gamma = point.alpha, point.beta, point.replayed[0]
    utilisation = engine_utilisation(rate, point.work)
    with term("prompts"):
        prompts = engine_utilisation(rate, load.computed * gamma)
    mean = mean_step_time(alpha, utilisation)
    line = full_steps(inputs, point, rate)
    more = clustering_delay(beta, gamma, load.computed, load.steps, prompts, utilisation, load.prompt_spread)
    if not at_random(point.gaps):
        peaked = peakedness(point.gaps, load.output_spread)
        with term("of a prompt"):
            each = load.computed * gamma
        more = more + burst_token_delay(beta, each, load.steps, point.gaps, peaked, utilisation, prompts)
    with term("full of prompts"):
        full = mixed_step_time(alpha, beta, point.concurrency, point.filled, point.room)
    token = clustered_token_time(mean, more, beta, point.step, full, line[1], load.computed, point.room)
    first = _first_token(inputs, point, rate, prompts, line)
    held = SlotLine.none(token) if slots is None else slot_line(load, point, rate, slots, first.alone, token)
    ttft, p99 = point.gathered(*_with_slot_wait(first, held, point.fastest))
    if is_any(load.loaded):
        later, latest = loading_delay(point.host, rate)
        ttft, p99 = ttft + later, p99 + latest
    with term("in flight"):
        flying = requests_in_flight(rate, load.steps, held.token)
    return SteadyState(rate, utilisation, load.per_token(held.token), ttft, p99, flying, held.taken)


def prompts_between(token: Number, decode: Number) -> Number:
    """Time per token that prompts add to a decode step."""
    more = token - decode
    return np.where(more > _ROUNDING * token, more, 0.0)


@record
class Line:
    """A line of requests before one replica, or before all: the mean wait, its variance, and the share that waits.

    plain: the mean wait if arrivals were at random. gaps: variation of those between arrivals
    """

    wait: Number
    variance: Number
    share: Number
    plain: Number
    gaps: Number


def _prompt_line(point: OperatingPoint, service: Number, busy: Number, spread: Number) -> Line:
    """Wait of prompts before full steps: mean, variance, and the share of prompts that wait."""
    own = line_of_one(service, busy, spread, point.gaps)
    one = np.asarray(point.servers) == 1
    if one.all():
        return own
    waits = waiting_probability(point.servers, busy)
    plain = pooled_wait(service, point.servers, busy, spread, waits)
    line = plain if at_random(point.gaps) else shared_burst_growth(point.gaps, spread) * plain
    pooled = line, pooled_wait_variance(line, np.maximum(waits, FEWEST_WAIT)), waits, plain
    alone = own.wait, own.variance, own.share, own.plain
    wait, variance, share, mean = (np.where(one, *each) for each in zip(alone, pooled, strict=True))
    return Line(wait, variance, share, mean, point.gaps)


def at_random(gaps: Number) -> bool:
    """Whether requests arrive at random."""
    return isinstance(gaps, float) and gaps == 1


def line_of_one(service: Number, busy: Number, spread: Number, gaps: Number) -> Line:
    """Wait of requests before a single server: mean, variance, share that waits."""
    wait, variance = queue_wait(service, busy, spread), queue_wait_variance(service, busy, spread)
    if at_random(gaps):
        return Line(wait, variance, busy, wait, gaps)
    with term("bursts"):
        waits = found_busy(busy, gaps)
        grown = burst_growth(busy, waits, gaps, spread)
        return Line(grown * wait, burst_variance(variance, grown, busy, waits), waits, wait, gaps)


def calmness(prompts: Number, spread: Number, gaps: Number) -> Number:
    """How often a request meets others in a step, relative to random arrivals; at most 1."""
    if at_random(gaps):
        return 1.0
    with term("regular arrivals"):
        return np.minimum(burst_growth(prompts, found_busy(prompts, gaps), gaps, spread), 1.0)


def later_tokens(
    load: Load, rate: Number, line: Line, gate: Number, calm: Number, prompts: Number, room: Number, service: Number
) -> tuple[Number, Number]:
    """Tokens of prompts that arrived later but share the last step of a prompt.

    gate: wait for a step with arrivals at random. service: time of a prompt in full steps
    """
    wait, parts = line.plain + gate, not load.whole
    if at_random(line.gaps):
        return later_prompt_tokens(rate, load.computed, wait, prompts, room, 0.0, in_parts=parts), 0.0
    with term("until others come"):
        wait = calm * wait
    later = later_prompt_tokens(rate, load.computed, wait, prompts, room, 0.0, in_parts=parts)
    behind = burst_followers(line.wait, line.plain, service)
    return later, later_prompt_tokens(rate, load.computed, wait, prompts, room, behind, in_parts=parts) - later


def meeting(rate: Number, own: Number, gate: Number, gaps: Number) -> Number:
    """Share of requests that arrive while another request's prompt is in a step."""
    with term("meets a prompt"):
        met = engine_utilisation(rate, own)
        if at_random(gaps):
            return met
        found = found_busy(met, gaps)
        return np.where(gaps < 1, np.minimum(found, gap_share(own + gate, rate, np.minimum(gaps, 1.0))), found)


def full_steps(inputs: ServingInputs, point: OperatingPoint, rate: Number) -> tuple[Number, Number]:
    """Time of a prompt in steps full of prompts, and the share of time with such steps."""
    service = prompt_service_time(inputs.load.computed, point.filled, point.step, point.room)
    with term("full steps"):
        return service, engine_utilisation(rate, service)


def _first_token(
    inputs: ServingInputs, point: OperatingPoint, rate: Number, prompts: Number, full: tuple[Number, Number]
) -> _FirstToken:
    """Time to the first token: the wait in line, for the next step, and the steps of the prompt itself."""
    load, gamma, step, room = inputs.load, point.gamma, point.step, point.room
    prompt, spread, (service, busy) = load.computed, load.prompt_spread, full
    queue = _prompt_line(point, service, busy, spread)
    if point.blocking.occur:
        line, queued = point.blocking.line(queue.wait, queue.variance, rate, busy)
        queue = replace(queue, wait=line, variance=queued, plain=line if at_random(point.gaps) else queue.plain)
    line, calm = queue.wait, calmness(prompts, spread, point.gaps)
    launching, mixed, filling = _launch_terms(load, point, rate)
    gate = gate_wait(step, launching, mixed, filling, calm)
    wait = line + gate
    steps = steps_with_prompt(load, point.own_room, busy)
    plain = gate if at_random(point.gaps) else gate_wait(step, launching, mixed, filling, 1.0)
    later, burst = later_tokens(load, rate, queue, plain, calm, prompts, room, service)
    with term("other stages"):
        elsewhere = point.whole - gamma  # while each of them serves others
        passing = prompt * elsewhere
    with term("later prompts"):
        each = point.replayed[1]  # shares what the step takes at least
        later, burst = later * each, burst * each
    ttft = wait + own_prompt_time(steps, step, point.own, prompt, 0.0) + later + burst + passing
    variance = first_token_variance(queue.variance, wait, later, burst, gate, service, spread)
    with term("alone"):
        own = own_prompt_time(steps, step, point.alone, prompt, 0.0)
    met = meeting(rate, own, gate, point.gaps)
    with term("one prompt"):
        part = part_of_prompt(load, point.own_room)
        one = mixed_step_time(point.alpha, point.beta, point.concurrency, point.alone + elsewhere, part)
    far = first_token_tail(own + passing, line, queue.share, one, met, TAIL)
    if point.blocking.occur:
        blocked = point.blocking.wait(rate, busy)
        ttft = ttft + blocked
        far = np.maximum(far, own + passing + point.blocking.percentile(blocked, rate, busy, TAIL))
    return _FirstToken(ttft, variance, own + passing, far)


def _launch_terms(load: Load, point: OperatingPoint, rate: Number) -> tuple[Number, Number, Number]:
    """Fixed time that prompts add to a step, share of steps with prompts, and of time for their tokens."""
    with term("launches"):
        carried = share(load.computed, point.rides)
        gamma, filled = point.replayed
        launching = np.maximum(gamma - filled, 0.0) * carried - point.launched
        mixed = np.minimum(share(point.concurrency, load.steps) * point.rides, 1.0)
    with term("tokens of prompts"):
        return launching, mixed, engine_utilisation(rate, load.computed * np.minimum(filled, gamma))


def _with_slot_wait(first: _FirstToken, slots: SlotLine, fastest: Number) -> tuple[Number, Number]:
    """Time to first token (mean, P99) with the wait for a free slot."""
    mean, variance, far = first.mean, first.variance, first.equal_p99
    if is_any(slots.taken):
        with term("slots"):
            mean = mean + slots.wait
            variance = variance + pooled_wait_variance(slots.wait, np.maximum(slots.taken, FEWEST_WAIT))
            far = np.maximum(far, first.alone + wait_percentile(slots.wait, slots.taken, TAIL))
    return mean, np.maximum(far, lognormal_percentile(fastest, mean, variance, normal_quantile(TAIL)))


# --- the line of requests that wait for a slot


FAR = 5.0  # standard deviations of requests in flight by which slots are free, from where on none waits for one
STABLE = 1e-9  # of a line that would have no end: what rates that were looked for leave of it


@record
class SlotLine:
    """Effects of a limited number of slots on requests."""

    wait: Number  # mean of all requests
    taken: Number  # share of requests that wait at all
    token: Number  # time per token

    @staticmethod
    def none(token: Number) -> SlotLine:
        """The slot line if slots are always free."""
        return SlotLine(0.0, 0.0, token)


@record
class _Crowd:
    """Load on the slots of one replica, or of all replicas that share a queue."""

    slots: Number
    base_load: Number  # requests in flight if none slowed another down
    utilisation: Number


def slot_line(load: Load, point: OperatingPoint, rate: Number, slots: Number, own: Number, token: Number) -> SlotLine:
    """Wait for a slot, and time per token; `own`: steps of a prompt by itself; `token`: time without a slot limit."""
    utilisation = engine_utilisation(rate, point.work)
    with term("of steps alone"):
        base = requests_in_flight(rate, load.steps, point.alpha)
    crowd = _Crowd(slots, base, utilisation)
    if is_any(np.asarray(point.servers) != 1):
        with term("of all replicas"):
            crowd = _Crowd(point.servers * slots, point.servers * base, utilisation)
    near = np.asarray(spare_slots(crowd.slots, crowd.base_load, utilisation) < FAR)
    if not at_random(point.gaps):  # as a calmer line before fewer slots (Hayward)
        peaked = peakedness(point.gaps, load.output_spread)
        with term("of a burst"):
            crowd = _Crowd(np.maximum(crowd.slots / peaked, 1.0), crowd.base_load / peaked, utilisation)
    parts = (point.alpha, point.beta, point.gamma, point.work), rate, slots, own, token, crowd
    if near.all():
        return _slot_wait(load, *parts)
    found = SlotLine.none(token)
    if not near.any():
        return found
    places = np.flatnonzero(near.any(axis=tuple(range(near.ndim - 1))))
    some = _slot_wait(load, *rows_of(parts, places, near.shape[-1]))
    columns = [np.array(np.broadcast_to(np.asarray(each), near.shape)) for each in (found.wait, found.taken, token)]
    for column, part in zip(columns, (some.wait, some.taken, some.token), strict=True):
        column[..., places] = np.where(near[..., places], part, column[..., places])
    return SlotLine(*columns)


def _slot_wait(
    load: Load,
    constants: tuple[Number, Number, Number, Number],
    rate: Number,
    slots: Number,
    own: Number,
    token: Number,
    crowd: _Crowd,
) -> SlotLine:
    """The wait for a slot in plans whose slots may all be taken; constants: α, β, γ of a step, work of a request."""
    alpha, beta, gamma, work = constants
    taken = slots_taken(crowd.slots, crowd.base_load, crowd.utilisation)
    with term("of a slot"):
        kept = full_slot_time(alpha, load.steps, work, slots)
        busy = share(engine_utilisation(rate, kept), slots)
        busy = np.where(busy < 1.0 - STABLE, busy, 1.0)
        variation = slot_variation(own, kept, load.prompt_spread, load.output_spread)
        wait = pooled_wait(kept, crowd.slots, busy, variation, taken)
        prompt = load.computed * gamma
    held = slotted_token_time(token, alpha, beta, prompt, load.steps, crowd.utilisation, slots, taken)
    return SlotLine(wait, taken, held)


# --- the time per token of requests that fare worse than others: what one in a hundred exceeds


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
        each = _varying_prompt_seconds(load, layout, point)
        variance = _variance_of_met_prompts(load, state, each) if arriving else _loop_prompt_variance(load, state, each)
        if not at_random(point.gaps):
            variance = peakedness(point.gaps, load.output_spread) * variance
    far = lognormal_percentile(np.minimum(point.step, LEAST * token), token, variance, normal_quantile(TAIL))
    if arriving:
        far = percentile_of_sum(token, far - token, _crowd_delay(load, layout, point, steps, state))
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


def _crowd_delay(load: Load, layout: PlanColumns, point: OperatingPoint, steps: Steps, state: SteadyState) -> Number:
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


def _varying_prompt_seconds(load: Load, layout: PlanColumns, point: OperatingPoint) -> Number:
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


def _loop_prompt_variance(load: Load, state: SteadyState, work: Number) -> Number:
    """Variance of prompts that a request meets in a closed loop, beyond the variance of equal requests."""
    token = load.accepted * state.tpot
    spreads = load.prompt_spread, load.output_spread
    unlike = met_prompts_variance(state.rate, token, work, load.steps, *spreads, 0.0)
    with term("all alike"):
        alike = met_prompts_variance(state.rate, token, work, load.steps, 0.0, 0.0, 0.0)
    return np.maximum(unlike - alike, 0.0)
