"""Limits of a service: requests that stay within them (goodput), and the chance that a plan meets them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.results import SERVICE_LEVEL, SERVING_RESULTS
from costmodel.documents.schemas.serving import LEVEL_OF_USERS, Serving
from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import SURE, combined_error, normal_share, spreads_away, term_error
from costmodel.equations.serving.service_level import (
    chance_between,
    chance_of_both,
    chance_with,
    goodput_rate,
    log_slope,
    share_within,
)
from costmodel.estimate.serving.measured_spreads import (
    OF_POOL,
    ServingSpreads,
    first_token_share,
    further_spread,
    moves_with_steps,
    spreads,
)
from costmodel.estimate.serving.plan_columns import PlanColumns, Rows
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.results import Limit, stated_limits
from costmodel.ground.equation import Number, is_any, term, untraced
from costmodel.ground.record import record
from costmodel.ground.solvers import last_within

# --- requests that stay within the limits on their own times


SHARE, RATE = "in_time_share", "in_time_per_s"
IN_TIME = (SHARE, RATE)
FIRST = ("ttft", "ttft_p99")
TIMES = (*FIRST, "tpot", "tpot_p99", "prompts_between")
FARTHEST = 5.0  # logarithm of the largest factor on all times that is searched
TAIL = 0.01  # share of requests beyond the P99
A_LITTLE = 1.01  # factor on times, for its effect
Result = Callable[[str], Number]


@record
class RequestLimits:
    """Limits on one request's time to first token and time per token; None without a limit."""

    first: float | None = None
    token: float | None = None

    @property
    def any(self) -> bool:
        """Whether a limit on time to first token or on time per token is set."""
        return self.first is not None or self.token is not None


def request_limits(limits: Iterable[Limit]) -> RequestLimits:
    """The strictest limits on time to first token and on time per token."""
    first, token = list[float](), list[float]()
    for limit in limits:
        if limit.kind == "at_most" and limit.column in ("ttft", "ttft_p99"):
            first.append(limit.value)
        elif limit.kind == "at_most" and limit.column in ("tpot", "tpot_p99"):
            token.append(limit.value)
        elif limit.kind == "at_least" and limit.column == "tokens_per_s_per_user" and limit.value:
            token.append(float(rate_of(1.0, limit.value)))
    return RequestLimits(min(first, default=None), min(token, default=None))


def in_time(limits: RequestLimits, result: Result) -> dict[str, Number]:
    """Share and rate of requests that meet both time limits, from mean and P99 of each; NaN without limits."""
    if not limits.any:
        return dict.fromkeys(IN_TIME, np.nan)
    fastest = _shortest_time(result)
    first = _share_in_time(limits.first, fastest, result, "ttft")
    token = _share_in_time(limits.token, fastest, result, "tpot")
    with term("both in time"):
        both = first * token
    return {SHARE: both, RATE: goodput_rate(result("requests_per_s"), first, token)}


def _shortest_time(result: Result) -> Number:
    """The shortest possible time: that of a step without prompts; 0 if unknown."""
    with term("a step alone"):
        between = result("prompts_between")
        return np.where(np.asarray(between) > 0, result("tpot") - between, 0.0)


def percentile_of_kinds(kinds: Sequence[Mapping[str, float]], name: str) -> float:
    """The P99 of a time of all requests of several kinds of nodes, by what each answers; `name` may be that of a band.

    The time T at which Σ w F(T) is 99 %: F of each kind is the log-normal share that its mean and its P99 state.
    """
    base = name.removesuffix("_low").removesuffix("_high")
    mean = base.removesuffix("_p99")
    kinds = [kind for kind in kinds if kind["requests_per_s"] > 0]
    far = [kind[name] for kind in kinds]
    if len(kinds) < 2 or not all(map(math.isfinite, far)):
        return max(far, default=math.nan)
    whole = sum(kind["requests_per_s"] for kind in kinds)

    def kept(kind: Mapping[str, float], time: Number) -> Number:
        """The share of all requests that are of this kind and within a time."""
        with term("of the requests"):
            return share(kind["requests_per_s"], whole) * share_within(
                share(time, share(kind[name], kind[base])), _shortest_time(kind.__getitem__), kind[mean], kind[base]
            )

    with untraced(), np.errstate(all="ignore"):
        return float(last_within(lambda time: sum(kept(kind, time) for kind in kinds) - (1 - TAIL), min(far), max(far)))


