"""Weights, gradients and optimizer states of a rank, on the device and on the host."""

from __future__ import annotations

import numpy as np

from costmodel.documents.schemas.stack import StateBytes
from costmodel.equations.kernels.memory_traffic import narrow_copy_bytes
from costmodel.equations.memory.states import (
    gradient_bytes,
    gradient_copy_bytes,
    gradient_traffic,
    optimizer_bytes,
    update_bytes,
    weight_bytes,
)
from costmodel.estimate.model.shards import prediction_parameters
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.lora import frozen_bytes
from costmodel.estimate.training.memory.offload import (
    gradients_held,
    moved_states,
    shard_of,
)
from costmodel.estimate.training.parallelism.expert.expert_traffic import expert_data
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import (
    head_holder,
    stepped,
    summed_once,
)
from costmodel.estimate.training.stage_parameters import StageParameters
from costmodel.estimate.training.training_inputs import ELEMENT_BYTES, TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


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


def _states(inputs: TrainingInputs, block: Block, held: Number, over: Number) -> dict[str, Number]:
    """Bytes of weights, gradients and optimizer states for some parameters, sharded over some ranks.

    Gradients of FSDP stay unsharded in a pipeline.
    """
    zero, states = block.structure.zero, inputs.stack.states
    moments = inputs.moments
    weights = weight_bytes(held, states.weights, states.compute, over, zero=zero, sharded_master=states.sharded_master)
    kept = kept_gradient(states, inputs.widths.gradient, zero=zero)
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
        "optimizer": optimizer_bytes(stepped(block, held), states.master, moments, over, zero=zero),
    }


def kept_gradient(states: StateBytes, summed: float, *, zero: int) -> float:
    """Bytes of a gradient that a rank stores; `summed`: bytes while gradients are reduced."""
    return max(summed, states.sharded_gradient or 0.0) if zero >= 2 else summed


def updating_bytes(inputs: TrainingInputs, block: Block, held: RankParameters, backward: Number) -> Number:
    """Additional bytes of an optimizer step on the device beyond the peak of backward."""
    states = inputs.stack.states
    stated = (states.step_gradient, states.step_roots, inputs.optimizer.root)
    gradient, roots, root = (0.0 if each is None else each for each in stated)
    if "optimizer" in block.structure.offload:
        returned = None if inputs.stack.offload is None else inputs.stack.offload.returned
        if returned is None or block.structure.zero > 2:
            return 0.0
        return update_bytes(_updated(inputs, block, held), returned, 0.0, 0.0, backward)
    if not (np.any(gradient) or (np.any(roots) and np.any(root))):
        return 0.0
    zero, updated = block.structure.zero, _updated(inputs, block, held)
    if states.gradient_copies and zero <= 1:
        gradient = 0.0  # counted among the gradients
    elif states.freed_gradient and zero == 2:
        gradient = gradient - inputs.widths.gradient
    if zero == 3 and states.sub_group is not None:
        updated = np.minimum(updated, states.sub_group)
    return update_bytes(updated, gradient, roots, root, backward)


def moment_bytes(inputs: TrainingInputs, block: Block, held: RankParameters) -> Number:
    """Bytes of the moments that a rank of a stage has on its device and may page out."""
    if not inputs.optimizer.paged or "optimizer" in block.structure.offload:
        return 0.0
    with term("moments"):
        return gradient_traffic(_updated(inputs, block, held), inputs.moments)


def _updated(inputs: TrainingInputs, block: Block, held: RankParameters) -> Number:
    """Parameters that a rank of a stage updates."""
    routed = 0.0 if inputs.experts is None else stepped(block, held.routed_trained)
    return shard_of(inputs, block, stepped(block, held.trained), routed)


def _converted(inputs: TrainingInputs, block: Block, layers: Number, over: Number) -> Number:
    """Bytes of converted weights of the layers, less the stored weights that they replace.

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
    """Bytes of a rank's frozen weights; those of layers may be packed, and ZeRO 3 shards all of them."""
    frozen = frozen_bytes(inputs, layers, held)
    return frozen / over if block.structure.zero == 3 else frozen


def all_states(
    inputs: TrainingInputs, block: Block, parameters: StageParameters, held: RankParameters, position: int
) -> tuple[dict[str, Number], Number]:
    """States of a stage on the device, and the bytes of states on the host.

    Routed experts are sharded over the ranks that hold the same experts, all other parameters over dp.
    """
    found = _states(inputs, block, held.trained, block.shards)
    if inputs.tuning is not None:
        ahead = head_holder(block, prediction_parameters(inputs.model, block.tp), position)
        found["weights"] = found["weights"] + _frozen(inputs, block, held.layers + ahead, held.all, block.shards)
    elif inputs.tower_frozen:
        with term("frozen tower"):
            frozen = (held.all - held.trained) * inputs.stack.states.compute
            found["weights"] = found["weights"] + (frozen / block.shards if block.structure.zero == 3 else frozen)
    found["weights"] = found["weights"] + _converted(inputs, block, held.layers, block.shards)
    if inputs.experts is None:
        found["gradients"] = gradients_held(inputs, block, parameters, found["gradients"])
        return moved_states(inputs, block, found, _updated(inputs, block, held))
    with term("experts"):
        edp = expert_data(inputs, block)
        routed = _states(inputs, block, held.routed_trained, edp)
        if inputs.tuning is not None:
            routed["weights"] = routed["weights"] + _frozen(inputs, block, held.routed, held.routed, edp)
        routed["weights"] = routed["weights"] + _converted(inputs, block, parameters.routed_ranks[position], edp)
    both = {name: value + routed[name] for name, value in found.items()}
    both["gradients"] = gradients_held(inputs, block, parameters, both["gradients"])
    return moved_states(inputs, block, both, _updated(inputs, block, held))
