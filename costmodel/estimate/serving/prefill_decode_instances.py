"""Separate prefill and decode instances: the rate of each kind, and the transfer between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share, token_cost
from costmodel.equations.serving.cache_pool import residency_time
from costmodel.equations.serving.first_token import (
    first_token_tail,
    first_token_variance,
    gate_wait,
    own_prompt_time,
    prompt_service_time,
)
from costmodel.equations.serving.queues import queue_wait, queue_wait_variance
from costmodel.equations.serving.service_level import lognormal_percentile, normal_quantile
from costmodel.equations.serving.serving_economics import (
    cache_transfer_time,
    exposed_transfer_time,
    prefill_decode_ratio,
)
from costmodel.equations.serving.steady_state import engine_utilisation, mixed_step_time, requests_in_flight, time_slope
from costmodel.estimate.machine.price import price_per_accelerator
from costmodel.estimate.machine.process_groups import collective_link_rate, interface_rate
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.serving.engine_memory import EngineMemoryUse, memory_columns
from costmodel.estimate.serving.engine_step import StepTime, prompt_chunk, prompt_step_seconds, step_budget
from costmodel.estimate.serving.host_loading import HOST_COLUMNS
from costmodel.estimate.serving.kv_cache import sequence_cache
from costmodel.estimate.serving.load import LEAST
from costmodel.estimate.serving.operating_point import (
    Steps,
    filled_room,
    gaps_of_line,
    micro_batch,
    part_of_prompt,
    steps_with_prompt,
)
from costmodel.estimate.serving.plan_columns import PlanColumns, Rows
from costmodel.estimate.serving.replicas_for_load import busy_share_apart, energy_per_token, rent_columns, rent_needed
from costmodel.estimate.serving.service_limits import (
    IN_TIME,
    OWN,
    Reached,
    in_time,
    limits_chance,
    over_limits,
    service_limits,
)
from costmodel.estimate.serving.serving_inputs import Load, ServingInputs, without_speculation
from costmodel.estimate.serving.steady_state import (
    TAIL,
    at_random,
    calmness,
    later_tokens,
    line_of_one,
    meeting,
    token_p99_apart,
)
from costmodel.estimate.serving.step_table import (
    LOADED,
    NEAR_ENOUGH,
    limits_of,
    of_slower_steps,
    over_bound,
    step_table,
)
from costmodel.estimate.shared.results import Limit
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.record import record
from costmodel.ground.solvers import NEAR, last_within

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
        alpha = prompt_step_seconds(plain, layout, np.ones(len(layout)))
    with term("a prompt"):
        chunk, budget = prompt_chunk(inputs, layout), step_budget(layout)
        gamma = time_slope(prompt_step_seconds(plain, layout, chunk), alpha, chunk, 1.0)
    steps = steps_with_prompt(inputs.load, layout.budget, 0.0)
    own = own_prompt_time(steps, alpha, gamma, prompt, 0.0)
    filled = gamma
    if layout.grouped:
        with term("prompts of all groups"):
            each = np.maximum(chunk, budget)
            filled = time_slope(prompt_step_seconds(plain, layout, each), alpha, each, 1.0)
    held = filled_room(inputs.load, budget, layout.dp_attention)
    return PromptTime(alpha, gamma, prompt_service_time(prompt, filled, alpha, held), own, filled)


def cache_transfer(inputs: ServingInputs, prefill: PlanColumns, decode: PlanColumns, own: Number) -> CacheTransfer:
    """Transfer of a mean prompt's KV cache, over the links of both instances."""
    with term("cache of a prompt"):
        nbytes = sequence_cache(inputs, 1.0, inputs.load.computed)
    rates = [_transfer_rate(inputs, prefill, decode)] * 2
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