def _share_in_time(limit: float | None, fastest: Number, result: Result, name: str) -> Number:
    """Share of requests that meet one of the time limits."""
    if limit is None:
        return 1.0
    with term(f"{name} in time"):
        return share_within(limit, fastest, result(name), result(f"{name}_p99"))


def with_longer_times(result: Result, factor: Number) -> Result:
    """Results of a closed-loop load if all times are longer by a factor."""

    def found(name: str) -> Number:
        """The result of this name with its times longer by the factor."""
        value = result(name)
        return value * factor if name in TIMES else share(value, factor)

    return found


def factor_in_time(limits: RequestLimits, result: Result, column: str, bound: float) -> Number:
    """Factor on all times of a closed-loop load at which requests in time fall to a bound."""
    rows = np.shape(np.atleast_1d(np.asarray(result("tpot"))))

    def over(log: Number) -> Number:
        """How far requests in time exceed the bound if all times are longer by exp(log)."""
        return np.log(share(bound, np.maximum(in_time(limits, with_longer_times(result, np.exp(log)))[column], 1e-12)))

    with untraced(), np.errstate(all="ignore"):
        return np.exp(last_within(over, np.full(rows, -FARTHEST), np.full(rows, FARTHEST)))


def weight_of_first(limits: RequestLimits, result: Result, column: str, bound: float) -> Number:
    """Effect of a longer time to first token on requests in time, over the effect of all times; from 0 to 1.

    It is taken where the bound is reached.
    """
    at_bound = with_longer_times(result, factor_in_time(limits, result, column, bound))

    def lost(names: tuple[str, ...]) -> Number:
        """The share of requests in time that is lost if these times become longer."""
        longer = in_time(limits, lambda name: at_bound(name) * A_LITTLE if name in names else at_bound(name))
        return in_time(limits, at_bound)[column] - longer[column]

    with untraced(), np.errstate(all="ignore"):
        part = np.asarray(share(lost(FIRST), lost(TIMES)))
    return np.where(np.isfinite(part), np.clip(part, 0.0, 1.0), 1.0)


_MOST_OF = 0.5  # of the time of an answer, which a line takes that is worth a word
_FULL = 0.99  # of saturation


def waiting_requests(workload: Serving, costs: Mapping[str, float]) -> float:
    """Requests that wait for their first token, by Little's law; 0 if engines are not full, or if few wait.

    Of a rate and of a batch none: the one has a line without end or a short one, the other a line by its nature.
    """
    if workload.users is None and workload.concurrency is None:
        return 0.0
    full = costs["saturation_share"] >= _FULL and costs["ttft"] > _MOST_OF * costs["latency"]
    waiting = costs["requests_per_s"] * costs["ttft"]
    return waiting if full and math.isfinite(waiting) and waiting > costs["replicas"] else 0.0


# --- the chance to meet a plan's limits


SMALLEST = 1e-12  # of an amount, for a logarithm
OF_STEPS = 0.01  # weight of first tokens under which a bound on requests in time is one on the steps
OWN = "limits_chance"  # the result itself


@record
class Reached:
    """Factor on all step times at which a result reaches a bound or the load is not answered; and the result there."""

    factor: Number
    value: Number


def asking_chance(inputs: ServingInputs, column: str = OWN) -> ServingInputs:
    """Inputs whose evaluations include the chance to meet all limits (twice as slow), or requests in time (SHARE)."""
    case = inputs.case
    return replace(inputs, case=replace(case, scenario=case.scenario.model_copy(update={"objective": column})))


