"""Evaluates plans with separate prefill and decode to columns of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.estimate.serving.apart_columns import ApartRates, SeenApart, apart_columns
from costmodel.estimate.serving.cached_prompts import cached_cost_apart
from costmodel.estimate.serving.engine_memory import EngineMemoryUse, memory_use
from costmodel.estimate.serving.evaluate_layouts import evaluate
from costmodel.estimate.serving.instances import (
    CacheTransfer,
    PromptTime,
    cache_transfer,
    first_token,
    prompt_time,
)
from costmodel.estimate.serving.limits_chance import OWN, Reached, limits_chance
from costmodel.estimate.serving.load import LEAST
from costmodel.estimate.serving.operating_point import ExactSteps, Steps, micro_batch
from costmodel.estimate.serving.plan_columns import SIZES, PlanColumns, Rows
from costmodel.estimate.serving.service_limits import over_limits, service_limits
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.step_factor import ARRIVING, LOADED, NEAR_ENOUGH, USERS, load_factor
from costmodel.estimate.serving.step_table import step_table
from costmodel.estimate.shared.limits import stated_limits
from costmodel.estimate.shared.results import Costs
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.record import record
from costmodel.ground.solvers import NEAR, last_within

BINDING = ("prefill", "cache", "sequences", "transfer")
SMALL_BUDGETS = (512.0, 2048.0)  # of replicas that do both, beside their own
FEWEST_PER_S = 1e-9  # requests a second of the emptiest plan that is looked at


@record
class ApartEvaluation:
    """Results of plans whose prefill and decode are apart, with what they came from."""

    prefill: PlanColumns
    decode: PlanColumns
    results: Costs
    prefill_memory: EngineMemoryUse
    decode_memory: EngineMemoryUse
    transfer: CacheTransfer
    in_flight: Number  # of a decode instance
    mean_step: Number
    most: Rows  # requests a second that each kind of instance, or the links between them, can pass
    overloaded: NDArray[np.bool_]

    @property
    def layout(self) -> PlanColumns:
        """The instances that generate."""
        return self.decode

    @property
    def memory(self) -> EngineMemoryUse:
        """Of an instance that generates."""
        return self.decode_memory

    def binding(self, row: int = 0) -> str:
        """What binds at saturation: prefill, the cache or sequences of decode, or the links between."""
        return BINDING[int(np.argmin(self.most[:, row]))]

    def overloads(self) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Rows on which more arrives than they can answer, by the reason."""
        full = np.argmin(self.most, axis=0) == BINDING.index("cache")
        yield "S003", self.overloaded & full
        yield "S005", self.overloaded & ~full


@dataclass(frozen=True, eq=False)
class _Pair:
    """Prefill and decode instances with what their rates and times need."""

    inputs: ServingInputs
    prefill: PlanColumns
    decode: PlanColumns
    prompt: PromptTime
    transfer: CacheTransfer
    steps: Steps
    most: Rows  # sequences in flight of a decode instance at most

    def step(self, many: Number) -> Number:
        return self.steps.decode(micro_batch(self.decode, many))

    def in_flight(self, rate: Number) -> Rows:
        """Sequences of a decode instance that keep a rate of the whole plan, as many as the bounds allow."""
        each = np.asarray(rate / self.decode.replicas, dtype=np.float64)
        with untraced(), np.errstate(all="ignore"):
            found = last_within(
                lambda log: np.log(self.decoded(np.exp(log)) / each),
                np.full(len(self.decode), np.log(LEAST)),
                np.log(self.most),
            )
        return np.exp(found)

    def decoded(self, many: Number) -> Number:
        """Requests a second that one decode instance answers with so many in flight."""
        return rate_of(many, self.inputs.load.steps * self.step(many))

    def seen(self, rate: Number, many: Number) -> SeenApart:
        step, load = self.step(many), self.inputs.load
        tpot = load.per_token(step)
        with term("of an instance"):
            arriving = rate / self.prefill.replicas
        first = first_token(load, self.prefill.budget, self.prompt, arriving, self.transfer, step)
        with term("latency"):
            latency = first.mean + (load.output - 1.0) * tpot
        return SeenApart(first.mean, first.p99, tpot, step, latency, first.busy)