def _transfer_rate(inputs: ServingInputs, prefill: PlanColumns, decode: PlanColumns) -> Number:
    """Rate of an accelerator to another instance: the domain's if the whole plan fits in one, else the network's."""
    with term("whole plan"):
        everything = prefill.replicas * prefill.ranks + decode.replicas * decode.ranks
    network = interface_rate(inputs.case, inputs.network.pair_share)
    near = collective_link_rate(inputs, inputs.collective("send"), 2.0)
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
    queue, calm = line_of_one(prompt.full, busy, spread, gaps), calmness(prompts, spread, gaps)
    fixed = np.maximum(alpha, SHORTEST)
    half = gate_wait(fixed, 0.0, 0.0, 0.0, 1.0)
    gate = gate_wait(fixed, 0.0, 0.0, prompts, calm) - half
    plain = gate if at_random(gaps) else gate_wait(fixed, 0.0, 0.0, prompts, 1.0) - half
    wait = queue.wait + gate
    later, burst = later_tokens(load, rate, queue, plain, calm, prompts, filled_room(load, budget), prompt.full)
    with term("in other groups"):
        later, burst = later * share(prompt.filled, gamma), burst * share(prompt.filled, gamma)
    steps = steps_with_prompt(load, budget, busy)
    sending, sent = transfer.line(links, spread)
    with term("behind the prompt"):
        behind = transfer.exposed + gate_wait(np.maximum(step, SHORTEST), 0.0, 0.0, 0.0, 1.0) + step
    mean = wait + own_prompt_time(steps, alpha, gamma, computed, later + burst) + sending + behind
    least = np.maximum(wait, SHORTEST)
    variance = first_token_variance(
        queue.variance + sent, least, later * gamma, burst * gamma, gate, prompt.full, spread
    )
    far = lognormal_percentile(behind, mean, variance, normal_quantile(TAIL))
    with term("alone"):
        own = own_prompt_time(steps, alpha, gamma, computed, 0.0)
    met = meeting(rate, own, gate, gaps)
    with term("one step"):
        one = mixed_step_time(alpha, 0.0, 0.0, gamma, part_of_prompt(load, budget))
    return FirstToken(
        mean, np.maximum(far, first_token_tail(own + behind, queue.wait, queue.share, one, met, TAIL)), busy
    )


# Result columns of plans with separate prefill and decode.


@record
class SeenApart:
    """Latencies that users get at a request rate, and the utilisation of prefill instances."""

    ttft: Number
    ttft_p99: Number
    tpot: Number
    tpot_p99: Number
    worst_gap: Number
    latency: Number
    busy: Number


@record
class ApartRates:
    """Requests per second: served, at most, within limits, and of each kind of instance; and instances needed."""

    load: Number
    most: Number
    within: Number
    prefill: Number
    decode: Number
    prefill_needed: Number
    decode_needed: Number


def apart_columns(
    inputs: ServingInputs,
    halves: tuple[PlanColumns, PlanColumns],
    memories: tuple[EngineMemoryUse, EngineMemoryUse],
    step: StepTime,
    transfer: CacheTransfer,
    seen: SeenApart,
    rates: ApartRates,
) -> dict[str, Number]:
    """All results with separate prefill and decode; memory and requests in flight are of a decode instance."""
    load, (prefill, decode) = inputs.load, halves
    with term("accelerators"):
        prompts, answers = prefill.replicas * prefill.ranks, decode.replicas * decode.ranks
        gpus = prompts + answers
    columns = _latency_columns(inputs, step, seen)
    columns |= {
        "prefix_residency": _prefix_residency(inputs, decode, memories[1], rates),
        "requests_per_s": rates.load,
        "output_tokens_per_s": load.generated * rates.load,
        "total_tokens_per_s": (load.generated + load.prompt) * rates.load,
        "tokens_per_s_per_gpu": load.generated * rates.load / gpus,
        "concurrency": requests_in_flight(rates.load, load.output, seen.tpot) / decode.replicas,
        "saturation_share": share(rates.load, rates.most),
        "saturation_per_s": rates.most,
        "rate_within_slo_per_s": rates.within,
        "replicas": prefill.replicas + decode.replicas,
        "gpus": gpus,
        "transfer_time": transfer.time,
        "transfer_exposed": transfer.exposed,
        "prefill_utilisation": seen.busy,
    }
    columns |= memory_columns(inputs, decode, memories[1]) | dict.fromkeys(HOST_COLUMNS, np.nan)
    prompts_share = memory_columns(inputs.prompts or inputs, prefill, memories[0])["memory_share"]
    columns["memory_share"] = np.maximum(prompts_share, columns["memory_share"])
    columns["prefill_per_decode"] = _prefill_per_decode(inputs, halves, rates)
    columns |= _rent_columns(inputs, prompts, answers) | {"accepted_tokens": load.accepted}
    columns |= dict.fromkeys(("speculation_gain", "speculation_break_even", "makespan", "tail_share"), np.nan)
    busy = busy_share_apart(inputs, prompts, seen.busy, answers, columns["concurrency"])
    alike = inputs.prompts is None  # power is of one kind of nodes
    columns["energy_per_token"] = energy_per_token(inputs, busy, columns) if alike else np.nan
    return columns | _cost_columns(inputs, prompts, answers, rates) | _within(inputs, halves, gpus, rates)


