"""The memory breakdown of a rank: first, middle and last pipeline stage, and the worst of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.efficiency import MeasuredLayers
from costmodel.documents.schemas.stack import StateBytes
from costmodel.equations.kernels.memory_traffic import narrow_copy_bytes
from costmodel.equations.layers.parameters import table_parameters
from costmodel.equations.memory.activations import chunked_logit_bytes, head_activations, logit_bytes, mask_bytes
from costmodel.equations.memory.states import (
    gathered_bytes,
    gradient_bytes,
    gradient_copy_bytes,
    gradient_traffic,
    matrices_bytes,
    optimizer_bytes,
    overhead_bytes,
    reserved_bytes,
    update_bytes,
    weight_bytes,
)
from costmodel.equations.parallelism.pipeline import mirrored_layers
from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import (
    combined_error,
    ninetieth_percentile,
    normal_share,
    spreads_away,
    tenth_percentile,
    term_error,
)
from costmodel.estimate.model.feed_forward_kinds import expert_tables, has_hashed_experts
from costmodel.estimate.model.mixers.mixing_half import layer_names_text
from costmodel.estimate.model.shards import Shard, layer_matmuls, prediction_parameters, shard, stream_head_activations
from costmodel.estimate.shared.plan_batch import (
    OFFLOAD,
    RECOMPUTE,
    STAGES,
    Block,
    PerStage,
    added,
    largest,
    memoized,
    same_on_all_stages,
    single_rank,
    stages_of,
)
from costmodel.estimate.training.flop_count import front_memory
from costmodel.estimate.training.parallelism.context import context_buffers
from costmodel.estimate.training.parallelism.data import FP32, error_feedback_bytes
from costmodel.estimate.training.parallelism.expert import expert_data
from costmodel.estimate.training.parallelism.pipeline import (
    StageLayers,
    forwards_first,
    head_holder,
    holds_embedding_and_head,
    live_on_stage,
    summed_once,
    updated_parameters,
    weight_replication,
)
from costmodel.estimate.training.recompute import layers_per_checkpoint, recompute_way, recomputed_share_of_rank
from costmodel.estimate.training.saved_activations import (
    activations_after_offload,
    activations_without_recompute,
    dropped_bytes,
    gradients_in_memory,
    layer_activations,
    mean_activations,
    paged_states,
    states_after_offload,
    updated_shard,
    used_host_capacity,
)
from costmodel.estimate.training.stage_parameters import (
    StageParameters,
    frozen_bytes,
    head_tokens,
    local_tokens,
    trained_parameters,
    vocab_per_rank,
)
from costmodel.estimate.training.training_inputs import ELEMENT_BYTES, TrainingInputs
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.record import record

# Weights, gradients and optimizer states of a rank, on the device and on the host.


@record
class RankParameters:
    """Parameters of a rank at one position: all, those of its layers, and the trained ones.

    Routed experts separately, all and trained; and those of the adapters of the largest layer.
    """

    all: Number
    layers: Number
    trained: Number
    routed: Number
    routed_trained: Number
    adapters: Number


def _state_bytes(inputs: TrainingInputs, block: Block, held: Number, over: Number) -> dict[str, Number]:
    """Bytes of weights, gradients and optimizer states for `held` parameters, sharded over `over` ranks.

    Gradients of FSDP stay unsharded in a pipeline.
    """
    zero, states = block.structure.zero, inputs.stack.states
    moments = inputs.moments
    weights = weight_bytes(held, states.weights, states.compute, over, zero=zero, sharded_master=states.sharded_master)
    kept = stored_gradient(states, inputs.widths.gradient, zero=zero)
    gradients = gradient_bytes(held, kept, over, zero=zero)
    late = summed_once(inputs, block)
    if zero >= 2 and np.any(late):
        gradients = np.where(late, gradient_bytes(held, inputs.widths.gradient, over, zero=1), gradients)
    if states.gradient_copies and zero <= 1 and "optimizer" not in block.structure.offload:
        wide = inputs.widths.gradient == ELEMENT_BYTES["fp32"]
        gradients = gradients + gradient_copy_bytes(held, inputs.widths.gradient, over, of="all" if wide else "shard")
    return {
        "weights": weights,
        "gradients": gradients,
        "optimizer": optimizer_bytes(updated_parameters(block, held), states.master, moments, over, zero=zero),
    }


def stored_gradient(states: StateBytes, summed: Number, *, zero: int) -> Number:
    """Bytes of a gradient that a rank stores; `summed`: bytes while gradients are reduced."""
    if zero < 2 or states.sharded_gradient is None:
        return summed
    return np.maximum(summed, states.sharded_gradient)


def updating_bytes(inputs: TrainingInputs, block: Block, rank: RankParameters, backward: Number) -> Number:
    """Temporary bytes of the optimizer step on the device, beyond the peak of backward."""
    states = inputs.stack.states
    stated = (states.step_gradient, states.step_roots, inputs.optimizer.root)
    gradient, roots, root = (0.0 if each is None else each for each in stated)
    if "optimizer" in block.structure.offload:
        returned = None if inputs.stack.offload is None else inputs.stack.offload.returned
        if returned is None or block.structure.zero > 2:
            return 0.0
        return update_bytes(_updated_parameters(inputs, block, rank), returned, 0.0, 0.0, backward)
    if not (np.any(gradient) or (np.any(roots) and np.any(root))):
        return 0.0
    zero, updated = block.structure.zero, _updated_parameters(inputs, block, rank)
    if states.gradient_copies and zero <= 1:
        gradient = 0.0  # counted among the gradients
    elif states.freed_gradient and zero == 2:
        gradient = gradient - inputs.widths.gradient
    if zero == 3 and states.sub_group is not None:
        updated = np.minimum(updated, states.sub_group)
    return update_bytes(updated, gradient, roots, root, backward)


def moment_bytes(inputs: TrainingInputs, block: Block, rank: RankParameters) -> Number:
    """Bytes of the moments that a rank of a stage has on its device and may page out."""
    if not inputs.optimizer.paged or "optimizer" in block.structure.offload:
        return 0.0
    with term("moments"):
        return gradient_traffic(_updated_parameters(inputs, block, rank), inputs.moments)


def _updated_parameters(inputs: TrainingInputs, block: Block, rank: RankParameters) -> Number:
    """Parameters that a rank of a stage updates."""
    routed = 0.0 if inputs.experts is None else updated_parameters(block, rank.routed_trained)
    return updated_shard(inputs, block, updated_parameters(block, rank.trained), routed)


def _narrow_copies(inputs: TrainingInputs, block: Block, layers: Number, over: Number) -> Number:
    """Bytes of weights converted to a narrow type, less the stored weights that they replace; FSDP gathers these."""
    narrow, zero, states = inputs.narrow, block.structure.zero, inputs.stack.states
    if narrow is None:
        return 0.0
    with term("converted weights"):
        if not narrow.cached:
            stay = states.sharded_master and zero == 2 and inputs.gathers_narrow and inputs.tuning is None
            return layers * (inputs.gathered_width - states.compute) if stay else 0.0
        copies = narrow_copy_bytes(layers, inputs.recipe.copies, over, sharded=zero == 3)
    if not narrow.primary:
        return copies
    return copies - weight_bytes(layers, states.weights, states.compute, over, zero=zero, sharded_master=False)


def _frozen_weights(inputs: TrainingInputs, block: Block, layers: Number, held: Number, over: Number) -> Number:
    """Bytes of a rank's frozen weights; those of layers may be packed, and ZeRO 3 shards all of them."""
    frozen = frozen_bytes(inputs, layers, held)
    return frozen / over if block.structure.zero == 3 else frozen


