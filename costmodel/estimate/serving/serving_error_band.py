"""The band of every figure of a serving plan that depends on times: what it is where steps take longer or shorter.

All times of hardware and engine are off by one factor. Plans at both ends of it are evaluated as rows of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

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
from costmodel.estimate.serving.evaluate_disaggregated import DisaggregatedEvaluation
from costmodel.estimate.serving.evaluate_layouts import ServingEvaluation
from costmodel.estimate.serving.load import loads_under_cap
from costmodel.estimate.serving.measured_spreads import (
    ENDLESS,
    ServingSpreads,
    answers_bring_requests,
    exchanges,
    first_token_share,
    further_spread,
    moves_with_answers,
    prompt_attention_share,
    prompts_are_short,
    spreads,
    widest,
)
from costmodel.estimate.serving.plan_columns import PlanColumns, where_rows
from costmodel.estimate.serving.service_limits import IN_TIME, OWN, in_time, request_limits
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.fit_ranges import OutsideFit, outside, widened
from costmodel.estimate.shared.results import Costs, number, stated_limits
from costmodel.ground.equation import Number, is_any, term

Evaluation = ServingEvaluation | DisaggregatedEvaluation
EndColumns = tuple[dict[str, Number], NDArray[np.bool_]]  # results, and which plans are overloaded
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
    return tenth_percentile(1.0, spread.earlier), ninetieth_percentile(1.0, spread.later)


def banded(inputs: ServingInputs, found: Evaluation, fast: EndColumns, slow: EndColumns) -> Costs:
    """Results with P10 and P90; `fast` and `slow` are of the plans with the factors of both ends."""
    loads = loads_under_cap(inputs)
    if loads is not None:
        rated, looped = (banded(each, found, fast, slow) for each in loads)
        arriving = float(inputs.case.scenario.workload.rate or 0.0)
        return where_rows(np.asarray(found.results.column("requests_per_s") < arriving), looped, rated)
    spread, results = spreads(inputs), found.results
    ends = [_results_at_end(inputs, found, each, spread, sign) for each, sign in ((fast, -1.0), (slow, 1.0))]
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
            most = _unused_rate_share(columns, ends[0]) if moves_with_answers(inputs, name) else None
            columns[f"{name}_low"], columns[f"{name}_high"] = _band_ends(columns[name], (low, high), beside, most)
    if answers_bring_requests(inputs):
        columns |= _answers_in_loop(inputs, columns)
    if inputs.case.scenario.workload.requests is not None:
        columns |= _first_token_band_in_batch(columns)
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


def _first_token_band_in_batch(columns: Mapping[str, Number]) -> dict[str, Number]:
    """P10 and P90 of time to first token in a batch, at most the makespan."""
    ends = [(f"{name}_{end}", f"makespan_{end}") for name in ("ttft", "ttft_p99") for end in ("low", "high")]
    return {name: np.minimum(columns[name], columns[last]) for name, last in ends}


def is_of_bands(result: str) -> bool:
    """Whether a result needs an answer with bands: a P10 or P90, the chance to meet limits, or requests in time."""
    return result in (OWN, *IN_TIME) or result.endswith(("_low", "_high"))


def _unused_rate_share(columns: Mapping[str, Number], fast: Mapping[str, Number]) -> Number:
    """How much of a higher rate a closed loop could use at the upper end of the band."""
    with term("saturation at most"), np.errstate(all="ignore"):
        return np.maximum(share(fast["saturation_per_s"], columns["requests_per_s"]), 1.0)


def _band_ends(
    middle: Number, ends: tuple[Number, Number], beside: Number, most: Number | None = None
) -> tuple[Number, Number]:
    """P10 and P90 of a result with another error, which moves it by no more than the factor `most`."""
    with np.errstate(invalid="ignore"):
        least = np.where(np.isfinite(middle), ROUNDED * np.abs(middle), 0.0)
        low, high = (np.where(np.abs(end - middle) <= least, middle, end) for end in ends)
    low, high = np.minimum(low, middle), np.maximum(high, middle)
    if not is_any(beside):
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


def _results_at_end(
    inputs: ServingInputs, found: Evaluation, other: EndColumns, spread: ServingSpreads, sign: float
) -> Mapping[str, Number]:
    """The results at one end of the error band; infinite latencies if the plan is then overloaded."""
    columns: Mapping[str, Number] = other[0]
    if IN_TIME[0] in columns and not np.all(np.isnan(np.asarray(found.results.columns[IN_TIME[0]]))):
        columns = {**columns, **_in_time_at_end(inputs, columns, spread, sign)}
    over = other[1] & ~found.overloaded
    if not np.any(over):
        return columns
    return {name: np.where(over, np.inf, value) if name in ENDLESS else value for name, value in columns.items()}


def _in_time_at_end(
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


def beyond_fits(
    inputs: ServingInputs, columns: Sequence[PlanColumns], costs: Mapping[str, float]
) -> tuple[OutsideFit, ...]:
    """Sizes of one plan outside the range of a fit, if they take a noticeable share of a token or of the first token.

    columns: of its replicas, or of its two halves, those for prompts first
    """
    return (*_exchanges_outside(inputs, columns[-1], costs), *_prompts_outside(inputs, columns[0], costs))


def outside_any_fit(inputs: ServingInputs, layout: PlanColumns) -> bool:
    """Whether a collective's ranks or the prompt length lie outside the range of their fits."""
    everything = dict.fromkeys(("tpot", "tp_exposed", "ep_exposed"), 1.0)
    return prompts_are_short(inputs) or any(True for _ in _exchanges_outside(inputs, layout, everything))


