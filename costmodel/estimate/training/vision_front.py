"""A vision tower on the first stage: time, saved activations and FLOP for the images of a micro-batch."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from costmodel.equations.kernels.flop import matmul_flop, training_flop
from costmodel.equations.memory.activations import mlp_activations
from costmodel.equations.network.collectives import activation_message
from costmodel.equations.parallelism.counts import tokens_in_micro_batch
from costmodel.estimate.model.mixers.table import core_flop
from costmodel.estimate.model.shards import matmuls, shard
from costmodel.estimate.model.vision_tower import patch_matmul, projector_matmuls
from costmodel.estimate.shared.per_stage import RECOMPUTE, memoized
from costmodel.estimate.shared.plan_batch import Block, ForwardBackward, TimeByCategory
from costmodel.estimate.training.memory.activations import layer_activations, whole_activations
from costmodel.estimate.training.recompute import dropped, partial
from costmodel.estimate.training.time.layer_kernels import plain_product
from costmodel.estimate.training.time.layer_time import LayerWork, layer_work
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class FrontWork:
    """Seconds of the vision tower for a micro-batch, and the work and number of its layers of each kind."""

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
    """Whether the vision tower has no backward pass, because it is not trained."""
    return inputs.tower_frozen or inputs.tuning is not None


def _block(inputs: TrainingInputs, block: Block) -> Block:
    """The plans with images instead of sequences; ranks that share a sequence divide its images."""
    assert inputs.images is not None
    structure, one = block.structure, np.ones_like(block.cp)
    if partial(structure):
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
    seen = _block(inputs, block)
    patches = tokens_in_micro_batch(seen.micro_batch, front.sequence)
    trained, works = not is_frozen(inputs), list[tuple[Number, LayerWork]]()
    with term("vision tower"):
        read = plain_product(inputs, patches, patch_matmul(tower), trained=trained)
        found = ForwardBackward(read.forward, read.weight or TimeByCategory(), read.weight)
        for kind in tower.layers:
            work = layer_work(front, seen, kind)
            works.append((kind.count, work))
            found = found + work.both.each(functools.partial(operator.mul, kind.count))
        if not trained:
            found = ForwardBackward(found.forward, TimeByCategory())
    with term("projectors"):
        rows = patches / tower.merge
        for own in tower.projectors:
            for matrix in projector_matmuls(inputs.model, own, block.tp):
                each = plain_product(inputs, rows, matrix, trained=inputs.tuning is None)
                each = each if inputs.tuning is None else ForwardBackward(each.forward, TimeByCategory())
                found = found + each.each(functools.partial(operator.mul, own.count))
    return FrontWork(found, tuple(works) if trained else ())


@memoized(*RECOMPUTE, "sequence_parallel", "cp_type", "schedule")
def front_memory(inputs: TrainingInputs, block: Block) -> FrontMemory:
    """Bytes that the vision tower and its projectors save for a micro-batch."""
    front, tower = inputs.front, inputs.model.vision
    assert front is not None
    assert tower is not None
    seen, element = _block(inputs, block), inputs.widths.element
    patches = tokens_in_micro_batch(seen.micro_batch, front.sequence)
    saved: Number = 0.0
    whole: Number = 0.0
    if not is_frozen(inputs):
        with term("vision tower"):
            saved = activation_message(patches, tower.patch, element)
            for kind in tower.layers:
                part = shard(front.model, kind, block.tp)
                saved = saved + kind.count * layer_activations(front, seen, part)
                if dropped(front, seen.structure) == "layer":
                    whole = np.maximum(whole, whole_activations(front, seen, part, selective=False))
    if inputs.tuning is None:
        with term("projectors"):
            rows = patches / tower.merge
            for own in tower.projectors:
                kept = activation_message(rows, own.inputs, element)
                if own.inner is not None:
                    kept = kept + mlp_activations(rows, own.inner / block.tp, element, gated=False)
                saved = saved + own.count * kept
    return FrontMemory(saved, whole)


def _forward(inputs: TrainingInputs, front: TrainingInputs) -> Iterator[Number]:
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
        for matrix in matmuls(front.model, part):
            yield kind.count * matmul_flop(patches, matrix.n, matrix.k)
        if part.mixer is not None:
            core = core_flop(kind, part.mixer, count, front.sequence, part.mixer.heads, causal=False)
            yield kind.count * core


def _projected(inputs: TrainingInputs, front: TrainingInputs) -> Number:
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
        parts = list(_forward(inputs, inputs.front))
        forward = sum(parts[1:], start=parts[0])
        beside = _projected(inputs, inputs.front)
        useful = forward if is_frozen(inputs) else training_flop(forward)
        useful = useful + (beside if inputs.tuning is not None else training_flop(beside))
    dropping = dropped(inputs, block.structure) == "layer" and not partial(block.structure)
    return FrontFlop(useful, forward if dropping and not is_frozen(inputs) else 0.0)
