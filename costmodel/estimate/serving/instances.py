"""Separate prefill and decode instances: the rate of each kind, and the transfer between them."""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.equations.serving.first_token import (
    first_token_tail,
    first_token_variance,
    gate_wait,
    later_prompt_tokens,
    own_prompt_time,
    prompt_service_time,
)
from costmodel.equations.serving.queues import found_busy, queue_wait, queue_wait_variance
from costmodel.equations.serving.service_level import lognormal_percentile, normal_quantile
from costmodel.equations.serving.serving_economics import cache_transfer_time, exposed_transfer_time
from costmodel.equations.serving.steady_state import engine_utilisation, mixed_step_time, time_slope
from costmodel.estimate.machine.links import inside_bandwidth
from costmodel.estimate.machine.node_in_use import interface_rate
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.serving.engine_step import prompt_step
from costmodel.estimate.serving.kv_cache import sequence_cache
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import Load, ServingInputs, without_speculation
from costmodel.estimate.serving.steady_state import TAIL, at_random, in_bursts
from costmodel.estimate.serving.step_batch import prompt_piece, step_budget
from costmodel.estimate.serving.whole_prompts import filled_room, part_of_prompt, steps_with_prompt
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

SHORTEST = 1e-12  # seconds of a wait that is divided by


@record
class PromptTime:
    """Prefill times of an instance: a fixed time per step, and the time of each token."""

    alpha: Number
    gamma: Number
    full: Number  # of a mean prompt in steps that prompts fill
    own: Number  # of a mean prompt by itself
    filled: Number  # what a token adds to steps that prompts of all attention groups fill


@record
class CacheTransfer:
    """Transfer of a mean prompt's KV cache from prefill to decode."""

    nbytes: Number
    time: Number
    exposed: Number
    most: Number  # prompts a second that the links of all instances carry
    sent: Number  # and those of one prefill instance
    received: Number  # of one decode instance

    def line(self, links: tuple[Number, Number], spread: Number) -> tuple[Number, Number]:
        """Wait and its variance for the slower of two queues: at the sending and at the receiving link."""
        times = rate_of(1.0, self.sent), rate_of(1.0, self.received)
        sent, received = (queue_wait(*each, spread) for each in zip(times, links, strict=True))
        one, other = (queue_wait_variance(*each, spread) for each in zip(times, links, strict=True))
        return np.maximum(sent, received), np.maximum(one, other)


@record
class FirstToken:
    """Time to the first token: its mean and P99; and the utilisation of prefill."""

    mean: Number
    p99: Number
    busy: Number


def prompt_time(inputs: ServingInputs, layout: PlanColumns) -> PromptTime:
    """Time of a mean prompt on a prefill instance: alone, and in full steps among others."""
    plain, prompt = without_speculation(inputs), inputs.load.computed
    with term("one token"):
        alpha = prompt_step(plain, layout, np.ones(len(layout)))
    with term("a prompt"):
        chunk, budget = prompt_piece(inputs, layout), step_budget(layout)
        gamma = time_slope(prompt_step(plain, layout, chunk), alpha, chunk, 1.0)
    steps = steps_with_prompt(inputs.load, layout.budget, 0.0)
    own = own_prompt_time(steps, alpha, gamma, prompt, 0.0)
    filled = gamma
    if layout.grouped:
        with term("prompts of all groups"):
            each = np.maximum(chunk, budget)
            filled = time_slope(prompt_step(plain, layout, each), alpha, each, 1.0)
    held = filled_room(inputs.load, budget, layout.dp_attention)
    return PromptTime(alpha, gamma, prompt_service_time(prompt, filled, alpha, held), own, filled)