def device_and_host_states(
    inputs: TrainingInputs, block: Block, parameters: StageParameters, rank: RankParameters, position: int
) -> tuple[dict[str, Number], Number]:
    """States of a stage on the device, and the bytes of states on the host.

    Routed experts are sharded over the ranks that hold the same experts, all other parameters over dp.
    """
    states = _state_bytes(inputs, block, rank.trained, block.shards)
    if inputs.tuning is not None:
        ahead = head_holder(block, prediction_parameters(inputs.model, block.tp), position)
        states["weights"] = states["weights"] + _frozen_weights(
            inputs, block, rank.layers + ahead, rank.all, block.shards
        )
    elif inputs.tower_frozen:
        with term("frozen tower"):
            frozen = (rank.all - rank.trained) * inputs.stack.states.compute
            states["weights"] = states["weights"] + (frozen / block.shards if block.structure.zero == 3 else frozen)
    states["weights"] = states["weights"] + _narrow_copies(inputs, block, rank.layers, block.shards)
    if inputs.experts is None:
        states["gradients"] = gradients_in_memory(inputs, block, parameters, states["gradients"])
        return states_after_offload(inputs, block, states, _updated_parameters(inputs, block, rank))
    with term("experts"):
        edp = expert_data(inputs, block)
        routed = _state_bytes(inputs, block, rank.routed_trained, edp)
        if inputs.tuning is not None:
            routed["weights"] = routed["weights"] + _frozen_weights(inputs, block, rank.routed, rank.routed, edp)
        routed["weights"] = routed["weights"] + _narrow_copies(inputs, block, parameters.routed_ranks[position], edp)
    both = {name: value + routed[name] for name, value in states.items()}
    both["gradients"] = gradients_in_memory(inputs, block, parameters, both["gradients"])
    return states_after_offload(inputs, block, both, _updated_parameters(inputs, block, rank))


