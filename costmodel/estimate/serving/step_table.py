"""Tabulated step times, for search and bisection, which look them up thousands of times.

Everything but attention and the head takes its time by the rows of a step alone, attention in proportion to sequences
and to tokens. So a table over rows for each way of cutting the model gives any step to a few parts in ten thousand.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.results import SERVING_RESULTS
from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.estimate.serving.engine_step import (
    AttentionGroups,
    Launches,
    StepTime,
    context_time,
    decode_time,
    groups_of,
    head_time,
    host_time,
    launch_wait,
    launches_of,
    own_all_reduce_rows,
    prompt_time,
    time_by_rows,
)
from costmodel.estimate.serving.expert_step import is_dispatched, runs_in_halves
from costmodel.estimate.serving.load import LEAST, POINTS, Column, Engines
from costmodel.estimate.serving.operating_point import context_of
from costmodel.estimate.serving.plan_columns import PlanColumns, cuts_of, distinct, longer
from costmodel.estimate.serving.service_limits import (
    IN_TIME,
    Reached,
    RequestLimits,
    in_time,
    request_limits,
    with_longer_times,
)
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.steady_state import SteadyState, prompts_between, token_p99
from costmodel.estimate.shared.results import stated_limits
from costmodel.ground.equation import Number, untraced
from costmodel.ground.record import record
from costmodel.ground.solvers import Curves, Jumps, Line, Places, closer_to_end, last_within

LARGEST = 262_144.0  # rows of a step
BESIDE = 1e-9  # of a number of rows, by which others are more, or fewer
PROMPT = 1024.0  # tokens at which the proportion of prompt attention is taken


@record
class RowTimes:
    """Times by rows of a step: rows of all attention groups, and of the busiest group."""

    every: Curves  # where all rows are of one group
    own: Curves | None = None  # of that, what depends on the rows of the busiest; None where no plan has several groups

    def beside(self, times: Curves) -> RowTimes:
        """These times plus times that depend only on the rows of the busiest group."""
        return RowTimes(self.every + times, None if self.own is None else self.own + times)

    def at(self, rows: Number, own: Number) -> Number:
        """Seconds for `rows` token rows, `own` of them in the busiest group."""
        found = self.every.at(rows)
        return found if self.own is None else found + (self.own.at(own) - self.own.at(rows))


@record
class OtherHalf:
    """All-to-all of one half of a batch, and the compute of the other half that hides it."""

    sent: RowTimes
    compute: RowTimes

    def hidden(self, rows: Number, own: Number, beside: Number) -> Number:
        """The part of the all-to-all that is hidden; `beside` is the time of attention and head."""
        return np.minimum(self.sent.at(rows, own), self.compute.at(rows, own) + beside)


@record
class StepTable:
    """Table of step times for each way to shard the model, and which of them each plan uses."""

    computed: Number
    prompted: RowTimes  # rows with prompts among them
    head: Curves
    drawn: RowTimes  # rows without prompts, each of which draws a token
    decoding: Line
    prompts: Line
    host: Line
    one: Number
    verified: float = 1.0
    samples: float = 1.0  # sequences of a request
    passes: float = 0.0  # of the draft
    groups: AttentionGroups | None = None
    draft: StepTable | None = None
    halves: tuple[OtherHalf, OtherHalf] | None = None  # without prompts, and with
    shared: Curves | None = None  # what latent attention exchanges for queries of sequences that decode
    launches: Launches = Launches()
    mixed_steps: bool = True  # sequences that decode share the steps of prompts
    time_factor: Number | None = None  # on its times, for the ends of bands

    def _sequences(self, requests: Number) -> Number:
        return requests if self.samples == 1 else self.samples * requests

    def _queries(self, decodes: Number) -> Number:
        return decodes if self.verified == 1 else self.verified * decodes

    def _with_host(self, device: Number, decodes: Number, launches: Number | None) -> Number:
        launched = device if launches is None else device + launch_wait(device, launches)
        return launched + self.host.at(decodes)

    def decode(self, decodes: Number) -> Number:
        """Step time of the given number of sequences."""
        return longer(self._decode(self._sequences(decodes)), self.time_factor)

    def mixed(self, decodes: Number, tokens: Number) -> Number:
        """Step time of so many sequences with so many prompt tokens."""
        return longer(self._mixed(self._sequences(decodes), tokens), self.time_factor)

    def launched(self, decodes: Number) -> Number:
        """Part of a step of so many sequences in which it waits for launches, as no graph was captured for them."""
        requests = self._sequences(decodes)
        if not self.launches.is_beyond_graphs(self._busiest(requests)):
            return 0.0
        captured = replace(self, launches=replace(self.launches, captured=np.inf))
        return longer(self._decode(requests) - captured._decode(requests), self.time_factor)

    def _busiest(self, decodes: Number) -> Number:
        return decodes if self.groups is None else self.groups.sequences(decodes)

    def _decode(self, decodes: Number) -> Number:
        """Seconds of a step that only decodes so many sequences."""
        busiest = self._busiest(decodes)
        queries, own = self._queries(decodes), self._queries(busiest)
        time: Number = self.drawn.at(queries, own) + self.decoding.at(busiest)
        if self.halves is not None:
            time = time - self.halves[0].hidden(queries, own, self.head.at(own) + self.decoding.at(busiest))
        time = self._with_host(time, decodes, self.launches.decode_launch_time(busiest))
        return time if self.draft is None else time + self.passes * self.draft.decode(decodes)

    def _alone(self, tokens: Number) -> Number:
        """Seconds of a step with prompts only."""
        part = tokens if self.groups is None else self.groups.tokens(tokens)
        beside = self.prompts.at(part) + self.head.at(share(part, self.computed))
        time: Number = self.prompted.at(tokens, part) + beside
        if self.halves is not None:
            time = time - self.halves[1].hidden(tokens, part, beside)
        time = self._with_host(time, 0.0, self.launches.prompts)
        return time if self.draft is None else time + self.draft._alone(tokens)

    def _mixed(self, decodes: Number, tokens: Number) -> Number:
        """Seconds of a step that decodes so many sequences and prefills so many prompt tokens."""
        if not self.mixed_steps:
            return self._decode(decodes) + self._alone(tokens)
        busiest, part = (
            (decodes, tokens) if self.groups is None else (self.groups.sequences(decodes), self.groups.tokens(tokens))
        )
        queries, own = self._queries(decodes), self._queries(busiest)
        beside = self.decoding.at(busiest) + self.prompts.at(part) + self.head.at(own + share(part, self.computed))
        time: Number = self.prompted.at(queries + tokens, own + part) + beside
        if self.shared is not None:
            time = time + self.shared.at(own)
        if self.halves is not None:
            time = time - self.halves[1].hidden(queries + tokens, own + part, beside)
        time = self._with_host(time, decodes, self.launches.prompts)
        if self.draft is None:
            return time
        later = (self.passes - 1.0) * self.draft.decode(decodes)
        return time + self.draft.mixed(decodes, tokens) + later


def _part_of_step(
    inputs: ServingInputs, layout: PlanColumns, rows: Number, own: Number, *, prompts: bool, compute: bool
) -> StepTime:
    """Either the compute of a step, or its all-to-all of experts."""
    step = time_by_rows(inputs, layout, rows, own, prompts=prompts)
    if compute:
        return StepTime(matmul=step.compute)
    return StepTime(ep=np.where(is_dispatched(inputs, layout), step.ep, 0.0))


@record
class _ShardingTables:
    """The distinct ways to shard the model, and the index of each plan's."""

    inputs: ServingInputs
    cuts: PlanColumns
    which: NDArray[np.intp]
    grouped: bool

    def line(self, time: Callable[[float], StepTime], step: float) -> Line:
        """A time that is linear in a count, with a fixed part."""
        one, two = (np.broadcast_to(time(count).total, len(self.cuts)) for count in (step, 2.0 * step))
        return Line.through(one, two, step, self.which)

    def curves(self, time: Callable[[ServingInputs, PlanColumns, Number], StepTime]) -> Curves:
        """A time as a curve over rows."""
        grid = Curves.points(LARGEST)
        found = np.asarray(time(self.inputs, self.cuts, grid[:, np.newaxis]).total)
        return Curves(np.ascontiguousarray(np.broadcast_to(found, (len(grid), len(self.cuts))).T), self.which)

    def jumping(self, time: Callable[[ServingInputs, PlanColumns, Number], StepTime]) -> Curves:
        """A time as a curve over rows, with a jump where messages become too large for the custom all-reduce."""
        found, most = self.curves(time), own_all_reduce_rows(self.inputs, self.cuts)
        if most is None:
            return found
        after, before = (time(self.inputs, self.cuts, most * (1.0 + side)).total for side in (BESIDE, -BESIDE))
        rise = after - before
        return found.with_jumps(Jumps(*(np.broadcast_to(each, len(self.cuts)) for each in (most, rise))))

    def of_rows(self, time: Callable[..., StepTime]) -> RowTimes:
        """A time over rows, separated into parts for all attention groups and for the busiest group."""
        every = self.jumping(lambda inputs, layout, rows: time(inputs, layout, rows, rows))
        if not self.grouped:
            return RowTimes(every)
        return RowTimes(every, self.jumping(lambda inputs, layout, rows: time(inputs, layout, LARGEST, rows)))

    def other_half(self, *, prompts: bool) -> OtherHalf:
        """What a half of a batch sends, and the compute of the other half that hides it."""
        sent, compute = (self.of_rows(partial(_part_of_step, prompts=prompts, compute=each)) for each in (False, True))
        return OtherHalf(sent, compute)


