"""The chance to meet a plan's limits: an error of its steps, further errors of first tokens, of the pool, of power.

All step times are off by one factor, which moves waits more than steps. A limit is kept up to the factor at which the
results reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.serving.serving_results import RESULTS
from costmodel.equations.run.uncertainty import chance_within, combined_error, term_error
from costmodel.equations.serving.load.limit_chance import chance_of_both, log_slope, spreads_away
from costmodel.equations.serving.load.percentiles import normal_share
from costmodel.estimate.serving.serving_band import ServingSpreads, alone, moves_with_steps, own_share, spreads
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.limits import Limit, stated_limits
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

SMALLEST = 1e-12  # of an amount, for a logarithm
OWN = "limits_chance"  # the result itself
Result = Callable[[str], Number]


@record
class Reached:
    """The factor on all step times at which a result reaches a bound, or no more is answered; the result there."""

    factor: Number
    value: Number


def asking_chance(inputs: ServingInputs) -> ServingInputs:
    """The same, whose evaluations have this chance; of many plans it takes as long as all else."""
    case = inputs.case
    return replace(inputs, case=replace(case, scenario=case.scenario.model_copy(update={"objective": OWN})))


def is_asked(inputs: ServingInputs) -> bool:
    """Whether plans are compared by this chance, or bounded by it."""
    scenario = inputs.case.scenario
    return scenario.objective == OWN or any(limit.column == OWN for limit in stated_limits(scenario.limits))


Reach = Callable[[str, float], Reached | None]


@record
class _Side:
    """How far a bound is: in standard deviations, of which a part is the error of the steps."""

    away: Number
    with_steps: Number  # correlation with the error of the steps


def limits_chance(
    inputs: ServingInputs, limits: Iterable[Limit], result: Result, room: Number | None, reach: Reach
) -> Number:
    """Chance that a request fits, that what arrives is answered, and that every limit is kept.

    Results of one kind are off together, so that the least chance of each kind counts; the kinds are independent, but
    first tokens share the error of the steps.

    Args:
        room: factor on all step times up to which what arrives is answered; None for a load that waits
        reach: for a bound on a result, where it is reached; None where the result grows as the steps do
    """
    found = spreads(inputs)
    steps: list[Number] = []
    first: list[_Side] = []
    with term("a request fits"):
        chance = _within(1.0, np.maximum(result("concurrency_worst"), SMALLEST), found.pool)
    if room is not None:
        with term("the load is answered"), np.errstate(all="ignore"):
            steps.append(spreads_away(1.0, np.maximum(room, SMALLEST), found.token))
    for limit, sign, bound in _bounds(limits):
        with term(f"keeps {limit.column}"), np.errstate(all="ignore"):
            side = _side(inputs, found, result, reach, (limit.column, sign, bound))
            if not isinstance(side, _Side):
                chance = chance * side
            elif np.all(np.asarray(side.with_steps) == 1):
                steps.append(side.away)
            else:
                first.append(side)
    with term("every limit"):
        return chance * _joined(steps, first)


def _bounds(limits: Iterable[Limit]) -> Iterator[tuple[Limit, float, float]]:
    """Every bound, with 1 where results under it keep it, else -1."""
    for limit in limits:
        if limit.column == OWN:
            continue
        if limit.kind == "target":
            yield from ((limit, sign, (1.0 + sign * limit.within) * limit.value) for sign in (1.0, -1.0))
        else:
            yield limit, 1.0 if limit.kind == "at_most" else -1.0, limit.value


def _side(
    inputs: ServingInputs, found: ServingSpreads, result: Result, reach: Reach, asked: tuple[str, float, float]
) -> _Side | Number:
    """How far a bound is where the error of the steps moves the result, else the chance that it is kept alone."""
    column, sign, bound = asked
    value = result(column)
    less, more = (value, bound) if sign > 0 else (bound, value)
    if not moves_with_steps(inputs, column):
        return _within(less, more, alone(found, column))
    upward = 1.0 if RESULTS[column].unit != "1/s" else -1.0  # with the steps
    less, more = np.maximum(less, SMALLEST), np.maximum(more, SMALLEST)
    there = reach(column, bound)
    share = own_share(inputs, column, result)
    if there is None:
        slope: Number = 1.0
        away = spreads_away(less, more, found.token)
    else:
        grown = log_slope(value, there.value, there.factor) if upward > 0 else 1.0
        slope = np.where(np.isfinite(grown), grown, 1.0)
        away = spreads_away(1.0, np.maximum(there.factor, SMALLEST), found.token) * (sign * upward)
    if np.any(np.asarray(share)):
        moved, further = term_error(found.token, slope), term_error(found.first_alone, share)
        whole = combined_error(moved, further)
        side = _Side(spreads_away(less, more, whole), moved / whole)
    else:
        side = _Side(away, 1.0)
    return side if sign * upward > 0 else normal_share(_known(side.away))


def _joined(steps: list[Number], first: list[_Side]) -> Number:
    """The chance that the worst of both kinds is kept."""
    least = _known(_least(steps)) if steps else None
    if not first:
        return 1.0 if least is None else normal_share(least)
    away, shared = first[0].away, first[0].with_steps
    for side in first[1:]:
        nearer = np.asarray(side.away) < away
        away, shared = np.where(nearer, side.away, away), np.where(nearer, side.with_steps, shared)
    away = _known(away)
    return normal_share(away) if least is None else chance_of_both(least, away, shared)


def _least(found: list[Number]) -> Number:
    least = found[0]
    for each in found[1:]:
        least = np.minimum(least, each)
    return least


def _known(away: Number) -> Number:
    """Without a figure a limit is not kept."""
    return np.where(np.isnan(away), -np.inf, away)


def _within(amount: Number, allowance: Number, spread: Number) -> Number:
    """The chance that one amount is at most another, also where one of them is nothing or without end."""
    with np.errstate(all="ignore"):
        chance = chance_within(np.maximum(amount, SMALLEST), np.maximum(allowance, SMALLEST), spread)
    return np.where(np.isnan(chance), np.where(np.asarray(amount) <= allowance, 1.0, 0.0), chance)
