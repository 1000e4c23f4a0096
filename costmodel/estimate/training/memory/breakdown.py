"""The memory breakdown of a rank: first, middle and last pipeline stage, and the worst of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.equations.kernels.low_precision import narrow_copy_bytes
from costmodel.equations.memory.activations import mask_bytes
from costmodel.equations.memory.states import (
    gradient_bytes,
    gradient_copy_bytes,
    optimizer_bytes,
    overhead_bytes,
    reserved_bytes,
    update_bytes,
    weight_bytes,
)
from costmodel.equations.parallelism.layer_split import mirrored_layers
from costmodel.estimate.model.shards import Shard, prediction_parameters, shard
from costmodel.estimate.shared.memoize import OFFLOAD, RECOMPUTE, memoized
from costmodel.estimate.shared.per_stage import STAGES, PerStage, same_on_all_stages
from costmodel.estimate.shared.plan_batch import Block, single_rank
from costmodel.estimate.shared.time_breakdown import added, largest
from costmodel.estimate.training.lora import frozen_bytes, trained
from costmodel.estimate.training.memory.activations import (
    dropped_bytes,
    layer_activations,
    mean_activations,
    whole_activations,
)
from costmodel.estimate.training.memory.feedback_memory import with_memories
from costmodel.estimate.training.memory.logits import loss_bytes, waiting_bytes
from costmodel.estimate.training.memory.offload import moved_activations, moved_states, shard_of, used_capacity
from costmodel.estimate.training.memory.temporary_buffers import gathered, live_buckets
from costmodel.estimate.training.parallelism.context.context_traffic import context_buffers
from costmodel.estimate.training.parallelism.expert.expert_traffic import expert_data
from costmodel.estimate.training.parallelism.pipeline.layer_split import StageLayers
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import (
    forwards_first,
    head_holder,
    holds_embedding_and_head,
    live,
    stepped,
    summed_once,
    weight_replication,
)
from costmodel.estimate.training.recompute.recomputed_work import dropped
from costmodel.estimate.training.recompute.savings import reached, together
from costmodel.estimate.training.stage_parameters import StageParameters, local_tokens
from costmodel.estimate.training.training_inputs import ELEMENT_BYTES, TrainingInputs
from costmodel.ground.equation import Number, known_as, term

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
    "runtime",
)
ALLOCATED = LINES[:10]
RESERVED = LINES[:11]
OF_BACKWARD = ("gathered", "context", "activations", "recompute", "logits")
ON_HOST = ("host states", "host activations")


@dataclass(frozen=True)
class Ledger:
    """Bytes by line and stage; every line has one entry per stage."""

    lines: dict[str, PerStage[Number]]
    peaks: PerStage[Number]
    worst: Number
    host: tuple[Number, Number]  # bytes of a node, and the share of its capacity

    def line(self, name: str, stage: int) -> Number:
        """One line of one stage."""
        return self.lines[name][stage]


@dataclass(frozen=True)
class RankParameters:
    """Parameters of a rank in one position: all, those of its layers, the trained ones.

    Routed experts separately, all and trained; and those of the adapters of the largest layer.
    """

    all: Number
    layers: Number
    trained: Number
    routed: Number
    routed_trained: Number
    adapters: Number


@memoized(*RECOMPUTE, *OFFLOAD, "zero", "sequence_parallel", "cp_type", "schedule", "compression")
def ledger(
    inputs: TrainingInputs, block: Block, layers: StageLayers, parameters: StageParameters, micro_batches: Number
) -> Ledger:
    """Every line of the breakdown for the first, a middle and the last stage."""
    last_stage = block.pp - 1
    stages = (last_stage - last_stage, np.minimum(last_stage, 1.0), last_stage)
    held = _held(inputs, block, layers, parameters)
    kept = _activations(inputs, block, layers, micro_batches)
    columns = [
        _stage(inputs, block, parameters, held[position], kept[position], stages[position], micro_batches, position)
        for position in range(3)
    ]
    lines = {name: PerStage(*(column[name] for column in columns)) for name in LINES}
    peaks = PerStage(*(added(column, LINES) for column in columns))
    host: tuple[Number, Number] = (0.0, 0.0)
    if block.structure.offload:
        worst = (_worst(PerStage(*(column[name] for column in columns))) for name in ON_HOST)
        host = used_capacity(inputs, block, *worst)
    return Ledger(lines, peaks, known_as("memory_peak", _worst(peaks)), host)


def _worst(stages: PerStage[Number]) -> Number:
    """The maximum over the stages; the trace shows each by its name."""
    return largest(*(known_as(f"{name} stage", value) for name, value in zip(STAGES, stages, strict=True)))


@memoized("schedule")
def _held(
    inputs: TrainingInputs, block: Block, layers: StageLayers, parameters: StageParameters
) -> list[RankParameters]:
    schedule = block.structure.schedule
    whole = parameters.stages(block.pp, schedule)
    own = trained(inputs, block, layers, parameters)
    updated = whole if own is parameters else own.stages(block.pp, schedule)
    routed, routed_trained = parameters.routed_stages(block), own.routed_stages(block)
    copies = weight_replication(schedule)
    layers_held = [copies * each for each in parameters.ranks]
    adapters = 0.0 if own is parameters else own.largest + own.routed_layer
    columns = zip(whole, layers_held, updated, routed, routed_trained, strict=True)
    return [RankParameters(*column, adapters) for column in columns]


def _stage(
    inputs: TrainingInputs,
    block: Block,
    parameters: StageParameters,
    held: RankParameters,
    kept: SavedActivations,
    stage: Number,
    micro_batches: Number,
    position: int,
) -> dict[str, Number]:
    stack = inputs.stack
    with term(f"{STAGES[position]} stage"):
        fixed, column_host = _fixed(inputs, block, parameters, held, position)
        column = dict(fixed)
        flying = live(block, micro_batches, stage)
        at_first, at_last = holds_embedding_and_head(block.structure.schedule, position)
        head = head_holder(block, loss_bytes(inputs, block), position)
        activations, gone = moved_activations(inputs, block, flying * kept.layers, kept.largest, head)
        column["activations"] = activations + (_first(inputs, block, flying) if at_first else 0.0)
        column["recompute"], column["logits"] = _one_of(kept.whole, head)
        if at_last and forwards_first(block.structure.schedule):
            column["logits"] = column["logits"] + waiting_bytes(inputs, block, micro_batches)
        column["context"] = _context(inputs, block)
        column["update"] = _updating(inputs, block, held, added(column, OF_BACKWARD))
        column["fragmentation"] = reserved_bytes(added(column, ALLOCATED), inputs.fragmentation)
        runtime = stack.runtime
        opened = runtime.communicators if inputs.ranks > 1 else 0.0
        column["runtime"] = overhead_bytes(runtime.context, opened, runtime.communicator)
        column |= dict(zip(ON_HOST, (column_host, gone), strict=True))
    return column


def _one_of(again: Number, loss: Number) -> tuple[Number, Number]:
    """The larger of a recomputed layer and the loss; the loss is freed before a layer is recomputed."""
    if not np.any(again):
        return again, loss
    larger = again > loss
    return np.where(larger, again, 0.0), np.where(larger, 0.0, loss)


@memoized("zero", "schedule", "offload", "offload_to", "compression")
def _fixed(
    inputs: TrainingInputs, block: Block, parameters: StageParameters, held: RankParameters, position: int
) -> tuple[dict[str, Number], Number]:
    """Bytes of a stage that do not depend on micro-batches, and the bytes of them on the host."""
    column, on_host = _all_states(inputs, block, parameters, held, position)
    column["gathered"] = gathered(inputs, block, parameters, held.adapters, position)
    column["buckets"] = live_buckets(inputs, block)
    return with_memories(inputs, block, column, held.trained, held.routed_trained), on_host


def _states(inputs: TrainingInputs, block: Block, held: Number, over: Number) -> dict[str, Number]:
    """Bytes of weights, gradients and optimizer states for some parameters, sharded over some ranks.

    Gradients of FSDP stay unsharded in a pipeline.
    """
    zero, states = block.structure.zero, inputs.stack.states
    moments = inputs.case.optimizer.moments
    weights = weight_bytes(held, states.weights, states.compute, over, zero=zero, sharded_master=states.sharded_master)
    gradients = gradient_bytes(held, inputs.widths.gradient, over, zero=zero)
    late = summed_once(inputs, block)
    if zero >= 2 and np.any(late):
        gradients = np.where(late, gradient_bytes(held, inputs.widths.gradient, over, zero=1), gradients)
    if states.gradient_copies and zero <= 1 and "optimizer" not in block.structure.offload:
        wide = inputs.widths.gradient == ELEMENT_BYTES["fp32"]
        gradients = gradients + gradient_copy_bytes(held, inputs.widths.gradient, over, of="all" if wide else "shard")
    return {
        "weights": weights,
        "gradients": gradients,
        "optimizer": optimizer_bytes(stepped(block, held), states.master, moments, over, zero=zero),
    }


def _updating(inputs: TrainingInputs, block: Block, held: RankParameters, backward: Number) -> Number:
    """Additional bytes of an optimizer step on the device beyond the peak of backward."""
    states, root = inputs.stack.states, inputs.case.optimizer.root or 0.0
    gradient, roots = states.step_gradient or 0.0, states.step_roots or 0.0
    if "optimizer" in block.structure.offload or not (gradient or (roots and root)):
        return 0.0
    return update_bytes(_updated(inputs, block, held), gradient, roots, root, backward)


def _updated(inputs: TrainingInputs, block: Block, held: RankParameters) -> Number:
    """Parameters that a rank of a stage updates."""
    routed = 0.0 if inputs.experts is None else stepped(block, held.routed_trained)
    return shard_of(inputs, block, stepped(block, held.trained), routed)


def _converted(inputs: TrainingInputs, block: Block, layers: Number, over: Number) -> Number:
    """Bytes that converted weights of the layers add to the stored ones, or save where they replace them.

    FSDP gathers them in the narrow type, and under ZeRO 2 they stay gathered.
    """
    narrow, zero, states = inputs.narrow, block.structure.zero, inputs.stack.states
    if narrow is None:
        return 0.0
    with term("converted weights"):
        if not narrow.cached:
            stay = states.sharded_master and zero == 2 and inputs.gathers_narrow and inputs.tuning is None
            return layers * (inputs.gathered - states.compute) if stay else 0.0
        copies = narrow_copy_bytes(layers, inputs.recipe.copies, over, sharded=zero == 3)
    if not narrow.primary:
        return copies
    return copies - weight_bytes(layers, states.weights, states.compute, over, zero=zero, sharded_master=False)


def _frozen(inputs: TrainingInputs, block: Block, layers: Number, held: Number, over: Number) -> Number:
    """Frozen weights of a rank; those of layers may be packed, and all are sharded like trained ones."""
    frozen = frozen_bytes(inputs, layers, held)
    return frozen / over if block.structure.zero == 3 else frozen


def _all_states(
    inputs: TrainingInputs, block: Block, parameters: StageParameters, held: RankParameters, position: int
) -> tuple[dict[str, Number], Number]:
    """States of a stage on the device, and the bytes of states on the host.

    Routed experts are sharded over the ranks that hold the same experts, all other parameters over dp.
    """
    found = _states(inputs, block, held.trained, block.shards)
    if inputs.tuning is not None:
        ahead = head_holder(block, prediction_parameters(inputs.model, block.tp), position)
        found["weights"] = found["weights"] + _frozen(inputs, block, held.layers + ahead, held.all, block.shards)
    found["weights"] = found["weights"] + _converted(inputs, block, held.layers, block.shards)
    if inputs.experts is None:
        return moved_states(inputs, block, found, _updated(inputs, block, held))
    with term("experts"):
        edp = expert_data(inputs, block)
        routed = _states(inputs, block, held.routed_trained, edp)
        if inputs.tuning is not None:
            routed["weights"] = routed["weights"] + _frozen(inputs, block, held.routed, held.routed, edp)
        routed["weights"] = routed["weights"] + _converted(inputs, block, parameters.routed_ranks[position], edp)
    both = {name: value + routed[name] for name, value in found.items()}
    return moved_states(inputs, block, both, _updated(inputs, block, held))


@dataclass(frozen=True)
class SavedActivations:
    """Activations of a micro-batch: of a stage's layers, of its largest layer, and of a recomputed layer."""

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
        flying = live(block, micro_batches, 0.0)
        ends = mirrored_layers(flying, *layers.mirrored)
        held = (ends, layers.middle, ends)
    for kind in inputs.model.layers:
        part = shard(inputs.model, kind, block.tp, block.ep, block.etp)
        for position, count in enumerate(held):
            each = mean_activations(inputs, block, part, count)
            most[position] = np.maximum(most[position], each)
            own = layers.of_kind(inputs.model, kind, count, position)
            if layers.mirrored is not None and position != 1:
                own = mirrored_layers(flying, *layers.of_stages(inputs.model, kind))
            kept[position] = kept[position] + own * each
        extra = np.maximum(extra, _held_whole(inputs, block, part, layers.fullest))
    if layers.equal:
        return same_on_all_stages(SavedActivations(kept[0], most[0], extra))
    return PerStage(*(SavedActivations(*sizes, extra) for sizes in zip(kept, most, strict=True)))


