"""Evaluates plans with separate prefill and decode to columns of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.estimate.serving.conversation_cache import cached_cost_apart
from costmodel.estimate.serving.engine_memory import EngineMemoryUse, memory_use
from costmodel.estimate.serving.evaluate_layouts import evaluate
from costmodel.estimate.serving.load import LEAST, cap_binds, loads_under_cap, most_requests, results_under_cap
from costmodel.estimate.serving.measured_spreads import endless, with_beyond
from costmodel.estimate.serving.operating_point import ExactSteps, micro_batch
from costmodel.estimate.serving.plan_columns import (
    SIZES,
    PlanColumns,
    Rows,
    cuts_of,
    distinct,
    numbered_factors,
    rows_of,
    where_rows,
    with_straddling,
)
from costmodel.estimate.serving.prefill_decode_instances import (
    FEWEST_PER_S,
    ApartRates,
    CacheTransfer,
    InstancePairs,
    SeenApart,
    apart_columns,
    bare_transfer,
    cache_transfer,
    prompt_time,
)
from costmodel.estimate.serving.replicas_for_load import replicas_for_load, wanted_rate
from costmodel.estimate.serving.service_limits import OWN, columns_in_time, is_asked
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.step_table import ARRIVING, USERS, load_factor
from costmodel.estimate.shared.results import Costs, stated_limits
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.record import record

BINDING = ("prefill", "cache", "sequences", "transfer")
FULL = 0.01  # of the highest rate, from which on a line that steps out of a table lead to is too far off
SMALL_BUDGETS = (512.0, 2048.0)  # of replicas that do both, beside their own


@record
class DisaggregatedEvaluation:
    """Results of plans with separate prefill and decode, with their layouts, memory and rates."""

    prefill: PlanColumns
    decode: PlanColumns
    results: Costs
    prefill_memory: EngineMemoryUse
    decode_memory: EngineMemoryUse
    transfer: CacheTransfer
    in_flight: Number  # of a decode instance
    most: Rows  # requests a second that each kind of instance, or the links between them, can pass
    overloaded: NDArray[np.bool_]

    @property
    def layout(self) -> PlanColumns:
        """The layout of the decode instances."""
        return self.decode

    @property
    def memory(self) -> EngineMemoryUse:
        """The memory of a decode instance."""
        return self.decode_memory

    def binding(self, row: int = 0) -> str:
        """What limits the rate of one plan: prefill, the KV cache, decode's sequence limit, or the links."""
        return BINDING[int(np.argmin(self.most[:, row]))]

    def overloads(self) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Masks of the rows that get more requests than they can answer, by reason code."""
        full = np.argmin(self.most, axis=0) == BINDING.index("cache")
        yield "S003", self.overloaded & full
        yield "S005", self.overloaded & ~full


def evaluate_pairs(
    inputs: ServingInputs, prefill: PlanColumns, decode: PlanColumns, *, compared: bool = True
) -> DisaggregatedEvaluation:
    """Memory, times, rates and cost of every pair of prefill and decode layouts under the scenario's load.

    compared: with replicas that do both, which takes longer than all else
    """
    first = inputs.prompts or inputs
    if first is inputs:
        prefill, decode = with_straddling(inputs, prefill, decode)
    else:
        (prefill,), (decode,) = with_straddling(first, prefill), with_straddling(inputs, decode)
    loads = loads_under_cap(inputs)
    if loads is not None:
        rated, looped = (evaluate_pairs(each, prefill, decode, compared=compared) for each in loads)
        found = where_rows(cap_binds(inputs, looped.results), looped, rated)
        return replace(found, results=results_under_cap(inputs, rated.results, looped.results))
    memories = memory_use(first, prefill), memory_use(inputs, decode)
    with term("prompt"):
        prompt = prompt_time(first, prefill)
    transfer = cache_transfer(inputs, prefill, decode, prompt.own)
    rows = (len(decode),)
    cache, sequences = (
        np.broadcast_to(np.asarray(each, dtype=np.float64), rows)
        for each in (memories[1].requests_steady, decode.dp_attention * most_requests(inputs))
    )
    bound = np.maximum(np.minimum(cache, sequences), LEAST)
    held = {"concurrency_worst": memories[1].requests_worst}
    exact = InstancePairs(inputs, prefill, decode, prompt, transfer, ExactSteps(inputs, decode), bound, held)
    quick = _tabulated_pairs(exact)
    each = decode.replicas * quick.decoded(bound)
    by_cache = cache <= sequences
    passed = rate_of(prefill.replicas, prompt.full)
    most = np.stack(
        [
            np.broadcast_to(np.asarray(value, dtype=np.float64), rows)
            for value in (passed, np.where(by_cache, each, np.inf), np.where(by_cache, np.inf, each), transfer.most)
        ]
    )
    with term("saturation"):
        top = np.minimum(np.minimum(passed, transfer.most), decode.replicas * exact.decoded(bound))
    rate, within = _served_rate(quick, top), quick.within(top)
    over = np.asarray(rate < (inputs.case.scenario.workload.rate or 0.0) * (1 - 1e-9))
    many = quick.in_flight(rate)
    step = ExactSteps(inputs, decode).breakdown(micro_batch(decode, many))
    rates = ApartRates(rate, top, within, passed, each, *instances_for_load(quick))
    seen = _with_slot_wait(inputs, exact.seen(rate, many), rates)
    columns = apart_columns(inputs, (prefill, decode), memories, step, transfer, seen, rates)
    columns["cost_per_mcached"] = cached_cost_apart(first, prefill, prompt.gamma)
    alike = compared and first is inputs
    columns["disaggregation_gain"] = _gain_over_colocated(inputs, prefill, decode, within) if alike else np.nan
    columns[OWN] = _limits_chance(quick, top, columns)
    columns |= endless(columns, over)
    results = Costs(columns | columns_in_time(inputs, columns), len(decode))
    return DisaggregatedEvaluation(prefill, decode, results, *memories, transfer, many, most, over)


def _tabulated_pairs(exact: InstancePairs) -> InstancePairs:
    """The pairs with step times from a table and without trace, for fast searches."""
    with untraced():
        return exact.quick()


def _gain_over_colocated(inputs: ServingInputs, prefill: PlanColumns, decode: PlanColumns, within: Number) -> Number:
    """Rate within limits relative to colocated replicas on as many GPUs; infinite if those meet no limit."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return share(within, colocated_rate(inputs, prefill, decode))


