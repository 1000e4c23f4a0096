"""One layer on a rank for one micro-batch: compute, exchanges, and launch overhead."""

from __future__ import annotations

import numpy as np

from costmodel.documents.schemas.model import Layers
from costmodel.equations.kernels.roofline import host_bound_time
from costmodel.estimate.machine.process_groups import LayerTraffic, group, strides
from costmodel.estimate.model.shards import shard
from costmodel.estimate.shared.plan_batch import (
    RECOMPUTE,
    Block,
    ForwardBackward,
    Structure,
    TimeByCategory,
    memoized,
    summed,
)
from costmodel.estimate.training.layer_kernels import attention_core_of, layer_pass, shared_experts
from costmodel.estimate.training.parallelism.context import context_traffic
from costmodel.estimate.training.parallelism.expert import ExpertWork, expert_groups, expert_pass, expert_traffic
from costmodel.estimate.training.parallelism.tensor import tensor_traffic
from costmodel.estimate.training.recompute import (
    RecomputedWork,
    recomputed_launches,
    recomputed_unpacks,
    recomputed_work,
)
from costmodel.estimate.training.stage_parameters import adapter_launches, local_tokens, packed_matrices
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class LayerWork:
    """Seconds of a layer in both directions, and its traffic."""

    both: ForwardBackward
    traffic: tuple[LayerTraffic, ...]


@memoized(*RECOMPUTE, "sequence_parallel", "cp_type", "order", "schedule")
def layer_work(inputs: TrainingInputs, block: Block, kind: Layers) -> LayerWork:
    """The work and the traffic of one layer."""
    structure, tp = block.structure, group(inputs, "tp", block.tp, 1.0)
    part = shard(inputs.model, kind, block.tp, block.ep, block.etp)
    layer = layer_pass(inputs, part, block)
    tokens, parallel = local_tokens(inputs, block), structure.sequence_parallel
    again = recomputed_work(inputs, structure, kind)
    tensor = tensor_traffic(inputs, tp, tokens, layer, kind, again, block.micro_batch, sequence_parallel=parallel)
    context = context_traffic(
        inputs,
        group(inputs, "cp", block.cp, strides(block)["cp"]),
        block,
        part,
        attention_core_of(again, layer),
        again=again.core,
    )
    experts, inside = LayerTraffic("ep"), expert_pass(inputs, part, block, again)
    if inside is not None:
        layer = layer + inside.both
        placed = expert_groups(inputs, block)
        beside = shared_experts(inputs, part, tokens, block.sequence_ranks)
        experts = expert_traffic(inputs, part, block, layer, beside, placed, again=again.dispatched)
    traffic = (tensor, experts, context)
    for axis in traffic:
        waits = (TimeByCategory(**{axis.axis: time}) for time in (axis.forward, axis.backward))
        layer = layer + ForwardBackward(*waits)
    return LayerWork(
        with_launch_wait(inputs, structure, kind, again, layer, _collective_calls(tensor, block.tp), inside), traffic
    )


def _collective_calls(traffic: LayerTraffic, tp: Number) -> tuple[Number, Number]:
    """Numbers of collectives that a layer launches forward and backward; 0 without tensor parallelism."""
    forward = sum(exchange.forward for exchange in traffic.exchanges)
    backward = sum(exchange.backward + exchange.again for exchange in traffic.exchanges)
    return np.where(tp > 1, forward, 0.0), np.where(tp > 1, backward, 0.0)


def with_launch_wait(
    inputs: TrainingInputs,
    structure: Structure,
    kind: Layers,
    again: RecomputedWork,
    layer: ForwardBackward,
    calls: tuple[Number, Number],
    experts: ExpertWork | None = None,
) -> ForwardBackward:
    """Seconds of a layer, with the time that the device waits for the host to launch kernels.

    Backward launches twice as many operations, and recompute launches them again.

    calls: collectives that the host launches, forward and backward, in addition to the operations
    experts: launched one by one; in forward only once their token counts are known
    """
    operations = inputs.stack.launch.operations
    passes = 1.0 + adapter_launches(inputs, kind) if inputs.tuning is not None else 1.0
    backward = 2.0 * passes + recomputed_launches(inputs, structure, kind, again)
    unpacked = sum(1.0 for _ in packed_matrices(inputs, kind))
    twice = unpacked + recomputed_unpacks(inputs, kind, again)
    first = passes * operations + unpacked + calls[0]
    second = backward * operations + twice + calls[1]
    inside, ahead, behind = (experts.both.forward.device, experts.ahead, experts.behind) if experts else (0.0, 0.0, 0.0)
    once_more = again.routed * ahead
    if experts is None or not experts.waits:
        forward = _one_direction_with_launch_wait(inputs, layer.forward, first, ahead)
        return ForwardBackward(
            forward,
            _one_direction_with_launch_wait(inputs, layer.backward, second, summed(behind, once_more)),
            layer.weight,
        )
    forward = _one_direction_with_launch_wait(inputs, layer.forward, first, apart=(inside, ahead))
    apart = (again.routed * inside, once_more) if again.routed else None
    return ForwardBackward(
        forward, _one_direction_with_launch_wait(inputs, layer.backward, second, behind, apart), layer.weight
    )


def _one_direction_with_launch_wait(
    inputs: TrainingInputs,
    work: TimeByCategory,
    operations: Number,
    experts: Number = 0.0,
    apart: tuple[Number, Number] | None = None,
) -> TimeByCategory:
    """Seconds of one direction, with the time that the device waits for the host to launch kernels.

    apart: device and host seconds of a part that the host launches only after everything before it has ended
    """
    busy = summed(work.device, work.tp, work.cp, work.ep)
    host = summed(operations * inputs.stack.launch.each, experts)
    if apart is None:
        return work + TimeByCategory(launch=host_bound_time(busy, host) - busy)
    inside, issued = apart
    beside = busy - inside
    with term("experts"):
        waited = host_bound_time(inside, issued) - inside
    return work + TimeByCategory(launch=host_bound_time(beside, host) - beside + waited)