def _held_whole(inputs: TrainingInputs, block: Block, part: Shard, layers: Number) -> Number:
    """Bytes of a layer during its recompute."""
    what = dropped(inputs, block.structure)
    if what == "layer":
        whole = together(block.structure) * whole_activations(inputs, block, part, selective=False)
        return np.where(reached(block, layers) > 0, whole, 0.0)
    if what == "modules":
        return dropped_bytes(inputs, block, part)
    if what == "nothing":
        return 0.0
    whole = whole_activations(inputs, block, part, selective=False)
    if what == "core":
        return whole - whole_activations(inputs, block, part, selective=True)
    return np.maximum(whole - layer_activations(inputs, block, part), 0.0)


def _first(inputs: TrainingInputs, block: Block, live: Number) -> Number:
    if not inputs.stack.kernels.dropout:
        return 0.0
    tokens = local_tokens(inputs, block)
    return live * mask_bytes(tokens, inputs.model.hidden, inputs.widths.element, block.sequence_ranks)


def _context(inputs: TrainingInputs, block: Block) -> Number:
    """Tokens of other ranks that are held during the layer that needs most of them."""
    if single_rank(block.cp):
        return 0.0
    held: Number = 0.0
    for kind in inputs.model.layers:
        held = np.maximum(held, context_buffers(inputs, block, shard(inputs.model, kind, block.tp)))
    return held
