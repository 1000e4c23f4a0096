"""How far the results of a serving plan may be off: by its steps, its first tokens, its cache pool and its power.

All step times are off by one factor. First tokens have an error beside it, and so have the cache pool and power.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.efficiency import CollectiveFit, Fitted, OwnReduceFit
from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import combined_error, earlier_spread, residual_spread, slower_spread
from costmodel.equations.serving.service_level import remaining_error
from costmodel.estimate.serving.engine_step import prompt_time
from costmodel.estimate.serving.expert_step import is_dispatched
from costmodel.estimate.serving.plan_columns import PlanColumns, crosses_domains, engine_group
from costmodel.estimate.serving.serving_inputs import ServingInputs, never_fitted
from costmodel.estimate.shared.fit_ranges import error_outside, is_outside
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.record import record

OF_FIRST = frozenset({"ttft", "ttft_p99"})
ENDLESS = OF_FIRST | {"latency"}  # where more arrives than is answered
OF_POOL = frozenset({
    "cache_pool", "cache_pool_tokens", "concurrency_worst", "concurrency_steady", "prefix_residency",
})  # fmt: skip
OF_POWER = frozenset({"energy_per_token"})
_OF_STEPS = frozenset({
    "tpot", "tpot_p99", "tokens_per_s_per_user", "worst_gap", "latency", "saturation_per_s", "rate_within_slo_per_s",
    "tokens_per_gpu_within_limits", "cost_within_limits",
})  # fmt: skip
OF_ANSWERS = frozenset({  # exact at a stated rate, off where the load waits for answers
    "requests_per_s", "output_tokens_per_s", "total_tokens_per_s", "tokens_per_s_per_gpu", "makespan",
    "cost_per_minput", "cost_per_moutput", "cost_per_mtoken", "cost_of_batch", "energy_per_token",
})  # fmt: skip


@record
class ServingSpreads:
    """Relative spreads of step times, time to first token (and its part beside steps), KV-cache pool and power."""

    token: Number  # of step times as an engine that was measured has them
    earlier: Number  # towards shorter ones
    later: Number  # towards longer ones
    first: Number
    first_beside_steps: Number
    pool: Number
    power: Number

    def steps(self, slower: NDArray[np.bool_] | bool) -> Number:
        """Spread of step times, towards longer ones where `slower` is true, else towards shorter ones."""
        return self.token if self.later is self.token else np.where(slower, self.later, self.earlier)


def spreads(inputs: ServingInputs, *layouts: PlanColumns) -> ServingSpreads:
    """Spreads fitted on the engine's runs, widened for accelerators and layouts without runs.

    layouts: plans, or the halves of plans, each of which gets its spread; without them that of `inputs` alone
    """
    spread = inputs.engine.spread
    token: Number = spread.experts if inputs.model.has_experts else spread.tpot
    first: Number = spread.ttft
    if is_unmeasured(inputs):
        token, first = (_with_memory_spread(inputs, each) for each in (token, first))
    slower = inputs.case.common.engines
    if slower is not None and never_ran(inputs):
        first = np.maximum(first, slower.first)
    if np.any(inputs.beyond):
        token, first = (combined_error(each, inputs.beyond) for each in (token, first))
    if np.any(inputs.beyond_first):
        first = combined_error(first, inputs.beyond_first)
    beside, earlier, later, new = remaining_error(first, token), token, token, is_new_ground(inputs)
    crossing = np.any([crosses_domains(inputs, each) for each in layouts if not new], axis=0)
    if slower is not None and (new or np.any(crossing)):
        with term("never measured"):
            earlier, later = earlier_spread(token, slower.slower), slower_spread(token, 1.0, slower.slower)
        if not new and not np.all(crossing):
            earlier, later = (np.where(crossing, each, token) for each in (earlier, later))
    return ServingSpreads(token, earlier, later, first, beside, spread.pool, _power_spread(inputs))


def is_new_ground(inputs: ServingInputs) -> bool:
    """Whether no fitted benchmark is like this: maker, tp across domains, host experts, mixed batch, odd heads."""
    unlike = of_unlike_batch(inputs) or odd_latent_heads(inputs) > 0
    return inputs.crosses or inputs.host_experts is not None or unlike or never_ran(inputs)


def odd_latent_heads(inputs: ServingInputs) -> float:
    """Heads of latent attention that are no power of two, which its kernels and all fitted benchmarks have; else 0."""
    counts = (kind.latent.heads for kind in inputs.model.layers if kind.latent is not None)
    return next((heads for heads in counts if round(heads).bit_count() != 1), 0.0)


def of_unlike_batch(inputs: ServingInputs) -> bool:
    """Whether all requests are sent at once with answers of different length, which no fitted benchmark does."""
    return inputs.case.scenario.workload.requests is not None and inputs.load.output_spread > 0


def never_ran(inputs: ServingInputs) -> bool:
    """Whether no benchmark of the engine, or of its stand-in, ran on accelerators of this maker."""
    measured, engine, maker = inputs.case.common.engines, inputs.engine, inputs.case.accelerator.vendor
    if measured is None:
        return False
    runs = measured.runs.get(engine.name, measured.runs.get(engine.like or "", {}))
    return maker not in runs and maker not in measured.compared.get(engine.name, {})


def is_unmeasured(inputs: ServingInputs) -> bool:
    """Whether the accelerator's kernels were not measured with these types, so that other accelerators' bands apply."""
    return never_fitted(inputs) or not inputs.types.measured


def _power_spread(inputs: ServingInputs) -> Number:
    """Spread of power; 0 if the scenario states the power."""
    scenario, practice = inputs.case.scenario, inputs.case.practice
    return 0.0 if scenario.assume.power is not None or practice is None else practice.serving.spread


def _with_memory_spread(inputs: ServingInputs, spread: Number) -> Number:
    """A spread of the engine's runs combined with that of memory traffic over all accelerators."""
    memory = inputs.case.common.memory
    fitted = None if memory is None else memory.fitted
    assert fitted is not None  # of unmeasured.yaml
    assert fitted.median is not None
    assert fitted.p90 is not None
    return combined_error(spread, residual_spread(fitted.median, fitted.p90))


