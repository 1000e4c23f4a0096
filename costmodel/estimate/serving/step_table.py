"""Tabulated step times, for search and bisection, which look them up thousands of times.

Everything but attention and the head takes its time by the rows of a step alone, attention in proportion to sequences
and to tokens. So a table over rows for each way of cutting the model gives any step to a few parts in ten thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.results import SERVING_RESULTS
from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.estimate.serving.engine_step import (
    Launches,
    StepTime,
    context_time,
    decode_time,
    head_time,
    host_time,
    launch_wait,
    launches_of,
    own_all_reduce_rows,
    prompt_time,
    rows_time,
)
from costmodel.estimate.serving.expert_step import dispatches, halved
from costmodel.estimate.serving.goodput import (
    IN_TIME,
    RequestLimits,
    in_time,
    request_limits,
    with_longer_times,
)
from costmodel.estimate.serving.limits_chance import Reached
from costmodel.estimate.serving.load import LEAST, Column, Engines
from costmodel.estimate.serving.operating_point import context_of
from costmodel.estimate.serving.plan_columns import PlanColumns, longer
from costmodel.estimate.serving.replica_kinds import cuts_of, distinct
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.steady_state import SteadyState, prompts_between
from costmodel.estimate.serving.step_batch import AttentionGroups, groups_of
from costmodel.estimate.serving.token_time_tail import token_p99
from costmodel.estimate.shared.result_limits import stated_limits
from costmodel.ground.equation import Number, untraced
from costmodel.ground.record import record
from costmodel.ground.solvers import Curves, Jumps, Line, Places

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

    def _decode(self, decodes: Number) -> Number:
        """Seconds of a step that only decodes so many sequences."""
        busiest = decodes if self.groups is None else self.groups.sequences(decodes)
        queries, own = self._queries(decodes), self._queries(busiest)
        time: Number = self.drawn.at(queries, own) + self.decoding.at(busiest)
        if self.halves is not None:
            time = time - self.halves[0].hidden(queries, own, self.head.at(own) + self.decoding.at(busiest))
        time = self._with_host(time, decodes, self.launches.of_decode(busiest))
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
    step = rows_time(inputs, layout, rows, own, prompts=prompts)
    if compute:
        return StepTime(matmul=step.compute)
    return StepTime(ep=np.where(dispatches(inputs, layout), step.ep, 0.0))


@record
class _Cuts:
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
    of = _Cuts(inputs, cuts, which, groups is not None)
    head, plain = of.curves(head_time), of.of_rows(partial(rows_time, prompts=False))
    latent = cuts.shares_context and any(kind.latent is not None for kind in inputs.model.layers)
    shared = of.curves(context_time) if latent else None
    far = np.any(dispatches(inputs, cuts))
    table = StepTable(
        computed=inputs.load.computed,
        prompted=of.of_rows(partial(rows_time, prompts=True)) if far else plain,
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
        halves=None if halved(inputs, cuts) is None else (of.other_half(prompts=False), of.other_half(prompts=True)),
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
BOUND, PLAN, ROW = "bound", "plan", "row"  # which of several bounds a row is about, which plan, and its own number
_MARGIN = 1e-3  # by which a search may be off that another one starts from


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
    return share(result, factor) if _falls(column) else result * factor


def over_bound(column: str, result: Number, bound: float) -> Number:
    """Ratio of a result to its bound, above 1 if the bound is broken."""
    return share(bound, result) if _falls(column) else share(result, bound)


def _falls(column: str) -> bool:
    """Whether slower steps lower a result, such as a rate."""
    return column in IN_TIME or SERVING_RESULTS[column].unit == "1/s"


@dataclass(eq=False)
class KnownLoads:
    """Sequences in flight at which bounds are reached, as brackets for later searches at other rates.

    A higher rate has more of them. One row for each bound, one column for each plan, which carry their number.
    """

    plans: int
    low: dict[int, Column] = field(default_factory=dict)
    high: dict[int, Column] = field(default_factory=dict)
    last: dict[int, Column] = field(default_factory=dict)

    def within(self, place: int, rows: Places) -> tuple[Column, Column]:
        """The bracket of a bound for some of the plans."""
        low, high = self.low.get(place), self.high.get(place)
        ends = (
            np.full(len(rows), LEAST) if low is None else low[rows],
            np.full(len(rows), np.inf) if high is None else high[rows],
        )
        return ends[0] * (1 - _MARGIN), ends[1] * (1 + _MARGIN)

    def found(self, place: int, rows: Places, many: Column) -> None:
        """Stores the solution of a bound for some of the plans."""
        self.last.setdefault(place, np.full(self.plans, np.nan))[rows] = many

    def settle(self, rows: Places, too_high: NDArray[np.bool_]) -> None:
        """Narrows the brackets, given which of these plans were evaluated at too high a rate."""
        for place, last in self.last.items():
            for ends, which, none in ((self.high, too_high, np.inf), (self.low, ~too_high, LEAST)):
                ends.setdefault(place, np.full(self.plans, none))[rows[which]] = last[rows[which]]


def reached(
    engines: Engines, bounds: Sequence[tuple[str, float]], known: KnownLoads | None = None
) -> list[Reached | None]:
    """The growth of step time at which a replica's results reach their bounds; None if proportional to step time.

    Each bound has rows of its own, so that one search finds all. known: what earlier searches at other rates found
    """
    loads = {ARRIVING, USERS} & {*engines.held}
    sought = [place for place, (column, _) in enumerate(bounds) if loads and column in LOADED]
    found: list[Reached | None] = [None] * len(bounds)
    if not sought:
        return found
    count = len(engines.layout)
    several = engines.rows(np.tile(np.arange(count), len(sought)))
    of_bounds = np.repeat(np.asarray(sought, dtype=np.float64), count)
    numbers: dict[str, Number] = {BOUND: of_bounds, ROW: np.arange(len(several.layout), dtype=np.float64)}
    several = replace(several, held={**several.held, **numbers})

    def grown(some: Engines, many: Column) -> tuple[Number, dict[int, Number]]:
        """The factor of the load at this number of sequences, and the results that limits bound."""
        state = some.state(many)
        answer = result_at(some, many, state, "latency")
        factor = load_factor(some.inputs, dict(some.held), state.rate, answer)
        of_users = {place: _of_users(some, many, state, bounds[place][0], factor) for place in sought}
        return factor, of_users

    def over(some: Engines, many: Column) -> Number:
        """How many times each result is over its bound, with these loads."""
        factor, of_users = grown(some, many)
        found, own = np.zeros(len(many)), np.zeros(len(many))
        for place, result in of_users.items():
            column, bound = bounds[place]
            is_own = some.held[BOUND] == place
            found = np.where(is_own, over_bound(column, result, bound), found)
            own = np.where(is_own, result, own)
        tries.append((np.asarray(some.held[ROW]).astype(np.intp), many, np.asarray(factor), own))
        return found

    tries = list[_Try]()
    with untraced(), np.errstate(all="ignore"):
        within = None
        rows = np.asarray(engines.held.get(PLAN, np.empty(0))).astype(np.intp)
        if known is not None:
            ends = [known.within(place, rows) for place in sought]
            within = np.concatenate([low for low, _ in ends]), np.concatenate([high for _, high in ends])
        many = several.greatest(over, NEAR_ENOUGH, within)
    factor, value = _at_tries(many, tries)
    for part, place in enumerate(sought):
        own = slice(part * count, (part + 1) * count)
        if known is not None:
            known.found(place, rows, many[own])
        found[place] = Reached(factor[own], value[own])
    return found


_Try = tuple[Places, Column, Column, Column]  # rows, sequences in flight of each, and two results


def _at_tries(many: Column, tries: Sequence[_Try]) -> tuple[Column, Column]:
    """Both results at the sequences in flight that a search found, each of which it tried."""
    first, second = np.full(len(many), np.nan), np.full(len(many), np.nan)
    for rows, tried, one, other in tries:
        same = tried == many[rows]
        places = rows[same]
        first[places], second[places] = np.broadcast_to(one, same.shape)[same], other[same]
    return first, second


def _of_users(engines: Engines, many: Column, state: SteadyState, column: str, factor: Number) -> Number:
    """A result at a load larger by a factor, for users whose steps take longer by the same factor."""
    if column in IN_TIME:
        times = with_longer_times(lambda name: result_at(engines, many, state, name), factor)
        return in_time(limits_of(engines.inputs), times)[column]
    return of_slower_steps(column, result_at(engines, many, state, column), factor)
