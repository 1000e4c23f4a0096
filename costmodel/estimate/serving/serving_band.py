"""The error band of a serving plan, and the chance to meet its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from costmodel.documents.schemas.serving.serving_results import BANDED
from costmodel.equations.run.uncertainty import (
    chance_within,
    combined_error,
    ninetieth_percentile,
    residual_spread,
    tenth_percentile,
)
from costmodel.estimate.serving.serving_inputs import ServingInputs, never_fitted
from costmodel.estimate.shared.limits import Limit
from costmodel.estimate.shared.results import Costs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

OF_FIRST = frozenset({"ttft", "ttft_p99"})
OF_POOL = frozenset({"cache_pool", "cache_pool_tokens", "concurrency_worst", "concurrency_steady"})
_OF_STEPS = (
    "tpot",
    "tpot_p99",
    "tokens_per_s_per_user",
    "worst_gap",
    "latency",
    "saturation_per_s",
    "rate_within_slo_per_s",
)
_AT_LIMITS = ("tokens_per_gpu_within_limits", "cost_within_limits")
_OF_TOKENS = ("requests_per_s", "output_tokens_per_s", "total_tokens_per_s", "tokens_per_s_per_gpu", "makespan")
_OF_RENT = ("cost_per_minput", "cost_per_moutput", "cost_per_mtoken", "cost_of_batch")
OF_POWER = frozenset({"energy_per_token"})
OF_TOKEN = frozenset({*_OF_STEPS, *_AT_LIMITS})
OF_ANSWERS = frozenset({*_OF_TOKENS, *_OF_RENT})  # exact at a stated rate, off where the load waits for answers
SMALLEST = 1e-12  # of an amount, for a logarithm
OWN = "limits_chance"  # the result itself


@record
class ServingSpreads:
    """Spreads of the time per token, the first token and the cache pool around predictions."""

    token: Number
    first: Number
    pool: Number
    power: Number


def spreads(inputs: ServingInputs) -> ServingSpreads:
    """Spreads of the engine's runs; of parts whose engine was never measured, with that of memory traffic over all."""
    spread = inputs.engine.spread
    token: Number = spread.experts if inputs.model.has_experts else spread.tpot
    first: Number = spread.ttft
    if never_fitted(inputs):
        token, first = (_of_kernels(inputs, each) for each in (token, first))
    return ServingSpreads(token, first, spread.pool, _of_power(inputs, token))


def _of_power(inputs: ServingInputs, token: Number) -> Number:
    """The spread of energy: of power, where it is not stated, and of the tokens that wait for their answers."""
    scenario, practice = inputs.case.scenario, inputs.case.practice
    drawn = 0.0 if scenario.assume.power is not None or practice is None else practice.serving.spread
    return drawn if scenario.workload.rate is not None else combined_error(drawn, token)


def _of_kernels(inputs: ServingInputs, spread: Number) -> Number:
    """A spread of the engine's runs with that of memory traffic over all parts, where kernels are of other parts."""
    memory = inputs.case.common.memory
    fitted = None if memory is None else memory.fitted
    assert fitted is not None  # of unmeasured.yaml
    assert fitted.median is not None
    assert fitted.p90 is not None
    return combined_error(spread, residual_spread(fitted.median, fitted.p90))


def banded(inputs: ServingInputs, results: Costs) -> Costs:
    """The results with the ends of their bands, log-normal."""
    found, columns = spreads(inputs), dict(results.columns)
    for name in BANDED:
        spread = getattr(found, _kind(name, closed=True))
        columns[f"{name}_low"] = tenth_percentile(columns[name], spread)
        columns[f"{name}_high"] = ninetieth_percentile(columns[name], spread)
    return Costs(columns, results.rows)


def limits_chance(
    inputs: ServingInputs, limits: Iterable[Limit], result: Callable[[str], Number], arriving: Number | None
) -> Number:
    """Chance that a request fits, that what arrives is answered, and that every limit is kept.

    Results of one kind are off together, so that the least chance of each kind counts; the kinds are independent.
    """
    least: dict[str, Number] = {}
    for kind, chance in _chances(inputs, limits, result, arriving):
        least[kind] = chance if kind not in least else np.minimum(least[kind], chance)
    chance = 1.0
    with term("every limit"):
        for each in least.values():
            chance = chance * each
    return chance


def _chances(
    inputs: ServingInputs, limits: Iterable[Limit], result: Callable[[str], Number], arriving: Number | None
) -> Iterator[tuple[str, Number]]:
    """Chances that each bound is kept, with the kind of its error; without an error it is kept or not."""
    found, closed = spreads(inputs), inputs.case.scenario.workload.rate is None
    with term("a request fits"):
        yield "pool", _within(1.0, np.maximum(result("concurrency_worst"), SMALLEST), found.pool)
    if arriving is not None:
        with term("the load is answered"):
            yield "token", _within(arriving, result("saturation_per_s"), found.token)
    for limit in limits:
        if limit.column == OWN:
            continue
        kind, value = _kind(limit.column, closed=closed), result(limit.column)
        if not kind:
            yield limit.column, np.where(limit.kept(np.asarray(value)), 1.0, 0.0)
            continue
        with term(f"keeps {limit.column}"):
            yield kind, _kept(limit, value, getattr(found, kind))


def _kind(column: str, *, closed: bool) -> str:
    """Whose error a result shares, if it has one."""
    if column in OF_TOKEN or (closed and column in OF_ANSWERS):
        return "token"
    kinds = {"first": OF_FIRST, "pool": OF_POOL, "power": OF_POWER}
    return next((kind for kind, columns in kinds.items() if column in columns), "")


def _kept(limit: Limit, value: Number, spread: Number) -> Number:
    if limit.kind == "at_most":
        return _within(value, limit.value, spread)
    if limit.kind == "at_least":
        return _within(limit.value, value, spread)
    low, high = ((1 + sign * limit.within) * limit.value for sign in (-1, 1))
    return _within(value, high, spread) - _within(value, low, spread)


def _within(amount: Number, allowance: Number, spread: Number) -> Number:
    """The chance that one amount is at most another, also where one of them is nothing or without end."""
    with np.errstate(all="ignore"):
        chance = chance_within(np.maximum(amount, SMALLEST), np.maximum(allowance, SMALLEST), spread)
    return np.where(np.isnan(chance), np.where(np.asarray(amount) <= allowance, 1.0, 0.0), chance)