LINES = (
    "weights",
    "gradients",
    "optimizer",
    "gathered",
    "buckets",
    "context",
    "activations",
    "recompute",
    "logits",
    "update",
    "fragmentation",
    "pages",
    "runtime",
)
STATES = LINES[:5]
ALLOCATED = LINES[:10]
RESERVED = LINES[:11]
OF_BACKWARD = ("gathered", "context", "activations", "recompute", "logits")
ON_HOST = ("host states", "host activations")


@record
class Ledger:
    """The memory breakdown: bytes by line; every line has one entry per stage."""

    lines: dict[str, PerStage[Number]]
    peaks: PerStage[Number]
    worst: Number
    host: tuple[Number, Number]  # bytes of a node, and the share of its capacity
    paged: Number  # bytes of optimizer states that a rank has on the host while the device is full
    pageable: PerStage[Number]  # bytes of those that could still move
    bound: Number  # the most that a stage needs without those
    own: tuple[int, ...] = (0, 1, 2)  # of the three stages those that its kind of nodes has

    def stages(self, pp: float) -> tuple[int, ...]:
        """Positions of the stages that the breakdown shows for a pipeline with so many ranks."""
        return tuple(position for position in stages_of(pp) if position in self.own)

    def line(self, name: str, stage: int) -> Number:
        """Bytes of one line on one stage."""
        return self.lines[name][stage]


@memoized(*RECOMPUTE, *OFFLOAD, "zero", "sequence_parallel", "cp_type", "schedule", "compression")
def ledger(
    inputs: TrainingInputs, block: Block, layers: StageLayers, parameters: StageParameters, micro_batches: Number
) -> Ledger:
    """The memory breakdown for the first, a middle and the last stage."""
    last_stage = block.pp - 1
    stages = (last_stage - last_stage, np.minimum(last_stage, 1.0), last_stage)
    held = _rank_parameters(inputs, block, layers, parameters)
    kept = _activations(inputs, block, layers, micro_batches)
    columns = [
        _stage_lines(
            inputs, block, parameters, held[position], kept[position], stages[position], micro_batches, position
        )
        for position in range(3)
    ]
    lines = {name: PerStage(*(column[name] for column in columns)) for name in LINES}
    peaks = PerStage(*(added(column, LINES) for column in columns))
    host: tuple[Number, Number] = (0.0, 0.0)
    paged = _largest_stage(PerStage(*(column["paged"] for column in columns))) if inputs.optimizer.paged else 0.0
    left = PerStage(*(column["pageable"] for column in columns))
    if block.structure.offload or inputs.optimizer.paged:
        there = (_largest_stage(PerStage(*(column[name] for column in columns))) for name in ON_HOST)
        host = used_host_capacity(inputs, block, *there)
    worst = known_as("memory_peak", _largest_stage(peaks))
    bound = worst
    if inputs.optimizer.paged:
        bound = _largest_stage(PerStage(*(peak - pages for peak, pages in zip(peaks, left, strict=True))))
    return Ledger(lines, peaks, worst, host, paged, left, bound)


