"""Forward passes alone, as log-probabilities, values and rewards need them: the forward half of the training step."""

from __future__ import annotations

from costmodel.equations.memory.states import weight_bytes
from costmodel.equations.run.reinforcement_learning import forward_passes_time
from costmodel.estimate.machine.process_groups import groups
from costmodel.estimate.shared.plan_batch import Block, ForwardBackward, PerStage, TimeByCategory, largest
from costmodel.estimate.training.parallelism.data import data_traffic, fullest
from costmodel.estimate.training.parallelism.pipeline import Rank, stage_layers
from costmodel.estimate.training.stage_parameters import stage_parameters, trained
from costmodel.estimate.training.time.stage_time import stages
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term


def forward_time(inputs: TrainingInputs, block: Block, micro_batches: Number) -> Number:
    """Time of the given number of micro-batches through the model, without backward and update."""
    layers = stage_layers(inputs.model, block)
    parameters = stage_parameters(inputs, block, layers)
    own, work = trained(inputs, block, layers, parameters), stages(inputs, block, layers)
    data = data_traffic(inputs, block, groups(inputs, block), parameters, own, work, micro_batches)
    shown = ForwardBackward(TimeByCategory(dp=data.layer_forward), TimeByCategory())
    none, both, only = ForwardBackward(TimeByCategory(), TimeByCategory()), work.embedding + work.head, block.pp == 1
    held = zip((layers.first, layers.middle, layers.last), work.each, (work.embedding, none, work.head), strict=True)
    ranks = PerStage(*(Rank(count, each + shown, ends, both, only) for count, each, ends in held))
    with term("forward passes"):
        slowest = largest(*(rank.forward for rank in ranks))
        return forward_passes_time(slowest, micro_batches, block.pp)


def frozen_copy(inputs: TrainingInputs, block: Block) -> Number:
    """Bytes of a frozen model that only runs forward, in 16 bits and sharded like the trained model."""
    layers = stage_layers(inputs.model, block)
    most = fullest(inputs, block, stage_parameters(inputs, block, layers))
    zero, width = block.structure.zero, inputs.stack.states.compute
    with term("frozen copy"):
        parameters = most.held + most.routed
        return weight_bytes(parameters, width, width, block.shards, zero=zero, sharded_master=False)
