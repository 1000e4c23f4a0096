"""Cache that comes back from the host: tokens in reach, time over the link, and what prompts wait for it."""

from __future__ import annotations

import numpy as np

from costmodel.equations.memory.offload import link_time
from costmodel.equations.run.economics import share
from costmodel.equations.serving.cache_pool import history_variation, pool_tokens, residency_time, tokens_in_reach
from costmodel.equations.serving.queues import queue_wait
from costmodel.equations.serving.serving_economics import exposed_transfer_time
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.serving.engine_memory import EngineMemoryUse, stage_share
from costmodel.estimate.serving.kv_cache import cache_block, rank_cache
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, is_any, term
from costmodel.ground.record import record

HOST_COLUMNS = (
    "host_hit",
    "host_residency",
    "host_cache_tokens",
    "host_load_exposed",
    "host_load_gain",
    "host_link_utilisation",
)
BUSIEST = 0.999  # share of the link's time, for a wait that divides by the rest


@record
class HostLoading:
    """Loads of cached tokens from the host for one request, averaged over requests with and without loads.

    time: seconds on the link
    busy: seconds in which the link is busy with loads, or with stores if those take longer
    loads: share of requests that load
    exposed: seconds that a request which loads waits before its prompt starts or ends
    last: the same seconds for a conversation's last turn
    variation: standard deviation over mean of the loaded tokens
    """

    time: Number = 0.0
    busy: Number = 0.0
    loads: Number = 0.0
    exposed: Number = 0.0
    last: Number = 0.0
    variation: Number = 0.0


NOTHING = HostLoading()


def cached_bytes(inputs: ServingInputs, layout: PlanColumns, tokens: Number) -> Number:
    """Cache bytes of the given number of tokens of one sequence, on a rank of the most loaded stage."""
    return stage_share(inputs, layout) * rank_cache(inputs, layout, tokens)


def host_loading(inputs: ServingInputs, layout: PlanColumns, each_token: Number) -> HostLoading:
    """The cache loads of requests; `each_token` is the time of a computed prompt token."""
    load, pool = inputs.load, inputs.host_pool
    if pool is None or not is_any(load.loaded):
        return NOTHING
    turns = float(inputs.case.scenario.workload.turns)
    with term("from the host"):
        later = (turns - 1.0) / turns
        loads = later * load.returning
        time = layout.longer(link_time(cached_bytes(inputs, layout, load.loaded), pool.rate, 1.0))
        new = load.computed + load.generated
        stored = layout.longer(link_time(cached_bytes(inputs, layout, new), pool.write, 1.0))
        mean = time / loads
        longest = 2.0 * later * mean  # turn n loads n − 1 parts, a later turn n / 2 on the mean
        layers = layer_count(inputs.model) if pool.stated.loads == "layer" else 1.0
        prompt = load.computed * each_token
        exposed, last = (exposed_transfer_time(each, prompt, layers) for each in (mean, longest))
    return HostLoading(time, np.maximum(time, stored), loads, exposed, last, history_variation(turns, load.returning))


def loading_delay(found: HostLoading, rate: Number) -> tuple[Number, Number]:
    """Delay of the first token by cache loads at a rate: the mean, and for one request in a hundred."""
    with term("link to the host"):
        busy = np.minimum(rate * found.time, BUSIEST)
        wait = queue_wait(found.time, busy, found.variation)
        mean = found.loads * (found.exposed + wait)
        return mean, found.last + wait


def host_tokens(inputs: ServingInputs, layout: PlanColumns, memory: EngineMemoryUse) -> Number:
    """Tokens of a replica that fit in its hosts' cache."""
    load, pool = inputs.load, inputs.host_pool
    if pool is None:
        return 0.0
    with term("tokens on the host"):
        each = cached_bytes(inputs, layout, load.prompt) / load.prompt
        return layout.dp_attention * pool_tokens(host_bytes(inputs, memory), each, cache_block(inputs, layout))


def host_bytes(inputs: ServingInputs, memory: EngineMemoryUse) -> Number:
    """Host memory for the cache of one rank."""
    pool = inputs.host_pool
    if pool is None:
        return 0.0
    with term("memory of the host"):
        ratio = pool.stated.ratio
        return (pool.stated.size or 0.0) if ratio is None else ratio * np.maximum(memory.pool, 0.0)


def tokens_on_device_and_host(inputs: ServingInputs, layout: PlanColumns, memory: EngineMemoryUse) -> Number:
    """Tokens that a replica's devices and hosts can cache together."""
    pool = inputs.host_pool
    if pool is None:
        return memory.tokens
    return tokens_in_reach(memory.tokens, host_tokens(inputs, layout, memory), keeps=pool.stated.keeps)


def host_columns(
    inputs: ServingInputs, layout: PlanColumns, memory: EngineMemoryUse, found: HostLoading, whole: Number, rate: Number
) -> dict[str, Number]:
    """Results on the host's KV cache by name; NaN for an engine without one."""
    load, pool = inputs.load, inputs.host_pool
    if pool is None:
        return dict.fromkeys(HOST_COLUMNS, np.nan)
    with term("from the host"):
        returned = load.hit - load.common
        time = layout.longer(link_time(cached_bytes(inputs, layout, returned), pool.rate, 1.0))
        again = returned * whole
    with np.errstate(divide="ignore", invalid="ignore"):
        exposed, _ = loading_delay(found, rate)
        reached = tokens_on_device_and_host(inputs, layout, memory)
        return {
            "host_residency": residency_time(reached, rate, load.computed + load.generated),
            "host_hit": share(load.loaded, load.prompt),
            "host_cache_tokens": host_tokens(inputs, layout, memory),
            "host_load_exposed": exposed,
            "host_load_gain": share(again, time),
            "host_link_utilisation": rate * found.busy,
        }