def demanding_chance(inputs: ServingInputs, share: float) -> ServingInputs:
    """Inputs with a lower limit on the chance to meet all other limits."""
    scenario = inputs.case.scenario
    chance = type(scenario.limits.limits_chance)(at_least=share)
    limits = scenario.limits.model_copy(update={OWN: chance})
    limits.model_fields_set.add(OWN)
    case = replace(inputs.case, scenario=scenario.model_copy(update={"limits": limits}))
    return replace(inputs, case=case)


def without_chance(inputs: ServingInputs) -> ServingInputs:
    """Inputs without a limit on the chance to meet the limits."""
    scenario = inputs.case.scenario
    limits = scenario.limits.model_copy(update={OWN: type(scenario.limits.limits_chance).model_construct()})
    limits.model_fields_set.discard(OWN)
    case = replace(inputs.case, scenario=scenario.model_copy(update={"limits": limits}))
    return replace(inputs, case=case)


def is_asked(inputs: ServingInputs, *columns: str) -> bool:
    """Whether the objective or a limit is on the chance to meet limits; or on one of `columns`."""
    scenario = inputs.case.scenario
    bounding = columns or (OWN,)
    return scenario.objective in (OWN, *columns) or any(
        limit.column in bounding for limit in stated_limits(scenario.limits)
    )


def breaks_exact_limit(inputs: ServingInputs, costs: Mapping[str, float]) -> bool:
    """Whether a plan breaks a limit on a result without error, such as rent, so that its chance is 0."""
    found = spreads(inputs)
    exact = (
        limit
        for limit in stated_limits(inputs.case.scenario.limits)
        if limit.column not in (OWN, *IN_TIME)
        and not moves_with_steps(inputs, limit.column)
        and not np.any(np.asarray(further_spread(found, limit.column)))
    )
    return any(not limit.holds(costs[limit.column]) for limit in exact)


Reach = Callable[[Sequence[tuple[str, float]]], Sequence[Reached | None]]


@record
class _Bound:
    """A bound in standard deviations from the prediction, with its correlation to the error of step times.

    For a lower bound: the error at which the result falls below it.
    """

    kind: str  # of error: steps, or one of its own
    upper: bool
    away: Number
    with_steps: Number  # correlation with the error of the steps


def limits_chance(
    inputs: ServingInputs,
    layouts: Sequence[PlanColumns],
    limits: Iterable[Limit],
    result: Result,
    room: Number | None,
    reach: Reach,
) -> Number:
    """Chance that a request fits, that the load is answered, and that every limit is met.

    Results of one kind are off together, so that the nearest bounds of each kind count; the kinds are independent, but
    first tokens, and power where it depends on answers, share the error of the steps.

    Args:
        layouts: the plans, or the halves of plans
        room: factor on all step times up to which what arrives is answered; None for a load that waits
        reach: for bounds on results, where each is reached; None where the result grows as the steps do
    """
    found = spreads(inputs, *layouts)
    with term("a request fits"):
        sides = [_Bound("pool", False, _spreads_away(result("concurrency_worst"), 1.0, found.pool), 0.0)]
    if room is not None:
        with term("the load is answered"):
            sides.append(_Bound("steps", True, _spreads_away(1.0, room, found.steps(np.asarray(room) > 1.0)), 1.0))
    every = [(limit.column, sign, bound) for limit, sign, bound in _signed_bounds(limits)]
    for asked, there in zip(every, reach([(column, bound) for column, _, bound in every]), strict=True):
        with term(f"keeps {asked[0]}"), np.errstate(all="ignore"):
            if asked[0] in IN_TIME:
                sides += _in_time_bounds(inputs, found, result, there, asked)
            else:
                sides.append(_bound_on_error(inputs, found, result, there, asked))
    with term("every limit"):
        return _joint_chance(sides)