def colocated_rate(inputs: ServingInputs, prefill: PlanColumns, decode: PlanColumns) -> Rows:
    """Requests per second that the best colocated replicas on as many GPUs answer within limits.

    The layout is that of prefill or of decode, with its token budget or a smaller one, which shortens gaps.
    """
    with untraced(), np.errstate(all="ignore"):
        gpus = np.asarray(prefill.replicas * prefill.ranks + decode.replicas * decode.ranks, dtype=np.float64)
        found = [np.floor(gpus / np.asarray(each.ranks)) * _replica_rate(inputs, each) for each in (prefill, decode)]
    return np.asarray(np.maximum(found[0], found[1]))


def _replica_rate(inputs: ServingInputs, layout: PlanColumns) -> Rows:
    """Requests per second within limits of one replica that does both prefill and decode."""
    sizes = [np.asarray(getattr(layout, name)).view(np.ndarray) for name in (*cuts_of(layout), "budget")]
    first, which = distinct([*sizes, *numbered_factors(layout)])
    one, best = np.ones(len(first)), np.zeros(len(first))
    replica = replace(layout.bare().at(first), pp=one, replicas=one)
    for budget in (*SMALL_BUDGETS, np.inf):
        found = evaluate(inputs, replace(replica, budget=np.minimum(replica.budget, budget))).results
        fits = found.column("memory_share") <= 1
        best = np.where(fits, np.maximum(best, found.column("rate_within_slo_per_s")), best)
    return np.asarray(best)[which]


