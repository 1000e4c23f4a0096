"""Time of routed experts in one fused call, and of dispatching tokens between attention groups that share them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.model import Experts
from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.roofline import matmul_time
from costmodel.equations.layers.experts import placed_experts, placed_weights
from costmodel.equations.network.collectives import Operation, activation_message
from costmodel.equations.network.topology import domains_filled
from costmodel.equations.serving.engine_step import (
    expert_layer_bytes,
    experts_read,
    host_experts_time,
    scaled_element_bytes,
)
from costmodel.estimate.machine.collective_time import collective_time
from costmodel.estimate.machine.process_groups import Group, SentTokens, Transfer, dispatch_time
from costmodel.estimate.model.feed_forward_kinds import MlpFeed, expert_hidden, token_destinations
from costmodel.estimate.serving.plan_columns import PlanColumns, engine_group
from costmodel.estimate.serving.serving_inputs import ServingInputs, has_own_exchange
from costmodel.ground.equation import Number, term

# Redundant copies of routed experts: their placement and their bytes.


def placed_experts_per_layer(inputs: ServingInputs, layout: PlanColumns, experts: Experts) -> Number:
    """Number of experts of a layer on the ep ranks, with redundant copies."""
    if not np.any(np.asarray(layout.redundant_experts)):
        return experts.count
    with term("copies"):
        return placed_experts(experts.count, np.where(layout.ep > 1, layout.redundant_experts, 0.0))


def bytes_with_copies(inputs: ServingInputs, layout: PlanColumns, experts: Experts, weights: Number) -> Number:
    """Bytes of a rank's routed experts, with redundant copies."""
    if not np.any(np.asarray(layout.redundant_experts)):
        return weights
    with term("copies"):
        return placed_weights(weights, experts.count, placed_experts_per_layer(inputs, layout, experts))


def wrong_redundant_experts(inputs: ServingInputs, *layouts: PlanColumns) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Masks of plans with redundant experts but without expert parallelism, by reason code."""
    if inputs.model.has_experts:
        copied = np.any([np.asarray(layout.redundant_experts > 0) for layout in layouts], axis=0)
        yield "L060", copied & np.all([np.asarray(layout.ep == 1) for layout in layouts], axis=0)


CORNER = 1.5  # of the roofline of fused experts: their tables are fitted with it [kernel-fit]
SCALE, SCALED = 4.0, 128.0  # bytes of a scale of fp8, and elements that share it [deepseek-2024]


def expert_layer(inputs: ServingInputs, layout: PlanColumns, experts: Experts, tokens: Number) -> Number:
    """Time of one layer's routed experts on the busiest rank, for all tokens of a step."""
    fit, types = inputs.experts, inputs.types
    hidden = expert_hidden(inputs.model.hidden, experts)
    assert fit is not None
    ranks = layout.stage_ranks
    with term("experts"):
        rows = experts.top_k * tokens
        up, down = MlpFeed(experts, 1.0).matrices(hidden)
        flop = (matmul_flop(rows, up.n, up.k) + matmul_flop(rows, down.n, down.k)) / ranks
        read = experts_read(tokens, experts.top_k, placed_experts_per_layer(inputs, layout, experts))
        nbytes = expert_layer_bytes(read, rows, hidden, experts.ffn_hidden, types.expert_weight, types.wide)
        busiest = np.where(layout.ep > 1, inputs.imbalance, 1.0)
        kept = busiest if inputs.host_experts is None else busiest * inputs.host_experts.kept
        own = matmul_time(
            kept * flop,
            kept * (nbytes / ranks),
            types.expert_peak,
            inputs.memory_bandwidth,
            fit.compute_share,
            fit.memory_share,
            fit.start,
            CORNER,
            1.0,
        )
        return own if inputs.host_experts is None else np.maximum(own, _host_time(inputs, ranks, nbytes, flop * ranks))


def _host_time(inputs: ServingInputs, ranks: Number, nbytes: Number, flop: Number) -> Number:
    """Time of the experts in host memory; `nbytes` and `flop` are of all experts of a layer on `ranks` ranks."""
    host = inputs.host_experts
    assert host is not None
    with term("on the host"):
        part = ranks / np.minimum(inputs.ranks, inputs.case.node.built)  # accelerators in use have equal parts
        return host_experts_time(host.share * nbytes, host.share * flop, part * host.bandwidth, part * host.rate)


def is_dispatched(inputs: ServingInputs, layout: PlanColumns) -> NDArray[np.bool_]:
    """Whether tokens go by all-to-all only to ranks with their experts: over many nodes, or inside one domain."""
    dispatch = inputs.engine.dispatch
    if dispatch is None:
        return np.zeros(len(layout), dtype=bool)
    ranks = engine_group(inputs, layout, "ep", layout.stage_ranks)
    held = (layout.ep == layout.stage_ranks) & (layout.dp_attention > 1)
    with term("nodes of experts"):
        nodes = np.maximum(ranks.domains, domains_filled(ranks.ranks, inputs.gathered_within))
    return np.asarray(((nodes >= dispatch.from_domains) | _has_one_sided_exchange(inputs, ranks)) & held, dtype=bool)