def states_alone(inputs: TrainingInputs, block: Block, layers: StageLayers, parameters: StageParameters) -> Number:
    """Bytes of the fullest stage that do not depend on micro-batches: no peak is lower, unless states are paged."""
    held = _rank_parameters(inputs, block, layers, parameters)
    columns = (_fixed_lines(inputs, block, parameters, rank, position)[0] for position, rank in enumerate(held))
    return _largest_stage(PerStage(*(added(column, STATES) for column in columns)))


def _largest_stage(stages: PerStage[Number]) -> Number:
    """The maximum over the stages; the trace shows each by its name."""
    return largest(*(known_as(f"{name} stage", value) for name, value in zip(STAGES, stages, strict=True)))


@memoized("schedule")
def _rank_parameters(
    inputs: TrainingInputs, block: Block, layers: StageLayers, parameters: StageParameters
) -> list[RankParameters]:
    """Parameters of the first, a middle and the last rank: all, in layers, trained, in experts, in adapters."""
    schedule = block.structure.schedule
    whole = parameters.stages(block.pp, schedule)
    own = trained_parameters(inputs, block, layers, parameters)
    updated = whole if own is parameters else own.stages(block.pp, schedule)
    routed, routed_trained = parameters.routed_stages(block), own.routed_stages(block)
    copies = weight_replication(schedule)
    layers_held = [copies * rank for rank in parameters.ranks]
    adapters = 0.0 if inputs.tuning is None else own.largest + own.routed_layer
    columns = zip(whole, layers_held, updated, routed, routed_trained, strict=True)
    return [RankParameters(*column, adapters) for column in columns]


def _stage_lines(
    inputs: TrainingInputs,
    block: Block,
    parameters: StageParameters,
    rank: RankParameters,
    kept: SavedActivations,
    stage: Number,
    micro_batches: Number,
    position: int,
) -> dict[str, Number]:
    """Bytes of each memory line on one pipeline stage; `position` is first, middle or last."""
    stack = inputs.stack
    with term(f"{STAGES[position]} stage"):
        fixed, column_host = _fixed_lines(inputs, block, parameters, rank, position)
        column = dict(fixed)
        flying = live_on_stage(block, micro_batches, stage)
        at_first, at_last = holds_embedding_and_head(block.structure.schedule, position)
        head = head_holder(block, loss_bytes(inputs, block), position)
        activations, gone = activations_after_offload(inputs, block, flying * kept.layers, kept.largest, head)
        saved, whole = _first_stage_bytes(inputs, block, flying, kept.whole) if at_first else (0.0, kept.whole)
        column["activations"] = activations + saved
        if at_first and has_hashed_experts(inputs.model):
            column["weights"] = column["weights"] + expert_tables(inputs.model)
        column["recompute"], column["logits"] = _larger_of_recompute_and_loss(whole, head)
        if at_last and forwards_first(block.structure.schedule):
            column["logits"] = column["logits"] + waiting_loss_bytes(inputs, block, micro_batches)
        column["context"] = _other_ranks_keys(inputs, block)
        moments = moment_bytes(inputs, block, rank)
        column["pages"] = moments
        if inputs.optimizer.paged:
            column["optimizer"] = column["optimizer"] - moments
        column["update"] = updating_bytes(inputs, block, rank, added(column, OF_BACKWARD))
        column["fragmentation"] = reserved_bytes(added(column, ALLOCATED), inputs.fragmentation)
        runtime = stack.runtime
        opened = np.where(inputs.ranks > 1, runtime.communicators, 0.0)
        column["runtime"] = overhead_bytes(runtime.context, opened, runtime.communicator)
        paged = paged_states(inputs, added(column, LINES), moments)
        if inputs.optimizer.paged:
            column["pages"] = moments - paged
            column_host = column_host + paged
        column |= {"paged": paged, "pageable": moments - paged}
        column |= dict(zip(ON_HOST, (column_host, gone), strict=True))
    return column