def _served_rate(pair: InstancePairs, top: Number) -> Number:
    """Requests per second of a plan under the scenario's load, at most what it can answer."""
    workload = pair.inputs.case.scenario.workload
    if workload.rate is not None:
        return np.minimum(workload.rate, top)
    waiting = float(workload.concurrency or workload.users or 0.0)
    thinking = float(workload.think_time or 0.0)

    def busy(rate: Rows) -> Number:
        """How full the instances are at this rate; 1 is full."""
        return share(rate * (thinking + pair.seen(rate, pair.in_flight(rate)).latency), waiting)

    return pair.greatest(top, busy)


def _with_slot_wait(inputs: ServingInputs, seen: SeenApart, rates: ApartRates) -> SeenApart:
    """Latencies with the wait of users for a free slot; unchanged if the load is a rate.

    No user waits longer than it takes to answer all others once.
    """
    workload, full = inputs.case.scenario.workload, np.asarray(rates.load >= (1 - FULL) * rates.most)
    users = workload.concurrency or workload.users
    if users is None or not full.any():
        return seen
    with term("of users"):
        every = share(float(users), rates.load)
        whole = every - float(workload.think_time or 0.0)
        first = np.maximum(whole - (seen.latency - seen.ttft), 0.0)
    far = np.maximum(np.minimum(seen.ttft_p99, every), first)
    now, then = (seen.ttft, seen.ttft_p99, seen.latency), (first, far, whole)
    ttft, ttft_p99, latency = (np.where(full, *pair) for pair in zip(then, now, strict=True))
    return replace(seen, ttft=ttft, ttft_p99=ttft_p99, latency=latency)


def _limits_chance(pair: InstancePairs, top: Number, columns: Mapping[str, Number]) -> Number:
    """Chance that a plan meets every limit; NaN if the scenario does not ask for it."""
    scenario = pair.inputs.case.scenario
    if not is_asked(pair.inputs):
        return np.nan
    workload, limits = scenario.workload, list(stated_limits(scenario.limits))
    held, room = dict[str, Number](), None
    if workload.rate is not None:
        held[ARRIVING], room = workload.rate, share(top, workload.rate)
    elif workload.users is not None and workload.think_time:
        held[USERS] = float(workload.users)

    def at(rate: Rows) -> tuple[Number, SeenApart]:
        """The load factor and the latencies at a rate."""
        seen = pair.seen(rate, pair.in_flight(rate))
        return load_factor(pair.inputs, held, rate, seen.latency), seen

    wider = replace(pair, inputs=with_beyond(pair.inputs, (pair.prefill, pair.decode), columns.__getitem__))
    return wider.chance(limits, columns.__getitem__, room, (top, at) if held else None)


KINDS = 2  # of instances, enough of both of which must be up
MORE = 4  # numbers of decode instances that are tried, from the fewest on
_IDLE = 1e-3  # of what an instance answers: one that meets the limits with less than that load keeps them with none
_SAME = 1e-9  # by which a rate may differ that is divided and multiplied again


def instances_for_load(pairs: InstancePairs) -> tuple[Number, Number]:
    """Prefill and decode instances that meet the limits at the wanted rate with the fewest accelerators.

    Infinite if no number meets the limits; NaN if the load is not a rate. The pairs are evaluated many times, so they
    should have tabulated step times.
    """
    if pairs.inputs.case.scenario.workload.rate is None:
        return np.nan, np.nan
    kinds, which = _distinct_pairs(pairs)
    with untraced(), np.errstate(all="ignore"):
        rates = _cheapest_rates(kinds)
        prefill, decode = (replicas_for_load(pairs.inputs, each, KINDS) for each in rates)
        moved = _on_other_links(kinds, prefill, decode)
        if moved is not None:
            crossed, other = moved
            rates = [np.where(crossed, *both) for both in zip(_cheapest_rates(other), rates, strict=True)]
    first, second = (replicas_for_load(pairs.inputs, each[which], KINDS) for each in rates)
    return first, second