def step_table(inputs: ServingInputs, layout: PlanColumns) -> StepTable:
    """The table of step times for some plans."""
    first, which = distinct([getattr(layout, name) for name in cuts_of(layout)])
    cuts, context, groups = layout.at(first), context_of(inputs), groups_of(inputs, layout)
    of = _ShardingTables(inputs, cuts, which, groups is not None)
    head, plain = of.curves(head_time), of.of_rows(partial(time_by_rows, prompts=False))
    latent = cuts.shares_context and any(kind.latent is not None for kind in inputs.model.layers)
    shared = of.curves(context_time) if latent else None
    far = np.any(is_dispatched(inputs, cuts))
    table = StepTable(
        computed=inputs.load.computed,
        prompted=of.of_rows(partial(time_by_rows, prompts=True)) if far else plain,
        head=head,
        drawn=plain.beside(head if shared is None else head + shared),
        decoding=of.line(lambda count: decode_time(inputs, cuts, count, context), 1.0),
        prompts=of.line(lambda count: prompt_time(inputs, cuts, count), PROMPT),
        host=of.line(lambda count: host_time(inputs, count), 1.0),
        one=0.0,
        verified=inputs.load.verified,
        samples=inputs.load.samples,
        passes=0.0 if inputs.draft is None else inputs.draft.load.passes,
        groups=groups,
        halves=None
        if runs_in_halves(inputs, cuts) is None
        else (of.other_half(prompts=False), of.other_half(prompts=True)),
        shared=shared,
        launches=launches_of(inputs, layout),
        mixed_steps=inputs.engine.mixed,
        draft=None if inputs.draft is None else step_table(inputs.draft, replace(layout, time_factor=None)),
        time_factor=layout.time_factor,
    )
    return replace(table, one=table.decode(np.ones(len(layout))))