def _signed_bounds(limits: Iterable[Limit]) -> Iterator[tuple[Limit, float, float]]:
    """Each bound of the limits, with sign 1 for an upper bound and -1 for a lower one."""
    for limit in limits:
        if limit.column == OWN:
            continue
        if limit.kind == "target":
            yield from ((limit, sign, (1.0 + sign * limit.within) * limit.value) for sign in (1.0, -1.0))
        else:
            yield limit, 1.0 if limit.kind == "at_most" else -1.0, limit.value


def _bound_on_error(
    inputs: ServingInputs,
    found: ServingSpreads,
    result: Result,
    there: Reached | None,
    asked: tuple[str, float, float],
) -> _Bound:
    """How many standard deviations a bound is away, and which kind of error moves its result."""
    column, sign, bound = asked
    value, beside = result(column), further_spread(found, column)
    own = "pool" if column in OF_POOL else "power" if np.any(np.asarray(beside)) else "first"
    if not moves_with_steps(inputs, column):
        if not np.any(np.asarray(beside)):
            return _exact_bound(value, bound, sign)
        return _Bound(own, sign > 0, _spreads_away(value, bound, beside), 0.0)
    upward = 1.0 if SERVING_RESULTS[column].unit != "1/s" else -1.0  # with the steps
    less, more = (value, bound) if upward > 0 else (bound, value)
    upper = sign * upward > 0
    steps = found.steps(np.asarray(less) < np.asarray(more))
    if there is None:
        slope: Number = 1.0
        away = _spreads_away(less, more, steps)
    else:
        grown = log_slope(value, there.value, there.factor) if upward > 0 else 1.0
        slope = np.where(np.isfinite(grown), grown, 1.0)
        away = _spreads_away(1.0, there.factor, steps)
    part = first_token_share(inputs, column, result)
    further = combined_error(term_error(found.first_beside_steps, part), beside)
    if not np.any(np.asarray(further)):
        return _Bound("steps", upper, away, 1.0)
    moved = term_error(steps, slope)
    whole = combined_error(moved, further)
    return _Bound(own, upper, _spreads_away(less, more, whole), moved / np.maximum(whole, SMALLEST))


def _in_time_bounds(
    inputs: ServingInputs,
    found: ServingSpreads,
    result: Result,
    there: Reached | None,
    asked: tuple[str, float, float],
) -> Iterator[_Bound]:
    """A bound on the share of requests in time, turned into bounds on the errors of their times.

    It is one on the steps alone for plans on which first tokens do not matter there.
    """
    column, sign, bound = asked
    limits = request_limits(stated_limits(inputs.case.scenario.limits))
    factor = factor_in_time(limits, result, column, bound) if there is None else there.factor
    weight = 0.0 if limits.first is None else weight_of_first(limits, result, column, bound)
    steps = found.steps(np.asarray(factor) > 1.0)
    whole = combined_error(steps, term_error(found.first_beside_steps, weight))
    together, upper = share(steps, np.maximum(whole, SMALLEST)), sign < 0
    by_steps, unbound = np.asarray(weight) < OF_STEPS, np.inf if upper else -np.inf
    away = _spreads_away(1.0, factor, steps), _spreads_away(1.0, factor, whole)
    yield _Bound("steps", upper, np.where(by_steps, away[0], unbound), 1.0)
    if not np.all(by_steps):
        yield _Bound("first", upper, np.where(by_steps, unbound, away[1]), together)


def _exact_bound(value: Number, bound: float, sign: float) -> _Bound:
    """A bound on a result without error: met with certainty or never."""
    kept = np.asarray(value) * sign <= bound * sign
    return _Bound("exact", True, np.where(kept, np.inf, -np.inf), 0.0)


def _spreads_away(amount: Number, bound: Number, spread: Number) -> Number:
    """How many standard deviations an amount is from a bound; infinite without spread."""
    with np.errstate(all="ignore"):
        away = spreads_away(np.maximum(amount, SMALLEST), np.maximum(bound, SMALLEST), spread)
        apart = np.where(np.asarray(amount) <= bound, np.inf, -np.inf)
    unknown = np.isnan(np.asarray(amount)) | np.isnan(np.asarray(bound))
    sure = (np.asarray(spread) <= SURE) | np.isnan(away)
    return np.where(unknown, np.nan, np.where(sure, apart, away))


