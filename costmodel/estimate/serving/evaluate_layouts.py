"""Evaluates a serving scenario and columns of plans to columns of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share, token_cost
from costmodel.equations.serving.cache_pool import residency_time
from costmodel.equations.serving.engine_step import speculation_speedup
from costmodel.equations.serving.serving_economics import output_cost, prompt_cost
from costmodel.equations.serving.steady_state import interference_share
from costmodel.estimate.machine.price import price_per_accelerator
from costmodel.estimate.serving.closed_loop import (
    OfflineBatch,
    closed_loop,
    offline_batch,
    offline_state,
    with_slot_wait,
)
from costmodel.estimate.serving.conversation_cache import (
    cached_cost,
    cached_prompt_tokens,
    results_by_cache_place,
    results_with_prefix_cache,
    shared_tokens,
    with_conversation_hits,
)
from costmodel.estimate.serving.engine_memory import EngineMemoryUse, memory_columns
from costmodel.estimate.serving.engine_step import StepTime
from costmodel.estimate.serving.host_loading import host_columns
from costmodel.estimate.serving.load import (
    BINDING,
    COMPUTE_BOUND,
    OF_RATE_WITHIN,
    Bounds,
    Column,
    Engines,
    cap_binds,
    in_flight,
    loads_under_cap,
    most_requests_held,
    per_replica,
    results_under_cap,
    with_preemption,
)
from costmodel.estimate.serving.measured_spreads import endless
from costmodel.estimate.serving.operating_point import (
    FEWEST,
    ExactSteps,
    OperatingPoint,
    Steps,
    micro_batch,
    operating_point,
    worst_gap,
)
from costmodel.estimate.serving.plan_columns import PlanColumns, where_rows, with_straddling
from costmodel.estimate.serving.replica_capacity import ReplicaCapacity, capacity_of, chance_of_limits
from costmodel.estimate.serving.replicas_for_load import (
    busy_share,
    energy_per_token,
    rent_columns,
    rent_needed,
    replicas_for_load,
)
from costmodel.estimate.serving.service_limits import OWN, columns_in_time
from costmodel.estimate.serving.serving_inputs import ServingInputs, without_speculation
from costmodel.estimate.serving.steady_state import SteadyState, prompts_between, replica_rate, steady_state, token_p99
from costmodel.estimate.serving.step_table import step_table
from costmodel.estimate.shared.results import Costs, stated_limits
from costmodel.ground.equation import Number, leaf, term, untraced
from costmodel.ground.record import record
from costmodel.ground.solvers import last_within

BLOCKED = 0.01  # share of the time in which a prompt waits for answers, from which on it is remarked
OF_HALVES = (  # results of plans whose prefill and decode are apart
    "transfer_time",
    "transfer_exposed",
    "prefill_utilisation",
    "prefill_needed",
    "decode_needed",
    "prefill_per_decode",
    "disaggregation_gain",
)


@record
class ServingEvaluation:
    """Results of plans, with the memory, the operating point and the steady state behind them."""

    layout: PlanColumns
    results: Costs
    memory: EngineMemoryUse
    bounds: Bounds
    point: OperatingPoint
    state: SteadyState
    most: SteadyState  # at saturation
    overloaded: NDArray[np.bool_]

    @property
    def in_flight(self) -> Number:
        """Sequences in flight on a replica."""
        return self.point.concurrency

    @property
    def blocked(self) -> bool:
        """Whether prompts that wait for others to end take over 1 % of the time."""
        return self.point.blocking.occur and bool(np.any(self.point.blocking.busy_share(self.state.rate) > BLOCKED))

    def binding(self, row: int = 0) -> str:
        """What limits the rate of one plan: token budget, KV cache, sequence limit, or compute."""
        busy = float(np.broadcast_to(np.asarray(self.most.utilisation), (len(self.layout),))[row])
        named = BINDING[int(self.bounds.binding(slice(row, row + 1))[0])]
        return "compute" if named == "budget" and busy >= COMPUTE_BOUND else named

    def overloads(self) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Masks of the rows that get more requests than they can answer, by reason code."""
        if not np.any(self.overloaded):
            return
        which, busy = self.bounds.binding(), np.asarray(self.most.utilisation)
        yield "S003", self.overloaded & (which == 1)
        yield "S004", self.overloaded & (which == 0) & ~(busy >= COMPUTE_BOUND)
        yield "S005", self.overloaded & ((which >= 2) | ((which == 0) & (busy >= COMPUTE_BOUND)))