# The factor on all step times at which a result of a plan reaches a bound.
#
# Steps f times as long at a load are the same as f times the load, by a clock that runs f times as fast: the sequences
# in flight at which the result, f times as long, is at its bound are looked for.

# Results that a load moves
LOADED = ("ttft", "ttft_p99", "tpot", "tpot_p99", "worst_gap", "latency", "tokens_per_s_per_user", *IN_TIME)
NEAR_ENOUGH = 1e-5  # of a factor whose logarithm is compared with an error of some hundredths
ARRIVING, USERS = "arriving", "users"  # loads of a replica, beside results that do not depend on them
PLAN = "plan"  # the number of a plan, beside its results


def result_at(engines: Engines, many: Column, state: SteadyState, name: str) -> Number:
    """One result of the engines with the given number of sequences in flight."""
    if name == "latency":
        return state.ttft + (engines.inputs.load.longest_answer - 1.0) * state.tpot
    if name == "worst_gap":
        return np.maximum(engines.worst_gap(many), state.tpot)
    if name == "tpot_p99":
        longest = np.maximum(engines.worst_gap(many), state.tpot)
        return token_p99(engines.inputs, engines.layout, engines.point(many), engines.steps, (state, longest))
    if name == "tokens_per_s_per_user":
        return rate_of(1.0, state.tpot)
    if name == "prompts_between":
        return prompts_between(state.tpot, engines.inputs.load.per_token(engines.point(many).decode))
    if name == "requests_per_s":
        return engines.layout.replicas * state.rate
    if name == "replicas":
        return engines.layout.replicas
    if name == "concurrency":
        return state.in_flight
    if name == "transfer_time" and name not in engines.held:
        return np.nan  # of replicas that do both
    if name in IN_TIME:
        return in_time(limits_of(engines.inputs), lambda each: result_at(engines, many, state, each))[name]
    found: Number = engines.held[name] if name in engines.held else getattr(state, name)
    return found


