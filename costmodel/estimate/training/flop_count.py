"""FLOP of a step, also of a vision tower ahead of the first layer."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.model import Layers
from costmodel.equations.kernels.flop import (
    korthikanti_recompute_flop,
    matmul_flop,
    megatron_flop,
    palm_flop,
    six_n_flop,
    training_flop,
)
from costmodel.equations.memory.activations import mlp_activations
from costmodel.equations.network.collectives import activation_message
from costmodel.equations.parallelism.counts import padded_vocab, tokens_in_micro_batch
from costmodel.equations.run.economics import tokens_per_step
from costmodel.estimate.model.feed_forward_kinds import ROUTED
from costmodel.estimate.model.mixers.mixing_half import core_flop, mixer_shard
from costmodel.estimate.model.shards import (
    counted_kinds,
    layer_count,
    layer_matmuls,
    model_active_parameters,
    patch_matmul,
    projector_matmuls,
    shard,
    stream_head_matmuls,
    stream_width,
)
from costmodel.estimate.shared.plan_batch import (
    RECOMPUTE,
    SPLIT,
    Block,
    ForwardBackward,
    Structure,
    TimeByCategory,
    memoized,
    summed,
)
from costmodel.estimate.training.layer_kernels import token_matmul
from costmodel.estimate.training.layer_time import LayerWork, layer_work
from costmodel.estimate.training.recompute import (
    is_partial_recompute,
    recompute_way,
    recomputed_share_of_model,
    recomputed_work,
)
from costmodel.estimate.training.saved_activations import activations_without_recompute, layer_activations
from costmodel.estimate.training.stage_parameters import thin_flop, useful_flop
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class FrontWork:
    """Seconds of the vision tower for one micro-batch, and its layers by kind with their number."""

    both: ForwardBackward
    layers: tuple[tuple[Number, LayerWork], ...]


@record
class FrontMemory:
    """Bytes that the vision tower saves for a micro-batch, and bytes of a layer during its recompute."""

    saved: Number
    whole: Number


@record
class FrontFlop:
    """Useful FLOP of the vision tower in a step, and FLOP repeated by recompute."""

    useful: Number = 0.0
    again: Number = 0.0


def is_frozen(inputs: TrainingInputs) -> bool:
    """Whether the vision tower is not trained, so that it has no backward pass."""
    return inputs.tower_frozen or inputs.tuning is not None


def image_block(inputs: TrainingInputs, block: Block) -> Block:
    """The plans as the vision tower sees them: images in place of sequences, which context-parallel ranks divide."""
    assert inputs.images is not None
    structure, one = block.structure, np.ones_like(block.cp)
    if is_partial_recompute(structure):
        structure = replace(structure, recompute="none", recompute_layers=None)
    with term("images of a micro-batch"):
        images = block.micro_batch * inputs.images.count / block.cp
    return replace(block, structure=structure, micro_batch=images, cp=one, ep=one, etp=one, known={})


@memoized(*RECOMPUTE, "sequence_parallel", "cp_type", "order", "schedule")
def front_work(inputs: TrainingInputs, block: Block) -> FrontWork:
    """Time of the vision tower and its projectors, for the images of a micro-batch."""
    front, tower = inputs.front, inputs.model.vision
    assert front is not None
    assert tower is not None
    seen = image_block(inputs, block)
    patches = tokens_in_micro_batch(seen.micro_batch, front.sequence)
    trained, works = not is_frozen(inputs), list[tuple[Number, LayerWork]]()
    with term("vision tower"):
        read = token_matmul(inputs, patches, patch_matmul(tower), trained=trained)
        times = ForwardBackward(read.forward, read.weight or TimeByCategory(), read.weight)
        for kind in tower.layers:
            work = layer_work(front, seen, kind)
            works.append((kind.count, work))
            times = times + work.both.each(functools.partial(operator.mul, kind.count))
        if not trained:
            times = ForwardBackward(times.forward, TimeByCategory())
    with term("projectors"):
        rows = patches / tower.merge
        for own in tower.projectors:
            for matrix in projector_matmuls(inputs.model, own, block.tp):
                each = token_matmul(inputs, rows, matrix, trained=inputs.tuning is None)
                each = each if inputs.tuning is None else ForwardBackward(each.forward, TimeByCategory())
                times = times + each.each(functools.partial(operator.mul, own.count))
    return FrontWork(times, tuple(works) if trained else ())


@memoized(*RECOMPUTE, "sequence_parallel", "cp_type", "schedule")
def front_memory(inputs: TrainingInputs, block: Block) -> FrontMemory:
    """Bytes that the vision tower and its projectors save for a micro-batch."""
    front, tower = inputs.front, inputs.model.vision
    assert front is not None
    assert tower is not None
    seen, element = image_block(inputs, block), inputs.widths.element
    patches = tokens_in_micro_batch(seen.micro_batch, front.sequence)
    saved: Number = 0.0
    whole: Number = 0.0
    if not is_frozen(inputs):
        with term("vision tower"):
            saved = activation_message(patches, tower.patch, element)
            for kind in tower.layers:
                part = shard(front.model, kind, block.tp)
                saved = saved + kind.count * layer_activations(front, seen, part)
                if recompute_way(front, seen.structure) == "layer":
                    whole = np.maximum(whole, activations_without_recompute(front, seen, part, selective=False))
    if inputs.tuning is None:
        with term("projectors"):
            rows = patches / tower.merge
            for own in tower.projectors:
                kept = activation_message(rows, own.inputs, element)
                if own.inner is not None:
                    kept = kept + mlp_activations(rows, own.inner / block.tp, element, gated=False)
                saved = saved + own.count * kept
    return FrontMemory(saved, whole)


def _tower_flop(inputs: TrainingInputs, front: TrainingInputs) -> Iterator[Number]:
    """Forward FLOP of the tower in a step, without projectors."""
    tower, images = inputs.model.vision, inputs.images
    assert tower is not None
    assert images is not None
    with term("images of a step"):
        count = inputs.global_batch * images.count
        patches = count * front.sequence
    read = patch_matmul(tower)
    yield matmul_flop(patches, read.n, read.k)
    for kind in tower.layers:
        part = shard(front.model, kind, 1.0)
        for matrix in layer_matmuls(front.model, part):
            yield kind.count * matmul_flop(patches, matrix.n, matrix.k)
        if part.mixer is not None:
            core = core_flop(kind, part.mixer, count, front.sequence, part.mixer.heads, causal=False)
            yield kind.count * core


def _projector_flop(inputs: TrainingInputs, front: TrainingInputs) -> Number:
    """Forward FLOP of the projectors in a step."""
    tower, images = inputs.model.vision, inputs.images
    assert tower is not None
    assert images is not None
    total: Number = 0.0
    with term("projectors"):
        patches = (inputs.global_batch * images.count) * front.sequence
        rows = patches / tower.merge
        for own in tower.projectors:
            for matrix in projector_matmuls(inputs.model, own, 1.0):
                total = total + own.count * matmul_flop(rows, matrix.n, matrix.k)
    return total


def front_flop(inputs: TrainingInputs, block: Block) -> FrontFlop:
    """FLOP of the vision tower in a step: three times forward if it is trained, and once more with recompute."""
    if inputs.front is None:
        return FrontFlop()
    with term("vision tower"):
        parts = list(_tower_flop(inputs, inputs.front))
        forward = sum(parts[1:], start=parts[0])
        beside = _projector_flop(inputs, inputs.front)
        useful = forward if is_frozen(inputs) else training_flop(forward)
        useful = useful + (beside if inputs.tuning is not None else training_flop(beside))
    dropping = recompute_way(inputs, block.structure) == "layer" and not is_partial_recompute(block.structure)
    return FrontFlop(useful, forward if dropping and not is_frozen(inputs) else 0.0)


COUNTED = ("model-causal", "model-full")
MEGATRON = ("korthikanti", "megatron-2021")
COUNTS_RECOMPUTE = "megatron-2021"  # the whole of it, whatever a plan recomputes

CORE = "core"  # the products of attention that is not fused


@record
class StepFlop:
    """FLOP of a whole step: in the requested convention, and executed."""

    model: Number
    executed: Number


def forward_flop(inputs: TrainingInputs, *, causal: bool) -> tuple[Number, Number, Number]:
    """Forward FLOP: all weight matrices of the layers, the attention core, the head."""
    model = inputs.model
    tokens = tokens_per_step(inputs.global_batch, inputs.layer_sequence)
    linear: Number = 0.0
    core: Number = 0.0
    for kind in model.layers:
        linear, core = _add_layers(inputs, kind, kind.count, tokens, linear, core, causal=causal)
    with term("head"):
        predicted = tokens_per_step(inputs.global_batch, inputs.sequence)
        head = matmul_flop(predicted, model.vocab, model.hidden)
        if model.head_transform:
            head = head + matmul_flop(predicted, model.hidden, model.hidden)
        for matrix in stream_head_matmuls(model, 1.0):
            head = head + matmul_flop(predicted, matrix.n, matrix.k)
    if model.prediction is not None:
        depth = model.prediction.depth
        with term("multi-token prediction"):
            linear, core = _add_layers(inputs, model.prediction.layer, depth, tokens, linear, core, causal=causal)
            linear = linear + depth * matmul_flop(tokens, model.hidden, model.hidden + stream_width(model))
            head = head + depth * head
    return linear, core, head


def _add_layers(
    inputs: TrainingInputs, kind: Layers, count: Number, tokens: Number, linear: Number, core: Number, *, causal: bool
) -> tuple[Number, Number]:
    """Forward FLOP of weight matrices and of attention, after adding `count` layers of one kind."""
    for _, flop in _matrix_flop(inputs, kind, tokens):
        linear = linear + count * flop
    own = _core_flop(inputs, kind, causal=causal)
    return linear, core if own is None else core + count * own


def _matrix_flop(inputs: TrainingInputs, kind: Layers, tokens: Number) -> Iterator[tuple[str, Number]]:
    """Name and forward FLOP of each weight matrix in one layer, for `tokens` tokens; routed experts count as one."""
    part = shard(inputs.model, kind, 1.0)
    for matrix in layer_matmuls(inputs.model, part):
        with term(matrix.name):
            yield matrix.name, matmul_flop(tokens, matrix.n, matrix.k)
    if part.routed is not None:
        yield ROUTED[0], part.routed.flop(tokens)


def _core_flop(inputs: TrainingInputs, kind: Layers, *, causal: bool) -> Number | None:
    """Forward FLOP of attention scores and values, or of a scan, in one layer; None for a layer without a mixer."""
    part = shard(inputs.model, kind, 1.0)
    if part.mixer is None:
        return None
    sizes = (inputs.global_batch, inputs.layer_sequence, part.mixer.heads)
    return core_flop(kind, part.mixer, *sizes, causal=causal)


def core_flop_by_kind(inputs: TrainingInputs) -> Iterator[tuple[Layers, Number]]:
    """Each kind of layer with attention or a scan, and the forward FLOP of those in all its layers."""
    for kind in inputs.model.layers:
        own = _core_flop(inputs, kind, causal=True)
        if own is not None:
            yield kind, kind.count * own


def _flop_in_convention(inputs: TrainingInputs, linear: Number, core: Number, head: Number) -> Number:
    """FLOP of a step as the scenario asks to count them (causal or full attention, with or without the head).

    For a LoRA run, conventions that count operations count the executed ones; closed forms keep their definition.
    """
    convention, model, layers = inputs.convention, inputs.model, layer_count(inputs.model)
    if convention in COUNTED:
        return useful_flop(inputs, linear, core, head)
    if convention in MEGATRON:
        vocab = padded_vocab(model.vocab, inputs.stack.vocab_multiple, 1.0)
        sizes = (inputs.global_batch, inputs.sequence, layers, model.hidden, vocab)
        return megatron_flop(*sizes, recomputed=convention == COUNTS_RECOMPUTE)
    tokens, active = tokens_per_step(inputs.global_batch, inputs.sequence), model_active_parameters(model)
    if convention == "6n":
        return six_n_flop(active, tokens)
    part = next((part for kind in model.layers if (part := mixer_shard(model, kind, 1.0))), None)
    heads, head_dim = (part.heads, part.head_dim) if part else (0.0, 0.0)
    return palm_flop(active, tokens, layers, heads, head_dim, inputs.sequence)


@memoized(*RECOMPUTE, *SPLIT)
def flop_of_step(inputs: TrainingInputs, block: Block) -> StepFlop:
    """FLOP of a step in the scenario's convention, and executed FLOP."""
    causal = inputs.convention == "model-causal"
    as_stated = inputs.model is inputs.case.model
    of_model = inputs if as_stated else replace(inputs, model=inputs.case.model)
    forward = forward_flop(of_model, causal=causal)
    counted = _flop_in_convention(of_model, *forward)
    if inputs.tuning is None and inputs.convention == COUNTS_RECOMPUTE:
        return StepFlop(counted, counted)
    done, seen = counted, front_flop(inputs, block)
    if inputs.tuning is not None or not as_stated:
        done = useful_flop(inputs, *(forward if as_stated else forward_flop(inputs, causal=causal)))
    again = recomputed_share_of_model(inputs.model, block) * _recomputed_flop(inputs, block.structure, causal=causal)
    if inputs.front is None:
        return StepFlop(counted, done + again)
    counted = counted + seen.useful if inputs.convention in COUNTED else counted
    return StepFlop(counted, done + seen.useful + again + seen.again)