def evaluate(
    inputs: ServingInputs, layout: PlanColumns, capacity: ReplicaCapacity | None = None, *, counted: bool = True
) -> ServingEvaluation:
    """Memory, times, rates and cost of every plan under the scenario's load.

    capacity: of the plans' replicas, if several loads are evaluated
    counted: whether replicas for conversations are counted with the cache hits on that many replicas, which is slow;
        else with the cache hits on the plan's own replicas, which shows whether these are enough
    """
    (layout,) = with_straddling(inputs, layout)
    loads = loads_under_cap(inputs)
    if loads is not None:
        rated, looped = (evaluate(each, layout, counted=counted) for each in loads)
        found = where_rows(cap_binds(inputs, looped.results), looped, rated)
        return replace(found, results=results_under_cap(inputs, rated.results, looped.results))
    if not inputs.depends_on_count and not inputs.beginnings:
        return _at_load(inputs, layout, capacity)
    found = _evaluated_with_hits(inputs, layout, capacity)
    if inputs.case.scenario.workload.rate is None or not (counted and inputs.is_limited and inputs.depends_on_count):
        return found
    columns = found.results.columns | _replicas_with_hits(inputs, found)
    return replace(found, results=replace(found.results, columns=columns))


def under_limits(inputs: ServingInputs, known: ServingEvaluation, *, counted: bool = True) -> ServingEvaluation:
    """The evaluation of plans that are known under other limits: rates within limits, and what follows from them."""
    layout, bounded = known.layout, {limit.column for limit in stated_limits(inputs.case.scenario.limits)}
    follows = inputs.depends_on_count or inputs.beginnings or loads_under_cap(inputs) is not None
    if follows or not bounded.isdisjoint(OF_RATE_WITHIN):
        return evaluate(inputs, layout, counted=counted)
    each = capacity_of(inputs, layout)
    within = each.kinds.of_plans(each.within_limits(inputs))
    columns = {"rate_within_slo_per_s": layout.replicas * within, **_columns_within_limits(inputs, layout, within)}
    return replace(known, results=replace(known.results, columns=known.results.columns | columns))


def _evaluated_with_hits(
    inputs: ServingInputs, layout: PlanColumns, capacity: ReplicaCapacity | None = None
) -> ServingEvaluation:
    """The evaluation where turns find the cached conversations or prefixes that so many replicas still have."""
    if inputs.beginnings:
        return results_with_prefix_cache(inputs, layout, _at_load)
    if not np.any(inputs.load.history):
        return _at_load(inputs, layout, capacity)
    return results_by_cache_place(inputs, layout, _at_load, lambda found, stays: _evicted(inputs, found, stays))