def _distinct_pairs(pairs: InstancePairs) -> tuple[InstancePairs, NDArray[np.intp]]:
    """The distinct pairs, ignoring instance counts, and the index of each row's pair among them."""
    halves = (pairs.prefill, pairs.decode)
    bursts = pairs.inputs.gaps != 1  # which many instances share
    near = np.asarray(_accelerators_of_both(*halves) <= pairs.inputs.domain, dtype=np.float64)
    columns = [np.asarray(getattr(half, name)) for half in halves for name in SIZES if name != "replicas" or bursts]
    if pairs.decode.straddles is not None:
        columns.append(pairs.decode.straddles)
    first, which = distinct([*columns, near, *numbered_factors(pairs.decode)])
    names = ("prompt", "transfer", "steps", "most", "held")
    parts: dict[str, Any] = {name: rows_of(getattr(pairs, name), first, len(pairs.decode)) for name in names}
    return replace(pairs, prefill=halves[0].at(first), decode=halves[1].at(first), **parts), which


def _accelerators_of_both(prefill: PlanColumns, decode: PlanColumns) -> Rows:
    return np.asarray(prefill.replicas * prefill.ranks + decode.replicas * decode.ranks)


def _cheapest_rates(pairs: InstancePairs) -> list[Rows]:
    """Requests per second of a prefill and a decode instance, where both together need the fewest accelerators."""
    wanted = float(wanted_rate(pairs.inputs))
    links = pairs.transfer
    passed = np.minimum(1 / np.asarray(pairs.prompt.full), np.asarray(links.sent))
    decoded = np.minimum(np.asarray(pairs.decoded(pairs.most)), np.asarray(links.received))

    def over(prompts: Rows, answers: Rows, many: Rows) -> Rows:
        """How far instances at these numbers of requests exceed a limit; 1 is just met."""
        least = np.minimum(passed / prompts, decoded / answers)
        held = {**pairs.held, "saturation_per_s": least}

        def seen_at_load(factor: Rows) -> SeenApart:
            """Latencies if the load is larger by a factor."""
            busier = pairs.in_flight_of_one(np.minimum(factor * answers, decoded))
            return pairs.seen_at(factor * prompts, busier)

        seen = pairs.seen_at(prompts, many)
        return np.asarray(np.maximum(pairs.over(seen, np.ones(len(least)), held, seen_at_load), 1 / least))

    idle = np.full(len(pairs.decode), FEWEST_PER_S)
    highest = pairs.kept(decoded, lambda rate: over(idle, rate, pairs.in_flight_of_one(rate)))
    fewest = np.ceil(wanted / highest)
    best = [np.zeros(len(idle)), np.zeros(len(idle))]
    least = np.full(len(idle), np.inf)
    for more in range(MORE):
        each = wanted / (fewest + more)
        many = pairs.in_flight_of_one(np.minimum(each, decoded))
        prompts = pairs.kept(passed, partial(over, answers=each, many=many))
        gpus = np.ceil(wanted / prompts) * pairs.prefill.ranks + (fewest + more) * pairs.decode.ranks
        fewer = np.asarray(gpus < least)
        best = [np.where(fewer, *both) for both in zip((prompts, each * (1 + _SAME)), best, strict=True)]
        least = np.where(fewer, gpus, least)
    full = (passed, decoded)
    return [np.where(rate < _IDLE * most, 0.0, rate) for rate, most in zip(best, full, strict=True)]


def _on_other_links(pairs: InstancePairs, first: Number, second: Number) -> tuple[Rows, InstancePairs] | None:
    """Plans whose number of instances changes the links in use, evaluated on those links."""
    prefill, decode = (
        _with_instances(layout, count) for layout, count in ((pairs.prefill, first), (pairs.decode, second))
    )
    now, then = _accelerators_of_both(pairs.prefill, pairs.decode), _accelerators_of_both(prefill, decode)
    domain = np.asarray(pairs.inputs.domain)
    crossed = np.asarray((now <= domain) != (then <= domain))
    if not crossed.any():
        return None
    links = bare_transfer(cache_transfer(pairs.inputs, prefill, decode, pairs.prompt.own))
    return crossed, replace(pairs, transfer=links)


def _with_instances(layout: PlanColumns, count: Number) -> PlanColumns:
    return replace(layout, replicas=np.broadcast_to(np.asarray(count, dtype=np.float64), len(layout)))
