"""Traffic between pipeline stages."""

from __future__ import annotations

from costmodel.equations.network.overlap import exposed_sends, sends_of_rank
from costmodel.estimate.machine.collective_time import send_time
from costmodel.estimate.machine.process_groups import Group, Transfer
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import FOLDED
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class PipelineTraffic:
    """Sends between stages."""

    exposed: Number
    transfers: tuple[Transfer, ...]


def pipeline_traffic(
    inputs: TrainingInputs, block: Block, pp: Group, message: Number, micro_batches: Number
) -> PipelineTraffic:
    """Activations and their gradients over each stage boundary; every tp rank sends its own part."""
    with term("pp send"):
        part = message / (block.tp if inputs.stack.split_sends else block.sequence_ranks)
        time = send_time(inputs, part, pp)
    count = sends_of_rank(block.pp, micro_batches, block.vpp, 2.0 if block.structure.schedule in FOLDED else 1.0)
    exposed = exposed_sends(block.pp, count, block.vpp, time, inputs.overlap.pp)
    return PipelineTraffic(exposed, (Transfer(pp, "send", part, time, count),))