def _has_one_sided_exchange(inputs: ServingInputs, ranks: Group) -> NDArray[np.bool_]:
    """Whether all ranks lie in one domain inside which the engine has an all-to-all of its own."""
    return np.asarray((ranks.domains == 1) & has_own_exchange(inputs), dtype=bool)


def runs_in_halves(inputs: ServingInputs, layout: PlanColumns) -> NDArray[np.bool_] | None:
    """Whether a step runs as two half batches that alternate compute and transfer; None if no plan does."""
    if inputs.engine.dispatch is None or not inputs.engine.dispatch.two_batches:
        return None
    found = is_dispatched(inputs, layout)
    return found if np.any(found) else None


def expert_transfers(
    inputs: ServingInputs, layout: PlanColumns, experts: Experts, tokens: Number, *, prompts: bool
) -> Iterator[Transfer]:
    """Transfers of one layer's tokens: dispatch and combine over many nodes, else all-gather and reduce-scatter."""
    if np.all(layout.dp_attention == 1):
        return
    ranks = engine_group(inputs, layout, "ep", layout.stage_ranks)
    far = is_dispatched(inputs, layout)
    near = np.where((layout.dp_attention > 1) & ~far, 1.0, 0.0)
    message = activation_message(tokens, expert_hidden(inputs.model.hidden, experts), inputs.types.wide)
    operations: tuple[tuple[str, Operation], ...] = (
        ("gather tokens", "all_gather"),
        ("scatter results", "reduce_scatter"),
    )
    if np.any(near):
        for name, operation in operations:
            with term(name):
                yield Transfer(ranks, operation, message, collective_time(inputs, message, ranks, operation), near)
    near_by = far & _has_one_sided_exchange(inputs, ranks)
    if np.any(near_by):
        yield from _one_copy_transfers(inputs, layout, experts, tokens, ranks, near_by)
    if np.any(far & ~near_by):
        yield from _dispatch_transfers(inputs, layout, experts, tokens, ranks, far & ~near_by, prompts=prompts)


def _one_copy_transfers(
    inputs: ServingInputs,
    layout: PlanColumns,
    experts: Experts,
    tokens: Number,
    ranks: Group,
    rows: NDArray[np.bool_],
) -> Iterator[Transfer]:
    """Dispatch and combine inside a domain: one copy to each rank with experts of a token, and one result back."""
    dispatch = inputs.engine.dispatch
    assert dispatch is not None
    assert dispatch.one_sided is not None
    form = dispatch.one_sided
    hidden, types = expert_hidden(inputs.model.hidden, experts), inputs.types
    with term("tokens of a rank"):
        own = inputs.imbalance * (tokens / layout.stage_ranks)
    copies = token_destinations(experts, ranks.ranks)
    for name, element in (("dispatch", types.expert_recipe.operand), ("combine", types.wide)):
        with term(name):
            time, carried = dispatch_time(inputs, form, SentTokens(own, hidden, element, copies, 0.0), ranks)
            message = activation_message(own * copies, hidden, element)
            yield Transfer(ranks, "all_to_all", message, time, np.where(rows, 1.0, 0.0), carried)


def _dispatch_transfers(
    inputs: ServingInputs,
    layout: PlanColumns,
    experts: Experts,
    tokens: Number,
    ranks: Group,
    far: NDArray[np.bool_],
    *,
    prompts: bool,
) -> Iterator[Transfer]:
    """Dispatch and combine: decode sends one copy per expert, prefill one per domain, which is forwarded inside."""
    dispatch, hidden, top_k = inputs.engine.dispatch, expert_hidden(inputs.model.hidden, experts), experts.top_k
    assert dispatch is not None
    with term("tokens of a rank"):
        own = inputs.imbalance * (tokens / layout.stage_ranks)
        apart = top_k / ranks.domains
    inside, across = (
        (token_destinations(experts, ranks.ranks), token_destinations(experts, ranks.domains))
        if prompts
        else (apart, top_k)
    )
    form = dispatch.normal if prompts else dispatch.low_latency
    narrow = scaled_element_bytes(1.0, SCALE, SCALED) if dispatch.element == "fp8" else inputs.types.wide
    for name, element in (("dispatch", narrow), ("combine", inputs.types.wide)):
        with term(name):
            sent = SentTokens(own, hidden, element, inside, across)
            time, carried = dispatch_time(inputs, form, sent, ranks, form.across_share)
            message = activation_message(
                own * (token_destinations(experts, ranks.ranks) if prompts else top_k), hidden, element
            )
            yield Transfer(ranks, "all_to_all", message, time, np.where(far, 1.0, 0.0), carried)


def expert_exchange(
    inputs: ServingInputs, layout: PlanColumns, experts: Experts, tokens: Number, *, prompts: bool
) -> Number:
    """Time to send one layer's tokens to their experts and back; 0 with one attention group."""
    total: Number = 0.0
    for transfer in expert_transfers(inputs, layout, experts, tokens, prompts=prompts):
        total = total + np.where(transfer.count > 0, transfer.time, 0.0)
    return total