def cache_transfer(inputs: ServingInputs, prefill: PlanColumns, decode: PlanColumns, own: Number) -> CacheTransfer:
    """Transfer of a mean prompt's KV cache, over the links of both instances."""
    with term("cache of a prompt"):
        nbytes = sequence_cache(inputs, 1.0, inputs.load.computed)
    rates = [_link(inputs, prefill, decode)] * 2
    if inputs.prompts is not None:
        rates = [interface_rate(each.case, each.network.pair_share) for each in (inputs.prompts, inputs)]
    if prefill.time_factor is not None:
        rates = [rate_of(rate, prefill.time_factor) for rate in rates]
    with term("links of an instance"):
        sending, receiving = prefill.ranks * rates[0], decode.ranks * rates[1]
    time = cache_transfer_time(nbytes, sending, receiving)
    pieces = layer_count(inputs.model) if inputs.case.scenario.assume.cache_transfer == "layer" else 1.0
    exposed = exposed_transfer_time(time, own, pieces)
    sent, received = rate_of(sending, nbytes), rate_of(receiving, nbytes)
    with term("links of all"):
        most = np.minimum(prefill.replicas * sent, decode.replicas * received)
    return CacheTransfer(nbytes, time, exposed, most, sent, received)


def _link(inputs: ServingInputs, prefill: PlanColumns, decode: PlanColumns) -> Number:
    """Rate of an accelerator to another instance: the domain's if the whole plan fits in one, else the network's."""
    with term("whole plan"):
        everything = prefill.replicas * prefill.ranks + decode.replicas * decode.ranks
    network = interface_rate(inputs.case, inputs.network.pair_share)
    near = inside_bandwidth(inputs, inputs.collective("send"), 2.0)
    return np.where(everything <= inputs.domain, near, network)


def first_token(
    load: Load,
    budget: Number,
    prompt: PromptTime,
    rate: Number,
    transfer: CacheTransfer,
    step: Number,
    links: tuple[Number, Number] = (0.0, 0.0),
    gaps: Number = 1.0,
) -> FirstToken:
    """Time to first token at a rate of one instance: queue, prefill, transfer of the cache, and first decode step.

    gaps: between the arrivals at a prefill instance, standard deviation over mean
    links: shares of time in which the sending and the receiving instance's links carry caches, which wait in line
    No decoding runs on it: a prompt that finds it idle starts at once. The gate is the fixed part of steps alone, which
    each batch of prompts has; an idle instance has none to wait for, so that gate without load is taken off.
    """
    computed, spread, alpha, gamma = load.computed, load.prompt_spread, prompt.alpha, prompt.gamma
    busy = engine_utilisation(rate, prompt.full)
    with term("prompts"):
        prompts = engine_utilisation(rate, computed * prompt.filled)
    queue = queue_wait(prompt.full, busy, spread), queue_wait_variance(prompt.full, busy, spread), busy
    line, queued, waits = queue if at_random(gaps) else in_bursts(queue, gaps, spread)
    gate = gate_wait(alpha, prompts) - gate_wait(alpha, 0.0)
    wait = line + gate
    later = later_prompt_tokens(rate, computed, wait, prompts, filled_room(load, budget), in_parts=not load.whole)
    with term("in other groups"):
        later = later * share(prompt.filled, gamma)
    steps = steps_with_prompt(load, budget, busy)
    sending, sent = transfer.line(links, spread)
    with term("behind the prompt"):
        behind = transfer.exposed + gate_wait(step, 0.0) + step
    mean = wait + own_prompt_time(steps, alpha, gamma, computed, later) + sending + behind
    variance = first_token_variance(queued + sent, np.maximum(wait, SHORTEST), later * gamma, gate, prompt.full, spread)
    far = lognormal_percentile(behind, mean, variance, normal_quantile(TAIL))
    with term("alone"):
        own = own_prompt_time(steps, alpha, gamma, computed, 0.0)
    with term("meets a prompt"):
        met = engine_utilisation(rate, own)
        met = met if at_random(gaps) else found_busy(met, gaps)
    with term("one step"):
        one = mixed_step_time(alpha, 0.0, 0.0, gamma, part_of_prompt(load, budget))
    return FirstToken(mean, np.maximum(far, first_token_tail(own + behind, line, waits, one, met, TAIL)), busy)
