"""The band of every figure of a serving plan that depends on times: what it is where steps take longer or shorter.

All times of hardware and engine are off by one factor. Plans at both ends of it are evaluated as rows of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.results import SERVING_RESULTS, banded_results
from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import (
    TENTH,
    combined_error,
    end_spread,
    ninetieth_percentile,
    tenth_percentile,
    term_error,
)
from costmodel.equations.serving.closed_loop import answer_time_of_users
from costmodel.estimate.serving.evaluate_apart import ApartEvaluation
from costmodel.estimate.serving.evaluate_layouts import ServingEvaluation
from costmodel.estimate.serving.limits_chance import OWN
from costmodel.estimate.serving.load import loads_of
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.replica_kinds import where_rows
from costmodel.estimate.serving.requests_in_time import IN_TIME, in_time, request_limits
from costmodel.estimate.serving.serving_band import (
    ENDLESS,
    ServingSpreads,
    answers_bring_requests,
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
ROUNDED = 1e-9  # of a figure that no factor on times moves
_RARELY = 10.0  # times the time of an answer, from which on users come back at their own pace


def with_ends(inputs: ServingInputs, layout: PlanColumns) -> PlanColumns:
    """Each plan three times: as it is, and with all times at P10 and at P90 of their error."""
    count, sizes = len(layout), layout.at(np.tile(np.arange(len(layout)), 3))
    ends = [float(np.asarray(each)) for each in end_factors(inputs)]
    return replace(sizes, time_factor=np.repeat([1.0, *ends], count))


def end_factors(inputs: ServingInputs) -> tuple[Number, Number]:
    """Factors on all times at P10 and at P90 of their error."""
    spread = spreads(inputs)
    return tenth_percentile(1.0, spread.token), ninetieth_percentile(1.0, spread.later)


def banded(inputs: ServingInputs, found: Evaluation, fast: Evaluation, slow: Evaluation) -> Costs:
    """Results with P10 and P90; `fast` and `slow` are evaluations of the plans with the factors of both ends."""
    loads = loads_of(inputs)
    if loads is not None:
        rated, looped = (banded(each, found, fast, slow) for each in loads)
        arriving = float(inputs.case.scenario.workload.rate or 0.0)
        return where_rows(np.asarray(found.results.column("requests_per_s") < arriving), looped, rated)
    spread, results = spreads(inputs), found.results
    ends = [_end(inputs, found, each, spread, sign) for each, sign in ((fast, -1.0), (slow, 1.0))]
    columns = dict(results.columns)
    for name in banded_results(SERVING_RESULTS):
        if name not in columns:
            continue
        with term(f"band of {name}"):
            beside = combined_error(
                term_error(spread.first_beside_steps, first_token_share(inputs, name, columns.__getitem__)),
                further_spread(spread, name),
            )
            low, high = (pick(ends[0][name], ends[1][name]) for pick in (np.minimum, np.maximum))
            most = _room(columns, ends[0]) if moves_with_answers(inputs, name) else None
            columns[f"{name}_low"], columns[f"{name}_high"] = _ends(columns[name], (low, high), beside, most)
    if answers_bring_requests(inputs):
        columns |= _answers_in_loop(inputs, columns)
    if inputs.case.scenario.workload.requests is not None:
        columns |= _within_batch(columns)
    return Costs(columns | term_bands(inputs, found.layout, columns), results.rows)


def _answers_in_loop(inputs: ServingInputs, columns: Mapping[str, Number]) -> dict[str, Number]:
    """P10 and P90 of latency in a closed loop: by Little's law, at the highest and the lowest rate.

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


def _within_batch(columns: Mapping[str, Number]) -> dict[str, Number]:
    """P10 and P90 of time to first token in a batch, at most the makespan."""
    ends = [(f"{name}_{end}", f"makespan_{end}") for name in ("ttft", "ttft_p99") for end in ("low", "high")]
    return {name: np.minimum(columns[name], columns[last]) for name, last in ends}


def is_of_bands(result: str) -> bool:
    """Whether a result needs an answer with bands: a P10 or P90, the chance to meet limits, or requests in time."""
    return result in (OWN, *IN_TIME) or result.endswith(("_low", "_high"))


def _room(columns: Mapping[str, Number], fast: Mapping[str, Number]) -> Number:
    """Upper end of saturation over the rate of a closed loop, which limits how far a first token can raise the rate."""
    with term("saturation at most"), np.errstate(all="ignore"):
        return np.maximum(share(fast["saturation_per_s"], columns["requests_per_s"]), 1.0)


def _ends(
    middle: Number, ends: tuple[Number, Number], beside: Number, most: Number | None = None
) -> tuple[Number, Number]:
    """P10 and P90 of a result with an error besides that of step times.

    most: factor on the figure, up or down, that this further error does not move it beyond
    """
    with np.errstate(invalid="ignore"):
        least = np.where(np.isfinite(middle), ROUNDED * np.abs(middle), 0.0)
        low, high = (np.where(np.abs(end - middle) <= least, middle, end) for end in ends)
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


def _end(
    inputs: ServingInputs, found: Evaluation, other: Evaluation, spread: ServingSpreads, sign: float
) -> Mapping[str, Number]:
    """Results at one end of the band; infinite latencies where the plan is then overloaded."""
    columns: Mapping[str, Number] = other.results.columns
    if IN_TIME[0] in columns and not np.all(np.isnan(np.asarray(found.results.columns[IN_TIME[0]]))):
        columns = {**columns, **_in_time(inputs, columns, spread, sign)}
    over = other.overloaded & ~found.overloaded
    if not np.any(over):
        return columns
    return {name: np.where(over, np.inf, value) if name in ENDLESS else value for name, value in columns.items()}


def _in_time(
    inputs: ServingInputs, columns: Mapping[str, Number], spread: ServingSpreads, sign: float
) -> dict[str, Number]:
    """Requests in time at one end of the band; time to first token moves more than step time."""
    steps = spread.steps(sign > 0)
    beyond = float(np.asarray(combined_error(steps, spread.first_beside_steps) - steps))
    limits = request_limits(stated_limits(inputs.case.scenario.limits))
    if limits.first is not None:
        limits = replace(limits, first=limits.first / float(np.exp(sign * TENTH * beyond)))
    with term("requests in time"), np.errstate(all="ignore"):
        return in_time(limits, columns.__getitem__)