def _recomputed_flop(inputs: TrainingInputs, structure: Structure, *, causal: bool) -> Number:
    """Forward FLOP that recompute repeats in a step; norms and activation functions are negligible."""
    model, tokens = inputs.model, tokens_per_step(inputs.global_batch, inputs.layer_sequence)
    if inputs.convention in MEGATRON and inputs.tuning is None and recompute_way(inputs, structure) == "core":
        return korthikanti_recompute_flop(inputs.global_batch, inputs.sequence, layer_count(model), model.hidden)
    total: Number = 0.0
    with term("again"):
        for kind, count in counted_kinds(model):
            again = recomputed_work(inputs, structure, kind)
            for name, flop in (*_matrix_flop(inputs, kind, tokens), *thin_flop(inputs, kind)):
                if name in again.matrices:
                    total = total + count * (flop if again.times == 1 else again.times * flop)
            own = _core_flop(inputs, kind, causal=causal) if again.core else None
            total = total if own is None else total + count * own
    return total


def flop_of_shapes(inputs: TrainingInputs) -> dict[tuple[str, float, float], Number]:
    """Forward FLOP per token by matrix product.

    Products with the same name, n and k are added. Routed experts are grouped products with an independent error, even
    for equal n and k.
    """
    work: dict[tuple[str, float, float], Number] = {}
    for name, n, k, flop in _matmul_shapes(inputs):
        shape = (name, float(n), float(k))
        work[shape] = summed(work.get(shape, 0.0), flop)
    return work


def _matmul_shapes(inputs: TrainingInputs) -> Iterator[tuple[str, Number, Number, Number]]:
    """Name, n, k and forward FLOP per token of each matrix product of the head and the layers, unsharded."""
    model = inputs.model
    yield "head", model.vocab, model.hidden, matmul_flop(1.0, model.vocab, model.hidden)
    for kind in model.layers:
        part = shard(model, kind, 1.0)
        for each in layer_matmuls(inputs.model, part):
            yield each.name, each.n, each.k, kind.count * matmul_flop(1.0, each.n, each.k)
        if part.routed is not None:
            for each in part.routed.matrices():
                yield each.name, each.n, each.k, kind.count * matmul_flop(part.routed.of.top_k, each.n, each.k)
        if part.mixer is not None and inputs.rates.attention is None:
            core = core_flop(kind, part.mixer, 1.0, inputs.layer_sequence, part.mixer.heads, causal=False)
            yield CORE, 0.0, part.mixer.head_dim, kind.count * (core / inputs.layer_sequence)