def _larger_of_recompute_and_loss(again: Number, loss: Number) -> tuple[Number, Number]:
    """The larger of a recomputed layer's bytes and the loss bytes, and 0 in place of the smaller.

    The loss is freed before recompute, so both are never in memory together.
    """
    if not np.any(again):
        return again, loss
    larger = again > loss
    return np.where(larger, again, 0.0), np.where(larger, 0.0, loss)


@memoized("zero", "schedule", "offload", "offload_to", "compression")
def _fixed_lines(
    inputs: TrainingInputs, block: Block, parameters: StageParameters, rank: RankParameters, position: int
) -> tuple[dict[str, Number], Number]:
    """Bytes of a stage by line that do not depend on micro-batches, and bytes of its states on the host."""
    column, on_host = device_and_host_states(inputs, block, parameters, rank, position)
    column["gathered"] = gathered_unit_bytes(inputs, block, parameters, rank.adapters, position)
    column["buckets"] = gradient_buckets(inputs, block)
    return with_error_feedback(inputs, block, column, rank.trained, rank.routed_trained), on_host


@record
class SavedActivations:
    """Saved activations of a micro-batch: of a stage's layers, of its largest layer, and of a recomputed layer."""

    layers: Number
    largest: Number
    whole: Number


@memoized(*RECOMPUTE, "sequence_parallel", "cp_type", "schedule")
def _activations(
    inputs: TrainingInputs, block: Block, layers: StageLayers, micro_batches: Number
) -> PerStage[SavedActivations]:
    """Saved activations of a micro-batch on the first, a middle and the last rank, averaged over the live ones."""
    kept: list[Number] = [0.0, 0.0, 0.0]
    most: list[Number] = [0.0, 0.0, 0.0]
    extra: Number = 0.0
    held = (layers.first,) if layers.equal else (layers.first, layers.middle, layers.last)
    if layers.mirrored is not None:
        flying = live_on_stage(block, micro_batches, 0.0)
        ends = mirrored_layers(flying, *layers.mirrored)
        held = (ends, layers.middle, ends)
    for kind in inputs.model.layers:
        part = shard(inputs.model, kind, block.tp, block.ep, block.etp)
        for position, count in enumerate(held):
            saved = mean_activations(inputs, block, part, count)
            most[position] = np.maximum(most[position], saved)
            own = layers.of_kind(inputs.model, kind, count, position)
            if layers.mirrored is not None and position != 1:
                own = mirrored_layers(flying, *layers.of_stages(inputs.model, kind))
            kept[position] = kept[position] + own * saved
        extra = np.maximum(extra, _recomputed_layer_bytes(inputs, block, part, layers.fullest))
    if layers.equal:
        return same_on_all_stages(SavedActivations(kept[0], most[0], extra))
    return PerStage(*(SavedActivations(*sizes, extra) for sizes in zip(kept, most, strict=True)))


def _recomputed_layer_bytes(inputs: TrainingInputs, block: Block, part: Shard, layers: Number) -> Number:
    """Bytes that one layer needs in addition while it is recomputed."""
    what = recompute_way(inputs, block.structure)
    if what == "layer":
        whole = layers_per_checkpoint(block.structure) * activations_without_recompute(
            inputs, block, part, selective=False
        )
        return np.where(recomputed_share_of_rank(block, layers) > 0, whole, 0.0)
    if what == "modules":
        return dropped_bytes(inputs, block, part)
    if what == "nothing":
        return 0.0
    whole = activations_without_recompute(inputs, block, part, selective=False)
    if what == "core":
        return whole - activations_without_recompute(inputs, block, part, selective=True)
    return np.maximum(whole - layer_activations(inputs, block, part), 0.0)


def _first_stage_bytes(inputs: TrainingInputs, block: Block, live: Number, whole: Number) -> tuple[Number, Number]:
    """Bytes saved on the first stage beside its layers (masks, vision tower), and its largest recomputed layer."""
    saved: Number = 0.0
    if inputs.stack.kernels.dropout:
        tokens = local_tokens(inputs, block)
        saved = live * mask_bytes(tokens, inputs.model.hidden, inputs.widths.element, block.sequence_ranks)
    if inputs.front is None:
        return saved, whole
    seen = front_memory(inputs, block)
    return saved + live * seen.saved, np.maximum(whole, seen.whole)


