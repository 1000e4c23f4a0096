"""One layer on a rank for one micro-batch: compute, exchanges, and launch overhead."""

from __future__ import annotations

import numpy as np

from costmodel.documents.schemas.model import Layers
from costmodel.estimate.machine.process_groups import LayerTraffic, context_group, group
from costmodel.estimate.model.shards import shard
from costmodel.estimate.shared.memoize import RECOMPUTE, memoized
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.time_breakdown import ForwardBackward, TimeByCategory
from costmodel.estimate.training.parallelism.context.context_traffic import context_traffic
from costmodel.estimate.training.parallelism.expert.expert_time import expert_pass
from costmodel.estimate.training.parallelism.expert.expert_traffic import expert_groups, expert_traffic
from costmodel.estimate.training.parallelism.tensor.tensor_traffic import tensor_traffic
from costmodel.estimate.training.recompute.recomputed_work import again_of
from costmodel.estimate.training.stage_parameters import local_tokens
from costmodel.estimate.training.time.launch_overhead import launched
from costmodel.estimate.training.time.layer_kernels import core_of, layer_pass, shared_experts
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number
from costmodel.ground.record import record


@record
class LayerWork:
    """Seconds of a layer in both directions, and its traffic."""

    both: ForwardBackward
    traffic: tuple[LayerTraffic, ...]


@memoized(*RECOMPUTE, "sequence_parallel", "cp_type", "order", "schedule")
def layer_work(inputs: TrainingInputs, block: Block, kind: Layers) -> LayerWork:
    """One layer, on rows with different shardings."""
    structure, tp = block.structure, group(inputs, "tp", block.tp, 1.0)
    part = shard(inputs.model, kind, block.tp, block.ep, block.etp)
    layer = layer_pass(inputs, part, block)
    tokens, parallel = local_tokens(inputs, block), structure.sequence_parallel
    again = again_of(inputs, structure, kind)
    tensor = tensor_traffic(inputs, tp, tokens, layer, kind, again, sequence_parallel=parallel)
    context = context_traffic(
        inputs, context_group(inputs, block), block, part, core_of(again, layer), again=again.core
    )
    experts, inside = LayerTraffic("ep"), expert_pass(inputs, part, block, again)
    if inside is not None:
        layer = layer + inside.both
        placed = expert_groups(inputs, block)
        beside = shared_experts(inputs, part, tokens)
        experts = expert_traffic(inputs, part, block, layer, beside, placed, again=again.dispatched)
    traffic = (tensor, experts, context)
    for axis in traffic:
        waits = (TimeByCategory(**{axis.axis: time}) for time in (axis.forward, axis.backward))
        layer = layer + ForwardBackward(*waits)
    return LayerWork(launched(inputs, structure, kind, again, layer, _calls(tensor, block.tp), inside), traffic)


def _calls(traffic: LayerTraffic, tp: Number) -> tuple[Number, Number]:
    """Collectives that a layer issues forward and backward; zero without tensor parallelism."""
    forward = sum(item.forward for item in traffic.exchanges)
    backward = sum(item.backward + item.again for item in traffic.exchanges)
    return np.where(tp > 1, forward, 0.0), np.where(tp > 1, backward, 0.0)