def further_spread(found: ServingSpreads, column: str) -> Number:
    """The spread of a result in addition to that of step times."""
    if column in OF_POOL:
        return found.pool
    return found.power if column in OF_POWER else 0.0


def moves_with_steps(inputs: ServingInputs, column: str) -> bool:
    """Whether an error of step times changes a result."""
    if column == "saturation_share":  # a load that waits for answers slows down as saturation does
        return not inputs.case.scenario.workload.at_once
    return column in _OF_STEPS or column in OF_FIRST or moves_with_answers(inputs, column)


def moves_with_answers(inputs: ServingInputs, column: str) -> bool:
    """Whether a result depends on the rate of answers in a load without a stated request rate."""
    return inputs.case.scenario.workload.rate is None and column in OF_ANSWERS


def answers_bring_requests(inputs: ServingInputs) -> bool:
    """Whether the load is a closed loop, where each answer brings the next request."""
    workload = inputs.case.scenario.workload
    return workload.rate is None and workload.requests is None


def first_token_share(inputs: ServingInputs, column: str, result: Callable[[str], Number]) -> Number:
    """The share of a result that is time to first token, which has a further error.

    If the next request waits for an answer, without the wait for a slot: step times alone determine that wait. For
    users with think time, the wait counts with the first token: it is not known apart from their own prompt.
    """
    of_first, waits = column in OF_FIRST, answers_bring_requests(inputs) and not inputs.case.scenario.workload.users
    rates = moves_with_answers(inputs, column) and column not in ("makespan", "cost_of_batch")
    if of_first and not waits:
        return 1.0
    if not of_first and column != "latency" and not rates:
        return 0.0
    first, whole = result("ttft"), result("latency")
    with np.errstate(divide="ignore", invalid="ignore"), term("of an answer"):
        line = _slot_wait(result) if rates or waits else 0.0
        part = share(np.maximum(first - line, 0.0), first if of_first else whole - line)
    return np.where(np.isfinite(part), part, 1.0)


def _slot_wait(result: Callable[[str], Number]) -> Number:
    """Wait for a slot as part of the latency, by Little's law; 0 with separate prefill and decode."""
    slots = result("replicas") * result("concurrency")
    line = np.maximum(result("latency") - share(slots, result("requests_per_s")), 0.0)
    return np.where(np.isnan(result("transfer_time")), line, 0.0)