def _joint_chance(sides: list[_Bound]) -> Number:
    """The chance that all results are within their bounds, over all kinds of error."""
    steps = [side for side in sides if side.kind == "steps"]
    chance = alone_kept = _kept(steps, [])
    for kind in dict.fromkeys(side.kind for side in sides if side.kind != "steps"):
        chance = chance_with(chance, _kept(steps, [side for side in sides if side.kind == kind]), alone_kept)
    return chance


def _kept(steps: list[_Bound], further: list[_Bound]) -> Number:
    """The chance to meet the bounds on step times and on one further kind of error."""
    upper, lower = _nearest_bound(further, upper=True), _nearest_bound(further, upper=False)
    step, least_step = (_nearest_bound(steps, upper=each).away for each in (True, False))
    under, least_under = (chance_between(_below(end, upper), _below(end, lower)) for end in (step, least_step))
    return chance_between(under, least_under)


def _nearest_bound(sides: list[_Bound], *, upper: bool) -> _Bound:
    """The upper or lower bound that is nearest; infinitely far if there is none."""
    end = np.inf if upper else -np.inf
    away: Number = end
    shared: Number = 0.0
    for side in sides:
        if side.upper == upper:
            there = np.where(np.isnan(side.away), -end, side.away)
            nearer = there < away if upper else there > away
            away, shared = np.where(nearer, there, away), np.where(nearer, side.with_steps, shared)
    return _Bound("nearest", upper, away, shared)


def _below(step: Number, side: _Bound) -> Number:
    """Chance that the error of step times and a further error are both below their bounds."""
    if any((np.asarray(end) == -np.inf).all() for end in (side.away, step)):
        return 0.0
    if not is_any(side.with_steps):
        return normal_share(step) * normal_share(side.away)
    return chance_of_both(step, side.away, side.with_steps)


# Limits that a higher rate can break, and how close the results are to them.

_FROM_ARRIVAL = ("ttft", "ttft_p99", "latency")
LEAST_RESULT = 1e-9  # stands for a time, a chance, or a rate of tokens, that is nothing


def service_limits(inputs: ServingInputs) -> list[Limit]:
    """The limits of a scenario that a higher request rate can break."""
    return [
        limit
        for limit in stated_limits(inputs.case.scenario.limits)
        if limit.column in {"at_most": SERVICE_LEVEL, "at_least": LEVEL_OF_USERS}.get(limit.kind, ())
    ]


def waits_in_batch(case: ServingCase) -> list[str]:
    """Keys of limits on latencies from arrival in an offline batch, where they are no useful target."""
    if case.scenario.workload.requests is None:
        return []
    return [limit.key for limit in stated_limits(case.scenario.limits) if limit.column in _FROM_ARRIVAL]


def columns_in_time(inputs: ServingInputs, columns: Mapping[str, Number]) -> dict[str, Number]:
    """Requests in time, if they or the chance are requested; else NaN, because a search would take too long."""
    if not is_asked(inputs, *IN_TIME):
        return dict.fromkeys(IN_TIME, np.nan)
    return in_time(request_limits(stated_limits(inputs.case.scenario.limits)), columns.__getitem__)


def over_limits(limits: list[Limit], result: Callable[[str], Number], rows: int) -> Rows:
    """The largest ratio of a result to its limit; above 1 if a limit is broken."""
    found = np.zeros(rows)
    for limit in limits:
        value, bound = result(limit.column), limit.value
        if limit.kind == "at_most":
            over = share(value, np.maximum(bound, LEAST_RESULT))
        else:
            over = share(bound, np.maximum(value, LEAST_RESULT))
        found = np.maximum(found, np.asarray(over))
    return found