def limits_of(inputs: ServingInputs) -> RequestLimits:
    """The time limits on one request."""
    return request_limits(stated_limits(inputs.case.scenario.limits))


def load_factor(inputs: ServingInputs, held: dict[str, Number], rate: Number, answer: Number) -> Number:
    """Load over the scenario's load, by the requests per second and the time in which they are answered."""
    if ARRIVING in held:
        return share(rate, held[ARRIVING])
    thinking = float(inputs.case.scenario.workload.think_time or 0.0)
    idle = np.maximum(held[USERS] - rate * answer, 0.0)  # users who think
    return share(rate * thinking, idle)


def of_slower_steps(column: str, result: Number, factor: Number) -> Number:
    """A result at a load and with step times both longer by a factor."""
    return share(result, factor) if _falls_with_time(column) else result * factor


def over_bound(column: str, result: Number, bound: float) -> Number:
    """Ratio of a result to its bound, above 1 if the bound is broken."""
    return share(bound, result) if _falls_with_time(column) else share(result, bound)


def _falls_with_time(column: str) -> bool:
    """Whether slower steps lower a result, such as a rate."""
    return column in IN_TIME or SERVING_RESULTS[column].unit == "1/s"


@dataclass(eq=False)
class LoadTable:
    """Results of replicas with few to many sequences in flight, by which searches at any rate begin."""

    engines: Engines
    found: dict[str, Column] = field(default_factory=dict)

    @functools.cached_property
    def many(self) -> Column:
        """Sequences in flight: a row of points, with a column for each plan."""
        most = np.log(self.engines.bounds.least)
        return np.exp(closer_to_end(np.full_like(most, np.log(LEAST)), most, POINTS))

    @functools.cached_property
    def _state(self) -> SteadyState:
        return self.engines.state(self.many)

    def at(self, name: str, axes: int, plans: Places | None) -> Column:
        """One result at all points, of some plans, with so many axes between the two."""
        if name not in self.found:
            value = self.many if name == "many" else result_at(self.engines, self.many, self._state, name)
            self.found[name] = np.broadcast_to(np.asarray(value), self.many.shape)
        found = self.found[name] if plans is None else self.found[name][:, plans]
        return found.reshape(len(found), *(1 for _ in range(axes)), found.shape[-1])


