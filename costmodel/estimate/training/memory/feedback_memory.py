"""Memory for error feedback of compression and for the outer optimizer of sites."""

from __future__ import annotations

from costmodel.equations.memory.states import gradient_traffic
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.memory.offload import shard_of
from costmodel.estimate.training.parallelism.data.codecs import FP32, remembered
from costmodel.estimate.training.parallelism.expert.expert_traffic import expert_data
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import stepped
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term

OUTER = 2.0  # weights of the last exchange, and their momentum


def with_memories(
    inputs: TrainingInputs, block: Block, column: dict[str, Number], trained: Number, routed: Number
) -> dict[str, Number]:
    """The lines of a stage, with error feedback under gradients and an outer optimizer under the optimizer."""
    found = dict(column)
    if block.structure.compression != "none":
        copies = 1.0 if inputs.experts is None else expert_data(inputs, block)
        found["gradients"] = found["gradients"] + remembered(inputs, block, trained, routed, copies)
    if inputs.sites is not None:
        with term("outer optimizer"):
            experts = 0.0 if inputs.experts is None else stepped(block, routed)
            updated = shard_of(inputs, block, stepped(block, trained), experts)
            found["optimizer"] = found["optimizer"] + OUTER * gradient_traffic(updated, FP32)
    return found