def _prefix_residency(inputs: ServingInputs, decode: PlanColumns, memory: EngineMemoryUse, rates: ApartRates) -> Number:
    """Time that an unused prefix stays in the cache of a decode instance."""
    with term("new tokens"):
        each, added = rates.load / decode.replicas, inputs.load.computed + inputs.load.generated
    with np.errstate(divide="ignore", invalid="ignore"):
        return residency_time(memory.tokens, each, added)


def _latency_columns(inputs: ServingInputs, step: StepTime, seen: SeenApart) -> dict[str, Number]:
    """Times of a request and terms of a decode step, by name, for disaggregated instances."""
    load = inputs.load
    step = step if load.verified == 1 else step.times(1.0 / load.accepted)
    return {
        "ttft": seen.ttft,
        "ttft_p99": seen.ttft_p99,
        "tpot": seen.tpot,
        "tpot_p99": seen.tpot_p99,
        "worst_gap": seen.worst_gap,
        "latency": seen.latency,
        "tokens_per_s_per_user": rate_of(1.0, seen.tpot),
        "interference_share": 0.0,
        "prefix_hit": share(load.hit, load.prompt),
        "matmul": step.matmul,
        "attention": step.attention,
        "memory_bound": step.memory_bound,
        "tp_exposed": step.tp,
        "ep_exposed": step.ep,
        "dcp_exposed": step.dcp,
        "pp_exposed": step.pp,
        "host_time": step.host,
        "draft_time": step.draft,
        "prompts_between": 0.0,
    }


def _prefill_per_decode(inputs: ServingInputs, halves: tuple[PlanColumns, PlanColumns], rates: ApartRates) -> Number:
    """Number of prefill instances per decode instance at which neither waits for the other."""
    load, (prefill, decode) = inputs.load, halves
    with term("an instance"):
        prompts = load.computed * rates.prefill / prefill.replicas
        answers = load.generated * rates.decode / decode.replicas
    return prefill_decode_ratio(load.computed, prompts, load.generated, answers)


def _cost_columns(inputs: ServingInputs, prompts: Number, answers: Number, rates: ApartRates) -> dict[str, Number]:
    """Rent of prefill over input tokens, and of decode over output tokens; both include idle time."""
    first, price, load = _prefill_price(inputs), price_per_accelerator(inputs.case), inputs.load
    with term("tokens"):
        read, written = load.prompt * rates.load, load.generated * rates.load
    return {
        "cost_per_minput": token_cost(1e6, prompts, first, read),
        "cost_per_moutput": token_cost(1e6, answers, price, written),
        "cost_per_mtoken": token_cost(1e6, *_mean_price(inputs, prompts, answers), written),
    }


def _prefill_price(inputs: ServingInputs) -> Number:
    return price_per_accelerator((inputs.prompts or inputs).case)


def _mean_price(inputs: ServingInputs, prompts: Number, answers: Number) -> tuple[Number, Number]:
    """Accelerators of both kinds of instances, and their mean price."""
    price = price_per_accelerator(inputs.case)
    with term("accelerators"):
        gpus = prompts + answers
    if inputs.prompts is None:
        return gpus, price
    with term("mean price"):
        return gpus, (prompts * _prefill_price(inputs) + answers * price) / gpus


def _rent_columns(inputs: ServingInputs, prompts: Number, answers: Number) -> dict[str, Number]:
    """Nodes of both kinds of instances, and their rent."""
    if inputs.prompts is None:
        with term("accelerators"):
            gpus = prompts + answers
        return rent_columns(inputs, gpus, np.nan)
    both = (rent_columns(each, gpus, np.nan) for each, gpus in ((inputs.prompts, prompts), (inputs, answers)))
    first, second = both
    with term("both kinds"):
        return {name: first[name] + second[name] for name in first}


def _within(
    inputs: ServingInputs, halves: tuple[PlanColumns, PlanColumns], gpus: Number, rates: ApartRates
) -> dict[str, Number]:
    """Tokens and cost at the rate within limits, and the instances that the load needs."""
    prefill, decode = halves
    with term("accelerators"):
        prompts, answers = prefill.replicas * prefill.ranks, decode.replicas * decode.ranks
    _, price = _mean_price(inputs, prompts, answers)
    with term("within limits"):
        tokens = inputs.load.generated * rates.within
    with np.errstate(divide="ignore"):
        cost = token_cost(1e6, gpus, price, tokens)
    with term("instances needed"):
        needed = rates.prefill_needed * prefill.ranks + rates.decode_needed * decode.ranks
    return {
        "tokens_per_gpu_within_limits": tokens / gpus,
        "cost_within_limits": cost,
        "replicas_needed": rates.prefill_needed + rates.decode_needed,
        "prefill_needed": rates.prefill_needed,
        "decode_needed": rates.decode_needed,
        "gpus_needed": needed,
        "rent_needed": _rent_needed(inputs, halves, rates),
    }