def reached(
    engines: Engines, bounds: Sequence[tuple[str, float]], table: LoadTable | None = None
) -> list[Reached | None]:
    """The growth of step time at which a replica's results reach their bounds; None if proportional to step time.

    One search finds all: for each bound, at each of the rates that `engines.held` has, for each plan.
    table: of these plans, by their numbers in `engines.held`; else one is made
    """
    kind = next((name for name in (ARRIVING, USERS) if name in engines.held), None)
    sought = [place for place, (column, _) in enumerate(bounds) if kind and column in LOADED]
    found: list[Reached | None] = [None] * len(bounds)
    if kind is None or not sought:
        return found
    load = np.asarray(engines.held[kind])
    own = np.asarray(sought).reshape(-1, *(1 for _ in load.shape))
    held = {name: value for name, value in engines.held.items() if name != kind}
    bare, rows = replace(engines.bare(), held=held), np.arange(own.size * load.size)
    plans = None if table is None else np.asarray(held[PLAN]).astype(np.intp)
    table = LoadTable(bare) if table is None else table
    search = _BoundSearch(bare, kind, {place: bounds[place] for place in sought}, load, own, rows)
    with untraced(), np.errstate(all="ignore"):
        log = np.log(table.at("many", load.ndim, plans))
        looked = search.over(log, lambda name: table.at(name, load.ndim, plans))
        log = np.broadcast_to(log, looked.shape)
        some = None if engines.layout.variant is not None else lambda places: search.some(places).excess
        looks = (log, looked)
        many = last_within(search.excess, log[0], log[-1], some=some, near=NEAR_ENOUGH, looked=looks)
    for place, part in zip(sought, search.at_tries(many), strict=True):
        found[place] = Reached(*part)
    return found


_Try = tuple[Places, Column, Column, Column]  # rows; logarithms of sequences in flight, and two results there


@dataclass(frozen=True, eq=False)
class _BoundSearch:
    """Rows of a search for sequences in flight at which results reach bounds, and what was tried.

    load: of each row. own: number of its bound. rows: their numbers
    """

    engines: Engines
    kind: str  # of load
    bounds: Mapping[int, tuple[str, float]]
    load: Column
    own: Places
    rows: Places
    tries: list[_Try] = field(default_factory=list)

    def some(self, places: Places) -> _BoundSearch:
        """The search for some of the rows, in one dimension."""
        bound, *load = np.unravel_index(places, (self.own.size, *self.load.shape))
        engines, own = self.engines.rows(load[-1]), self.own.ravel()[bound]
        return replace(self, engines=engines, load=self.load[tuple(load)], own=own, rows=places)

    def excess(self, log: Column) -> Column:
        """The logarithm of how many times results are over their bounds, by that of sequences in flight."""
        many = np.exp(log)
        return self.over(log, partial(result_at, self.engines, many, self.engines.state(many)))

    def over(self, log: Column, named: Callable[[str], Number]) -> Column:
        """The same, by the results with so many sequences in flight."""
        factor = load_factor(self.engines.inputs, {self.kind: self.load}, named("rate"), named("latency"))
        found, value = np.zeros(()), np.zeros(())
        for place, (column, bound) in self.bounds.items():
            result = _result_of_users(self.engines.inputs, named, column, factor)
            value = np.where(self.own == place, result, value)
            found = np.where(self.own == place, over_bound(column, result, bound), found)
        shape, count = found.shape, len(self.rows)
        one, two, three = (np.broadcast_to(each, shape).reshape(-1, count) for each in (log, factor, value))
        self.tries.append((self.rows, one, two, three))
        return np.asarray(np.log(found))

    def at_tries(self, log: Column) -> list[tuple[Column, Column]]:
        """Of each bound, the factor and the result where a search ended, each of which it tried."""
        ends, found = log.ravel(), np.full((2, log.size), np.nan)
        for rows, tried, factor, value in self.tries:
            same = np.nonzero(tried == ends[rows])
            found[:, rows[same[1]]] = factor[same], value[same]
        return list(zip(*found.reshape(2, *log.shape), strict=True))


def _result_of_users(inputs: ServingInputs, named: Callable[[str], Number], column: str, factor: Number) -> Number:
    """A result at a load larger by a factor, for users whose steps take longer by the same factor."""
    if column in IN_TIME:
        return in_time(limits_of(inputs), with_longer_times(named, factor))[column]
    return of_slower_steps(column, named(column), factor)