@memoized("cp_type")
def _other_ranks_keys(inputs: TrainingInputs, block: Block) -> Number:
    """Bytes of keys and values from other context-parallel ranks, for the layer that needs most."""
    if single_rank(block.cp):
        return 0.0
    held: Number = 0.0
    for kind in inputs.model.layers:
        held = np.maximum(held, context_buffers(inputs, block, shard(inputs.model, kind, block.tp)))
    return held


OUTER = 2.0  # weights of the last exchange, and their momentum


def with_error_feedback(
    inputs: TrainingInputs, block: Block, column: dict[str, Number], trained: Number, routed: Number
) -> dict[str, Number]:
    """The lines of a stage, plus error feedback of compression and the states of an outer optimizer."""
    states = dict(column)
    if block.structure.compression != "none":
        copies = 1.0 if inputs.experts is None else expert_data(inputs, block)
        states["gradients"] = states["gradients"] + error_feedback_bytes(inputs, block, trained, routed, copies)
    if inputs.sites is not None:
        with term("outer optimizer"):
            experts = 0.0 if inputs.experts is None else updated_parameters(block, routed)
            updated = updated_shard(inputs, block, updated_parameters(block, trained), experts)
            states["optimizer"] = states["optimizer"] + OUTER * gradient_traffic(updated, FP32)
    return states


@memoized(*RECOMPUTE, "sequence_parallel", "cp_type")
def loss_bytes(inputs: TrainingInputs, block: Block) -> Number:
    """Bytes saved by the head and the loss for the micro-batch in backward."""
    tokens = head_tokens(inputs, block)
    stack = inputs.stack
    logits = logit_bytes(tokens, vocab_per_rank(inputs, block.tp), stack.buckets.loss)
    if stack.loss == "chunked" and stack.loss_limit is not None:
        logits = chunked_logit_bytes(logits, stack.loss_limit)
    once = logits + head_activations(tokens, inputs.model.hidden, inputs.widths.element, block.sequence_ranks)
    if inputs.model.residual_streams is not None:
        with term("streams"):
            wide = stream_head_activations(inputs.model, tokens, inputs.widths.element)
            once = once + wide / block.sequence_ranks
    ahead = inputs.model.prediction
    if ahead is None:
        return once
    with term("multi-token prediction"):
        part = shard(inputs.model, ahead.layer, block.tp, block.ep, block.etp)
        joined = head_activations(tokens, inputs.model.hidden, inputs.widths.element, block.sequence_ranks)
        each = layer_activations(inputs, block, part) + joined + once
    return once + ahead.depth * each


def waiting_loss_bytes(inputs: TrainingInputs, block: Block, micro_batches: Number) -> Number:
    """Bytes saved for the losses of other micro-batches, if backward waits for all forwards of a pipeline.

    They are the softmax, and the inputs of the head and of the norm before it.
    """
    tokens, width = head_tokens(inputs, block), min(inputs.stack.buckets.loss, ELEMENT_BYTES["fp32"])
    with term("losses that wait"):
        softmax = logit_bytes(tokens, vocab_per_rank(inputs, block.tp), width)
        each = softmax + head_activations(tokens, inputs.model.hidden, inputs.widths.element, block.sequence_ranks)
        return np.where(block.pp == 1, 0.0, micro_batches - 1.0) * each


def gathered_unit_bytes(
    inputs: TrainingInputs, block: Block, parameters: StageParameters, adapters: Number, position: int
) -> Number:
    """Bytes of the largest FSDP unit that is gathered or unpacked at a time, with its gradients and neighbours."""
    unpacked: Number = 0.0
    if inputs.has_packed_weights:
        unpacked = inputs.stack.states.compute * (parameters.largest + parameters.routed_layer)
    if inputs.stack.states.cast and inputs.tuning is None:
        unpacked = unpacked + _cast_weights(inputs, block, parameters, position)
    if block.structure.zero != 3:
        return unpacked
    at_first, at_last = holds_embedding_and_head(block.structure.schedule, position)
    ends = (parameters.embedding if at_first else 0.0, parameters.head if at_last else 0.0)
    by_layer = inputs.stack.buckets.gathered is None
    with term("largest unit"):
        whole = (
            _gathered_layers(inputs, block, parameters, ends)
            if by_layer
            else _gathered_matrices(inputs, block, parameters, ends)
        )
    if inputs.tuning is not None:
        with term("adapters"):
            width, ahead = inputs.stack.states.compute, inputs.stack.buckets.prefetch
            shared = gathered_bytes(adapters, width, inputs.widths.reduced, ahead)
            own = matrices_bytes(adapters, adapters, width, inputs.widths.reduced)
            whole = whole + np.where(block.shards > 1, shared, own)
    copied = inputs.stack.states.sharded_master
    return (whole if copied else np.where(block.shards > 1, whole, 0.0)) + unpacked