def _replicas_with_hits(inputs: ServingInputs, evaluation: ServingEvaluation) -> dict[str, Number]:
    """Replicas needed if cache hits depend on their number; infinite if a replica does not fit in memory."""
    layout, within = evaluation.layout, np.zeros(len(evaluation.layout))
    fits = evaluation.results.column("memory_share") <= 1

    def needed(places: Places, counts: Values) -> tuple[Values, NDArray[np.bool_]]:
        """For plans with these numbers of replicas: the replicas needed at their rate, and whether to look again."""
        found = _evaluated_with_hits(inputs, replace(layout.at(places), replicas=counts)).results
        each = found.column("rate_within_slo_per_s") / counts
        count = np.asarray(replicas_for_load(inputs, each))
        within[places] = np.where(count <= counts, each, within[places])
        late = np.zeros(len(counts), dtype=bool)
        if np.any(inputs.load.history):
            late = (
                found.column("prefix_hit") * inputs.load.prompt < np.asarray(cached_prompt_tokens(inputs, counts)) - 0.5
            )
        return count, late

    with untraced(), np.errstate(all="ignore"):
        bare = layout.bare()
        lone = with_conversation_hits(inputs, 1.0) if np.any(inputs.load.history) else inputs
        lone = replace(lone, gaps=min(inputs.gaps, 1.0))  # the fewest bursts that any number has
        if inputs.beginnings:
            lone = replace(lone, load=replace(lone.load, hit=shared_tokens(inputs)))  # all of them
        alone = capacity_of(lone, bare)
        most = alone.kinds.of_plans(alone.within_limits(lone))
        count = enough_replicas(np.where(fits, replicas_for_load(inputs, most), np.inf), needed)
    with term("by what turns find on so many"):
        replicas = np.maximum(replicas_for_load(inputs, within), count)
    return _fleet_columns(inputs, replicas, layout)


def _fleet_columns(inputs: ServingInputs, replicas: Number, layout: PlanColumns) -> dict[str, Number]:
    """Result columns for the replicas that a load needs, with their accelerators and rent."""
    gpus = replicas * layout.ranks
    return {"replicas_needed": replicas, "gpus_needed": gpus, "rent_needed": rent_needed(inputs, gpus)}


def _evicted(inputs: ServingInputs, found: ServingEvaluation, stays: str) -> NDArray[np.bool_]:
    """Mask of plans that evict a conversation's cache before its next turn; `stays`: the time for which it is kept."""
    thinking = float(inputs.case.scenario.workload.think_time or 0.0)
    latency = found.results.column("latency")
    answered = inputs.load.output * found.results.column("tpot")  # of what gets a slot, where the line has no end
    back = thinking + np.where(np.isfinite(latency), latency, answered)
    return np.asarray(found.results.column(stays) < back)


def _at_load(inputs: ServingInputs, layout: PlanColumns, capacity: ReplicaCapacity | None = None) -> ServingEvaluation:
    """The results of every plan at the scenario's load: memory, steps, steady state and bounds."""
    columns, quick, parts = _results_before_chance(inputs, layout, capacity)
    columns[OWN] = chance_of_limits(quick, columns)
    memory, bounds, point, state, most = parts
    over = _is_overloaded(inputs, layout, most)
    columns |= endless(columns, over)
    found = Costs(columns | columns_in_time(inputs, columns), len(layout))
    return ServingEvaluation(layout, found, memory, bounds, point, state, most, over)