def _rent_needed(inputs: ServingInputs, halves: tuple[PlanColumns, PlanColumns], rates: ApartRates) -> Number:
    """Rent per month of the instances that the load needs."""
    with term("instances needed"):
        prompts, answers = rates.prefill_needed * halves[0].ranks, rates.decode_needed * halves[1].ranks
    if inputs.prompts is None:
        with term("instances needed"):
            return rent_needed(inputs, prompts + answers)
    with term("both kinds"):
        return rent_needed(inputs.prompts, prompts) + rent_needed(inputs, answers)


# Prefill and decode instances side by side: what users see at a rate, and the rates that meet the limits.

FEWEST_PER_S = 1e-9  # requests a second of the emptiest plan that is looked at


@dataclass(frozen=True, eq=False)
class InstancePairs:
    """Pairs of prefill and decode instances, with the inputs of their rates and times.

    held: results at saturation, which do not depend on the load
    """

    inputs: ServingInputs
    prefill: PlanColumns
    decode: PlanColumns
    prompt: PromptTime
    transfer: CacheTransfer
    steps: Steps
    most: Rows  # sequences in flight of a decode instance at most
    held: Mapping[str, Number]

    def step(self, many: Number) -> Number:
        """Step time of a decode instance with so many sequences in flight."""
        return self.steps.decode(micro_batch(self.decode, many))

    def in_flight(self, rate: Number) -> Rows:
        """Sequences in flight on a decode instance at a rate of the whole plan, within the bounds."""
        return self.in_flight_of_one(np.asarray(rate / self.decode.replicas, dtype=np.float64))

    def in_flight_of_one(self, each: Rows) -> Rows:
        """Sequences in flight on a decode instance at its rate, within the bounds."""
        with untraced(), np.errstate(all="ignore"):
            found = last_within(
                lambda log: np.log(self.decoded(np.exp(log)) / each),
                np.full(len(self.decode), np.log(LEAST)),
                np.log(self.most),
            )
        return np.exp(found)

    def decoded(self, many: Number) -> Number:
        """Requests per second that one decode instance answers with so many in flight."""
        return rate_of(many, self.inputs.load.steps * self.step(many))

    def seen(self, rate: Number, many: Number) -> SeenApart:
        """Latencies at a rate of the whole plan."""
        with term("of an instance"):
            arriving = rate / self.prefill.replicas
        return self.seen_at(arriving, many)

    @property
    def gaps(self) -> Number:
        """Variation of the gaps between arrivals at a prefill instance."""
        return gaps_of_line(self.inputs, self.prefill.replicas)

    def seen_at(self, arriving: Number, many: Number) -> SeenApart:
        """Latencies at a rate of one prefill instance, with so many sequences in flight on a decode instance."""
        step, load = self.step(many), self.inputs.load
        tpot = load.per_token(step)
        with term("links"):
            links = share(arriving, self.transfer.sent), share(self.decoded(many), self.transfer.received)
        first = first_token(load, self.prefill.budget, self.prompt, arriving, self.transfer, step, links, self.gaps)
        with term("latency"):
            latency = first.mean + (load.longest_answer - 1.0) * tpot
        far = token_p99_apart(load, self.step, self.steps.one, many)
        return SeenApart(first.mean, first.p99, tpot, far, np.maximum(step, far), latency, first.busy)

    def over(
        self, seen: SeenApart, rate: Rows, held: Mapping[str, Number], seen_at_load: Callable[[Rows], SeenApart]
    ) -> Rows:
        """The largest ratio of a result to its service-level limit; above 1 if a limit is broken.

        seen_at_load: what users see at so many times the load, by the clock of steps that take so many times as long
        """
        limits = service_limits(self.inputs)

        def named(name: str) -> Number:
            """The value of a result by its name, for instances at this load."""
            if name == OWN:
                room = share(held["saturation_per_s"], rate)
                return self.chance(limits, named, room, (room, lambda factor: (factor, seen_at_load(factor))))
            if name in IN_TIME:
                return in_time(limits_of(self.inputs), named)[name]
            if name == "requests_per_s":
                return self.inputs.case.scenario.workload.rate or rate
            return held[name] if name in held else _result(seen, name)

        return over_limits(limits, named, len(self.decode))

    def chance(
        self,
        limits: list[Limit],
        result: Callable[[str], Number],
        room: Number | None,
        loads: tuple[Number, Callable[[Rows], tuple[Number, SeenApart]]] | None,
    ) -> Number:
        """Chance to meet the limits; `loads`: the highest load, and load factor and latencies as a function of load."""

        def reached(column: str, bound: float) -> Reached | None:
            """A function for the load at which a result meets a bound; None if load does not change the result."""
            if column not in LOADED or loads is None:
                return None

            def grown(load: Rows) -> tuple[Number, Number]:
                """The load factor of users, and the result at that load."""
                factor, seen = loads[1](load)
                if column in IN_TIME:
                    named = _results_of_slower_users(seen, factor, result("requests_per_s"))
                    return factor, in_time(limits_of(self.inputs), named)[column]
                return factor, of_slower_steps(column, _result(seen, column), factor)

            def over(load: Rows) -> Number:
                """How far the result exceeds its bound at a load."""
                return over_bound(column, grown(load)[1], bound)

            with untraced(), np.errstate(all="ignore"):
                found = grown(self.greatest(loads[0], over, NEAR_ENOUGH))
            return Reached(*(np.asarray(each) for each in found))

        halves = self.prefill, self.decode
        reach = lambda bounds: [reached(*each) for each in bounds]  # noqa: E731
        return limits_chance(self.inputs, halves, limits, result, room, reach)

    def greatest(self, top: Number, over: Callable[[Rows], Number], near: float = NEAR) -> Rows:
        """Highest rate up to `top` at which `over` is at most 1."""
        with untraced(), np.errstate(all="ignore"):
            rows = len(self.decode)
            highest = np.log(np.maximum(np.broadcast_to(np.asarray(top, dtype=np.float64), rows), FEWEST_PER_S))
            least = np.full(rows, np.log(FEWEST_PER_S))
            return np.exp(last_within(lambda log: np.log(over(np.exp(log))), least, highest, near=near))

    def kept(self, top: Number, over: Callable[[Rows], Number]) -> Rows:
        """The highest rate up to `top` at which `over` is at most 1; 0 if there is none."""
        with untraced(), np.errstate(all="ignore"):
            ever = np.asarray(over(np.full(len(self.decode), FEWEST_PER_S)) <= 1)
            near = NEAR_ENOUGH if any(limit.column == OWN for limit in service_limits(self.inputs)) else NEAR
            return np.where(ever, self.greatest(top, over, near), 0.0)

    def within(self, top: Number) -> Number:
        """Requests per second of the whole plan within the service-level limits; 0 if none meets them."""
        if not service_limits(self.inputs):
            return top
        held = {**self.held, "saturation_per_s": top}

        def at(rate: Rows) -> SeenApart:
            """Latencies at a rate of the whole plan."""
            return self.seen(rate, self.in_flight(rate))

        return self.kept(top, lambda rate: self.over(at(rate), rate, held, lambda factor: at(factor * rate)))

    def quick(self) -> InstancePairs:
        """The same pairs with step times from a table, for fast searches."""
        prefill, decode = self.prefill.bare(), self.decode.bare()
        prompt = PromptTime(*(_bare(getattr(self.prompt, name)) for name in self.prompt.__dataclass_fields__))
        return replace(
            self,
            prefill=prefill,
            decode=decode,
            prompt=prompt,
            transfer=bare_transfer(self.transfer),
            steps=step_table(self.inputs, decode),
        )


def _results_of_slower_users(seen: SeenApart, factor: Number, requests: Number) -> Callable[[str], Number]:
    """Results where all times are longer by a factor, at an unchanged rate of requests."""
    return lambda name: requests if name == "requests_per_s" else _result(seen, name) * factor


def _result(seen: SeenApart, name: str) -> Number:
    """One result of disaggregated instances by its name."""
    if name == "prompts_between":
        return 0.0
    found: Number = rate_of(1.0, seen.tpot) if name == "tokens_per_s_per_user" else getattr(seen, name)
    return found


def bare_transfer(transfer: CacheTransfer) -> CacheTransfer:
    """The transfer with columns that are not traced."""
    return CacheTransfer(*(_bare(getattr(transfer, name)) for name in transfer.__dataclass_fields__))


def _bare(value: Number) -> Number:
    """The value without its trace."""
    return np.asarray(value, dtype=np.float64).view(np.ndarray)