def endless(columns: Mapping[str, Number], over: NDArray[np.bool_]) -> dict[str, Number]:
    """The latencies with infinity for overloaded plans; empty if no plan is overloaded."""
    return {name: np.where(over, np.inf, columns[name]) for name in ENDLESS} if np.any(over) else {}


# Beyond fits: exchanges over more or fewer ranks than measured, and prompts that are shorter.


class Fit(Protocol):
    """A fit of kernels."""

    @property
    def fitted(self) -> Fitted | None:
        """The range and the residual of the fit."""


def widest(*fits: Fit | None) -> Number | None:
    """The largest spread of a term's kernels; None if one of them was not measured."""
    spreads: list[Number] = []
    for fit in fits:
        fitted = None if fit is None else fit.fitted
        if fitted is None or fitted.median is None or fitted.p90 is None:
            return None
        spreads.append(residual_spread(fitted.median, fitted.p90))
    return max(spreads, key=float)


def with_beyond(
    inputs: ServingInputs, columns: Sequence[PlanColumns], result: Callable[[str], Number]
) -> ServingInputs:
    """Inputs with the errors of their plans from sizes outside fits; as they are if these are known.

    columns: the plans, or the halves of plans, those for prompts first
    """
    if np.any(inputs.beyond) or np.any(inputs.beyond_first):
        return inputs
    steps, first = spreads_beyond(inputs, columns, result)
    return replace(inputs, beyond=steps, beyond_first=first)


def spreads_beyond(
    inputs: ServingInputs, columns: Sequence[PlanColumns], result: Callable[[str], Number]
) -> tuple[Number, Number]:
    """Extra spreads of time per token and time to first token from sizes outside fits."""
    with untraced(), np.errstate(all="ignore"):
        return _error_of_exchanges(inputs, columns[-1], result), _error_of_prompts(inputs, columns[0], result)


def _error_of_exchanges(inputs: ServingInputs, layout: PlanColumns, result: Callable[[str], Number]) -> Number:
    """Relative error of the time per token from exchanges between more ranks than were fitted."""
    error: Number = 0.0
    for name, fit, ranks, inside in exchanges(inputs, layout):
        spread = widest(fit)
        if spread is None:
            spread = widest(inputs.case.common.collectives["all_gather"])
        part = np.where(inside, share(result(name), result("tpot")), 0.0)
        error = combined_error(error, error_outside(0.0 if spread is None else spread, fit.fitted, part, ranks=ranks))
    return error


def exchanges(
    inputs: ServingInputs, layout: PlanColumns
) -> Iterator[tuple[str, OwnReduceFit | CollectiveFit, Number, NDArray[np.bool_]]]:
    """Collectives of a step: its term, the fit, the ranks, and whether they lie inside a domain."""
    tp, experts = (engine_group(inputs, layout, *each) for each in (("tp", layout.tp), ("ep", layout.stage_ranks)))
    own = inputs.kernels.all_reduce if inputs.engine.kernels.own_all_reduce else None
    yield "tp_exposed", own or inputs.collectives["all_reduce"], tp.ranks, np.asarray(tp.domains == 1)
    if layout.grouped:
        gathered = np.asarray(experts.domains == 1) & ~is_dispatched(inputs, layout)
        yield "ep_exposed", inputs.collectives["all_gather"], experts.ranks, gathered


def prompts_are_short(inputs: ServingInputs) -> bool:
    """Whether prompts are shorter than those on which prompt attention was fitted."""
    return is_outside(inputs.kernels.prompt.fitted, tokens=inputs.load.computed)


def prompt_attention_share(inputs: ServingInputs, layout: PlanColumns, result: Callable[[str], Number]) -> Number:
    """Attention of a prompt as a share of time to first token."""
    with untraced(), np.errstate(all="ignore"):
        return share(prompt_time(inputs, layout, inputs.load.computed * np.ones(len(layout))).attention, result("ttft"))


def _error_of_prompts(inputs: ServingInputs, layout: PlanColumns, result: Callable[[str], Number]) -> Number:
    spread, fitted = widest(inputs.kernels.prompt), inputs.kernels.prompt.fitted
    if spread is None or not prompts_are_short(inputs):
        return 0.0
    part = prompt_attention_share(inputs, layout, result)
    return error_outside(spread, fitted, part, tokens=inputs.load.computed)
