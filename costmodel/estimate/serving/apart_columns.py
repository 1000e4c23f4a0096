"""Result columns of plans with separate prefill and decode."""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share, token_cost
from costmodel.equations.serving.cache_pool import residency_time
from costmodel.equations.serving.serving_economics import prefill_decode_ratio
from costmodel.equations.serving.steady_state import requests_in_flight
from costmodel.estimate.machine.price import price_per_accelerator
from costmodel.estimate.serving.deployment_rent import rent_columns, rent_needed
from costmodel.estimate.serving.engine_memory import EngineMemoryUse
from costmodel.estimate.serving.engine_step import StepTime
from costmodel.estimate.serving.host_loading import HOST_COLUMNS
from costmodel.estimate.serving.instances import CacheTransfer
from costmodel.estimate.serving.memory_columns import memory_columns
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.token_energy import busy_share_apart, energy_per_token
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class SeenApart:
    """Latencies that users get at a rate, and the utilisation of prefill instances."""

    ttft: Number
    ttft_p99: Number
    tpot: Number
    tpot_p99: Number
    worst_gap: Number
    latency: Number
    busy: Number


@record
class ApartRates:
    """Requests per second: served, at most, within limits, and of each kind of instance; and instances needed."""

    load: Number
    most: Number
    within: Number
    prefill: Number
    decode: Number
    prefill_needed: Number
    decode_needed: Number


def apart_columns(
    inputs: ServingInputs,
    halves: tuple[PlanColumns, PlanColumns],
    memories: tuple[EngineMemoryUse, EngineMemoryUse],
    step: StepTime,
    transfer: CacheTransfer,
    seen: SeenApart,
    rates: ApartRates,
) -> dict[str, Number]:
    """All results with separate prefill and decode; memory and requests in flight are of a decode instance."""
    load, (prefill, decode) = inputs.load, halves
    with term("accelerators"):
        prompts, answers = prefill.replicas * prefill.ranks, decode.replicas * decode.ranks
        gpus = prompts + answers
    columns = _times(inputs, step, seen)
    columns |= {
        "prefix_residency": _residency(inputs, decode, memories[1], rates),
        "requests_per_s": rates.load,
        "output_tokens_per_s": load.generated * rates.load,
        "total_tokens_per_s": (load.generated + load.prompt) * rates.load,
        "tokens_per_s_per_gpu": load.generated * rates.load / gpus,
        "concurrency": requests_in_flight(rates.load, load.output, seen.tpot) / decode.replicas,
        "saturation_share": share(rates.load, rates.most),
        "saturation_per_s": rates.most,
        "rate_within_slo_per_s": rates.within,
        "replicas": prefill.replicas + decode.replicas,
        "gpus": gpus,
        "transfer_time": transfer.time,
        "transfer_exposed": transfer.exposed,
        "prefill_utilisation": seen.busy,
    }
    columns |= memory_columns(inputs, decode, memories[1]) | dict.fromkeys(HOST_COLUMNS, np.nan)
    prompts_share = memory_columns(inputs.prompts or inputs, prefill, memories[0])["memory_share"]
    columns["memory_share"] = np.maximum(prompts_share, columns["memory_share"])
    columns["prefill_per_decode"] = _ratio(inputs, halves, rates)
    columns |= _rents(inputs, prompts, answers) | {"accepted_tokens": load.accepted}
    columns |= dict.fromkeys(("speculation_gain", "speculation_break_even", "makespan", "tail_share"), np.nan)
    busy = busy_share_apart(inputs, prompts, seen.busy, answers, columns["concurrency"])
    alike = inputs.prompts is None  # power is of one kind of nodes
    columns["energy_per_token"] = energy_per_token(inputs, busy, columns) if alike else np.nan
    return columns | _money(inputs, prompts, answers, rates) | _within(inputs, halves, gpus, rates)


def _residency(inputs: ServingInputs, decode: PlanColumns, memory: EngineMemoryUse, rates: ApartRates) -> Number:
    """Time that an unused prefix stays in the cache of a decode instance."""
    with term("new tokens"):
        each, added = rates.load / decode.replicas, inputs.load.computed + inputs.load.generated
    with np.errstate(divide="ignore", invalid="ignore"):
        return residency_time(memory.tokens, each, added)


