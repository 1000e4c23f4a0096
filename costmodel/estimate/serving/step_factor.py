"""The factor on all step times at which a result of a plan reaches a bound.

Steps f times as long at a load are the same as f times the load, by a clock that runs f times as fast: the sequences
in flight at which the result, f times as long, is at its bound are looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.results import SERVING_RESULTS
from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.estimate.serving.limits_chance import Reached
from costmodel.estimate.serving.load import LEAST, Column, Engines
from costmodel.estimate.serving.requests_in_time import (
    IN_TIME,
    RequestLimits,
    in_time,
    request_limits,
    with_longer_times,
)
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.steady_state import SteadyState, prompts_between
from costmodel.estimate.serving.token_tail import token_p99
from costmodel.estimate.shared.limits import stated_limits
from costmodel.ground.equation import Number, untraced
from costmodel.ground.solvers import Places

# Results that a load moves
LOADED = ("ttft", "ttft_p99", "tpot", "tpot_p99", "worst_gap", "latency", "tokens_per_s_per_user", *IN_TIME)
NEAR_ENOUGH = 1e-5  # of a factor whose logarithm is compared with an error of some hundredths
ARRIVING, USERS = "arriving", "users"  # loads of a replica, beside results that do not depend on them
BOUND, PLAN = "bound", "plan"  # which of several bounds a row is about, and which of several plans
_MARGIN = 1e-3  # by which a search may be off that another one starts from


def result_at(engines: Engines, many: Column, state: SteadyState, name: str) -> Number:
    """One result of the engines with so many sequences in flight."""
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
    """Load over the scenario's load, if so many requests per second are answered in such a time."""
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
    """Where results of a replica under its load reach their bounds; None for results proportional to step time.

    Each bound has rows of its own, so that one search finds all. known: what earlier searches at other rates found
    """
    loads = {ARRIVING, USERS} & {*engines.held}
    sought = [place for place, (column, _) in enumerate(bounds) if loads and column in LOADED]
    found: list[Reached | None] = [None] * len(bounds)
    if not sought:
        return found
    count = len(engines.layout)
    several = engines.rows(np.tile(np.arange(count), len(sought)))
    several = replace(several, held={**several.held, BOUND: np.repeat(np.asarray(sought, dtype=np.float64), count)})

    def grown(some: Engines, many: Column) -> tuple[Number, dict[int, Number]]:
        state = some.state(many)
        answer = result_at(some, many, state, "latency")
        factor = load_factor(some.inputs, dict(some.held), state.rate, answer)
        of_users = {place: _of_users(some, many, state, bounds[place][0], factor) for place in sought}
        return factor, of_users

    def over(some: Engines, many: Column) -> Number:
        found = np.zeros(len(many))
        for place, result in grown(some, many)[1].items():
            column, bound = bounds[place]
            found = np.where(some.held[BOUND] == place, over_bound(column, result, bound), found)
        return found

    with untraced(), np.errstate(all="ignore"):
        within, rows = None, np.empty(0, dtype=np.intp)
        if known is not None:
            rows = np.asarray(engines.held[PLAN]).astype(np.intp)
            ends = [known.within(place, rows) for place in sought]
            within = np.concatenate([low for low, _ in ends]), np.concatenate([high for _, high in ends])
        many = several.greatest(over, NEAR_ENOUGH, within)
        factor, results = grown(several, many)
    for part, place in enumerate(sought):
        own = slice(part * count, (part + 1) * count)
        if known is not None:
            known.found(place, rows, many[own])
        found[place] = Reached(*(np.asarray(each)[own] for each in (factor, results[place])))
    return found


def _of_users(engines: Engines, many: Column, state: SteadyState, column: str, factor: Number) -> Number:
    """A result at a load larger by a factor, for users whose steps take longer by the same factor."""
    if column in IN_TIME:
        times = with_longer_times(lambda name: result_at(engines, many, state, name), factor)
        return in_time(limits_of(engines.inputs), times)[column]
    return of_slower_steps(column, result_at(engines, many, state, column), factor)
