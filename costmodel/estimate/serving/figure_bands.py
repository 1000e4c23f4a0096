"""The band of every figure of a serving plan that depends on times: what it is where steps take longer or shorter.

Steps that all take f times as long are those of the same engine by a clock that runs f times as fast. So the results
are those at f times the rate of requests, each time f times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.base import Document
from costmodel.documents.schemas.serving.serving_results import BANDED
from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import (
    TENTH,
    combined_error,
    end_spread,
    ninetieth_percentile,
    tenth_percentile,
    term_error,
)
from costmodel.equations.serving.load.closed_loop import answer_time_of_users
from costmodel.estimate.serving.evaluate_apart import ApartEvaluation
from costmodel.estimate.serving.evaluate_layouts import ServingEvaluation
from costmodel.estimate.serving.limits_chance import OWN
from costmodel.estimate.serving.requests_in_time import IN_TIME, in_time, request_limits
from costmodel.estimate.serving.serving_band import (
    ENDLESS,
    ServingSpreads,
    answers_bring_requests,
    exponent,
    first_token_share,
    further_spread,
    moves_with_answers,
    spreads,
)
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.term_bands import term_bands
from costmodel.estimate.shared.limits import stated_limits
from costmodel.estimate.shared.results import Costs
from costmodel.ground.equation import Number, term

Evaluation = ServingEvaluation | ApartEvaluation
UnderLoad = Callable[[ServingInputs], Evaluation]
ROUNDED = 1e-9  # of a figure that is the same by another clock
_RARELY = 10.0  # times the time of an answer, from which on users come back at their own pace
_BOUNDS = ("at_most", "at_least", "target")


def banded(inputs: ServingInputs, found: Evaluation, under_load: UnderLoad) -> Costs:
    """The results with the ends of their bands; under_load: evaluates the same plans under another load."""
    spread, results = spreads(inputs), found.results
    fast, slow = (_at(inputs, found, under_load, spread, sign) for sign in (-1.0, 1.0))
    columns = dict(results.columns)
    for name in BANDED:
        if name not in columns:
            continue
        with term(f"band of {name}"):
            beside = combined_error(
                term_error(spread.first_beside_steps, first_token_share(inputs, name, columns.__getitem__)),
                further_spread(spread, name),
            )
            low, high = np.minimum(fast[name], slow[name]), np.maximum(fast[name], slow[name])
            most = _room(columns, fast) if moves_with_answers(inputs, name) else None
            columns[f"{name}_low"], columns[f"{name}_high"] = _ends(columns[name], (low, high), beside, most)
    if answers_bring_requests(inputs):
        columns |= _answers_in_loop(inputs, columns)
    return Costs(columns | term_bands(inputs, found.layout, columns), results.rows)


def _answers_in_loop(inputs: ServingInputs, columns: Mapping[str, Number]) -> dict[str, Number]:
    """Both ends of the time of an answer in a closed loop: by Little's law, at its fastest and its slowest rate.

    Users who think for far longer than they wait come at the same rate at both ends, which determines no time.
    """
    workload = inputs.case.scenario.workload
    everyone, think = float(workload.users or workload.at_once or 0.0), float(workload.think_time or 0.0)
    with term("by Little's law"), np.errstate(all="ignore"):
        ends = {
            f"latency_{end}": answer_time_of_users(everyone, columns[f"requests_per_s_{other}"], think)
            for end, other in (("low", "high"), ("high", "low"))
        }
        answer = columns["latency"] - columns["ttft"]  # a first token comes before the rest of its answer
        found = {**ends, "ttft_high": np.minimum(columns["ttft_high"], ends["latency_high"] - answer)}
        rare = think > _RARELY * columns["latency"]
        return {name: np.where(rare, columns[name], value) for name, value in found.items()}


def is_of_bands(result: str) -> bool:
    """Whether only answers with bands have a result: an end of one, the chance to keep limits, requests in time."""
    return result in (OWN, *IN_TIME) or result.endswith(("_low", "_high"))


def _room(columns: Mapping[str, Number], fast: Mapping[str, Number]) -> Number:
    """Saturation, at its upper end, over the rate of a closed loop: no first token moves that rate beyond it."""
    with term("saturation at most"), np.errstate(all="ignore"):
        return np.maximum(share(fast["saturation_per_s"], columns["requests_per_s"]), 1.0)


def _ends(
    middle: Number, ends: tuple[Number, Number], beside: Number, most: Number | None = None
) -> tuple[Number, Number]:
    """Both ends of a figure, which has a further error beside that of the steps.

    most: factor on the figure, up or down, that this further error does not move it beyond
    """
    low, high = (np.where(np.isclose(end, middle, rtol=ROUNDED, atol=0.0), middle, end) for end in ends)
    low, high = np.minimum(low, middle), np.maximum(high, middle)
    if not np.any(np.asarray(beside)):
        return low, high
    with np.errstate(all="ignore"):
        steps = end_spread(middle, low), end_spread(middle, high)
        down, up = (combined_error(each, beside) for each in steps)
        if most is not None:
            farthest = [np.maximum(each, end_spread(1.0, most)) for each in steps]
            down, up = np.minimum(down, farthest[0]), np.minimum(up, farthest[1])
        wider = tenth_percentile(middle, down), ninetieth_percentile(middle, up)
    known = np.isfinite(middle) & (np.asarray(middle) > 0)
    return np.where(known, wider[0], low), np.where(known, wider[1], high)


def _at(
    inputs: ServingInputs, found: Evaluation, under_load: UnderLoad, spread: ServingSpreads, sign: float
) -> dict[str, Number]:
    """Results where steps are at the tenth or ninetieth percentile of what they may take."""
    columns: Mapping[str, Number] = found.results.columns
    over: NDArray[np.bool_] = np.zeros(found.results.rows, dtype=bool)
    if inputs.case.scenario.workload.at_once is None:
        factor = float(np.exp(sign * TENTH * float(np.asarray(spread.token))))
        with term("slower steps" if sign > 0 else "faster steps"), np.errstate(all="ignore"):
            other = under_load(at_factor(inputs, factor))
        columns, over = other.results.columns, other.overloaded & ~found.overloaded
    if IN_TIME[0] in columns and not np.all(np.isnan(np.asarray(found.results.columns[IN_TIME[0]]))):
        columns = {**columns, **_in_time(inputs, columns, spread, sign)}
    moved = {name: _by_clock(columns[name], sign * exponent(name), spread) for name in BANDED if name in columns}
    return {name: np.where(over, np.inf, value) if name in ENDLESS else value for name, value in moved.items()}


def _in_time(
    inputs: ServingInputs, columns: Mapping[str, Number], spread: ServingSpreads, sign: float
) -> dict[str, Number]:
    """Requests in time by another clock; first tokens, whose error is larger, move by more than it."""
    token, first = (float(np.asarray(each)) for each in (spread.token, spread.first))
    limits = request_limits(stated_limits(_limits_at(inputs.case.scenario.limits, float(np.exp(sign * TENTH * token)))))
    if limits.first is not None:
        limits = replace(limits, first=limits.first / float(np.exp(sign * TENTH * max(first - token, 0.0))))
    with term("requests in time"), np.errstate(all="ignore"):
        return in_time(limits, columns.__getitem__)


def _by_clock(value: Number, sign: float, spread: ServingSpreads) -> Number:
    """A result in the time of users, where it is one in time."""
    if not sign:
        return value
    return (ninetieth_percentile if sign > 0 else tenth_percentile)(value, spread.token)


def at_factor(inputs: ServingInputs, factor: float) -> ServingInputs:
    """The scenario by a clock that runs so many times as fast: its load, and the limits on its results."""
    scenario = inputs.case.scenario
    workload, assume = scenario.workload, scenario.assume
    load = {name: getattr(workload, name) for name in ("rate", "think_time")}
    changed = {
        "rate": None if load["rate"] is None else load["rate"] * factor,
        "think_time": None if load["think_time"] is None else load["think_time"] / factor,
    }
    updated: dict[str, object] = {
        "workload": workload.model_copy(update=changed),
        "limits": _limits_at(scenario.limits, factor),
    }
    if assume.growth is not None:
        growth = assume.growth.model_copy(update={"rate": assume.growth.rate * factor})
        updated["assume"] = assume.model_copy(update={"growth": growth})
    return replace(inputs, case=replace(inputs.case, scenario=scenario.model_copy(update=updated)))


def _limits_at(limits: Document, factor: float) -> Document:
    """The limits on results, by another clock; the chance to keep them is asked for by any."""
    found: dict[str, object] = {}
    for key, bound in limits:
        stated = {name: getattr(bound, name) for name in _BOUNDS if getattr(bound, name) is not None}
        power = exponent(key) if stated and key != "memory" else 0
        if power:
            later = {name: value / factor if power > 0 else value * factor for name, value in stated.items()}
            found[key] = bound.model_copy(update=later)
    return limits.model_copy(update=found)