def _times(inputs: ServingInputs, step: StepTime, seen: SeenApart) -> dict[str, Number]:
    load = inputs.load
    step = step if load.verified == 1 else step.times(1.0 / load.accepted)
    return {
        "ttft": seen.ttft,
        "ttft_p99": seen.ttft_p99,
        "tpot": seen.tpot,
        "tpot_p99": seen.tpot_p99,
        "worst_gap": seen.worst_gap,
        "latency": seen.latency,
        "tokens_per_s_per_user": rate_of(1.0, seen.tpot),
        "interference_share": 0.0,
        "prefix_hit": share(load.hit, load.prompt),
        "matmul": step.matmul,
        "attention": step.attention,
        "memory_bound": step.memory_bound,
        "tp_exposed": step.tp,
        "ep_exposed": step.ep,
        "dcp_exposed": step.dcp,
        "pp_exposed": step.pp,
        "host_time": step.host,
        "draft_time": step.draft,
        "prompts_between": 0.0,
    }


def _ratio(inputs: ServingInputs, halves: tuple[PlanColumns, PlanColumns], rates: ApartRates) -> Number:
    """Prefill instances per decode instance at which neither kind waits."""
    load, (prefill, decode) = inputs.load, halves
    with term("an instance"):
        prompts = load.computed * rates.prefill / prefill.replicas
        answers = load.generated * rates.decode / decode.replicas
    return prefill_decode_ratio(load.computed, prompts, load.generated, answers)


def _money(inputs: ServingInputs, prompts: Number, answers: Number, rates: ApartRates) -> dict[str, Number]:
    """Rent of prefill over input tokens, and of decode over output tokens; both include idle time."""
    first, price, load = _price_of_prompts(inputs), price_per_accelerator(inputs.case), inputs.load
    with term("tokens"):
        read, written = load.prompt * rates.load, load.generated * rates.load
    return {
        "cost_per_minput": token_cost(1e6, prompts, first, read),
        "cost_per_moutput": token_cost(1e6, answers, price, written),
        "cost_per_mtoken": token_cost(1e6, *_priced(inputs, prompts, answers), written),
    }


def _price_of_prompts(inputs: ServingInputs) -> Number:
    return price_per_accelerator((inputs.prompts or inputs).case)


def _priced(inputs: ServingInputs, prompts: Number, answers: Number) -> tuple[Number, Number]:
    """Accelerators of both kinds of instances, and their mean price."""
    price = price_per_accelerator(inputs.case)
    with term("accelerators"):
        gpus = prompts + answers
    if inputs.prompts is None:
        return gpus, price
    with term("mean price"):
        return gpus, (prompts * _price_of_prompts(inputs) + answers * price) / gpus


def _rents(inputs: ServingInputs, prompts: Number, answers: Number) -> dict[str, Number]:
    """Nodes of both kinds of instances, and their rent."""
    if inputs.prompts is None:
        with term("accelerators"):
            gpus = prompts + answers
        return rent_columns(inputs, gpus, np.nan)
    both = (rent_columns(each, gpus, np.nan) for each, gpus in ((inputs.prompts, prompts), (inputs, answers)))
    first, second = both
    with term("both kinds"):
        return {name: first[name] + second[name] for name in first}


def _within(
    inputs: ServingInputs, halves: tuple[PlanColumns, PlanColumns], gpus: Number, rates: ApartRates
) -> dict[str, Number]:
    """Tokens and cost at the rate within limits, and the instances that the load needs."""
    prefill, decode = halves
    with term("accelerators"):
        prompts, answers = prefill.replicas * prefill.ranks, decode.replicas * decode.ranks
    _, price = _priced(inputs, prompts, answers)
    with term("within limits"):
        tokens = inputs.load.generated * rates.within
    with np.errstate(divide="ignore"):
        cost = token_cost(1e6, gpus, price, tokens)
    with term("instances needed"):
        needed = rates.prefill_needed * prefill.ranks + rates.decode_needed * decode.ranks
    return {
        "tokens_per_gpu_within_limits": tokens / gpus,
        "cost_within_limits": cost,
        "replicas_needed": rates.prefill_needed + rates.decode_needed,
        "prefill_needed": rates.prefill_needed,
        "decode_needed": rates.decode_needed,
        "gpus_needed": needed,
        "rent_needed": _rent_needed(inputs, halves, rates),
    }


def _rent_needed(inputs: ServingInputs, halves: tuple[PlanColumns, PlanColumns], rates: ApartRates) -> Number:
    """Rent per month of the instances that the load needs."""
    with term("instances needed"):
        prompts, answers = rates.prefill_needed * halves[0].ranks, rates.decode_needed * halves[1].ranks
    if inputs.prompts is None:
        with term("instances needed"):
            return rent_needed(inputs, prompts + answers)
    with term("both kinds"):
        return rent_needed(inputs.prompts, prompts) + rent_needed(inputs, answers)