def chance_alone(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """The chance of plans at a rate to meet every limit; a trace has its own steps, and not those of results."""
    with untraced():
        columns, quick, _ = _results_before_chance(inputs, layout, None)
    return chance_of_limits(quick, {name: leaf(value, name) for name, value in columns.items()})


def _results_before_chance(
    inputs: ServingInputs, layout: PlanColumns, capacity: ReplicaCapacity | None
) -> tuple[dict[str, Number], Engines, tuple[EngineMemoryUse, Bounds, OperatingPoint, SteadyState, SteadyState]]:
    """The results of every plan ahead of its chance to meet limits, and what they follow from."""
    each = capacity_of(inputs, layout) if capacity is None else capacity
    of_plans = each.kinds.of_plans
    memory, bounds, most = of_plans((each.memory, each.engines.bounds, each.most))
    within = of_plans(each.within_limits(inputs)) if inputs.is_limited else np.full(len(layout), np.nan)
    steps = of_plans(each.quick.steps)
    exact = ExactSteps(inputs, layout, of_plans(each.exact.one))
    quick = Engines(inputs, layout.bare(), steps, bounds)
    many = in_flight(quick)
    with term("decode"):
        decode = exact.breakdown(micro_batch(layout, many))
    point = operating_point(inputs, layout, many, exact, decode.total)
    fixed = inputs.case.scenario.workload.at_once
    crowded = inputs if fixed is None else with_preemption(inputs, bounds, per_replica(inputs, layout, float(fixed)))
    batch = offline_batch(crowded, layout, point, exact)
    state = _steady_state(crowded, layout, point, (most.rate, bounds), batch)
    columns = _latency_columns(inputs, layout, _decode_step_at_load(exact, many, decode), state)
    with term("worst gap"):
        longest = worst_gap(inputs, layout, point, exact, most_requests_held(inputs, layout, bounds.request_slots))
        columns["worst_gap"] = np.maximum(longest, state.tpot)
    columns["tpot_p99"] = token_p99(inputs, layout, point, exact, (state, columns["worst_gap"]))
    columns |= {
        "saturation_per_s": layout.replicas * most.rate,
        "saturation_share": share(state.rate, most.rate),
        "rate_within_slo_per_s": layout.replicas * within,
    }
    columns |= {"makespan": batch.makespan, "tail_share": batch.tail_share}
    columns |= _columns_within_limits(inputs, layout, within) | memory_columns(inputs, layout, memory)
    columns["prefix_residency"] = _prefix_residency(inputs, memory.tokens, state)
    columns |= host_columns(inputs, layout, memory, point.host, point.whole, state.rate)
    columns |= _cost_columns(inputs, layout, point, state, batch) | dict.fromkeys(OF_HALVES, np.nan)
    columns |= rent_columns(inputs, columns["gpus"], batch.makespan)
    columns["energy_per_token"] = energy_per_token(inputs, busy_share(inputs, columns), columns)
    columns |= speculation_columns(inputs, layout, quick.steps, bounds, state.tpot)
    return columns, quick, (memory, bounds, point, state, most)


def _decode_step_at_load(exact: ExactSteps, many: Number, decode: StepTime) -> StepTime:
    """The decode step at the plan's load; that of a single sequence if no more are in flight."""
    own = np.maximum(many / exact.layout.pp, 1.0)
    return decode if np.all(np.asarray(own) >= FEWEST) else exact.breakdown(own)


def _steady_state(
    inputs: ServingInputs,
    layout: PlanColumns,
    point: OperatingPoint,
    most: tuple[Number, Bounds],
    batch: OfflineBatch,
) -> SteadyState:
    """The steady state under the scenario's kind of load; `most`: saturation rate, and bounds in flight."""
    workload = inputs.case.scenario.workload
    if workload.rate is not None:
        with term("of a replica"):
            arriving = workload.rate / layout.replicas
        return steady_state(inputs, point, np.minimum(arriving, most[0]), most[1].request_slots)
    if workload.users is not None:
        found = steady_state(inputs, point, replica_rate(inputs, point), most[1].request_slots)
        return with_slot_wait(inputs, found, per_replica(inputs, layout, float(workload.users)))
    if workload.requests is not None:
        return offline_state(inputs, layout, point, batch)
    assert workload.concurrency is not None
    users = per_replica(inputs, layout, workload.concurrency)
    return closed_loop(inputs, layout, point, users, most[1].admitted, burst=workload.traffic == "burst")


def _is_overloaded(inputs: ServingInputs, layout: PlanColumns, most: SteadyState) -> NDArray[np.bool_]:
    """Plans that get more requests than they can answer; in a closed loop none."""
    arriving = inputs.case.scenario.workload.rate
    if arriving is None:
        return np.zeros(len(layout), dtype=bool)
    return np.asarray(per_replica(inputs, layout, arriving) > most.rate)


def _latency_columns(
    inputs: ServingInputs, layout: PlanColumns, decode: StepTime, state: SteadyState
) -> dict[str, Number]:
    """Latencies of a request, time per token by category, and throughput of all replicas."""
    load = inputs.load
    rate = layout.replicas * state.rate
    with term("latency"):
        rest = (load.longest_answer - 1.0) * state.tpot if state.answer is None else state.answer
        latency = state.ttft + rest
    output = load.generated * rate
    gpus = layout.replicas * layout.ranks
    decode = decode if load.verified == 1 else decode.times(1.0 / load.accepted)
    return {
        "ttft": state.ttft,
        "ttft_p99": state.ttft_p99,
        "tpot": state.tpot,
        "latency": latency,
        "requests_per_s": rate,
        "output_tokens_per_s": output,
        "total_tokens_per_s": (load.generated + load.prompt) * rate,
        "tokens_per_s_per_user": rate_of(1.0, state.tpot),
        "tokens_per_s_per_gpu": output / gpus,
        "concurrency": state.in_flight,
        "replicas": layout.replicas,
        "gpus": gpus,
        "interference_share": np.maximum(interference_share(decode.total, state.tpot), 0.0),
        "prefix_hit": share(load.hit, load.prompt),
        "matmul": decode.matmul,
        "attention": decode.attention,
        "memory_bound": decode.memory_bound,
        "tp_exposed": decode.tp,
        "ep_exposed": decode.ep,
        "dcp_exposed": decode.dcp,
        "pp_exposed": decode.pp,
        "host_time": decode.host,
        "draft_time": decode.draft,
        "prompts_between": prompts_between(state.tpot, decode.total),
    }


def _columns_within_limits(inputs: ServingInputs, layout: PlanColumns, within: Number) -> dict[str, Number]:
    """Tokens and cost at the rate within limits, and the replicas that the load needs."""
    load, price = inputs.load, price_per_accelerator(inputs.case)
    with term("within limits"):
        tokens = load.generated * within
    with np.errstate(divide="ignore"):
        cost = token_cost(1e6, layout.ranks, price, tokens)
    found: dict[str, Number] = {
        "tokens_per_gpu_within_limits": tokens / layout.ranks,
        "cost_within_limits": cost,
    }
    return found | _fleet_columns(inputs, replicas_for_load(inputs, within), layout)


def _prefix_residency(inputs: ServingInputs, tokens: Number, state: SteadyState) -> Number:
    """Seconds that an unused prefix stays in the KV cache."""
    with term("new tokens"):
        added = inputs.load.computed + inputs.load.generated
    with np.errstate(divide="ignore", invalid="ignore"):
        return residency_time(tokens, state.rate, added)


def cost_at_price(inputs: ServingInputs, found: ServingEvaluation) -> dict[str, Number]:
    """Rent per million tokens at the price of `inputs`, for an evaluation of the same load, a rate, at another one."""
    return _cost_columns(inputs, found.layout, found.point, found.state, None)


def _cost_columns(
    inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, state: SteadyState, batch: OfflineBatch | None
) -> dict[str, Number]:
    """Rent per million tokens at this load, with idle time; in a batch, with its tail."""
    load, price, ranks = inputs.load, price_per_accelerator(inputs.case), layout.ranks
    output = load.generated * state.rate
    every = token_cost(1e6, ranks, price, output)
    tail = batch if inputs.case.scenario.workload.requests is not None else None
    prompt_token = point.gamma if tail is None else tail.prompt_token
    prompts = share(load.computed, load.prompt) * prompt_cost(1e6, ranks, price, prompt_token)
    answers = load.per_token(output_cost(1e6, ranks, price, point.alpha, point.beta, point.concurrency))
    if tail is not None:
        with term("with the tail"):
            longer = share(tail.makespan, tail.full)
            prompts, answers = longer * prompts, longer * answers
    cached = cached_cost(inputs, layout, point)
    return {
        "cost_per_minput": prompts,
        "cost_per_moutput": answers,
        "cost_per_mtoken": every,
        "cost_per_mcached": cached,
    }


def speculation_columns(
    inputs: ServingInputs, layout: PlanColumns, steps: Steps, bounds: Bounds, tpot: Number
) -> dict[str, Number]:
    """Accepted tokens per step, speedup by speculation, and its break-even; NaN without speculation."""
    if inputs.draft is None and inputs.load.verified == 1:
        return {"accepted_tokens": 1.0, "speculation_gain": np.nan, "speculation_break_even": np.nan}
    with untraced():
        plain = evaluate(without_speculation(inputs), layout)
        before = np.asarray(plain.results.column("tpot"), dtype=np.float64)
        most = _break_even(inputs, layout, steps, bounds)
    return {
        "accepted_tokens": inputs.load.accepted,
        "speculation_gain": share(before, tpot),
        "speculation_break_even": most,
    }


def _break_even(inputs: ServingInputs, layout: PlanColumns, steps: Steps, bounds: Bounds) -> Column:
    """Sequences in flight above which speculation slows down tokens; 0 if it always does, infinite if it never does."""
    without = step_table(without_speculation(inputs), layout)

    def added_time(many: Column) -> Column:
        """The negative logarithm of the speedup by speculation at this number of sequences in flight."""
        micro = micro_batch(layout, many)
        verified = share(steps.decode(micro), without.decode(micro))  # its drafts too
        speedup = speculation_speedup(inputs.load.accepted, verified, inputs.load.verified - 1.0, 0.0)
        return -np.log(np.asarray(speedup, dtype=np.float64))

    most = np.maximum(np.broadcast_to(bounds.sequences, (len(layout),)), 1.0)
    with np.errstate(all="ignore"):
        found = np.exp(last_within(lambda log: added_time(np.exp(log)), np.zeros(len(layout)), np.log(most)))
    ever = added_time(np.ones(len(layout))) <= 0
    always = added_time(most) <= 0
    return np.where(always, np.inf, np.where(ever, found, 0.0))


# --- replicas that conversations need: with more of them a turn finds less in the cache


Values: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]