def _cast_weights(inputs: TrainingInputs, block: Block, parameters: StageParameters, position: int) -> Number:
    """Copies of all weights in the matmul type, head and experts too; an embedding lookup needs no copy."""
    with term("cast weights"):
        layers = parameters.ranks[position] + parameters.routed_ranks[position]
        head = head_holder(block, parameters.head + parameters.routed_head, position)
        return inputs.stack.states.compute * (layers + head)


def _gathered_layers(
    inputs: TrainingInputs, block: Block, parameters: StageParameters, ends: tuple[Number, Number]
) -> Number:
    """Bytes of the layer in use and of prefetched layers, with the embedding tables of the stage.

    A rank without sharding peers copies a layer only to use it, and reduces its gradient into the stored one. If
    backward does not prefetch, its gradients coexist with one layer's weights.
    """
    stack = inputs.stack
    outer = stack.states.compute * np.where(block.pp == 1, parameters.both, ends[0] + ends[1])
    layer = parameters.largest + parameters.routed_layer
    shared = gathered_bytes(layer, inputs.gathered_width, _reduced_gradient_width(inputs), stack.buckets.prefetch)
    if not stack.overlap.ahead:
        with term("forward"):
            ahead = gathered_bytes(layer, inputs.gathered_width, 0.0, stack.buckets.prefetch)
        with term("backward"):
            shared = np.maximum(
                ahead, gathered_bytes(layer, inputs.gathered_width, _reduced_gradient_width(inputs), 0.0)
            )
    with term("copied"):
        own = matrices_bytes(layer, layer, inputs.gathered_width, _reduced_gradient_width(inputs))
    return np.where(block.shards > 1, shared, own) + outer


def _gathered_matrices(
    inputs: TrainingInputs, block: Block, parameters: StageParameters, ends: tuple[Number, Number]
) -> Number:
    """Bytes of the matrices that the stack gathers at a time: of layers, or of one table."""
    held = np.where(block.pp == 1, np.maximum(parameters.embedding, parameters.head), np.maximum(*ends))
    matrix = held
    for kind in inputs.model.layers:
        for each in layer_matmuls(inputs.model, shard(inputs.model, kind, block.tp, block.ep, block.etp)):
            matrix = np.maximum(matrix, table_parameters(each.n, each.k))
    layer = np.minimum(parameters.largest + parameters.routed_layer, inputs.stack.buckets.gathered or 0.0)
    return matrices_bytes(np.maximum(layer, matrix), matrix, inputs.gathered_width, _reduced_gradient_width(inputs))


def _reduced_gradient_width(inputs: TrainingInputs) -> float:
    """Bytes per element of a gradient before it is reduced."""
    return inputs.widths.reduced if inputs.tuning is None else 0.0


def gradient_buckets(inputs: TrainingInputs, block: Block) -> Number:
    """Gradient buckets, needed only where there are data-parallel peers."""
    buckets, live = inputs.stack.buckets, inputs.stack.buckets.live
    if block.structure.zero == 3 and buckets.live_sharded is not None:
        live = buckets.live_sharded
    size = live * inputs.bucket(block.shards, inputs.widths.reduced)
    return np.where((block.dp > 1) | (block.cp > 1), size, 0.0)


# The error band of memory, and the chance that a plan fits which follows from it.

MEMORY_KINDS = {
    "states": ("weights", "gradients", "optimizer", "gathered", "buckets", "update", "pages"),
    "activations": ("activations", "recompute", "logits", "context"),
    "allocator": ("fragmentation", "runtime"),
}
RESIDENT = ("weights", "optimizer")  # allocated for the whole run, with a size that follows from the parameters