def evaluate_apart(inputs: ServingInputs, prefill: PlanColumns, decode: PlanColumns) -> ApartEvaluation:
    """Memory, times, rates and cost of every pair of layouts under the scenario's load."""
    memories = memory_use(inputs, prefill), memory_use(inputs, decode)
    with term("prompt"):
        prompt = prompt_time(inputs, prefill)
    transfer = cache_transfer(inputs, prefill, decode, prompt.own)
    rows = (len(decode),)
    cache, sequences = (
        np.broadcast_to(np.asarray(each, dtype=np.float64), rows)
        for each in (memories[1].requests_steady, decode.dp_attention * inputs.sequences)
    )
    bound = np.maximum(np.minimum(cache, sequences), LEAST)
    exact = _Pair(inputs, prefill, decode, prompt, transfer, ExactSteps(inputs, decode), bound)
    with untraced():
        quick = _quick(exact)
    each = decode.replicas * quick.decoded(bound)
    held = cache <= sequences
    passed = rate_of(prefill.replicas, prompt.full)
    most = np.stack(
        [
            np.broadcast_to(np.asarray(value, dtype=np.float64), rows)
            for value in (passed, np.where(held, each, np.inf), np.where(held, np.inf, each), transfer.most)
        ]
    )
    with term("saturation"):
        top = np.minimum(np.minimum(passed, transfer.most), decode.replicas * exact.decoded(bound))
    rate = _rate(quick, top)
    within = _within(quick, top, {"saturation_per_s": top, "concurrency_worst": memories[1].requests_worst})
    arriving = inputs.case.scenario.workload.rate
    over = np.asarray(rate < (arriving or 0.0) * (1 - 1e-9))
    many = quick.in_flight(rate)
    step = ExactSteps(inputs, decode).breakdown(micro_batch(decode, many))
    rates = ApartRates(rate, top, within, passed, each)
    columns = apart_columns(inputs, (prefill, decode), memories, step, transfer, exact.seen(rate, many), rates)
    columns["cost_per_mcached"] = cached_cost_apart(inputs, prefill, prompt.gamma)
    with np.errstate(divide="ignore", invalid="ignore"):  # replicas that keep no limits
        columns["disaggregation_gain"] = share(within, together(inputs, prefill, decode))
    columns[OWN] = _chance(quick, top, columns)
    found = Costs(columns, len(decode))
    return ApartEvaluation(prefill, decode, found, *memories, transfer, many, step.total, most, over)


def together(inputs: ServingInputs, prefill: PlanColumns, decode: PlanColumns) -> Rows:
    """Requests a second within the limits of the best replicas that do both on as many GPUs: in either's layout, with
    its budget or a smaller one, which shortens gaps.
    """
    with untraced(), np.errstate(all="ignore"):
        gpus = np.asarray(prefill.replicas * prefill.ranks + decode.replicas * decode.ranks, dtype=np.float64)
        found = [np.floor(gpus / np.asarray(each.ranks)) * _of_one(inputs, each) for each in (prefill, decode)]
    return np.asarray(np.maximum(found[0], found[1]))


def _of_one(inputs: ServingInputs, layout: PlanColumns) -> Rows:
    """Requests a second within the limits of one replica that does both."""
    names = ("tp", "ep", "dp_attention", "budget", "redundant_experts", "dcp")
    shapes = np.stack([np.asarray(getattr(layout, name), dtype=np.float64).view(np.ndarray) for name in names])
    unique, which = np.unique(shapes, axis=1, return_inverse=True)
    one = np.ones(unique.shape[1])
    best = np.zeros(unique.shape[1])
    for budget in (*SMALL_BUDGETS, np.inf):
        held = np.minimum(unique[3], budget)
        tp, ep, groups, _, copies, dcp = unique
        found = evaluate(inputs, PlanColumns(tp, one, ep, groups, one, held, copies, dcp)).results
        fits = found.column("memory_share") <= 1
        best = np.where(fits, np.maximum(best, found.column("rate_within_slo_per_s")), best)
    return np.asarray(best)[which.reshape(-1)]