_ROUNDS = 40  # halvings: enough for any count up to a million million
_HOPELESS = 3  # replicas that are added where none seem to be enough


def enough_replicas(least: Values, needed: Callable[[Places, Values], tuple[Values, NDArray[np.bool_]]]) -> Values:
    """The fewest replicas that are enough, if the need depends on their number; infinite if none are.

    Args:
        least: replicas that the rate needs where every turn finds its conversation
        needed: those that rows need by what turns find on so many; and whether turns come too late to find it, which
            more replicas may change. Else more replicas never need fewer.

    >>> hits = lambda rows, counts: (np.ceil(4.0 - 2.0 / counts), counts < 0)  # 2 with all hits, 4 without
    >>> enough_replicas(np.array([2.0]), hits).tolist()
    [4.0]
    """
    counts = np.maximum(least, 1.0)
    below = counts - 1.0  # too few
    enough, hopeless = np.full(len(least), np.inf), np.zeros(len(least))
    open_ = np.flatnonzero(np.isfinite(least))
    for _ in range(_ROUNDS):
        if not len(open_):
            break
        found, late = needed(open_, counts[open_])
        kept = found <= counts[open_]
        enough[open_[kept]] = counts[open_[kept]]
        short, more = open_[~kept], found[~kept]
        endless = ~np.isfinite(more)
        hopeless[short] += np.where(endless, np.where(late[~kept], 1.0, np.inf), 0.0)
        more = np.where(endless, counts[short] + 1.0, more)
        below[short] = np.where(late[~kept], counts[short], np.minimum(more, enough[short]) - 1.0)
        counts[short] = more
        counts = np.where(np.isfinite(enough), np.floor((below + enough) / 2.0), counts)
        open_ = open_[(enough[open_] - below[open_] > 1.0) & (hopeless[open_] <= _HOPELESS)]
    return enough
