"""Time of a layer's routed experts on one accelerator, forward and backward, without communication."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.layers.experts import (
    expert_data_degree,
    expert_operations,
    grouped_flop,
    mask_rows,
    permute_traffic,
)
from costmodel.equations.network.collectives import activation_message
from costmodel.equations.network.overlap import exposed_time, lost_time
from costmodel.estimate.machine.collective_time import collective_time
from costmodel.estimate.machine.process_groups import (
    Exchange,
    Group,
    LayerTraffic,
    SentTokens,
    dispatch_time,
    group,
    merged_group,
)
from costmodel.estimate.model.feed_forward_kinds import RoutedExperts, token_destinations
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.estimate.model.shards import Shard
from costmodel.estimate.shared.plan_batch import PIPELINE_INSIDE, Block, ForwardBackward, TimeByCategory, single_rank
from costmodel.estimate.training.layer_kernels import (
    adapter_pass,
    matmul_both_ways,
    memory_bound_seconds,
    recomputed_part,
    token_matmul,
    unpacking_seconds,
)
from costmodel.estimate.training.recompute import RecomputedWork
from costmodel.estimate.training.stage_parameters import local_tokens, routed_adapters
from costmodel.estimate.training.training_inputs import ExpertInputs, TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class ExpertWork:
    """Device time of a layer's routed experts, and host time to issue forward and backward.

    Unless all experts have the same number of tokens, the host waits for the token counts before it issues forward.
    """

    both: ForwardBackward
    ahead: Number
    behind: Number
    waits: bool


def expert_pass(inputs: TrainingInputs, part: Shard, block: Block, again: RecomputedWork) -> ExpertWork | None:
    """The routed experts of a layer, with their recompute; None for a layer without experts."""
    stated, held = inputs.experts, part.routed
    if stated is None or held is None:
        return None
    with term("experts"):
        tokens = local_tokens(inputs, block) / part.tp
        rows = held.rows(tokens, stated.load)
        both = _matmuls(inputs, stated, held, rows) + _expert_adapters(inputs, stated, held, rows)
        if stated.kernels.masked and not stated.dropless:
            both = both + _mask_products(inputs, stated, held, tokens)
        once, twice = (_memory_bound_time(inputs, stated, held, tokens, rows, backward=back) for back in (False, True))
        both = both + ForwardBackward(TimeByCategory(memory_bound=once), TimeByCategory(memory_bound=twice))
        anew = _recompute_time(inputs, block, held, rows, both.forward, again)
        ahead, behind = (_host_launch_time(inputs, stated, held, backward=back) for back in (False, True))
    return ExpertWork(
        both + ForwardBackward(TimeByCategory(), anew), ahead, behind, stated.dropless and held.of.count > 1
    )


def _recompute_time(
    inputs: TrainingInputs,
    block: Block,
    routed: RoutedExperts,
    rows: Number,
    once: TimeByCategory,
    again: RecomputedWork,
) -> TimeByCategory:
    """Time added to backward by recomputing the experts: all of them, a part, or only the activation function."""
    if again.routed:
        return recomputed_part(again, once)
    if "moe-activation" not in (block.structure.recompute_modules or ()):
        return TimeByCategory()
    with term("activation again"):
        nbytes = routed.each.traffic(rows, inputs.widths.element, backward=False)
        return TimeByCategory(memory_bound=memory_bound_seconds(inputs, nbytes))


def _matmuls(inputs: TrainingInputs, stated: ExpertInputs, routed: RoutedExperts, rows: Number) -> ForwardBackward:
    """Grouped matmuls of the experts of a rank: one group per expert, all of equal length."""
    total, narrow, trained = (
        ForwardBackward(TimeByCategory(), TimeByCategory()),
        inputs.recipe.narrow,
        inputs.tuning is None,
    )
    for matrix in routed.matrices():
        with term(matrix.name):
            total = total + _grouped_matmul(inputs, stated, routed, rows, matrix, narrow=narrow, trained=trained)
    return total


def _mask_products(
    inputs: TrainingInputs, stated: ExpertInputs, routed: RoutedExperts, tokens: Number
) -> ForwardBackward:
    """Time of the matrix products with dispatch masks, which gather tokens for experts and return them."""
    rows = mask_rows(tokens, routed.of.top_k, stated.load)
    times = ForwardBackward(TimeByCategory(), TimeByCategory())
    for name, weighted in (("fill", False), ("empty", True)):
        with term(name):
            times = times + token_matmul(
                inputs, rows, Matmul(name, routed.hidden, inputs.layer_sequence), trained=weighted
            )
    return times


def _expert_adapters(
    inputs: TrainingInputs, stated: ExpertInputs, routed: RoutedExperts, rows: Number
) -> ForwardBackward:
    """Adapters of the experts as grouped thin products, and unpacking of their base weights."""
    times = ForwardBackward(TimeByCategory(), TimeByCategory())
    grouped = functools.partial(_grouped_matmul, inputs, stated, routed, rows, narrow=False, trained=True)
    for adapter in routed_adapters(inputs, routed):
        times = times + adapter_pass(inputs, adapter, rows, grouped)
    if not inputs.has_packed_weights:
        return times
    with term("unpack experts"):
        unpacked = TimeByCategory(memory_bound=unpacking_seconds(inputs, routed.parameters))
    return times + ForwardBackward(unpacked, unpacked)


def _host_launch_time(inputs: TrainingInputs, stated: ExpertInputs, routed: RoutedExperts, *, backward: bool) -> Number:
    """Host time to issue all experts in one direction."""
    adapters, unpacked = sum(1.0 for _ in routed_adapters(inputs, routed)), 1.0 if inputs.has_packed_weights else 0.0
    trained = inputs.tuning is None
    count, converted = routed.looped(), inputs.recipe.conversions
    operations = expert_operations(count, converted, adapters, unpacked, trained=trained, backward=backward)
    return operations * stated.host


def _grouped_matmul(
    inputs: TrainingInputs,
    stated: ExpertInputs,
    routed: RoutedExperts,
    rows: Number,
    matrix: Matmul,
    *,
    narrow: bool,
    trained: bool,
) -> ForwardBackward:
    """One grouped matmul in both directions."""
    rows_of_expert = rows / routed.local
    flop = grouped_flop(matmul_flop(rows, matrix.n, matrix.k), rows_of_expert, routed.local, stated.kernels.half_rows)
    if stated.dropless:
        flop = flop / stated.kernels.grouped_share
    return matmul_both_ways(inputs, matrix, rows, flop, groups=routed.local, narrow=narrow, trained=trained)


def _memory_bound_time(
    inputs: TrainingInputs, stated: ExpertInputs, routed: RoutedExperts, tokens: Number, rows: Number, *, backward: bool
) -> Number:
    """Permutation of tokens by expert and back, which masks replace, and the activation function."""
    with term("memory-bound backward" if backward else "memory-bound forward"):
        sizes = (tokens, routed.hidden, routed.of.top_k, routed.of.count, inputs.widths.element)
        masked = stated.kernels.masked and not stated.dropless
        permuted = 0.0 if masked else stated.kernels.permute * permute_traffic(*sizes)
        activated = routed.each.traffic(rows, inputs.widths.element, backward=backward)
        return memory_bound_seconds(inputs, permuted + activated)


# Dispatch and combine of tokens: the groups, the bytes and the exposed time.


@record
class ExpertGroups:
    """Expert groups among the ranks of a stage, innermost first: etp, ep, and the ranks with the same experts."""

    etp: Group
    ep: Group
    edp: Group


def expert_data(inputs: TrainingInputs, block: Block) -> Number:
    """Ranks with the same experts that shard their states, without HSDP replicas."""
    return expert_data_degree(inputs.ranks, block.pp, block.ep, block.etp) / block.dp_replicate


def expert_groups(inputs: TrainingInputs, rows: Block) -> ExpertGroups:
    """Positions of the expert groups among the ranks of a stage, innermost first."""
    with term("expert placement"):
        outer = rows.etp * rows.ep
        edp = expert_data(inputs, rows)
    return ExpertGroups(
        _stage_group(inputs, rows, "etp", rows.etp, 1.0),
        _stage_group(inputs, rows, "ep", rows.ep, rows.etp),
        _stage_group(inputs, rows, "edp", edp, outer),
    )


def _stage_group(inputs: TrainingInputs, rows: Block, name: str, ranks: Number, stride: Number) -> Group:
    """The group of ranks of one stage; with the pipeline inside data parallelism it has blocks of tp · cp ranks."""
    if rows.structure.order != PIPELINE_INSIDE or single_rank(rows.pp):
        return group(inputs, name, ranks, stride)
    with term("expert placement"):
        beside = rows.tp * rows.cp
        near = np.minimum(np.maximum(np.floor(beside / stride), 1.0), ranks)
        far, apart = ranks / near, np.maximum(beside, stride) * rows.pp
    return merged_group(inputs, name, group(inputs, name, near, stride), group(inputs, name, far, apart))


def expert_traffic(
    inputs: TrainingInputs,
    part: Shard,
    block: Block,
    layer: ForwardBackward,
    beside: ForwardBackward,
    placed: ExpertGroups,
    *,
    again: bool,
) -> LayerTraffic:
    """Dispatch and combine of a layer in both directions, and their exposed part.

    They hide behind the compute of the layer if the schedule allows it, or behind shared experts.
    """
    stated, held = inputs.experts, part.routed
    if stated is None or held is None:
        return LayerTraffic("ep")
    tokens = local_tokens(inputs, block) / part.tp
    exchanges = (
        *_dispatch_exchanges(inputs, stated, held, tokens, placed.ep),
        *_etp_exchanges(inputs, stated, held, tokens, placed.etp),
    )
    sent: Number = 0.0
    for item in exchanges[:2]:
        sent = sent + item.time
    shared: Number = 0.0
    for item in exchanges[2:]:
        shared = shared + item.time
    within = stated.kernels.overlap_in
    overlap = stated.overlap if within is None or block.structure.schedule in within else 0.0
    with term("experts' tokens"):
        forward = _exposed_exchange(sent, layer.forward.device, overlap, stated.kernels.occupied)
        backward = _exposed_exchange(sent, layer.backward.device, overlap, stated.kernels.occupied)
        if stated.shared_overlap:
            forward = np.minimum(forward, exposed_time(sent, beside.forward.device, stated.shared_overlap, 0.0))
            backward = np.minimum(backward, exposed_time(sent, beside.backward.device, stated.shared_overlap, 0.0))
        forward, backward = forward + shared, backward + shared
    if not again:
        return LayerTraffic("ep", forward, backward, exchanges)
    return LayerTraffic(
        "ep", forward, backward + forward, tuple(replace(exchange, again=exchange.forward) for exchange in exchanges)
    )


def _exposed_exchange(sent: Number, compute: Number, overlap: float, occupied: float) -> Number:
    """Exposed seconds of an exchange, with the compute seconds lost because hidden traffic slows kernels down."""
    exposed = exposed_time(sent, compute, overlap, 0.0)
    return exposed + lost_time(sent - exposed, occupied) if np.any(occupied) else exposed


def _dispatch_exchanges(
    inputs: TrainingInputs, stated: ExpertInputs, routed: RoutedExperts, tokens: Number, ep: Group
) -> tuple[Exchange, Exchange]:
    """Tokens sent to the ranks of their experts in the stack's dispatch type; outputs return as activations.

    A token goes to each of its experts, or once to a rank with several of them.
    """
    sent = stated.load * tokens
    copies = token_destinations(routed.of, ep.ranks) if stated.deduplicated else routed.of.top_k
    exchanges = []
    for name, element in (("dispatch", stated.dispatch), ("combine", inputs.widths.element)):
        with term(name):
            message = copies * activation_message(sent, routed.hidden, element)
            carried: Number | None = None
            if stated.deduplicated:
                rows = SentTokens(sent, routed.hidden, element, copies, token_destinations(routed.of, ep.domains))
                time, carried = dispatch_time(inputs, stated.kernels, rows, ep, stated.kernels.across_share)
            else:
                time = collective_time(inputs, message, ep, "all_to_all")
            exchanges.append(Exchange(ep, "all_to_all", message, time, 1.0, 1.0, 0.0, carried))
    return exchanges[0], exchanges[1]


def _etp_exchanges(
    inputs: TrainingInputs, stated: ExpertInputs, routed: RoutedExperts, tokens: Number, etp: Group
) -> tuple[Exchange, ...]:
    """Collectives among ranks that shard each expert (etp): all-gather of rows, reduce-scatter of partial outputs."""
    if np.all(etp.ranks == 1):
        return ()
    message = activation_message(routed.rows(tokens, stated.load), routed.hidden, inputs.widths.element)
    exchanges: list[Exchange] = []
    for operation in ("all_gather", "reduce_scatter"):
        with term(f"etp {operation}"):
            time = collective_time(inputs, message, etp, operation)
            exchanges.append(Exchange(etp, operation, message, time, 1.0, 1.0, 0.0))
    return tuple(exchanges)