def _quick(pair: _Pair) -> _Pair:
    """The same with steps out of a table, and columns that no trace follows."""

    def bare(value: Number) -> Number:
        return np.asarray(value, dtype=np.float64).view(np.ndarray)

    layouts = [
        PlanColumns(*(np.asarray(getattr(layout, name)).view(np.ndarray) for name in SIZES))
        for layout in (pair.prefill, pair.decode)
    ]
    prompt = PromptTime(*(bare(getattr(pair.prompt, name)) for name in pair.prompt.__dataclass_fields__))
    transfer = CacheTransfer(*(bare(getattr(pair.transfer, name)) for name in pair.transfer.__dataclass_fields__))
    return replace(
        pair,
        prefill=layouts[0],
        decode=layouts[1],
        prompt=prompt,
        transfer=transfer,
        steps=step_table(pair.inputs, layouts[1]),
    )


def _rate(pair: _Pair, top: Number) -> Number:
    """Requests a second of the whole plan under the scenario's load, as many as it answers."""
    workload = pair.inputs.case.scenario.workload
    if workload.rate is not None:
        return np.minimum(workload.rate, top)
    waiting = float(workload.concurrency or workload.users or 0.0)
    thinking = float(workload.think_time or 0.0)

    def busy(rate: Rows) -> Number:
        return share(rate * (thinking + pair.seen(rate, pair.in_flight(rate)).latency), waiting)

    return _greatest(pair, top, busy)


def _within(pair: _Pair, top: Number, most: Mapping[str, Number]) -> Number:
    """Requests a second up to which the service-level limits hold; 0 where none does.

    `most` are results at saturation that do not depend on the load.
    """
    limits = service_limits(pair.inputs)
    if not limits:
        return top

    def over(rate: Rows) -> Number:
        seen = pair.seen(rate, pair.in_flight(rate))

        def named(name: str) -> Number:
            if name == OWN:
                return limits_chance(pair.inputs, limits, named, share(top, rate), _reach(pair, top, {ARRIVING: rate}))
            return most[name] if name in most else _result(seen, name)

        return over_limits(limits, named, len(pair.decode))

    with untraced(), np.errstate(all="ignore"):
        ever = over(np.full(len(pair.decode), FEWEST_PER_S)) <= 1
        near = NEAR_ENOUGH if any(limit.column == OWN for limit in limits) else NEAR
        return np.where(ever, _greatest(pair, top, over, near), 0.0)


def _result(seen: SeenApart, name: str) -> Number:
    found: Number = rate_of(1.0, seen.tpot) if name == "tokens_per_s_per_user" else getattr(seen, name)
    return found


def _chance(pair: _Pair, top: Number, columns: Mapping[str, Number]) -> Number:
    """The chance that plans keep every limit."""
    scenario = pair.inputs.case.scenario
    workload, held, room = scenario.workload, dict[str, Number](), None
    if workload.rate is not None:
        held[ARRIVING], room = workload.rate, share(top, workload.rate)
    elif workload.users is not None and workload.think_time:
        held[USERS] = float(workload.users)
    limits = stated_limits(scenario.limits)
    return limits_chance(pair.inputs, limits, columns.__getitem__, room, _reach(pair, top, held))


def _reach(pair: _Pair, top: Number, held: dict[str, Number]) -> Callable[[str, float], Reached | None]:
    """Where results reach bounds, by the factor on all step times."""

    def reached(column: str, bound: float) -> Reached | None:
        if column not in LOADED or not held:
            return None
        falls = column == "tokens_per_s_per_user"

        def grown(rate: Rows) -> tuple[Number, Number]:
            seen = pair.seen(rate, pair.in_flight(rate))
            factor = load_factor(pair.inputs, held, rate, seen.latency)
            value = _result(seen, column)
            return factor, share(value, factor) if falls else value * factor

        def over(rate: Rows) -> Number:
            value = grown(rate)[1]
            return share(bound, value) if falls else share(value, bound)

        with untraced(), np.errstate(all="ignore"):
            return Reached(*(np.asarray(each) for each in grown(_greatest(pair, top, over, NEAR_ENOUGH))))

    return reached


def _greatest(pair: _Pair, top: Number, over: Callable[[Rows], Number], near: float = NEAR) -> Rows:
    """Greatest rate, up to what the plan answers, at which something is not over 1."""
    with untraced(), np.errstate(all="ignore"):
        highest = np.log(np.maximum(np.broadcast_to(np.asarray(top, dtype=np.float64), len(pair.decode)), FEWEST_PER_S))
        least = np.full(len(pair.decode), np.log(FEWEST_PER_S))
        return np.exp(last_within(lambda log: np.log(over(np.exp(log))), least, highest, near=near))
