"""What ranks of tensor parallelism exchange in attention where they divide the cache of a sequence by tokens.

As in vLLM: queries are gathered, every rank attends to its tokens with the heads of all, and the sums of softmax weight
the results, which are summed up so that each rank gets those of its own heads. Grouped attention does so for prompts
too; latent attention gathers the earlier tokens of prompts instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costmodel.documents.schemas.model import Layers
from costmodel.equations.kernels.roofline import stream_time
from costmodel.equations.network.collectives import Operation, activation_message
from costmodel.equations.parallelism.context_parallel import (
    gathered_heads,
    partial_result_traffic,
    softmax_statistics_bytes,
)
from costmodel.equations.serving.engine_step import chunk_count, reread_tokens
from costmodel.estimate.machine.collective_time import collective_time
from costmodel.estimate.machine.process_groups import Group, Transfer
from costmodel.estimate.model.mixers.table import token_bytes
from costmodel.estimate.model.shards import Shard
from costmodel.estimate.serving.engine_placement import engine_group
from costmodel.estimate.serving.kv_cache import cache_width
from costmodel.estimate.serving.plan_columns import PlanColumns, shard_of
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

_COPIES = 4.0  # passes over gathered queries and results: laid out anew, weighted, laid out for the sum, and behind it
_MERGE = 1.0  # one more in grouped attention, which attends to new tokens apart

_STATISTIC = 4.0  # bytes of the logarithm of a sum of softmax, in fp32


@record
class ContextTime:
    """Seconds of dcp exchanges, and of memory passes for them; 0 without dcp."""

    exchange: Number = 0.0
    passes: Number = 0.0


def divides(layout: PlanColumns, value: Number) -> Number:
    """The value in plans with dcp; 0 in others."""
    return np.where(layout.dcp > 1, value, 0.0)


def row_transfers(inputs: ServingInputs, layout: PlanColumns, part: Shard, rows: Number) -> Iterator[Transfer]:
    """Collectives of one attention layer with dcp, for so many queries of one attention group."""
    ranks = _ranks(inputs, layout)
    heads, query, result = _widths(layout, part)
    merged = inputs.engine.decode_context and inputs.engine.decode_context.merged
    operations: tuple[tuple[str, Operation, Number], ...] = (
        ("gather queries", "all_gather", activation_message(rows, heads * query, inputs.types.wide)),
        ("gather sums of softmax", "all_gather", softmax_statistics_bytes(rows, heads, layout.dcp, _STATISTIC)),
        ("sum results", "reduce_scatter", activation_message(rows, heads * result, merged or inputs.types.wide)),
    )
    for name, operation, message in operations:
        with term(name):
            time = collective_time(inputs, message, ranks, operation)
            yield Transfer(ranks, operation, message, time, divides(layout, 1.0))


def row_time(inputs: ServingInputs, layout: PlanColumns, part: Shard, rows: Number) -> ContextTime:
    """Time of one layer's dcp collectives, with memory passes over queries and results."""
    exchange: Number = 0.0
    for transfer in row_transfers(inputs, layout, part, rows):
        exchange = exchange + divides(layout, transfer.time)
    heads, query, result = _widths(layout, part)
    calls = _COPIES if part.kind.latent is not None else _COPIES + _MERGE
    with term("partial results"):
        nbytes = partial_result_traffic(rows, heads, query, result, layout.dcp, inputs.types.wide)
        moved = stream_time(nbytes, inputs.memory_bandwidth, inputs.memory_share)
        passes = divides(layout, calls * inputs.engine.kernels.operation + moved)
    return ContextTime(exchange, passes)


def prompt_transfer(inputs: ServingInputs, layout: PlanColumns, kind: Layers, tokens: Number) -> Transfer:
    """All-gather of earlier tokens in one latent attention layer with dcp, for so many prompt tokens."""
    ranks, load = _ranks(inputs, layout), inputs.load
    with term("gather earlier tokens"):
        prompts, budget = tokens / load.computed, layout.budget
        cached = chunk_count(load.computed, budget) * load.hit
        earlier = prompts * (cached + reread_tokens(load.computed, budget))
        message = earlier * token_bytes(kind, cache_width(inputs))
        time = collective_time(inputs, message, ranks, "all_gather")
    return Transfer(ranks, "all_gather", message, time, divides(layout, np.where(message > 0, 1.0, 0.0)))


def latent_time(inputs: ServingInputs, layout: PlanColumns, queries: Number) -> ContextTime:
    """Time of dcp in all latent attention layers for decode queries."""
    found = ContextTime()
    if not layout.shares_context:
        return found
    for kind in inputs.model.layers:
        if kind.latent is not None:
            with term("decode context"):
                part = shard_of(inputs.model, layout, kind)
                each = row_time(inputs, layout, part, queries)
            found = ContextTime(found.exchange + kind.count * each.exchange, found.passes + kind.count * each.passes)
    return found


def prompt_exchange(inputs: ServingInputs, layout: PlanColumns, tokens: Number) -> Number:
    """Time in which all latent attention layers gather earlier tokens for prompt tokens."""
    total: Number = 0.0
    if not layout.shares_context:
        return total
    for kind in inputs.model.layers:
        if kind.latent is not None:
            transfer = prompt_transfer(inputs, layout, kind, tokens)
            total = total + kind.count * np.where(transfer.count > 0, transfer.time, 0.0)
    return total


def _ranks(inputs: ServingInputs, layout: PlanColumns) -> Group:
    """The dcp group: neighbours inside tp with the same KV heads."""
    return engine_group(inputs, layout, "dcp", layout.dcp)


def _widths(layout: PlanColumns, part: Shard) -> tuple[Number, Number, Number]:
    """Heads that a rank attends with under dcp, and the widths of their queries and results."""
    assert part.mixer is not None
    heads, latent = gathered_heads(part.mixer.heads, layout.dcp), part.kind.latent
    if latent is None:
        return heads, part.mixer.head_dim, part.mixer.head_dim
    with term("absorbed queries"):
        return heads, latent.kv_rank + latent.rope_dim, latent.kv_rank