def _prompts_outside(inputs: ServingInputs, layout: PlanColumns, costs: Mapping[str, float]) -> Iterator[OutsideFit]:
    """Prompt attention outside the lengths of its fit, if it takes a noticeable share of time to first token."""
    if prompts_are_short(inputs) and math.isfinite(costs.get("ttft", math.nan)):
        part = number(prompt_attention_share(inputs, layout, costs.__getitem__))
        yield from outside(
            inputs.kernels.prompt.fitted, "attention to prompts", part, tokens=number(inputs.load.computed)
        )


def _exchanges_outside(inputs: ServingInputs, layout: PlanColumns, costs: Mapping[str, float]) -> Iterator[OutsideFit]:
    """Collectives of one plan over numbers of ranks outside their fits."""
    for name, fit, ranks, inside in exchanges(inputs, layout):
        what = "all-reduce" if name == "tp_exposed" else "exchange of experts"
        if np.all(inside):
            yield from outside(fit.fitted, what, costs[name] / costs["tpot"], ranks=number(ranks))


def term_bands(inputs: ServingInputs, layout: PlanColumns, columns: Mapping[str, Number]) -> dict[str, Number]:
    """P10 and P90 of every term; NaN for a term whose kernels were not measured."""
    spreads = dict(term_spreads(inputs, layout))
    found: dict[str, Number] = {}
    for name in banded_results(SERVING_RESULTS, "term"):
        with term(f"band of {name}"):
            spread = spreads.get(name)
            for end, percentile in (("low", tenth_percentile), ("high", ninetieth_percentile)):
                found[f"{name}_{end}"] = np.nan if spread is None else percentile(columns[name], spread)
    return found


def term_spreads(inputs: ServingInputs, layout: PlanColumns) -> Iterator[tuple[str, Number | None]]:
    """Spread of each term with measured kernels; latent attention, state space and host time were not measured."""
    efficiency, types, network = inputs.case.efficiency, inputs.types, inputs.case.network.network
    products = [types.fit, types.fit_wide, *((inputs.experts,) if inputs.model.has_experts else ())]
    yield "matmul", widest(*products) if types.measured and inputs.host_experts is None else None
    mixing = [kind for kind in inputs.model.layers if kind.heads is not None]
    plain = all(kind.attention and not (kind.latent or kind.compressed or kind.scan_heads) for kind in mixing)
    yield "attention", widest(inputs.kernels.decode) if plain else None
    yield "memory_bound", widest(efficiency.memory)
    own = inputs.kernels.all_reduce if inputs.engine.kernels.own_all_reduce else None
    reduced = widest(*(() if own is None else (own,)), inputs.collectives["all_reduce"])
    inside = np.asarray(layout.tp) <= inputs.domain
    if reduced is not None:
        reduced = widened(reduced, (own or inputs.collectives["all_reduce"]).fitted, ranks=layout.tp)
    yield "tp_exposed", None if reduced is None else np.where(inside, reduced, np.nan)
    for name in ("transfer_time", "transfer_exposed"):
        yield name, widest(network)