def memory_band(inputs: TrainingInputs, lines: Mapping[str, Number], names: Sequence[str]) -> tuple[Number, Number]:
    """P10 and P90 of the sum of some lines of a stage's memory breakdown; P10 is not less than its resident lines."""
    total = added(lines, names)
    spread = memory_spread(inputs, total, lines, names)
    low = np.maximum(tenth_percentile(total, spread), added(lines, [name for name in RESIDENT if name in names]))
    return low, ninetieth_percentile(total, spread)


def peak_after_paging(peak: Number, usable: Number, pageable: Number) -> Number:
    """P10 or P90 of a stage's peak, if paged optimizer states move to the host before memory runs out [B].

    >>> [float(peak_after_paging(peak, 24.0, 2.0)) for peak in (20.0, 25.0, 30.0)]
    [20.0, 24.0, 28.0]
    """
    return np.maximum(np.minimum(peak, usable), peak - pageable)


def memory_spread(inputs: TrainingInputs, total: Number, lines: Mapping[str, Number], names: Sequence[str]) -> Number:
    """Relative spread of the sum of some lines: lines of one kind have a common error, kinds are independent."""
    error: Number = term_error(inputs.stack.spread.memory, total)
    with term("spread of the memory"):
        for kind, members in MEMORY_KINDS.items():
            counted = [name for name in members if name in names]
            if counted:
                with term(kind):
                    spread = getattr(inputs.stack.spread, kind)
                    if kind == "activations" and (new := unmeasured_layers(inputs)) is not None:
                        spread = combined_error(spread, new.spread)
                    error = combined_error(error, term_error(spread, added(lines, counted)))
        return share(error, np.maximum(total, 1.0))


def unmeasured_layers(inputs: TrainingInputs) -> MeasuredLayers | None:
    """The spread of the memory of kinds of layers that no run measured; None if a run did."""
    known = inputs.case.common.layers
    return None if known is None or layer_names_text(inputs.model) in known.runs else known


def unmeasured_memory(inputs: TrainingInputs) -> Iterator[Assumption]:
    """An assumption for layers whose memory no run measured."""
    if unmeasured_layers(inputs) is not None:
        yield Assumption(f"memory of {layer_names_text(inputs.model)}", "never measured", "wider band")


def fit_chance(inputs: TrainingInputs, ledger: Ledger) -> Number:
    """Chance that the peak of every stage fits in usable memory, and offloaded bytes in the host's.

    Stages and the host are wrong together, so the least counts.
    """
    away: list[Number] = []
    for position, stage in enumerate(STAGES):
        with term(f"{stage} stage"):
            lines = {name: ledger.line(name, position) for name in LINES}
            peak = ledger.peaks[position]
            spread = memory_spread(inputs, peak, lines, LINES)
            usable = inputs.usable_memory + ledger.pageable[position]
            short = added(lines, RESIDENT) > usable
            away.append(np.where(short, IMPOSSIBLE, spreads_away(np.maximum(peak, 1.0), usable, spread)))
    first, middle, last = away
    least = np.minimum(np.minimum(first, middle), last)
    held, taken = ledger.host
    if np.any(held):
        with term("host"):
            least = np.minimum(least, spreads_away(np.maximum(taken, LEAST), 1.0, host_spread(inputs)))
    return normal_share(least)


LEAST = 1e-9  # a share of the host that is nothing
IMPOSSIBLE = -40.0  # standard deviations whose chance is 0 in a 64-bit number


def host_spread(inputs: TrainingInputs) -> Number:
    """Relative spread of offloaded bytes on a host: that of all memory, and that of states."""
    spread = inputs.stack.spread
    return combined_error(term_error(spread.memory, 1.0), term_error(spread.states, 1.0))


def host_band(inputs: TrainingInputs, held: Number) -> tuple[Number, Number]:
    """P10 and P90 of the offloaded bytes on a host; `held`: the predicted bytes."""
    spread = host_spread(inputs)
    return tenth_percentile(held, spread), ninetieth_percentile(held, spread)
